//! The critical path of a start: what the start waited for at each instant.
//!
//! Each instant from the pod's creation until it is Ready belongs to one [`Piece`], so the lengths add up to the whole.
//! A piece is a step that worked, or a wait of a named kind: a time in which no step of the pod worked, because
//! something else (another pull, a timer, a loop, a program) had to happen first.

use std::collections::BinaryHeap;

mod reason;

use super::{Outcome, Span, SpanIndex, Timeline};
use crate::correlate::PodView;
use crate::flow::{self, Stage};
use kflow_model::cri::method;
use kflow_model::pod::PodPhase;
use kflow_model::units::duration;
use kflow_model::{Body, Nanos, Text};

/// The step that ends a start: the kubelet sends a status with `Ready=True`.
const STATUS: &str = "SetPodStatus";

/// The step in which the kubelet waits for a pod's volumes, which its volume manager mounts.
const WAIT: &str = "WaitForAttachAndMount";

/// `podAttachAndMountRetryInterval` (pkg/kubelet/volumemanager/volume_manager.go).
const MOUNT_POLL_NS: i64 = 300_000_000;

/// What the start waited for in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Blocker {
    /// A step worked.
    Step,
    /// The program of an init container ran.
    InitContainer,
    /// The pull waited in the queue behind other pulls.
    Queue,
    /// A back-off timer ran after a failure.
    BackOff,
    /// A polling loop had not looked again yet: the kubelet's relist, or its volume manager.
    Poll,
    /// All containers ran, but one was not ready: its startup or readiness probe had not passed.
    Probe,
    /// A scheduling gate or a readiness gate was closed.
    Gate,
    /// No span shows what happened.
    Unknown,
}

impl Blocker {
    /// The name used in every format.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::InitContainer => "init-container",
            Self::Queue => "queue",
            Self::BackOff => "back-off",
            Self::Poll => "poll",
            Self::Probe => "probe",
            Self::Gate => "gate",
            Self::Unknown => "unknown",
        }
    }
    /// True for a wait: no step of the pod worked, and the reason is known.
    pub const fn is_wait(self) -> bool {
        !matches!(self, Self::Step | Self::InitContainer | Self::Unknown)
    }
    /// Returns the blocker of a step's own time, without the steps inside it.
    fn of(step: &Span) -> Self {
        match step.step.as_str() {
            super::RUN => Self::InitContainer,
            "completeWork" | "ImagePullBackOff" | "CrashLoopBackOff" => Self::BackOff,
            "Relist" => Self::Poll,
            "startupProbe" | "readinessProbe" => Self::Probe,
            "SchedulingGates" | "readinessGates" => Self::Gate,
            _ => Self::Step,
        }
    }
}

/// A part of the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub blocker: Blocker,
    /// The span that decided, or that a wait belongs to; `None` for [`Blocker::Unknown`].
    pub span: Option<SpanIndex>,
    pub start: Nanos,
    pub end: Nanos,
}

impl Piece {
    /// Length, ns.
    pub fn ns(&self) -> i64 {
        self.end.since(self.start).max(0)
    }
}

/// How far a start has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reached {
    /// The pod became Ready.
    Ready,
    /// The pod is not Ready yet.
    NotYet,
    /// The pod ended, or its deletion began, before it was Ready.
    Never,
    /// Unknown whether the pod became Ready: its start lies before the recording, or no source shows it.
    Unseen,
}

/// The critical path of one start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Critical {
    /// In order of time; each piece begins where the one before ends.
    pub pieces: Vec<Piece>,
    pub reached: Reached,
}

