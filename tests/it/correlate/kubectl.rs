//! What kflow shows of a pod, compared with what kubectl showed of it.

use std::collections::BTreeMap;

use kflow_model::{Body, Nanos, PodUid};

use super::{as_of, session};

/// What `kubectl get -o json` gave at the snapshot of each scenario, reduced to the columns of `kubectl get pods` by a
/// second, independent port of its printer (fixtures/correlate/README.md).
#[test]
fn every_pod_of_every_scenario_reads_as_kubectl_showed_it_at_the_snapshot() {
    let table = include_str!("../../../fixtures/correlate/status-at-snapshots.tsv");
    let mut rows: BTreeMap<&str, Vec<Vec<&str>>> = BTreeMap::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        rows.entry(fields[0]).or_default().push(fields);
    }
    let (mut checked, mut wrong) = (0, Vec::new());
    for (name, rows) in rows {
        let observations = session(name);
        for r in rows {
            let at = Nanos(r[2].parse().unwrap());
            // kubectl asked a moment after the mark, so the watch may be behind by a state: the version that kubectl
            // got decides which one is compared.
            let version: u64 = r[5].parse().unwrap();
            let arrived = observations
                .iter()
                .filter_map(|o| match &o.body {
                    Body::Pod(p) if p.uid.as_str() == r[4] && p.resource_version <= version => {
                        Some(o.stamp.seen)
                    }
                    _ => None,
                })
                .max()
                .unwrap_or(at);
            let newer = observations
                .iter()
                .filter_map(|o| match &o.body {
                    Body::Pod(p) if p.uid.as_str() == r[4] && p.resource_version > version => {
                        Some(o.stamp.seen)
                    }
                    _ => None,
                })
                .min();
            let mut when = at.max(arrived);
            if let Some(n) = newer {
                when = when.min(Nanos(n.0 - 1));
            }
            let w = as_of(&observations, when);
            checked += 1;
            let Some(p) = w.pod(&PodUid::from(r[4])) else {
                wrong.push(format!("{r:?}: no such pod"));
                continue;
            };
            let got = (
                p.key(),
                p.status.to_string(),
                format!("{}/{}", p.ready.0, p.ready.1),
                p.restarts.to_string(),
            );
            let want = (r[3].into(), r[6].into(), r[7].into(), r[8].into());
            if got != want {
                wrong.push(format!("{} {}: {got:?}, not {want:?}", r[0], r[1]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(checked, 74);
}
