//! A command names a pod but not its node: kflow finds the node's agent through the apiserver, and answers as it does
//! with `--node`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use kflow_model::audit::{AuditRecord, AuditStage};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, ObjectRef, Observation, Pairs, Source, Stamp, Text, clock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::rig::{Played, Shape, name};
use crate::agent::block_on;
use crate::program::{Said, command, run};
use crate::proxy::rig::PATIENCE;

/// A pod of the recording that the second node plays: its image is being pulled.
const POD: &str = "s24a/slow";

async fn three(ahead: i64) -> std::sync::Arc<Played> {
    Played::of(Shape {
        nodes: 3,
        agents: 2,
        ahead: [(1, ahead)].into(),
        ..Shape::default()
    })
    .await
}

fn json(said: &Said) -> Vec<Value> {
    serde_json::from_str(&said.out).unwrap_or_else(|e| panic!("{e}: {} {}", said.out, said.err))
}

/// The stages and steps with their starts, ns.
fn spans(timelines: &[Value]) -> Vec<(String, i64)> {
    let spans = timelines[0]["spans"].as_array().unwrap().iter();
    let of = spans.map(|s| {
        (
            s["step"].as_str().unwrap().to_owned(),
            s["start_ns"].as_i64().unwrap(),
        )
    });
    of.collect()
}

#[test]
fn a_pod_has_what_its_node_would_show_of_it() {
    block_on(async {
        let played = three(0).await;
        let heard = "what the agents of simulated-1 saw is in what is shown";
        let of_node = ["--node", &name(1)];
        for args in [
            &["timeline", POD, "-o", "json"][..],
            &["calls", "--pod", POD, "-o", "json"],
            &["export", POD, "-o", "json"],
            &["flow", POD, "-o", "json"],
        ] {
            let alone = played.kflow(args).await;
            assert!(alone.err.contains(heard), "{args:?} {}", alone.err);
            // A command that follows an agent needs a little longer to receive the whole ring.
            let for_a_while = ["--for", "5s"];
            let named = played.kflow(&[args, &of_node, &for_a_while].concat()).await;
            let (one, other) = (json(&alone), json(&named));
            assert_eq!(alone.code, named.code, "{args:?} {}", alone.err);
            match args[0] {
                "timeline" => {
                    // A command that follows receives the ring later, in one go: another line of the same moment may
                    // begin a step.
                    let (one, other) = (spans(&one), spans(&other));
                    assert_eq!(one.len(), other.len());
                    for ((step, at), (same, then)) in one.iter().zip(&other) {
                        assert!(
                            step == same && (at - then).abs() < SECOND / 100,
                            "{one:?} {other:?}"
                        );
                    }
                    assert!(one.iter().any(|(step, _)| step == "PullImage"));
                }
                "calls" => {
                    let methods = |all: &[Value]| -> Vec<(Value, Value)> {
                        let of = |c: &Value| (c["method"].clone(), c["start_ns"].clone());
                        all.iter().map(of).collect()
                    };
                    assert_eq!(methods(&one), methods(&other), "{args:?}");
                    assert!(!one.is_empty());
                }
                _ => assert_eq!(one.len(), other.len(), "{args:?}"),
            }
            let without = played.kflow(&[args, &["--no-agent"]].concat()).await;
            assert!(!without.err.contains("agent"), "{args:?} {}", without.err);
            assert!(!without.out.contains("PullImage") || args[0] == "flow");
        }
    });
}

#[test]
fn requests_about_a_pod_come_from_the_agent_of_its_node() {
    block_on(async {
        let played = three(0).await;
        let pod = json(&played.kflow(&["timeline", POD, "-o", "json"]).await);
        let uid = pod[0]["uid"].as_str().unwrap().to_owned();
        let at = Nanos(pod[0]["created_ns"].as_i64().unwrap());
        let record = AuditRecord {
            audit_id: "5ec0de00-0000-4000-8000-000000000001".into(),
            stage: AuditStage::ResponseComplete,
            verb: "create".into(),
            resource: "pods".into(),
            object: ObjectRef {
                kind: "Pod".into(),
                namespace: "s24a".into(),
                name: "slow".into(),
                uid: uid.as_str().into(),
            },
            user: "somebody".into(),
            agent: Text::default(),
            received: at,
            code: 201,
            message: Text::default(),
            query: Text::default(),
            annotations: Pairs::default(),
            facts: Pairs::default(),
        };
        let seen = Observation {
            stamp: Stamp::new(at.plus(SECOND / 100), 1000, clock::now()),
            source: Source::Audit,
            body: Body::Audit(Box::new(record)),
        };
        played.with_agent(1, |a| a.see(vec![seen])).unwrap();
        let said = played
            .kflow(&["requests", "--pod", POD, "-o", "json"])
            .await;
        let all = json(&said);
        assert_eq!((said.code, all.len()), (Some(0), 1), "{}", said.err);
        assert_eq!(all[0]["verb"], "create");
        let alone = played
            .kflow(&["requests", "--pod", POD, "--no-agent"])
            .await;
        assert_eq!(alone.code, Some(2), "{}{}", alone.out, alone.err);
    });
}

