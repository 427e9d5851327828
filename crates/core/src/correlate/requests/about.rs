//! The requests that are about a pod.

use rustc_hash::FxHashMap;

use super::Request;
use crate::correlate::{Pod, World};
use kflow_model::Nanos;

/// Says whether requests are about one of several pods: for the pod or a subresource of it (reads too), for an Event
/// about it, or for a list or watch that selects it by name.
///
/// A record names a pod by name. Of several pods with the name one after the other, a request is about the one that
/// was created last; before the first, about the first.
#[derive(Debug)]
pub struct About {
    /// By `namespace/name`, from when until when the name is that of a chosen pod.
    times: FxHashMap<String, Vec<(Nanos, Nanos)>>,
}

impl About {
    pub fn pods(world: &World, pods: &[Pod]) -> Self {
        let mut times: FxHashMap<String, Vec<(Nanos, Nanos)>> = FxHashMap::default();
        for pod in pods {
            let begin = |p: &Pod| p.create_requested.unwrap_or(p.created);
            let same = world.every_pod().iter().filter(|p| p.key() == pod.key());
            let others = || same.clone().filter(|p| p.uid != pod.uid).map(begin);
            let is_first = others().all(|other| other > begin(pod));
            let from = if is_first {
                Nanos(i64::MIN)
            } else {
                begin(pod)
            };
            let to = others().filter(|other| *other > begin(pod)).min();
            let time = (from, to.unwrap_or(Nanos(i64::MAX)));
            times.entry(pod.key()).or_default().push(time);
        }
        Self { times }
    }

    pub fn is_about(&self, r: &Request) -> bool {
        let Some(name) = pod_of(r) else { return false };
        let times = self.times.get(&format!("{}/{name}", r.object.namespace));
        let mut times = times.into_iter().flatten();
        times.any(|(from, to)| (*from..*to).contains(&r.received))
    }
}

/// Returns the name of the pod that a request names.
fn pod_of(r: &Request) -> Option<&str> {
    let name = r.object.name.as_str();
    let resource = r.resource.split('/').next();
    // A selector's `=` may be percent-encoded.
    let selected = |field: &str| {
        let mut parts = r
            .query
            .split('&')
            .filter_map(|p| p.strip_prefix("fieldSelector="));
        let (_, rest) = parts.find_map(|p| p.split_once(field))?;
        let value = rest
            .strip_prefix("%3D")
            .or_else(|| rest.strip_prefix('='))?;
        value.split([',', '%']).next()
    };
    match resource {
        Some("pods") if name.is_empty() => selected("metadata.name"),
        Some("pods") => Some(name),
        Some("events") if name.is_empty() => {
            selected("involvedObject.name").or_else(|| selected("regarding.name"))
        }
        // client-go names an Event after its object and a number in hex (tools/record, makeEvent).
        Some("events") => {
            let (object, number) = name.rsplit_once('.')?;
            let is_hex = number.bytes().all(|b| b.is_ascii_hexdigit());
            is_hex.then_some(object)
        }
        _ => None,
    }
    .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::{ObjectRef, Text};

    #[test]
    fn a_request_names_its_pod() {
        let of = |resource: &str, name: &str, query: &str| {
            let r = Request {
                audit_id: Text::default(),
                received: Nanos(0),
                precision: 1,
                ended: None,
                verb: Text::default(),
                resource: resource.into(),
                object: ObjectRef {
                    name: name.into(),
                    ..ObjectRef::default()
                },
                user: Text::default(),
                agent: Text::default(),
                code: 0,
                message: Text::default(),
                decision: Text::default(),
                query: query.into(),
                latency: Vec::new(),
                webhooks: Vec::new(),
                span: None,
                evidence: Vec::new(),
            };
            pod_of(&r).map(str::to_owned)
        };
        for (resource, name, query, want) in [
            ("pods", "web-0", "", Some("web-0")),
            ("pods/status", "web-0", "", Some("web-0")),
            (
                "pods",
                "",
                "watch=true&fieldSelector=metadata.name=web-0",
                Some("web-0"),
            ),
            (
                "pods",
                "",
                "fieldSelector=metadata.name%3Dweb-0%2Cspec.nodeName%3Dn&watch=1",
                Some("web-0"),
            ),
            ("pods", "", "fieldSelector=spec.nodeName=node1", None),
            ("events", "web-0.18e9e850da26932b", "", Some("web-0")),
            ("events", "a.b.18e9e850da26932b", "", Some("a.b")),
            ("events", "web-0.other", "", None),
            (
                "events",
                "",
                "fieldSelector=involvedObject.name%3Dweb-0",
                Some("web-0"),
            ),
            ("services", "web-0", "", None),
        ] {
            assert_eq!(
                of(resource, name, query).as_deref(),
                want,
                "{resource} {name} {query}"
            );
        }
    }
}
