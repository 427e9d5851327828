//! Turns API objects in YAML (`kubectl get … -o yaml`, OpenShift's must-gather) into the JSON lines
//! that their decoder reads.

use std::io::{self, BufRead, Read};

use kflow_sources::kube::decode::Unread;
use serde_json::Value;

/// Longest document that is taken, bytes. A list of 5,000 pods has about 50 MB.
const LONGEST: usize = 256 << 20;
/// First bytes of API objects and of lists of them in YAML.
const BEGINS: [&[u8]; 8] = [
    b"apiVersion:",
    b"kind:",
    b"items:",
    b"metadata:",
    // Not the ruler of a table: `----   ------`.
    b"---\n",
    b"---\r",
    b"--- ",
    b"- apiVersion:",
];

/// Keys that an object of the API may begin with.
const FIRST: [&[u8]; 7] = [
    b"apiVersion:",
    b"kind:",
    b"items:",
    b"metadata:",
    b"spec:",
    b"status:",
    b"- ",
];

/// True for what looks like objects of the API in YAML. A note may begin with `---` too, and a list of keys of its own.
pub(super) fn is(begin: &[u8]) -> bool {
    let mut text = begin.trim_ascii_start();
    // A tool, or somebody, says what it is.
    while text.starts_with(b"#")
        && let Some(end) = memchr::memchr(b'\n', text)
    {
        text = text.get(end..).unwrap_or_default().trim_ascii_start();
    }
    let is_note = || {
        let mut lines = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_end);
        let first = lines.find(|l| !l.is_empty() && !l.starts_with(b"---") && !l.starts_with(b"#"));
        first.is_some_and(|l| !FIRST.iter().any(|key| l.starts_with(key)))
    };
    BEGINS.iter().any(|b| text.starts_with(b)) && !(text.starts_with(b"---") && is_note())
}

/// Reads YAML documents as JSON documents, one per line. A list is read item by item, so that its tree is never there as a whole. A
/// document that is not YAML ends the input with an error; of a list, the items before that are there.
pub(super) struct Documents<R> {
    lines: Lines<R>,
    /// What was made of the lines so far; its unread rest is returned next.
    json: io::Cursor<Vec<u8>>,
    /// The list that is being read.
    list: Option<List>,
    /// The error with which the input ends.
    failed: Option<io::Error>,
}

/// A list whose items are being read.
struct List {
    /// Number of columns before the dash of each item.
    indent: usize,
    /// Number of items so far.
    items: usize,
    /// The other keys of the list.
    others: Vec<u8>,
}

/// The lines of documents, with the next one known.
struct Lines<R> {
    inner: R,
    next: Vec<u8>,
    ended: bool,
}

impl<R: BufRead> Lines<R> {
    /// Reads the next line into `next`, which is empty at the end of the input.
    fn advance(&mut self) -> io::Result<()> {
        self.next.clear();
        let from = &mut self.inner;
        let n = from
            .take(LONGEST as u64)
            .read_until(b'\n', &mut self.next)?;
        self.ended = n == 0;
        Ok(())
    }

    /// True at a line between documents, and at the end.
    fn is_between(&self) -> bool {
        let rest = self.next.strip_prefix(b"---");
        self.ended || rest.is_some_and(|r| r.trim_ascii().is_empty())
    }

    /// Moves lines to the end of `to`, as long as `is_more` and up to the end of the document.
    fn take(&mut self, to: &mut Vec<u8>, is_more: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        while !self.is_between() && is_more(&self.next) {
            if to.len() + self.next.len() > LONGEST {
                return Err(bad("a YAML document of more than 256 MiB"));
            }
            to.extend_from_slice(&self.next);
            self.advance()?;
        }
        Ok(())
    }
}

