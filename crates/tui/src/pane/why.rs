//! Why the selected pod is not well: the verdict with its evidence. Enter on a line opens what the line is based on.

use std::sync::Arc;

use super::{Pane, PaneId, Reply, Written};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::shared::{Ctx, Shared};
use crate::text::{count, width};
use crate::widget::page::{self, Columns, Lead, Line, Page, line};
use crate::widget::stage;
use kflow_core::correlate::{Pod, PodView};
use kflow_core::diagnose::awaited::{Awaited, Waits};
use kflow_core::diagnose::pulls::Progress;
use kflow_core::diagnose::{About, Confidence, InFlightCall, State, Verdict, unknown};
use kflow_core::timeline::critical::{self, Reached};
use kflow_engine::Snapshot;
use kflow_engine::snapshot::Mode;
use kflow_export::why::{self, standing};
use kflow_model::cri::CallKey;
use kflow_model::units::{age, duration};
use kflow_model::{Nanos, ObjectRef, PodUid, Text};

#[derive(Debug, Default)]
pub struct Why {
    page: Page,
    verdict: Option<Arc<Verdict>>,
    /// What the pod waits for outside itself, longest first.
    awaited: Vec<Awaited>,
    /// Pods whose trouble follows from this pod, such as those whose pulls wait behind its pull, by name.
    held: Vec<Pod>,
    /// Progress of the pod's image pulls, where the runtime reports it, each with the image or the container.
    pulls: Vec<(String, Progress)>,
    /// The call in flight that the verdict names.
    flying: Option<CallKey>,
    /// Duration of the start with the three parts that took longest, and the progress of image pulls.
    start: Vec<String>,
    pod: Option<PodUid>,
    owner: Option<ObjectRef>,
    /// The view from which the verdict was made, and when: the verdict is made again when the pod
    /// changes or time passes.
    seen: Option<(Pod, Nanos)>,
}

const fn confidence(c: Confidence) -> &'static str {
    match c {
        Confidence::Certain => "certain: the failing party said so",
        Confidence::Likely => "likely: it follows from what was and was not seen",
        Confidence::Possible => "possible: other causes would fit too",
    }
}

/// Returns `Ready after 5.19s`, and the parts that took longest, such as `39%  2.00s  init container [setup] ran`.
fn start(p: &PodView, now: Nanos) -> Vec<String> {
    let path = critical::path(p, now).filter(|c| c.reached == Reached::Ready && c.ns() > 0);
    let Some(path) = path else {
        return Vec::new();
    };
    let mut lines = vec![format!("Ready after {}", duration(path.ns()))];
    let shares = path.shares(&p.timeline);
    lines.extend(shares.iter().take(3).map(|s| {
        let share = path.share(s.ns) * 100.0;
        format!("{share:>3.0}%  {:>6}  {}", duration(s.ns), s.words())
    }));
    lines
}

