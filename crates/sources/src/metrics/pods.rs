//! Reads the kubelet's own list of pods: what `/pods` says and the API does not.
//!
//! For a pod from the API, the kubelet returns the object that the API gave it, which the watch shows sooner. For a
//! **static pod** it returns its own status (`Kubelet.GetPods`: "a kubelet running without apiserver requires an
//! additional update of the static pod status"), before there is a mirror pod, and also when there never is one.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::scrape::Scrape;
use crate::kube::decode::decode_object;
use kflow_model::pod::{PodSeen, WatchEvent};
use kflow_model::{Body, Observation, PodUid, Source, Stamp};

/// Most static pods that are remembered: a node has a handful.
const MOST: usize = 1024;

/// The static pods of one kubelet, as its last answer had them.
#[derive(Debug, Default)]
pub(super) struct KubeletPods {
    known: FxHashMap<PodUid, Known>,
    /// Number of answers so far.
    scrapes: u64,
}

#[derive(Debug)]
struct Known {
    pod: PodSeen,
    /// Number of the last answer that had the pod.
    scrape: u64,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Meta,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default)]
    annotations: Option<Annotations>,
}

#[derive(Deserialize)]
struct Annotations {
    #[serde(rename = "kubernetes.io/config.source", default)]
    source: Option<String>,
}

impl KubeletPods {
    /// Appends what changed since the answer before, by UID. A pod is gone when two answers in a row are without it:
    /// a kubelet that has just started answers before it has read its manifests.
    pub(super) fn changes(
        &mut self,
        s: Scrape<'_>,
        out: &mut Vec<Observation>,
    ) -> Result<(), &'static str> {
        let list: List<'_> = serde_json::from_str(s.body).map_err(|_| "pods that do not parse")?;
        self.scrapes += 1;
        let from = out.len();
        // As with a watch, the change is not later than this moment.
        let stamp = Stamp::exact(s.at);
        for item in list.items.unwrap_or_default() {
            if !is_static(item.get()) {
                continue;
            }
            // The decoder refuses only what is not a pod.
            let Ok(mut o) = decode_object(item.get().as_bytes(), "Pod", WatchEvent::Listed, stamp)
            else {
                continue;
            };
            o.source = Source::Metrics;
            let Body::Pod(pod) = &mut o.body else {
                continue;
            };
            pod.mirror_of = Some(pod.uid.clone());
            if let Some(known) = self.known.get_mut(&pod.uid) {
                known.scrape = self.scrapes;
                if known.pod == **pod {
                    continue;
                }
                known.pod.clone_from(pod);
                pod.event = WatchEvent::Modified;
            } else if self.known.len() < MOST {
                let known = Known {
                    pod: (**pod).clone(),
                    scrape: self.scrapes,
                };
                self.known.insert(pod.uid.clone(), known);
                if self.scrapes > 1 {
                    pod.event = WatchEvent::Added;
                }
            } else {
                continue;
            }
            out.push(o);
        }
        let last_but_one = self.scrapes.saturating_sub(1);
        let mut gone: Vec<PodSeen> = Vec::new();
        self.known.retain(|_, k| {
            let stays = k.scrape >= last_but_one;
            if !stays {
                gone.push(k.pod.clone());
            }
            stays
        });
        out.extend(gone.into_iter().map(|mut pod| {
            pod.event = WatchEvent::Deleted;
            Observation {
                stamp,
                source: Source::Metrics,
                body: Body::Pod(Box::new(pod)),
            }
        }));
        // A hash map has no order, and a session must have one.
        if let Some(new) = out.get_mut(from..) {
            new.sort();
        }
        Ok(())
    }
}

/// Returns true for a pod from a file or a URL: the kubelet annotates each pod with its origin.
fn is_static(json: &str) -> bool {
    serde_json::from_str::<Item>(json)
        .ok()
        .and_then(|i| i.metadata.annotations?.source)
        .is_some_and(|s| s != "api")
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::Nanos;

    /// Answers of a kubelet 1.36, cut to a static pod and one from the API: before the static pod ran, and after.
    const PENDING: &str = include_str!("../../../../fixtures/metrics/pods-pending.json");
    const RUNNING: &str = include_str!("../../../../fixtures/metrics/pods-running.json");
    const NONE: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}"#;

    fn told(pods: &mut KubeletPods, at: i64, body: &str) -> Vec<(WatchEvent, String)> {
        let mut out = Vec::new();
        let scrape = Scrape {
            at: Nanos(at),
            took_ns: 10,
            what: "kubelet-pods",
            code: 200,
            body,
        };
        pods.changes(scrape, &mut out).unwrap();
        out.into_iter()
            .map(|o| {
                assert_eq!(
                    (o.source, o.stamp),
                    (Source::Metrics, Stamp::exact(Nanos(at)))
                );
                let Body::Pod(p) = o.body else { panic!() };
                assert_eq!(p.mirror_of.as_ref(), Some(&p.uid));
                (p.event, format!("{} {}", p.name, p.status.phase))
            })
            .collect()
    }

    #[test]
    fn a_static_pod_is_told_of_once_for_each_state_and_pods_of_the_api_never() {
        use WatchEvent::{Deleted, Listed, Modified};
        let mut pods = KubeletPods::default();
        let pod = |phase: &str| format!("static-web-node1 {phase}");
        assert_eq!(told(&mut pods, 1, PENDING), [(Listed, pod("Pending"))]);
        assert_eq!(told(&mut pods, 2, PENDING), []);
        assert_eq!(told(&mut pods, 3, RUNNING), [(Modified, pod("Running"))]);
        assert_eq!(told(&mut pods, 4, NONE), [], "the kubelet has just started");
        assert_eq!(
            told(&mut pods, 5, RUNNING),
            [],
            "and has read its manifests"
        );
        assert_eq!(told(&mut pods, 6, NONE), []);
        assert_eq!(told(&mut pods, 7, NONE), [(Deleted, pod("Running"))]);
        assert_eq!(told(&mut pods, 8, NONE), []);
    }

    #[test]
    fn a_static_pod_that_came_later_was_added() {
        let mut pods = KubeletPods::default();
        told(&mut pods, 1, NONE);
        assert_eq!(told(&mut pods, 2, PENDING)[0].0, WatchEvent::Added);
    }

    #[test]
    fn what_is_no_list_of_pods_is_refused() {
        let mut out = Vec::new();
        for body in ["", "Unauthorized", "3", r#"{"items":3}"#] {
            let scrape = Scrape {
                at: Nanos(1),
                took_ns: 1,
                what: "kubelet-pods",
                code: 200,
                body,
            };
            let told = KubeletPods::default().changes(scrape, &mut out);
            assert_eq!(told, Err("pods that do not parse"), "{body}");
        }
        assert_eq!(out, []);
    }
}
