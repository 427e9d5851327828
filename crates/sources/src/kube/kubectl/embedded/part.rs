//! Objects that are put together of parts. What lacks names gets those of the command before it, else placeholders.

use serde_json::{Value, json};

use super::super::attribute::{Named, Told, attribute};
use super::super::command::Described;
use super::super::events::event;
use super::super::fragment::{NAMESPACE, row};
use super::super::line::NODE;
use super::super::piece::CONTAINER;
use super::super::table::Row;
use super::super::{Described as Nothing, MADE_UID, Moment};
use super::shape::{
    Fields, OF_NODE, OF_POD, POD_STATUS, STATUSES, has_only, is_condition, is_container_status,
    is_event, is_object, is_of, is_pod_status, is_read, is_state, metadata_of_pod, text,
};
use kflow_model::Nanos;

/// Most levels of a value that are looked into.
const DEEPEST: usize = 8;

/// Parts of objects in which no other object is.
const OPAQUE: [&str; 8] = [
    "annotations",
    "data",
    "fieldsV1",
    "labels",
    "managedFields",
    "spec",
    "stringData",
    "template",
];

/// The objects that were found so far.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// One a line.
    pub(super) objects: Vec<u8>,
    /// Number of those that have the name of a pod's placeholder, and of those that have a name which was made.
    pods: usize,
    made: usize,
}

/// The parts of one object, or several whole objects.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    printed: Option<&'a Described>,
    found: &'a mut Found,
    /// Length of what was found before.
    begun: usize,
    status: Fields,
    conditions: Vec<Fields>,
    /// The pod of which metadata was found by itself: the begin of its object is missing.
    pub(super) cut: Option<Described>,
    /// Number of values that were taken, and of those that [`has_news`](Self::has_news) told of.
    taken: usize,
    told: usize,
}

impl<'a> Parts<'a> {
    pub(super) fn new(printed: Option<&'a Described>, found: &'a mut Found) -> Self {
        Self {
            printed,
            begun: found.objects.len(),
            found,
            status: Fields::new(),
            conditions: Vec::new(),
            cut: None,
            taken: 0,
            told: 0,
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// True if anything was taken since this was asked last.
    pub(super) const fn has_news(&mut self) -> bool {
        let has = self.taken > self.told;
        self.told = self.taken;
        has
    }

    pub(super) fn take(&mut self, value: Value) {
        self.look(value, 0);
    }

    fn look(&mut self, value: Value, depth: usize) {
        let fields = match value {
            Value::Array(all) if depth < DEEPEST => {
                for value in all {
                    self.look(value, depth + 1);
                }
                return;
            }
            Value::Object(fields) if depth < DEEPEST => fields,
            _ => return,
        };
        if let Some(kind) = text(&fields, "kind").filter(|_| is_object(&fields)) {
            if kind.ends_with("List") {
                self.below(named(fields), depth);
            } else if is_read(&fields, kind) {
                let kind = kind.to_owned();
                self.object(fields, &kind);
            }
        } else if is_event(&fields) {
            self.event(fields);
        } else if fields.contains_key("metadata") {
            let of_status = fields.get("status").and_then(Value::as_object);
            let has_containers = fields
                .get("spec")
                .is_some_and(|spec| spec.get("containers").is_some());
            if of_status
                .is_some_and(|status| is_pod_status(status) || has_containers && !status.is_empty())
            {
                self.object(fields, "Pod");
            }
        } else if is_pod_status(&fields) || self.is_printed_status(&fields) {
            self.taken += 1;
            merge(&mut self.status, fields);
        } else if is_container_status(&fields) {
            self.container(fields);
        } else if is_state(&fields) {
            self.container(of([("state", Value::Object(fields))]));
        } else if is_condition(&fields) {
            self.taken += 1;
            self.conditions.push(fields);
        } else if let Some((namespace, name)) = metadata_of_pod(&fields) {
            self.cut = Some(Described {
                kind: "Pod",
                object: Named {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                },
            });
        } else {
            self.below(fields, depth);
        }
    }

    fn below(&mut self, fields: Fields, depth: usize) {
        for (key, value) in fields {
            // Their name says which containers they are of.
            let value = match key.as_str() {
                key if STATUSES.contains(&key) => Value::Object(of([(key, value)])),
                _ => value,
            };
            if !OPAQUE.contains(&key.as_str()) {
                self.look(value, depth + 1);
            }
        }
    }

    /// True for a part of the status of the pod that the command before it prints.
    fn is_printed_status(&self, fields: &Fields) -> bool {
        let of_pod = self.printed.is_some_and(|printed| printed.kind == "Pod");
        of_pod
            && has_only(fields, &POD_STATUS)
            && ["phase", "reason"]
                .iter()
                .any(|key| fields.contains_key(*key))
    }

    fn container(&mut self, mut status: Fields) {
        self.taken += 1;
        status.entry("name").or_insert_with(|| json!(CONTAINER));
        let all = self
            .status
            .entry("containerStatuses")
            .or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            all.push(Value::Object(status));
        }
    }

    /// Takes an object of a kind that is read.
    fn object(&mut self, mut fields: Fields, kind: &str) {
        let mut metadata = match fields.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Fields::new(),
        };
        match kind {
            "Event" => {
                fields.insert("metadata".into(), Value::Object(metadata));
                self.event(fields);
                return;
            }
            "Pod" => {
                let status = match fields.remove("status") {
                    Some(Value::Object(status)) => status,
                    _ => Fields::new(),
                };
                let spec = match fields.remove("spec") {
                    Some(Value::Object(spec)) => spec,
                    _ => Fields::new(),
                };
                self.pod(metadata, spec, status);
                return;
            }
            _ => {}
        }
        if text(&metadata, "name").is_none() {
            let printed = self.printed.filter(|printed| printed.kind == kind);
            let name = match (printed, kind) {
                (Some(printed), _) => printed.object.name.as_str(),
                (None, "Node") => NODE,
                // Of which one it is, nothing tells.
                (None, _) => return,
            };
            metadata.insert("name".into(), json!(name));
        }
        if !metadata.contains_key("namespace")
            && !matches!(kind, "Node" | "PersistentVolume" | "Namespace")
        {
            metadata.insert("namespace".into(), json!(self.namespace()));
        }
        let failed = fields.get("status").map(conditions).unwrap_or_default();
        fields.insert("kind".into(), json!(kind));
        fields.insert("metadata".into(), Value::Object(metadata));
        self.push(fields);
        for condition in &failed {
            self.refused(condition);
        }
    }

