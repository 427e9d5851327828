//! `kflow record --since`: what an agent kept is in the recording, or the recording and the command say what is missing.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use kflow_model::gap::{Gap, Note};
use kflow_model::session::load;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, clock};
use kflow_serve::ring::{Ring, line};
use kflow_serve::service::{Host, Past};
use kflow_serve::wire::{Agent, InfoResponse, SourceState, Spool};
use rustix::process::{Pid, Signal, kill_process};

use super::forward::{Apiserver, kubeconfig};
use super::serving::Serving;
use super::{Node, block_on, command};

/// How a command begins to say what of it is missing.
const LACKS: &str = "what the node's agent kept since";

/// How an agent answers for what it kept.
enum Gives {
    /// One observation, and the rest when this other end says so or is dropped.
    Held(Mutex<mpsc::Receiver<()>>),
    /// All of it; its spool begins at this moment.
    From(Nanos),
    Nothing,
}

/// An agent that has two sources, and one observation in its ring.
struct About {
    gives: Gives,
    asked: Arc<Mutex<Vec<Nanos>>>,
}

fn note(text: &str, at: Nanos) -> Observation {
    Observation {
        stamp: Stamp::exact(at),
        source: Source::Kubelet,
        body: Body::Note(Box::new(Note { text: text.into() })),
    }
}

/// `n` minutes ago.
fn ago(n: i64) -> Nanos {
    clock::now().plus(-n * 60_000_000_000)
}

impl Host for About {
    fn info(&self) -> InfoResponse {
        let on = |kind: Source| SourceState {
            kind: kind.name().to_owned(),
            state: 1,
            ..SourceState::default()
        };
        let since = match self.gives {
            Gives::From(at) => at.0.cast_unsigned(),
            _ => 0,
        };
        InfoResponse {
            agent: Some(Agent {
                node: "node1".to_owned(),
                sources: [Source::Cri, Source::Kubelet, Source::Kube]
                    .map(on)
                    .to_vec(),
                spool: Some(Spool {
                    since,
                    ..Spool::default()
                }),
                ..Agent::default()
            }),
            now: clock::now().0.cast_unsigned(),
            ..InfoResponse::default()
        }
    }

    fn past(&self, since: Nanos, _: Nanos, give: Past<'_>) -> Result<(), String> {
        let first = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(since);
            asked.len() == 1
        };
        let mut give = |text| give(vec![line(&note(text, ago(2)))]);
        match &self.gives {
            Gives::Held(go) if first => {
                give("the first");
                // Dropped: it goes on as well.
                go.lock().unwrap().recv().ok();
                give("the second");
            }
            Gives::Held(_) => {}
            Gives::From(_) => {
                give("the first");
            }
            Gives::Nothing => return Err("its disk is broken".to_owned()),
        }
        Ok(())
    }
}

struct Served {
    _serving: Serving,
    /// The begins of the ranges that were asked for.
    asked: Arc<Mutex<Vec<Nanos>>>,
}

fn serve(at: &Path, gives: Gives) -> Served {
    let ring = Ring::new(64 << 10, Duration::from_secs(600));
    ring.push(
        &mut vec![note("of the ring", clock::now())],
        clock::monotonic(),
    );
    let asked = Arc::<Mutex<Vec<Nanos>>>::default();
    let its = Arc::clone(&asked);
    Served {
        _serving: Serving::start(at, ring, About { gives, asked: its }),
        asked,
    }
}

/// `kflow record --since -10m` as it runs.
struct Recording {
    child: Child,
    err: BufReader<ChildStderr>,
    /// What it has said.
    said: String,
    file: PathBuf,
}

impl Recording {
    fn start(node: &Node, url: &str, time: &str) -> Self {
        let file = node.path("r.kflow");
        let mut child = command()
            .args([
                "record", "--node", "node1", "--since", "-10m", "--for", time,
            ])
            .arg("--kubeconfig")
            .arg(kubeconfig(node, url))
            .arg("-O")
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let err = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            err,
            said: String::new(),
            file,
        }
    }

    /// Reads what it says until a line has this; ends with the test if none does, as its end closes the pipe.
    fn until(&mut self, wanted: &str) {
        while !self.said.contains(wanted) {
            let more = self.err.read_line(&mut self.said).unwrap();
            assert!(more > 0, "{wanted}: {}", self.said);
        }
    }

    /// Waits for its end. Returns what it said, and the notes and the gaps of the recording.
    fn end(mut self) -> (String, Vec<String>, Vec<Gap>) {
        while self.err.read_line(&mut self.said).unwrap() > 0 {}
        let code = self.child.wait().unwrap().code();
        assert_eq!(code, Some(2), "{}", self.said);
        let (mut notes, mut gaps) = (Vec::new(), Vec::new());
        for o in &load(&self.file).unwrap().observations {
            match &o.body {
                Body::Note(n) => notes.push(n.text.to_string()),
                Body::Gap(g) => gaps.push((**g).clone()),
                _ => {}
            }
        }
        (self.said, notes, gaps)
    }
}

