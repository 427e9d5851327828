//! `--debug-pod`: an agent on one node that runs for the duration of a command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::runtime::Runtime;

use super::agent::install::client_of;
use super::args::live::{Debugged, LiveArgs};
use super::args::{Command, Input};
use super::out;
use kflow_agent::debug::{DebugPod, UNWATCHED, Wanted};
use kflow_export::text::clean as shown;
use kflow_model::clock;
use kflow_model::units::wait;

/// Longest wait for the agent's pod, which may have to pull an image.
const PATIENCE: Duration = Duration::from_secs(180);

/// Set by SIGINT while there is a Job.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// An error once SIGINT came, so that the command ends and its Job goes. tokio takes the signal for the whole process.
pub(super) fn check() -> anyhow::Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// The Job of an agent, deleted when this is dropped.
pub(super) struct Debugging {
    runtime: Runtime,
    debug: DebugPod,
}

impl Drop for Debugging {
    fn drop(&mut self) {
        let what = self.debug.what();
        let what = shown(&what);
        match self.runtime.block_on(self.debug.end()) {
            Ok(()) => out::tell(&format!("deleted {what}")),
            Err(e) => out::tell(&format!(
                "{e}. It ends by itself in {}, and the cluster deletes it then",
                wait(UNWATCHED)
            )),
        }
    }
}

/// Starts the agent that `--debug-pod` requests, and makes the command use only this one.
pub(super) fn start<'a>(command: &'a mut Command) -> anyhow::Result<Option<Debugging>> {
    let of = |input: &'a mut Input| (&mut input.live, input.session.is_some());
    let (live, recorded) = match command {
        Command::Why(a) => of(&mut a.input),
        Command::Timeline(a) => of(&mut a.input),
        Command::Export(a) => of(&mut a.input),
        Command::Calls(a) => of(&mut a.input),
        Command::Requests(a) => of(&mut a.input),
        Command::Flow(a) => of(&mut a.input),
        Command::Stats(a) => of(&mut a.input),
        Command::Tui(a) => (&mut a.live, a.session.is_some()),
        Command::Record(a) => (&mut a.live, false),
        Command::Doctor(a) => (&mut a.live, false),
        _ => return Ok(None),
    };
    // With a recording, the command itself refuses the flag.
    let Some(image) = live.debug_pod.clone().filter(|_| !recorded) else {
        return Ok(None);
    };
    let started = run(live, image)?;
    live.debugged = Some(Debugged {
        namespace: started.debug.namespace().to_owned(),
        labels: started.debug.labels(),
    });
    Ok(Some(started))
}

fn run(live: &LiveArgs, image: String) -> anyhow::Result<Debugging> {
    let Some(node) = live.scope.node.clone() else {
        bail!("--debug-pod starts an agent on one node: name it with --node");
    };
    if live.no_api {
        bail!("--debug-pod asks the apiserver for a Job: leave --no-api out");
    }
    let runtime = super::runtime()?;
    // The name contains the time; the apiserver refuses a name that exists.
    let name = format!("kflow-debug-{:x}", clock::now().0);
    let debug = runtime.block_on(async {
        let client = client_of(live.kubeconfig.as_deref(), live.context.as_deref()).await?;
        let namespace = live.agent_namespace.clone();
        let wanted = Wanted {
            namespace: namespace.unwrap_or_else(|| client.default_namespace().to_owned()),
            node,
            image,
        };
        anyhow::Ok(DebugPod::create(client, wanted, &name).await?)
    })?;
    note_interrupts().context("cannot wait for signals")?;
    out::tell(&format!("created {}", shown(&debug.what())));
    // Dropping this deletes the Job when its pod does not start.
    let debugging = Debugging { runtime, debug };
    let progress = |why: &str| out::tell(&format!("waiting for its pod: {}", shown(why)));
    debugging.runtime.block_on(async {
        tokio::select! {
            ready = debugging.debug.ready(PATIENCE, progress) => Ok(ready?),
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    })?;
    Ok(debugging)
}

/// Has a thread note SIGINT; it ends with the process.
fn note_interrupts() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let note = move || {
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
    };
    let thread = std::thread::Builder::new().name("kflow-interrupt".into());
    thread.spawn(note).map(drop)
}
