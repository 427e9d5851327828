//! `--debug-pod`: starts an agent for one command, and removes it afterwards.

use std::sync::atomic::Ordering;

use kflow_model::clock;

use super::forward::{Apiserver, said};
use super::{Node, PATIENCE, block_on, connected};
use crate::program::{kflow, run};

const IMAGE: &str = "registry.example/kflow:1";

#[test]
fn an_agent_runs_on_the_node_for_one_command_and_is_gone_after_it() {
    let node = Node::new();
    let _agent = node.start(&["--no-spool"]);
    block_on(async {
        connected(&node.socket()).await;
        let (server, url) = Apiserver::start(Some(node.socket()), false).await;
        let root = node.path("root").display().to_string();
        let asks = [
            "doctor",
            "--node",
            "node1",
            "--debug-pod",
            IMAGE,
            "--root",
            &root,
        ];
        let doctor = said(&node, &url, &asks).await;
        let is_agent = |l: &str| l.contains("  agent  ") && l.contains(" sources");
        assert!(
            doctor.out.lines().any(is_agent),
            "{} {}",
            doctor.out,
            doctor.err
        );
        let did = server.did.lock().unwrap().clone();
        let (created, deleted) = (&did[0], &did[1]);
        assert_eq!(did.len(), 2, "{did:?}");
        let name = created.strip_prefix("create ").unwrap();
        assert_eq!(deleted, &format!("delete {name}"));
        for said in ["created Job default/", "deleted Job default/"] {
            assert!(
                doctor.err.contains(&format!("{said}{name}")),
                "{}",
                doctor.err
            );
        }
    });
}

#[test]
fn a_job_whose_pod_is_refused_or_whose_node_is_not_there_is_told_and_goes() {
    let node = Node::new();
    block_on(async {
        let (server, url) = Apiserver::start(None, false).await;
        let asks = |node| ["why", "-A", "--node", node, "--debug-pod", IMAGE];
        let none = said(&node, &url, &asks("node7")).await;
        assert_eq!(none.code, Some(2));
        assert!(none.err.contains("there is no node node7"), "{}", none.err);
        assert_eq!(server.did.lock().unwrap().len(), 0);

        let policy = "pods \"x\" is forbidden: violates PodSecurity \"baseline:latest\"";
        *server.refuses.lock().unwrap() = Some(policy.to_owned());
        let refused = said(&node, &url, &asks("node1")).await;
        assert_eq!(refused.code, Some(2));
        assert!(refused.err.contains(policy), "{}", refused.err);
        assert!(server.jobs.lock().unwrap().is_empty());
        assert_eq!(server.did.lock().unwrap().len(), 2);
    });
}

#[test]
fn who_interrupts_it_gets_the_terminal_back_and_the_job_goes() {
    let node = Node::new();
    let _agent = node.start(&["--no-spool"]);
    block_on(async {
        connected(&node.socket()).await;
        let (server, url) = Apiserver::start(Some(node.socket()), false).await;
        let mut command = crate::program::command();
        command
            .args([
                "why",
                "-A",
                "--node",
                "node1",
                "--debug-pod",
                IMAGE,
                "--for",
                "60s",
            ])
            .arg("--kubeconfig")
            .arg(super::forward::kubeconfig(&node, &url))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        // Once the agent's port is forwarded, the sources are listened to for a minute.
        let begun = clock::monotonic();
        while server.forwards.load(Ordering::Relaxed) == 0 {
            assert!(begun.elapsed() < PATIENCE, "no forward");
            tokio::task::yield_now().await;
        }
        let id = child.id().to_string();
        let kill = std::process::Command::new("kill")
            .args(["-INT", &id])
            .status();
        assert!(kill.unwrap().success());
        let ended = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap());
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        let ended = ended.expect("in time").unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(
            said.contains("interrupted") && said.contains("deleted Job"),
            "{said}"
        );
        assert!(server.jobs.lock().unwrap().is_empty());
    });
}

#[test]
fn it_is_of_one_node_and_of_what_runs() {
    let without = kflow(["tui", "--debug-pod", IMAGE]);
    assert_eq!(without.code, Some(2));
    assert!(without.err.contains("--node"), "{}", without.err);
    let of_a_file = kflow(["why", "-s", "x.kflow", "--node", "n", "--debug-pod", IMAGE]);
    assert_eq!(of_a_file.code, Some(2));
    assert!(of_a_file.err.contains("--debug-pod"), "{}", of_a_file.err);
}

#[test]
fn an_agent_to_which_nobody_listens_ends_by_itself() {
    let node = Node::new();
    let ended = run(&mut node.command(&["--no-spool", "--until-unwatched", "1s"]));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("nobody listens"), "{}", ended.err);
}
