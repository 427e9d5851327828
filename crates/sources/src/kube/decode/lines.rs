//! Decodes objects of the API from a sequence of lines, whoever wrote them.
//!
//! | input | notes of the watch |
//! |---|---|
//! | a raw watch of the apiserver, `kubectl get -w -o json --output-watch-events`: `{"type":…,"object":…}` | bookmarks, errors |
//! | `kubectl get -o json`: one object or list, on many lines or one | none: the list's selectors are unknown |
//! | `kubectl describe`, `kubectl get events`: see the module `kubectl` | none |
//!
//! Documents are found by their braces, so white space and line feeds do not matter. In a text that begins otherwise they begin a
//! line, and are objects of the API. Neither input has a time of
//! arrival: the newest time in the document stands for it (never going back), with that time's own precision.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::super::{Fed, LineDecoder, TimeHint};
use super::super::kubectl::Printed;
use super::super::kubectl::{MADE_UID, NAMESPACE};
use super::json::N;
use super::{Occurrences, decode_object, decode_typed, newest_time, plural, pod};
use kflow_model::{Body, Observation, Stamp, Text, pod::WatchEvent};

/// Reason for ignoring a list: it has no items.
pub const EMPTY_LIST: &str = "empty list";
/// Reason for what is malformed: other text, beside documents or instead of them.
pub const NO_JSON: &str = "not a JSON object";
/// Reason for what is malformed: a document ends within.
pub const CUT_OFF: &str = "document was cut off";
/// Reason for counting a list of which the apiserver has more (`metadata.continue`).
const MORE_PAGES: &str = "list that goes on on another page";
/// Reason for ignoring an object that nothing has made.
pub const MANIFEST: &str = "manifest, not what the API has";
/// Reason for ignoring the lines that `kubectl cluster-info dump` prints of a container's log, between its marks.
const OF_A_LOG: &str = "log of a container";
/// Begins of these marks.
const LOG_BEGINS: &[u8] = b"==== START logs for container ";
const LOG_ENDS: &[u8] = b"==== END logs for container ";
/// Longest document that is buffered, bytes. A list of 5,000 pods has about 50 MB.
const LONGEST: usize = 512 << 20;

/// Decodes lines that hold objects of the API. See the [module](self) for the accepted input.
#[derive(Debug, Default)]
pub struct KubeLines {
    hint: TimeHint,
    pending: Vec<u8>,
    scan: Scan,
    occurrences: Occurrences,
    /// The newest estimated arrival so far.
    guessed: Option<Stamp>,
    /// The resource of the newest watch event, for errors that do not name any.
    resource: Text,
    /// The reader of the input, when its first line is not JSON.
    printed: Option<Printed>,
    /// True inside a container's log.
    in_log: bool,
    left: Vec<Fed>,
}

impl KubeLines {
    /// A decoder for one input. The hint is used for documents that hold no time at all.
    pub fn new(hint: TimeHint) -> Self {
        Self {
            hint,
            ..Self::default()
        }
    }

    fn document(&mut self, doc: &[u8], out: &mut Vec<Observation>) -> Fed {
        // The items of a list without the list around them, as Troubleshoot writes Events.
        if doc.first() == Some(&b'[') {
            return match serde_json::from_slice::<Vec<&RawValue>>(doc) {
                Ok(items) if items.is_empty() => Fed::Ignored(EMPTY_LIST),
                Ok(items) => self.items(doc, &items, out),
                Err(_) => Fed::Malformed(NO_JSON),
            };
        }
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(doc) else {
            return Fed::Malformed(NO_JSON);
        };
        match envelope {
            Envelope {
                event: Some(event),
                object: Some(object),
                ..
            } => {
                let stamp = self.guess(object.get().as_bytes());
                let resource = self.resource.clone();
                let r = decode_typed(&event, object.get().as_bytes(), &resource, stamp);
                self.take(r, out)
            }
            Envelope {
                items: Some(items), ..
            } if items.is_empty() => Fed::Ignored(EMPTY_LIST),
            Envelope {
                kind: Some(kind),
                items: Some(items),
                metadata,
                ..
            } => {
                let stamp = self.guess(doc);
                if metadata.is_some_and(has_more_pages) {
                    self.left.push(Fed::Ignored(MORE_PAGES));
                }
                let of = kind.strip_suffix("List").unwrap_or_default();
                self.list(of, &items, stamp, out)
            }
            // Go writes an empty list as null.
            Envelope {
                kind: Some(kind),
                items: None,
                ..
            } if kind.ends_with("List") => Fed::Ignored(EMPTY_LIST),
            // A list of the API's own types, encoded without its kind, as `talosctl support` writes it.
            Envelope {
                items: Some(items), ..
            } => self.items(doc, &items, out),
            Envelope {
                kind: Some(kind), ..
            } if !kind.is_empty() => {
                let stamp = self.guess_of_object(doc);
                let r = printed(doc, &kind, stamp);
                self.take(r, out)
            }
            // An Event as exporters write it into a log, and an object of the API's own types, encoded without its kind.
            _ => match std::str::from_utf8(doc).ok().and_then(kind_by_fields) {
                Some(kind) => {
                    let stamp = self.guess_of_object(doc);
                    let r = printed(doc, kind, stamp);
                    self.take(r, out)
                }
                None => match members(doc) {
                    Some(items) => self.items(doc, &items, out),
                    None => Fed::Malformed("neither an object nor a watch event"),
                },
            },
        }
    }

