//! The newest sign of life of kubelets, schedulers and controllers: from leases, requests and Events.
//!
//! Only the newest sign of each component and the newest renewal of each lease are kept: a kubelet renews its lease
//! every 10 s (a quarter of `nodeLeaseDurationSeconds`, 40 s), a leader every 2 s (`leaderElection.retryPeriod`).

use std::collections::BTreeMap;
use std::sync::Arc;

use kflow_model::Evidence;
use kflow_model::{
    Body, Nanos, Text, audit::AuditRecord, event::EventSeen, object::ObjectSeen, pod::WatchEvent,
    stamp::SECOND,
};

/// Namespace of the leases that kubelets renew as heartbeats.
pub const NODE_LEASES: &str = "kube-node-lease";
/// Namespace of the leases by which schedulers and controllers elect a leader.
pub const LEADER_LEASES: &str = "kube-system";
/// The scheduler of a pod that names none in `spec.schedulerName`.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A component that acts on pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The kubelet of a node.
    Kubelet(Text),
    /// The scheduler of that name.
    Scheduler(Text),
    /// kube-controller-manager, known by its lease.
    Controllers,
}

/// The newest sign of life.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sign {
    /// Time of the sign: of a lease or an Event by the component's own clock, of a request by the apiserver's.
    pub at: Nanos,
    pub evidence: Evidence,
}

/// A lease, as its newest renewal shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// `spec.holderIdentity`; empty when the lease was released.
    pub holder: Text,
    /// `spec.renewTime`, by the holder's clock.
    pub renewed: Nanos,
    /// `spec.leaseDurationSeconds`, ns: this long after a renewal the lease counts as abandoned; 0 when not set.
    pub duration_ns: i64,
    pub evidence: Evidence,
}