impl Critical {
    /// Returns the length of the whole path, ns: the sum of the pieces.
    pub fn ns(&self) -> i64 {
        self.pieces.iter().map(Piece::ns).sum()
    }
    /// Returns a length (ns) as a fraction of the whole, 0 to 1.
    pub fn share(&self, ns: i64) -> f64 {
        match self.ns() {
            0 => 0.0,
            whole => ns as f64 / whole as f64,
        }
    }
    /// Returns the lines of a listing: a line for each piece of a hundredth of the whole or longer, and one line for
    /// each run of shorter pieces.
    pub fn lines(&self) -> Vec<Line> {
        let whole = self.ns();
        let mut lines: Vec<Line> = Vec::new();
        for (i, piece) in self.pieces.iter().enumerate() {
            if piece.ns().saturating_mul(100) >= whole {
                lines.push(Line::Piece(i));
                continue;
            }
            match lines.last_mut() {
                Some(Line::Short(_, to)) => *to = i + 1,
                _ => lines.push(Line::Short(i, i + 1)),
            }
        }
        for line in &mut lines {
            // A single short piece has a line of its own.
            if let Line::Short(from, to) = *line
                && to - from == 1
            {
                *line = Line::Piece(from);
            }
        }
        lines
    }
    /// Returns one line: `Ready after 1m05s: 47.0s queue of pulls [c], 17.9s PullImage [c], 0.41s other`
    pub fn headline(&self, t: &Timeline) -> String {
        if self.ns() == 0 {
            // Only the API is known, whose times of creation and readiness are whole seconds.
            return match self.reached {
                Reached::Ready => "Ready within the second of its creation".to_owned(),
                Reached::NotYet => "just created".to_owned(),
                Reached::Never => "never Ready".to_owned(),
                Reached::Unseen => "its start was not seen".to_owned(),
            };
        }
        let whole = duration(self.ns());
        let mut text = match self.reached {
            Reached::Ready => format!("Ready after {whole}"),
            Reached::NotYet => format!("not Ready after {whole}"),
            Reached::Never => format!("never Ready in {whole}"),
            Reached::Unseen => format!("seen for {whole}, not whether it became Ready"),
        };
        let shares = self.shares(t);
        // A tenth of the whole or more is worth naming, and at most three such parts.
        let large = |s: &&Share<'_>| s.ns.saturating_mul(10) >= self.ns();
        let mut left = self.ns();
        let mut parts: Vec<String> = Vec::new();
        for share in shares.iter().filter(large).take(3) {
            left -= share.ns;
            parts.push(format!("{} {}", duration(share.ns), share.words()));
        }
        if left > 0 && !parts.is_empty() {
            parts.push(format!("{} other", duration(left)));
        }
        if !parts.is_empty() {
            text.push_str(": ");
            text.push_str(&parts.join(", "));
        }
        text
    }
    /// Sums the pieces by blocker, step and container, the longest sum first.
    pub fn shares<'t>(&self, t: &'t Timeline) -> Vec<Share<'t>> {
        let mut all: Vec<Share<'t>> = Vec::new();
        for piece in &self.pieces {
            let span = piece.span.and_then(|i| t.spans.get(i as usize));
            let same = |s: &&mut Share<'t>| {
                s.blocker == piece.blocker && s.span.map(Share::key) == span.map(Share::key)
            };
            match all.iter_mut().find(same) {
                Some(share) => share.ns += piece.ns(),
                None => all.push(Share {
                    blocker: piece.blocker,
                    span,
                    failed: span.and_then(|s| failed(t, piece.blocker, s)),
                    ns: piece.ns(),
                }),
            }
        }
        all.sort_by_key(|s| std::cmp::Reverse(s.ns));
        all
    }
}

/// A line in the listing of a critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The piece with this index.
    Piece(usize),
    /// A run of short pieces: the first index, and the index after the last.
    Short(usize, usize),
}

impl Line {
    fn pieces<'p>(&self, path: &'p Critical) -> &'p [Piece] {
        let (from, to) = match *self {
            Self::Piece(i) => (i, i + 1),
            Self::Short(from, to) => (from, to),
        };
        path.pieces.get(from..to).unwrap_or_default()
    }
    pub fn start(&self, path: &Critical) -> Nanos {
        self.pieces(path)
            .first()
            .map(|p| p.start)
            .unwrap_or_default()
    }
    pub fn end(&self, path: &Critical) -> Nanos {
        self.pieces(path).last().map(|p| p.end).unwrap_or_default()
    }
    /// Length, ns.
    pub fn ns(&self, path: &Critical) -> i64 {
        self.pieces(path).iter().map(Piece::ns).sum()
    }
    /// Returns the stages of the line's spans, `image` or `api..admit`; empty without a span.
    pub fn stages(&self, path: &Critical, t: &Timeline) -> String {
        let stages = || {
            let spans = self.pieces(path).iter().filter_map(|p| p.span);
            spans.filter_map(|i| Some(t.spans.get(i as usize)?.stage))
        };
        match (stages().min(), stages().max()) {
            (Some(a), Some(b)) if a != b => format!("{a}..{b}"),
            (Some(a), _) => a.name().to_owned(),
            (None, _) => String::new(),
        }
    }
    /// Describes the line in words.
    pub fn words(&self, path: &Critical, t: &Timeline) -> String {
        self.of(path, |i| words(t, path, i))
    }
    /// [`Self::words`] for a narrow column: without why something failed.
    pub fn label(&self, path: &Critical, t: &Timeline) -> String {
        self.of(path, |i| {
            let piece = path.pieces.get(i);
            let span = piece.and_then(|p| t.spans.get(p.span? as usize));
            match (piece, span) {
                (Some(piece), Some(s)) => kind(piece.blocker, s, None),
                _ => words(t, path, i),
            }
        })
    }
    fn of(&self, path: &Critical, words: impl Fn(usize) -> String) -> String {
        match *self {
            Self::Piece(i) => words(i),
            Self::Short(from, to) => {
                let longest = (from..to).max_by_key(|i| path.pieces.get(*i).map(Piece::ns));
                let what = longest.map(words).unwrap_or_default();
                format!("{} short pieces, the longest {what}", to - from)
            }
        }
    }
}

