//! Since when something is so: one look at the API knows less than who has followed it, and never takes the moment of its own
//! look for that of a happening.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::diagnose::{Diagnoser, Verdict, Verdicts};
use kflow_model::gap::{WatchKind, WatchNote};
use kflow_model::pod::WatchEvent;
use kflow_model::session::reader;
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp, stamp::SECOND};

use crate::in_repository;

/// Folders of recordings of real clusters.
const FOLDERS: [&str; 4] = [
    "fixtures/sessions",
    "fixtures/causes/real",
    "fixtures/versions",
    "fixtures/correlate",
];

/// Number of moments at which each recording is looked at.
const MOMENTS: i64 = 12;

/// The API's times have whole seconds, and a watch may lag behind them.
const SLACK: i64 = 3 * SECOND;

/// What the apiserver answers at a moment to one who lists everything, and knows nothing of before: the newest state of each
/// object, and of each Event the last occurrence, with its count and its first time.
fn listed(all: &[Evidence], at: Nanos) -> Vec<Evidence> {
    let mut newest: BTreeMap<(String, String), Option<Observation>> = BTreeMap::new();
    let mut lists: BTreeMap<(String, String), WatchNote> = BTreeMap::new();
    let of_api = all.iter().filter(|o| o.source == Source::Kube);
    for o in of_api.filter(|o| o.stamp.seen <= at) {
        let mut answer = Observation::clone(o);
        let (key, gone) = match &mut answer.body {
            Body::Pod(p) => {
                let gone = std::mem::replace(&mut p.event, WatchEvent::Listed);
                (("pod".to_owned(), p.uid.to_string()), gone)
            }
            Body::Node(n) => {
                let gone = std::mem::replace(&mut n.event, WatchEvent::Listed);
                (("node".to_owned(), n.name.to_string()), gone)
            }
            Body::Object(x) => {
                let gone = std::mem::replace(&mut x.event, WatchEvent::Listed);
                let name = format!("{}/{}", x.object.namespace, x.object.name);
                ((x.object.kind.to_string(), name), gone)
            }
            Body::Event(e) => {
                e.listed = true;
                answer.stamp.seen = at;
                let name = format!("{}/{}", e.object.namespace, e.name);
                newest.insert(("event".to_owned(), name), Some(answer));
                continue;
            }
            Body::Watch(n) if n.kind == WatchKind::ListEnd => {
                let of = (n.resource.to_string(), n.scope.to_string());
                lists.insert(of, WatchNote::clone(n));
                continue;
            }
            _ => continue,
        };
        answer.stamp = Stamp::exact(at);
        newest.insert(key, Some(answer).filter(|_| gone != WatchEvent::Deleted));
    }
    let note = |kind, list: &WatchNote| Observation {
        stamp: Stamp::exact(at),
        source: Source::Kube,
        body: Body::Watch(Box::new(WatchNote {
            kind,
            ..list.clone()
        })),
    };
    let begins = lists.values().map(|n| note(WatchKind::ListBegin, n));
    let ends = lists.values().map(|n| note(WatchKind::ListEnd, n));
    let objects = newest.into_values().flatten();
    let all = begins.chain(objects).chain(ends);
    all.map(Arc::new).collect()
}

fn verdicts(all: &[Evidence], at: Nanos) -> Verdicts {
    let mut world = World::new();
    for o in all {
        world.observe(o);
    }
    world.refresh();
    Diagnoser::new().update(&world, at)
}

/// What is not well, by pod or owner.
fn told(of: &Verdicts) -> BTreeMap<String, Arc<Verdict>> {
    let all = of.0.values().chain(of.1.iter());
    let who = |v: &Verdict| match &v.owner {
        Some(o) if v.uid.is_empty() => format!("{}/{}/{}", o.namespace, o.kind, o.name),
        _ => format!("{}/{} {}", v.namespace, v.pod, v.uid),
    };
    let bad = all.filter(|v| !v.state.is_well());
    bad.map(|v| (who(v), Arc::clone(v))).collect()
}

