//! The facts in the bodies of requests and responses that join an audit record to a pod, or say
//! what the request changed.
//!
//! | resource | facts |
//! |---|---|
//! | any | `generateName`, `ownerKind`, `ownerName`, `ownerUid`, `generation`; name and UID of the object |
//! | any delete | `gracePeriodSeconds`, `preconditionUid`, `deletionTimestamp`, `propagationPolicy` |
//! | `pods`, `pods/status`, `nodes/status`, … | `phase`, `reason`, `condition.<type>`, `container.<name>` |
//! | `pods/binding`, `bindings` | `node` |
//! | `pods/eviction` | `gracePeriodSeconds` |
//! | `serviceaccounts/token` | `boundPodName`, `boundPodUid`, `expirationSeconds` |
//! | workloads | `replicas`, `statusReplicas`, `readyReplicas`, `observedGeneration` |
//! | `events` | `reason`, `count`, `involvedKind`, `involvedName`, `involvedNamespace`, `involvedUid` |
//! | `volumeattachments`, claims, volumes | `node`, `attacher`, `attached`, `volumeName`, `phase` |

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::cut;
use kflow_model::{ObjectRef, Text};

/// Resources whose bodies are never read, whatever the audit level is.
const SECRET: [&str; 2] = ["secrets", "configmaps"];

/// Returns the facts, unsorted; fills in name, namespace and UID of `object` where the reference lacks them.
pub(super) fn of(
    resource: &str,
    verb: &str,
    request: Option<&RawValue>,
    response: Option<&RawValue>,
    object: &mut ObjectRef,
) -> Vec<(Text, Text)> {
    if SECRET.contains(&object.kind.as_str()) || (request.is_none() && response.is_none()) {
        return Vec::new();
    }
    // A body is whatever the client sent: one that does not parse has no facts.
    let read = |raw: Option<&RawValue>| {
        raw.and_then(|r| serde_json::from_str::<Content>(r.get()).ok())
            .unwrap_or_default()
    };
    let (request, mut response) = (read(request), read(response));
    if response.kind == "Status" {
        response = Content::default();
    }
    for meta in [&response.metadata, &request.metadata] {
        fill(&mut object.name, &meta.name);
        fill(&mut object.namespace, &meta.namespace);
        fill(&mut object.uid, &meta.uid);
    }
    let mut out = Facts(Vec::new());
    let (rq, rs) = (&request, &response);
    out.first(
        "generateName",
        [&rq.metadata.generate_name, &rs.metadata.generate_name],
    );
    if let Some(o) = rs.controller().or_else(|| rq.controller()) {
        out.add("ownerKind", &o.kind);
        out.add("ownerName", &o.name);
        out.add("ownerUid", &o.uid);
    }
    out.number("generation", rs.metadata.generation);
    if verb == "delete" || verb == "deletecollection" {
        out.number(
            "gracePeriodSeconds",
            rs.metadata
                .deletion_grace_period_seconds
                .or(rq.grace_period_seconds),
        );
        out.add("preconditionUid", &rq.preconditions.uid);
        out.add("propagationPolicy", &rq.propagation_policy);
        out.add("deletionTimestamp", &rs.metadata.deletion_timestamp);
    }
    match resource {
        "pods/binding" | "bindings" => out.add("node", &rq.target.name),
        "pods/eviction" => out.number("gracePeriodSeconds", rq.delete_options.grace_period_seconds),
        "serviceaccounts/token" => {
            let bound = &rq.spec.bound_object_ref;
            if bound.kind == "Pod" {
                out.add("boundPodName", &bound.name);
                out.add("boundPodUid", &bound.uid);
            }
            out.number("expirationSeconds", rq.spec.expiration_seconds);
        }
        "events" => {
            let e = if rs.reason.is_empty() { rq } else { rs };
            if let Some(o) = e.involved_object.as_ref().or(e.regarding.as_ref()) {
                out.add("involvedKind", &o.kind);
                out.add("involvedName", &o.name);
                out.add("involvedNamespace", &o.namespace);
                out.add("involvedUid", &o.uid);
            }
            out.add("reason", &e.reason);
            out.number("count", e.count);
        }
        _ => out.object(resource, verb, rq, rs),
    }
    out.0
}

fn fill(to: &mut Text, from: &Text) {
    if to.is_empty() {
        to.clone_from(from);
    }
}

struct Facts(Vec<(Text, Text)>);

