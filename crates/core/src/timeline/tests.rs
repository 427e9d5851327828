use super::*;
use crate::timeline::summary::work_ns;

pub(super) fn span(
    stage: Stage,
    step: &str,
    container: &str,
    start: i64,
    end: Option<i64>,
    parent: Option<u32>,
) -> Span {
    let edge = |at| Edge {
        at: Nanos(at),
        precision: 1,
    };
    let (start, end) = (edge(start), end.map(edge));
    Span {
        container: container.into(),
        parent,
        ..Span::new(stage, step, start, end, Certainty::Measured, Vec::new())
    }
}

/// A sandbox 0–100 with its network 20–90, an unknown time 100–150, an init container's run 170–300,
/// then the main container.
pub(super) fn start() -> Timeline {
    Timeline {
        spans: vec![
            span(Stage::Sandbox, "sandbox", "", 0, Some(100), None),
            span(Stage::Sandbox, "RunPodSandbox", "", 0, Some(100), Some(0)),
            span(
                Stage::Sandbox,
                "cni.setup_pod_network",
                "",
                20,
                Some(90),
                Some(1),
            ),
            span(Stage::Start, "start", "", 150, Some(330), None),
            span(
                Stage::Start,
                "StartContainer",
                "init",
                150,
                Some(170),
                Some(3),
            ),
            span(Stage::Start, RUN, "init", 170, Some(300), None),
            span(
                Stage::Start,
                "StartContainer",
                "web",
                300,
                Some(330),
                Some(3),
            ),
            span(Stage::Start, RUN, "web", 330, None, None),
            span(Stage::Ready, "ready", "", 330, Some(400), None),
            span(Stage::Ready, "SetPodStatus", "", 330, Some(400), Some(8)),
        ],
        ..Timeline::default()
    }
}

#[test]
fn a_stage_works_only_while_a_step_of_it_goes_on() {
    let t = start();
    let stage = t.stage(Stage::Start).expect("it began");
    let now = Nanos(1000);
    assert_eq!((stage.duration(now), work_ns(&t, stage, now)), (180, 50));
}
