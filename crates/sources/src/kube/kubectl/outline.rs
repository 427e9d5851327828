//! The outline that `kubectl describe` prints: `Key:  value`, with what belongs to a key indented below it.

/// One line, with the lines that are indented below it.
#[derive(Debug, Default)]
pub(super) struct Line<'a> {
    /// The whole line, without white space at its ends.
    pub(super) text: &'a str,
    /// What stands before the colon; empty for a line without one.
    pub(super) key: &'a str,
    /// What stands after the colon, trimmed; the whole text of a line without one.
    pub(super) value: &'a str,
    pub(super) below: Vec<Line<'a>>,
}

/// Most levels. Deeper lines count as of this level: `describe` has six.
const DEEPEST: usize = 16;

impl<'a> Line<'a> {
    fn new(text: &'a str) -> Self {
        // A colon ends a key only before white space or at the end: `http://…` and `a:b` are values.
        let colon = text
            .match_indices(':')
            .find(|(at, _)| text.get(at + 1..).is_none_or(starts_blank))
            .map(|(at, _)| at);
        let (key, value) = match colon.and_then(|at| text.split_at_checked(at)) {
            Some((key, value)) => (key, value.trim_start_matches(':').trim()),
            None => ("", text),
        };
        Self {
            text,
            key,
            value,
            below: Vec::new(),
        }
    }

    /// Returns the first line below with this key.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        get(&self.below, key)
    }

    /// Returns the value below this key; `None` if it is missing, empty, or one of kubectl's words for that.
    pub(super) fn value(&self, key: &str) -> Option<&'a str> {
        value(&self.below, key)
    }

    /// Returns the value and the texts below: what kubectl prints as a list, the first entry beside the key.
    pub(super) fn entries(&self) -> impl Iterator<Item = &'a str> {
        std::iter::once(self.value)
            .chain(self.below.iter().map(|l| l.text))
            .filter(|v| is_told(v))
    }
}

pub(super) fn get<'l, 'a>(lines: &'l [Line<'a>], key: &str) -> Option<&'l Line<'a>> {
    lines.iter().find(|l| l.key == key)
}

pub(super) fn value<'a>(lines: &[Line<'a>], key: &str) -> Option<&'a str> {
    get(lines, key).map(|l| l.value).filter(|v| is_told(v))
}

fn is_told(value: &str) -> bool {
    !matches!(value, "" | "<none>" | "<nil>" | "<unset>" | "<unknown>")
}

fn starts_blank(text: &str) -> bool {
    text.is_empty() || text.starts_with(char::is_whitespace)
}

/// Number of columns that a line is indented by. A tab goes to the next multiple of eight.
pub(super) fn indent(line: &str) -> usize {
    let mut column = 0;
    for c in line.chars() {
        match c {
            ' ' => column += 1,
            '\t' => column = (column / 8 + 1) * 8,
            _ => break,
        }
    }
    column
}

/// Reads lines as an outline. Blank lines are left out.
pub(super) fn read<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Line<'a>> {
    // The lines above the current one, the outermost first, each with its indent.
    let mut open: Vec<(usize, Line<'a>)> = Vec::new();
    let mut done: Vec<Line<'a>> = Vec::new();
    for raw in lines {
        let text = raw.trim();
        if text.is_empty() {
            continue;
        }
        let depth = indent(raw);
        while open.last().is_some_and(|(d, _)| *d >= depth) || open.len() >= DEEPEST {
            close(&mut open, &mut done);
        }
        open.push((depth, Line::new(text)));
    }
    while !open.is_empty() {
        close(&mut open, &mut done);
    }
    done
}

/// Puts the innermost open line below the one that it belongs to.
fn close<'a>(open: &mut Vec<(usize, Line<'a>)>, done: &mut Vec<Line<'a>>) {
    if let Some((_, line)) = open.pop() {
        match open.last_mut() {
            Some((_, above)) => above.below.push(line),
            None => done.push(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_indented_belongs_to_the_line_above() {
        let text = "Name:  web\nLabels:  a=b\n         c=d\nContainers:\n  web:\n    Image:  reg:5000/x\n    State:  Waiting\n      Reason:  X\n\nEvents:  <none>\n";
        let lines = read(text.lines());
        assert_eq!(value(&lines, "Name"), Some("web"));
        let labels: Vec<&str> = get(&lines, "Labels").unwrap().entries().collect();
        assert_eq!(labels, ["a=b", "c=d"]);
        let web = get(&lines, "Containers").unwrap().get("web").unwrap();
        assert_eq!(web.value("Image"), Some("reg:5000/x"));
        assert_eq!(web.get("State").unwrap().value("Reason"), Some("X"));
        assert_eq!(value(&lines, "Events"), None);
    }

    #[test]
    fn no_depth_and_no_colon_is_too_much() {
        let deep: Vec<String> = (0..1000).map(|n| " ".repeat(n) + "a:").collect();
        assert_eq!(read(deep.iter().map(String::as_str)).len(), 1);
        assert_eq!(read([":", "::", "a::b", "\u{a0}", "é: x"]).len(), 4);
    }
}
