//! `kflow why` for a cluster: verdicts include what the agents saw, and nodes that were not heard are named.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kflow_core::correlate::World;
use kflow_engine::ask::{ApiTold, Heard, Patience, Question, TOGETHER, Unheard, ask};
use kflow_engine::live::Config;
use kflow_model::{Scope, Text};
use serde_json::Value;

use super::rig::{Played, Shape, name};
use crate::agent::block_on;
use crate::program::Said;

async fn why(played: &Arc<Played>, args: &[&str]) -> Said {
    played.kflow(&[&["why"], args].concat()).await
}

/// The number of calls that each node's agent told, or why nothing was heard.
pub(super) async fn asked(
    played: &Played,
    nodes: &[Text],
    here: Option<&Path>,
    patience: Patience,
) -> Vec<(Text, Result<usize, Unheard>)> {
    heard(played, nodes, here, patience).await.nodes
}

/// The same, with the notes that came with the answers.
pub(super) async fn heard(
    played: &Played,
    nodes: &[Text],
    here: Option<&Path>,
    patience: Patience,
) -> Heard<usize> {
    let config = Config {
        scope: Some(Scope::default()),
        kubeconfig: Some(played.kubeconfig()),
        ..Config::nothing()
    };
    let (nodes, here) = (nodes.to_vec(), here.map(Path::to_owned));
    let ask = move || {
        let api = ApiTold::of(&World::new(), &[], &nodes);
        let question = Question {
            config: &config,
            namespace: "kflow",
            here: here.as_deref(),
            patience,
            nodes: &nodes,
            past: None,
        };
        ask(question, api, |_, told| told.world().calls().len())
    };
    let answers = tokio::task::spawn_blocking(ask).await;
    answers.unwrap().unwrap()
}

/// Cause and call in flight of each pod, owner or node, by its name.
fn told(said: &Said) -> BTreeMap<String, (String, String)> {
    let all: Vec<Value> = serde_json::from_str(&said.out).expect(&said.err);
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let of = |v: &Value| {
        let who = [&v["namespace"], &v["pod"], &v["owner"]].map(text);
        let call = text(&v["in_flight"]["method"]);
        (who.join("/"), (text(&v["cause"]), call))
    };
    all.iter().map(of).collect()
}

#[test]
fn verdicts_of_a_cluster_know_of_calls_where_agents_are() {
    block_on(async {
        let played = Played::of(Shape {
            nodes: 6,
            agents: 3,
            sick: true,
            ..Shape::default()
        })
        .await;
        let json = ["-A", "-o", "json"];
        let all = why(&played, &json).await;
        assert_eq!(all.code, Some(1), "{}", all.err);
        assert_eq!(played.forwards.load(Ordering::Relaxed), 3);
        let heard =
            "what the agents of simulated-0, simulated-1, simulated-2 saw is in the verdicts";
        let alone = "pods of simulated-3, simulated-4, simulated-5 are judged by the API alone: no agent of kflow is there (namespace kflow)";
        assert!(
            all.err.contains(heard) && all.err.contains(alone),
            "{}",
            all.err
        );
        let verdicts = told(&all);
        assert_eq!(
            verdicts["s24a/slow/"],
            ("KF609".to_owned(), "PullImage".to_owned())
        );
        // The verdicts are those that `--node` gives for each node with an agent, which runs a world
        // for that node alone.
        for node in 0..3 {
            let node = name(node);
            let one = why(&played, &["--node", &node, "-o", "json"]).await;
            for (who, verdict) in told(&one) {
                assert_eq!(verdicts.get(&who), Some(&verdict), "{node} {who}");
            }
        }
        let alone = why(&played, &["-A", "-o", "json", "--no-agent"]).await;
        assert!(!alone.err.contains("agent"), "{}", alone.err);
        let without = told(&alone);
        assert!(
            without.values().all(|(_, call)| call.is_empty()),
            "{without:?}"
        );
        // For one pod or one namespace, only the agents of the nodes concerned are asked.
        let before = played.forwards.load(Ordering::Relaxed);
        for args in [&["s24a/slow"][..], &["-n", "s24a"]] {
            let one = why(&played, args).await;
            assert!(
                one.out.contains("PullImage"),
                "{args:?} {}{}",
                one.out,
                one.err
            );
            assert!(
                one.err.contains("agents of simulated-1 saw"),
                "{args:?} {}",
                one.err
            );
        }
        assert_eq!(played.forwards.load(Ordering::Relaxed), before + 2);
        for form in ["text", "jsonl", "yaml", "csv", "markdown", "name"] {
            let one = why(&played, &["-A", "-o", form]).await;
            assert!(
                one.out.contains("slow") && one.err.contains(heard),
                "{form} {}",
                one.err
            );
            let names_calls = one.out.contains("PullImage");
            assert!(names_calls || form == "name", "{form} {}", one.out);
        }
    });
}

