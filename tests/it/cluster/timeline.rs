//! `kflow timeline` of a Deployment whose pods are on several nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use kflow_export::abreast::{self, Clock, Lane};
use kflow_model::clock;
use kflow_model::offset::Offset;
use kflow_model::stamp::SECOND;
use kflow_model::units::date_and_clock;
use serde_json::Value;

use super::rig::{Played, Shape, name};
use crate::agent::block_on;
use crate::program::{Said, kflow};

async fn timeline(played: &Played, args: &[&str]) -> Said {
    let of_owner = ["timeline", "deploy/burst", "-n", "s19"];
    played.kflow(&[&of_owner[..], args].concat()).await
}

/// The rows of the answer, by the pod's name.
fn lanes(said: &Said) -> BTreeMap<String, Value> {
    let all: Vec<Value> = serde_json::from_str(&said.out).expect(&said.err);
    let lanes = all[0]["lanes"].as_array().unwrap().iter();
    let named = lanes.map(|l| (l["name"].as_str().unwrap().to_owned(), l.clone()));
    named.collect()
}

/// The stages of a row with their starts, ns.
fn stages(lane: &Value) -> Vec<(String, i64)> {
    let stages = lane["stages"].as_array().unwrap().iter();
    let of = stages.map(|s| {
        (
            s["stage"].as_str().unwrap().to_owned(),
            s["start_ns"].as_i64().unwrap(),
        )
    });
    of.collect()
}

/// True when all starts are whole seconds.
fn is_whole(lane: &Value) -> bool {
    stages(lane).iter().all(|(_, at)| at % SECOND == 0)
}

/// The stages that begin with a call, with their starts, ns.
fn begins(lane: &Value) -> Vec<(String, i64)> {
    let by_calls = ["sandbox", "create", "start"];
    let mut all = stages(lane);
    all.retain(|(stage, _)| by_calls.contains(&stage.as_str()));
    all
}

