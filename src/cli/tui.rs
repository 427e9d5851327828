//! `kflow tui`: the terminal over a running engine, or over a recording.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;

use super::args::live::TuiArgs;
use super::input::parse_time;
use crate::clock;
use crate::engine::live::Live;
use crate::engine::record::Options as RecordOptions;
use crate::engine::replay::Start;
use crate::engine::{Player, Snapshot};
use crate::model::{Body, Nanos, Text};
use crate::tui::config::Environment;
use crate::tui::driver::{Drive, Driver};
use crate::tui::replay::{Replay, is_about, is_error};
use crate::tui::run::{Options, run};

/// `kflow tui`
pub(super) fn tui(args: &TuiArgs) -> anyhow::Result<u8> {
    let options = options(args);
    if let Some(path) = &args.input.session {
        let mut player = Player::open(path, Start::Begin)?;
        if let Some(at) = &args.input.at {
            let (begin, end) = player.range();
            match parse_time(at, begin, end) {
                Some(t) => player.seek(t),
                None => bail!("--at {at:?} is not a time: write RFC 3339, -5m or +90s"),
            }
        }
        run(&mut Replay::new(player), options)?;
        return Ok(super::OK);
    }
    if args.input.at.is_some() {
        bail!("--at needs a recording: --session FILE");
    }
    let mut driver = Running {
        live: Live::start(super::live::config(&args.live)?)?,
        folder: args.record_dir.clone(),
    };
    run(&mut driver, options)?;
    // A recording is closed, not cut.
    driver.live.stop();
    Ok(super::OK)
}

fn options(args: &TuiArgs) -> Options {
    let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    let under = |name: &str, home: &str| {
        var(name)
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(var("HOME")?).join(home)))
            .map(|dir| dir.join("kflow"))
    };
    let zone = match var("TZ") {
        Some(name) if name.starts_with('/') => PathBuf::from(name),
        Some(name) => PathBuf::from("/usr/share/zoneinfo").join(name.trim_start_matches(':')),
        None => PathBuf::from("/etc/localtime"),
    };
    Options {
        config: under("XDG_CONFIG_HOME", ".config").map(|d| d.join("config.toml")),
        theme: args.theme.clone(),
        environment: Environment {
            no_color: var("NO_COLOR"),
            colorterm: var("COLORTERM"),
            term: var("TERM"),
            locale: var("LC_ALL")
                .or_else(|| var("LC_CTYPE"))
                .or_else(|| var("LANG")),
        },
        // Without it times are shown in UTC.
        zone: std::fs::read(zone).unwrap_or_default(),
        state: under("XDG_STATE_HOME", ".local/state").map(|d| d.join("layout")),
        pane: None,
    }
}

/// A live engine that takes the terminal's requests.
struct Running {
    live: Live,
    folder: PathBuf,
}

impl Running {
    fn record(&mut self, now: Nanos) -> Result<String, String> {
        if self.live.recording().is_some_and(|r| r.stopped.is_none()) {
            let ended = self.live.stop_recording();
            return Ok(ended.map_or_else(String::new, |s| {
                format!(
                    "recorded {} observations to {}",
                    s.observations,
                    s.path.display()
                )
            }));
        }
        let name = now.to_rfc3339().replace(':', "-");
        let name = name.split('.').next().unwrap_or_default();
        let path = self.folder.join(format!("{name}.kflow.zst"));
        let shown = path.display().to_string();
        self.live
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

impl Driver for Running {
    fn snapshot(&mut self, _now: Nanos) -> Arc<Snapshot> {
        self.live.snapshot()
    }

    fn drive(&mut self, request: Drive, now: Nanos) -> Result<String, String> {
        let (found, what, forward) = match request {
            Drive::PlayPause => {
                if self.live.follows() {
                    self.live.freeze();
                    return Ok("frozen; sources go on (End follows)".into());
                }
                self.live.follow();
                return Ok(String::new());
            }
            Drive::Follow => {
                self.live.follow();
                return Ok(String::new());
            }
            Drive::Speed(_) => return Err("what runs has its own speed".into()),
            Drive::Seek(to) => {
                self.live.seek(to.min(clock::now()));
                return Ok(String::new());
            }
            Drive::Note { at, text } => {
                self.live.note(at, &text);
                return Ok("noted; a recording will have it".into());
            }
            Drive::Record => return self.record(now),
            Drive::Step { forward } => (self.live.step(forward, |_| true), "observation", forward),
            Drive::StepPod { pod, forward } => {
                let key = self.key(&pod);
                let about = |o: &_| is_about(o, &pod, &key);
                (
                    self.live.step(forward, about),
                    "change of this pod",
                    forward,
                )
            }
            Drive::Error { pod, forward } => {
                let named = pod.map(|p| (self.key(&p), p));
                let wanted = |o: &_| {
                    is_error(o) && named.as_ref().is_none_or(|(key, p)| is_about(o, p, key))
                };
                (self.live.step(forward, wanted), "error", forward)
            }
            Drive::Mark => {
                let note = |o: &crate::model::Observation| matches!(o.body, Body::Note(_));
                (self.live.step(true, note), "note", true)
            }
        };
        if found {
            Ok(String::new())
        } else {
            let side = if forward { "after" } else { "before" };
            Ok(format!("there is no {what} {side} this"))
        }
    }
}

impl Running {
    fn key(&self, pod: &crate::model::PodUid) -> String {
        let world = Arc::clone(&self.live.snapshot().world);
        world.pod(pod).map(|p| p.key()).unwrap_or_default()
    }
}
