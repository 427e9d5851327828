//! One log record: makes a [`LogLine`] of message and fields, and finds pods and containers in them.

use std::borrow::Cow;

use crate::logtext::{
    FIELD_MAX, FIELDS_MAX, MESSAGE_MAX, Pairs, Value, bare_id, cut, cut_error, field, fill,
    is_hex_id, is_uid, pod_list, pod_value, scan_prose, unquote,
};
use kflow_model::log::{Component, LogLine, Severity};
use kflow_model::{PodRef, Text};

/// A record that is being put together.
#[derive(Debug)]
pub(super) struct Record {
    /// Its fields are kept in `fields` until the record is complete.
    line: LogLine,
    fields: Vec<(Text, Text)>,
    /// The value of `object=`, which names the pod if `kind=` is Pod; decided when the record is complete.
    object: Text,
    /// The value of `podNamespace=`.
    namespace: Text,
    structured: bool,
    /// Key of a block value whose lines are still coming, and the text so far.
    block: Option<(String, String)>,
}

impl Record {
    pub(super) fn new(component: Component, severity: Severity, location: &str) -> Self {
        Self {
            line: LogLine {
                location: location.into(),
                ..LogLine::new(component, severity, "")
            },
            fields: Vec::new(),
            object: Text::default(),
            namespace: Text::default(),
            structured: true,
            block: None,
        }
    }

    /// Reads what follows a text header. Returns false when the message itself is cut off: nothing can be said then.
    pub(super) fn text(&mut self, rest: &str) -> bool {
        if let Some(body) = rest.strip_prefix('"') {
            match unquote(body) {
                // `"text" key=value`, or nothing more. `"a" and "b" differ` is prose.
                Some((message, pairs)) if pairs.is_empty() || begins_pair(pairs) => {
                    self.message(&message);
                    self.pairs(pairs);
                    return true;
                }
                Some(_) => {}
                None => return false,
            }
        }
        self.structured = false;
        self.message(rest);
        true
    }

    pub(super) fn message(&mut self, text: &str) {
        self.line.message = cut(text.trim_end(), MESSAGE_MAX);
    }

    /// Marks the message as free text, in which pods are searched for.
    pub(super) fn prose(&mut self) {
        self.structured = false;
    }

    pub(super) fn severity(&mut self, severity: Severity) {
        self.line.severity = severity;
    }

    fn pairs(&mut self, pairs: &str) {
        for (key, value) in Pairs(pairs) {
            match value {
                Value::Text(v) => self.put(key, v),
                Value::Nested(v) => self.put(key, Cow::Borrowed(v)),
                Value::Block => self.block = Some((key.to_owned(), String::new())),
                Value::Cut => {}
            }
        }
    }

    /// True while lines of a block value are expected.
    pub(super) const fn open(&self) -> bool {
        self.block.is_some()
    }

    /// Adds a line that belongs to the record: part of a block, or more prose.
    pub(super) fn more(&mut self, line: &str) {
        let Some((key, text)) = &mut self.block else {
            if self.line.message.len() < MESSAGE_MAX {
                let joined = format!("{}\n{line}", self.line.message);
                self.line.message = cut(&joined, MESSAGE_MAX);
            }
            return;
        };
        // ` >` ends the block, further pairs may follow. journald may have eaten the space.
        let end = line.strip_prefix(' ').unwrap_or(line);
        if let Some(pairs) = end.strip_prefix('>')
            && (pairs.is_empty() || pairs.starts_with(' '))
        {
            let (key, text) = (std::mem::take(key), std::mem::take(text));
            self.block = None;
            self.put(&key, Cow::Owned(text));
            let pairs = pairs.to_owned();
            self.pairs(&pairs);
            return;
        }
        if text.len() < 4 * FIELD_MAX {
            if !text.is_empty() {
                text.push('\n');
            }
            // journalctl's short forms print a tab as eight spaces.
            let inner = line.strip_prefix('\t');
            text.push_str(inner.or(line.strip_prefix("        ")).unwrap_or(line));
        }
    }