    /// Decodes items of a list that does not say of which kind they are.
    fn items(&mut self, doc: &[u8], items: &[&RawValue], out: &mut Vec<Observation>) -> Fed {
        let stamp = self.guess(doc);
        let kind = items.first().and_then(|first| kind_by_fields(first.get()));
        self.list(kind.unwrap_or_default(), items, stamp, out)
    }

    /// Decodes the items of a list of that kind; each that names its own is of that.
    fn list(
        &mut self,
        kind: &str,
        items: &[&RawValue],
        stamp: Stamp,
        out: &mut Vec<Observation>,
    ) -> Fed {
        let before = out.len();
        for item in items {
            let r = printed(item.get().as_bytes(), kind, stamp);
            let fed = self.take(r, out);
            self.left.extend(fed.left());
        }
        Fed::Observed(out.len() - before)
    }

    fn take(&mut self, r: Result<Observation, Fed>, out: &mut Vec<Observation>) -> Fed {
        match r {
            Ok(o) => {
                match &o.body {
                    Body::Event(e) if !self.occurrences.is_news(e, o.stamp) => {
                        return Fed::Ignored("event seen before");
                    }
                    Body::Event(_) => self.resource = Text::new("events"),
                    Body::Pod(_) => self.resource = Text::new("pods"),
                    Body::Node(_) => self.resource = Text::new("nodes"),
                    Body::Object(x) => self.resource = plural(&x.object.kind),
                    _ => {}
                }
                out.push(o);
                Fed::Observed(1)
            }
            Err(fed) => fed,
        }
    }

    /// Returns the estimated time at which a document was read: the end of the newest time in it.
    fn guess(&mut self, doc: &[u8]) -> Stamp {
        let (at, precision) = newest_time(doc)
            .or(self.hint.near.map(|t| (t, 1)))
            .unwrap_or_default();
        let told = Stamp::new(at, precision.max(1), at);
        let told = Stamp {
            seen: told.until(),
            ..told
        };
        let stamp = match self.guessed {
            Some(before) if before.seen > told.seen => before,
            _ => told,
        };
        self.guessed = Some(stamp);
        stamp
    }

    /// The same for an object by itself: where nothing tells a time, not even a document before it, it is when the file was written.
    fn guess_of_object(&mut self, doc: &[u8]) -> Stamp {
        let is_told = self.guessed.is_some() || self.hint.near.is_some();
        if let Some(written) = self.hint.not_after.filter(|_| !is_told)
            && newest_time(doc).is_none()
        {
            self.guessed = Some(Stamp::exact(written));
        }
        self.guess(doc)
    }

    /// Takes a line of a text that does not begin with JSON. An object of the API in it is read; all else is what kubectl prints, or
    /// other text.
    fn line_of_text(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let begins = begins_object(line);
        let mut fed = Fed::Partial;
        let is_too_long = self.pending.len().saturating_add(line.len()) > LONGEST;
        if begins || is_too_long {
            fed = self.give_back(out);
        }
        if self.pending.is_empty() && (!begins || is_too_long) {
            let told = self.text_line(line, out);
            return add(fed, told, &mut self.left);
        }
        self.pending.extend_from_slice(line);
        self.pending.push(b'\n');
        let Some(end) = self.scan.next_end(&self.pending) else {
            return fed;
        };
        let (document, behind) = self.pending.split_at_checked(end).unwrap_or_default();
        if !behind.trim_ascii().is_empty() || !is_of_the_api(document) {
            let told = self.give_back(out);
            return add(fed, told, &mut self.left);
        }
        self.scan = Scan::default();
        let document = std::mem::take(&mut self.pending);
        let (guessed, before) = (self.guessed, out.len());
        let told = self.document(document.trim_ascii(), out);
        if out.len() == before {
            self.guessed = guessed;
        }
        // What stands above it ends there.
        self.text_line(b"", out);
        add(fed, told, &mut self.left)
    }

