//! What each pane says about recorded pods.

use kflow_tui::action::Command;
use kflow_tui::model::{Effect, Model};
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;

use super::session;

pub(super) fn shown(m: &mut Model, snap: &kflow_engine::Snapshot) -> String {
    svg::plain(&frame(m, snap))
}

pub(super) fn open(
    name: &str,
    permille: i64,
    pod: &str,
    keys: &str,
) -> (Model, kflow_engine::Snapshot, String) {
    let snap = session(name, permille);
    let mut m = model((160, 50), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, pod);
    press(&mut m, &snap, keys);
    let text = shown(&mut m, &snap);
    (m, snap, text)
}

#[test]
fn the_sequence_draws_calls_from_the_kubelet_to_the_runtime_with_lengths_and_folds_repeats() {
    let (mut m, snap, text) = open("S2-stuck-early", 450, "s10/rc", "7");
    for party in [
        "user/controller",
        "apiserver",
        "scheduler",
        "kubelet",
        "runtime",
        "CNI / images",
    ] {
        assert!(text.contains(party), "{party}: {text}");
    }
    let mut rows = text.lines().skip_while(|l| !l.contains("RunPodSandbox"));
    let call = rows.next().expect("the call that fails");
    assert!(call.contains("─▶┃"), "{call}");
    let answer = rows.next().expect("its answer");
    assert!(
        answer.contains("◀┄") && answer.contains("Unknown") && answer.contains("ms"),
        "{answer}"
    );
    assert!(text.contains("┃┄┄▷ waits in sandbox"), "{text}");
    assert!(text.contains("×"), "repeats are folded: {text}");
    let folded = text.matches("RunPodSandbox").count();
    press(&mut m, &snap, "f");
    let text = shown(&mut m, &snap);
    let unfolded = text.matches("RunPodSandbox").count();
    assert!(unfolded > folded, "{unfolded} {folded}");
    let silence = text.lines().find(|l| l.contains('⋮'));
    assert!(
        silence.is_some_and(|l| l.contains("s  waited for the next sync")),
        "{text}"
    );
}

#[test]
fn silence_says_what_went_on_and_help_has_the_symbols() {
    let (mut m, snap, _) = open("S1-basics", 900, "s01/healthy", "7");
    press(&mut m, &snap, "g");
    let text = shown(&mut m, &snap);
    let silence = text.lines().find(|l| l.contains('⋮'));
    assert!(
        silence.is_some_and(|l| l.contains("s  init container setup ran")),
        "{text}"
    );
    let (_, _, queued) = open("S6-slowpull", 1000, "s24a/queued", "7 g");
    assert!(
        queued.contains("s  waited in the queue of pulls, c") && queued.contains("PullImage"),
        "{queued}"
    );
    press(&mut m, &snap, "?");
    let help = shown(&mut m, &snap);
    for symbol in ["──▶", "◀┄┄", "──▷", "┄┄▷", "┃", "⋮", "×7"] {
        assert!(
            help.lines()
                .any(|l| l.contains(&format!("│ {symbol} ")) && !text.contains(l)),
            "{symbol}: {help}"
        );
    }
}

#[test]
fn the_flow_lights_what_was_reached_and_says_what_cannot_be_seen() {
    let (mut m, snap, text) = open("S2-stuck-early", 450, "s10/rc", "8");
    let row = |text: &str, name: &str| {
        text.lines()
            .find(|l| l.contains(name))
            .unwrap_or_default()
            .to_owned()
    };
    // The pane opens at the step where the pod hangs.
    let selected = row(&text, "▌");
    assert!(
        selected.contains("RunPodSandbox #6") && selected.contains('✖'),
        "{text}"
    );
    m.resize((160, 250), &snap);
    let text = shown(&mut m, &snap);
    let root = row(&text, "syncLoopIteration");
    assert!(
        root.contains("the node's") && root.contains('×'),
        "the node's loop is the root, with how often it went round: {text}"
    );
    assert!(row(&text, "HandlePodAdditions").contains('●'), "{text}");
    let indent = |name: &str| row(&text, name).find(name);
    assert!(indent("syncLoopIteration") < indent("HandlePodAdditions"));
    assert!(indent("HandlePodAdditions") < indent("canAdmitPod"));
    let dark = row(&text, "cannot be seen: ");
    assert!(
        dark.contains('·') && dark.contains("the scheduler's c"),
        "it says why: {text}"
    );
    assert!(row(&text, "canAdmitPod").contains("pkg/kubelet/"), "{text}");
    // The filter leaves only the steps that the pod reached.
    press(&mut m, &snap, "f");
    let reached = shown(&mut m, &snap);
    assert!(!reached.contains("cannot be seen"), "{reached}");
    assert!(row(&reached, "RunPodSandbox").contains("pkg/kubelet/"));
}

