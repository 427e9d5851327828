//! Decides which renewals of Leases are passed on.
//!
//! A kubelet renews its Lease every 10 s and a leader every 2 s: a thousand nodes would fill a session with nothing
//! else. A renewal is passed on when it is the first, when the holder changes, and when three quarters of the Lease's
//! duration have passed since the last one that was passed on (30 s of 40 s). A renewal that is held back is passed
//! on when no other has followed it for three eighths of the duration (15 s of 40 s): the holder has missed its next
//! renewal, and this one was its last sign of life. So an idle cluster costs one observation per node every 30 s, no
//! living holder looks as if its Lease had expired, and of a holder that falls silent the true last renewal is known
//! well before its Lease expires.

use std::collections::HashMap;

use kflow_model::{
    Body, Nanos, Observation, Stamp, Text, object::ObjectSeen, pod::WatchEvent, stamp::SECOND,
};

/// `nodeLeaseDurationSeconds` of a kubelet, used where a Lease has no duration.
const DURATION_S: i64 = 40;

/// Holds back renewals of Leases; see the module.
#[derive(Debug, Default)]
pub struct Renewals {
    known: HashMap<(Text, Text), Known>,
}

#[derive(Debug)]
struct Known {
    holder: Text,
    /// `spec.renewTime` of the last renewal that was passed on.
    passed: Nanos,
    duration_ns: i64,
    held: Option<Observation>,
}

impl Renewals {
    /// Returns the observation, or `None` for a renewal that is held back. Whatever is not a Lease passes.
    pub fn take(&mut self, o: Observation) -> Option<Observation> {
        let Body::Object(x) = &o.body else {
            return Some(o);
        };
        if x.object.kind != "Lease" {
            return Some(o);
        }
        let key = (x.object.namespace.clone(), x.object.name.clone());
        if x.event == WatchEvent::Deleted {
            self.known.remove(&key);
            return Some(o);
        }
        let Some(renewed) = renewed(x) else {
            return Some(o);
        };
        let holder = Text::from(x.fact("holder").unwrap_or_default());
        let duration_ns = x
            .fact("durationSeconds")
            .and_then(|s| s.parse().ok())
            .filter(|s| *s > 0)
            .unwrap_or(DURATION_S)
            .saturating_mul(SECOND);
        if let Some(k) = self.known.get_mut(&key)
            && k.holder == holder
            && x.event != WatchEvent::Listed
            && renewed.since(k.passed) < duration_ns / 4 * 3
        {
            k.held = Some(o);
            return None;
        }
        let known = Known {
            holder,
            passed: renewed,
            duration_ns,
            held: None,
        };
        self.known.insert(key, known);
        Some(o)
    }

    /// Returns the renewals that were held back and that no other has followed in time, as of `now`, stamped with
    /// `now`.
    pub fn due(&mut self, now: Nanos) -> Vec<Observation> {
        let mut due = Vec::new();
        for k in self.known.values_mut() {
            let late = |o: &mut Observation| now.since(o.stamp.seen) >= k.duration_ns / 8 * 3;
            if let Some(mut o) = k.held.take_if(late) {
                if let Body::Object(x) = &o.body
                    && let Some(at) = renewed(x)
                {
                    k.passed = at;
                }
                o.stamp = Stamp::exact(now);
                due.push(o);
            }
        }
        due.sort();
        due
    }
}

fn renewed(x: &ObjectSeen) -> Option<Nanos> {
    Nanos::parse_rfc3339(x.fact("renewTime")?).map(|(t, _)| t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::decode::decode_object;

    /// A lease in the form of the API's reference (`coordination.k8s.io/v1`): synthetic, no kubelet wrote it.
    fn lease(name: &str, s: i64, holder: &str, event: WatchEvent) -> Observation {
        let at = Nanos::from_secs(1_800_000_000 + s);
        let time = at.to_rfc3339().replace("000Z", "Z");
        let json = format!(
            r#"{{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{{"name":"{name}","namespace":"kube-node-lease","uid":"synthetic","resourceVersion":"{}"}},"spec":{{"holderIdentity":"{holder}","leaseDurationSeconds":40,"renewTime":"{time}"}}}}"#,
            1000 + s
        );
        decode_object(json.as_bytes(), "", event, Stamp::exact(at)).expect("a lease")
    }
    fn at(s: i64) -> Nanos {
        Nanos::from_secs(1_800_000_000 + s)
    }

    #[test]
    fn of_a_living_kubelets_renewals_every_third_passes() {
        let mut renewals = Renewals::default();
        let mut passed = Vec::new();
        for s in (0..=120).step_by(10) {
            if renewals
                .take(lease("n1", s, "n1", WatchEvent::Modified))
                .is_some()
            {
                passed.push(s);
            }
            // At no moment in between is a holder late.
            for later in 1..10 {
                assert!(renewals.due(at(s + later)).is_empty(), "{s}+{later}");
            }
        }
        assert_eq!(passed, [0, 30, 60, 90, 120]);
    }

    #[test]
    fn the_last_renewal_of_one_who_falls_silent_passes_before_its_lease_has_run_out() {
        let mut renewals = Renewals::default();
        for s in [0, 10, 20] {
            renewals.take(lease("n1", s, "n1", WatchEvent::Modified));
        }
        assert!(renewals.due(at(34)).is_empty());
        let due = renewals.due(at(35));
        let [o] = due.as_slice() else {
            panic!("{due:?}")
        };
        assert_eq!(o.stamp, Stamp::exact(at(35)));
        let Body::Object(x) = &o.body else {
            panic!("{o:?}")
        };
        assert_eq!(renewed(x), Some(at(20)));
        assert!(renewals.due(at(99)).is_empty());
        // The holder comes back: its renewal passes at once, because its time has passed.
        assert!(
            renewals
                .take(lease("n1", 60, "n1", WatchEvent::Modified))
                .is_some()
        );
    }

    #[test]
    fn another_holder_a_list_and_a_deletion_pass_at_once() {
        let mut renewals = Renewals::default();
        let mut take = |s, holder, event| renewals.take(lease("n1", s, holder, event)).is_some();
        assert!(take(0, "a", WatchEvent::Listed));
        assert!(!take(2, "a", WatchEvent::Modified));
        assert!(take(4, "b", WatchEvent::Modified));
        assert!(take(5, "b", WatchEvent::Listed));
        assert!(take(6, "b", WatchEvent::Deleted));
        assert!(take(7, "b", WatchEvent::Added));
        assert!(renewals.known.len() == 1);
    }
}