    fn namespace(&self) -> &'a str {
        let printed = self
            .printed
            .map_or("", |printed| printed.object.namespace.as_str());
        if printed.is_empty() {
            NAMESPACE
        } else {
            printed
        }
    }

    /// Takes a pod. Its names may be missing.
    fn pod(&mut self, mut metadata: Fields, mut spec: Fields, mut status: Fields) {
        let is_deleted = metadata.contains_key("deletionTimestamp");
        if status.is_empty() && !is_deleted {
            return;
        }
        if text(&metadata, "namespace").is_none() {
            metadata.insert("namespace".into(), json!(self.namespace()));
        }
        if text(&metadata, "name").is_none() {
            let printed = self.printed.filter(|printed| printed.kind == "Pod");
            let name =
                printed.map_or_else(|| self.found.pod(), |printed| printed.object.name.clone());
            metadata.insert("name".into(), json!(name));
        }
        if text(&metadata, "uid").is_none() {
            let names = [text(&metadata, "namespace"), text(&metadata, "name")];
            let names = names.map(Option::unwrap_or_default).join("/");
            metadata.insert("uid".into(), json!(format!("{MADE_UID}{names}")));
        }
        complete(&mut status);
        // It is older than all that its status tells.
        if text(&metadata, "creationTimestamp").is_none()
            && let Some(oldest) = oldest(&status)
        {
            metadata.insert("creationTimestamp".into(), json!(oldest));
        }
        if !spec.contains_key("containers") {
            for (of_status, of_spec) in
                STATUSES
                    .into_iter()
                    .zip(["initContainers", "containers", "ephemeralContainers"])
            {
                let all = status
                    .get(of_status)
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten();
                let all = all.map(|c| json!({"name": c.get("name"), "image": c.get("image")}));
                spec.insert(of_spec.into(), all.collect());
            }
        }
        let told = told(&status);
        let mut object = of([("kind", json!("Pod"))]);
        for key in ["namespace", "name", "uid"] {
            object.insert(key.into(), json!(metadata.get(key)));
        }
        self.push(of([
            ("kind", json!("Pod")),
            ("metadata", json!(metadata)),
            ("spec", json!(spec)),
            ("status", json!(status)),
        ]));
        for (container, row) in told {
            let path = format!("spec.containers{{{container}}}");
            object.insert("fieldPath".into(), json!(path));
            self.event(of([
                ("involvedObject", json!(object)),
                ("reason", json!(row.reason)),
                ("message", json!(row.message)),
                ("type", json!("Warning")),
                ("source", json!({"component": row.component})),
            ]));
        }
    }

    /// Takes an Event. It may lack its object, or the names of that.
    fn event(&mut self, mut fields: Fields) {
        let object = |fields: &Fields| {
            ["involvedObject", "regarding"]
                .into_iter()
                .find_map(|key| Some((key, fields.get(key)?.as_object()?.clone())))
        };
        let metadata = fields.get("metadata").and_then(Value::as_object);
        let mut metadata = metadata.cloned().unwrap_or_default();
        match object(&fields) {
            Some((key, mut object)) => {
                let kind = text(&object, "kind").unwrap_or("Pod").to_owned();
                if text(&object, "name").is_none() {
                    return;
                }
                if text(&object, "namespace").is_none() && kind != "Node" {
                    let own = text(&metadata, "namespace").unwrap_or_else(|| self.namespace());
                    object.insert("namespace".into(), json!(own));
                }
                object.insert("kind".into(), json!(kind));
                fields.insert(key.into(), Value::Object(object));
            }
            None => {
                let Some(row) = self.row(&fields) else {
                    return;
                };
                let made = event(
                    row,
                    &Nothing::default(),
                    Moment(Nanos::default()),
                    self.found.made,
                );
                if let Some(object) = made.get("involvedObject") {
                    fields.insert("involvedObject".into(), object.clone());
                }
            }
        }
        if text(&metadata, "name").is_none() {
            self.found.made += 1;
            metadata.insert("name".into(), json!(format!("EVENT-{}", self.found.made)));
        }
        fields.insert("metadata".into(), Value::Object(metadata));
        fields.insert("kind".into(), json!("Event"));
        self.push(fields);
    }

    /// Reads the fields of an Event without its object as a row, which says of which object it is.
    fn row(&self, fields: &Fields) -> Option<Row> {
        let source = |key: &str| {
            fields
                .get("source")
                .and_then(|source| source.get(key)?.as_str())
        };
        let component = source("component").or_else(|| text(fields, "reportingComponent"));
        let mut rows = [Row {
            warning: text(fields, "type") != Some("Normal"),
            reason: text(fields, "reason")?.to_owned(),
            message: text(fields, "message")
                .or_else(|| text(fields, "note"))?
                .to_owned(),
            component: component.unwrap_or_default().to_owned(),
            host: source("host").unwrap_or_default().to_owned(),
            ..Row::default()
        }];
        let told = Told {
            described: self.printed,
            ..Told::default()
        };
        attribute(&mut rows, "", &told);
        let [row] = rows;
        Some(row)
    }

    /// Takes the condition of an owner whose pods are refused. Its controller reports the same as an Event, with the words that are
    /// put before it here (1.36: `pkg/controller/replicaset/replica_set_utils.go`, `calculateStatus`; `pkg/controller/controller_utils.go`,
    /// `CreatePods`).
    fn refused(&mut self, condition: &Fields) {
        const CREATING: &str = "Error creating: ";
        let is = |key: &str, value: &str| text(condition, key) == Some(value);
        if !is("type", "ReplicaFailure") || !is("reason", "FailedCreate") || is("status", "False") {
            return;
        }
        let message = text(condition, "message").unwrap_or_default();
        let message = message.strip_prefix(CREATING).unwrap_or(message);
        self.event(of([
            ("type", json!("Warning")),
            ("reason", json!("FailedCreate")),
            ("message", json!(format!("{CREATING}{message}"))),
            ("source", json!({"component": "replicaset-controller"})),
            ("lastTimestamp", json!(condition.get("lastTransitionTime"))),
        ]));
    }

    fn push(&mut self, fields: Fields) {
        self.taken += 1;
        self.found.push(&Value::Object(fields));
    }

    /// Puts the parts together. Returns false where they are of nothing that is read.
    pub(super) fn end(mut self) -> bool {
        let mut status = std::mem::take(&mut self.status);
        let conditions = std::mem::take(&mut self.conditions);
        let has = |all: &[&str]| conditions.iter().any(|condition| is_of(condition, all));
        if has(&OF_POD) {
            merge(&mut status, of([("conditions", json!(conditions))]));
        } else if has(&OF_NODE) {
            let conditions: Vec<Fields> = conditions.into_iter().map(typed).collect();
            self.object(of([("status", json!({"conditions": conditions}))]), "Node");
        } else {
            for condition in &conditions {
                self.refused(condition);
            }
        }
        if !status.is_empty() {
            self.pod(Fields::new(), Fields::new(), status);
        }
        self.found.objects.len() > self.begun
    }
}