#[test]
fn of_pods_on_several_nodes_and_of_whom_nothing_is_heard_a_line_tells() {
    block_on(async {
        let played = three(0).await;
        let all = played.kflow(&["timeline", "-A", "-o", "name"]).await;
        let line = "these pods are on 3 nodes, and are shown by the API alone: name one of them, or a node with --node";
        assert!(all.err.contains(line), "{}", all.err);
        // First a node without an agent, then one whose agent is dead.
        let of_none = json(&played.kflow(&["timeline", "-A", "-o", "json"]).await);
        let there = of_none.iter().find(|p| p["node"] == name(2)).unwrap();
        let key = format!(
            "{}/{}",
            there["namespace"].as_str().unwrap(),
            there["name"].as_str().unwrap()
        );
        let none = played.kflow(&["timeline", &key]).await;
        let line = "pods of simulated-2 are shown by the API alone: no agent of kflow is there (namespace kflow)";
        assert!(
            none.err.contains(line) && none.code == Some(0),
            "{}",
            none.err
        );
        played.kill(1);
        let dead = played.kflow(&["timeline", POD]).await;
        let line = "pods of simulated-1 are shown by the API alone: the agent there did not answer";
        assert!(
            dead.err.contains(line) && dead.code == Some(0),
            "{}",
            dead.err
        );
        assert!(dead.out.contains("slow"), "{}", dead.out);
        let calls = played.kflow(&["calls", "--pod", POD]).await;
        assert_eq!(calls.code, Some(2), "{}", calls.err);
    });
}

#[test]
fn a_clock_that_is_off_moves_the_pod_and_is_told() {
    block_on(async {
        let first = |all: &[Value]| spans(all).into_iter().map(|(_, at)| at).min().unwrap();
        let args = ["timeline", POD, "-o", "json"];
        let (right, off) = (three(0).await, three(90 * SECOND).await);
        let (right, said) = (right.kflow(&args).await, off.kflow(&args).await);
        let told = "of which some are off: simulated-1 (1m30s ahead of this machine's)";
        assert!(said.err.contains(told), "{}", said.err);
        let moved = first(&json(&said)) - first(&json(&right));
        // The API's times are whole seconds.
        assert!((moved - 90 * SECOND).abs() < 3 * SECOND, "{moved}");
    });
}

#[test]
fn a_pod_that_is_watched_is_followed_on_its_node() {
    block_on(async {
        let played = three(0).await;
        let (verdict, said, code) =
            until_said(&played, &["why", POD, "--watch"], "PullImage").await;
        assert_eq!(verdict["in_flight"]["method"], "PullImage", "{verdict}");
        assert!(said.contains("simulated-1 is followed"), "{said}");
        assert_eq!(code, Some(1), "{said}");
        let args = ["calls", "--pod", POD, "--follow"];
        let (call, said, code) = until_said(&played, &args, "RunPodSandbox").await;
        assert_eq!(call["method"], "RunPodSandbox", "{call}");
        assert_eq!(code, Some(0), "{said}");
    });
}

