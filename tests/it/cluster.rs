//! The cluster's view over simulated agents: it connects to the agent of the open node, and shows what fails.

mod abreast;
mod here;
mod named;
mod reach;
mod rig;
mod timeline;
mod watch;
mod why;

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kflow_engine::cluster::Cluster;
use kflow_engine::live::{Config, Look, Sources};
use kflow_engine::nodes::Standing;
use kflow_engine::snapshot::SourceStatus;
use kflow_engine::{Snapshot, cluster::ClusterView};
use kflow_model::gap::Note;
use kflow_model::{Body, Observation, Scope, Source, Stamp, clock};
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::svg;

use crate::agent::block_on;
use crate::proxy::rig::PATIENCE;
use rig::{Played, Shape, name};

/// A viewer of the cluster. Dropping it waits for its threads.
struct Viewer(Option<Cluster>);

impl Deref for Viewer {
    type Target = Cluster;
    fn deref(&self) -> &Cluster {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Viewer {
    fn deref_mut(&mut self) -> &mut Cluster {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        tokio::task::block_in_place(|| drop(self.0.take()));
    }
}

fn watching(played: &Played) -> Viewer {
    looking(played, Look::new("kflow"))
}

fn looking(played: &Played, agents: Look) -> Viewer {
    let config = Config {
        scope: Some(Scope::default()),
        kubeconfig: Some(played.kubeconfig()),
        agents: Some(agents),
        ..Config::nothing()
    };
    Viewer(Some(Cluster::start(config).unwrap()))
}

/// Waits for a snapshot that is as wanted, and returns it.
async fn until(
    cluster: &mut Viewer,
    what: &str,
    wanted: impl Fn(&Snapshot, &ClusterView) -> bool,
) -> Arc<Snapshot> {
    let begun = clock::monotonic();
    loop {
        let snap = cluster.snapshot();
        let view = snap.cluster.clone().expect("a cluster");
        if wanted(&snap, &view) {
            return snap;
        }
        assert!(
            begun.elapsed() < PATIENCE / 2,
            "{what}: {view:?} {:?}",
            snap.sources
        );
        tokio::task::yield_now().await;
    }
}

fn agents_of(view: &ClusterView) -> usize {
    view.agents.as_ref().map_or(0, |a| a.by_node.len())
}

fn calls(snap: &Snapshot) -> usize {
    snap.world.calls().len()
}

fn subscribers(played: &Played, n: usize) -> u64 {
    let of = played.with_agent(n, |a| a.serving.service.subscribers());
    of.unwrap_or(0)
}

async fn subscribed(played: &Played, n: usize, wanted: u64) {
    let begun = clock::monotonic();
    while subscribers(played, n) != wanted {
        assert!(
            begun.elapsed() < PATIENCE / 2,
            "{n}: {}",
            subscribers(played, n)
        );
        tokio::task::yield_now().await;
    }
}

fn gaps(snap: &Snapshot) -> usize {
    snap.world.source(Source::Cri).gaps.len()
}

fn off(snap: &Snapshot) -> bool {
    let agent = snap.sources.iter().find(|s| s.name == "agent");
    agent.is_some_and(SourceStatus::is_off)
}

fn on(snap: &Snapshot) -> bool {
    let agent = snap.sources.iter().find(|s| s.name == "agent");
    agent.is_some_and(SourceStatus::is_on)
}

/// The number of observations that came from the agent of the open node.
fn taken(snap: &Snapshot) -> u64 {
    let agent = snap.sources.iter().find(|s| s.name == "agent");
    agent.map_or(0, |s| s.count)
}

/// The text of the terminal after these keys.
fn said(snap: &Snapshot, keys: &str) -> String {
    let mut m = model((200, 60), "dark").expect("theme");
    frame(&mut m, snap);
    press(&mut m, snap, keys);
    svg::plain(&frame(&mut m, snap))
}

#[test]
fn only_the_agent_of_the_node_that_is_open_is_connected_to() {
    block_on(async {
        let played = Played::start(4, 3).await;
        let mut cluster = watching(&played);
        let all = until(&mut cluster, "nodes and agents", |_, v| {
            v.nodes.len() == 4 && agents_of(v) == 3
        })
        .await;
        assert_eq!(calls(&all), 0);
        let text = said(&all, "6");
        for part in [
            "simulated-0",
            "v1.36.3",
            "containerd://2.1.9",
            "3 of 4 nodes have an agent (namespace kflow), 3 ready",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        let none = text.lines().find(|l| l.contains("simulated-3"));
        assert!(none.is_some_and(|l| l.contains(" none ")), "{text}");
        assert_eq!(played.forwards.load(Ordering::Relaxed), 0);

        let begun = clock::monotonic();
        cluster.open(&name(0)).unwrap();
        let open = until(&mut cluster, "calls", |s, _| calls(s) > 0).await;
        // docs/agent.md has the measured times; a busy machine may take longer.
        eprintln!("opening took {:?}", begun.elapsed());
        let view = open.cluster.as_ref().unwrap();
        assert_eq!(view.open.as_ref().unwrap().node, name(0));
        assert_eq!(view.nodes.len(), 4);
        assert_eq!(subscribers(&played, 0), 1);
        let text = said(&open, "6");
        assert!(text.contains("simulated-0 is open for"), "{text}");

        cluster.open(&name(1)).unwrap();
        until(&mut cluster, "the other's calls", |s, v| {
            calls(s) > 0 && v.open.as_ref().is_some_and(|o| o.node == name(1))
        })
        .await;
        subscribed(&played, 0, 0).await;
        assert_eq!(cluster.leave().as_deref(), Some(name(1).as_str()));
        subscribed(&played, 1, 0).await;
        let all = cluster.snapshot();
        assert!(calls(&all) == 0 && all.cluster.as_ref().unwrap().open.is_none());
        assert_eq!(cluster.leave(), None);
        // A node without an agent is shown by the API alone, with what an agent would add.
        cluster.open(&name(3)).unwrap();
        let bare = until(&mut cluster, "no agent", |s, _| off(s)).await;
        let text = said(&bare, "6");
        assert!(
            text.contains("no agent of kflow on simulated-3")
                && text.contains("kflow agent install"),
            "{text}"
        );
    });
}

#[test]
fn what_happened_on_a_node_while_it_was_not_open_is_a_counted_gap() {
    block_on(async {
        let played = Played::start(2, 2).await;
        let mut cluster = watching(&played);
        cluster.open(&name(1)).unwrap();
        let begun = until(&mut cluster, "calls", |s, _| calls(s) > 0).await;
        let had = gaps(&begun);
        cluster.leave();
        subscribed(&played, 1, 0).await;
        // More observations than the ring holds, even compressed.
        let mut random = fastrand::Rng::with_seed(1);
        let mut many = || -> Vec<Observation> {
            let note = |_| Observation {
                stamp: Stamp::exact(clock::now()),
                source: Source::Kflow,
                body: Body::Note(Box::new(Note {
                    text: (0..2 << 10).map(|_| random.alphanumeric()).collect(),
                })),
            };
            (0..1000).map(note).collect()
        };
        played.with_agent(1, |a| (0..12).for_each(|_| a.see(many())));
        cluster.open(&name(1)).unwrap();
        let again = until(&mut cluster, "a gap", |s, _| gaps(s) > had).await;
        let lost = again.world.source(Source::Cri).lost;
        assert!((1000..12_000).contains(&lost), "{lost}");
        let text = said(&again, "6");
        assert!(text.contains(" lost"), "{text}");
    });
}

#[test]
fn what_breaks_is_told_and_the_view_goes_on() {
    block_on(async {
        let played = Played::start(3, 3).await;
        let mut cluster = watching(&played);
        until(&mut cluster, "nodes", |_, v| v.nodes.len() == 3).await;
        cluster.open(&name(0)).unwrap();
        let open = until(&mut cluster, "calls", |s, _| calls(s) > 0 && on(s)).await;
        let had = gaps(&open);
        // A port-forward breaks.
        played.cut.send_modify(|n| *n += 1);
        until(&mut cluster, "a gap", |s, _| gaps(s) > had && on(s)).await;
        // An agent dies, and another one starts.
        played.kill(0);
        let dead = until(&mut cluster, "off", |s, _| off(s)).await;
        played.revive(0);
        // A connection is on before its first observation; one that carried nothing leaves no gap when it breaks.
        let back = until(&mut cluster, "on again", |s, _| {
            on(s) && taken(s) > taken(&dead) + 1000
        })
        .await;
        let had = gaps(&back);
        assert!(said(&back, "6").contains("its calls were not seen for"));
        // The apiserver goes away and comes back.
        played.set_down(true);
        until(&mut cluster, "down", |s, _| off(s)).await;
        played.set_down(false);
        let back = until(&mut cluster, "up", |s, _| on(s) && gaps(s) > had).await;
        assert_eq!(back.cluster.as_ref().unwrap().nodes.len(), 3);
        // A node is deleted together with its agent; its pods still name it.
        cluster.leave();
        played.delete(2);
        let gone = |v: &ClusterView| {
            let of = v.nodes.iter().find(|n| n.name == name(2));
            of.is_none_or(|n| n.standing == Standing::Missing)
        };
        until(&mut cluster, "gone", |_, v| gone(v)).await;
        // A viewer that ends leaves no subscriber behind.
        cluster.open(&name(1)).unwrap();
        until(&mut cluster, "calls", |s, _| calls(s) > 0).await;
        drop(cluster);
        subscribed(&played, 1, 0).await;
    });
}

#[test]
fn agents_of_another_version_are_told_of() {
    block_on(async {
        let played = Played::start(2, 2).await;
        *played.other_version.lock().unwrap() = Some("0.0.9".to_owned());
        let mut cluster = watching(&played);
        let all = until(&mut cluster, "agents", |_, v| {
            agents_of(v) == 2 && v.nodes.len() == 2
        })
        .await;
        let text = said(&all, "6");
        assert!(text.contains("0.0.9, other"), "{text}");
        assert!(text.contains("2 of another version"), "{text}");
    });
}

/// Agents that start together: each lists its node and its pods once, then watches them, and begins after a delay of
/// its own.
#[test]
fn agents_that_start_together_ask_little_and_each_at_its_own_time() {
    let told = start_together(60, Duration::from_secs(2));
    eprintln!("{told}");
}

/// A measurement, with the spread that agents use: `cargo test --test it -- --ignored --nocapture a_thousand_agents`
#[test]
#[ignore = "takes half a minute, and threads for a thousand agents"]
fn a_thousand_agents_start_together() {
    let told = start_together(1000, Duration::from_secs(10));
    eprintln!("{told}");
}

/// Starts so many agents and returns, as text, how many requests they make and when. Times count from the start of each
/// agent, as if all machines started at once: one process takes some seconds to start a thousand.
fn start_together(agents: usize, spread: Duration) -> String {
    block_on(async {
        let played = Played::start(agents, 0).await;
        let of = |node: &str| Config {
            scope: Some(Scope {
                node: Some(node.to_owned()),
                ..Scope::default()
            }),
            kubeconfig: Some(played.kubeconfig()),
            of_node_only: true,
            api_spread: spread,
            ..Config::nothing()
        };
        let begun = clock::monotonic();
        let mut started = BTreeMap::new();
        let mut all = Vec::with_capacity(agents);
        for node in (0..agents).map(name) {
            started.insert(node.clone(), clock::monotonic());
            all.push(Sources::start(&of(&node)).unwrap());
        }
        let all_started = begun.elapsed();
        // The times of each agent's requests since its start: a list and a watch of its node, and of its pods.
        let asked = || {
            let mut of_each: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
            for (at, uri) in played.times.lock().unwrap().iter() {
                let mut words = uri.split(['=', '&', '/']).flat_map(|w| w.split("%3D"));
                let (node, start) = words
                    .find_map(|w| started.get_key_value(w))
                    .unwrap_or_else(|| panic!("{uri} is of no node"));
                of_each.entry(node).or_default().push(*at - *start);
            }
            of_each
        };
        let enough = |n: usize| {
            n >= 4 * agents && asked().values().filter(|of| of.len() >= 4).count() == agents
        };
        while !enough(played.requests.load(Ordering::Relaxed)) {
            assert!(begun.elapsed() < PATIENCE);
            tokio::task::yield_now().await;
        }
        let requests: Vec<Duration> = asked().into_values().flatten().collect();
        // On a busy machine some requests are repeated.
        assert!(
            requests.len() < 4 * agents + agents / 4,
            "{}: {requests:?}",
            requests.len()
        );
        let mut tenths = vec![0_usize; 64];
        for since in &requests {
            let tenth = since.as_millis() / (spread.as_millis() / 10);
            if let Some(n) = tenths.get_mut(tenth as usize) {
                *n += 1;
            }
        }
        // The requests are spread: none of the tenths has half of them.
        assert!(tenths.iter().all(|n| *n < 2 * agents), "{tenths:?}");
        for (sources, _) in all {
            tokio::task::block_in_place(|| sources.stop());
        }
        format!(
            "{} requests of {agents} agents, which took {:.1} s to start; by tenths of {} s from the start of each: {tenths:?}",
            requests.len(),
            all_started.as_secs_f64(),
            spread.as_secs()
        )
    })
}

/// A cluster to look at by hand: `NODES=200 cargo test --test it -- --ignored --nocapture a_cluster_to_look_at`, then
/// `kflow tui`, or with SICK=1 `kflow why -A`, with the kubeconfig that the test prints. It serves until its standard
/// input ends. WHOLE=1 has each agent serve a whole recording.
#[test]
#[ignore = "serves until its standard input ends"]
fn a_cluster_to_look_at() {
    block_on(async {
        let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse().ok());
        let nodes = number("NODES").unwrap_or(200);
        let shape = Shape {
            nodes,
            agents: number("AGENTS").unwrap_or(nodes),
            sick: number("SICK") == Some(1),
            whole: number("WHOLE") == Some(1),
            spread: number("SPREAD").unwrap_or(0),
            ahead: number("AHEAD")
                .map(|s| (0, s as i64 * kflow_model::stamp::SECOND))
                .into_iter()
                .collect(),
            mute: (0..number("MUTE").unwrap_or(0)).collect(),
        };
        let played = Played::of(shape).await;
        println!("{}", played.kubeconfig().display());
        let end = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()));
        end.await.unwrap().unwrap();
        println!(
            "{} requests, {} forwards",
            played.requests.load(Ordering::Relaxed),
            played.forwards.load(Ordering::Relaxed)
        );
    });
}
