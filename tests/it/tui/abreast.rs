//! The pods of an owner side by side, with their styles. The pods are those of a recorded burst on one node; their
//! distribution over three nodes and the nodes' clock offsets are invented.

use std::sync::Arc;

use kflow_engine::Pipeline;
use kflow_engine::cluster::{Abreast, ClusterView};
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_export::abreast::{Clock, of};
use kflow_model::offset::Offset;
use kflow_model::stamp::MILLI;
use kflow_model::{Body, Observation};
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::svg;

use super::frames::in_every_theme;

/// Returns the burst at a share of the recording, in thousandths: live with the nodes' clocks, as a cluster shows it,
/// or as a recording.
fn burst(permille: i64, live: bool) -> Snapshot {
    let session = kflow_model::session::load(&crate::fixture("sessions/S5-burst.kflow.zst"));
    let session = session.expect("fixture");
    let (begin, end) = session.range().expect("not empty");
    let now = begin.plus(end.since(begin) / 1000 * permille);
    let mut pipeline = Pipeline::new();
    for o in session.observations.iter().filter(|o| o.stamp.seen <= now) {
        let mut o = Observation::clone(o);
        if let Body::Pod(p) = &mut o.body
            && !p.spec.node.is_empty()
        {
            let sum: usize = p.name.bytes().map(usize::from).sum();
            p.spec.node = format!("invented-{}", sum % 3).into();
        }
        pipeline.observe(Arc::new(o));
    }
    let mode = Mode::paused("burst");
    let snap = pipeline.snapshot(now, mode, (begin, end), Vec::new());
    let pod = snap.world.pods().iter().find(|p| p.namespace == "s19");
    let owner = pod.expect("a pod").owners.last().expect("an owner").clone();
    let mut lanes = of(&snap.world, &owner, now);
    for lane in &mut lanes {
        let known = |ahead: i64, within: i64| {
            Clock::Node(Offset {
                ahead_ns: ahead * MILLI,
                within_ns: within * MILLI,
            })
        };
        lane.clock = match lane.pod.node.as_str() {
            "invented-0" => known(1, 2),
            "invented-1" => known(250, 3),
            _ => Clock::Apiserver(None),
        };
    }
    let why = "no agent that is ready (namespace kflow)".to_owned();
    let view = ClusterView {
        abreast: Some(Arc::new(Abreast {
            owner,
            lanes,
            unheard: vec![("invented-2".into(), why)],
        })),
        ..ClusterView::default()
    };
    Snapshot {
        cluster: live.then(|| Arc::new(view)),
        ..snap
    }
}

#[test]
fn pods_of_an_owner_are_rows_of_one_axis_with_their_nodes_and_their_clocks() {
    let situations = [
        ("three nodes", burst(300, true), "B"),
        ("the last of them", burst(300, true), "B G"),
        ("later", burst(700, true), "B"),
        ("a recording", burst(300, false), "B"),
    ];
    for size in [(80, 24), (200, 60)] {
        let mut out = String::new();
        for (what, snap, keys) in &situations {
            in_every_theme(what, size, &mut out, |m| {
                frame(m, snap);
                let pod = snap.world.pods().iter().find(|p| p.namespace == "s19");
                select(m, snap, &pod.expect("a pod").key());
                frame(m, snap);
                press(m, snap, keys);
                frame(m, snap)
            });
        }
        insta::assert_snapshot!(format!("tui-abreast-{}x{}", size.0, size.1), out);
    }
}

#[test]
fn rows_lead_to_their_pods() {
    let snap = burst(300, true);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    let first = snap.world.pods().iter().find(|p| p.namespace == "s19");
    select(&mut m, &snap, &first.expect("a pod").key());
    frame(&mut m, &snap);
    press(&mut m, &snap, "B");
    frame(&mut m, &snap);
    press(&mut m, &snap, "g");
    let (top, text) = (m.shared.pod.clone(), svg::plain(&frame(&mut m, &snap)));
    assert!(text.contains("on 3 nodes"), "{text}");
    // The footer names only keys that have an effect here.
    let footer = |text: &str| text.trim_end().lines().next_back().map(str::to_owned);
    let keys = footer(&text).expect("a footer");
    assert!(keys.contains("open") && !keys.contains("zoom"), "{keys}");
    press(&mut m, &snap, "j");
    assert_ne!(m.shared.pod, top);
    press(&mut m, &snap, "enter");
    let text = svg::plain(&frame(&mut m, &snap));
    let pod = m.shared.view(&snap).expect("a pod").name.clone();
    assert!(
        footer(&text).is_some_and(|keys| keys.contains("zoom")),
        "{text}"
    );
    assert!(
        text.contains("STAGE") && text.contains(pod.as_str()),
        "{text}"
    );
    // A pod without an owner has no rows here.
    let alone = snap.world.pods().iter().find(|p| p.owners.is_empty());
    select(&mut m, &snap, &alone.expect("a pod").key());
    frame(&mut m, &snap);
    press(&mut m, &snap, "B");
    let text = svg::plain(&frame(&mut m, &snap));
    assert!(text.contains("of no owner that makes pods"), "{text}");
}