/// The time of one step, or of one kind of wait, in the whole path.
#[derive(Clone, Copy, Debug)]
pub struct Share<'t> {
    pub blocker: Blocker,
    /// The first of its spans.
    pub span: Option<&'t Span>,
    /// The step that failed before a back-off.
    failed: Option<&'t Span>,
    pub ns: i64,
}

impl Share<'_> {
    /// Describes the share in words.
    pub fn words(&self) -> String {
        self.span.map_or_else(
            || "no span".to_owned(),
            |s| kind(self.blocker, s, self.failed),
        )
    }
    fn key(s: &Span) -> (Stage, &Text, &Text) {
        (s.stage, &s.step, &s.container)
    }
}

/// Returns the critical path until the pod became Ready, or until `now` while it is not Ready; `None` without spans.
///
/// The path is walked from its end backwards. At each moment the innermost open span decides, of several the one that
/// began last; a time without an open span is unknown.
pub fn path(pod: &PodView, now: Nanos) -> Option<Critical> {
    let t = &pod.timeline;
    let ended = t.stage(Stage::Ready).and_then(|s| s.end).map(|e| e.at);
    let terminated = t.stage(Stage::Terminate).map(|s| s.start.at);
    let over = terminated.or(pod.gone).filter(|at| *at <= now);
    let steps = || t.spans.iter().filter(|s| s.stage != Stage::Terminate);
    let last = || steps().filter_map(|s| s.end).map(|e| e.at).max();
    let (end, ready) = match pod.became_ready {
        Some(e) => (ended.unwrap_or(e.at), Some(Reached::Ready)),
        None if ended.is_some() || pod.phase.is_over() => (ended.or(last()).unwrap_or(now), None),
        None => match over {
            Some(at) => (at, None),
            // The pod runs, and may have become Ready unseen before the observations begin.
            None if pod.current.is_none() => (last().unwrap_or(now), None),
            None => (now, Some(Reached::NotYet)),
        },
    };
    let unknown = || {
        if seen_from_begin(pod) {
            Reached::Never
        } else {
            Reached::Unseen
        }
    };
    let reached = ready.unwrap_or_else(unknown);
    let inits = pod.containers.iter().filter(|c| c.init && !c.sidecar);
    let inits: Vec<&Text> = inits.map(|c| &c.name).collect();
    let mut pieces = partition(t, &inits, end)?;
    // After a sidecar's start the kubelet goes on only once its next relist has seen the sidecar run
    // (computeInitContainerActions, kuberuntime_container.go).
    let sidecar = |s: &Span| {
        pod.containers
            .iter()
            .any(|c| c.sidecar && c.name == s.container)
    };
    let mut before: Option<SpanIndex> = None;
    for piece in &mut pieces {
        let step = before.and_then(|i| t.spans.get(i as usize));
        let started = step.is_some_and(|s| s.step == method::START_CONTAINER && sidecar(s));
        if piece.blocker == Blocker::Unknown && started {
            piece.blocker = Blocker::Poll;
            piece.span = before;
        }
        before = piece.span;
    }
    Some(Critical { pieces, reached })
}

/// True for a pod that the API showed as Pending: a watch would have shown that it became Ready.
fn seen_from_begin(pod: &PodView) -> bool {
    let first = pod.evidence.iter().find_map(|e| match &e.body {
        Body::Pod(p) => Some(p),
        _ => None,
    });
    first.is_some_and(|p| p.status.phase == PodPhase::Pending && p.deletion.is_none())
}

