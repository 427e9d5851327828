//! The terminal's backend for a session that is played.

use std::sync::Arc;
use std::time::Instant;

use super::backend::{Answer, Backend, Done, Drive};
use super::describe;
use super::writer::Job;
use kflow_core::diagnose::unknown::outside;
use kflow_core::query::{Field, Record as _};
use kflow_engine::Snapshot;
use kflow_engine::replay::Player;
use kflow_model::log::Severity;
use kflow_model::{Body, Observation, PodUid};

/// A player as a [`Backend`].
#[derive(Debug)]
pub struct Replay {
    player: Player,
}

impl Replay {
    pub const fn new(player: Player) -> Self {
        Self { player }
    }
    pub const fn player(&mut self) -> &mut Player {
        &mut self.player
    }
    /// Moves to the next or previous observation that `wanted` accepts; returns false if there is none.
    fn find(&mut self, forward: bool, mut wanted: impl FnMut(&Observation) -> bool) -> bool {
        let all = self.player.all();
        // `position` is the number of observations seen, so the newest seen one has the index before it.
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

/// Returns true for what a user would call an error: a failed call, a warning Event, an error in a log, a loss of
/// observations, a jump of the clock.
pub fn is_error(o: &Observation) -> bool {
    match &o.body {
        Body::CallEnd(c) => c.code.is_some_and(|c| c != 0),
        Body::Event(e) => e.warning && !e.listed,
        Body::Log(l) => l.severity > Severity::Warning,
        Body::Audit(a) => a.code >= 500,
        Body::Gap(g) => g.is_loss(),
        Body::ClockStep(_) => true,
        _ => false,
    }
}

/// Returns true if an observation names the pod, by UID or by `namespace/name`.
pub fn is_about(o: &Observation, uid: &PodUid, key: &str) -> bool {
    o.text(Field::Id, &mut |v| v == uid.as_str()) || o.text(Field::Pod, &mut |v| v == key)
}

/// Returns the UID of the pod that an observation names.
pub fn pod_uid(o: &Observation) -> Option<&str> {
    let uid = match &o.body {
        Body::Pod(p) => p.uid.as_str(),
        Body::Event(e) if e.object.kind == "Pod" => e.object.uid.as_str(),
        Body::CallStart(c) => c.subject.pod.uid.as_str(),
        Body::CallEnd(c) => c.subject.pod.uid.as_str(),
        Body::Log(l) => l.pod.uid.as_str(),
        _ => "",
    };
    (!uid.is_empty()).then_some(uid)
}

/// Returns the newest wanted observation of a snapshot as a line, and the pod that it is about.
pub fn told(snap: &Snapshot, is_wanted: impl Fn(&Observation) -> bool) -> Done {
    let Some(o) = snap.log.iter().rev().find(|o| is_wanted(o)) else {
        return Done::default();
    };
    let by_call = || match &o.body {
        Body::CallEnd(c) => {
            let mut calls = snap.world.calls().iter().rev();
            Some(calls.find(|x| x.key == c.key)?.pod_uid.clone())
        }
        _ => None,
    };
    let by_name = || {
        let name = describe::pod(o);
        Some(snap.world.find(&name).first()?.uid.clone())
    };
    let uid = pod_uid(o).map(PodUid::from);
    let known = |u: PodUid| snap.world.pod(&u).cloned();
    let pod = uid.and_then(known);
    let pod = pod.or_else(|| by_call().and_then(known));
    let pod = pod.or_else(|| by_name().and_then(known));
    // An observation without a pod is taken to be about the pod of the only incident at that time.
    let by_incident = || {
        let i = snap.overview.only(o.stamp.seen)?;
        Some(i.verdict.uid.clone())
    };
    let pod = pod.or_else(|| by_incident().and_then(known));
    let (line, _) = describe::line(o);
    let said = match &pod {
        Some(p) if !line.contains(p.name.as_str()) => format!("{}: {line}", p.key()),
        _ => line,
    };
    Done {
        said,
        pod: pod.map(|p| p.uid.clone()),
    }
}

/// Formats the number of errors that were skipped because no incident covers them.
pub fn without_harm(n: usize) -> String {
    match n {
        0 => String::new(),
        1 => " (1 that nothing suffered from was passed)".to_owned(),
        n => format!(" ({n} that nothing suffered from were passed)"),
    }
}

impl Backend for Replay {
    fn snapshot(&mut self, now: Instant) -> Arc<Snapshot> {
        self.player.tick(now);
        self.player.snapshot()
    }
    fn drive(&mut self, request: Drive, now: Instant) -> Result<Answer, String> {
        let none = |found: bool, what: &str, forward: bool| {
            if found {
                Done::default()
            } else {
                let side = if forward { "after this" } else { "before this" };
                Done::from(format!("there is no {what} {side}"))
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
                let why = outside.map(|u| u.why).unwrap_or_default();
                return Ok(Answer::Done(why.into()));
            }
            Drive::Follow => self.player.seek_end(),
            Drive::Step { forward } => self.player.step(if forward { 1 } else { -1 }),
            Drive::StepPod { pod, forward } => {
                let found = self.player.step_pod(Some(&pod), forward);
                return Ok(Answer::Done(none(found, "change of this pod", forward)));
            }
            Drive::Error { pod, forward } => {
                let world = Arc::clone(&self.player.snapshot().world);
                let named = pod.map(|u| {
                    let key = world.pod(&u).map(|p| p.key()).unwrap_or_default();
                    (u, key)
                });
                let overview = Arc::clone(self.player.overview());
                let about = |o: &Observation| {
                    is_error(o) && named.as_ref().is_none_or(|(u, k)| is_about(o, u, k))
                };
                let mut harmless = 0;
                let found = self.find(forward, |o| {
                    let counts = about(o);
                    let passed = counts && overview.is_harmless(o, pod_uid(o));
                    harmless += usize::from(passed);
                    counts && !passed
                });
                if found {
                    return Ok(Answer::Done(told(&self.player.snapshot(), about)));
                }
                let what = if named.is_some() {
                    "error of this pod"
                } else {
                    "error"
                };
                let mut done = none(false, what, forward);
                done.said.push_str(&without_harm(harmless));
                return Ok(Answer::Done(done));
            }
            Drive::Mark => {
                let found = self.find(true, |o| matches!(o.body, Body::Note(_)))
                    || (self.player.position() > 0 && {
                        self.player.seek(self.player.range().0);
                        self.find(true, |o| matches!(o.body, Body::Note(_)))
                    });
                return Ok(Answer::Done(none(found, "note", true)));
            }
            Drive::Note { at, text } => {
                self.player.seek(at);
                let Some(append) = self.player.note(&text) else {
                    let said = "noted until you quit: this session is no file that a note could be saved into";
                    return Ok(Answer::Done(said.to_owned().into()));
                };
                return Ok(Answer::Write(Job::new("the note", move || {
                    append
                        .save()
                        .map(|()| "note saved".to_owned())
                        .map_err(|e| format!("the note is not saved: {e}"))
                })));
            }
            Drive::Open(_) | Drive::Leave => {
                return Err("a recording has all that it has: no agent is connected to".to_owned());
            }
            Drive::Reconnect => {
                return Err("a recording has no clients that could connect anew".to_owned());
            }
            // A recording's world has everything already.
            Drive::Abreast(_) => {}
            Drive::Stop { at, .. } => self.player.seek(at),
            Drive::Record => return Err("this is a recording already".to_owned()),
        }
        Ok(Answer::Done(Done::default()))
    }
}
