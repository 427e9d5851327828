//! `-n`, `-l`, `--field-selector` and `--node` mean the same on a recording in every command, and what a recording
//! cannot answer is refused.

use kflow_model::pod::PodPhase;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_core::selection::Selection;
use kflow_engine::{Pipeline, world_at};
use kflow_model::pod::PodSeen;
use kflow_model::session::{self, Session};
use kflow_model::{Body, Evidence, Nanos, Scope};
use serde_json::Value;

/// A recording in which pods hang for many reasons.
const FILE: &str = "fixtures/sessions/S2-stuck-early.kflow.zst";
/// A recording whose pods have labels.
const LABELLED: &str = "fixtures/sessions/S1-basics.kflow.zst";
/// The moment at which commands look, from the recording's beginning, as `--at` takes it.
const AT: &str = "+100s";
const AFTER: i64 = 100_000_000_000;

fn session(file: &str) -> Session {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    session::load(&path).unwrap()
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    crate::program::kflow_in(Path::new(env!("CARGO_MANIFEST_DIR")), args).parts()
}

/// Returns the rows that a command prints for the recording at [`AT`].
fn rows(command: &[&str], scope: &[&str], file: &str) -> Vec<Value> {
    let mut args = command.to_vec();
    args.extend(scope);
    args.extend(["-s", file, "--at", AT]);
    let (code, out, err) = run(&args);
    assert!(
        matches!(code, Some(0 | 1)),
        "{args:?}: {code:?} {out} {err}"
    );
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}"))
}

fn named(rows: &[Value]) -> BTreeSet<String> {
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    rows.iter()
        .map(|r| format!("{}/{}", text(r, "namespace"), text(r, "name")))
        .collect()
}

/// Returns the pods that the apiserver had shown by [`AT`] and whose newest state fits.
fn pods(file: &str, of: impl Fn(&PodSeen) -> bool) -> BTreeSet<String> {
    let session = session(file);
    let at = session.range().unwrap().0.plus(AFTER);
    let mut newest = BTreeMap::new();
    for o in session.observations.iter().take(session.arrived_by(at)) {
        if let Body::Pod(p) = &o.body {
            newest.insert(p.uid.clone(), p.clone());
        }
    }
    newest
        .values()
        .filter(|p| of(p))
        .map(|p| format!("{}/{}", p.namespace, p.name))
        .collect()
}

/// A condition on a pod's state.
type Of<'a> = &'a dyn Fn(&PodSeen) -> bool;

