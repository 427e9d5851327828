//! `kflow proxy`, `record`, `doctor`: what looks at something that runs.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::signal::unix::{SignalKind, signal};

use super::args::Format;
use super::args::live::{ControlArgs, DoctorArgs, LiveArgs, ProxyArgs, RecordArgs};
use super::gather::{Notice, notices};
use super::{out, scope};
use crate::doctor::{self, Check, Health};
use kflow_core::correlate::Retention;
use kflow_core::diagnose::unknown::{self, Asked, Unknown};
use kflow_cri::Decoder;
use kflow_engine::Snapshot;
use kflow_engine::live::{Config, Control, FAILED, KubeletLog, Live};
use kflow_engine::record::{CLOSE, Ended, Options, State};
use kflow_export::text::clean;
use kflow_model::gap::Failure;
use kflow_model::log::Component;
use kflow_model::redact;
use kflow_model::{Scope, Source, Text};
use kflow_proxy::{Log, Proxy};

/// Where the proxy serves observations unless told otherwise.
const OBSERVATIONS: &str = "/run/kflow/observations.sock";

#[expect(clippy::print_stderr, reason = "the log of a service")]
pub(super) fn stderr_log() -> Log {
    Arc::new(|line: &str| eprintln!("kflow: {}", clean(&redact::text(line))))
}

/// Waits for SIGINT or SIGTERM, or for a time.
pub(super) fn wait(
    most: Option<Duration>,
    mut each: impl FnMut() -> bool,
) -> anyhow::Result<&'static str> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot wait for signals")?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let end = async {
            match most {
                Some(d) => tokio::time::sleep(d).await,
                None => std::future::pending().await,
            }
        };
        let mut end = std::pin::pin!(end);
        loop {
            tokio::select! {
                _ = terminate.recv() => return Ok("terminated"),
                _ = interrupt.recv() => return Ok("interrupted"),
                () = end.as_mut() => return Ok("the time is over"),
                () = tokio::time::sleep(Duration::from_millis(500)) => if !each() {
                    return Ok("");
                },
            }
        }
    })
}

/// `kflow proxy`
pub(super) fn proxy(args: &ProxyArgs) -> anyhow::Result<u8> {
    let config = kflow_proxy::Config {
        serve: (!args.no_serve).then(|| args.serve.clone()),
        ring_bytes: usize::try_from(args.ring_size).unwrap_or(usize::MAX),
        ring_age: args.ring_age,
        drain: args.drain,
        ..kflow_proxy::Config::new(&args.listen, &args.upstream)
    };
    let log = stderr_log();
    let proxy = Proxy::start(&config, Box::new(Decoder::new()), &log)?;
    let why = wait(None, || true)?;
    log(&format!("{why}: closing connections as their calls end"));
    proxy.stop();
    Ok(super::OK)
}

/// This machine's name for itself.
fn hostname() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

/// The unit that this machine's kubelet runs in.
fn own_unit() -> String {
    doctor::kubelet::unit(Path::new("/")).to_owned()
}

/// What the arguments ask for; `pod` is the pod that is asked about, if it is one.
pub(super) fn config(args: &LiveArgs, pod: Option<&str>) -> anyhow::Result<Config> {
    let host = hostname();
    let looked_at = scope::of_cluster(args, pod)?;
    let selection = scope::selection(&looked_at)?;
    let node = args.scope.node.as_deref();
    let here = args.local
        || node.is_some_and(|n| n.eq_ignore_ascii_case(&host) || host.split('.').next() == Some(n));
    let scope = (!args.no_api).then_some(looked_at);
    let found = here
        .then(|| doctor::runtime_socket(Path::new("/")))
        .flatten();
    let kubelet_log = match args.kubelet_log.as_deref() {
        None if here => KubeletLog::Journal(own_unit()),
        None if node.is_some() && scope.is_some() => KubeletLog::Remote,
        None | Some("off") => KubeletLog::Off,
        Some("-") => KubeletLog::Stdin,
        Some("journal") => KubeletLog::Journal(own_unit()),
        Some("remote") if node.is_none() || scope.is_none() => {
            bail!("--kubelet-log remote needs --node, and an apiserver to ask")
        }
        Some("remote") => KubeletLog::Remote,
        Some(other) => match other.strip_prefix("journal:") {
            Some(unit) => KubeletLog::Journal(unit.to_owned()),
            None => KubeletLog::File(PathBuf::from(other)),
        },
    };
    let named = [
        (Source::Cri, args.proxy.is_some()),
        (Source::Runtime, args.runtime.is_some()),
        (Source::Kubelet, args.kubelet_log.is_some()),
        (Source::Metrics, args.kubelet.is_some()),
        (Source::Fs, false),
    ];
    Ok(Config {
        scope,
        selection,
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
        proxy: args
            .proxy
            .clone()
            .or_else(|| here.then(|| PathBuf::from(OBSERVATIONS))),
        runtime: args.runtime.clone().or(found),
        kubelet_log,
        kubelet: args.kubelet.clone(),
        kubelet_root: here.then(|| args.kubelet_root.clone()),
        control: control(&args.control),
        keep: retention(args),
        guessed: named
            .into_iter()
            .filter_map(|(source, named)| (!named).then_some(source))
            .collect(),
        ..Config::nothing()
    })
}

fn retention(args: &LiveArgs) -> Retention {
    let usual = Retention::default();
    let age = args.keep_gone.map(|d| i64::try_from(d.as_nanos()));
    Retention {
        age_ns: age.map_or(usual.age_ns, |ns| ns.unwrap_or(i64::MAX)),
        pods: args.keep_gone_pods.unwrap_or(usual.pods),
        ..usual
    }
}