/// Every recording, looked at once at some moments: what has lasted, by who followed the same API, began then or `at least`
/// so long ago.
#[test]
fn the_moment_of_a_look_is_not_that_of_a_happening() {
    let mut files: Vec<PathBuf> = Vec::new();
    for folder in FOLDERS {
        let folder = std::fs::read_dir(in_repository(folder)).expect("recordings");
        files.extend(folder.filter_map(|f| Some(f.ok()?.path())));
    }
    files.retain(|p| p.to_string_lossy().ends_with(".kflow.zst"));
    files.sort();
    let (mut compared, mut wrong) = (0, BTreeMap::new());
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let session = reader::load(&path).unwrap_or_else(|e| panic!("{e}"));
        let Some((begin, end)) = session.range() else {
            continue;
        };
        let all = &session.observations;
        let of_api: Vec<Evidence> = all
            .iter()
            .filter(|o| o.source == Source::Kube)
            .cloned()
            .collect();
        for i in 1..=MOMENTS {
            let at = begin.plus(end.since(begin) / MOMENTS * i);
            let seen: Vec<Evidence> = of_api
                .iter()
                .filter(|o| o.stamp.seen <= at)
                .cloned()
                .collect();
            let followed = told(&verdicts(&seen, at));
            let once = told(&verdicts(&listed(&of_api, at), at));
            for (who, v) in &once {
                let Some(truth) = followed.get(who) else {
                    continue;
                };
                compared += 1;
                let late = v.since.since(truth.since);
                let own = at.since(v.since) < SECOND;
                let same = v.cause == truth.cause && v.stage == truth.stage;
                if !v.at_least && late > SLACK && (own || same) {
                    let key = (name.to_string(), who.clone(), v.cause_id().to_owned());
                    wrong.entry(key).or_insert_with(|| {
                        format!(
                            "{} in {} since {} s, once looked at since {} s{}: {}",
                            truth.cause_id(),
                            v.stage,
                            at.since(truth.since) / SECOND,
                            at.since(v.since) / SECOND,
                            if own { " (the look's own)" } else { "" },
                            v.sentence
                        )
                    });
                }
            }
        }
    }
    let lines: Vec<String> = wrong.iter().map(|(k, w)| format!("{k:?}: {w}")).collect();
    assert!(
        lines.is_empty(),
        "{} wrong of {compared}:\n{}",
        lines.len(),
        lines.join("\n")
    );
    assert!(compared > 500, "{compared}");
}

/// A namespace that was deleted a minute and a half before the look, while no controller ran.
#[test]
fn evidence_of_a_deletion_has_the_time_of_the_deletion() {
    let path = crate::fixture("causes/real/controllers.kflow.zst");
    let session = reader::load(&path).expect("a recording");
    let (_, end) = session.range().expect("observations");
    let deleted = session.observations.iter().find_map(|o| match &o.body {
        Body::Object(x) if x.object.name == "nocm2" => x.deletion,
        _ => None,
    });
    let deleted = deleted.expect("a deleted namespace");
    assert!(end.since(deleted) > 60 * SECOND);
    let told = told(&verdicts(&session.observations, end));
    let v = &told["/Namespace/nocm2"];
    let of_object = v.evidence.iter().find(|p| p.what.contains("deleted"));
    let p = of_object.expect("evidence");
    assert_eq!((p.at, i64::from(p.precision)), (deleted, SECOND));
}

/// Recordings of nodes that evict pods, and refuse others.
const EVICTIONS: [&str; 5] = [
    "sessions/S8-node",
    "causes/real/pressure",
    "causes/real/running",
    "correlate/readmitted",
    "correlate/stops",
];

/// A pod is either refused or ended, whoever looks, and whenever.
#[test]
fn an_eviction_is_one_happening_with_one_cause() {
    let (mut told_of, mut wrong) = (0, Vec::new());
    for name in EVICTIONS {
        let path = crate::fixture(&format!("{name}.kflow.zst"));
        let session = reader::load(&path).unwrap_or_else(|e| panic!("{e}"));
        let (begin, end) = session.range().expect("observations");
        let mut causes: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let mut take = |who: String, v: &Verdict, how: String| {
            if ["KF308", "KF911"].contains(&v.cause_id()) {
                let of_pod = causes.entry(who).or_default();
                of_pod.entry(v.cause_id().to_owned()).or_insert(how);
            }
        };
        for i in 1..=40 {
            let at = begin.plus(end.since(begin) / 40 * i);
            let all = session.observations.iter();
            let seen: Vec<Evidence> = all.filter(|o| o.stamp.seen <= at).cloned().collect();
            for (part, sources) in crate::words::PARTS {
                let of_it = seen.iter().filter(|o| sources.contains(&o.source));
                let of_it: Vec<Evidence> = of_it.cloned().collect();
                for (who, v) in told(&verdicts(&of_it, at)) {
                    take(who, &v, format!("{part} at {at}: {}", v.sentence));
                }
            }
            for (who, v) in told(&verdicts(&listed(&seen, at), at)) {
                take(who, &v, format!("one look at {at}: {}", v.sentence));
            }
        }
        told_of += causes.len();
        let both = causes.into_iter().filter(|(_, causes)| causes.len() > 1);
        wrong.extend(both.map(|(who, causes)| format!("{name} {who}: {causes:#?}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(told_of > 5, "{told_of}");
}