#[test]
fn pods_of_several_nodes_are_in_a_row_each_whatever_the_clocks_of_their_nodes_say() {
    block_on(async {
        let of = async |ahead: &[(usize, i64)]| {
            Played::of(Shape {
                nodes: 4,
                agents: 3,
                spread: 4,
                ahead: ahead.iter().copied().collect(),
                ..Shape::default()
            })
            .await
        };
        let json = ["-o", "json"];
        let right = of(&[]).await;
        let right = lanes(&timeline(&right, &json).await);
        assert_eq!(right.len(), 40);
        let played = of(&[(0, 90 * SECOND), (1, -3 * SECOND)]).await;
        let said = timeline(&played, &json).await;
        let heard = "what the agents of simulated-0, simulated-1, simulated-2 saw is in the rows";
        assert!(said.err.contains(heard), "{}", said.err);
        let alone = "pods of simulated-3 are shown by the API alone: no agent";
        assert!(said.err.contains(alone), "{}", said.err);
        for (pod, lane) in lanes(&said) {
            let node = lane["node"].as_str().unwrap();
            let [ahead, within] =
                ["clock_ahead_ns", "clock_within_ns"].map(|k| lane[k].as_i64().unwrap());
            assert!(within > 0, "{lane}");
            if node == name(3) {
                // The apiserver's clock is this machine's, known to the second; its times are whole seconds too.
                assert_eq!(lane["clock"], "apiserver");
                assert!(is_whole(&lane) && ahead.abs() <= within, "{lane}");
                continue;
            }
            assert_eq!(lane["clock"], "node");
            let is = match node {
                "simulated-0" => 90 * SECOND,
                "simulated-1" => -3 * SECOND,
                _ => 0,
            };
            assert!((ahead - is).abs() <= within, "{lane}");
            // The first stages come from the apiserver, whose clock is known to half a second and whose
            // times are whole seconds.
            let first = |lane| stages(lane).iter().map(|(_, at)| *at).min().unwrap();
            let (begin, wanted) = (first(&lane), first(&right[&pod]));
            assert!(
                (begin - wanted).abs() < 3 * SECOND,
                "{pod} {begin} {wanted}"
            );
            // The kubelet stamps the Ready condition by its own clock, in whole seconds.
            let ready = |l: &Value| l["became_ready_ns"].as_i64().unwrap();
            let (at, wanted) = (ready(&lane), ready(&right[&pod]));
            assert!(
                (at - wanted).abs() <= SECOND + within,
                "{pod} {at} {wanted}"
            );
            // The corrected times are off by no more than the stated error.
            let (told, want) = (begins(&lane), begins(&right[&pod]));
            assert!(!told.is_empty(), "{lane}");
            for ((stage, at), (same, wanted)) in told.iter().zip(&want) {
                assert_eq!(stage, same);
                assert!(
                    (at - wanted).abs() <= within,
                    "{pod} {stage}: {at} {wanted}"
                );
            }
        }
        let text = timeline(&played, &[]).await.out;
        for part in [
            "side by side, by this machine's clock",
            "simulated-0: its clock is 1m30s ahead, ±",
            " behind, ±",
            "simulated-3: times are the apiserver's, whose clock agrees within ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Only a node's own sources show that volumes are mounted.
        let rows = text.lines().filter(|l| l.contains("  burst-"));
        let bars = rows.filter_map(|l| l.split_once("  simulated-"));
        assert_eq!(
            bars.filter(|(_, bar)| bar.contains('v')).count(),
            30,
            "{text}"
        );
        // Without agents all times come from the apiserver, and no row has a clock of its own.
        let alone = lanes(&timeline(&played, &["-o", "json", "--no-agent"]).await);
        assert!(alone.values().all(|l| is_whole(l) && l["clock"].is_null()));
    });
}

/// Rows of one recording, where one node's clock is known badly.
#[test]
fn a_clock_that_is_known_to_less_than_a_column_is_told() {
    let session = kflow_model::session::load(&crate::fixture("sessions/S5-burst.kflow.zst"));
    let session = session.unwrap();
    let (begin, end) = session.range().unwrap();
    let now = begin.plus(end.since(begin) / 10 * 3);
    let world = kflow_engine::world_at(&session, now, Arc::default());
    let said = |within_ns: i64| {
        let burst = world.pods().iter().filter(|p| p.namespace == "s19");
        let lanes = burst.take(2).enumerate().map(|(n, pod)| {
            let offset = Offset {
                ahead_ns: 0,
                within_ns: if n == 0 { 1 } else { within_ns },
            };
            Lane {
                pod: pod.clone(),
                clock: Clock::Node(offset),
                now,
            }
        });
        let mut out = Vec::new();
        let lanes: Vec<Lane> = lanes.collect();
        abreast::text(&mut out, &lanes, false).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (sure, unsure) = (said(SECOND / 1000), said(10 * SECOND));
    assert!(!sure.contains("more than a column"), "{sure}");
    assert!(
        unsure.contains("agrees within 10.0s, which is more than a column"),
        "{unsure}"
    );
}

/// The moment that a text for people ends at, as the remark beside it says.
fn told(said: &Said) -> Option<&str> {
    let mut lines = said.err.lines();
    lines.find_map(|l| l.strip_prefix("kflow: as of "))
}

#[test]
fn what_ends_at_a_look_says_when_that_was_and_what_ends_at_a_moment_says_that() {
    block_on(async {
        let played = Played::of(Shape {
            nodes: 2,
            agents: 2,
            spread: 2,
            ..Shape::default()
        })
        .await;
        let now = || format!("{} UTC", date_and_clock(clock::now(), 0, 0));
        let asks: [&[&str]; 3] = [
            &["timeline", "deploy/burst", "-n", "s19"],
            &["timeline", "-A"],
            &["flow", "-A"],
        ];
        for args in asks {
            let begun = now();
            let said = played.kflow(args).await;
            let at = told(&said).unwrap_or_else(|| panic!("{args:?}: {}", said.err));
            assert!(*begun <= *at && *at <= *now(), "{begun} {at}");
            let rows = played.kflow(&[args, &["-o", "json"][..]].concat()).await;
            assert_eq!(told(&rows), None, "{}", rows.err);
        }
    });
    let file = crate::fixture("sessions/S2-stuck-early.kflow.zst");
    let of = |args: &[&str]| kflow(args.iter().copied().chain(["-s", file.to_str().unwrap()]));
    let at = ["--at", "50%"];
    let ticket = of(&["why", "--all", "-o", "markdown", at[0], at[1]]).out;
    for args in [&["timeline"][..], &["flow"]] {
        let said = of(&[args, &at].concat());
        let moment = told(&said).unwrap_or_else(|| panic!("{args:?}: {}", said.err));
        assert!(
            ticket.contains(&format!("As of {moment}, of ")),
            "{moment}: {ticket}"
        );
        // A recording that is taken whole ends where it ends.
        assert_eq!(told(&of(args)), None);
    }
}