#[test]
fn every_command_that_reads_a_recording_looks_at_the_scope_alone() {
    let label = |p: &PodSeen, key: &str| p.labels.iter().any(|(k, _)| k == key);
    let cases: [(&str, &[&str], Of<'_>); 7] = [
        (FILE, &["-n", "s02"], &|p| p.namespace == "s02"),
        (FILE, &["--node", "node1"], &|p| {
            p.spec.node.is_empty() || p.spec.node == "node1"
        }),
        (FILE, &["--field-selector", "status.phase=Pending"], &|p| {
            p.status.phase == PodPhase::Pending
        }),
        (FILE, &["--field-selector", "spec.nodeName="], &|p| {
            p.spec.node.is_empty()
        }),
        (LABELLED, &["-l", "app=healthy"], &|p| label(p, "app")),
        (LABELLED, &["-l", "!app"], &|p| !label(p, "app")),
        (LABELLED, &["-l", "app", "-n", "s01"], &|p| {
            label(p, "app") && p.namespace == "s01"
        }),
    ];
    let mut seen = 0;
    for (file, scope, of) in cases {
        let shown = pods(file, |_| true);
        let wanted = pods(file, of);
        // Namespace and node of a pod that the API has not shown may be known from other sources.
        let fits = |key: &String| {
            wanted.contains(key) || (!shown.contains(key) && matches!(scope[0], "-n" | "--node"))
        };
        let all = named(&rows(&["timeline", "-o", "json"], &["-A"], file));
        for command in [&["timeline", "-o", "json"][..], &["export", "-o", "json"]] {
            let got = named(&rows(command, scope, file));
            assert!(
                got.iter().all(fits),
                "{command:?} {scope:?}: {got:?} {wanted:?}"
            );
            let missing: Vec<_> = wanted
                .intersection(&all)
                .filter(|k| !got.contains(*k))
                .collect();
            assert!(missing.is_empty(), "{command:?} {scope:?}: {missing:?}");
            seen += got.len();
        }
        let pod_of = |row: &Value| {
            format!(
                "{}/{}",
                row["namespace"].as_str().unwrap(),
                row["pod"].as_str().unwrap()
            )
        };
        for v in rows(&["why", "-o", "json"], scope, file) {
            assert!(fits(&pod_of(&v)), "{scope:?}: {}", pod_of(&v));
        }
        let calls = rows(&["calls", "-o", "json"], scope, file);
        let measured: u64 = rows(&["stats", "-o", "json"], scope, file)
            .iter()
            .filter(|r| {
                r["measure"]
                    .as_str()
                    .is_some_and(|m| m.starts_with("call/"))
            })
            .filter_map(|r| r["count"].as_u64().zip(r["open"].as_u64()))
            .map(|(done, open)| done + open)
            .sum();
        assert_eq!(measured, calls.len() as u64, "stats {scope:?}");
        for c in calls.iter().filter(|c| c["pod"] != "") {
            assert!(fits(&pod_of(c)), "{scope:?}: a call of {}", pod_of(c));
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn what_is_about_no_pod_belongs_to_a_node_and_to_no_namespace() {
    let unnamed = |scope: &[&str]| {
        let calls = rows(&["calls", "-o", "json"], scope, FILE);
        calls
            .iter()
            .filter(|c| c["pod_uid"] == "" && c["pod"] == "")
            .count()
    };
    assert!(unnamed(&["-A"]) > 0);
    assert_eq!(unnamed(&["--node", "node1"]), unnamed(&["-A"]));
    assert_eq!(unnamed(&["-n", "s02"]), 0);
    for r in rows(&["requests", "--list", "-o", "json"], &["-n", "s02"], FILE) {
        assert_eq!(r["namespace"], "s02");
    }
    assert!(!rows(&["requests", "-o", "json"], &["-n", "s02"], FILE).is_empty());
}

#[test]
fn a_scope_that_the_recording_knows_nothing_of_is_unknown() {
    for command in [
        &["why", "--all"][..],
        &["why", "nobody"],
        &["timeline"],
        &["calls"],
        &["flow"],
        &["requests"],
        &["export", "-o", "json"],
    ] {
        for scope in [["-n", "doesnotexist"], ["--node", "node9"]] {
            let mut args = command.to_vec();
            args.extend(scope);
            args.extend(["-s", FILE]);
            let (code, out, err) = run(&args);
            assert_eq!(code, Some(2), "{args:?}: {out} {err}");
            assert!(
                err.contains("nothing that was read is of"),
                "{args:?}: {err}"
            );
        }
    }
}

/// A selection that matches no pod does not mean that all is well: every command says that there are no pods.
#[test]
fn a_selection_without_pods_is_told() {
    for command in [
        &["why", "--all"][..],
        &["why", "--ever"],
        &["timeline"],
        &["calls"],
        &["flow"],
        &["requests"],
        &["requests", "--list"],
        &["stats"],
        &["export", "-o", "json"],
    ] {
        let mut args = command.to_vec();
        args.extend(["-l", "app=nope", "-s", FILE]);
        let (code, out, err) = run(&args);
        assert_eq!(code, Some(0), "{args:?}: {out} {err}");
        let said = format!("{out}{err}").to_lowercase();
        assert!(said.contains("there are no "), "{args:?}: {out} {err}");
        assert!(!said.contains("nothing was ever wrong"), "{args:?}: {out}");
    }
}

#[test]
fn what_cannot_be_said_of_a_recording_is_refused() {
    for (args, said) in [
        (&["calls", "--otlp"][..], "--otlp is of what runs"),
        (&["calls", "--for", "1s"], "--for is of what runs"),
        (&["timeline", "--no-api"], "--no-api is of what runs"),
        (
            &["why", "--all", "--keep-gone", "1h"],
            "--keep-gone is of what runs",
        ),
        (&["tui", "--context", "x"], "--context is of what runs"),
        (
            &["why", "s02/image-missing", "-n", "s03"],
            "name two namespaces",
        ),
        (&["timeline", "-l", "a in b"], "as in kubectl"),
        (
            &["calls", "--field-selector", "spec.x=y"],
            "pods can be chosen by",
        ),
        (&["export", "-o", "text", "--node", ""], "--node is empty"),
    ] {
        let mut all = args.to_vec();
        all.extend(["-s", FILE]);
        let (code, out, err) = run(&all);
        assert_eq!(code, Some(2), "{all:?}: {out} {err}");
        assert!(err.contains(said), "{all:?}: {err}");
    }
}

#[test]
fn a_pod_outside_of_the_scope_is_said_to_be_there() {
    let (code, _, err) = run(&["why", "image-missing", "-n", "s03", "-s", FILE, "--at", AT]);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("there is s02/image-missing"), "{err}");
}

fn selection(namespace: &str, labels: &str) -> Arc<Selection> {
    Arc::new(
        Selection::new(&Scope {
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            labels: labels.to_owned(),
            ..Scope::default()
        })
        .unwrap(),
    )
}

fn timelines(world: &World) -> String {
    let mut out = Vec::new();
    kflow_export::timeline::rows(&mut out, world.pods(), kflow_export::rows::Rows::Json).unwrap();
    String::from_utf8(out).unwrap()
}

/// A recording of a scope says the same of its pods as a recording of everything does.
#[test]
fn what_is_recorded_of_a_scope_tells_the_same_of_its_pods() {
    for (file, namespace, labels) in [
        (FILE, "s02", ""),
        (LABELLED, "s36", ""),
        (LABELLED, "", "app=healthy"),
    ] {
        let whole = session(file);
        let end = whole.range().unwrap().1;
        let of = selection(namespace, labels);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scope.kflow");
        let options = kflow_engine::record::Options {
            path: path.clone(),
            max_size: None,
            pod: None,
            node: kflow_model::Text::default(),
        };
        let recorder = kflow_engine::record::Recorder::start(options, Arc::clone(&of)).unwrap();
        let all: Vec<Evidence> = whole.observations.clone();
        recorder.take_history(all.into_iter().collect());
        let state = recorder.stop();
        let (left_out, _) = state.only.unwrap();
        assert!(left_out > 100, "{state:?}");
        let part = session::load(&path).unwrap();
        for o in &part.observations {
            if let (Body::Pod(p), false) = (&o.body, namespace.is_empty()) {
                assert_eq!(p.namespace, namespace);
            }
        }
        let (a, b) = (
            timelines(&world_at(&whole, end, Arc::clone(&of))),
            timelines(&world_at(&part, end, Arc::clone(&of))),
        );
        assert!(a.len() > 1000, "{a}");
        assert!(a == b, "{namespace} {labels}");
    }
}

/// A world with a selection: at each moment its state is that of the unselected world, without the other pods.
#[test]
fn a_selection_leaves_out_and_changes_nothing() {
    let whole = session(LABELLED);
    let (begin, end) = whole.range().unwrap();
    let of = selection("", "!app");
    let (mut all, mut some) = (Pipeline::new(), Pipeline::selecting(Arc::clone(&of)));
    let mut at = 0;
    let mut seen = 0;
    for step in 1..=20 {
        let now = Nanos(begin.0 + (end.0 - begin.0) * step / 20);
        let upto = whole.arrived_by(now);
        for o in whole.observations.iter().take(upto).skip(at) {
            all.observe(Arc::clone(o));
            some.observe(Arc::clone(o));
        }
        at = upto;
        let wanted: Vec<_> = all
            .refresh()
            .pods()
            .iter()
            .filter(|p| of.admits(p))
            .collect();
        let got = some.refresh().pods();
        assert_eq!(
            wanted.iter().map(|p| p.key()).collect::<Vec<_>>(),
            got.iter().map(|p| p.key()).collect::<Vec<_>>()
        );
        seen += got.len();
    }
    assert!(seen > 20, "{seen}");
}