impl<R: BufRead> Documents<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            lines: Lines {
                inner,
                // As if a document had ended.
                next: b"---".to_vec(),
                ended: false,
            },
            json: io::Cursor::default(),
            list: None,
            failed: None,
        }
    }

    /// Reads on until there is JSON, or the input ends.
    fn advance(&mut self) -> io::Result<()> {
        if let Some(failed) = self.failed.take() {
            self.lines.ended = true;
            return Err(failed);
        }
        if let Some(mut list) = self.list.take() {
            match self.item(&mut list) {
                Ok(true) => self.list = Some(list),
                Ok(false) => {}
                Err(e) => {
                    self.json = io::Cursor::new(b"]}\n".to_vec());
                    self.failed = Some(e);
                }
            }
            return Ok(());
        }
        while self.lines.is_between() && !self.lines.ended {
            self.lines.advance()?;
        }
        let mut document = Vec::new();
        let is_item = |line: &[u8]| dash(line) == Some(0);
        self.lines.take(&mut document, |line| {
            !line.starts_with(b"items:") && !is_item(line)
        })?;
        let is_bare = is_item(&self.lines.next) && is_blank(&document);
        let is_items = self.lines.next.trim_ascii_end() == b"items:";
        let key = std::mem::take(&mut self.lines.next);
        if is_items {
            self.lines.advance()?;
        } else {
            self.lines.next.clone_from(&key);
        }
        match dash(&self.lines.next) {
            Some(indent) if is_bare || is_items => {
                if is_bare {
                    document = b"kind: List\n".to_vec();
                }
                self.json = io::Cursor::new(b"{\"items\":[".to_vec());
                self.list = Some(List {
                    indent,
                    items: 0,
                    others: document,
                });
            }
            _ => {
                if is_items {
                    document.extend_from_slice(&key);
                }
                self.lines.take(&mut document, |_| true)?;
                if !is_blank(&document) {
                    self.json = io::Cursor::new(json(&document)?);
                }
            }
        }
        Ok(())
    }

    /// Reads the next item of a list, or its end. Returns false at the end.
    fn item(&mut self, list: &mut List) -> io::Result<bool> {
        let mut text = Vec::new();
        let is_item = |line: &[u8]| dash(line) == Some(list.indent);
        if is_item(&self.lines.next) && !self.lines.is_between() {
            text.append(&mut self.lines.next);
            if let Some(dash) = text.get_mut(list.indent) {
                *dash = b' ';
            }
            self.lines.advance()?;
            // Whatever an item holds is indented more than its dash.
            let is_more = |line: &[u8]| {
                is_blank(line) || indent(line) > list.indent || line.starts_with(b"#")
            };
            self.lines.take(&mut text, is_more)?;
            let mut json = Vec::new();
            if list.items > 0 {
                json.push(b',');
            }
            list.items += 1;
            let value = read(&text).map_err(|e| {
                bad(&format!(
                    "not YAML that can be read: item {}: {e}",
                    list.items
                ))
            })?;
            serde_json::to_writer(&mut json, &value)?;
            self.json = io::Cursor::new(json);
            return Ok(true);
        }
        self.lines.take(&mut list.others, |_| true)?;
        let mut json = b"]".to_vec();
        let others =
            read(&list.others).map_err(|e| bad(&format!("not YAML that can be read: {e}")))?;
        if let Value::Object(others) = others {
            for (key, value) in others {
                json.push(b',');
                serde_json::to_writer(&mut json, &key)?;
                json.push(b':');
                serde_json::to_writer(&mut json, &value)?;
            }
        }
        json.extend_from_slice(b"}\n");
        self.json = io::Cursor::new(json);
        Ok(false)
    }
}

impl<R: BufRead> Read for Documents<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.json.read(buf)?;
            let is_end = self.lines.ended && self.list.is_none() && self.failed.is_none();
            if n > 0 || is_end || buf.is_empty() {
                return Ok(n);
            }
            self.advance()?;
        }
    }
}

fn is_blank(text: &[u8]) -> bool {
    text.trim_ascii().is_empty()
}

/// Number of blanks before a line.
fn indent(line: &[u8]) -> usize {
    line.iter().take_while(|b| **b == b' ').count()
}

/// Returns the column of the dash with which an item of a list begins.
fn dash(line: &[u8]) -> Option<usize> {
    let at = indent(line);
    let rest = line.get(at..)?.strip_prefix(b"-")?;
    (rest.starts_with(b" ") || is_blank(rest)).then_some(at)
}

/// Returns a document as one line of JSON, with a line feed. A bare list is wrapped in a `List`.
fn json(document: &[u8]) -> io::Result<Vec<u8>> {
    let value = read(document).map_err(|e| bad(&format!("not YAML that can be read: {e}")))?;
    let value = match value {
        Value::Array(items) => serde_json::json!({"kind": "List", "items": items}),
        value => value,
    };
    let mut line = serde_json::to_vec(&value)?;
    line.push(b'\n');
    Ok(line)
}

