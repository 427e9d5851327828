//! From an observation to the steps that it lights.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::index::Bucket;
pub use super::index::{Hit, Hits};
use super::map::Map;
use super::readyz::checks;
use super::signature::{Pattern, PodFact, What};
use super::step::StepId;
use kflow_model::{
    Body, Observation, Text,
    fs::{FsChange, FsObject},
    log::LogLine,
    pod::{Condition, ContainerState, PodSeen},
};

impl Map {
    /// Returns the steps that an observation lights, each once, sorted.
    pub fn steps_of(&self, o: &Observation) -> SmallVec<[StepId; 2]> {
        let mut steps: SmallVec<[StepId; 2]> = self.hits(o).iter().map(|h| h.step).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// Returns the steps that are shown by checks of a health endpoint, with the patterns of those checks' names.
    pub(super) fn checked(&self) -> impl Iterator<Item = (StepId, &Pattern)> {
        self.index.health.iter().filter_map(|h| {
            match &self
                .get(h.step)?
                .signatures
                .get(usize::from(h.signature))?
                .what
            {
                What::Health(name) => Some((h.step, name)),
                _ => None,
            }
        })
    }

    /// Returns the signatures that fit an observation.
    pub fn hits(&self, o: &Observation) -> Hits {
        let m = &self.index;
        let mut out = Hits::new();
        match &o.body {
            Body::Log(line) => self.keep(m.logs.find(&line.message), &mut out, |w| log(w, line)),
            Body::Event(e) => self.keep(m.events.find(&e.reason), &mut out, |w| {
                matches!(w, What::Event { reason, message, contains, about, by }
                    if reason.fits(&e.reason)
                        && message.fits(&e.message)
                        && (contains.is_empty() || contains.is_in(&e.message))
                        && about.fits(&e.object.kind)
                        && by.fits(&e.component))
            }),
            Body::CallStart(c) => self.keep(bucket(&m.calls, &c.method), &mut out, |w| {
                matches!(w, What::Call { filtered, deadline, .. }
                    if filtered.is_none_or(|f| f == c.filtered)
                        && deadline.is_none_or(|d| d == c.timeout_ns.is_some()))
            }),
            Body::Span(s) => self.keep(m.spans.find(&s.name), &mut out, |w| {
                matches!(w, What::Span { name, service }
                    if name.fits(&s.name) && service.fits(&s.service))
            }),
            Body::Audit(a) => self.keep(bucket(&m.audits, &a.resource), &mut out, |w| {
                matches!(w, What::Audit { verb, by, .. } if *verb == a.verb && by.fits(&a.user))
            }),
            Body::Fs(change) => {
                let (object, inner) = fs_name(change);
                self.keep(bucket(&m.fs, object), &mut out, |w| {
                    matches!(w, What::Fs { actions, inner: pattern, .. }
                        if actions.contains(&change.action) && pattern.fits(inner))
                });
            }
            Body::Pod(p) => {
                for c in &p.status.conditions {
                    self.keep(bucket(&m.pod_conditions, &c.kind), &mut out, |w| {
                        condition(w, c)
                    });
                }
                self.keep(&m.pods, &mut out, |w| pod(w, p));
            }
            Body::Node(n) => {
                for c in &n.conditions {
                    self.keep(bucket(&m.node_conditions, &c.kind), &mut out, |w| {
                        condition(w, c)
                    });
                }
            }
            Body::ContainerEvent(e) => {
                let of_sandbox = e.is_of_sandbox();
                self.keep(&m.container_events, &mut out, |w| match w {
                    What::ContainerEvent(kind) => *kind == e.kind && !of_sandbox,
                    What::SandboxEvent(kind) => *kind == e.kind && of_sandbox,
                    _ => false,
                });
            }
            Body::Sample(s) => {
                // A scrape without an answer (code 0) shows nothing.
                if s.code != 0 {
                    out.extend(bucket(&m.endpoints, &s.what).iter().copied());
                }
                for (series, value) in &s.values {
                    if value.0 > 0.0 {
                        out.extend(bucket(&m.metrics, family(series)).iter().copied());
                    }
                }
                out.sort_unstable_by_key(|h| (h.step, h.signature));
                out.dedup();
            }
            _ => {}
        }
        if let Some(told) = checks(self, o) {
            self.keep(&m.health, &mut out, |w| {
                matches!(w, What::Health(p)
                    if told.failing.iter().chain(&told.passed).any(|check| p.fits(check)))
            });
        }
        out
    }

    fn keep<'a>(
        &self,
        candidates: impl IntoIterator<Item = &'a Hit>,
        out: &mut Hits,
        fits: impl Fn(&What) -> bool,
    ) {
        for hit in candidates {
            let signature = self
                .get(hit.step)
                .and_then(|s| s.signatures.get(usize::from(hit.signature)));
            if signature.is_some_and(|c| fits(&c.what)) {
                out.push(*hit);
            }
        }
    }
}