#[test]
fn enter_explains_a_step_and_enter_again_leads_to_what_was_seen_of_it() {
    let (mut m, snap, before) = open("S2-stuck-early", 450, "s10/rc", "8");
    press(&mut m, &snap, "enter");
    let text = shown(&mut m, &snap);
    // Lines may wrap anywhere.
    let panel: Vec<&str> = text
        .lines()
        .filter_map(|l| l.rsplit_once('│'))
        .flat_map(|(_, l)| l.split_whitespace())
        .collect();
    let panel = panel.join(" ");
    for wanted in [
        "e10 RunPodSandbox",
        "Most of the time is that of the CNI plugin.",
        "4 minutes by default, then FailedCreatePodSandBox and a new attempt.",
        "pkg/kubelet/kuberuntime/kuberuntime_sandbox.go",
        "e07 createPodSandbox",
        "times, the longest",
    ] {
        assert!(panel.contains(wanted), "{wanted}: {panel}\n{text}");
    }
    // The panel follows the selection, also on steps that were not observed and on headings.
    for keys in ["j", "k k", "g", "G"] {
        press(&mut m, &snap, keys);
        assert_ne!(shown(&mut m, &snap), text, "{keys}");
    }
    press(&mut m, &snap, "esc");
    assert_eq!(m.focus, PaneId::Flow);
    assert!(!shown(&mut m, &snap).contains("hangs      "));
    // The same from the step at which the pane opens.
    let (mut m, snap, again) = open("S2-stuck-early", 450, "s10/rc", "8");
    assert_eq!(before, again);
    press(&mut m, &snap, "enter enter");
    assert_eq!(m.focus, PaneId::Log);
    let log = shown(&mut m, &snap);
    let selected = log.lines().find(|l| l.starts_with('▌')).unwrap_or_default();
    assert!(selected.contains("RunPodSandbox"), "{log}");
}

#[test]
fn why_names_cause_evidence_and_what_to_do_next() {
    let (mut m, snap, text) = open("S2-stuck-early", 450, "s03/cm-missing", "5");
    for wanted in [
        "KF402",
        "which does not exist in namespace s03.",
        "EVIDENCE",
        "NEXT",
        "kubectl -n s03 get configmap",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    // `Y` copies the verdict to the clipboard as Markdown.
    let effects = press(&mut m, &snap, "Y");
    assert!(
        matches!(effects.as_slice(), [Effect::Copy(t)] if t.contains("KF402")),
        "{effects:?}"
    );
}

#[test]
fn a_pod_that_is_well_is_told_by_its_start() {
    let (_, _, text) = open("S1-basics", 200, "s01/healthy", "5");
    for part in [
        "s01/healthy is well",
        "Ready after 5.19s",
        "init container [setup] ran",
        "2 p shows all of it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let shares = text.lines().filter(|l| {
        l.trim_start()
            .split('%')
            .next()
            .is_some_and(|n| n.parse::<u8>().is_ok())
    });
    assert_eq!(shares.count(), 3, "{text}");
}

#[test]
fn one_time_cursor_goes_through_the_panes() {
    let (mut m, snap, _) = open("S1-basics", 900, "s01/healthy", "3");
    press(&mut m, &snap, "G k k k");
    let at = m.shared.cursor.expect("the selection moves the cursor");
    // The log stands at the same moment.
    press(&mut m, &snap, "4 a");
    frame(&mut m, &snap);
    press(&mut m, &snap, "j");
    let in_log = m.shared.cursor.expect("cursor");
    assert!(
        in_log.since(at).abs() < 2_000_000_000,
        "{at:?} and {in_log:?}"
    );
    // In the other direction the calls follow the log's moment.
    press(&mut m, &snap, "G k");
    let late = m.shared.cursor.expect("cursor");
    press(&mut m, &snap, "3 j");
    let there = m.shared.cursor.expect("cursor");
    assert!(
        there.since(late).abs() < 5_000_000_000,
        "{late:?} and {there:?}"
    );
}

#[test]
fn the_export_menu_has_every_format_and_asks_the_shell_to_write() {
    use kflow_export::file::Kind;
    let (mut m, snap, _) = open("S1-basics", 900, "s01/healthy", "e");
    let text = shown(&mut m, &snap);
    for k in Kind::ALL {
        assert!(text.contains(&format!("Pod: {k}")), "{k}: {text}");
        for all in [false, true] {
            let more = if all { " all" } else { "" };
            let c = Command::parse(&format!("export {k}{more}")).expect("export");
            // A diagram shows a single pod.
            let effects = match (k.of_one(), all) {
                (true, true) => Vec::new(),
                _ => vec![Effect::Export { kind: k, all }],
            };
            assert_eq!(m.run(&c, &snap), effects, "{k}{more}");
            let item = text.contains(&format!("{}: {k}", if all { "All pods" } else { "Pod" }));
            assert_eq!(item, !effects.is_empty(), "{k}{more}: {text}");
        }
    }
    let effects = press(&mut m, &snap, "j j enter");
    assert_eq!(
        effects,
        [Effect::Export {
            kind: Kind::Perfetto,
            all: false
        }]
    );
}

#[test]
fn recording_is_asked_for_by_its_key_in_every_pane() {
    use kflow_tui::backend::Drive;
    let (mut m, snap, _) = open("S1-basics", 900, "", "1");
    for p in PaneId::ALL {
        m.show(p);
        assert_eq!(
            press(&mut m, &snap, "R"),
            [Effect::Drive(Drive::Record)],
            "{p:?}"
        );
    }
}