    fn text_line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let hint = self.hint;
        let printed = self.printed.get_or_insert_with(|| Printed::new(hint));
        printed.line(line, out)
    }

    /// Takes lines that looked like an object of the API as what they are: other text.
    fn give_back(&mut self, out: &mut Vec<Observation>) -> Fed {
        self.scan = Scan::default();
        let lines = std::mem::take(&mut self.pending);
        let mut fed = Fed::Partial;
        let lines = lines.strip_suffix(b"\n").map(|l| l.split(|b| *b == b'\n'));
        for line in lines.into_iter().flatten() {
            let told = self.text_line(line, out);
            fed = add(fed, told, &mut self.left);
        }
        fed
    }

    /// Decodes every document in `pending` that is complete.
    fn drain(&mut self, out: &mut Vec<Observation>) -> Fed {
        let mut fed = Fed::Partial;
        while let Some(end) = self.scan.next_end(&self.pending) {
            let rest = self.pending.split_off(end);
            let doc = std::mem::replace(&mut self.pending, rest);
            self.scan = Scan::default();
            fed = add(fed, self.document(doc.trim_ascii(), out), &mut self.left);
            let blank = self.pending.len() - self.pending.trim_ascii_start().len();
            self.pending.drain(..blank);
        }
        fed
    }
}

/// Combines two results of one line: malformed wins, numbers of observations add up. What else was left out goes into `left`.
fn add(a: Fed, b: Fed, left: &mut Vec<Fed>) -> Fed {
    if let (Fed::Observed(x), Fed::Observed(y)) = (a, b) {
        return Fed::Observed(x + y);
    }
    let rank = |fed| match fed {
        Fed::Partial => 0,
        Fed::Ignored(_) => 1,
        Fed::Observed(_) => 2,
        Fed::Malformed(_) => 3,
    };
    let (fed, other) = if rank(a) < rank(b) { (b, a) } else { (a, b) };
    left.extend(other.left());
    fed
}

impl LineDecoder for KubeLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        if self.in_log || (self.pending.is_empty() && line.starts_with(LOG_BEGINS)) {
            self.in_log = !line.starts_with(LOG_ENDS);
            return Fed::Ignored(OF_A_LOG);
        }
        if self.printed.is_some() {
            return self.line_of_text(line, out);
        }
        let mut fed = Fed::Partial;
        let is_in_array = self.pending.first() == Some(&b'[');
        if line.first() == Some(&b'{') && !self.pending.is_empty() && !is_in_array {
            // Inside a document every line is indented or closes something, so this line begins a new document: the
            // one before was cut off.
            self.pending.clear();
            self.scan = Scan::default();
            fed = Fed::Malformed(CUT_OFF);
        }
        if is_in_array && self.pending.trim_ascii() == b"[" && !goes_on_as_array(line) {
            self.pending.clear();
            self.scan = Scan::default();
            fed = self.text_line(b"[", out);
            let told = self.line_of_text(line, out);
            return add(fed, told, &mut self.left);
        }
        if self.pending.is_empty() {
            let text = line.trim_ascii();
            if text.is_empty() {
                return add(fed, Fed::Ignored("blank line"), &mut self.left);
            }
            if self.guessed.is_none() && is_of_a_log(text) {
                return self.line_of_text(line, out);
            }
            if text.first() != Some(&b'{') && !begins_array(text) {
                if self.guessed.is_none() {
                    return self.text_line(line, out);
                }
                return add(fed, Fed::Malformed(NO_JSON), &mut self.left);
            }
        }
        // A list of thousands of pods may be one line, which need not be copied.
        if self.pending.is_empty()
            && let Some((document, rest)) =
                (Scan::default().next_end(line)).and_then(|end| line.split_at_checked(end))
            && rest.trim_ascii().is_empty()
        {
            let document = self.document(document.trim_ascii(), out);
            return add(fed, document, &mut self.left);
        }
        if self.pending.len().saturating_add(line.len()) > LONGEST {
            self.pending.clear();
            self.scan = Scan::default();
            return Fed::Malformed("document is too long");
        }
        self.pending.extend_from_slice(line);
        self.pending.push(b'\n');
        add(fed, self.drain(out), &mut self.left)
    }

    fn left(&mut self) -> Vec<Fed> {
        let of_text = self.printed.as_mut().map(Printed::left);
        let mut left = std::mem::take(&mut self.left);
        left.extend(of_text.into_iter().flatten());
        left
    }

    fn guesses_arrival(&self) -> bool {
        self.guessed.is_some()
    }

    fn counts_from_hint(&self) -> bool {
        self.printed.as_ref().is_some_and(Printed::counts_from_hint)
    }

    fn finish(&mut self, out: &mut Vec<Observation>) -> Fed {
        if self.printed.is_some() {
            let fed = self.give_back(out);
            let told = self.printed.as_mut().map(|printed| printed.finish(out));
            return add(fed, told.unwrap_or(Fed::Partial), &mut self.left);
        }
        if self.pending.trim_ascii().is_empty() {
            return Fed::Observed(0);
        }
        self.pending.clear();
        self.scan = Scan::default();
        Fed::Malformed(CUT_OFF)
    }
}

