//! `kflow why --watch` and `calls --follow` for pods on several nodes: kflow follows the agent of each, and reports
//! agents that go away and come back.

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

/// The program while it runs and its output is collected.
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
        Self::of(played, &[&["why", "--watch", "-o", "json"], args].concat())
    }
    fn of(played: &Played, args: &[&str]) -> Self {
        let mut command = played.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = gather(child.stdout.take().unwrap());
        let err = gather(child.stderr.take().unwrap());
        Self { child, out, err }
    }
    fn said(&self) -> String {
        self.err.lock().unwrap().clone()
    }
    /// Waits for a text on standard error.
    async fn tells(&self, what: &str) {
        let begun = clock::monotonic();
        while !self.said().contains(what) {
            assert!(begun.elapsed() < PATIENCE / 2, "{what}: {}", self.said());
            tokio::task::yield_now().await;
        }
    }
    /// Waits until standard error says of each of these nodes that its agent is heard.
    async fn hears(&self, nodes: impl IntoIterator<Item = usize>) {
        for node in nodes.into_iter().map(name) {
            let begun = clock::monotonic();
            let ends = ["saw is in the verdicts", "saw is in what is shown"];
            let heard = |l: &str| ends.iter().any(|e| l.ends_with(e)) && l.contains(&node);
            while !self.said().lines().any(heard) {
                assert!(begun.elapsed() < PATIENCE / 2, "{node}: {}", self.said());
                tokio::task::yield_now().await;
            }
        }
    }
    /// The complete answers so far, oldest first.
    fn all(&self) -> Vec<Vec<Value>> {
        let out = self.out.lock().unwrap();
        let all = serde_json::Deserializer::from_str(&out).into_iter::<Vec<Value>>();
        all.map_while(Result::ok).collect()
    }
    fn newest(&self) -> Vec<Value> {
        self.all().pop().unwrap_or_default()
    }
    /// The rows so far, of `-o jsonl`.
    fn rows(&self) -> Vec<Value> {
        let out = self.out.lock().unwrap();
        let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let rows = whole.lines().map(|l| serde_json::from_str(l).expect(l));
        rows.collect()
    }
    /// Waits until so many calls of a method have been printed, by node.
    async fn calls(&self, method: &str, wanted: &BTreeMap<String, usize>) {
        let begun = clock::monotonic();
        loop {
            let rows = self.rows();
            let mut got = BTreeMap::new();
            for row in rows.iter().filter(|r| r["method"] == method) {
                let node = row["node"].as_str().unwrap().to_owned();
                *got.entry(node).or_insert(0) += 1;
            }
            if got == *wanted {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE / 2,
                "{got:?} {wanted:?} {}",
                self.said()
            );
            tokio::task::yield_now().await;
        }
    }
    /// Waits until the newest answer is as wanted, and returns it.
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
    /// Interrupts the program, and returns its exit code.
    async fn ends(self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.ended().await
    }
    /// Waits for the end of the program, and returns its exit code.
    async fn ended(mut self) -> Option<i32> {
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

/// Name, cause and call in flight of each pod. Verdicts on nodes are left out: a node that looks silent to a single
/// question was just heard when its agent is followed.
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
fn a_watch_ends_when_its_time_is_over() {
    block_on(async {
        let played = Played::of(sick(1, 0, &[])).await;
        let watching = Watching::start(&played, &["-A", "--no-agent", "--for", "2s"]);
        assert_eq!(watching.ended().await, Some(1));
    });
}

#[test]
fn of_a_deployment_that_is_watched_the_agents_of_its_pods_are_listened_to() {
    block_on(async {
        let played = Played::of(Shape {
            spread: 3,
            ..sick(5, 5, &[])
        })
        .await;
        let deployment = ["deploy/burst", "-n", "s19"];
        let once = [&["why"], &deployment[..], &["-o", "json"]].concat();
        let once = played.kflow(&once).await;
        let once: Vec<Value> = serde_json::from_str(&once.out).expect(&once.err);
        let once = told(&once);
        assert!(once.iter().any(|(_, _, call)| !call.is_empty()), "{once:?}");
        let before = played.forwards.load(Ordering::Relaxed);
        let watching = Watching::start(&played, &deployment);
        watching.answers("the same", |all| told(all) == once).await;
        watching.hears(0..3).await;
        played.kill(1);
        watching
            .tells("the agent of simulated-1 is not heard any more")
            .await;
        // Agents of other nodes, which have no pods of the Deployment, are not connected to.
        let said = watching.said();
        assert!(
            !["simulated-3", "simulated-4"]
                .iter()
                .any(|n| said.contains(n)),
            "{said}"
        );
        for n in 3..5 {
            assert_eq!(
                played.with_agent(n, |a| a.serving.service.subscribers()),
                Some(0)
            );
        }
        assert!(played.forwards.load(Ordering::Relaxed) >= before + 3);
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
        // What another agent sees after that is still shown.
        let ends = |a: &super::rig::Served| a.see(vec![ended_call()]);
        played.with_agent(3, ends).unwrap();
        let ended = |all: &[Value]| invented(all).is_some_and(|v| method(v).is_empty());
        watching.answers("its end", ended).await;
        assert_eq!(watching.ends().await, Some(1));
    });
}

#[test]
fn what_an_agent_saw_of_one_node_stands_after_it_has_died() {
    block_on(async {
        let played = Played::of(sick(4, 4, &[])).await;
        let watching = Watching::start(&played, &["ns-3/invented-0"]);
        let waits = |all: &[Value]| invented(all).is_some_and(|v| method(v) == "RunPodSandbox");
        watching.answers("a call", waits).await;
        let before = watching.all().len();
        played.kill(3);
        watching
            .tells("the agent of simulated-3 is not heard any more, and what it saw stands as it was: ")
            .await;
        played.revive(3);
        watching
            .tells("the agent of simulated-3 is heard again, after ")
            .await;
        let since = watching.all().split_off(before);
        assert!(since.iter().all(|all| waits(all)), "{since:#?}");
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

/// The identity of a call: node, start (ns), HTTP/2 stream and method.
fn id(v: &Value) -> (String, i64, u64, String) {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let start = v["start_ns"].as_i64().unwrap();
    (
        text(&v["node"]),
        start,
        v["stream"].as_u64().unwrap(),
        text(&v["method"]),
    )
}

#[test]
fn calls_of_several_nodes_are_followed_each_once_with_its_node() {
    block_on(async {
        let played = Played::of(sick(6, 4, &[(3, 3_600_000_000_000)])).await;
        // The calls that each node's agent has by itself.
        let mut wanted = BTreeSet::new();
        let mut pulls = BTreeMap::new();
        for node in (0..4).map(name) {
            let args = ["calls", "--node", &node, "-o", "json"];
            let said = played.kflow(&args).await;
            let all: Vec<Value> = serde_json::from_str(&said.out).expect(&said.err);
            assert!(!all.is_empty(), "{node} {}", said.err);
            for mut call in all {
                if call["end_ns"].is_null() {
                    continue;
                }
                let is_one = call["method"] == "ImageStatus";
                *pulls.entry(node.clone()).or_insert(0) += usize::from(is_one);
                call["node"] = node.as_str().into();
                wanted.insert(id(&call));
            }
        }
        pulls.retain(|_, n| *n > 0);
        assert!(pulls.len() > 1, "{pulls:?}");
        let following = Watching::of(&played, &["calls", "--follow", "-A", "-o", "jsonl"]);
        following.hears(0..4).await;
        following.calls("ImageStatus", &pulls).await;
        following
            .tells("pods of simulated-4, simulated-5 are shown by the API alone: no agent that is ready (namespace kflow)")
            .await;
        following
            .tells("simulated-3 (1h00m ahead of this machine's)")
            .await;
        // An agent that dies and comes back repeats no call, and the others go on.
        played.kill(1);
        following
            .tells("the agent of simulated-1 is not heard any more, and what it saw stands as it was: ")
            .await;
        played.revive(1);
        following
            .tells("the agent of simulated-1 is heard again, after ")
            .await;
        let ends = |a: &super::rig::Served| a.see(vec![ended_call()]);
        played.with_agent(3, ends).unwrap();
        let one = BTreeMap::from([(name(3), 1)]);
        let sandboxes = |node: &str| {
            let of = wanted.iter();
            of.filter(|(n, _, _, m)| n == node && m == "RunPodSandbox")
                .count()
        };
        let mut all: BTreeMap<String, usize> =
            (0..4).map(|n| (name(n), sandboxes(&name(n)))).collect();
        all.insert(name(3), one[&name(3)] + sandboxes(&name(3)));
        all.retain(|_, n| *n > 0);
        following.calls("RunPodSandbox", &all).await;
        let rows = following.rows();
        let got: BTreeSet<_> = rows.iter().map(id).collect();
        assert_eq!(got.len(), rows.len(), "a call was told twice");
        let unseen: Vec<_> = wanted.difference(&got).collect();
        assert!(unseen.is_empty(), "{unseen:?}");
        // Exit code 2: two nodes have no agent, so their calls are unknown.
        assert_eq!(following.ends().await, Some(2));
    });
}

#[test]
fn followed_calls_have_a_column_for_nodes_where_there_are_several() {
    block_on(async {
        let played = Played::of(sick(4, 4, &[])).await;
        let args = ["calls", "--follow", "-A", "--method", "ImageStatus"];
        let args = [&args[..], &["--for", "15s"]].concat();
        let said = played.kflow(&args).await;
        assert_eq!(said.code, Some(0), "{}", said.err);
        let mut lines = said.out.lines();
        let head = lines.next().unwrap_or_default();
        let at = head.find(" NODE").expect(&said.err) + 1;
        // Counts characters, not bytes: `µs` in a duration is a byte longer than its characters.
        let cell = |l: &str| l.chars().skip(at).take_while(|c| *c != ' ').collect();
        let nodes: BTreeSet<String> = lines.map(cell).collect();
        assert!(nodes.len() > 1, "{}", said.out);
        assert!(
            nodes.iter().all(|n| n.starts_with("simulated-")),
            "{nodes:?}"
        );
        let args = ["calls", "--follow", "--node", "simulated-1", "--for", "3s"];
        let one = played.kflow(&args).await;
        assert!(
            one.out.starts_with("START") && !one.out.contains("NODE"),
            "{}",
            one.err
        );
        let args = [&args[..], &["-o", "csv"]].concat();
        let one = played.kflow(&args).await;
        let mut lines = one.out.lines();
        assert!(
            lines
                .next()
                .is_some_and(|l| l.starts_with("node,start_ns,"))
        );
        assert!(lines.next().is_some_and(|l| l.starts_with("simulated-1,")));
    });
}