/// Each source of the agent has a gap of that reason, and no other source has one.
fn of_each_source(gaps: &[Gap], why: &str) {
    let of: Vec<Source> = gaps.iter().map(|g| g.of).collect();
    assert_eq!(of, [Source::Cri, Source::Kubelet], "{gaps:?}");
    let all = gaps.iter().all(|g| g.why.contains(why));
    assert!(all, "{why}: {gaps:?}");
}

/// Runs a recording beside an agent, in a blocking thread.
fn with(
    gives: Option<Gives>,
    time: &'static str,
    run: impl FnOnce(&Apiserver, Option<&Served>, Recording) + Send + 'static,
) {
    let node = Node::new();
    let served = gives.map(|g| serve(&node.socket(), g));
    block_on(async {
        let agent = served.is_some().then(|| node.socket());
        let (server, url) = Apiserver::start(agent, false).await;
        let recording = Recording::start(&node, &url, time);
        let ran = move || {
            run(&server, served.as_ref(), recording);
            node
        };
        tokio::task::spawn_blocking(ran).await.unwrap();
    });
}

#[test]
fn the_time_of_a_recording_counts_once_what_the_agent_kept_has_come() {
    let (go, held) = mpsc::channel();
    with(
        Some(Gives::Held(Mutex::new(held))),
        "1ms",
        move |_, _, mut r| {
            r.until(" is asked for\n");
            r.until(" is read up to ");
            go.send(()).unwrap();
            let (said, notes, gaps) = r.end();
            assert_eq!(notes, ["the first", "the second", "of the ring"], "{said}");
            assert!(
                gaps.is_empty() && said.contains(" is read\n") && !said.contains(LACKS),
                "{gaps:?} {said}"
            );
        },
    );
}

#[test]
fn a_recording_that_is_interrupted_before_all_has_come_says_so() {
    let (go, held) = mpsc::channel::<()>();
    with(
        Some(Gives::Held(Mutex::new(held))),
        "1ms",
        move |_, _, mut r| {
            r.until(" is read up to ");
            kill_process(Pid::from_child(&r.child), Signal::INT).unwrap();
            let (said, notes, gaps) = r.end();
            drop(go);
            assert_eq!(notes, ["the first"], "{said}");
            let why = "kflow was ended before all of it was read";
            of_each_source(&gaps, why);
            assert!(said.contains(LACKS) && said.contains(why), "{said}");
        },
    );
}

#[test]
fn what_breaks_off_while_it_comes_is_a_gap_and_does_not_come_twice() {
    let (go, held) = mpsc::channel::<()>();
    with(
        Some(Gives::Held(Mutex::new(held))),
        "1m",
        move |api, served, mut r| {
            r.until(" is read up to ");
            let cut = clock::now();
            api.cut.send_modify(|n| *n += 1);
            drop(go);
            r.until(" is not all there: ");
            let served = served.unwrap();
            let again = || (served.asked.lock().unwrap().len() > 1).then_some(());
            crate::proxy::rig::eventually("it is followed on", again);
            let asked = served.asked.lock().unwrap().clone();
            // Of the time before nothing is asked for again.
            assert!(asked[1] > cut.plus(-1_000_000_000), "{asked:?}");
            r.until("cri agent: on (");
            kill_process(Pid::from_child(&r.child), Signal::INT).unwrap();
            let (said, notes, gaps) = r.end();
            assert_eq!(
                notes.first().map(String::as_str),
                Some("the first"),
                "{said}"
            );
            assert!(notes[1..].iter().all(|n| n == "of the ring"), "{notes:?}");
            let of_past: Vec<Gap> = gaps
                .into_iter()
                .filter(|g| g.why.starts_with("what the agent of the node kept"))
                .collect();
            of_each_source(&of_past, "");
            assert!(said.contains(LACKS), "{said}");
        },
    );
}

#[test]
fn what_an_agent_has_not_kept_is_a_gap_of_its_sources() {
    with(Some(Gives::Nothing), "1ms", |_, _, r| {
        let (said, notes, gaps) = r.end();
        assert_eq!(notes, ["of the ring"], "{said}");
        of_each_source(&gaps, "its disk is broken");
        assert!(said.contains("its disk is broken"), "{said}");
    });
    let begin = ago(5);
    with(Some(Gives::From(begin)), "1ms", move |_, _, r| {
        let (said, notes, gaps) = r.end();
        assert_eq!(notes, ["the first", "of the ring"], "{said}");
        let why = format!(
            "the agent of node1 keeps what it saw since {}",
            begin.to_rfc3339_seconds()
        );
        of_each_source(&gaps, &why);
        assert!(gaps[0].since < ago(9), "{gaps:?}");
        assert!(said.contains(&why), "{said}");
    });
}

#[test]
fn a_node_without_an_agent_is_a_gap_of_what_agents_have() {
    with(None, "1ms", |_, _, r| {
        let (said, _, gaps) = r.end();
        let why = "no agent of kflow on node1";
        for of in [Source::Cri, Source::Kubelet, Source::Fs, Source::Runtime] {
            let told = |g: &&Gap| g.of == of && g.why.contains(why);
            assert!(gaps.iter().any(|g| told(&g)), "{of:?}: {gaps:?}");
        }
        assert!(said.contains(LACKS), "{said}");
    });
}
