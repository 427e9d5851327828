//! Compares runs with faults with a run without.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kflow_core::correlate::World;
use kflow_model::gap::WatchKind;
use kflow_model::pod::WatchEvent;
use kflow_model::{Body, Observation, Source};
use kflow_sources::kube::live::{Pace, Scope, Watch, run, watches};
use kflow_sources::live::Board;
use serde_json::{Value, json};

use super::server::{Fault, History, Server};

/// Returns the history of a burst of 40 pods, from creation to deletion, as the apiserver sent it.
fn burst(stream: &str, kind: &'static str) -> History {
    let packed = include_bytes!("../../../fixtures/watch/S5-burst.jsonl.zst");
    let text = zstd::decode_all(&packed[..]).unwrap();
    let (mut listed, mut events) = (Vec::new(), Vec::new());
    for line in text.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let mut line: Value = serde_json::from_slice(line).unwrap();
        if line["stream"] != stream {
            continue;
        }
        let body = line["line"].take();
        if line["kind"] == "LIST" {
            listed.clone_from(body["items"].as_array().unwrap());
        } else if body["type"] != "BOOKMARK" {
            events.push(body);
        }
    }
    History {
        kind,
        listed,
        events,
    }
}

const PACE: Pace = Pace {
    backoff: (Duration::from_millis(1), Duration::from_millis(20)),
    forbidden: Duration::from_millis(20),
    // Long time-outs: only injected faults may stall, not a busy machine.
    answer: Duration::from_secs(60),
    stall: Duration::from_secs(60),
    watch: Duration::from_secs(290),
};

/// Runs a watch until every event has happened and was observed.
fn play(history: History, faults: Vec<Fault>, watch: Watch) -> (Vec<Observation>, Server) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let last = (1000 + history.events.len()).to_string();
        let (board, mut from) = Board::new(1024);
        // A watch that stalls is given up after a time-out, which is longer than a busy machine takes for a line.
        let pace = if faults.iter().any(|f| matches!(f, Fault::Stall(_))) {
            Pace {
                stall: Duration::from_millis(300),
                ..PACE
            }
        } else {
            PACE
        };
        let (server, client) = Server::start(history, faults).await;
        let task = tokio::spawn(run(client, watch, pace, board.out(Source::Kube, "test")));
        let mut all = Vec::new();
        loop {
            let next = tokio::time::timeout(Duration::from_secs(120), from.recv()).await;
            let o = next
                .unwrap_or_else(|_| panic!("stuck after {} observations", all.len()))
                .unwrap();
            let last = matches!(&o.body, Body::Watch(n)
                if matches!(n.kind, WatchKind::Bookmark | WatchKind::ListEnd) && n.detail == last);
            all.push(o);
            if last && server.done() {
                break;
            }
        }
        task.abort();
        (all, server)
    })
}

/// Returns what is known in the end, by pod: everything from the API that does not depend on its time of arrival.
fn picture(observations: &[Observation]) -> BTreeMap<String, String> {
    let mut world = World::new();
    for o in observations {
        world.observe(&Arc::new(o.clone()));
    }
    world.refresh();
    let pods = world.pods().iter();
    pods.map(|p| {
        let mut api = p.api.as_deref().cloned().unwrap();
        api.event = WatchEvent::Modified;
        // The stand-in numbers resource versions itself, and a list shows the version that an object had.
        api.resource_version = 0;
        let known = (
            p.gone.is_some(),
            &p.phase,
            &p.status,
            &p.node,
            p.ready,
            p.restarts,
            &p.containers,
        );
        (p.uid.to_string(), format!("{} {known:?} {api:?}", p.key()))
    })
    .collect()
}

fn pods() -> Watch {
    Watch::all("api/v1", "pods", "Pod")
}

fn notes(all: &[Observation], kind: WatchKind) -> usize {
    all.iter()
        .filter(|o| matches!(&o.body, Body::Watch(n) if n.kind == kind))
        .count()
}

#[test]
fn an_undisturbed_watch_tells_each_change_once() {
    let history = burst("pods", "Pod");
    let events = history.events.len();
    let (all, _) = play(history, vec![], pods());
    let seen = all
        .iter()
        .filter(|o| matches!(o.body, Body::Pod(_)))
        .count();
    assert_eq!((events, seen), (453, 453));
    let picture = picture(&all);
    assert_eq!(picture.len(), 40);
    assert!(
        picture.values().filter(|p| p.contains(" (true, ")).count() >= 40,
        "the burst was deleted"
    );
}

#[test]
fn whatever_disturbs_the_watch_the_world_ends_up_the_same() {
    let (calm, _) = play(burst("pods", "Pod"), vec![], pods());
    let calm = picture(&calm);
    let all_of_them = vec![
        Fault::Broken,
        Fault::CutInLine(30),
        Fault::Busy,
        Fault::Bookmarks(40),
        Fault::EndInLine(1),
        Fault::Stall(50),
        Fault::GoneInStream(60),
        Fault::Broken,
        Fault::Nonsense(20),
        Fault::CutInLine(0),
        Fault::Gone,
        Fault::Bookmarks(30),
        Fault::GoneInStream(0),
        Fault::CutInLine(100),
    ];
    for faults in all_of_them
        .iter()
        .map(|f| vec![f.clone()])
        .chain([all_of_them.clone()])
    {
        let (all, _) = play(burst("pods", "Pod"), faults.clone(), pods());
        let stormy = picture(&all);
        for (uid, pod) in &calm {
            assert_eq!(stormy.get(uid), Some(pod), "after {faults:?}");
        }
        assert_eq!(stormy.len(), calm.len(), "after {faults:?}");
    }
}

