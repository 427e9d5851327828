//! The filter that is typed after `/`: words that stand in any field, or whose letters stand in the name in this order
//! (fuzzy), `/re/` or words with regex signs, `!inverse`, `-l label=value`, or
//! an expression.

use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern as Fuzzy};
use nucleo_matcher::{Config, Matcher, Utf32Str};
use regex::{Regex, RegexBuilder};
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation as _;

use kflow_core::query::{Op, Pattern, Query, Record};

/// A filter of a list.
#[derive(Debug, Default)]
pub struct Filter {
    text: String,
    kind: Kind,
}

#[derive(Debug, Default)]
enum Kind {
    #[default]
    All,
    Words(Box<Words>),
    Regex(Regex, bool),
    Labels(Vec<(String, Option<String>, bool)>),
    Query(Query),
}

/// Added to the score of what has the words, which comes before what has only their letters.
const WORDS: u32 = 1 << 30;

/// Words of the filter, all of which have to match.
#[derive(Debug)]
struct Words {
    /// They stand in fields, as in the expression language.
    anywhere: Query,
    /// Their letters stand in the name, in this order.
    fuzzy: Fuzzy,
    matcher: std::cell::RefCell<Matcher>,
}

impl Words {
    fn parse(text: &str) -> Result<Self, String> {
        let word = |w| Pattern::new(w, Op::Contains).map(Query::Word);
        let words: Result<_, _> = text.split_whitespace().map(word).collect();
        Ok(Self {
            anywhere: Query::And(words?),
            fuzzy: Fuzzy::parse(text, CaseMatching::Ignore, Normalization::Smart),
            matcher: std::cell::RefCell::new(Matcher::new(Config::DEFAULT.match_paths())),
        })
    }
    fn score(&self, name: &str, record: &dyn Record) -> Option<u32> {
        let mut buf = Vec::new();
        let name = Utf32Str::new(name, &mut buf);
        let fuzzy = self.fuzzy.score(name, &mut self.matcher.borrow_mut());
        if self.anywhere.matches(record) {
            Some(fuzzy.unwrap_or(0).saturating_add(WORDS))
        } else {
            fuzzy
        }
    }
    fn parts(&self, text: &str, out: &mut Vec<Range<usize>>) {
        self.anywhere.parts(text, out);
        if !out.is_empty() {
            return;
        }
        let (mut buf, mut chars) = (Vec::new(), Vec::new());
        let hay = Utf32Str::new(text, &mut buf);
        (self.fuzzy).indices(hay, &mut self.matcher.borrow_mut(), &mut chars);
        // The matcher returns indices of graphemes, in any order.
        let at = text.grapheme_indices(true);
        let found = at
            .enumerate()
            .filter(|(n, _)| u32::try_from(*n).is_ok_and(|n| chars.contains(&n)));
        out.extend(found.map(|(_, (at, g))| at..at + g.len()));
    }
}

