//! Values of JSON within a text, also cut ones.

use super::is_ellipsis;

/// What was read from a line on.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// The values, completed where they are cut.
    pub(super) values: Vec<String>,
    /// The line behind them.
    pub(super) end: usize,
}

/// Returns the column at which a value of JSON may begin in a line: an object, a list of such, a key with its value, or an
/// object behind other text, as logs have them.
pub(super) fn begins(line: &str) -> Option<usize> {
    let text = line.trim_start();
    let column = line.len() - text.len();
    let is_key = || {
        text.starts_with('"')
            && text
                .get(1..)
                .and_then(after_string)
                .is_some_and(|rest| rest.trim_start().starts_with(':'))
    };
    let is_object = text.starts_with('{')
        && matches!(text.get(1..).map(str::trim_start), Some(rest) if rest.is_empty() || rest.starts_with(['"', '}']));
    let is_list = text
        .strip_prefix('[')
        .map(str::trim_start)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('{'));
    if is_object || is_list || is_key() {
        return Some(column);
    }
    line.find("{\"").filter(|at| *at > 0)
}

/// Returns what stands behind a text whose first quotation mark is passed.
fn after_string(text: &str) -> Option<&str> {
    let mut is_escaped = false;
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'"' if !is_escaped => return text.get(at + 1..),
            b'\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    None
}

/// Reads values from a place on, up to what is no JSON.
pub(super) fn read<'a>(
    begin: usize,
    column: usize,
    clean: &dyn Fn(usize) -> Option<&'a str>,
) -> Piece {
    let mut scan = Scan::default();
    let mut at = begin;
    let mut from = column;
    while let Some(line) = clean(at) {
        let is_blank = line.trim().is_empty();
        if at > begin && (is_blank && scan.open.is_empty() || scan.is_done(line)) {
            break;
        }
        at += 1;
        if !is_ellipsis(line) && !scan.line(line.get(from..).unwrap_or_default()) {
            break;
        }
        from = 0;
    }
    scan.end();
    Piece {
        values: scan.values,
        end: at,
    }
}

#[derive(Debug, Default)]
struct Scan {
    values: Vec<String>,
    /// The value that is being read.
    now: String,
    /// What closes the brackets that are open, the innermost last.
    open: Vec<char>,
    /// True where a brace was put before a key.
    is_bare: bool,
    /// Length of `now` up to which it is whole.
    whole: usize,
    /// True behind a key, in an object; in a list always.
    has_key: bool,
}

impl Scan {
    /// True for a line that no JSON has, where all values before it have ended.
    fn is_done(&self, line: &str) -> bool {
        let text = line.trim_start();
        let goes_on =
            text.starts_with(['{', '}', ']', ',']) || super::json::begins(text) == Some(0);
        (self.open.is_empty() || self.is_bare && self.open.len() == 1) && !goes_on
    }