impl Why {
    /// Draws how a healthy pod started, below the sentence that says so.
    fn draw_start(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let (w, h) = (canvas.width(), canvas.height());
        let widest = self.start.iter().map(|l| width(l)).max().unwrap_or(0);
        let x = w.saturating_sub(widest as u16) / 2;
        for (y, line) in (h / 3 + 3..h).zip(&self.start) {
            canvas.text(x, y, line, ctx.theme.text);
        }
        let keys = (
            ctx.keys.first(Action::PaneTimeline),
            ctx.keys.first(Action::Critical),
        );
        let y = h / 3 + 4 + self.start.len() as u16;
        if y < h && !self.start.is_empty() && self.pulls.is_empty() {
            let hint = format!("{} {} shows all of it.", keys.0, keys.1);
            canvas.text(x, y, &hint, ctx.theme.faint);
        }
    }
    fn look(&mut self, snap: &Snapshot, p: &Pod) {
        // A healthy pod may have a verdict too, about what it went through.
        let known = snap.verdicts.get(&p.uid).cloned();
        self.verdict =
            known.or_else(|| kflow_core::diagnose::why(&snap.world, p, snap.now).map(Arc::new));
        self.start = start(p, snap.now);
        let bad = self.current().is_some_and(|v| !v.state.is_well());
        self.awaited = if bad {
            Waits::of(&snap.world, p, snap.now).longest()
        } else {
            Vec::new()
        };
        self.pulls = Progress::of_pod(&snap.world, p, snap.now);
        for (image, p) in &self.pulls {
            self.start.push(format!("pulls {image}"));
            self.start.push(p.text());
            let layers = p.fetching(snap.now);
            self.start
                .extend(layers.map(|(_, number, text)| format!("  layer {number}  {text}")));
        }
        let held = snap
            .verdicts
            .iter()
            .filter(|(_, v)| matches!(v.follows(), Some(About::Pod(uid)) if uid == p.uid.as_str()));
        self.held = held
            .filter_map(|(uid, _)| snap.world.pod(uid).cloned())
            .collect();
        self.held.sort_by_key(|p| p.key());
        let call = self.current().and_then(|v| v.in_flight.as_ref());
        self.flying = call.and_then(|call| {
            let mut flying = snap.world.calls().in_flight();
            let found = flying.find(|c| c.pod_uid == p.uid && c.method == call.method);
            found.map(|c| c.key)
        });
    }
    fn current(&self) -> Option<&Verdict> {
        self.verdict.as_deref()
    }
    fn draw_verdict(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, v: &Verdict) {
        let columns = Columns::one(self.lines(ctx, v, canvas.width()));
        self.page.draw(ctx, canvas, &columns);
    }
    /// Returns the lines of the verdict. Lines that lead to something can be selected.
    fn lines(&self, ctx: &Ctx<'_>, v: &Verdict, w: u16) -> Vec<Line> {
        let (t, g, now) = (ctx.theme, ctx.glyphs, ctx.snap.now);
        let room = usize::from(w.saturating_sub(2));
        let mut out = Vec::new();
        let (_, style) = stage::verdict(ctx, v.state);
        let title = line(&[
            (v.cause_id(), t.strong),
            ("  ", t.text),
            (&v.title, t.strong),
        ]);
        let mut standing = line(&[(&standing(v, now), *style)]);
        if !v.container.is_empty() {
            standing.push(" container ", t.dim);
            standing.push(v.container.as_str(), t.accent);
        }
        page::flow(ctx, vec![title, standing], w.saturating_sub(2), &mut out);
        page::wrapped(line(&[]), &v.sentence, t.text, room, &mut out);
        page::gap(&mut out);
        // A call for another pod is left to the line about what the pod waits for, which names that pod.
        if let Some(c) = v
            .in_flight
            .as_ref()
            .filter(|_| self.flying.is_some() || self.awaited.is_empty())
        {
            out.push(self.in_flight(ctx, c, room));
        }
        for (image, p) in &self.pulls {
            out.push(line(&[("pulls ", t.dim), (image, t.accent)]));
            let start = line(&[("  ", t.dim)]).to(Lead::Evidence(Arc::clone(&p.evidence)));
            page::wrapped(start, &p.text(), t.run, room, &mut out);
            page::layers(ctx, p, 2, &mut out);
        }
        for a in self.awaited.iter().take(AWAITED) {
            // What the pod waited for longest is named also when that is over.
            let ended = now.since(a.interval(now).1);
            let (label, style, mut said) = match ended {
                ..=0 => ("waits for ", t.wait, a.words(now)),
                _ => ("waited for ", t.dim, a.words(now)),
            };
            if ended > 0 {
                said.push_str(&format!(", until {} ago", age(ended)));
            }
            let start = line(&[(label, t.dim)]).to(Lead::Awaited(a.clone()));
            page::wrapped(start, &said, style, room, &mut out);
        }
        for held in self.held.iter().take(AWAITED) {
            let lead = Lead::Pod(held.key().into(), PaneId::Why);
            let start = line(&[("holds up ", t.dim)]).to(lead);
            page::wrapped(start, &held.key(), t.wait, room, &mut out);
        }
        if let Some(more) = self.held.len().checked_sub(AWAITED).filter(|n| *n > 0) {
            out.push(line(&[(&format!("and {} more", count(more)), t.dim)]));
        }
        let attempt = v.told_attempt().map(|n| format!("attempt {n}"));
        let next = v.next_retry.map(|n| match n.since(now) {
            left @ 1.. => format!("next in {}", age(left)),
            left => format!("next was due {} ago", age(-left)),
        });
        let tries: Vec<String> = attempt.into_iter().chain(next).collect();
        if !tries.is_empty() {
            out.push(line(&[(&tries.join(", "), t.wait)]));
        }
        out.push(line(&[(confidence(v.confidence), t.faint)]));
        page::gap(&mut out);
        out.push(page::head(ctx, "EVIDENCE"));
        let time = ctx.time();
        // As wide as a time of day, or as a date and time where one of them has a date.
        let wide = if v.evidence.iter().any(|p| time.is_far(p.at)) {
            19
        } else {
            15
        };
        for p in &v.evidence {
            let at = time.within(p.at, p.precision, 3, wide);
            let mut start = line(&[
                (" ", t.text),
                (&page::column(&at, usize::from(wide)), t.dim),
                (" ", t.text),
            ]);
            // The source of the evidence has a column of its own only if the pane is wide enough.
            if w >= SOURCES {
                start.push(page::column(p.source.name(), 8), t.source(p.source));
            }
            let start = start.to(match &p.evidence {
                Some(e) => Lead::Evidence(Arc::clone(e)),
                None => Lead::Say("nothing was seen: that is the evidence"),
            });
            let style = if p.evidence.is_some() { t.text } else { t.wait };
            page::wrapped(start, &p.to_string(), style, room, &mut out);
        }
        if !v.not_reached.is_empty() {
            let steps: Vec<&str> = v.not_reached.iter().map(Text::as_str).collect();
            let start = line(&[(" not reached: ", t.dim)]);
            page::wrapped(start, &steps.join(", "), t.faint, room, &mut out);
        }
        for (label, state) in [(" owner: ", &v.owner_state), (" node: ", &v.node_state)] {
            if let Some(state) = state {
                page::wrapped(line(&[(label, t.dim)]), state, t.faint, room, &mut out);
            }
        }
        if !v.next.is_empty() {
            page::gap(&mut out);
            let key = ctx.keys.first(Action::Open);
            let about = format!("{key} copies a command");
            out.push(page::heading(ctx, "NEXT", &about));
            for n in &v.next {
                let start = line(&[(" ", t.text), (g.right, t.accent), (" ", t.text)]);
                page::wrapped(start, &n.text, t.text, room, &mut out);
                if !n.command.is_empty() {
                    let command = n.of(&flags(ctx));
                    let start = line(&[("   ", t.text)]).to(Lead::Copy(command.clone()));
                    page::wrapped(start, &command, t.key, room, &mut out);
                }
            }
        }
        if !v.also.is_empty() {
            page::gap(&mut out);
            out.push(page::head(ctx, "ALSO"));
            for a in &v.also {
                let (word, style) = stage::verdict(ctx, a.state);
                let proof = a.evidence.iter().find_map(|p| p.evidence.clone());
                let start = line(&[
                    (" ", t.text),
                    (a.cause_id(), *style),
                    (" ", t.text),
                    (word, *style),
                    ("  ", t.text),
                ])
                .to(proof.map_or(Lead::None, Lead::Evidence));
                page::wrapped(start, &a.sentence, t.dim, room, &mut out);
            }
        }
        out
    }
    /// Returns a line about the call that the pod waits on, with the used share of its deadline.
    fn in_flight(&self, ctx: &Ctx<'_>, c: &InFlightCall, room: usize) -> Line {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let since = ctx.snap.now.since(c.since);
        let mut text = format!("{} in flight for {}", c.method, duration(since));
        if let Some(d) = c.deadline_ns {
            text.push_str(&format!(" of its {} deadline", duration(d)));
        }
        let mut l = line(&[(&text, t.run)]);
        let columns = room.saturating_sub(width(&text) + 3).min(GAUGE);
        if let Some(d) = c.deadline_ns.filter(|d| *d > 0 && columns >= 8) {
            let share = (since as f64 / d as f64).clamp(0.0, 1.0);
            let on = (share * columns as f64) as usize;
            l.push("  ", t.text);
            l.push(g.full.repeat(on), if share > 0.8 { t.fail } else { t.run });
            l.push(g.rule.repeat(columns - on), t.rule);
        }
        l.to(self.flying.map_or(Lead::None, Lead::Call))
    }
}