/// True for a line that may begin an object in JSON which nothing stands before.
fn begins_object(line: &[u8]) -> bool {
    let inside = line.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    inside.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"\""))
}

/// True for an object of the API, a list of such or an event of a watch; not for a line of a log in JSON.
fn is_of_the_api(document: &[u8]) -> bool {
    let told = serde_json::from_slice::<Envelope<'_>>(document);
    told.is_ok_and(|e| {
        let is_named = e.kind.is_some() && e.metadata.is_some();
        is_named || e.items.is_some() || e.event.is_some() && e.object.is_some()
    })
}

/// True for a line of a log in JSON: no object of the API begins with a level (go.uber.org/zap: zapcore/json_encoder.go, `EncodeEntry`).
/// An autoscaler's has Events among others.
fn is_of_a_log(line: &[u8]) -> bool {
    line.starts_with(b"{\"level\":")
}

/// True for the first line of an array of objects: `[`, `[{"kind":…`. A prompt has more behind the bracket.
fn begins_array(text: &[u8]) -> bool {
    let inside = text.strip_prefix(b"[").map(<[u8]>::trim_ascii_start);
    inside.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"{"))
}

/// True for what may stand below a bracket that begins an array of objects.
fn goes_on_as_array(line: &[u8]) -> bool {
    matches!(line.trim_ascii().first(), None | Some(b'{' | b']'))
}

/// Finds the end of a JSON object by its braces, resuming where it stopped.
#[derive(Debug, Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Returns the offset at which the first object ends; `None` while it is incomplete.
    fn next_end(&mut self, text: &[u8]) -> Option<usize> {
        while let Some(rest) = text.get(self.at..) {
            if self.in_string && !self.escaped {
                let Some(i) = memchr::memchr2(b'"', b'\\', rest) else {
                    self.at = text.len();
                    return None;
                };
                self.at += i;
            }
            let b = *text.get(self.at)?;
            self.at += 1;
            if self.escaped {
                self.escaped = false;
            } else if self.in_string {
                match b {
                    b'"' => self.in_string = false,
                    _ => self.escaped = true,
                }
            } else {
                match b {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return Some(self.at);
                        }
                    }
                    _ => {}
                }
            }
        }
        None
    }
}

/// Returns the kind of an object that does not name it, by fields that only its kind has; `None` where it names it.
pub(super) fn kind_by_fields(object: &str) -> Option<&'static str> {
    let told: Telling<'_> = serde_json::from_str(object).ok()?;
    if told.kind.is_some() {
        return None;
    }
    let (spec, status) = (told.spec, told.status);
    let has_template = spec.template.is_some();
    // A ReplicationController and a DeploymentConfig select by a bare map.
    let selects = has_template && spec.selector.match_labels.is_some();
    let kinds = [
        ("Event", told.involved_object.is_some()),
        ("Pod", spec.containers.is_some()),
        ("Node", status.node_info.is_some()),
        ("PersistentVolume", spec.reclaim_policy.is_some()),
        ("PersistentVolumeClaim", spec.access_modes.is_some()),
        (
            "DaemonSet",
            has_template && status.desired_number_scheduled.is_some(),
        ),
        ("StatefulSet", selects && spec.service_name.is_some()),
        ("Deployment", selects && spec.strategy.is_some()),
        ("Job", has_template && spec.backoff_limit.is_some()),
        ("ReplicaSet", selects && spec.replicas.is_some()),
    ];
    kinds.into_iter().find(|(_, is)| *is).map(|(kind, _)| kind)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Telling<'a> {
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(default)]
    spec: TellingSpec<'a>,
    #[serde(default)]
    status: TellingStatus<'a>,
    involved_object: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TellingSpec<'a> {
    #[serde(borrow)]
    containers: Option<&'a RawValue>,
    template: Option<&'a RawValue>,
    strategy: Option<&'a RawValue>,
    service_name: Option<&'a RawValue>,
    backoff_limit: Option<&'a RawValue>,
    replicas: Option<&'a RawValue>,
    selector: TellingSelector<'a>,
    #[serde(rename = "persistentVolumeReclaimPolicy")]
    reclaim_policy: Option<&'a RawValue>,
    access_modes: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TellingSelector<'a> {
    #[serde(borrow)]
    match_labels: Option<&'a RawValue>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct TellingStatus<'a> {
    #[serde(borrow)]
    node_info: Option<&'a RawValue>,
    desired_number_scheduled: Option<&'a RawValue>,
}

