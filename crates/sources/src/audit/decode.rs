//! From `audit.k8s.io/v1` JSON to observations. Pure.
//!
//! Decides what is kept of a record. Bodies are read by structs that name the few facts which join a request to a pod
//! (`bodies`); bodies of Secrets and ConfigMaps are not read at all. Queries and annotations pass allow-lists, because
//! `exec` has its command in the query and webhooks write what they like into annotations.

use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

use super::super::{Fed, LineDecoder};
use crate::logtext::shorten as cut;
use kflow_model::{
    Body, Nanos, ObjectRef, Observation, Source, Stamp, Text,
    audit::{AuditRecord, AuditStage},
    redact,
};

mod bodies;
#[cfg(test)]
mod tests;

/// Decodes an audit log, one record (or `EventList`) a line.
///
/// The log does not say when a line was written. By default the apiserver writes the line before it goes on, so the
/// record's own time is taken as its time of arrival. A live tail sets the arrival by its own clock.
#[derive(Clone, Debug, Default)]
pub struct AuditLines {
    left: Vec<Fed>,
}

impl AuditLines {
    pub const fn new() -> Self {
        Self { left: Vec::new() }
    }
}

impl LineDecoder for AuditLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Fed::Ignored("blank line");
        }
        decode(line, None, out, &mut self.left)
    }

    fn left(&mut self) -> Vec<Fed> {
        std::mem::take(&mut self.left)
    }
}

/// Decodes the body of one request of the apiserver's audit webhook (an `EventList`), received at `seen`.
pub fn decode_batch(body: &[u8], seen: Nanos, out: &mut Vec<Observation>) -> Fed {
    let mut left = Vec::new();
    let fed = decode(body, Some(seen), out, &mut left);
    let malformed = left.into_iter().find(|f| matches!(f, Fed::Malformed(_)));
    malformed.unwrap_or(fed)
}

/// Decodes a record or a list of them. What was left out of a list goes into `left`.
fn decode(
    json: &[u8],
    seen: Option<Nanos>,
    out: &mut Vec<Observation>,
    left: &mut Vec<Fed>,
) -> Fed {
    let raw: Raw<'_> = match serde_json::from_slice(json) {
        Ok(raw) => raw,
        Err(e) if e.is_eof() => return Fed::Malformed("audit record is cut off"),
        Err(_) => return Fed::Malformed("not an audit record"),
    };
    let Some(items) = raw.items else {
        return one(raw, seen, out);
    };
    let before = out.len();
    for item in items {
        let item = serde_json::from_str::<Raw<'_>>(item.get()).map(|mut item| {
            // The webhook's `EventList` has the version once, for the whole list.
            if item.api_version.is_empty() {
                item.api_version.clone_from(&raw.api_version);
            }
            one(item, seen, out)
        });
        let fed = item.unwrap_or(Fed::Malformed("not an audit record"));
        left.extend(fed.left());
    }
    Fed::Observed(out.len() - before)
}

/// Paths of requests that say nothing about a pod, nor about the control plane's health beyond what `/readyz` polling
/// does; each with the reason for which it is ignored.
const NOISE: [(&str, &str); 9] = [
    ("/api", "discovery"),
    ("/apis", "discovery"),
    ("/openapi", "openapi"),
    ("/readyz", "health check"),
    ("/livez", "health check"),
    ("/healthz", "health check"),
    ("/version", "discovery"),
    ("/metrics", "scrape of metrics"),
    ("/.well-known", "discovery"),
];

fn one(raw: Raw<'_>, seen: Option<Nanos>, out: &mut Vec<Observation>) -> Fed {
    if !raw.api_version.starts_with("audit.k8s.io/") {
        return Fed::Malformed("not an audit record");
    }
    let Some(stage) = stage(&raw.stage) else {
        return Fed::Malformed("audit record without a known stage");
    };
    let (path, query) = raw
        .request_uri
        .split_once('?')
        .unwrap_or((raw.request_uri.as_ref(), ""));
    let reference = raw.object_ref.unwrap_or_default();
    let resource: Text = if reference.resource.is_empty() {
        if let Some((_, why)) = NOISE.iter().find(|(p, _)| under(path, p)) {
            return Fed::Ignored(why);
        }
        beginning(path)
    } else if reference.subresource.is_empty() {
        reference.resource.clone()
    } else {
        format!("{}/{}", reference.resource, reference.subresource).into()
    };
    let Some((at, precision)) = Nanos::parse_rfc3339(&raw.stage_timestamp) else {
        return Fed::Malformed("audit record without stageTimestamp");
    };
    let received = Nanos::parse_rfc3339(&raw.request_received_timestamp).map_or(at, |(t, _)| t);
    let mut object = ObjectRef {
        kind: reference.resource,
        namespace: reference.namespace,
        name: reference.name,
        uid: reference.uid,
    };
    let mut facts = bodies::of(
        &resource,
        &raw.verb,
        raw.request_object,
        raw.response_object,
        &mut object,
    );
    if let Some(user) = raw.impersonated_user
        && !user.username.is_empty()
    {
        facts.push(("impersonated".into(), user.username));
    }
    facts.sort();
    let status = raw.response_status.unwrap_or_default();
    out.push(Observation {
        stamp: Stamp::new(at, precision, seen.unwrap_or(at)),
        source: Source::Audit,
        body: Body::Audit(Box::new(AuditRecord {
            audit_id: raw.audit_id,
            stage,
            verb: raw.verb,
            resource,
            object,
            user: raw.user.unwrap_or_default().username,
            agent: agent(&raw.user_agent),
            received,
            code: status.code.unwrap_or(0),
            message: status.text(),
            query: kept_query(query),
            annotations: annotations(raw.annotations.unwrap_or_default()).into(),
            facts: facts.into(),
        })),
    });
    Fed::Observed(1)
}

