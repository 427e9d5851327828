//! The terminal's driver over a session that is played.

use std::sync::Arc;
use std::time::Instant;

use super::backend::{Backend, Drive};
use kflow_core::diagnose::unknown::outside;
use kflow_core::query::{Field, Record as _};
use kflow_engine::Snapshot;
use kflow_engine::replay::Player;
use kflow_model::log::Severity;
use kflow_model::{Body, Observation, PodUid};

/// A player that takes the terminal's requests.
#[derive(Debug)]
pub struct Replay {
    player: Player,
}

impl Replay {
    /// Plays a session.
    pub const fn new(player: Player) -> Self {
        Self { player }
    }
    pub const fn player(&mut self) -> &mut Player {
        &mut self.player
    }
    /// Moves to the next (or previous) observation that `wanted` accepts. False when there is none.
    fn find(&mut self, forward: bool, wanted: impl Fn(&Observation) -> bool) -> bool {
        let all = self.player.all();
        // `position` counts what was seen: the newest seen observation is the one before it.
        let here = self.player.position();
        let found = if forward {
            (here..all.len()).find(|n| all.get(*n).is_some_and(|o| wanted(o)))
        } else {
            (0..here.saturating_sub(1))
                .rev()
                .find(|n| all.get(*n).is_some_and(|o| wanted(o)))
        };
        let Some(n) = found else { return false };
        self.player.step(n as isize + 1 - here as isize);
        true
    }
}

/// True for what a person would call an error: a failed call, a warning of Kubernetes, an error in a log, a loss.
pub fn is_error(o: &Observation) -> bool {
    match &o.body {
        Body::CallEnd(c) => c.code.is_some_and(|c| c != 0),
        Body::Event(e) => e.warning && !e.listed,
        Body::Log(l) => l.severity > Severity::Warning,
        Body::Audit(a) => a.code >= 500,
        Body::Gap(_) | Body::ClockStep(_) => true,
        _ => false,
    }
}

/// True when an observation names the pod.
pub fn is_about(o: &Observation, uid: &PodUid, key: &str) -> bool {
    o.text(Field::Id, &mut |v| v == uid.as_str()) || o.text(Field::Pod, &mut |v| v == key)
}

impl Backend for Replay {
    fn snapshot(&mut self, now: Instant) -> Arc<Snapshot> {
        self.player.tick(now);
        self.player.snapshot()
    }
    fn drive(&mut self, request: Drive, now: Instant) -> Result<String, String> {
        let none = |found: bool, what: &str, forward: bool| {
            if found {
                String::new()
            } else {
                format!(
                    "there is no {what} {}",
                    if forward { "after this" } else { "before this" }
                )
            }
        };
        match request {
            Drive::PlayPause => {
                let playing = self.player.playing();
                self.player.set_playing(!playing);
                self.player.tick(now);
            }
            Drive::Freeze => {}
            Drive::Speed(permille) => {
                self.player.set_speed(permille);
            }
            Drive::Seek(to) => {
                self.player.seek(to);
                let whole = self.player.report().is_some();
                let range = whole.then(|| self.player.range());
                let outside = range.and_then(|r| outside(Some(r), to));
                return Ok(outside.map(|u| u.why).unwrap_or_default());
            }
            Drive::Follow => self.player.seek_end(),
            Drive::Step { forward } => self.player.step(if forward { 1 } else { -1 }),
            Drive::StepPod { pod, forward } => {
                let found = self.player.step_pod(Some(&pod), forward);
                return Ok(none(found, "change of this pod", forward));
            }
            Drive::Error { pod, forward } => {
                let world = Arc::clone(&self.player.snapshot().world);
                let named = pod.map(|u| {
                    let key = world.pod(&u).map(|p| p.key()).unwrap_or_default();
                    (u, key)
                });
                let wanted = |o: &Observation| {
                    is_error(o) && named.as_ref().is_none_or(|(u, k)| is_about(o, u, k))
                };
                let found = self.find(forward, wanted);
                let what = if named.is_some() {
                    "error of this pod"
                } else {
                    "error"
                };
                return Ok(none(found, what, forward));
            }
            Drive::Mark => {
                let found = self.find(true, |o| matches!(o.body, Body::Note(_)))
                    || (self.player.position() > 0 && {
                        self.player.seek(self.player.range().0);
                        self.find(true, |o| matches!(o.body, Body::Note(_)))
                    });
                return Ok(none(found, "note", true));
            }
            Drive::Note { at, text } => {
                self.player.seek(at);
                self.player.note(&text).map_err(|e| e.to_string())?;
                return Ok("note saved".to_owned());
            }
            Drive::Record => return Err("this is a recording already".to_owned()),
        }
        Ok(String::new())
    }
}