impl Filter {
    /// Parses what was typed, or returns what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let t = text.trim();
        let kind = if t.is_empty() {
            Kind::All
        } else if let Some(labels) = t.strip_prefix("-l") {
            match parse_labels(labels) {
                none if none.is_empty() => Kind::All,
                labels => Kind::Labels(labels),
            }
        } else if let Some(re) = t
            .strip_prefix('/')
            .and_then(|r| r.strip_suffix('/'))
            .filter(|r| !r.is_empty())
        {
            Kind::Regex(compile(re)?, false)
        } else if let Some(re) = t.strip_prefix('!').filter(|r| !is_expression(r)) {
            Kind::Regex(compile(re)?, true)
        } else if is_expression(t) {
            Kind::Query(kflow_core::query::parse(t).map_err(|e| e.to_string())?)
        } else if t.contains(['^', '$', '|', '[', '(', '+', '\\']) || t.contains(".*") {
            Kind::Regex(compile(t)?, false)
        } else {
            let t = t.strip_prefix("-f").unwrap_or(t).trim();
            Kind::Words(Box::new(Words::parse(t)?))
        };
        Ok(Self {
            text: t.to_owned(),
            kind,
        })
    }
    /// Returns the text to filter by while the user is still typing: an unfinished value of a field is
    /// matched as a prefix.
    pub fn typed(text: &str) -> String {
        let more = format!("{text}*");
        let word = text.rsplit(char::is_whitespace).next().unwrap_or_default();
        let begun = word
            .split_once(':')
            .is_some_and(|(_, v)| !v.is_empty() && !v.contains(['*', '?', '/', '"', '\'', ')']));
        if begun && is_expression(text.trim()) && Self::parse(&more).is_ok() {
            more
        } else {
            text.to_owned()
        }
    }
    /// Returns true if the text may be an unfinished expression, label selector or field name, and so may mean
    /// something else once more is typed.
    pub fn may_go_on(&self) -> bool {
        use kflow_core::query::{FIELDS, FLAGS, NUMBERS};
        match &self.kind {
            Kind::All | Kind::Regex(..) => false,
            Kind::Labels(_) | Kind::Query(_) => true,
            Kind::Words(_) => {
                let begins = |name: &str| name.starts_with(&self.text);
                FIELDS.iter().any(|(f, ..)| begins(f.name()))
                    || NUMBERS.iter().any(|(n, ..)| begins(n.name()))
                    || FLAGS.iter().any(|(f, ..)| begins(f.name()))
            }
        }
    }
    /// Returns the text of the filter, trimmed.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Returns true if the filter lets everything pass.
    pub const fn is_all(&self) -> bool {
        matches!(self.kind, Kind::All)
    }
    /// Returns true if the expression has this word.
    pub fn has(&self, flag: kflow_core::query::Flag) -> bool {
        matches!(&self.kind, Kind::Query(q) if q.has(flag))
    }
    /// Returns true if [`score`](Self::score) uses the `name` that it is given.
    pub const fn needs_text(&self) -> bool {
        matches!(self.kind, Kind::Words(_) | Kind::Regex(..))
    }
    /// Returns true if the result depends on the current time, because the expression compares a duration or an age.
    pub fn depends_on_time(&self) -> bool {
        matches!(&self.kind, Kind::Query(q) if q.to_string().contains("dur") || q.to_string().contains("age"))
    }
    /// Returns the byte ranges of a text that the filter matched, in order.
    pub fn parts(&self, text: &str) -> Vec<Range<usize>> {
        let mut out = Vec::new();
        match &self.kind {
            Kind::All | Kind::Regex(_, true) | Kind::Labels(_) => {}
            Kind::Regex(r, false) => out.extend(r.find_iter(text).map(|m| m.range())),
            Kind::Query(q) => q.parts(text, &mut out),
            Kind::Words(w) => w.parts(text, &mut out),
        }
        out.sort_by_key(|r| r.start);
        out
    }
    /// Returns how well an item matches: `None` for no match; higher is better, and 0 where matches have no rank.
    pub fn score(
        &self,
        name: &str,
        labels: Option<&[(kflow_model::Text, kflow_model::Text)]>,
        record: &dyn Record,
    ) -> Option<u32> {
        match &self.kind {
            Kind::All => Some(0),
            Kind::Words(w) => w.score(name, record),
            Kind::Regex(r, inverse) => (r.is_match(name) != *inverse).then_some(0),
            Kind::Labels(want) => {
                let have = labels?;
                let holds = |(k, v, negated): &(String, Option<String>, bool)| {
                    let found = have
                        .iter()
                        .any(|(hk, hv)| hk == k && v.as_ref().is_none_or(|v| hv == v));
                    found != *negated
                };
                want.iter().all(holds).then_some(0)
            }
            Kind::Query(q) => q.matches(record).then_some(0),
        }
    }
}

fn compile(re: &str) -> Result<Regex, String> {
    RegexBuilder::new(re)
        .case_insensitive(true)
        .size_limit(1 << 20)
        .build()
        .map_err(|_| format!("\"{re}\" is not a regular expression"))
}