#[test]
fn of_whom_nothing_is_heard_is_told_and_judged_by_the_api() {
    block_on(async {
        let played = Played::of(Shape {
            nodes: 3,
            agents: 3,
            ..Shape::default()
        })
        .await;
        played.kill(1);
        let half = why(&played, &["-A", "-o", "json"]).await;
        let dead =
            "pods of simulated-1 are judged by the API alone: the agent there did not answer";
        assert!(half.err.contains(dead), "{}", half.err);
        assert!(
            half.err.contains("agents of simulated-0, simulated-2 saw"),
            "{}",
            half.err
        );
        assert_eq!(half.code, Some(1));
        *played.other_version.lock().unwrap() = Some("0.0.9".to_owned());
        let before = played.forwards.load(Ordering::Relaxed);
        let other = why(&played, &["-A", "-o", "json"]).await;
        let version = "pods of simulated-0, simulated-1, simulated-2 are judged by the API alone: the agent there is kflow 0.0.9, and this is kflow";
        assert!(other.err.contains(version), "{}", other.err);
        assert_eq!(played.forwards.load(Ordering::Relaxed), before);
        let alone = why(&played, &["-A", "-o", "json", "--no-agent"]).await;
        assert_eq!(told(&other), told(&alone));
    });
}

/// As many agents as are asked at a time never answer: the others are asked when these have had their time.
#[test]
fn an_agent_that_never_answers_costs_the_others_nothing_but_its_turn() {
    const NODES: usize = TOGETHER + 8;
    let mute: BTreeSet<usize> = (0..TOGETHER).collect();
    let patience = Patience {
        answer: Duration::from_secs(4),
        turns: Duration::from_secs(30),
    };
    block_on(async {
        let shape = |mute| Shape {
            nodes: NODES,
            agents: NODES,
            mute,
            ..Shape::default()
        };
        let played = Played::of(shape(mute.clone())).await;
        let nodes: Vec<Text> = (0..NODES).map(|n| name(n).into()).collect();
        for (n, (node, answer)) in asked(&played, &nodes, None, patience)
            .await
            .into_iter()
            .enumerate()
        {
            assert_eq!(node, name(n));
            match answer {
                Ok(calls) => assert!(calls > 0 && !mute.contains(&n), "{node}"),
                Err(why) => assert!(
                    mute.contains(&n) && why == Unheard::Late(patience.answer),
                    "{node} {why}"
                ),
            }
        }
        // When the time for all turns is over, the rest is not asked.
        let short = Patience {
            answer: Duration::from_secs(2),
            turns: Duration::from_secs(1),
        };
        let late = asked(&played, &nodes, None, short).await;
        let answers = late.into_iter().map(|(_, a)| a.err());
        let told: Vec<bool> = answers
            .map(|a| a == Some(Unheard::NoTurn(short.turns)))
            .collect();
        assert_eq!(told.iter().position(|t| *t), Some(TOGETHER), "{told:?}");
        assert!(told[TOGETHER..].iter().all(|t| *t));
    });
}

#[test]
fn an_agent_on_this_machine_that_is_no_pod_is_asked_for_its_own_node() {
    block_on(async {
        let played = Played::start(4, 1).await;
        let nodes: Vec<Text> = (0..4).map(|n| name(n).into()).collect();
        let here = played.by_hand(2);
        let here = Some(here.socket.as_path());
        let answers = asked(&played, &nodes, here, Patience::default()).await;
        let calls = answers.into_iter().map(|(_, calls)| calls);
        let calls: Vec<_> = calls.collect();
        assert!(calls[0].as_ref().is_ok_and(|n| *n > 1), "{calls:?}");
        let none = || Err(Unheard::None);
        assert_eq!(calls[1..], [none(), Ok(1), none()]);
        // The agent in a pod goes before one on this machine; a socket that nobody serves counts as no agent.
        let (socket, nobody) = (here, played.by_hand(0).socket.clone());
        for (here, only) in [(Some(nobody.as_path()), 0), (socket, 2)] {
            let of = &nodes[only..=only];
            let told = asked(&played, of, here, Patience::default()).await;
            assert_eq!(told.len(), 1);
            assert!(told[0].1.as_ref().is_ok_and(|n| (*n > 1) == (only == 0)));
        }
    });
}

#[test]
fn a_clock_that_is_ahead_changes_no_verdict_and_is_told() {
    const HOUR: i64 = 3_600_000_000_000;
    block_on(async {
        let since = async |ahead: BTreeMap<usize, i64>| {
            let played = Played::of(Shape {
                nodes: 4,
                agents: 4,
                sick: true,
                ahead,
                ..Shape::default()
            })
            .await;
            let said = why(&played, &["-A", "-o", "json"]).await;
            let all: Vec<Value> = serde_json::from_str(&said.out).expect(&said.err);
            let invented = all.iter().find(|v| v["pod"] == "invented-0");
            let invented = invented.unwrap_or_else(|| panic!("{} {all:#?}", said.err));
            assert_eq!(
                invented["in_flight"]["method"], "RunPodSandbox",
                "{invented}"
            );
            (
                invented["since_ns"].as_i64().unwrap(),
                told(&said),
                said.err,
            )
        };
        let (right, verdicts, err) = since(BTreeMap::new()).await;
        assert!(!err.contains("clocks"), "{err}");
        let (ahead, same, err) = since(BTreeMap::from([(3, HOUR)])).await;
        assert_eq!(same, verdicts);
        // The two clusters ran one after the other.
        assert!((0..HOUR / 10).contains(&(ahead - right)), "{ahead} {right}");
        assert!(
            err.contains("clocks of its nodes, of which some are off: simulated-3 (1h00m ahead of this machine's)"),
            "{err}"
        );
    });
}