    /// Takes one field. A nested value is passed as its text.
    pub(super) fn put(&mut self, key: &str, value: Cow<'_, str>) {
        let l = &mut self.line;
        match key {
            "err" => l.error = cut_error(&value).into(),
            "pod" | "preemptor" => {
                if let Some(p) = pod_value(&value) {
                    let uid = std::mem::take(&mut l.pod.uid);
                    l.pod = p;
                    if l.pod.uid.is_empty() {
                        l.pod.uid = uid;
                    }
                } else if !value.is_empty() {
                    self.field(key, &value);
                }
            }
            "podUID" | "podID" if value.len() <= 128 => l.pod.uid = value.as_ref().into(),
            "podName" => match pod_value(&value) {
                Some(p) => {
                    if l.pod.name.is_empty() {
                        l.pod.name.clone_from(&p.name);
                    }
                    if l.pod.namespace.is_empty() {
                        l.pod.namespace.clone_from(&p.namespace);
                    }
                    if l.pod.uid.is_empty() {
                        l.pod.uid.clone_from(&p.uid);
                    }
                }
                None => self.field(key, &value),
            },
            "podNamespace" => self.namespace = cut(&value, 253),
            "pods" | "scheduledPods" => {
                let list = pod_list(&value);
                if list.is_empty() && value.as_ref() != "null" && value.as_ref() != "[]" {
                    // `pods=3`: a number of pods.
                    self.field(key, &value);
                }
                l_more(&mut self.line, list);
            }
            "victim" | "requestingPod" => l_more(l, pod_value(&value).into_iter().collect()),
            "containerName" | "container" | "initContainerName"
                if !value.starts_with(['{', '[']) =>
            {
                l.container = cut(&value, 253).into();
            }
            "containerID" | "containerId" | "containerStatusID" => match bare_id(&value) {
                Some(id) => l.container_id = id.into(),
                None if value.is_empty() => {}
                None => self.field(key, &value),
            },
            "object" => {
                self.object = cut(&value, 512);
                self.field(key, &value);
            }
            "event" => {
                self.event(&value);
                self.field(key, &value);
            }
            // Arguments of exec probes and hooks may hold secrets: only the program is kept.
            "execCommand" | "cmd" => {
                let first = value
                    .trim_start_matches(['[', '"'])
                    .split(['"', ' ', ','])
                    .next()
                    .unwrap_or_default();
                self.keep(key, cut(first, FIELD_MAX));
            }
            _ => self.field(key, &value),
        }
    }

    fn field(&mut self, key: &str, value: &str) {
        self.keep(key, field(key, value, FIELD_MAX));
    }

    fn keep(&mut self, key: &str, value: Text) {
        // The last of several values with the same key wins.
        if let Some(known) = self.fields.iter_mut().find(|(k, _)| k == key) {
            known.1 = value;
        } else if self.fields.len() < FIELDS_MAX {
            self.fields.push((cut(key, 128), value));
        }
    }

    /// Reads `event={"ID":"uid","Type":"ContainerStarted","Data":"id"}`, also as older kubelets print it.
    fn event(&mut self, v: &str) {
        let part = |name: &str| {
            let (_, after) = v.split_once(name)?;
            let word = after.trim_start_matches(['"', ':', ' ']);
            let end = word.find(['"', ' ', ',', '}']).unwrap_or(word.len());
            word.get(..end)
        };
        if let Some(uid) = part("ID").filter(|u| is_uid(u))
            && self.line.pod.uid.is_empty()
        {
            self.line.pod.uid = uid.into();
        }
        if let Some(id) = part("Data").filter(|d| is_hex_id(d))
            && self.line.container_id.is_empty()
        {
            self.line.container_id = id.into();
        }
    }

    /// Completes the record.
    pub(super) fn into_line(mut self) -> LogLine {
        if let Some((key, text)) = self.block.take() {
            // The end of the block never came: what arrived of it is kept.
            self.put(&key, Cow::Owned(text));
        }
        let mut l = self.line;
        l.fields = self.fields.into();
        if l.pod.namespace.is_empty() && !l.pod.name.is_empty() {
            l.pod.namespace = self.namespace;
        }
        if l.pod.is_empty() && !self.object.is_empty() && l.field("kind") == Some("Pod") {
            l.pod = pod_value(&self.object).unwrap_or_default();
        }
        // Prose is searched only where the fields leave something open.
        if l.pod.uid.is_empty() || l.pod.name.is_empty() {
            let prose = !self.structured || memchr::memchr(b'(', l.message.as_bytes()).is_some();
            let mut more = Vec::new();
            if prose {
                let found = scan_prose(&l.message);
                if let Some(id) = found.container_id
                    && l.container_id.is_empty()
                {
                    l.container_id = id.into();
                }
                more = fill(&mut l.pod, found.pods);
            }
            if l.pod.uid.is_empty() && !l.error.is_empty() {
                more.extend(fill(&mut l.pod, scan_prose(&l.error).pods));
            }
            if l.pod.is_empty() {
                for key in ["URI", "item", "path", "url", "dir"] {
                    let Some((_, v)) = l.fields.iter().find(|(k, _)| k == key) else {
                        continue;
                    };
                    let pods = scan_prose(v).pods;
                    more.extend(fill(&mut l.pod, pods));
                }
            }
            l.more_pods.extend(more);
        }
        l
    }
}

/// Adds pods of a list: the first becomes the line's pod when it has none.
fn l_more(l: &mut LogLine, list: Vec<PodRef>) {
    let mut list = list.into_iter();
    if l.pod.is_empty()
        && let Some(first) = list.next()
    {
        l.pod = first;
    }
    for p in list {
        if p != l.pod {
            l.more_pods.push(p);
        }
    }
}

/// Returns true when ` key=` follows, or nothing.
fn begins_pair(s: &str) -> bool {
    s.strip_prefix(' ').is_some_and(|s| {
        let word = s.find(['=', ' ', '"']).unwrap_or(s.len());
        word > 0 && s.get(word..).is_some_and(|r| r.starts_with('='))
    }) || s.trim().is_empty()
}
