//! Why the selected pod is not well: the verdict with its evidence; enter leads to what proves it.

use super::{Pane, PaneId, Reply};
use crate::action::{Action, Command};
use crate::canvas::Canvas;
use crate::shared::{Ctx, Shared};
use crate::text::{width, wrap};
use crate::widget::scroll::{self, Scroll};
use crate::widget::stage;
use kflow_core::correlate::PodView;
use kflow_core::diagnose::{Confidence, State, Verdict, unknown};
use kflow_core::timeline::critical::{self, Reached};
use kflow_engine::Snapshot;
use kflow_export::why::standing;
use kflow_model::units::{age, duration};
use kflow_model::{Body, Nanos};
use std::sync::Arc;

/// The why pane.
#[derive(Debug, Default)]
pub struct Why {
    scroll: Scroll,
    verdict: Option<Arc<Verdict>>,
    /// How long the start took, and the three things that took most of it.
    start: Vec<String>,
    pod: Option<kflow_model::PodUid>,
    /// The pod that the verdict was made of, and when: it is made again when the pod changes or time goes by.
    seen: Option<(kflow_core::correlate::world::Pod, kflow_model::Nanos)>,
}

const fn confidence(c: Confidence) -> &'static str {
    match c {
        Confidence::Certain => "certain: the failing party said so",
        Confidence::Likely => "likely: it follows from what was and was not seen",
        Confidence::Possible => "possible: other causes would fit too",
    }
}

/// `Ready after 5.19s`, and what took most of it: `39%  2.00s  init container [setup] ran`.
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
    /// How a pod that is well started, below the sentence that says so.
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
        if y < h && !self.start.is_empty() {
            let hint = format!("{} {} shows all of it.", keys.0, keys.1);
            canvas.text(x, y, &hint, ctx.theme.faint);
        }
    }
    fn current(&self) -> Option<&Verdict> {
        self.verdict.as_deref()
    }
    fn draw_verdict(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, v: &Verdict) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let (w, h) = (canvas.width(), canvas.height());
        let room = usize::from(w.saturating_sub(3));
        let now = ctx.snap.now;
        let (_, style) = stage::verdict(ctx, v.state);
        let mut y = 0;
        let mut x = canvas.spans(
            1,
            y,
            &[
                (v.cause_id(), t.strong),
                ("  ", t.text),
                (&v.title, t.strong),
            ],
        );
        x = canvas.spans(x + 2, y, &[(&standing(v, now), *style)]);
        canvas.spans(x, y, &[(" ", t.dim), (&v.container, t.accent)]);
        y += 1;
        for line in wrap(&v.sentence, room) {
            canvas.text(1, y, &line, t.text);
            y += 1;
        }
        if let Some(c) = &v.in_flight {
            y += 1;
            let since = now.since(c.since);
            let mut text = format!("{} in flight for {}", c.method, duration(since));
            if let Some(d) = c.deadline_ns {
                text.push_str(&format!(" of its {} deadline", duration(d)));
            }
            let used = canvas.text(1, y, &text, t.run);
            if let Some(d) = c.deadline_ns.filter(|d| *d > 0) {
                gauge(ctx, canvas, used + 3, y, since as f64 / d as f64);
            }
            y += 1;
        }
        if v.attempt > 0 || v.next_retry.is_some() {
            let mut text = format!("attempt {}", v.attempt);
            if let Some(n) = v.next_retry {
                let left = n.since(now);
                if left > 0 {
                    text.push_str(&format!(", next in {}", age(left)));
                } else {
                    text.push_str(&format!(", next was due {} ago", age(-left)));
                }
            }
            canvas.text(1, y, &text, t.wait);
            y += 1;
        }
        canvas.text(1, y, confidence(v.confidence), t.faint);
        y += 2;
        canvas.text(1, y, "EVIDENCE", t.head);
        y += 1;
        // What to do next and what was not reached need their lines below.
        let next: usize = v
            .next
            .iter()
            .map(|n| 1 + usize::from(!n.command.is_empty()))
            .sum();
        let tail = usize::from(!v.not_reached.is_empty())
            + if next > 0 { next + 2 } else { 0 }
            + if v.also.is_empty() {
                0
            } else {
                v.also.len() + 2
            };
        let list = usize::from(h.saturating_sub(y)).saturating_sub(tail).max(2);
        let time = ctx.time();
        let start = self.scroll.at.saturating_sub(list - 1);
        let below = v.evidence.len().saturating_sub(start + list);
        scroll::draw_more(ctx, canvas, y - 1, start, below);
        for (n, p) in v.evidence.iter().enumerate().skip(start).take(list) {
            let at = time.at(p.at, p.precision, 3);
            let mut x = canvas.text_in(2, y, 15, &at, t.dim) + 3;
            x += canvas
                .text(x.max(16), y, p.source.name(), t.source(p.source))
                .max(8)
                + (16_u16.saturating_sub(x));
            let style = if p.evidence.is_some() { t.text } else { t.wait };
            canvas.text_in(
                x.max(25),
                y,
                w.saturating_sub(x.max(25) + 1),
                &p.to_string(),
                style,
            );
            if n == self.scroll.at {
                super::calls::select(ctx, canvas, y);
            }
            y += 1;
        }
        if !v.not_reached.is_empty() {
            let steps: Vec<&str> = v
                .not_reached
                .iter()
                .map(kflow_model::Text::as_str)
                .collect();
            canvas.spans(
                2,
                y,
                &[("not reached: ", t.dim), (&steps.join(", "), t.faint)],
            );
            y += 1;
        }
        if !v.next.is_empty() {
            y += 1;
            canvas.text(1, y, "NEXT", t.head);
            y += 1;
            for n in &v.next {
                canvas.spans(
                    2,
                    y,
                    &[(g.right, t.accent), (" ", t.text), (&n.text, t.text)],
                );
                y += 1;
                if !n.command.is_empty() {
                    canvas.text(4, y, &n.command, t.key);
                    y += 1;
                }
            }
        }
        if !v.also.is_empty() {
            y += 1;
            canvas.text(1, y, "ALSO", t.head);
            y += 1;
            for a in &v.also {
                let (word, style) = stage::verdict(ctx, a.state);
                canvas.spans(
                    2,
                    y,
                    &[
                        (a.cause_id(), *style),
                        (" ", t.text),
                        (word, *style),
                        ("  ", t.text),
                        (&a.sentence, t.dim),
                    ],
                );
                y += 1;
            }
        }
        if y > h {
            let key = ctx.keys.first(Action::WhyCopy);
            let more = format!(
                "{} more lines: a taller pane shows them, {key} copies all",
                y + 1 - h
            );
            let last = h.saturating_sub(1);
            canvas.line(0, last, w, " ", t.text);
            canvas.text_in(1, last, w.saturating_sub(2), &more, t.dim);
        }
    }
}

