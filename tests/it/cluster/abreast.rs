//! The terminal shows a Deployment's pods on several nodes side by side, and subscribes to their agents meanwhile.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kflow_core::correlate::PodView;
use kflow_core::flow::Stage;
use kflow_engine::Snapshot;
use kflow_engine::cluster::Abreast;
use kflow_export::abreast::{Clock, Lane};
use kflow_model::cri::method;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, ObjectRef, Text};
use kflow_tui::backend::Drive;
use kflow_tui::model::{Effect, Model};
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::svg;

use super::rig::{Played, Shape, name};
use super::{Viewer, subscribed, subscribers, until, watching};
use crate::agent::block_on;

const AGENTS: usize = 3;

async fn spread(ahead: &[(usize, i64)]) -> Arc<Played> {
    Played::of(Shape {
        nodes: 4,
        agents: AGENTS,
        spread: 4,
        ahead: ahead.iter().copied().collect(),
        ..Shape::default()
    })
    .await
}

/// A pod of the burst whose ReplicaSet and Deployment are both known.
fn burst(snap: &Snapshot) -> Option<&PodView> {
    let mut pods = snap.world.pods().iter().map(|p| -> &PodView { p });
    pods.find(|p| p.namespace == "s19" && p.owners.len() == 2)
}

/// The Deployment of that pod, as a user names it: without its UID.
fn owner(snap: &Snapshot) -> ObjectRef {
    let owner = burst(snap).unwrap().owners.last().unwrap();
    ObjectRef {
        uid: Text::default(),
        ..owner.clone()
    }
}

fn abreast(snap: &Snapshot) -> Option<&Abreast> {
    snap.cluster.as_ref()?.abreast.as_deref()
}

/// When the kubelet asked for the sandbox, by the viewer's clock.
fn sandbox(lane: &Lane) -> Option<Nanos> {
    let stage = lane.pod.timeline.stage(Stage::Sandbox)?;
    Some(lane.shown(stage.start.at))
}

/// When the kubelet asked for each pod's sandbox in the recording, by pod.
fn recorded() -> &'static BTreeMap<String, Nanos> {
    static ALL: LazyLock<BTreeMap<String, Nanos>> = LazyLock::new(|| {
        let session = kflow_model::session::load(&crate::fixture("sessions/S5-burst.kflow.zst"));
        let mut all = BTreeMap::new();
        for o in session.unwrap().observations {
            if let Body::CallStart(c) = &o.body
                && c.method == method::RUN_POD_SANDBOX
            {
                let pod = &c.subject.pod;
                let key = format!("{}/{}", pod.namespace, pod.name);
                all.entry(key).or_insert(o.stamp.at);
            }
        }
        all
    });
    &ALL
}

/// True when each pod on a node with an agent has its sandbox call at the recorded time, within the stated error of
/// that node's clock.
fn is_told(snap: &Snapshot) -> bool {
    let Some(side) = abreast(snap) else {
        return false;
    };
    let is_right = |l: &&Lane| {
        let Clock::Node(clock) = l.clock else {
            return false;
        };
        let off = sandbox(l).map(|at| at.since(recorded()[&l.pod.key()]));
        off.is_some_and(|off| off.abs() <= clock.within_ns)
    };
    side.lanes.len() == 40 && side.lanes.iter().filter(is_right).count() == 30
}

async fn shown(viewer: &mut Viewer) -> Arc<Snapshot> {
    let all = until(viewer, "owners", |s, v| {
        v.agents.as_ref().is_some_and(|a| a.by_node.len() == AGENTS) && burst(s).is_some()
    })
    .await;
    viewer.look_abreast(Some(owner(&all))).unwrap();
    until(viewer, "calls of all rows", |s, _| is_told(s)).await
}

#[test]
fn rows_are_right_whatever_the_clocks_of_their_nodes_say_and_agents_are_left_with_them() {
    block_on(async {
        let played = spread(&[(0, 90 * SECOND), (1, -3 * SECOND)]).await;
        let mut viewer = watching(&played);
        let snap = shown(&mut viewer).await;
        let side = abreast(&snap).unwrap();
        for lane in &side.lanes {
            let is = match lane.pod.node.as_str() {
                "simulated-0" => 90 * SECOND,
                "simulated-1" => -3 * SECOND,
                _ => 0,
            };
            let Clock::Node(offset) = lane.clock else {
                assert_eq!(lane.pod.node, name(3));
                continue;
            };
            assert!(
                (offset.ahead_ns - is).abs() <= offset.within_ns,
                "{offset:?}"
            );
        }
        let why = "no agent that is ready (namespace kflow)";
        assert_eq!(side.unheard, [(name(3).into(), why.to_owned())]);
        for n in 0..AGENTS {
            assert_eq!(subscribers(&played, n), 1);
        }
        // The world of the cluster itself gets no calls.
        assert_eq!(super::calls(&snap), 0);
        for size in [(80, 24), (200, 60)] {
            let mut m = terminal(size, &snap);
            let text = svg::plain(&frame(&mut m, &snap));
            for part in [
                "40 pods on 4 nodes",
                "simulated-0: its clock is 1m30s ahead, ±",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        // An agent dies: its rows stay, and the reason that no more comes is shown.
        played.kill(2);
        let dead = until(&mut viewer, "told", |s, _| {
            abreast(s).is_some_and(|a| a.unheard.iter().any(|(n, _)| *n == name(2)))
        })
        .await;
        assert!(is_told(&dead));
        // A node is opened meanwhile, and left again.
        viewer.open(&name(0)).unwrap();
        until(&mut viewer, "open", |s, _| {
            super::calls(s) > 0 && is_told(s)
        })
        .await;
        subscribed(&played, 0, 2).await;
        viewer.leave();
        viewer.look_abreast(None).unwrap();
        for n in [0, 1] {
            subscribed(&played, n, 0).await;
        }
        assert!(abreast(&viewer.snapshot()).is_none());
    });
}

/// A terminal in which a pod of the burst was selected, and then its owner's pods were opened.
fn terminal(size: (u16, u16), snap: &Snapshot) -> Model {
    let mut m = model(size, "dark").expect("theme");
    frame(&mut m, snap);
    select(&mut m, snap, &burst(snap).unwrap().key());
    frame(&mut m, snap);
    // The pods are shown side by side already: the key asks for nothing.
    assert_eq!(press(&mut m, snap, "B"), []);
    m
}

#[test]
fn the_key_asks_for_agents_and_leaving_the_rows_leaves_them() {
    block_on(async {
        let played = spread(&[]).await;
        let mut viewer = watching(&played);
        let told = shown(&mut viewer).await;
        let owner = owner(&told);
        viewer.look_abreast(None).unwrap();
        let none = until(&mut viewer, "nothing", |s, _| abreast(s).is_none()).await;
        let asked = |owner: Option<&ObjectRef>| [Effect::Drive(Drive::Abreast(owner.cloned()))];
        let burst = burst(&none).unwrap().key();
        for keys in ["esc", "enter", "B", "1 j"] {
            let mut m = model((120, 40), "dark").expect("theme");
            frame(&mut m, &none);
            select(&mut m, &none, &burst);
            frame(&mut m, &none);
            assert_eq!(press(&mut m, &none, "B"), asked(Some(&owner)));
            // The rows come from the API until the agents have sent more.
            let text = svg::plain(&frame(&mut m, &none));
            assert!(text.contains("40 pods on 4 nodes"), "{text}");
            frame(&mut m, &told);
            assert_eq!(press(&mut m, &told, keys), asked(None), "{keys}");
        }
    });
}
