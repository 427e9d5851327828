//! The filter language for readers: the text of `kflow filter`, and the tables of the page `docs/filter.md`.

use super::{CallRecord, FIELDS, FLAGS, Field, NUMBERS, Number, PodRecord};

/// The forms of an expression, and what each means.
const FORMS: &[(&str, &str)] = &[
    (
        "field:value",
        "the whole value; upper and lower case are the same; = is the same as :",
    ),
    ("field:web*", "* stands for any characters, ? for one"),
    ("field~part", "the value contains this"),
    (
        "field:/regex/",
        "a regular expression finds something in the value",
    ),
    ("field!=value", "not this value"),
    ("number>value", "a number; also >=, <, <=, = and !="),
    (
        "word",
        "any field contains the word (but Events' reasons); with * or ? any field is it",
    ),
    (
        "\"two words\"",
        "a text with spaces, |, & or parentheses, also after a field",
    ),
    ("a b", "both; also a & b, a and b"),
    (
        "a | b",
        "one of them; also a or b; and binds closer than or",
    ),
    ("!a", "not; also -a, not a"),
    ("(a | b) c", "parentheses group"),
];

/// Expressions that can be typed, and what each finds.
const EXAMPLES: &[(&str, &str)] = &[
    ("method:RunPodSandbox dur>2s", "long calls of a method"),
    (
        "pod:shop/web* !ok",
        "calls about some pods that failed, or have not ended",
    ),
    (
        "inflight dur>1m",
        "calls that have been in flight for more than a minute",
    ),
    (
        "msg~\"no such\" | code:NotFound",
        "calls that say that something is not there",
    ),
    (
        "code:/Not(Found|Ready)/ -noise",
        "by a regular expression, without the loops' own calls",
    ),
    ("owner:web age<1h restarts>2", "pods of an owner"),
];

/// A table: its title, what is said above it, its heads, and its rows.
pub struct Table {
    pub title: &'static str,
    pub above: String,
    pub heads: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
}

/// Returns the language in tables.
pub fn tables() -> Vec<Table> {
    let pairs = |all: &[(&str, &str)]| -> Vec<Vec<String>> {
        let rows = all.iter();
        rows.map(|(a, b)| vec![(*a).to_owned(), (*b).to_owned()])
            .collect()
    };
    let mut values = Vec::new();
    for field in [Field::Source, Field::Stage, Field::Kind] {
        let all = field.values().unwrap_or_default();
        values.push(format!("`{}`: {}.", field.name(), all.join(", ")));
    }
    vec![
        Table {
            title: "Expressions",
            above: "An expression is a row of terms, all of which have to hold. In the terminal, words alone also find names that \
                    have their letters in this order, below what has the words."
                .to_owned(),
            heads: &["form", "holds when"],
            rows: pairs(FORMS),
        },
        Table {
            title: "Words",
            above: "Words with a meaning of their own. In quotes they are text. `inflight` can be written `in-flight`."
                .to_owned(),
            heads: &["word", "holds when"],
            rows: FLAGS
                .iter()
                .map(|(_, name, help)| vec![(*name).to_owned(), (*help).to_owned()])
                .collect(),
        },
        Table {
            title: "Fields",
            above: format!(
                "`calls --filter` takes those of calls, `stats --filter` those of pods; the terminal (`/`) takes all. \
                 `pod` with a UID finds the pod of that UID. {}",
                values.join(" ")
            ),
            heads: &["field", "of", "meaning"],
            rows: FIELDS
                .iter()
                .map(|(field, name, help)| {
                    let of = of(CallRecord::FIELDS.contains(field), PodRecord::FIELDS.contains(field));
                    vec![(*name).to_owned(), of, (*help).to_owned()]
                })
                .collect(),
        },
        Table {
            title: "Numbers",
            above: "A length needs a unit (`250ms`, `2s`, `1m30s`, `1.5h`, `2d`); a size may have one (`64KiB`, `16M`, \
                    `2GB`)."
                .to_owned(),
            heads: &["number", "of", "meaning"],
            rows: NUMBERS
                .iter()
                .map(|(number, name, help)| {
                    let number: &Number = number;
                    let of = of(CallRecord::NUMBERS.contains(number), PodRecord::NUMBERS.contains(number));
                    vec![(*name).to_owned(), of, (*help).to_owned()]
                })
                .collect(),
        },
        Table {
            title: "For example",
            above: "In a shell an expression stands in single quotes.".to_owned(),
            heads: &["expression", "finds"],
            rows: pairs(EXAMPLES),
        },
    ]
}

fn of(calls: bool, pods: bool) -> String {
    match (calls, pods) {
        (true, true) => "calls, pods",
        (true, false) => "calls",
        (false, true) => "pods",
        (false, false) => "terminal",
    }
    .to_owned()
}

/// Columns of the text.
const WIDTH: usize = 96;

/// Returns the language as text, for a terminal.
pub fn text() -> String {
    let mut out = String::new();
    for table in tables() {
        out.push_str(&format!("{}: ", table.title));
        let mut column = table.title.len() + 2;
        for word in table.above.replace('`', "").split_whitespace() {
            if column + word.len() >= WIDTH {
                out.push('\n');
                column = 0;
            }
            out.push_str(word);
            out.push(' ');
            column += word.len() + 1;
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        let width = |i: usize| {
            let cells = table.rows.iter().filter_map(|r| r.get(i));
            cells.map(|c| c.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..table.heads.len()).map(width).collect();
        for row in &table.rows {
            let cells = row.iter().zip(&widths).map(|(c, w)| format!("{c:w$}"));
            let cells: Vec<String> = cells.collect();
            out.push_str(&format!("  {}\n", cells.join("  ").trim_end()));
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::parse;

    #[test]
    fn every_example_is_an_expression() {
        for (example, _) in EXAMPLES {
            let query = parse(example).expect(example);
            let of_calls = query.foreign(CallRecord::FIELDS, CallRecord::NUMBERS);
            let of_pods = query.foreign(PodRecord::FIELDS, PodRecord::NUMBERS);
            assert!(of_calls.is_none() || of_pods.is_none(), "{example}");
        }
    }

    #[test]
    fn no_line_is_too_long_for_a_terminal() {
        for line in text().lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }
}
