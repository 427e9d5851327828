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
    let text = begin.trim_ascii_start();
    let is_note = || {
        let mut lines = text.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_end);
        let first = lines.find(|l| !l.is_empty() && !l.starts_with(b"---") && !l.starts_with(b"#"));
        first.is_some_and(|l| !FIRST.iter().any(|key| l.starts_with(key)))
    };
    BEGINS.iter().any(|b| text.starts_with(b)) && !(text.starts_with(b"---") && is_note())
}

/// Reads YAML documents as JSON documents, one per line. A document that is not YAML ends the input with an error.
pub(super) struct Documents<R> {
    inner: R,
    /// The current document; its unread rest is returned next.
    json: io::Cursor<Vec<u8>>,
    ended: bool,
}

impl<R: BufRead> Documents<R> {
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            json: io::Cursor::default(),
            ended: false,
        }
    }

    /// Reads the lines up to the next `---`.
    fn document(&mut self) -> io::Result<Vec<u8>> {
        let mut document = Vec::new();
        let mut line = Vec::new();
        loop {
            line.clear();
            self.ended = (&mut self.inner)
                .take(LONGEST as u64)
                .read_until(b'\n', &mut line)?
                == 0;
            let between = line
                .strip_prefix(b"---")
                .is_some_and(|r| r.trim_ascii().is_empty());
            if self.ended || between {
                return Ok(document);
            }
            if document.len() + line.len() > LONGEST {
                return Err(bad("a YAML document of more than 256 MiB"));
            }
            document.extend_from_slice(&line);
        }
    }
}

impl<R: BufRead> Read for Documents<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let n = self.json.read(buf)?;
            if n > 0 || self.ended || buf.is_empty() {
                return Ok(n);
            }
            let document = self.document()?;
            if !document.trim_ascii().is_empty() {
                self.json = io::Cursor::new(json(&document)?);
            }
        }
    }
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
    fn aliases_do_not_multiply_without_end() {
        let mut bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 1..12 {
            let of = format!("*a{}", n - 1);
            bomb += &format!("a{n}: &a{n} [{}]\n", [of.as_str(); 10].join(","));
        }
        assert!(read(&bomb).is_err());
    }
}
