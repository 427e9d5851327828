//! What happens again and again (containers that end, readiness that comes and goes), and when that counts as over.
//!
//! The kubelet restarts a container after 10 s, 20 s, … 5 min, and begins anew when ten minutes have passed without a
//! restart ([`FORGOTTEN_NS`]): until then the container's next exit makes the wait longer. So an exit counts as over
//! after ten minutes. It counts as over sooner when the container has run (the pod has been ready) for twice as long
//! as it ever did before it failed.

use super::{ContainerHistory, Exit, KillWhy, PodHistory, Turn};
use crate::backoff::FORGOTTEN_NS;
use crate::diagnose::Recurrence;
use crate::diagnose::signal::Signal;
use crate::timeline::{Outcome, Span};
use kflow_model::cri::method;
use kflow_model::pod::Condition;
use kflow_model::{
    Nanos,
    pod::{ContainerState, ContainerStatus, PodSeen, WatchEvent},
    stamp::SECOND,
};

/// The shortest time that can end a recurrence, ns: the kubelet syncs every pod at least this often (`syncFrequency`,
/// 1 min).
const PROOF_NS: i64 = 60 * SECOND;

/// The exit code of a container whose end its runtime has not seen (containerd `internal/cri/server/restart.go`,
/// `unknownExitCode`; dockerd's is the same).
const LOST: i32 = 255;
/// containerd's reason for it (same file, `unknownExitReason`). A container that ends with 255 by itself has `Error`.
const LOST_REASON: &str = "Unknown";

/// True when a state that has lasted `ns` has lasted long enough to count as the end of a recurrence, in which the
/// longest such state lasted `longest`, ns.
fn outlasts(ns: i64, longest: i64) -> bool {
    ns >= longest.saturating_mul(2).clamp(PROOF_NS, FORGOTTEN_NS)
}