    /// Takes a line, without what stands before the value in it. False where the value ends within it for something else.
    fn line(&mut self, line: &str) -> bool {
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let behind = rest.get(c.len_utf8()..).unwrap_or_default();
            if self.open.is_empty() {
                match c {
                    '{' | '[' => {}
                    '"' => {
                        self.now.push('{');
                        self.open.push('}');
                        self.is_bare = true;
                        self.whole = self.now.len();
                    }
                    // Of what began before the text did.
                    '}' | ']' | ',' | ' ' | '\t' => {
                        rest = behind;
                        continue;
                    }
                    _ => return false,
                }
            }
            rest = match c {
                '"' => {
                    let Some(after) = after_string(behind) else {
                        self.cut(rest);
                        return false;
                    };
                    let text = rest.get(..rest.len() - after.len()).unwrap_or_default();
                    self.now.push_str(text);
                    if self.has_key || self.open.last() == Some(&']') {
                        self.whole = self.now.len();
                    }
                    after
                }
                '{' | '[' => {
                    self.now.push(c);
                    self.open.push(if c == '{' { '}' } else { ']' });
                    self.has_key = false;
                    self.whole = self.now.len();
                    behind
                }
                '}' | ']' => {
                    self.close();
                    behind
                }
                ',' => {
                    self.whole = self.now.len();
                    self.now.push(c);
                    self.has_key = false;
                    behind
                }
                ':' => {
                    self.now.push(c);
                    self.has_key = true;
                    behind
                }
                c if c.is_whitespace() || c.is_ascii_alphanumeric() || "+-.".contains(c) => {
                    self.now.push(c);
                    behind
                }
                _ => {
                    self.end();
                    return false;
                }
            };
        }
        if !self.open.is_empty() {
            self.now.push('\n');
        }
        true
    }

    /// Takes a text that is cut: of a key nothing is told, of a value its begin.
    fn cut(&mut self, text: &str) {
        if self.has_key {
            self.now.push_str(text.trim_end_matches('\\'));
            self.now.push('"');
            self.whole = self.now.len();
        }
        self.end();
    }

    /// Closes the innermost bracket, whichever it is.
    fn close(&mut self) {
        let Some(bracket) = self.open.pop() else {
            return;
        };
        let kept = self.now.trim_end().trim_end_matches(',').len();
        self.now.truncate(kept);
        self.now.push(bracket);
        self.whole = self.now.len();
        self.has_key = false;
        if self.open.is_empty() {
            self.values.push(std::mem::take(&mut self.now));
            self.is_bare = false;
            self.whole = 0;
        }
    }

    /// Completes a value that is cut.
    fn end(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let tail = self.now.get(self.whole..).unwrap_or_default().trim_end();
        // A number or a word may be cut, unless it ends its line.
        let is_told = tail.contains(':') && !tail.ends_with(':');
        if !(self.is_bare && self.open.len() == 1 && is_told) {
            self.now.truncate(self.whole);
        }
        while !self.open.is_empty() {
            self.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> (Vec<String>, usize) {
        let lines: Vec<&str> = text.lines().collect();
        let clean = |at: usize| lines.get(at).copied();
        let first = lines.first().copied().unwrap_or_default();
        let Some(column) = begins(first) else {
            return (Vec::new(), 0);
        };
        let piece = read(0, column, &clean);
        let compact = |v: &String| {
            let value: serde_json::Value = serde_json::from_str(v).unwrap();
            value.to_string()
        };
        (piece.values.iter().map(compact).collect(), piece.end)
    }

    #[test]
    fn what_is_cut_is_completed() {
        for (text, want, end) in [
            ("{\"a\": 1}", &["{\"a\":1}"][..], 1),
            (
                "{\n  \"a\": [1, 2],\n  \"b\": {}\n}\nprose",
                &["{\"a\":[1,2],\"b\":{}}"],
                4,
            ),
            // Within a message, a key, a list.
            (
                "{\n  \"a\": \"Node didn't have enou",
                &["{\"a\":\"Node didn't have enou\"}"],
                2,
            ),
            ("{\"a\": \"x\", \"messa", &["{\"a\":\"x\"}"], 1),
            (
                "{\"a\": [{\"b\": 1}, {\"c\":",
                &["{\"a\":[{\"b\":1},{}]}"],
                1,
            ),
            ("{\"a\": \"x\\", &["{\"a\":\"x\"}"], 1),
            // Without its begin.
            (
                "\"state\": {\n  \"waiting\": {\"reason\": \"X\"}\n},\n\nprose",
                &["{\"state\":{\"waiting\":{\"reason\":\"X\"}}}"],
                3,
            ),
            ("\"a\": 1,\n\"b\": 2\nprose", &["{\"a\":1,\"b\":2}"], 2),
            (
                "\"a\": \"x\"\n},\n{\n\"b\": 2\n}\n],\n\"c\": []\n",
                &["{\"a\":\"x\"}", "{\"b\":2}", "{\"c\":[]}"],
                7,
            ),
            // Left out.
            ("{\"a\": 1,\n...\n\"b\": 2}", &["{\"a\":1,\"b\":2}"], 3),
            // Behind a log's own words.
            ("2021-02-26 info {\"a\": 1}", &["{\"a\":1}"], 1),
            (
                "{\"a\": 1}{\"b\": 2}\n{\"c\": 3}",
                &["{\"a\":1}", "{\"b\":2}", "{\"c\":3}"],
                2,
            ),
            ("{ we do not know }", &[], 0),
            ("[root@n1 ~]# ls", &[], 0),
            ("\"quoted\" prose: x", &[], 0),
        ] {
            let (got, at) = values(text);
            assert_eq!(
                (got, at),
                (want.iter().map(|w| (*w).to_owned()).collect(), end),
                "{text}"
            );
        }
    }
}