#[test]
fn every_call_of_a_pod_is_an_arrow() {
    for name in ["S1-basics", "S2-stuck-early", "S3-crashes", "S5-burst"] {
        let snap = session(name, 1000);
        let mut m = model((160, 50), "dark").expect("theme");
        let calls = |uid: &kflow_model::PodUid| {
            let all = snap.world.calls().iter();
            all.filter(|c| c.pod_uid == *uid).count()
        };
        let mut pods: Vec<_> = snap.world.pods().iter().collect();
        pods.sort_by_key(|p| std::cmp::Reverse(calls(&p.uid)));
        press(&mut m, &snap, "7 f");
        for p in pods.into_iter().take(5) {
            m.shared.pod = Some(p.uid.clone());
            let _text = shown(&mut m, &snap);
            let diagram = m
                .pane(PaneId::Sequence)
                .and_then(|s| s.copy(&snap, &m.shared))
                .expect("a diagram");
            let arrows = diagram
                .lines()
                .filter(|l| l.trim_start().starts_with("kubelet-"))
                .filter(|l| l.contains("runtime:") || l.contains("images:"))
                .count();
            assert_eq!(arrows, calls(&p.uid), "{name} {}", p.key());
        }
    }
}

#[test]
fn a_burst_is_one_picture_of_lanes_sorted_by_begin_start_or_a_stage() {
    let snap = session("S5-burst", 600);
    let burst = |text: &str| text.lines().filter(|l| l.contains("s19/burst-")).count();
    for (size, least) in [((80, 24), 16), ((200, 60), 40)] {
        let mut m = model(size, "dark").expect("theme");
        frame(&mut m, &snap);
        press(&mut m, &snap, "1 / burst enter t");
        let text = shown(&mut m, &snap);
        assert!(burst(&text) >= least, "{size:?}: {}\n{text}", burst(&text));
        assert!(text.contains("lanes by begin"), "{text}");
        let lanes = text
            .lines()
            .filter(|l| l.contains("s19/burst-") && l.contains('█'));
        assert!(lanes.count() >= least, "{text}");
        // The durations of the selected pod's stages are the legend.
        for stage in ["sandbox", "create"] {
            assert!(text.contains(stage), "{stage}: {text}");
        }
    }
    let mut m = model((200, 60), "dark").expect("theme");
    frame(&mut m, &snap);
    press(&mut m, &snap, "1 / burst enter t");
    let names = |text: &str| -> Vec<String> {
        let word = |l: &str| {
            l.split_whitespace()
                .find(|w| w.contains("s19/burst-"))
                .map(str::to_owned)
        };
        text.lines()
            .filter(|l| !l.contains("stages"))
            .filter_map(word)
            .collect()
    };
    let sorted = |m: &mut Model, by: &str| {
        m.run(
            &Command::parse(&format!("sort {by}")).expect("a command"),
            &snap,
        );
        press(m, &snap, "g");
        let mut rows = names(&shown(m, &snap));
        rows.truncate(30);
        rows.iter()
            .filter_map(|n| {
                Some(
                    snap.world
                        .find(n.trim_start_matches('▌'))
                        .first()?
                        .to_owned()
                        .clone(),
                )
            })
            .collect::<Vec<_>>()
    };
    let begin = sorted(&mut m, "name");
    assert_eq!(begin.len(), 30);
    let starts = sorted(&mut m, "start");
    assert!(starts.is_sorted_by_key(|p| -p.start().map_or(-1, |(ns, _)| ns)));
    let sandboxes = sorted(&mut m, "sandbox");
    let took = |p: &kflow_core::correlate::Pod| p.took[kflow_core::flow::Stage::Sandbox.index()];
    assert!(sandboxes.is_sorted_by_key(|p| -took(p)) && took(&sandboxes[0]) > 0);
}

#[test]
fn the_start_of_a_pod_is_from_its_request_to_its_readiness() {
    use kflow_core::flow::Stage;
    let snap = session("S5-burst", 600);
    let mut exact = 0;
    for p in snap.world.pods().iter().filter(|p| p.namespace == "s19") {
        let Some((ns, precision)) = p.start() else {
            continue;
        };
        // The stage ends when the condition changed; the watch showed that a moment later.
        let ready = p
            .timeline
            .stage(Stage::Ready)
            .and_then(|s| s.end)
            .expect("an end");
        assert_eq!(ns, ready.at.since(p.zero()), "{}", p.key());
        assert!(p.create_requested.is_some() && ns > 0);
        exact += usize::from(i64::from(precision) < kflow_model::stamp::SECOND);
    }
    assert!(exact >= 40, "{exact}");
    let mut m = model((200, 60), "dark").expect("theme");
    frame(&mut m, &snap);
    let text = shown(&mut m, &snap);
    assert!(text.contains("START"), "{text}");
    // A pod that hangs has no start duration.
    let snap = session("S2-stuck-early", 450);
    let stuck = snap.world.find("s10/rc");
    assert_eq!(stuck.first().map(|p| p.start()), Some(None));
}
