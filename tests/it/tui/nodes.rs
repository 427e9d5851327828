//! The nodes of a cluster in the Node pane, with their styles. The nodes and their agents are invented, because every
//! recording has only one node.

use std::sync::Arc;

use kflow_engine::cluster::{ClusterView, Open};
use kflow_engine::live::Agents;
use kflow_engine::nodes;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_engine::{Pipeline, snapshot::SourceStatus, snapshot::Status};
use kflow_model::node::NodeSeen;
use kflow_model::pod::Condition;
use kflow_model::{Body, Source, Text};
use kflow_sources::agent::AgentPod;
use kflow_tui::backend::Drive;
use kflow_tui::model::Effect;
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::svg;

use super::churn::{self, BEGIN, observation, pod};
use super::frames::in_every_theme;

fn invented(n: usize) -> NodeSeen {
    let ready = match n {
        3 => (
            "False",
            "KubeletNotReady",
            "container runtime network not ready",
        ),
        5 => (
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status.",
        ),
        _ => ("True", "KubeletReady", "kubelet is posting ready status"),
    };
    NodeSeen {
        name: name(n),
        resource_version: 1,
        unschedulable: n == 7,
        conditions: vec![Condition {
            kind: "Ready".into(),
            status: ready.0.into(),
            reason: ready.1.into(),
            message: ready.2.into(),
            transition: Some(BEGIN),
        }],
        kubelet_version: if n == 2 { "v1.35.1" } else { "v1.36.3" }.into(),
        runtime_version: if n == 9 {
            "cri-o://1.36.0"
        } else {
            "containerd://2.1.9"
        }
        .into(),
        ..NodeSeen::default()
    }
}

fn name(n: usize) -> Text {
    format!("invented-{n}.example.internal").into()
}

/// Returns a snapshot of `count` nodes, `agents` of which have an agent; with `open`, one of them is open.
fn cluster(count: usize, agents: usize, open: bool) -> Snapshot {
    let mut pipeline = Pipeline::new();
    for n in 0..count {
        let body = Body::Node(Box::new(invented(n)));
        pipeline.observe(observation(0, Source::Kube, body));
        for i in 0..n % 4 {
            let mut p = pod(n * 10 + i, &format!("app-{n}-{i}"), true);
            p.spec.node = name(n);
            pipeline.observe(observation(1, Source::Kube, Body::Pod(Box::new(p))));
        }
    }
    let mode = Mode::Live {
        scope: if open { name(1) } else { "all".into() },
        following: true,
        recording: Text::default(),
    };
    let now = BEGIN.plus(90_000_000_000);
    let agent = SourceStatus::new(
        Source::Cri,
        "agent",
        Status::On("kflow 0.1.0, 12 of 12 sources".into()),
    );
    let sources = vec![SourceStatus::new(
        Source::Kube,
        "pods",
        Status::On(Text::default()),
    )];
    let sources = sources.into_iter().chain(open.then_some(agent)).collect();
    let snap = pipeline.snapshot(now, mode, (BEGIN, now), sources);
    let by_node = (0..agents).map(|n| {
        let version = if n == 4 {
            "0.0.9"
        } else {
            env!("CARGO_PKG_VERSION")
        };
        let pod = AgentPod {
            name: format!("kflow-agent-{n}"),
            version: version.to_owned(),
            ready: n != 6,
        };
        (name(n).to_string(), pod)
    });
    let view = ClusterView {
        nodes: Arc::new(nodes::rows(&snap)),
        agents: Some(Arc::new(Agents {
            by_node: by_node.collect(),
            known: true,
            ..Agents::default()
        })),
        namespace: "kflow".into(),
        open: open.then(|| Open {
            node: name(1),
            since: BEGIN.plus(30_000_000_000),
            calls: 2,
        }),
        abreast: None,
    };
    Snapshot {
        cluster: Some(Arc::new(view)),
        ..snap
    }
}

#[test]
fn nodes_are_listed_with_how_they_are_and_who_shows_their_calls() {
    let situations = [
        ("no agents", cluster(2, 0, false), "6"),
        ("agents", cluster(12, 9, false), "6 j"),
        ("one is open", cluster(12, 9, true), "6 a"),
        ("the open one", cluster(12, 9, true), "6"),
        ("many", cluster(200, 200, false), "6 G"),
    ];
    for size in [(80, 24), (200, 60)] {
        let mut out = String::new();
        for (what, snap, keys) in &situations {
            in_every_theme(what, size, &mut out, |m| {
                frame(m, snap);
                press(m, snap, keys);
                frame(m, snap)
            });
        }
        insta::assert_snapshot!(format!("tui-nodes-{}x{}", size.0, size.1), out);
    }
}

#[test]
fn enter_opens_a_node_and_escape_leaves_it() {
    let snap = cluster(12, 9, false);
    let mut m = model((120, 40), "dark").expect("theme");
    press(&mut m, &snap, "6");
    m.set_filter_of(kflow_tui::pane::PaneId::Node, "invented-1.");
    let text = svg::plain(&frame(&mut m, &snap));
    assert!(
        text.contains("invented-1.") && !text.contains("invented-2."),
        "{text}"
    );
    let wanted = name(1).to_string();
    assert_eq!(
        press(&mut m, &snap, "enter"),
        [Effect::Drive(Drive::Open(wanted))]
    );
    let open = cluster(12, 9, true);
    frame(&mut m, &open);
    // From another pane the first escape goes back to the Node pane.
    press(&mut m, &open, "3");
    assert_eq!(press(&mut m, &open, "esc"), []);
    frame(&mut m, &open);
    assert_eq!(press(&mut m, &open, "esc"), [Effect::Drive(Drive::Leave)]);
    let text = svg::plain(&frame(&mut m, &snap));
    assert!(text.contains("NOT WELL"), "{text}");
    // In a recording no node can be opened.
    let mut single = churn::pipeline(1, 12);
    let recorded = churn::snapshot(&mut single, BEGIN.plus(2_000_000_000));
    let mut m = model((120, 40), "dark").expect("theme");
    press(&mut m, &recorded, "6 a");
    assert_eq!(press(&mut m, &recorded, "enter"), []);
}