/// Returns the pieces from the first span until `end`. `inits` are the pod's init containers without sidecars.
fn partition(t: &Timeline, inits: &[&Text], end: Nanos) -> Option<Vec<Piece>> {
    let begin = t.spans.first()?.start.at;
    let mut walk = Walk::new(t, inits, end);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut at = end;
    // Each turn goes back to the start or to the end of a span.
    while at > begin {
        let (span, from) = match walk.innermost(at) {
            // The parent decides back to the end of its last child, and the child before that.
            Some(i) => (Some(i), walk.before(at, i)),
            None => (None, walk.idle(at, begin)),
        };
        let from = from.max(begin).min(at);
        let blocker = walk.blocker(span, from, at);
        match pieces.last_mut() {
            Some(last) if last.span == span && last.blocker == blocker => last.start = from,
            _ => pieces.push(Piece {
                blocker,
                span,
                start: from,
                end: at,
            }),
        }
        if from == at {
            break;
        }
        at = from;
    }
    pieces.retain(|p| p.ns() > 0);
    pieces.reverse();
    mounts(t, &mut pieces);
    Some(pieces)
}

/// Finds the volume manager's back-off in the wait for volumes: the time from a failed attempt at a volume until the
/// next (exponential, 500 ms to 2 min 2 s: pkg/util/goroutinemap/exponentialbackoff). The failed attempt becomes the
/// span of that time.
fn mounts(t: &Timeline, pieces: &mut [Piece]) {
    let attempt = |(i, s): (SpanIndex, &Span)| {
        let attempts = s.stage == Stage::Volumes && s.step != WAIT && !s.is_stage();
        let mut lines = s.evidence.iter().filter_map(|o| match &o.body {
            Body::Log(l) => flow::line(l)?.name("volume").map(Text::from),
            _ => None,
        });
        Some((s.end.filter(|_| attempts)?.at, i, lines.next()?))
    };
    let mut attempts: Vec<_> = (0..).zip(&t.spans).filter_map(attempt).collect();
    attempts.sort();
    let failed = |i: SpanIndex| {
        let outcome = t.spans.get(i as usize).map(|s| s.outcome);
        outcome == Some(Outcome::Error)
    };
    let mut attempts = attempts.into_iter().peekable();
    // The newest attempt at each volume, in the order in which they ended.
    let mut newest: Vec<(SpanIndex, Text)> = Vec::new();
    for piece in pieces {
        while let Some((_, i, volume)) = attempts.next_if(|(end, ..)| *end <= piece.start) {
            newest.retain(|(_, v)| *v != volume);
            newest.push((i, volume));
        }
        let step = piece.span.and_then(|i| t.spans.get(i as usize));
        if piece.blocker == Blocker::Step
            && step.is_some_and(|s| s.step == WAIT)
            && let Some((i, _)) = newest.iter().rfind(|(i, _)| failed(*i))
        {
            piece.blocker = Blocker::BackOff;
            piece.span = Some(*i);
        }
    }
}

/// Returns the step whose failure a back-off followed.
fn failed<'t>(t: &'t Timeline, blocker: Blocker, s: &'t Span) -> Option<&'t Span> {
    if blocker != Blocker::BackOff {
        return None;
    }
    if s.outcome == Outcome::Error {
        return Some(s);
    }
    let before = |x: &&Span| {
        (x.outcome == Outcome::Error || x.is_timed_out())
            && (x.stage, &x.container) == (s.stage, &s.container)
            && !x.is_stage()
            && x.end.is_some_and(|e| e.at <= s.start.at)
    };
    // That a volume did not come in time says less than why.
    let telling = |x: &&Span| (x.step != WAIT, x.end, x.start);
    t.spans.iter().filter(before).max_by_key(telling)
}

/// The rank of a candidate, the largest decides: depth, then the later start, then the lower index.
type Rank = (usize, Nanos, std::cmp::Reverse<SpanIndex>);

/// The spans that can decide, for the walk from the end backwards.
struct Walk<'t> {
    t: &'t Timeline,
    /// Spans that the walk has not reached, sorted by their end.
    to_come: Vec<(Nanos, Rank)>,
    /// Spans that ended at or after the walk's moment; some of them began after it and are dropped when they come up.
    on: BinaryHeap<Rank>,
    /// The tap saw calls of this pod.
    tapped: bool,
    /// The ends of all spans, sorted.
    ends: Vec<Nanos>,
    /// For each span the ends of its children, sorted.
    children: Vec<Vec<Nanos>>,
}

