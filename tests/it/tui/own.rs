//! The calls that kflow itself makes are not shown as what a node does.

use std::sync::Arc;

use kflow_engine::snapshot::Mode;
use kflow_engine::{Pipeline, Snapshot};
use kflow_model::Observation;
use kflow_tui::offscreen::{frame, model, press};

use super::panes::shown;
use super::session;

/// Of a recording of a node with `--tap ebpf`: an agent of kflow and the kubelet, shortened.
const NODE: [&str; 8] = [
    r#"{"t":1795901270740290326,"s":1795901270750072611,"src":"cri","b":{"conn":{"c":1,"open":true,"pid":9003,"by":"kubelet","sight":"partial","why":"joined in the middle"}}}"#,
    r#"{"t":1795901270740290326,"s":1795901270750072611,"src":"cri","b":{"conn":{"c":3,"open":true,"pid":9379,"by":"kflow","sight":"partial","why":"joined in the middle"}}}"#,
    r#"{"t":1795901271147705530,"s":1795901271158395010,"src":"cri","b":{"call_start":{"c":3,"s":3,"svc":"other","m":"/containerd.services.content.v1.Content/ListStatuses","part":true,"in":0}}}"#,
    r#"{"t":1795901290186944308,"s":1795901290197495711,"src":"cri","b":{"call_start":{"c":1,"s":355,"svc":"runtime","m":"RunPodSandbox","sub":{"pod":{"u":"89ce9526-91fb-4304-9809-6d3241bd41d3","ns":"e01","n":"giant-narwhal-6958c5bdd8-69gtn"},"n":0},"dl":240000000000,"in":1029}}}"#,
    r#"{"t":1795901290612840009,"s":1795901290624860621,"src":"cri","b":{"conn":{"c":5,"open":true,"pid":9379,"by":"kflow-sources"}}}"#,
    r#"{"t":1795901290613343190,"s":1795901290624860621,"src":"cri","b":{"call_start":{"c":5,"s":1,"svc":"runtime","m":"ListContainers","sub":{"cid":"39691a2741c6bfc13d106adff5104d392423c07c7c5dd2208051d201f92ed296"},"in":68,"flt":true}}}"#,
    r#"{"t":1795901290626440574,"s":1795901290637490322,"src":"cri","b":{"call_end":{"c":5,"s":1,"how":"status","code":0,"in":68,"out":0,"f":[["items","0"]]}}}"#,
    r#"{"t":1795901290626967481,"s":1795901290637490322,"src":"cri","b":{"conn":{"c":5,"open":false,"pid":9379,"by":"kflow-sources","why":"client said GOAWAY NO_ERROR"}}}"#,
];

fn node() -> Snapshot {
    let mut core = Pipeline::new();
    let mut seen: Vec<Observation> = Vec::new();
    for line in NODE {
        let o: Observation = serde_json::from_str(line).expect("an observation");
        seen.push(o.clone());
        core.observe(Arc::new(o));
    }
    let (first, last) = (seen[0].stamp.seen, seen[7].stamp.seen);
    core.snapshot(
        last.plus(1_000_000_000),
        Mode::paused("node"),
        (first, last),
        Vec::new(),
    )
}

fn title(text: &str) -> &str {
    let rule = text.lines().find(|l| l.starts_with("─ Calls "));
    rule.unwrap_or_default()
}

#[test]
fn the_list_of_calls_counts_kflows_own_and_shows_them_when_asked() {
    let snap = node();
    let mut m = model((160, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    press(&mut m, &snap, "3");
    let text = shown(&mut m, &snap);
    assert!(
        title(&text).contains(" 1 of 3 · 1 in flight · 2 of kflow hidden"),
        "{text}"
    );
    assert!(
        text.contains("RunPodSandbox") && !text.contains("ListStatuses"),
        "{text}"
    );
    press(&mut m, &snap, "/ own enter");
    let text = shown(&mut m, &snap);
    assert!(title(&text).contains(" 2 of 3"), "{text}");
    assert!(
        text.contains("ListStatuses") && text.contains("ListContainers"),
        "{text}"
    );
    press(&mut m, &snap, "esc / o w n space | space ! o w n enter");
    let text = shown(&mut m, &snap);
    assert!(title(&text).contains(" 3 of 3"), "{text}");
    // The percentiles count what the list shows.
    press(&mut m, &snap, "esc p");
    let text = shown(&mut m, &snap);
    assert!(
        text.contains("RunPodSandbox") && !text.contains("ListStatuses"),
        "{text}"
    );
}

#[test]
fn the_node_is_not_busy_with_what_kflow_asks() {
    let snap = node();
    let mut m = model((200, 80), "dark").expect("theme");
    frame(&mut m, &snap);
    press(&mut m, &snap, "6");
    let text = shown(&mut m, &snap);
    let flight = text.lines().find(|l| l.contains("OPERATIONS IN FLIGHT"));
    let flight = flight.expect("a heading");
    assert!(flight.contains(" 1 · 1 of kflow hidden"), "{flight}");
    assert!(
        !text.contains("ListStatuses") && !text.contains("ListContainers"),
        "{text}"
    );
    assert!(text.contains("2 calls of kflow hidden"), "{text}");
}

/// The proxy of this recording told who a client was only when its connection closed.
#[test]
fn a_client_that_is_known_late_is_kflow_all_along() {
    let snap = session("../versions/S26-cri-dockerd", 1000);
    let all = snap.world.calls().iter();
    let own: Vec<_> = all.filter(|c| snap.world.is_own_call(c)).collect();
    assert!(own.len() >= 8, "{}", own.len());
    assert!(own.iter().any(|c| c.method.contains("Events/Subscribe")));
    let methods = ["RunPodSandbox", "ImageStatus", "ListImages"];
    assert!(own.iter().all(|c| !methods.contains(&c.method.as_str())));
}