fn read(document: &[u8]) -> Result<Value, serde_saphyr::Error> {
    // No error quotes the document, which may hold secrets. Its size is bounded above, and its expansion by aliases
    // by the reader's own limits.
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_total_scalar_bytes: LONGEST,
        },
        strict_booleans: true,
        with_snippet: false,
    };
    serde_saphyr::from_slice_with_options(document, options)
}

/// Reads a document within a text.
pub(super) fn part(document: &str) -> Result<Value, Unread> {
    read(document.as_bytes()).map_err(|e| {
        let line = e.location().and_then(|at| usize::try_from(at.line()).ok());
        Unread(line)
    })
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<String, String> {
        let mut out = String::new();
        Documents::new(yaml.as_bytes())
            .read_to_string(&mut out)
            .map_err(|e| e.to_string())?;
        Ok(out)
    }

    #[test]
    fn documents_become_lines() {
        for (yaml, want) in [
            ("", ""),
            ("---\n\n---\n", ""),
            ("kind: Pod\n", "{\"kind\":\"Pod\"}\n"),
            (
                "---\nkind: Pod\na: 1\n---\nkind: Node\nb: \"1\"\n",
                "{\"a\":1,\"kind\":\"Pod\"}\n{\"b\":\"1\",\"kind\":\"Node\"}\n",
            ),
            (
                "- kind: Pod\n- kind: Node\n",
                "{\"items\":[{\"kind\":\"Pod\"},{\"kind\":\"Node\"}],\"kind\":\"List\"}\n",
            ),
            // As kubectl prints lists, with the list's kind behind its items.
            (
                "apiVersion: v1\nitems:\n- kind: Pod\n  a: |\n    - b\n\n    c\n- kind: Node\n  l:\n  - x\nkind: List\nmetadata:\n  resourceVersion: \"\"\n",
                "{\"items\":[{\"a\":\"- b\\n\\nc\\n\",\"kind\":\"Pod\"},{\"kind\":\"Node\",\"l\":[\"x\"]}],\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"\"}}\n",
            ),
            (
                "items:\n  - a: 'b\n\n      - c'\n  -\n    d: 1\nkind: PodList\n---\nkind: Pod\n",
                "{\"items\":[{\"a\":\"b\\n- c\"},{\"d\":1}],\"kind\":\"PodList\"}\n{\"kind\":\"Pod\"}\n",
            ),
            (
                "kind: List\nitems: []\n---\nitems:\nkind: List\n",
                "{\"items\":[],\"kind\":\"List\"}\n{\"items\":null,\"kind\":\"List\"}\n",
            ),
            // YAML 1.1's booleans (`yes`, `on`) and times are strings.
            (
                "a: yes\nb: true\nc: on\nd: 2026-11-21T00:00:00Z\n",
                "{\"a\":\"yes\",\"b\":true,\"c\":\"on\",\"d\":\"2026-11-21T00:00:00Z\"}\n",
            ),
            (
                "message: |\n  one\n  --- two\n",
                "{\"message\":\"one\\n--- two\\n\"}\n",
            ),
        ] {
            assert_eq!(read(yaml).as_deref(), Ok(want), "{yaml}");
        }
    }

    #[test]
    fn what_is_not_yaml_is_told_without_quoting_it() {
        for yaml in [
            "kind: [Pod\npassword: hunter2\n",
            "kind: \"hunter2\nb: c: d\n",
        ] {
            let said = read(yaml).unwrap_err();
            assert!(said.starts_with("not YAML"), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        }
    }

    #[test]
    fn the_items_before_an_error_are_there() {
        let list = "items:\n- kind: Pod\n- kind: [Pod\n- kind: Node\nkind: List\n";
        let mut documents = Documents::new(list.as_bytes());
        let mut out = Vec::new();
        let said = documents.read_to_end(&mut out).unwrap_err().to_string();
        assert!(said.contains("item 2"), "{said}");
        assert_eq!(out, b"{\"items\":[{\"kind\":\"Pod\"}]}\n");
        assert_eq!(documents.read_to_end(&mut out).unwrap(), 0);
    }

    #[test]
    fn aliases_do_not_multiply_without_end() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..12 {
            let of = format!("*a{}", n - 1);
            bomb += &format!("a{n}: &a{n} [{}]\n", [of.as_str(); 10].join(","));
        }
        assert!(read(&bomb).is_err());
    }
}
