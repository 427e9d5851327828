//! Commands for an owner in a cluster, with the agents of the nodes of all its pods.

use super::rig::{Played, Shape};
use crate::agent::block_on;
use crate::named::{ASKS, WHO, ask, pod, says_no_more_than};
use crate::program::kflow;

#[test]
fn of_a_cluster_every_command_says_the_same_and_asks_the_agent() {
    block_on(async {
        let played = Played::of(Shape {
            nodes: 1,
            agents: 1,
            spread: 1,
            sick: true,
            ..Shape::default()
        })
        .await;
        let follow = ask(&["calls", "--follow", "--for", "2s", "--pod", WHO], pod);
        for ask in ASKS.iter().chain([&follow]) {
            let near = played.kflow(&ask.of("deploy/burts", &["-n", "s19"])).await;
            let case = format!("{:?}", ask.args);
            let none = "no deploy/burts in namespace s19: did you mean deploy/burst?";
            says_no_more_than(&near, none, &case);
            assert_eq!(near.code, Some(3), "{case}");
            let idle = played.kflow(&ask.of("sts/idle", &["-n", "s19"])).await;
            let none = "sts/idle in namespace s19 has no pods";
            if ask.args[0] == "why" {
                assert_eq!((idle.code, idle.out.trim()), (Some(0), "[]"), "{case}");
            } else {
                says_no_more_than(&idle, none, &case);
                let code = if ask.of_owner { 0 } else { 3 };
                assert_eq!(idle.code, Some(code), "{case}");
            }
            let burst = played.kflow(&ask.of("deploy/burst", &["-n", "s19"])).await;
            let heard = [
                "what the agents of simulated-0 saw is in ",
                "simulated-0 is followed, with its agent",
            ];
            assert!(
                heard.iter().any(|h| burst.err.contains(h)),
                "{case}: {}",
                burst.err
            );
            // No node's sources have the apiserver's requests: the answer of `requests` is unknown.
            let code = match ask.args[0] {
                "why" => 1,
                "requests" => 2,
                _ => 0,
            };
            assert_eq!(burst.code, Some(code), "{case}: {}", burst.err);
        }
    });
}

#[test]
fn a_recording_of_an_owner_has_its_pods_alone_and_what_is_known_of_it() {
    block_on(async {
        let played = Played::of(Shape {
            nodes: 5,
            spread: 3,
            sick: true,
            ..Shape::default()
        })
        .await;
        let dir = tempfile::tempdir().unwrap();
        let record = async |who: &str, name: &str| {
            let file = dir.path().join(name).display().to_string();
            let args = ["record", "-A", "--pod", who, "--for", "3s", "-O", &file];
            let made = played.kflow(&args).await;
            assert_eq!(made.code, Some(0), "{}", made.err);
            let pods = kflow(["timeline", "-s", &file, "-o", "name"]);
            let pods = pods.out.lines().map(str::to_owned);
            (pods.collect::<Vec<String>>(), file, made.err)
        };
        let (pods, file, said) = record("deploy/burst", "burst.kflow").await;
        assert_eq!(pods.len(), 43, "{pods:?}");
        assert!(
            pods.iter().all(|p| p.starts_with("pod/s19/burst-")),
            "{pods:?}"
        );
        // Two nodes have three other pods each, and there are other owners.
        assert!(
            said.contains("about other pods or what made them: 7"),
            "{said}"
        );
        let live = played
            .kflow(&["why", "deploy/burst", "-n", "s19", "--no-agent"])
            .await;
        let then = kflow(["why", "deploy/burst", "-s", &file]);
        // Without the nodes' calls nothing looks wrong, live or in the recording, which must also know that its list of
        // pods is complete.
        assert_eq!((live.code, then.code), (Some(0), Some(0)), "{}", then.err);
        let (pods, ..) = record("node/simulated-3", "node.kflow").await;
        assert_eq!(pods.len(), 3, "{pods:?}");
        // The StatefulSet has no pods, and a recording of it is known to be complete.
        let (pods, file, _) = record("sts/idle", "idle.kflow").await;
        assert!(pods.is_empty(), "{pods:?}");
        let idle = kflow(["why", "sts/idle", "-s", &file]);
        assert_eq!(idle.code, Some(0), "{}", idle.err);
        assert!(idle.out.contains("It has no pods"), "{}", idle.out);
        let flow = kflow(["flow", "sts/idle", "-s", &file]);
        says_no_more_than(&flow, "sts/idle has no pods", "of its recording");
        assert_eq!(flow.code, Some(3));
    });
}