impl Facts {
    fn add(&mut self, key: &str, value: &Text) {
        if !value.is_empty() {
            self.0.push((key.into(), cut(value, 512)));
        }
    }
    fn first(&mut self, key: &str, values: [&Text; 2]) {
        if let Some(v) = values.into_iter().find(|v| !v.is_empty()) {
            self.add(key, v);
        }
    }
    fn number(&mut self, key: &str, value: Option<i64>) {
        if let Some(n) = value {
            self.0.push((key.into(), n.to_string().into()));
        }
    }
    fn object(&mut self, resource: &str, verb: &str, rq: &Content, rs: &Content) {
        if resource.ends_with("/status") {
            self.status(&rq.status);
        }
        if (resource == "pods" && verb == "create") || resource.starts_with("volumeattachments") {
            self.first("node", [&rs.spec.node_name, &rq.spec.node_name]);
        }
        // The request's body comes first: a patch says what it changes. The response says what the
        // patch does not touch.
        self.first("phase", [&rq.status.phase, &rs.status.phase]);
        self.first("reason", [&rq.status.reason, &rs.status.reason]);
        self.number("replicas", rs.spec.replicas.or(rq.spec.replicas));
        self.number("statusReplicas", rs.status.replicas);
        self.number("readyReplicas", rs.status.ready_replicas);
        self.number("observedGeneration", rs.status.observed_generation);
        self.first("attacher", [&rs.spec.attacher, &rq.spec.attacher]);
        self.first("volumeName", [&rs.spec.volume(), &rq.spec.volume()]);
        if let Some(attached) = rs.status.attached.or(rq.status.attached) {
            self.add("attached", &attached.to_string().into());
        }
    }
    /// Adds what a patch of a status changes. An entry of a strategic merge patch without a value says only that the
    /// entry stays.
    fn status(&mut self, s: &Status) {
        for c in s.conditions.iter().filter(|c| !c.status.is_empty()) {
            let text = if c.reason.is_empty() {
                c.status.clone()
            } else {
                format!("{}/{}", c.status, c.reason).into()
            };
            self.add(&format!("condition.{}", c.kind), &text);
        }
        let containers = s
            .init_container_statuses
            .iter()
            .chain(&s.container_statuses)
            .chain(&s.ephemeral_container_statuses);
        for c in containers {
            self.add(&format!("container.{}", c.name), &c.state.text());
        }
    }
}

/// Deserialises null like an absent field.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(d: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

macro_rules! body {
    ($($name:ident { $($(#[$attr:meta])* $field:ident: $ty:ty),* $(,)? })*) => { $(
        #[derive(Deserialize, Default)]
        #[serde(default, rename_all = "camelCase")]
        struct $name { $($(#[$attr])* #[serde(deserialize_with = "nullable")] $field: $ty),* }
    )* };
}

// `Content` is any body, reduced to the fields that facts come from; the others are its parts.
body! {
    Content {
        kind: Text,
        metadata: Meta,
        spec: Spec,
        status: Status,
        target: Reference,
        reason: Text,
        count: Option<i64>,
        grace_period_seconds: Option<i64>,
        propagation_policy: Text,
        preconditions: Reference,
        delete_options: DeleteOptions,
        involved_object: Option<Reference>,
        regarding: Option<Reference>,
    }
    Meta {
        name: Text,
        namespace: Text,
        uid: Text,
        generate_name: Text,
        generation: Option<i64>,
        deletion_timestamp: Text,
        deletion_grace_period_seconds: Option<i64>,
        owner_references: Vec<Owner>,
    }
    Owner { kind: Text, name: Text, uid: Text, controller: bool }
    Reference { kind: Text, namespace: Text, name: Text, uid: Text }
    Spec {
        node_name: Text,
        replicas: Option<i64>,
        attacher: Text,
        volume_name: Text,
        source: VolumeSource,
        bound_object_ref: Reference,
        expiration_seconds: Option<i64>,
    }
    VolumeSource { persistent_volume_name: Text }
    DeleteOptions { grace_period_seconds: Option<i64> }
    Status {
        phase: Text,
        reason: Text,
        replicas: Option<i64>,
        ready_replicas: Option<i64>,
        observed_generation: Option<i64>,
        attached: Option<bool>,
        conditions: Vec<Condition>,
        init_container_statuses: Vec<Container>,
        container_statuses: Vec<Container>,
        ephemeral_container_statuses: Vec<Container>,
    }
    Condition { #[serde(rename = "type")] kind: Text, status: Text, reason: Text }
    Container { name: Text, state: State }
    State {
        waiting: Option<Why>,
        running: Option<Why>,
        terminated: Option<Why>,
    }
    Why { reason: Text }
}

impl Content {
    fn controller(&self) -> Option<&Owner> {
        self.metadata.owner_references.iter().find(|o| o.controller)
    }
}

impl Spec {
    /// Returns the name of the volume that a claim is bound to, or that a VolumeAttachment attaches.
    fn volume(&self) -> Text {
        let mut name = self.volume_name.clone();
        fill(&mut name, &self.source.persistent_volume_name);
        name
    }
}

impl State {
    /// `waiting/ContainerCreating`, `running`, `terminated/Error`.
    fn text(&self) -> Text {
        let (state, why) = match (&self.terminated, &self.running, &self.waiting) {
            (Some(t), ..) => ("terminated", t.reason.as_str()),
            (None, Some(_), _) => ("running", ""),
            (None, None, Some(w)) => ("waiting", w.reason.as_str()),
            _ => return Text::default(),
        };
        if why.is_empty() {
            state.into()
        } else {
            format!("{state}/{why}").into()
        }
    }
}
