//! Calls about images that name no pod: how often the order of the calls tells it, held against the kubelet's traces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_model::cri::{CONFIG_SEEN, CallKey, CallStart, method};
use kflow_model::session::reader;
use kflow_model::{Body, Evidence, Pairs, PodUid, TraceId};

use crate::in_repository;

/// The recordings of a folder, by name.
fn recordings(folder: &str) -> BTreeMap<String, Vec<Evidence>> {
    let files = std::fs::read_dir(in_repository(folder)).expect("recordings");
    files
        .map(|f| f.expect("a file").path())
        .filter(|f| f.extension().is_some_and(|e| e == "zst"))
        .map(|f| {
            let name = f
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            let session = reader::load(&f).unwrap_or_else(|e| panic!("{name}: {e}"));
            (name, session.observations)
        })
        .collect()
}

/// What a kubelet would have sent without a trace, and without annotations if `bare`. Spans name a trace's pod as well.
fn untraced(observations: &[Evidence], bare: bool) -> Vec<Evidence> {
    let kept = (observations.iter()).filter(|o| !matches!(o.body, Body::Span(_)));
    kept.map(|o| {
        let mut o = (**o).clone();
        if let Body::CallStart(c) = &mut o.body {
            c.traceparent = None;
            if bare && c.method == method::IMAGE_STATUS {
                c.fields = Pairs::default();
            }
        }
        Arc::new(o)
    })
    .collect()
}

/// The pods of the looks, and whether they are inferred. Refreshes the world after every so many observations.
fn pods(observations: &[Evidence], every: usize) -> BTreeMap<CallKey, (PodUid, bool)> {
    let mut world = World::new();
    for (n, o) in (1..).zip(observations) {
        world.observe(o);
        if n % every == 0 {
            world.refresh();
        }
    }
    world.refresh();
    let looks = world.calls().iter();
    looks
        .filter(|c| c.method == method::IMAGE_STATUS)
        .map(|c| (c.key, (c.pod_uid.clone(), c.pod_inferred)))
        .collect()
}

fn starts(observations: &[Evidence]) -> impl Iterator<Item = &CallStart> {
    observations.iter().filter_map(|o| match &o.body {
        Body::CallStart(c) => Some(&**c),
        _ => None,
    })
}

/// By trace, the pods of its calls whose request leads to their pod.
fn pods_of_traces(observations: &[Evidence]) -> BTreeMap<TraceId, BTreeSet<PodUid>> {
    let mut world = World::new();
    for o in observations {
        world.observe(o);
    }
    world.refresh();
    let mut pods: BTreeMap<TraceId, BTreeSet<PodUid>> = BTreeMap::new();
    for c in world.calls().iter().filter(|c| !c.pod_inferred) {
        if let Some((trace, _)) = c.traceparent.filter(|_| !c.pod_uid.is_empty()) {
            pods.entry(trace).or_default().insert(c.pod_uid.clone());
        }
    }
    pods
}

/// Number of looks that name no pod, by what the order of the calls gives them.
#[derive(Default, Debug, PartialEq, Eq)]
struct Told {
    /// The pod that the look's trace has alone.
    right: usize,
    /// Another pod.
    wrong: usize,
    /// A pod, where the trace has none.
    untold: usize,
    none: usize,
}

fn compare(recordings: &BTreeMap<String, Vec<Evidence>>, bare: bool) -> Told {
    let mut told = Told::default();
    for (name, observations) in recordings {
        let traces = pods_of_traces(observations);
        let of_trace = |c: &CallStart| Some(traces.get(&c.traceparent?.0)?.iter().collect());
        let truth: BTreeMap<CallKey, Vec<&PodUid>> = starts(observations)
            .filter_map(|c| Some((c.key, of_trace(c)?)))
            .collect();
        let stripped = untraced(observations, bare);
        let by_order = pods(&stripped, usize::MAX);
        for c in starts(&stripped).filter(|c| c.method == method::IMAGE_STATUS) {
            let (pod, inferred) = &by_order[&c.key];
            if c.fields.value(CONFIG_SEEN).is_some() {
                assert!(!inferred, "{name} {:?}", c.key);
                continue;
            }
            assert_eq!(*inferred, !pod.is_empty(), "{name} {:?}", c.key);
            let count = match truth.get(&c.key).map(Vec::as_slice) {
                _ if pod.is_empty() => &mut told.none,
                None => &mut told.untold,
                Some([own]) if *own == pod => &mut told.right,
                Some(_) => &mut told.wrong,
            };
            *count += 1;
        }
    }
    told
}

#[test]
fn the_order_of_calls_never_gives_a_look_to_a_wrong_pod_and_the_page_says_how_often_to_the_right_one()
 {
    let page = std::fs::read_to_string(in_repository("docs/versions.md")).expect("the page");
    let versions = recordings("fixtures/versions");
    let mut all = versions.clone();
    all.extend(recordings("fixtures/sessions"));
    for (recordings, bare) in [(&versions, false), (&all, true)] {
        let told = compare(recordings, bare);
        assert_eq!(told.wrong, 0, "{told:?}");
        let text = format!(
            "{} looks right, 0 wrong, {} without a pod",
            told.right, told.none
        );
        assert!(page.contains(&text), "docs/versions.md: {text}");
        if !bare {
            let text = format!("all {} of these two", told.untold);
            assert!(page.contains(&text), "docs/versions.md: {text}");
        }
    }
}

/// The container that tells whose a look was comes after it.
#[test]
fn a_look_gets_the_same_pod_whatever_came_first_and_however_often_the_world_was_looked_at() {
    for (name, observations) in recordings("fixtures/versions") {
        if !["1.28", "1.27", "1.35"].iter().any(|v| name.contains(v)) {
            continue;
        }
        let untraced = untraced(&observations, false);
        let straight = pods(&untraced, usize::MAX);
        assert_eq!(straight, pods(&untraced, 7), "{name}");
        let backwards: Vec<Evidence> = untraced.iter().rev().cloned().collect();
        assert_eq!(straight, pods(&backwards, usize::MAX), "{name}");
        assert_eq!(straight, pods(&backwards, 50), "{name}");
        let told = straight.values().filter(|(_, inferred)| *inferred).count();
        assert!(told > 20, "{name}: {told}");
    }
}
