//! A node whose kubelet logs into systemd's journal, and an agent there without `journalctl`.

use std::fs;
use std::path::Path;

use kflow_model::log::Component;
use kflow_model::{Observation, Source};
use kflow_serve::wire::SubscribeRequest;
use kflow_sources::klog::KlogDecoder;
use kflow_sources::klog::live::{Journal, journal_files};
use kflow_sources::live::Board;
use kflow_sources::{LineDecoder, TimeHint};
use tokio::sync::mpsc::Receiver;

use super::{Node, PATIENCE, block_on, connected, info, served};
use crate::fixture;

const MACHINE: &str = "3f4d5e9d1f0a44c5a6b31b6dfd6a0a33";

/// Unpacks a journal file of the fixtures to a path, by renaming, so that it appears whole.
fn put(name: &str, to: &Path) {
    let packed = fs::read(fixture(&format!("journal/{name}.journal.zst"))).unwrap();
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    let beside = to.with_extension("new");
    fs::write(&beside, zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    fs::rename(beside, to).unwrap();
}

/// The observations of the kubelet's records, decoded from what journalctl prints of the same journal.
fn wanted(name: &str) -> Vec<String> {
    let packed = fs::read(fixture(&format!("journal/{name}.export.zst"))).unwrap();
    let text = zstd::decode_all(packed.as_slice()).unwrap();
    let mut decoder = decoder();
    let mut all = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        decoder.line(line, &mut all);
    }
    decoder.finish(&mut all);
    messages(&all)
}

fn decoder() -> Box<dyn LineDecoder> {
    Box::new(KlogDecoder::new(Component::Kubelet, TimeHint::default()))
}

/// Time and body of each observation, as text.
fn messages(all: &[Observation]) -> Vec<String> {
    let said = all.iter().map(|o| format!("{} {:?}", o.stamp.at.0, o.body));
    said.collect()
}

async fn take(from: &mut Receiver<Observation>, n: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < n {
        let next = tokio::time::timeout(PATIENCE, from.recv()).await;
        all.push(next.expect("it goes on").unwrap());
    }
    messages(&all)
}

#[test]
fn the_journals_files_are_followed_from_before_and_through_their_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join(MACHINE);
    let active = folder.join("system.journal");
    let (before, now) = (wanted("before"), wanted("now"));
    assert!(
        before.len() > 100 && now.len() > 50,
        "{} {}",
        before.len(),
        now.len()
    );
    let unit = format!("kubelet@{}", dir.path().display());
    let journal = Journal::named(&unit).unwrap();
    let follow = |board: &Board| {
        let out = board.out(Source::Kubelet, "journal");
        let of = journal.clone();
        tokio::spawn(journal_files(of, Source::Kubelet, Box::new(decoder), out))
    };
    block_on(async {
        // The journal is followed before its file exists.
        let (board, mut from) = Board::new(4096);
        let task = follow(&board);
        while !board.statuses()[0].is_off() {
            tokio::task::yield_now().await;
        }
        put("before", &active);
        assert_eq!(take(&mut from, before.len()).await, before);
        fs::rename(&active, folder.join("system@1-1-1.journal")).unwrap();
        put("now", &active);
        assert_eq!(take(&mut from, now.len()).await, now);
        assert!(from.try_recv().is_err(), "nothing is told twice");
        assert!(board.statuses()[0].is_on());
        task.abort();

        // A source that starts later reads both files.
        let (board, mut from) = Board::new(4096);
        let task = follow(&board);
        let both = [before.clone(), now.clone()].concat();
        assert_eq!(take(&mut from, both.len()).await, both);
        task.abort();
    });
    let other = Journal::named(&unit.replace("kubelet@", "k3s@")).unwrap();
    let why = other.look().unwrap_err();
    assert!(
        why.contains("k3s.service") && why.contains("containerd.service, kubelet.service"),
        "{why}"
    );
}

#[test]
fn an_agent_without_journalctl_finds_and_serves_the_kubelets_log_of_the_journal() {
    let node = Node::new();
    fs::remove_file(node.path("root/var/log/kubelet.log")).unwrap();
    let file = format!("root/var/log/journal/{MACHINE}/system.journal");
    put("before", &node.path(&file));
    let mut agent = node.command(&["--no-spool"]);
    // No `journalctl` is in the path, as in an image that is built from scratch.
    let _agent = super::Running(agent.env("PATH", "/no/such").spawn().unwrap());
    let wanted = wanted("before").len();
    block_on(async {
        let mut reached = connected(&node.socket()).await;
        let of_kubelet = |all: &[(bool, Observation)]| {
            let its = all.iter().filter(|(_, o)| o.source == Source::Kubelet);
            its.count()
        };
        served(&mut reached, SubscribeRequest::default(), |all| {
            of_kubelet(all) == wanted
        })
        .await;
        let agent = info(&node.socket()).await.agent.unwrap();
        let log = agent.findings.iter().find(|f| f.what == "kubelet log");
        let log = log.unwrap();
        assert!(
            log.there && log.found == "the journal of unit kubelet, in /var/log/journal",
            "{log:?}"
        );
    });
}