/// Returns the first two segments of a path that names no resource: what follows can be anything.
fn beginning(path: &str) -> Text {
    let end = path
        .match_indices('/')
        .nth(2)
        .map_or(path.len(), |(i, _)| i);
    cut(path.get(..end).unwrap_or_default(), 128)
}

fn under(path: &str, root: &str) -> bool {
    path.strip_prefix(root)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn stage(name: &str) -> Option<AuditStage> {
    Some(match name {
        "RequestReceived" => AuditStage::RequestReceived,
        "ResponseStarted" => AuditStage::ResponseStarted,
        "ResponseComplete" => AuditStage::ResponseComplete,
        "Panic" => AuditStage::Panic,
        _ => return None,
    })
}

/// Shortens a user agent: `kubelet/v1.36.2` for `kubelet/v1.36.2 (linux/amd64) kubernetes/98b3519`. A controller's
/// name follows the program: `kube-controller-manager/v1.36.2 replicaset-controller`.
fn agent(user_agent: &str) -> Text {
    let mut words = user_agent.split(' ');
    let program = words.next().unwrap_or_default();
    let last = words.next_back().unwrap_or_default();
    let part = last.splitn(3, '/').nth(2).unwrap_or_default();
    let part = part.rsplit(':').next().unwrap_or_default();
    if part.is_empty() {
        cut(program, 128)
    } else {
        cut(&format!("{program} {part}"), 128)
    }
}

/// Returns the parameters of a query that hold no data of users.
fn kept_query(query: &str) -> Text {
    let mut kept = String::new();
    for pair in query.split('&') {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if redact::is_plain_parameter(key) {
            if !kept.is_empty() {
                kept.push('&');
            }
            kept.push_str(key);
            kept.push('=');
            kept.push_str(&percent_decode_str(value).decode_utf8_lossy());
        }
    }
    cut(&kept, 512)
}

/// Prefixes of the annotations that the apiserver itself writes and that kflow shows. Not
/// `patch.webhook.admission.k8s.io/…`: it holds the patch.
const ANNOTATIONS: [&str; 10] = [
    "apiserver.latency.k8s.io/",
    "audit.k8s.io/truncated",
    "authentication.k8s.io/stale-token",
    "authorization.k8s.io/",
    "failed-open.",
    "k8s.io/deprecated",
    "k8s.io/removed-release",
    "mutation.webhook.admission.k8s.io/",
    "pod-security.kubernetes.io/",
    "validation.policy.admission.k8s.io/",
];

fn annotations(all: BTreeMap<Text, Text>) -> Vec<(Text, Text)> {
    all.into_iter()
        .filter(|(k, v)| !v.is_empty() && ANNOTATIONS.iter().any(|p| k.starts_with(p)))
        .map(|(k, v)| (k, cut(&v, 1024)))
        .collect()
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(rename = "auditID")]
    audit_id: Text,
    #[serde(borrow)]
    stage: Cow<'a, str>,
    #[serde(rename = "requestURI", borrow)]
    request_uri: Cow<'a, str>,
    verb: Text,
    user: Option<User>,
    impersonated_user: Option<User>,
    #[serde(borrow)]
    user_agent: Cow<'a, str>,
    object_ref: Option<Reference>,
    response_status: Option<Status>,
    #[serde(borrow)]
    request_object: Option<&'a RawValue>,
    #[serde(borrow)]
    response_object: Option<&'a RawValue>,
    #[serde(borrow)]
    request_received_timestamp: Cow<'a, str>,
    #[serde(borrow)]
    stage_timestamp: Cow<'a, str>,
    annotations: Option<BTreeMap<Text, Text>>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Reference {
    resource: Text,
    subresource: Text,
    namespace: Text,
    name: Text,
    uid: Text,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    code: Option<u16>,
    reason: Option<Text>,
    message: Option<Text>,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Details {
    causes: Option<Vec<Cause>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Cause {
    reason: Text,
    message: Text,
}

impl Status {
    /// What the apiserver says of the budget by which it refuses that a pod is evicted, after a space: its message does not name it
    /// (k8s.io/api/policy/v1, `DisruptionBudgetCause`).
    fn budget(&self) -> String {
        let causes = self.details.iter().flat_map(|d| &d.causes).flatten();
        let mut of_budget = causes.filter(|c| c.reason == "DisruptionBudget");
        let said = of_budget.next().map(|c| format!(" {}", c.message));
        said.unwrap_or_default()
    }
    /// Returns `Forbidden: pods "x" is forbidden: …` for a failure, else an empty text.
    fn text(&self) -> Text {
        let reason = self.reason.as_deref().unwrap_or_default();
        let message = self.message.as_deref().unwrap_or_default();
        match (reason.is_empty(), message.is_empty()) {
            (false, false) => cut(&format!("{reason}: {message}{}", self.budget()), 2048),
            (false, true) => reason.into(),
            (true, _) => cut(message, 2048),
        }
    }
}
