//! `kflow tui`: the terminal over live sources.

mod metrics;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::args::live::TuiArgs;
use kflow_engine::Cluster;
use kflow_engine::Snapshot;
use kflow_engine::live::{Config, Live, Look, Sought};
use kflow_engine::record::{Ended, Options as RecordOptions, State};
use kflow_model::clock;
use kflow_model::{Body, Nanos, Observation, Text};
use kflow_tui::backend::{Answer, Backend, Done, Drive};
use kflow_tui::replay::{is_about, is_error, pod_uid, told};
use kflow_tui::run::run;

/// `kflow tui`
pub(super) fn tui(args: &TuiArgs) -> anyhow::Result<u8> {
    anyhow::ensure!(
        args.at.is_none(),
        "--at is a moment of a recording: name one with --session or --store, or leave --at out"
    );
    super::flow::take_map(None)?;
    let options = super::replay::options(args.theme.clone());
    let mut config = Config {
        traces: super::traces::store(&args.traces)?,
        ..super::live::config(&args.live, None)?
    };
    super::live::search(&mut config, &args.live);
    super::live::since(&mut config, args.since.as_deref())?;
    let whole = config.scope.as_ref().is_some_and(|s| s.node.is_none());
    let looks = whole && !args.live.no_agent;
    config.agents = looks.then(|| Look::new(args.live.agents()));
    let mut driver = Running {
        cluster: Cluster::start(config)?,
        folder: args.record_dir.clone(),
    };
    if let Some(at) = args.metrics {
        metrics::serve(at, driver.cluster.main())?;
    }
    run(&mut driver, &options)?;
    quit(&mut driver.cluster)
}

/// Stops the engine. Closes a running recording properly, and reports its result.
fn quit(cluster: &mut Cluster) -> anyhow::Result<u8> {
    let say = super::live::stderr_log();
    let open = cluster.live().recording().filter(|r| r.ended.is_none());
    if let Some(r) = &open {
        say(&format!("closing the recording {}", r.path.display()));
    }
    let last = cluster.stop();
    super::traces::conclude(cluster.main());
    let Some(State {
        path,
        observations,
        ended,
        ..
    }) = last.filter(|_| open.is_some())
    else {
        return Ok(super::OK);
    };
    let path = path.display();
    match ended {
        Some(Ended::Closed) => {
            say(&format!("recorded {observations} observations to {path}"));
            Ok(super::OK)
        }
        Some(Ended::Failed(why)) => anyhow::bail!("{why}"),
        None => anyhow::bail!("{path} is still not written: its disk is too slow"),
    }
}

/// Longest time that the terminal waits for a recording to be closed.
const CLOSING: Duration = Duration::from_secs(1);

/// The terminal's message about a seek.
fn said(sought: Sought) -> Result<String, String> {
    match sought {
        Sought::Shown => Ok(String::new()),
        Sought::Coming => Ok("the picture of that moment is being made".to_owned()),
        Sought::Busy => Err("the picture of another moment is still being made".to_owned()),
    }
}

/// A live engine that serves the terminal's requests.
struct Running {
    cluster: Cluster,
    folder: PathBuf,
}

impl Running {
    /// The run that is shown.
    fn live(&self) -> &Live {
        self.cluster.live()
    }
    fn live_mut(&mut self) -> &mut Live {
        self.cluster.live_mut()
    }
    fn freeze(&mut self) -> String {
        self.live_mut().freeze();
        "frozen; sources go on (End follows)".to_owned()
    }

    fn open(&mut self, node: &str) -> Result<String, String> {
        self.cluster.open(node).map_err(|e| e.to_string())?;
        Ok(format!(
            "{node} is open: its agent is listened to until it is left (esc in this pane)"
        ))
    }