impl<'t> Walk<'t> {
    fn new(t: &'t Timeline, inits: &[&Text], end: Nanos) -> Self {
        // An init container's run delays the next container, a main container's run delays nothing. Where the API does
        // not show which are init containers, a run counts as one if another container starts after its end.
        let last_start = t
            .spans
            .iter()
            .filter(|s| s.step == method::START_CONTAINER)
            .map(|s| (s.start.at, &s.container));
        let last_start: Vec<(Nanos, &Text)> = last_start.collect();
        let starts_after = |s: &Span| {
            s.end.is_some_and(|e| {
                last_start
                    .iter()
                    .rev()
                    .take_while(|(at, _)| *at >= e.at)
                    .any(|(_, container)| **container != s.container)
            })
        };
        let mut depths: Vec<usize> = Vec::with_capacity(t.spans.len());
        let mut children: Vec<Vec<Nanos>> = vec![Vec::new(); t.spans.len()];
        let mut to_come = Vec::new();
        let mut ends = Vec::new();
        for (i, s) in (0..).zip(&t.spans) {
            // The parent's depth is known, as a parent comes before its children.
            let above = s.parent.and_then(|p| depths.get(p as usize));
            // The status step lasts from the last start until readiness. Every other step in that
            // time decides before it.
            let depth = if s.step == STATUS {
                0
            } else {
                above.map_or(1, |d| d + 1)
            };
            depths.push(depth);
            let decides = s.stage != Stage::Terminate
                && !s.is_stage()
                && s.start.at < end
                && (!s.is_run() || inits.contains(&&s.container) || starts_after(s));
            if !decides {
                continue;
            }
            let until = s.end.map_or(end, |e| e.at.min(end));
            to_come.push((until, (depth, s.start.at, std::cmp::Reverse(i))));
            if let Some(e) = s.end {
                ends.push(e.at);
                if let Some(c) = s.parent.and_then(|p| children.get_mut(p as usize)) {
                    c.push(e.at);
                }
            }
        }
        to_come.sort_unstable();
        ends.sort_unstable();
        for ends in &mut children {
            ends.sort_unstable();
        }
        Self {
            t,
            to_come,
            tapped: t.spans.iter().any(|s| s.call.is_some()),
            on: BinaryHeap::new(),
            ends,
            children,
        }
    }
    /// Returns the span that decides just before `at`, which has to fall from call to call.
    fn innermost(&mut self, at: Nanos) -> Option<SpanIndex> {
        while let Some((_, rank)) = self.to_come.pop_if(|(end, _)| *end >= at) {
            self.on.push(rank);
        }
        while let Some((_, start, std::cmp::Reverse(i))) = self.on.peek() {
            if *start < at {
                return Some(*i);
            }
            self.on.pop();
        }
        None
    }
    /// Returns the moment from which on a span decides until `at`.
    fn before(&self, at: Nanos, span: SpanIndex) -> Nanos {
        let step = self.t.spans.get(span as usize);
        let start = step.map_or(at, |s| s.start.at);
        let inside = match step {
            Some(s) if s.step == STATUS => Some(&self.ends),
            _ => self.children.get(span as usize),
        };
        let child = inside.and_then(|ends| last_before(ends, at));
        child.map_or(start, |e| e.max(start))
    }
    /// Returns the moment since which no span was open before `at`.
    fn idle(&self, at: Nanos, begin: Nanos) -> Nanos {
        last_before(&self.ends, at).unwrap_or(begin)
    }
    fn blocker(&self, span: Option<SpanIndex>, from: Nanos, until: Nanos) -> Blocker {
        let Some((i, s)) = span.and_then(|i| Some((i, self.t.spans.get(i as usize)?))) else {
            return Blocker::Unknown;
        };
        let steps = || self.t.spans.iter().filter(|c| c.parent == Some(i));
        let mut pulls = steps().filter(|c| c.step == method::PULL_IMAGE);
        match s.step.as_str() {
            // The kubelet requested the image, but the pull began later: serializeImagePulls, maxParallelImagePulls.
            "EnsureImageExists" if pulls.clone().any(|c| c.start.at >= until) => Blocker::Queue,
            // The pod's calls are visible, and there is no pull yet.
            "EnsureImageExists" if s.end.is_none() && self.tapped && pulls.next().is_none() => {
                Blocker::Queue
            }
            // The volume manager checks every 300 ms whether all is mounted (podAttachAndMountRetryInterval,
            // volume_manager.go). This is the time from the last mount to that check; a longer time is a volume that is
            // still missing.
            WAIT if s.end.is_some_and(|e| e.at <= until)
                && s.outcome == Outcome::Ok
                && until.since(from) <= MOUNT_POLL_NS
                && steps().any(|c| c.end.is_some_and(|e| e.at <= from)) =>
            {
                Blocker::Poll
            }
            // All containers run, and one is not ready.
            STATUS if s.end.is_none() => Blocker::Probe,
            _ => Blocker::of(s),
        }
    }
}