/// Runs a command that does not end by itself, and interrupts it after the first row that has this word; returns that
/// row, the text on standard error, and the exit code.
async fn until_said(played: &Played, args: &[&str], word: &str) -> (Value, String, Option<i32>) {
    let mut command = played.command(&[args, &["-o", "jsonl"]].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let out = BufReader::new(child.stdout.take().unwrap());
    let wanted = format!("\"{word}\"");
    let row = tokio::task::spawn_blocking(move || {
        let mut lines = out.lines().map_while(Result::ok);
        let found = lines.find(|l| l.contains(&wanted));
        kill_process(pid, Signal::INT).unwrap();
        // Reads on, so that a full pipe does not keep the command from ending.
        lines.for_each(drop);
        found
    });
    let row = tokio::time::timeout(PATIENCE, row).await;
    kill_process(pid, Signal::INT).ok();
    let said = tokio::task::spawn_blocking(move || child.wait_with_output());
    let said = said.await.unwrap().unwrap();
    let err = String::from_utf8_lossy(&said.stderr).into_owned();
    let row = row.expect(&err).unwrap().expect(&err);
    (serde_json::from_str(&row).unwrap(), err, said.status.code())
}

#[test]
fn since_when_is_meant_by_this_machines_clock_whatever_the_nodes_says() {
    const HOUR: i64 = 3_600_000_000_000;
    block_on(async {
        for ahead in [0, HOUR, -HOUR] {
            let played = Played::of(Shape {
                nodes: 1,
                agents: 1,
                ahead: BTreeMap::from([(0, ahead)]),
                ..Shape::default()
            })
            .await;
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("past.kflow");
            let node = name(0);
            let args = [
                "record", "--node", &node, "--since", "-10m", "--for", "3s", "-O",
            ];
            let args = [&args[..], &[file.to_str().unwrap()]].concat();
            let said = played.kflow(&args).await;
            let asked = played.with_agent(0, super::rig::Served::asked).unwrap();
            let meant = clock::now().plus(ahead - HOUR / 6);
            let off = |at: &Nanos| meant.since(*at).abs();
            // The command runs for a while between the moment that it meant and this one.
            assert!(
                !asked.is_empty() && asked.iter().all(|at| off(at) < HOUR / 60),
                "{ahead} {asked:?} {meant:?} {}",
                said.err
            );
        }
    });
}

/// What the agent keeps of the past is the recording that it plays.
#[test]
fn a_moment_in_the_past_is_asked_of_the_agent_that_kept_it() {
    block_on(async {
        let played = three(0).await;
        let file = crate::fixture("sessions/S6-slowpull.kflow.zst");
        let session = kflow_model::session::load(&file).unwrap();
        let (begin, end) = session.range().unwrap();
        let at = |percent: i64| begin.plus(end.since(begin) / 100 * percent).to_rfc3339();
        let file = file.to_str().unwrap();
        let of = |said: &Said| -> Vec<(Value, Value, Value)> {
            let all = json(said);
            let of = |v: &Value| {
                let call = v["in_flight"]["method"].clone();
                (v["cause"].clone(), v["since_ns"].clone(), call)
            };
            all.iter().map(of).collect()
        };
        for percent in [15, 25] {
            let at = at(percent);
            let args = ["why", POD, "--at", &at, "-o", "json"];
            let said = played.kflow(&args).await;
            let recorded = run(command().args(args).args(["-s", file]));
            assert_eq!(said.code, recorded.code, "{} {}", said.err, recorded.err);
            assert_eq!(of(&said), of(&recorded), "{}", said.err);
            let heard = "what the agents of simulated-1 saw is in what is shown";
            assert!(said.err.contains(heard), "{}", said.err);
        }
        let at = at(25);
        let timeline = played
            .kflow(&["timeline", POD, "--at", &at, "-o", "json"])
            .await;
        let timeline = spans(&json(&timeline));
        assert!(timeline.iter().any(|(step, _)| step == "PullImage"));
        // Errors: pods on several nodes, a pod on none, a time before all that was kept.
        for (args, want) in [
            (
                &["why", "-A", "--at", &at][..],
                "these pods are on 3: name one",
            ),
            (
                &["why", "ns-9/no", "--at", &at],
                "no pod that is asked about is on one now",
            ),
            (
                &[
                    "why",
                    "--node",
                    "simulated-1",
                    "--at",
                    "2026-01-01T00:00:00Z",
                ],
                "before",
            ),
            (
                &["why", "--node", "simulated-2", "--at", &at],
                "needs what the agent of the node kept",
            ),
        ] {
            let said = played.kflow(args).await;
            assert_eq!(said.code, Some(2), "{args:?} {}", said.err);
            assert!(said.err.contains(want), "{args:?} {}", said.err);
        }
    });
}