impl Found {
    fn push(&mut self, object: &Value) {
        if let Ok(json) = serde_json::to_vec(object) {
            self.objects.extend(json);
            self.objects.push(b'\n');
        }
    }

    /// Returns the name of a pod that nothing names. Each is another one: they may show the same one before and after a change.
    fn pod(&mut self) -> String {
        self.pods += 1;
        match self.pods {
            1 => "POD".to_owned(),
            more => format!("POD-{more}"),
        }
    }
}

/// Returns a list whose items have the kind and the version that it gives them all: the API writes a list of one kind so.
fn named(mut list: Fields) -> Fields {
    let kind = text(&list, "kind").and_then(|kind| kind.strip_suffix("List"));
    let kind = kind.filter(|kind| !kind.is_empty()).map(str::to_owned);
    let version = list.get("apiVersion").cloned();
    let items = list.get_mut("items").and_then(Value::as_array_mut);
    let (Some(kind), Some(items)) = (kind, items) else {
        return list;
    };
    for item in items.iter_mut().filter_map(Value::as_object_mut) {
        if !item.contains_key("kind") {
            item.insert("kind".into(), json!(kind));
            if let Some(version) = &version {
                item.entry("apiVersion").or_insert_with(|| version.clone());
            }
        }
    }
    list
}