fn last_before(sorted: &[Nanos], at: Nanos) -> Option<Nanos> {
    let n = sorted.partition_point(|e| *e < at);
    sorted.get(n.checked_sub(1)?).copied()
}

/// Describes a piece in words.
pub fn words(t: &Timeline, path: &Critical, index: usize) -> String {
    let Some(piece) = path.pieces.get(index) else {
        return String::new();
    };
    let Some(s) = piece.span.and_then(|i| t.spans.get(i as usize)) else {
        return unknown(t, path, index, piece);
    };
    kind(piece.blocker, s, failed(t, piece.blocker, s))
}

/// Describes a step's time in words: `PullImage [web]`,
/// `back-off of the pod worker after create failed [web]: secret "db" not found`. `failed` is the step that failed
/// before a back-off.
pub(super) fn kind(blocker: Blocker, s: &Span, failed: Option<&Span>) -> String {
    let of = if s.container.is_empty() {
        String::new()
    } else {
        format!(" [{}]", s.container)
    };
    match blocker {
        Blocker::Step | Blocker::Unknown => format!("{}{of}", s.step),
        Blocker::InitContainer => format!("init container{of} ran"),
        Blocker::Queue => format!("queue of pulls{of}"),
        Blocker::BackOff => {
            let what = match (s.stage, s.step.as_str()) {
                (stage, "completeWork") => {
                    let after = match s.code.as_str() {
                        "" => stage.name(),
                        code => code,
                    };
                    format!("back-off of the pod worker after {after} failed")
                }
                (Stage::Volumes, step) => {
                    format!("back-off of the volume manager after {step} failed")
                }
                (_, step) => step.to_owned(),
            };
            match failed.map(|s| reason::of(&s.message)).as_deref() {
                None | Some("") => format!("{what}{of}"),
                Some(why) => format!("{what}{of}: {why}"),
            }
        }
        Blocker::Poll if s.step == "Relist" => format!("until the next relist{of}"),
        Blocker::Poll if s.step == method::START_CONTAINER => {
            format!("until the kubelet saw{of} run")
        }
        Blocker::Poll => "until the volume manager looked again".to_owned(),
        Blocker::Probe if s.step == STATUS => match (s.code.as_str(), s.message.as_str()) {
            ("", "") => "until it is Ready".to_owned(),
            (code, "") => format!("until it is Ready: {code}"),
            (_, message) => format!("until it is Ready: {message}"),
        },
        Blocker::Probe => format!("until the {} passes{of}", s.step),
        Blocker::Gate => format!("{} {}", s.step, s.message),
    }
}

/// Describes a piece without a span: what lies before and after it, and why nothing is known.
fn unknown(t: &Timeline, path: &Critical, index: usize, piece: &Piece) -> String {
    let step = |i: Option<usize>| {
        let piece = path.pieces.get(i?)?;
        let s = t.spans.get(piece.span? as usize)?;
        Some(kind(Blocker::Step, s, None))
    };
    let between = match (step(index.checked_sub(1)), step(Some(index + 1))) {
        (Some(a), Some(b)) => format!(" between {a} and {b}"),
        (Some(a), None) => format!(" after {a}"),
        (None, Some(b)) => format!(" before {b}"),
        (None, None) => String::new(),
    };
    let gap = t
        .gaps
        .iter()
        .find(|g| g.start < piece.end && g.end.is_none_or(|e| e > piece.start));
    match gap {
        Some(gap) => format!("no span{between}: {}", gap.why),
        None => format!("no span{between}"),
    }
}

#[cfg(test)]
mod tests;