impl PodHistory<'_> {
    /// Reads a change of the pod's readiness from an API state.
    pub(super) fn turn_of(&mut self, at: Nanos, p: &PodSeen) {
        let condition = p.condition("Ready");
        let ready = condition.is_some_and(Condition::is_true);
        let restarts: u32 = p.statuses().map(|s| s.restarts).sum();
        let before: u32 = self.containers.iter().map(|c| c.restarts).sum();
        // A pod that a list shows first was ready before: since its condition changed, which kubectl does not print, or else at the
        // earliest since its newest container started.
        let is_first = self.turns.is_empty() && p.event == WatchEvent::Listed;
        let started = || p.statuses().flat_map(ContainerStatus::starts).max();
        let since = condition.and_then(|c| c.transition).or_else(started);
        let at = since.filter(|_| is_first).unwrap_or(at);
        let stands = |s: &ContainerState| !matches!(s, ContainerState::Running { .. });
        let ended =
            !ready && (restarts > before || p.status.containers.iter().any(|s| stands(&s.state)));
        self.turn(Turn { at, ready, ended });
    }
    /// Adds a change of readiness, when it is one. A pod begins as not ready.
    pub(super) fn turn(&mut self, turn: Turn) {
        if self.turns.last().is_some_and(|t| t.ready) != turn.ready {
            self.turns.push(turn);
        }
    }
    /// Takes the ends of runs from the timeline, which also has ends without an exit code.
    pub(super) fn ends_of_runs(&mut self) {
        let (view, now) = (self.view, self.now);
        // A failed start is an attempt too; the runtime may report an exit of the same attempt.
        let failed = |s: &Span| s.step == method::START_CONTAINER && s.outcome == Outcome::Error;
        let spans = view.timeline.spans.iter();
        let mut runs: Vec<&Span> = spans.filter(|s| s.is_run() || failed(s)).collect();
        // Two runs may begin in the same second, and the API gives no more than seconds.
        runs.sort_by_key(|s| (s.start.at, s.attempt));
        for s in runs {
            let c = self.container(&s.container);
            if s.is_run() {
                c.run = Some(s.end.map(|e| e.at));
            }
            if s.end.is_some() {
                let new = u32::from(c.attempt != Some(s.attempt));
                c.attempt = Some(s.attempt);
                c.ran = (c.ran.0 + new, c.ran.1.max(s.duration(now)));
            }
        }
    }
    /// Returns how often a container has ended, by the source that counts most.
    pub fn ends(&self, c: &ContainerHistory<'_>) -> u32 {
        u32::try_from(c.exits.len())
            .unwrap_or(u32::MAX)
            .max(c.ran.0)
            .max(c.restarts + u32::from(!c.runs()))
    }
    /// True when the container is ready: by the API, else by the kubelet's log; true also when neither says anything.
    fn serves(&self, c: &ContainerHistory<'_>) -> bool {
        match c.status.filter(|_| self.api.is_some()) {
            Some(s) => s.ready,
            None => c.ready_said.is_none_or(|(_, ready)| ready),
        }
    }
    /// Returns the exits of a container that ends again and again; `None` when it does not, or no longer does.
    pub fn crash_loop(&self, c: &ContainerHistory<'_>) -> Option<Recurrence> {
        if self.is_ephemeral(&c.name) {
            return None;
        }
        let recent = |t: Nanos| self.now.since(t) < FORGOTTEN_NS;
        let last = c.exits.last().filter(|e| recent(e.at))?;
        let of_late = || c.exits.iter().filter(|e| recent(e.at));
        let killed = c
            .killed
            .is_some_and(|(t, why, _)| why != KillWhy::Stop && recent(t));
        let again = of_late().count() >= 2 || c.restarts >= 2 || (killed && !self.serves(c));
        // A program that works for long and ends, as one that is no leader any more, is started again at once.
        let ended = last.code == Some(0) && !killed;
        let works = ended && c.ran.1 >= FORGOTTEN_NS && of_late().count() < 2;
        if c.runs() && (works || of_late().all(|e| self.lost(e))) {
            return None;
        }
        let is_final = self.is_init(&c.name) || self.restarts_after_success() == Some(false);
        let done = !c.runs() && last.code == Some(0) && is_final;
        let over = c.runs()
            && self.serves(c)
            && (self.is_undated()
                || c.started
                    .is_some_and(|s| outlasts(self.now.since(s), c.ran.1)));
        (again && !done && !over).then(|| self.ended(c, last.at))
    }
    /// True for a pod of a paste that does not say when it was printed: the newest time in it stands for that, so that it does not
    /// tell how long the pod has been as it is.
    fn is_undated(&self) -> bool {
        let is_newest = |p: &PodSeen| {
            p.event == WatchEvent::Listed && self.now.since(p.last_change()) <= SECOND
        };
        self.view.uid.is_described() && self.api.is_some_and(is_newest)
    }
    /// True for an end that is no failure of the container: its runtime has lost it, as by a restart of the node. containerd says so
    /// itself, of the others the kubelet's Event that the sandbox has changed does.
    fn lost(&self, exit: &Exit<'_>) -> bool {
        let after = |at: Nanos| at >= exit.at && at.since(exit.at) < FORGOTTEN_NS;
        let changed = |s: &Signal<'_>| s.reason == "SandboxChanged" && after(s.at);
        exit.code == Some(LOST) && (exit.reason == LOST_REASON || self.signals.iter().any(changed))
    }
    fn ended(&self, c: &ContainerHistory<'_>, last: Nanos) -> Recurrence {
        Recurrence {
            times: self.ends(c),
            first: c.exits.first().map_or(last, |e| e.at),
            last,
            up: c.started.filter(|_| c.runs()),
        }
    }
    /// Returns the changes to not ready of a pod whose readiness comes and goes; `None` when it does not,
    /// or no longer does.
    pub fn flapping(&self) -> Option<Recurrence> {
        let r = self.unready()?;
        let last = self.turns.last()?;
        // The state of now ends the recurrence once it has outlasted all earlier times of the same state.
        let longest = self
            .turns
            .windows(2)
            .filter_map(|w| match w {
                [a, b] if a.ready == last.ready => Some(b.at.since(a.at)),
                _ => None,
            })
            .max()
            .unwrap_or(0);
        (r.times >= 2 && !outlasts(self.now.since(last.at), longest)).then_some(r)
    }
    /// Returns the changes to not ready in the last ten minutes that no exit of a container explains.
    fn unready(&self) -> Option<Recurrence> {
        let downs = || {
            self.turns
                .iter()
                .filter(|t| !t.ready && !t.ended && self.now.since(t.at) < FORGOTTEN_NS)
        };
        let (first, last) = (downs().next()?, downs().next_back()?);
        Some(Recurrence {
            times: u32::try_from(downs().count()).unwrap_or(u32::MAX),
            first: first.at,
            last: last.at,
            up: self.turns.last().filter(|t| t.ready).map(|t| t.at),
        })
    }
    /// Returns the past troubles of a pod that is well: the container that ended most often and its exits, else
    /// (without a container) the pod's changes to not ready.
    pub fn past(&self) -> Option<(Option<&ContainerHistory<'_>>, Recurrence)> {
        let ends = self
            .containers
            .iter()
            .filter(|c| !self.is_ephemeral(&c.name) && self.failed_before(c))
            .filter_map(|c| Some((c, c.exits.last()?.at)))
            .max_by_key(|(c, _)| {
                // An init container ends well in the end, and again whenever the pod's sandbox is made anew.
                let is_done = self.is_initial(&c.name) && !c.runs();
                (self.ends(c).saturating_sub(u32::from(is_done)), !is_done)
            });
        match ends {
            Some((c, last)) => Some((Some(c), self.ended(c, last))),
            None => Some((None, self.unready()?)),
        }
    }
    /// True when the container ended and was started again; a container that is stopped because the pod
    /// is done was not.
    fn failed_before(&self, c: &ContainerHistory<'_>) -> bool {
        c.restarts > 0 || (c.runs() && !c.exits.is_empty())
    }
    /// Returns since when the pod is well: ready, or its containers running.
    pub fn well_since(&self) -> Option<Nanos> {
        let ready = self
            .api
            .and_then(|p| p.condition("Ready"))
            .filter(|c| c.is_true());
        let turned = self.turns.last().filter(|t| t.ready).map(|t| t.at);
        let ready = ready.and_then(|c| c.transition.or(turned));
        let runs = self.containers.iter().filter(|c| c.runs());
        // The API shows later than the runtime that a container ended and was started again.
        ready.max(runs.filter_map(|c| c.started).max())
    }
}