#[test]
fn what_a_relist_does_not_show_any_more_is_gone() {
    // Everything happens while the watch is broken: after status 410 the list shows only the final state.
    let history = burst("pods", "Pod");
    let n = history.events.len();
    let faults = vec![Fault::Bookmarks(n / 2), Fault::Missed(n)];
    let (all, server) = play(history, faults, pods());
    assert_eq!(server.asked(|a| a.lists), 2);
    assert_eq!(
        notes(&all, WatchKind::ListBegin),
        notes(&all, WatchKind::ListEnd)
    );
    let picture = picture(&all);
    assert!(!picture.is_empty());
    for (uid, pod) in picture {
        assert!(pod.contains(" (true, "), "{uid} is known to be gone: {pod}");
    }
}

#[test]
fn events_are_not_doubled_by_a_relist() {
    let watch = || Watch::all("api/v1", "events", "Event");
    let reduce = |all: &[Observation]| {
        let mut world = World::new();
        for o in all {
            world.observe(&Arc::new(o.clone()));
        }
        world.refresh();
        let pods = world.pods().iter();
        let mut marks: Vec<String> = pods
            .flat_map(|p| {
                p.timeline
                    .marks
                    .iter()
                    .map(|m| format!("{} {:?} {} {}", p.key(), m.at, m.text, m.count))
            })
            .collect();
        marks.sort();
        marks
    };
    let (calm, _) = play(burst("events", "Event"), vec![], watch());
    let faults = vec![
        Fault::CutInLine(100),
        Fault::GoneInStream(50),
        Fault::Bookmarks(10),
        Fault::Gone,
    ];
    let (stormy, _) = play(burst("events", "Event"), faults, watch());
    let calm = reduce(&calm);
    assert!(calm.len() > 100, "{} marks", calm.len());
    assert_eq!(reduce(&stormy), calm);
}

#[test]
fn five_thousand_pods_are_listed_in_pages_and_not_doubled_by_a_relist() {
    let template = burst("pods", "Pod")
        .events
        .iter()
        .rfind(|e| e["type"] == "MODIFIED")
        .unwrap()["object"]
        .clone();
    let listed = (0..5000)
        .map(|n| {
            let mut pod = template.clone();
            pod["metadata"]["name"] = json!(format!("pod-{n}"));
            pod["metadata"]["uid"] = json!(format!("00000000-0000-0000-0000-{n:012}"));
            pod
        })
        .collect();
    let events = burst("pods", "Pod").events;
    let history = History {
        kind: "Pod",
        listed,
        events,
    };
    let (all, server) = play(
        history,
        vec![Fault::CutInLine(100), Fault::GoneInStream(50)],
        pods(),
    );
    assert_eq!(server.asked(|a| (a.lists, a.pages > 20)), (2, true));
    let picture = picture(&all);
    assert_eq!(picture.len(), 5040);
    assert_eq!(
        picture.values().filter(|p| p.contains(" (true, ")).count(),
        40 - burst_left()
    );
}

/// Returns the number of pods that the burst's recording does not delete.
fn burst_left() -> usize {
    let (all, _) = play(burst("pods", "Pod"), vec![], pods());
    picture(&all)
        .values()
        .filter(|p| p.contains(" (false, "))
        .count()
}

#[test]
fn a_node_is_watched_by_selectors_that_say_what_is_wanted() {
    let scope = Scope {
        node: Some("node1".into()),
        ..Scope::default()
    };
    let pod_watches: Vec<Watch> = watches(&scope)
        .into_iter()
        .map(|(_, w)| w)
        .filter(|w| w.resource == "pods")
        .collect();
    assert_eq!(
        pod_watches
            .iter()
            .map(|w| w.fields.as_str())
            .collect::<Vec<_>>(),
        ["spec.nodeName=node1", "spec.nodeName="]
    );
    let (all, server) = play(burst("pods", "Pod"), vec![], pod_watches[0].clone());
    server.asked(|a| {
        assert!(
            a.paths[0].starts_with("/api/v1/pods?limit=500&fieldSelector=spec.nodeName%3Dnode1"),
            "{}",
            a.paths[0]
        );
        assert!(
            a.paths[1].contains("watch=1&allowWatchBookmarks=true&resourceVersion=1000&"),
            "{}",
            a.paths[1]
        );
    });
    let scopes: Vec<&str> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::Watch(n) => Some(n.scope.as_str()),
            _ => None,
        })
        .collect();
    assert!(
        scopes.iter().all(|s| *s == "spec.nodeName=node1"),
        "{scopes:?}"
    );
}