fn gauge(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, x: u16, y: u16, share: f64) {
    let room = canvas.width().saturating_sub(x + 2).min(30);
    if room < 8 {
        return;
    }
    let on = (share.clamp(0.0, 1.0) * f64::from(room)) as u16;
    let style = if share > 0.8 {
        ctx.theme.fail
    } else {
        ctx.theme.run
    };
    canvas.line(x, y, room, ctx.glyphs.rule, ctx.theme.faint);
    canvas.line(x, y, on, ctx.glyphs.full, style);
}

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
        if self.pod != shared.pod {
            self.pod.clone_from(&shared.pod);
            self.scroll = Scroll::default();
            self.seen = None;
        }
        let Some(p) = shared.view(snap) else {
            self.verdict = shared.owner_verdict(snap).cloned();
            let n = self.current().map_or(0, |v| v.evidence.len());
            self.scroll.fit(n, usize::from(size.1));
            return;
        };
        let fresh = self.seen.as_ref().is_some_and(|(pod, at)| {
            Arc::ptr_eq(pod, p) && (0..500_000_000).contains(&snap.now.since(*at))
        });
        if !fresh {
            self.seen = Some((Arc::clone(p), snap.now));
            // Of a pod that is well there is a verdict too: what it went through.
            let known = snap.verdicts.get(&p.uid).cloned();
            self.verdict =
                known.or_else(|| kflow_core::diagnose::why(&snap.world, p, snap.now).map(Arc::new));
        }
        if !fresh {
            self.start = start(p, snap.now);
        }
        let n = self.current().map_or(0, |v| v.evidence.len());
        self.scroll.fit(n, usize::from(size.1));
    }
    fn handle(&mut self, command: &Command, snap: &Snapshot, shared: &mut Shared) -> Reply {
        if self.scroll.handle(command.action) {
            return Reply::Done;
        }
        match command.action {
            Action::Open => {
                let proof = self.current().and_then(|v| v.evidence.get(self.scroll.at));
                let Some(e) = proof.and_then(|p| p.evidence.clone()) else {
                    return Reply::Say("nothing was seen: that is the evidence".to_owned());
                };
                shared.cursor = Some(e.stamp.at);
                if let Body::CallStart(c) = &e.body {
                    shared.call = Some(c.key);
                    return Reply::Go(PaneId::Calls);
                }
                if let Body::CallEnd(c) = &e.body {
                    shared.call = Some(c.key);
                    return Reply::Go(PaneId::Calls);
                }
                shared.evidence = Some(e);
                Reply::Go(PaneId::Log)
            }
            Action::WhyCopy => match self.copy(snap, shared) {
                Some(t) => Reply::Copy(t),
                None => Reply::Say("there is no verdict to copy".to_owned()),
            },
            _ => Reply::Ignored,
        }
    }
    fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
        let Some(p) = ctx.shared.view(ctx.snap) else {
            if let Some(v) = self.current() {
                return self.draw_verdict(ctx, canvas, v);
            }
            return super::no_pod(ctx, canvas);
        };
        // That nothing is wrong needs that nothing was overlooked.
        let unknown = unknown::known(ctx.snap.asked(), p).filter(|_| p.gone.is_none());
        match self.current() {
            Some(v) if unknown.is_none() && says_more(v) || !v.state.is_well() => {
                self.draw_verdict(ctx, canvas, v);
            }
            _ => {
                let mut text = match p.current {
                    Some((s, since)) if p.gone.is_none() => {
                        format!(
                            "{} is in {} for {}, and nothing is wrong so far.",
                            p.key(),
                            s.name(),
                            age(ctx.snap.now.since(since))
                        )
                    }
                    _ if p.gone.is_some() => format!("{} is gone.", p.key()),
                    _ => format!("{} is well.", p.key()),
                };
                let mut status = if p.status.is_empty() {
                    String::new()
                } else {
                    format!("status {}", p.status)
                };
                if let Some(u) = unknown {
                    text = format!("It is not known {}: {}.", u.what, u.why);
                    status = u.help;
                }
                super::empty(ctx, canvas, &text, &status);
                if p.gone.is_none() {
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
        says_more(v).then(|| kflow_export::why::markdown([v], snap.now))
    }
}

/// A verdict that says more than that a pod is well or gone: what it went through before.
fn says_more(v: &Verdict) -> bool {
    let plain = matches!(v.state, State::Healthy | State::Gone);
    !(plain && v.evidence.is_empty())
}