/// The fields by which the form of a document is recognised.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    #[serde(rename = "type", borrow)]
    event: Option<Cow<'a, str>>,
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

/// True for the `metadata` of a list of which the apiserver has more.
fn has_more_pages(metadata: &RawValue) -> bool {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct ListMeta {
        #[serde(rename = "continue")]
        next: N<Text>,
    }
    let told: ListMeta = serde_json::from_str(metadata.get()).unwrap_or_default();
    !told.next.0.is_empty()
}

#[derive(Deserialize)]
pub(super) struct WatchLine<'a> {
    #[serde(rename = "type", borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) object: Option<&'a RawValue>,
}
/// Decodes an object that kubectl printed. Somebody may have taken its UID out; or it is a manifest.
fn printed(doc: &[u8], kind: &str, stamp: Stamp) -> Result<Observation, Fed> {
    match decode_object(doc, kind, WatchEvent::Listed, stamp) {
        Err(Fed::Malformed(pod::NO_UID)) => without_uid(doc, stamp),
        Ok(o) if is_of_a_manifest(&o, doc) => Err(Fed::Ignored(MANIFEST)),
        decoded => decoded,
    }
}

/// Returns the objects of the API that are a member of another object, as Ansible's `k8s_info` puts them
/// (ansible-collections/kubernetes.core: plugins/modules/k8s_info.py, `resources`).
fn members(doc: &[u8]) -> Option<Vec<&RawValue>> {
    let all: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(doc).ok()?;
    let names_itself = |item: &RawValue| {
        serde_json::from_str::<Named<'_>>(item.get())
            .is_ok_and(|n| !n.api_version.is_empty() && !n.kind.is_empty())
    };
    let lists = all.values().filter(|v| v.get().starts_with('['));
    let mut lists = lists.filter_map(|v| serde_json::from_str::<Vec<&RawValue>>(v.get()).ok());
    lists.find(|items| !items.is_empty() && items.iter().all(|item| names_itself(item)))
}

/// What an object says that it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

/// Decodes a pod without a UID, if it has a status: under one that is made of its names.
fn without_uid(doc: &[u8], stamp: Stamp) -> Result<Observation, Fed> {
    let bad = Fed::Malformed(pod::NO_UID);
    let Ok(mut pod) = serde_json::from_slice::<Value>(doc) else {
        return Err(bad);
    };
    if !has_status(&pod) {
        return Err(Fed::Ignored(MANIFEST));
    }
    let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) else {
        return Err(bad);
    };
    let text = |key: &str| {
        metadata
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let namespace = match text("namespace") {
        "" => NAMESPACE,
        namespace => namespace,
    };
    let uid = format!("{MADE_UID}{namespace}/{}", text("name"));
    let namespace = namespace.to_owned();
    metadata.insert("namespace".into(), json!(namespace));
    metadata.insert("uid".into(), json!(uid));
    let doc = serde_json::to_vec(&pod).map_err(|_| bad)?;
    decode_object(&doc, "Pod", WatchEvent::Listed, stamp)
}

/// True for a status that tells how the pod is.
fn has_status(object: &Value) -> bool {
    let status = object.get("status").and_then(Value::as_object);
    let keys = [
        "phase",
        "conditions",
        "containerStatuses",
        "initContainerStatuses",
    ];
    status.is_some_and(|s| keys.iter().any(|key| s.contains_key(*key)))
}

/// True for an object that lacks all that the API adds to one. A manifest of a static pod may have a UID.
fn is_of_a_manifest(o: &Observation, doc: &[u8]) -> bool {
    let object = || serde_json::from_slice::<Value>(doc);
    match &o.body {
        Body::Object(x) => {
            let is_new = x.resource_version == 0 && x.created.0 == 0 && x.object.uid.is_empty();
            // A Lease has no status; its holder renews it.
            let is_lived = x.fact("renewTime").is_some();
            is_new
                && !is_lived
                && object().is_ok_and(|v| v.get("status").is_none_or(|s| *s == json!({})))
        }
        Body::Pod(p) => p.resource_version == 0 && object().is_ok_and(|v| !has_status(&v)),
        _ => false,
    }
}
