//! `kflow why --watch` of pods on several nodes: the agent of each is listened to, and what becomes of them is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use kflow_engine::cluster::BESIDE;
use kflow_model::clock;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::rig::{Played, Shape, ended_call, name};
use crate::agent::block_on;
use crate::proxy::rig::PATIENCE;

/// The program while it watches.
struct Watching {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn gather(mut from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let all = Arc::new(Mutex::new(String::new()));
    let its = Arc::clone(&all);
    std::thread::spawn(move || {
        let mut some = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut some) {
            let text = String::from_utf8_lossy(&some[..n]).into_owned();
            its.lock().unwrap().push_str(&text);
        }
    });
    all
}

impl Watching {
    fn start(played: &Played, args: &[&str]) -> Self {
        let mut command = played.command(&[&["why", "--watch", "-o", "json"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = gather(child.stdout.take().unwrap());
        let err = gather(child.stderr.take().unwrap());
        Self { child, out, err }
    }
    fn said(&self) -> String {
        self.err.lock().unwrap().clone()
    }
    /// Waits for a line on standard error.
    async fn tells(&self, what: &str) {
        let begun = clock::monotonic();
        while !self.said().contains(what) {
            assert!(begun.elapsed() < PATIENCE / 2, "{what}: {}", self.said());
            tokio::task::yield_now().await;
        }
    }
    /// Waits until it says of the agents of these nodes that they are heard.
    async fn hears(&self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes.into_iter().map(name) {
            let begun = clock::monotonic();
            let heard = |l: &str| l.ends_with("saw is in the verdicts") && l.contains(&node);
            while !self.said().lines().any(heard) {
                assert!(begun.elapsed() < PATIENCE / 2, "{node}: {}", self.said());
                tokio::task::yield_now().await;
            }
        }
    }
    /// The newest answer, whole.
    fn newest(&self) -> Vec<Value> {
        let out = self.out.lock().unwrap();
        let all = serde_json::Deserializer::from_str(&out).into_iter::<Vec<Value>>();
        all.map_while(Result::ok).last().unwrap_or_default()
    }
    /// Waits for an answer.
    async fn answers(&self, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let begun = clock::monotonic();
        loop {
            let newest = self.newest();
            if wanted(&newest) {
                return newest;
            }
            assert!(
                begun.elapsed() < PATIENCE / 2,
                "{what}: {} {newest:#?}",
                self.said()
            );
            tokio::task::yield_now().await;
        }
    }
    /// Interrupts it; its status.
    async fn ends(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let ended = tokio::task::spawn_blocking(move || self.child.wait().unwrap().code());
        tokio::time::timeout(PATIENCE, ended)
            .await
            .unwrap()
            .unwrap()
    }
}

fn method(v: &Value) -> &str {
    v["in_flight"]["method"].as_str().unwrap_or_default()
}

/// Who, cause and call in flight of each pod: a node of which nothing but what is old is known has just been heard for who follows it.
fn told(all: &[Value]) -> BTreeSet<(String, String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let of = |v: &Value| {
        let who = [&v["namespace"], &v["pod"]].map(text);
        (who.join("/"), text(&v["cause"]), method(v).to_owned())
    };
    all.iter().filter(|v| v["pod"] != "").map(of).collect()
}

fn invented(all: &[Value]) -> Option<&Value> {
    all.iter()
        .find(|v| v["pod"] == "invented-0" && v["namespace"] == "ns-3")
}

fn sick(nodes: usize, agents: usize, ahead: &[(usize, i64)]) -> Shape {
    Shape {
        nodes,
        agents,
        sick: true,
        ahead: ahead.iter().copied().collect::<BTreeMap<_, _>>(),
        ..Shape::default()
    }
}

#[test]
fn verdicts_that_are_watched_know_of_the_calls_of_all_nodes() {
    block_on(async {
        let played = Played::of(sick(6, 4, &[])).await;
        let once = played.kflow(&["why", "-A", "-o", "json"]).await;
        let once: Vec<Value> = serde_json::from_str(&once.out).expect(&once.err);
        let once = told(&once);
        let watching = Watching::start(&played, &["-A"]);
        watching.answers("the same", |all| told(all) == once).await;
        watching.hears(0..4).await;
        watching
            .tells("pods of simulated-4, simulated-5 are judged by the API alone: no agent that is ready (namespace kflow)")
            .await;
        assert_eq!(watching.ends().await, Some(1));
    });
}

#[test]
fn an_agent_that_dies_and_a_node_that_goes_are_told_and_the_watch_goes_on() {
    block_on(async {
        let played = Played::of(sick(4, 4, &[])).await;
        let watching = Watching::start(&played, &["-A"]);
        watching.hears(0..4).await;
        let waits = |all: &[Value]| invented(all).is_some_and(|v| method(v) == "RunPodSandbox");
        watching.answers("a call", waits).await;
        played.kill(1);
        watching
            .tells("the agent of simulated-1 is not heard any more, and what it saw stands as it was: ")
            .await;
        played.revive(1);
        watching
            .tells("the agent of simulated-1 is heard again, after ")
            .await;
        played.delete(2);
        watching
            .tells("the agent of simulated-2 is not heard any more")
            .await;
        // What another one sees then is told.
        let ends = |a: &super::rig::Served| a.see(vec![ended_call()]);
        played.with_agent(3, ends).unwrap();
        let ended = |all: &[Value]| invented(all).is_some_and(|v| method(v).is_empty());
        watching.answers("its end", ended).await;
        assert_eq!(watching.ends().await, Some(1));
    });
}

#[test]
fn a_clock_that_is_ahead_changes_no_verdict_that_is_watched() {
    const HOUR: i64 = 3_600_000_000_000;
    block_on(async {
        let since = async |ahead: &[(usize, i64)]| {
            let played = Played::of(sick(4, 4, ahead)).await;
            let watching = Watching::start(&played, &["-A"]);
            watching.hears(0..4).await;
            let all = watching
                .answers("all", |all| {
                    told(all).len() >= 21 && invented(all).is_some()
                })
                .await;
            if !ahead.is_empty() {
                watching
                    .tells("simulated-3 (1h00m ahead of this machine's)")
                    .await;
            }
            let since = invented(&all).unwrap()["since_ns"].as_i64().unwrap();
            (since, told(&all), watching.said())
        };
        let (right, verdicts, right_said) = since(&[]).await;
        let (ahead, same, _) = since(&[(3, HOUR)]).await;
        assert_eq!(same, verdicts);
        assert!((0..HOUR / 10).contains(&(ahead - right)), "{ahead} {right}");
        assert!(!right_said.contains("clocks"), "{right_said}");
    });
}

#[test]
fn so_many_agents_are_listened_to_and_no_more() {
    block_on(async {
        let played = Played::of(sick(BESIDE + 2, BESIDE + 2, &[])).await;
        let watching = Watching::start(&played, &["-A"]);
        let line = format!(
            "are judged by the API alone: agents of {BESIDE} nodes are listened to at a time"
        );
        watching.tells(&line).await;
        let begun = clock::monotonic();
        while played.forwards.load(Ordering::Relaxed) < BESIDE {
            assert!(begun.elapsed() < PATIENCE / 2, "{}", watching.said());
            tokio::task::yield_now().await;
        }
        assert_eq!(played.forwards.load(Ordering::Relaxed), BESIDE);
        assert_eq!(watching.ends().await, Some(1));
    });
}