fn control(args: &ControlArgs) -> Control {
    let logs = [
        (Component::Apiserver, &args.apiserver_log),
        (Component::Scheduler, &args.scheduler_log),
        (Component::ControllerManager, &args.controller_manager_log),
        (Component::Containerd, &args.containerd_log),
    ];
    Control {
        otlp: args.otlp.clone(),
        audit_webhook: args.audit_webhook,
        listen_anywhere: args.listen_anywhere,
        audit_logs: args.audit_log.clone(),
        logs: logs
            .into_iter()
            .flat_map(|(c, paths)| paths.iter().map(move |p| (c, p.clone())))
            .collect(),
        scrape: !args.no_scrape,
    }
}

/// What `record` has said of its sources, so that each thing is said once, and again when it comes back.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    fn tell(&mut self, snapshot: &Snapshot, log: &Log) {
        let works = snapshot.sources.iter().filter(|s| s.is_on()).map(|s| {
            let key = format!("{} {}: on", s.source.name(), s.name);
            let text = format!("{key} ({})", s.detail());
            Notice { key, text }
        });
        let all: Vec<Notice> = works.chain(notices(snapshot)).collect();
        for n in all.iter().filter(|n| !self.0.contains(&n.key)) {
            log(&n.text);
        }
        self.0 = all.into_iter().map(|n| n.key).collect();
    }
}

/// `kflow record`
pub(super) fn record(args: &RecordArgs) -> anyhow::Result<u8> {
    let log = stderr_log();
    let config = config(&args.live, args.pod.as_deref())?;
    let scope = config.scope.clone();
    let mut live = Live::start(config)?;
    live.record(Options {
        path: args.output.clone(),
        max_size: args.max_size,
        pod: args.pod.clone(),
        node: Text::default(),
    })?;
    log(&format!("recording to {}", args.output.display()));
    let mut told = Told::default();
    let why = wait(args.duration, || {
        told.tell(&live.snapshot(), &log);
        live.recording().is_none_or(|r| r.ended.is_none()) && !live.failed()
    })?;
    let failed = live.failed();
    let ended = live.stop();
    if failed {
        bail!(FAILED);
    }
    match ended {
        Some(State {
            path, ended: None, ..
        }) => bail!(
            "{} was not closed within {}: its disk does not answer, and what was seen last may be missing",
            path.display(),
            kflow_model::units::wait(CLOSE)
        ),
        Some(State {
            ended: Some(Ended::Failed(reason)),
            ..
        }) => bail!("the recording stopped by itself: {reason}"),
        Some(s) => {
            let last = live.snapshot();
            told.tell(&last, &log);
            log(&format!(
                "{why}: {} observations, {} bytes, {} lost",
                s.observations, s.bytes, s.lost
            ));
            if let Some((left_out, unnamed)) = s.only {
                log(&format!(
                    "left out, as they are about other pods: {left_out}; recorded, though they name none of these: {unnamed}"
                ));
            }
            Ok(super::read::whole(
                missing(&last, scope.as_ref(), &s.path).as_ref(),
            ))
        }
        None => bail!("the recording was never started"),
    }
}

/// What a recording that has ended lacks of what was asked for.
fn missing(last: &Snapshot, scope: Option<&Scope>, path: &Path) -> Option<Unknown> {
    let asked = Asked {
        world: &last.world,
        at: last.now,
        scope,
        recorded: false,
    };
    let longer = "record for longer; `kflow doctor` says what works";
    if let Some(mut missing) = unknown::never_listed(asked) {
        if missing.reason == unknown::Reason::Failed(Failure::TimedOut) {
            longer.clone_into(&mut missing.help);
        }
        return Some(missing);
    }
    let silent = last.sources.iter().all(|s| s.count == 0);
    silent.then(|| Unknown {
        what: format!("what happened, and {} does not tell", path.display()),
        reason: unknown::Reason::NotRecorded,
        why: "no source gave anything".to_owned(),
        help: longer.to_owned(),
    })
}

/// `kflow doctor`
pub(super) fn doctor(args: &DoctorArgs) -> anyhow::Result<u8> {
    if args.upstream {
        let found = doctor::kubelet::upstream(&args.root)?;
        let mut out = out::stdout();
        writeln!(out, "{}", found.endpoint.display())?;
        out.flush()?;
        return Ok(super::OK);
    }
    let config = config(&args.live, None)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    let checks = runtime.block_on(doctor::examine(&args.root, &config));
    let mut out = out::stdout();
    match args.output {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &checks)?;
            writeln!(out)?;
        }
        Format::Text => write_checks(&mut out, &checks)?,
    }
    out.flush()?;
    let mut needed = checks
        .iter()
        .filter(|c| c.needed && c.health == Health::Off);
    let Some(check) = needed.next() else {
        return Ok(super::OK);
    };
    stderr_log()(&format!(
        "the pods cannot be read: {}: {}",
        check.what, check.found
    ));
    Ok(super::ERROR)
}

fn write_checks(out: &mut impl Write, checks: &[Check]) -> std::io::Result<()> {
    let width = checks.iter().map(|c| c.what.len()).max().unwrap_or(0);
    for c in checks {
        let mark = match c.health {
            Health::Works => "ok",
            Health::Warning => "!",
            Health::Off => "off",
        };
        writeln!(out, "{mark:<4}{:<width$}  {}", c.what, clean(&c.found))?;
        for line in c.todo.lines() {
            writeln!(out, "    {:<width$}  → {}", "", clean(line))?;
        }
    }
    Ok(())
}