/// Limit on the pods and calls that are named as waited for.
const AWAITED: usize = 3;
/// Width from which the sources of the evidence have a column.
const SOURCES: u16 = 80;
/// Width of the gauge of a deadline, in columns.
const GAUGE: usize = 30;

impl Pane for Why {
    fn id(&self) -> PaneId {
        PaneId::Why
    }
    fn title(&self, _ctx: &Ctx<'_>) -> String {
        String::new()
    }
    fn commands(&self) -> &'static [Action] {
        &[
            Action::Open,
            Action::WhyCopy,
            Action::PaneTimeline,
            Action::NextPod,
        ]
    }
    fn sync(&mut self, snap: &Snapshot, shared: &mut Shared, size: (u16, u16)) {
        if self.pod != shared.pod || self.owner != shared.owner {
            self.pod.clone_from(&shared.pod);
            self.owner.clone_from(&shared.owner);
            self.page = Page::default();
            self.seen = None;
        }
        match shared.view(snap) {
            None => {
                self.verdict = shared.owner_verdict(snap).cloned();
                self.awaited.clear();
                self.held.clear();
                self.pulls.clear();
                self.flying = None;
            }
            Some(p) => {
                let fresh = self.seen.as_ref().is_some_and(|(pod, at)| {
                    Arc::ptr_eq(pod, p) && (0..500_000_000).contains(&snap.now.since(*at))
                });
                if !fresh {
                    self.seen = Some((Arc::clone(p), snap.now));
                    self.look(snap, p);
                }
            }
        }
        let ctx = page::unstyled(snap, shared);
        let lines = self.current().map(|v| self.lines(&ctx, v, size.0));
        let columns = Columns::one(lines.unwrap_or_default());
        self.page.fit(&columns, size.1);
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.page.handle(command.action) {
            return Reply::Done;
        }
        match command.action {
            Action::Open => super::follow(self.page.lead().cloned(), snap, shared),
            Action::WhyCopy => match self.copy(snap, shared) {
                Some(t) => Reply::Copy(t),
                None => Reply::Say("there is no verdict to copy".to_owned()),
            },
            Action::WhySave => match (self.copy(snap, shared), self.current()) {
                (Some(text), Some(v)) => Reply::Write(Written {
                    about: kflow_export::why::subject(v),
                    ending: "md",
                    text,
                }),
                _ => Reply::Say("there is no verdict to write".to_owned()),
            },
            _ => Reply::Ignored,
        }
    }
    fn hidden(&self) -> Option<(usize, usize)> {
        let drawn = |v: &Verdict| says_more(v) || !v.state.is_well();
        self.current().filter(|v| drawn(v))?;
        Some(self.page.hidden())
    }
    fn click(&mut self, x: u16, y: u16, _snap: &Snapshot, _shared: &mut Shared) -> bool {
        self.page.click(x, y)
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let Some(p) = ctx.shared.view(ctx.snap) else {
            if let Some(v) = self.current() {
                return self.draw_verdict(ctx, canvas, v);
            }
            return super::no_pod(ctx, canvas);
        };
        // A pod of former Events alone is gone by its verdict.
        let gone = p.gone.is_some() || self.current().is_some_and(|v| v.state == State::Gone);
        // "Nothing is wrong" may be said only if no source that could tell is missing.
        let unknown = unknown::known(ctx.snap.asked(), p).filter(|_| !gone);
        match self.current() {
            Some(v) if unknown.is_none() && says_more(v) || !v.state.is_well() => {
                self.draw_verdict(ctx, canvas, v);
            }
            _ => {
                let mut text = match p.current {
                    Some((s, since)) if !gone => {
                        format!(
                            "{} is in {} for {}, and nothing is wrong so far.",
                            p.key(),
                            s.name(),
                            age(ctx.snap.now.since(since))
                        )
                    }
                    _ if gone => match made_anew(ctx.snap, p) {
                        Some(at) => format!(
                            "{} is gone. Another pod of that name was made {} ago: it has its own row in Pods.",
                            p.key(),
                            age(ctx.snap.now.since(at))
                        ),
                        None => format!("{} is gone.", p.key()),
                    },
                    _ => format!("{} is well.", p.key()),
                };
                let mut status = if p.status.is_empty() {
                    String::new()
                } else {
                    format!("status {}", p.status)
                };
                if let Some(u) = unknown {
                    text = format!("It is not known {}: {}.", u.what, u.why);
                    status = crate::banner::advice(&u);
                }
                super::empty(ctx, canvas, &text, &status);
                if !gone {
                    self.draw_start(ctx, canvas);
                }
                if width(&text) > 0 && canvas.width() > 20 {
                    let x = canvas.width().saturating_sub(11) / 2;
                    let y = (canvas.height() / 3).saturating_sub(2);
                    stage::strip(ctx, canvas, x, y, p);
                }
            }
        }
    }
    fn copy(&self, snap: &Snapshot, _shared: &Shared) -> Option<String> {
        let v = self.current()?;
        says_more(v).then(|| why::markdown(&why::groups([v]), snap.now))
    }
}

/// Returns when the newest other pod of the same name was created that exists, as a StatefulSet makes one.
fn made_anew(snap: &Snapshot, gone: &PodView) -> Option<Nanos> {
    let pods = snap.world.pods();
    let alike = |p: &&Pod| p.name == gone.name && p.namespace == gone.namespace;
    let others = pods.iter().filter(alike);
    others
        .filter(|p| p.gone.is_none() && p.uid != gone.uid && !p.name.is_empty())
        .map(|p| p.created)
        .max()
}

/// Returns the flags by which a command looks at the recording as of the shown moment, each with a space before it.
fn flags(ctx: &Ctx<'_>) -> String {
    let (recording, snap) = (&ctx.shared.recording, ctx.snap);
    let replays = matches!(snap.mode, Mode::Replay { .. });
    if recording.is_empty() || !replays || snap.now >= snap.range.1 {
        return recording.clone();
    }
    format!("{recording} --at {}", snap.now.to_rfc3339())
}

/// Returns true if a verdict says more than that a pod is well or gone, such as what it went through before.
fn says_more(v: &Verdict) -> bool {
    let plain = matches!(v.state, State::Healthy | State::Gone);
    !(plain && v.evidence.is_empty())
}