fn of<const N: usize>(fields: [(&str, Value); N]) -> Fields {
    let owned = fields.map(|(key, value)| (key.to_owned(), value));
    owned.into_iter().collect()
}

fn conditions(status: &Value) -> Vec<Fields> {
    let all = status
        .get("conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    all.filter_map(Value::as_object).cloned().collect()
}

/// Adds fields. Lists of the same name become one.
fn merge(into: &mut Fields, fields: Fields) {
    for (key, value) in fields {
        match (into.get_mut(&key), value) {
            (Some(Value::Array(have)), Value::Array(more)) => have.extend(more),
            (Some(_), _) => {}
            (None, value) => drop(into.insert(key, value)),
        }
    }
}

/// Returns a condition whose status is a text: `status: False` is none.
fn typed(mut condition: Fields) -> Fields {
    if let Some(Value::Bool(is)) = condition.get("status") {
        let text = if *is { "True" } else { "False" };
        condition.insert("status".into(), json!(text));
    }
    condition
}

/// Adds what a part of a pod's status leaves out, as far as the rest tells it: before a pod has a node, its containers have no state.
fn complete(status: &mut Fields) {
    let of_containers = |status: &Fields| {
        let all = STATUSES
            .iter()
            .filter_map(|key| status.get(*key)?.as_array())
            .flatten();
        all.cloned().collect::<Vec<Value>>()
    };
    let containers = of_containers(status);
    let mut all: Vec<Fields> = conditions(&Value::Object(status.clone()))
        .into_iter()
        .map(typed)
        .collect();
    let is_bound = |c: &Fields| text(c, "type") == Some("PodScheduled");
    if !containers.is_empty() && !all.iter().any(is_bound) {
        all.push(of([
            ("type", json!("PodScheduled")),
            ("status", json!("True")),
        ]));
    }
    status.insert("conditions".into(), json!(all));
    if text(status, "phase").is_none() {
        let has_run = containers.iter().any(|c| {
            let has = |pointer: &str| c.pointer(pointer).is_some_and(|v| !v.is_null());
            has("/state/running")
                || has("/state/terminated")
                || has("/lastState/terminated")
                || c.pointer("/state/waiting/reason") == Some(&json!("CrashLoopBackOff"))
        });
        let is = |kind: &str, told: &str| {
            let mut all = all.iter();
            all.any(|c| text(c, "type") == Some(kind) && text(c, "status") == Some(told))
        };
        let runs = has_run || is("ContainersReady", "True") || is("Ready", "True");
        let waits = !containers.is_empty() || is("PodScheduled", "False");
        let phase = match (runs, waits) {
            (true, _) => "Running",
            (false, true) => "Pending",
            (false, false) => "Unknown",
        };
        status.insert("phase".into(), json!(phase));
    }
}

/// Returns what containers wait for whose reason is cut away, as the Events that the same message is of.
fn told(status: &Fields) -> Vec<(String, Row)> {
    let all = STATUSES
        .iter()
        .filter_map(|key| status.get(*key)?.as_array())
        .flatten();
    let waiting = all.filter_map(|c| {
        Some((
            text(c.as_object()?, "name")?,
            c.pointer("/state/waiting")?.as_object()?,
        ))
    });
    let cut = waiting.filter(|(_, waiting)| text(waiting, "reason").is_none());
    cut.filter_map(|(name, waiting)| Some((name.to_owned(), row(text(waiting, "message")?)?)))
        .collect()
}

/// Returns the oldest of the times in a pod's status.
fn oldest(status: &Fields) -> Option<String> {
    let times = conditions(&Value::Object(status.clone()));
    let times = times
        .iter()
        .filter_map(|c| text(c, "lastTransitionTime").map(str::to_owned));
    let start = text(status, "startTime").map(str::to_owned);
    let at = |text: &String| Nanos::parse_rfc3339(text).map(|(at, _)| at);
    times
        .chain(start)
        .filter(|text| at(text).is_some())
        .min_by_key(at)
}