impl Lease {
    /// How long after a renewal the lease counts as held, ns; `usual` when the lease does not state a duration.
    pub const fn lasts(&self, usual: i64) -> i64 {
        if self.duration_ns > 0 {
            self.duration_ns
        } else {
            usual
        }
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard {
    leases: Arc<BTreeMap<(Text, Text), Lease>>,
    /// Newest renewal of each node's lease, from the audit log.
    renewals: Arc<BTreeMap<Text, Nanos>>,
    signs: Arc<BTreeMap<Actor, Sign>>,
}

impl Heard {
    pub(crate) fn observe(&mut self, o: &Evidence) {
        match &o.body {
            Body::Object(x) if x.object.kind == "Lease" => self.lease(o, x),
            Body::Audit(a) => self.request(o, a),
            Body::Event(e) => self.event(o, e),
            _ => {}
        }
    }

    fn hear(&mut self, actor: Actor, at: Nanos, o: &Evidence) {
        let newer = self
            .signs
            .get(&actor)
            .is_none_or(|s| (s.at, &s.evidence) < (at, o));
        if newer {
            let evidence = Arc::clone(o);
            Arc::make_mut(&mut self.signs).insert(actor, Sign { at, evidence });
        }
    }

    fn lease(&mut self, o: &Evidence, x: &ObjectSeen) {
        let Some(new) = read(o, x) else { return };
        let (namespace, name) = (&x.object.namespace, &x.object.name);
        if x.event != WatchEvent::Deleted && !new.holder.is_empty() {
            let actor = match (namespace.as_str(), name.as_str()) {
                (NODE_LEASES, _) => Some(Actor::Kubelet(name.clone())),
                (LEADER_LEASES, "kube-scheduler") => {
                    Some(Actor::Scheduler(DEFAULT_SCHEDULER.into()))
                }
                (LEADER_LEASES, "kube-controller-manager") => Some(Actor::Controllers),
                _ => None,
            };
            if let Some(actor) = actor {
                self.hear(actor, new.renewed, o);
            }
        }
        let key = (namespace.clone(), name.clone());
        let newer = self
            .leases
            .get(&key)
            .is_none_or(|old| (old.renewed, &old.evidence) < (new.renewed, &new.evidence));
        if newer {
            Arc::make_mut(&mut self.leases).insert(key, new);
        }
    }

    fn request(&mut self, o: &Evidence, a: &AuditRecord) {
        // A watch is answered long after its client sent the request: the request's arrival counts.
        let asked = if a.received.0 > 0 {
            a.received
        } else {
            o.stamp.at
        };
        if let Some(node) = a.kubelet_of() {
            self.hear(Actor::Kubelet(node.into()), asked, o);
            if a.resource == "leases"
                && a.object.namespace == NODE_LEASES
                && matches!(a.verb.as_str(), "update" | "patch" | "create")
                && (200..300).contains(&a.code)
                && self
                    .renewals
                    .get(a.object.name.as_str())
                    .is_none_or(|t| *t < o.stamp.at)
            {
                Arc::make_mut(&mut self.renewals).insert(a.object.name.clone(), o.stamp.at);
            }
        } else if a.user == "system:kube-scheduler" {
            self.hear(Actor::Scheduler(DEFAULT_SCHEDULER.into()), asked, o);
        } else if a.user == "system:kube-controller-manager"
            || a.agent.starts_with("kube-controller-manager/")
        {
            self.hear(Actor::Controllers, asked, o);
        }
    }

    fn event(&mut self, o: &Evidence, e: &EventSeen) {
        if let Some(node) = e.node_agent() {
            if !node.is_empty() {
                self.hear(Actor::Kubelet(node.into()), o.stamp.at, o);
            }
        } else if e.is_of_scheduler() {
            self.hear(Actor::Scheduler(e.component.clone()), o.stamp.at, o);
        }
    }

    pub(crate) fn lease_of(&self, namespace: &str, name: &str) -> Option<&Lease> {
        self.leases.get(&(namespace.into(), name.into()))
    }
    pub(crate) fn leases(&self) -> impl Iterator<Item = (&str, &str, &Lease)> {
        self.leases
            .iter()
            .map(|((ns, n), l)| (ns.as_str(), n.as_str(), l))
    }
    pub(crate) fn renewal(&self, node: &str) -> Option<Nanos> {
        self.renewals.get(node).copied()
    }
    pub(crate) fn sign(&self, actor: &Actor) -> Option<&Sign> {
        self.signs.get(actor)
    }
}

/// Reads a lease; `None` without `renewTime`, because such a lease has never been held.
fn read(o: &Evidence, x: &ObjectSeen) -> Option<Lease> {
    let (renewed, _) = Nanos::parse_rfc3339(x.fact("renewTime")?)?;
    Some(Lease {
        holder: x.fact("holder").unwrap_or_default().into(),
        renewed,
        duration_ns: x
            .fact("durationSeconds")
            .and_then(|s| s.parse::<i64>().ok())
            .unwrap_or_default()
            .saturating_mul(SECOND),
        evidence: Arc::clone(o),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::{ObjectRef, Observation, Source, Stamp};

    fn renewal(namespace: &str, name: &str, at_s: i64, seen_s: i64) -> Evidence {
        let facts = [
            ("durationSeconds", "40".to_owned()),
            ("holder", name.to_owned()),
            ("renewTime", Nanos::from_secs(at_s).to_rfc3339()),
        ];
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos::from_secs(seen_s)),
            source: Source::Kube,
            body: Body::Object(Box::new(ObjectSeen {
                object: ObjectRef {
                    kind: "Lease".into(),
                    namespace: namespace.into(),
                    name: name.into(),
                    uid: "synthetic".into(),
                },
                facts: facts.map(|(k, v)| (k.into(), v.into())).to_vec(),
                ..ObjectSeen::default()
            })),
        })
    }

    #[test]
    fn of_a_lease_the_newest_renewal_is_kept_in_whatever_order_it_comes() {
        let mut all = [
            renewal(NODE_LEASES, "n1", 100, 101),
            renewal(NODE_LEASES, "n1", 120, 121),
            renewal(NODE_LEASES, "n1", 110, 140),
        ];
        for _ in 0..all.len() {
            all.rotate_left(1);
            let mut heard = Heard::default();
            for o in &all {
                heard.observe(o);
            }
            let lease = heard.lease_of(NODE_LEASES, "n1").expect("it was seen");
            assert_eq!(lease.renewed, Nanos::from_secs(120));
            assert_eq!(lease.duration_ns, 40 * SECOND);
            let sign = heard.sign(&Actor::Kubelet("n1".into())).expect("it lives");
            assert_eq!(sign.at, Nanos::from_secs(120));
            assert_eq!(heard.leases().count(), 1);
        }
    }

    #[test]
    fn leaders_are_heard_by_their_leases() {
        let mut heard = Heard::default();
        heard.observe(&renewal(LEADER_LEASES, "kube-scheduler", 100, 101));
        heard.observe(&renewal(LEADER_LEASES, "kube-controller-manager", 90, 101));
        heard.observe(&renewal(LEADER_LEASES, "ebs-csi-aws-com", 80, 101));
        let at = |a: &Actor| heard.sign(a).map(|s| s.at);
        let scheduler = Actor::Scheduler(DEFAULT_SCHEDULER.into());
        assert_eq!(at(&scheduler), Some(Nanos::from_secs(100)));
        assert_eq!(at(&Actor::Controllers), Some(Nanos::from_secs(90)));
        assert_eq!(heard.leases().count(), 3);
    }
}