/// Returns true if the text is an expression: a known field name stands directly before an operator, or all words have
/// a meaning of their own.
fn is_expression(t: &str) -> bool {
    let mut words = t
        .split(|c: char| c.is_whitespace() || "()|&".contains(c))
        .map(|w| w.trim_start_matches(['!', '-']))
        .filter(|w| !w.is_empty() && !matches!(*w, "and" | "or" | "not"))
        .peekable();
    let flags =
        words.peek().is_some() && words.all(|w| kflow_core::query::Flag::parse(w).is_some());
    flags
        || t.split(|c: char| c.is_whitespace() || c == '(' || c == '|')
            .any(|w| {
                let w = w.trim_start_matches(['!', '-']);
                w.split_once([':', '~', '<', '>', '=', '!'])
                    .is_some_and(|(n, _)| {
                        kflow_core::query::Field::parse(n).is_some()
                            || kflow_core::query::Number::parse(n).is_some()
                    })
            })
}

/// Parses a label selector such as `app=web,tier!=db,canary` into (key, value, negated).
fn parse_labels(t: &str) -> Vec<(String, Option<String>, bool)> {
    t.split(',')
        .map(str::trim)
        .filter(|p| !p.is_empty())
        .map(|p| {
            if let Some((k, v)) = p.split_once("!=") {
                (k.trim().to_owned(), Some(v.trim().to_owned()), true)
            } else if let Some((k, v)) = p.split_once('=') {
                (
                    k.trim().to_owned(),
                    Some(v.trim_start_matches('=').trim().to_owned()),
                    false,
                )
            } else if let Some(k) = p.strip_prefix('!') {
                (k.to_owned(), None, true)
            } else {
                (p.to_owned(), None, false)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_core::correlate::PodView;
    use kflow_core::query::PodRecord;
    use kflow_model::Nanos;

    fn keeps(filter: &str) -> bool {
        let pod = PodView {
            namespace: "shop".into(),
            name: "web-7d9f".into(),
            node: "node1".into(),
            ..PodView::default()
        };
        let labels = [
            ("app".into(), "web".into()),
            ("tier".into(), "front".into()),
        ];
        let r = PodRecord {
            pod: &pod,
            verdict: ("KF911", "The node was low on memory."),
            now: Nanos(0),
        };
        Filter::parse(filter)
            .expect(filter)
            .score(&pod.key(), Some(&labels), &r)
            .is_some()
    }

    #[test]
    fn each_form_of_k9s_and_vim_is_understood() {
        for yes in [
            "",
            "web",
            "shpwb",
            "node1",
            "kf911 NODE1 web",
            "low",
            "^shop/web",
            "/we[b]/",
            "!^kube",
            "-l app=web",
            "-l app=web,tier!=db",
            "-l app",
            "-l",
            "ns:shop !ready",
            "pod:web*",
            "!ready",
            "!ready !gone",
            "ready | !ready",
            "-f web",
        ] {
            assert!(keeps(yes), "{yes}");
        }
        for no in [
            "db",
            "node2",
            "kf911 node2",
            "^web",
            "!web",
            "-l app=db",
            "-l !app",
            "ns:kube-system",
            "ready",
            "gone | ready",
        ] {
            assert!(!keeps(no), "{no}");
        }
        for (text, typed) in [
            ("pod:we", "pod:we*"),
            ("!ready ns:sh", "!ready ns:sh*"),
            ("pod:web*", "pod:web*"),
            ("dur>2s", "dur>2s"),
            ("pod:", "pod:"),
            ("web", "web"),
            ("pod:web ", "pod:web "),
        ] {
            assert_eq!(Filter::typed(text), typed);
        }
        for (text, more) in [
            ("me", true),
            ("pod:x", true),
            ("-l a", true),
            ("web", false),
        ] {
            assert_eq!(
                Filter::parse(text).map(|f| f.may_go_on()),
                Ok(more),
                "{text}"
            );
        }
        assert!(Filter::parse("[").is_err());
        assert!(Filter::parse("dur>soon").is_err());
    }
}