fn bucket<'a>(map: &'a FxHashMap<Text, Bucket>, key: &str) -> &'a [Hit] {
    map.get(key).map_or(&[], |b| b.as_slice())
}

pub(super) fn log(what: &What, line: &LogLine) -> bool {
    let What::Log {
        component,
        message,
        contains,
        fields,
    } = what
    else {
        return false;
    };
    component.is_none_or(|c| c == line.component)
        && message.fits(&line.message)
        && (contains.is_empty() || contains.is_in(&line.message) || contains.is_in(&line.error))
        && fields
            .iter()
            .all(|(k, v)| line.field(k).is_some_and(|told| v.fits(told)))
}

fn condition(what: &What, c: &Condition) -> bool {
    matches!(what, What::Condition { status, reason, .. } if *status == c.status && reason.fits(&c.reason))
}

fn pod(what: &What, p: &PodSeen) -> bool {
    let What::Pod(fact) = what else {
        return false;
    };
    match fact {
        PodFact::Phase(t) => p.status.phase.as_str() == t.as_str(),
        PodFact::Reason(t) => !p.status.reason.is_empty() && t.fits(&p.status.reason),
        PodFact::Message(t) => t.fits(&p.status.message),
        PodFact::Waiting(t) => p
            .statuses()
            .any(|c| matches!(&c.state, ContainerState::Waiting { reason, .. } if reason == t)),
        PodFact::Terminated(t) => p.statuses().any(|c| {
            matches!(&c.state, ContainerState::Terminated(x) if x.reason == *t)
                || c.last.as_ref().is_some_and(|x| x.reason == *t)
        }),
        PodFact::Deletion => p.deletion.is_some(),
        PodFact::StartTime => p.status.start_time.is_some(),
        PodFact::Node => !p.spec.node.is_empty(),
        PodFact::NominatedNode => !p.status.nominated_node.is_empty(),
        PodFact::Ip => !p.status.pod_ip.is_empty(),
    }
}

/// Returns the object's name in the map's file, and the text that `inner` is compared with.
fn fs_name(change: &FsChange) -> (&'static str, &str) {
    match &change.object {
        FsObject::PodCgroup { .. } => ("pod_cgroup", ""),
        FsObject::ContainerCgroup { .. } => ("container_cgroup", ""),
        FsObject::PodDir { .. } => ("pod_dir", ""),
        FsObject::Volume { inner, .. } => ("volume", inner.as_str()),
        FsObject::PodFile { inner, .. } => ("pod_file", inner.as_str()),
        FsObject::VolumeMount { .. } => ("volume_mount", ""),
        FsObject::NetNs { .. } => ("net_ns", ""),
        FsObject::RuntimeMount { what, .. } => ("runtime_mount", what.as_str()),
    }
}

/// Returns the metric family of a series: its name without labels and without a histogram's suffix.
fn family(series: &str) -> &str {
    let name = series.split('{').next().unwrap_or_default();
    ["_bucket", "_count", "_sum"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name)
}