    fn record(&mut self, now: Nanos) -> Result<String, String> {
        if self.live().recording().is_some_and(|r| r.ended.is_none()) {
            let Some(s) = self.live().stop_recording(CLOSING) else {
                return Ok(String::new());
            };
            let path = s.path.display();
            return match s.ended {
                Some(Ended::Closed) => Ok(format!(
                    "recorded {} observations to {path}",
                    s.observations
                )),
                Some(Ended::Failed(why)) => Err(why),
                None => Ok(format!(
                    "{path} is still being written, and closes by itself"
                )),
            };
        }
        let name = now.to_rfc3339().replace(':', "-");
        let name = name.split('.').next().unwrap_or_default();
        let path = self.folder.join(format!("{name}.kflow.zst"));
        let shown = path.display().to_string();
        self.live()
            .record(RecordOptions {
                path,
                max_size: None,
                pod: None,
                node: Text::default(),
            })
            .map_err(|e| e.to_string())?;
        Ok(format!("recording to {shown}"))
    }
}

impl Backend for Running {
    fn snapshot(&mut self, _now: Instant) -> Arc<Snapshot> {
        self.cluster.snapshot()
    }

    fn drive(&mut self, request: Drive, _now: Instant) -> Result<Answer, String> {
        self.ask(request).map(Answer::Done)
    }
}

impl Running {
    /// Does what the user requested. Returns the result as a message, or why it is impossible.
    fn ask(&mut self, request: Drive) -> Result<Done, String> {
        let (found, what, forward) = match request {
            Drive::PlayPause => {
                if self.live().follows() {
                    return Ok(self.freeze().into());
                }
                self.live_mut().follow();
                return Ok(Done::default());
            }
            Drive::Freeze => return Ok(self.freeze().into()),
            Drive::Follow => {
                self.live_mut().follow();
                return Ok(Done::default());
            }
            Drive::Speed(_) => return Err("what runs has its own speed".into()),
            Drive::Seek(to) => {
                return said(self.live_mut().seek(to.min(clock::now()))).map(Done::from);
            }
            Drive::Note { at, text } => {
                self.live().note(at, &text);
                return Ok("noted; a recording will have it".to_owned().into());
            }
            Drive::Record => return self.record(clock::now()).map(Done::from),
            Drive::Open(node) => return self.open(&node).map(Done::from),
            Drive::Leave => {
                let Some(node) = self.cluster.leave() else {
                    return Err("no node is open".to_owned());
                };
                return Ok(format!("left {node}: its agent is listened to no more").into());
            }
            Drive::Abreast(owner) => {
                let looked = self.cluster.look_abreast(owner);
                return looked.map(|()| Done::default()).map_err(|e| e.to_string());
            }
            Drive::Stop { .. } => return Err("what runs has no tour".into()),
            Drive::Reconnect if self.live().reconnect() => {
                return Ok(
                    "waiting for a moment without open calls; the tap's line says what came of it"
                        .to_owned()
                        .into(),
                );
            }
            Drive::Reconnect => {
                return Err("only the eBPF tap can make clients connect anew, and it is not used here (--tap ebpf)".into());
            }
            Drive::Step { forward } => (
                self.live_mut().step(forward, |_| true),
                "observation",
                forward,
            ),
            Drive::StepPod { pod, forward } => {
                let key = self.key(&pod);
                let about = |o: &_| is_about(o, &pod, &key);
                (
                    self.live_mut().step(forward, about),
                    "change of this pod",
                    forward,
                )
            }
            Drive::Error { pod, forward } => {
                let named = pod.map(|p| (self.key(&p), p));
                let overview = Arc::clone(&self.live().snapshot().overview);
                let wanted = |o: &Observation| {
                    is_error(o)
                        && named.as_ref().is_none_or(|(key, p)| is_about(o, p, key))
                        && !overview.is_harmless(o, pod_uid(o))
                };
                let found = self.live_mut().step(forward, wanted);
                if matches!(found, Some(Sought::Shown)) {
                    return Ok(told(&self.live().snapshot(), wanted));
                }
                (found, "error", forward)
            }
            Drive::Mark => {
                let note = |o: &kflow_model::Observation| matches!(o.body, Body::Note(_));
                (self.live_mut().step(true, note), "note", true)
            }
        };
        match found {
            Some(sought) => said(sought).map(Done::from),
            None => {
                let side = if forward { "after" } else { "before" };
                Ok(format!("there is no {what} {side} this").into())
            }
        }
    }

    fn key(&self, pod: &kflow_model::PodUid) -> String {
        let world = Arc::clone(&self.live().snapshot().world);
        world.pod(pod).map(|p| p.key()).unwrap_or_default()
    }
}
