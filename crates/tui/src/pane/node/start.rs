//! The kubelet's own start, step by step, and the starts of pods as the kubelet measured them.

use std::sync::Arc;

use crate::pane::PaneId;
use crate::shared::Ctx;
use crate::widget::page::{Lead, Line, column, head, heading, line, list, right};
use kflow_core::correlate::kubelet::STARTUP;
use kflow_core::flow::map::Map;
use kflow_core::flow::runs::{StepRuns, lit, passes};
use kflow_engine::Snapshot;
use kflow_model::Nanos;
use kflow_model::units::duration;

/// The newest start of the kubelet.
#[derive(Debug, Default)]
pub(super) struct Startup {
    mark: (usize, Option<Nanos>),
    /// Steps, in order of time.
    steps: Vec<StepRuns>,
    /// Number of starts that were seen.
    starts: usize,
}

impl Startup {
    /// Derives the steps again if there is new evidence of a start.
    pub(super) fn look(&mut self, snap: &Snapshot) {
        let m = snap.world.kubelet();
        let mark = m.startup_mark();
        if mark == self.mark {
            return;
        }
        self.mark = mark;
        let map = Map::active();
        self.steps.clear();
        self.starts = 0;
        let Some((flow, _)) = map.flow(STARTUP) else {
            return;
        };
        let starts = passes(map, flow, &m.startup());
        self.starts = starts.len();
        if let Some(newest) = starts.last() {
            self.steps = lit(map, newest, Nanos(i64::MAX))
                .into_iter()
                .filter(|l| map.get(l.step).is_some_and(|s| s.flow == flow))
                .collect();
            self.steps.sort_by_key(|l| (l.first.at, l.step));
        }
    }
    /// Draws the heading, and if `open` a waterfall below it: the bar of a step begins where the
    /// previous step was seen.
    pub(super) fn draw(&self, ctx: &Ctx<'_>, w: u16, open: bool, out: &mut Vec<Line>) {
        let (t, g) = (ctx.theme, ctx.glyphs);
        let map = Map::active();
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else {
            out.push(head(ctx, "KUBELET START-UP"));
            out.push(line(&[(
                "  Not seen: the kubelet's log tells, from its next start on.",
                t.faint,
            )]));
            return;
        };
        let begin = first.first.at;
        let total = last.first.at.since(begin).max(1);
        let which = if self.starts > 1 {
            format!("the newest of {} starts, ", self.starts)
        } else {
            String::new()
        };
        let sign = if open { g.open } else { g.closed };
        let about = format!(
            "{which}{} steps in {} from {}",
            self.steps.len(),
            duration(total),
            ctx.time().at(begin, first.first.precision, 3)
        );
        let title = format!("{sign} KUBELET START-UP");
        out.push(heading(ctx, &title, &about).to(Lead::Fold));
        // A closed heading names the step that took longest.
        let pairs = self.steps.iter().zip(self.steps.iter().skip(1));
        let longest = pairs.max_by_key(|(a, b)| b.first.at.since(a.first.at));
        if let Some((a, b)) = longest.filter(|_| !open)
            && let Some(step) = map.get(b.step)
        {
            let took = duration(b.first.at.since(a.first.at));
            let text = format!("  {took} of it before {}", step.function);
            out.push(line(&[(&text, t.dim)]).to(Lead::Above));
        }
        if !open {
            return;
        }
        let room = usize::from(w).saturating_sub(62).clamp(0, 40);
        let mut before = begin;
        for l in &self.steps {
            let Some(s) = map.get(l.step) else { continue };
            let at = l.first.at;
            let place = |x: Nanos| (x.since(begin) as f64 / total as f64 * room as f64) as usize;
            let (from, to) = (place(before).min(room), place(at).min(room));
            let took = at.since(before);
            // A step that takes more than a tenth of the whole start is highlighted.
            let slow = took * 10 > total;
            let bar = if room == 0 {
                String::new()
            } else if to > from {
                format!("{}{}", " ".repeat(from), g.thin.repeat(to - from))
            } else {
                format!("{}{}", " ".repeat(from.min(room - 1)), g.tick)
            };
            out.push(
                line(&[
                    (
                        &right(
                            &if at > begin {
                                format!("+{}", duration(at.since(begin)))
                            } else {
                                "0".to_owned()
                            },
                            9,
                        ),
                        t.dim,
                    ),
                    (
                        &right(
                            &if took > 0 {
                                duration(took)
                            } else {
                                String::new()
                            },
                            8,
                        ),
                        if slow { t.warn } else { t.faint },
                    ),
                    ("  ", t.text),
                    (
                        &column(&bar, room),
                        if slow { t.warn } else { t.source_kubelet },
                    ),
                    (if room > 0 { "  " } else { "" }, t.text),
                    (&s.function, t.text),
                    ("  ", t.text),
                    (&s.label, t.faint),
                ])
                .to(match l.evidence.first() {
                    Some((_, e)) => Lead::Evidence(Arc::clone(e)),
                    None => Lead::Moment(at),
                }),
            );
            before = at;
        }
    }
}

/// Limit on the pod starts that are shown.
const STARTS: usize = 12;

/// Draws the slowest pod starts that the kubelet reported.
pub(super) fn pods(ctx: &Ctx<'_>, out: &mut Vec<Line>) {
    let t = ctx.theme;
    let mut starts: Vec<_> = ctx.snap.world.kubelet().starts().collect();
    starts.sort_by_key(|s| std::cmp::Reverse(s.total_ns));
    if starts.is_empty() {
        return;
    }
    out.push(line(&[
        (&column("POD STARTS, BY THE KUBELET", 34), t.head),
        (&right("ALL", 8), t.head),
        (&right("SLI", 8), t.head),
        (&right("PULLING", 9), t.head),
        (&right("INIT", 8), t.head),
    ]));
    let told = |ns: i64, w| right(&if ns > 0 { duration(ns) } else { String::new() }, w);
    list(ctx, starts, STARTS, out, |s| {
        line(&[
            (&column(&format!("  {}", s.pod), 34), t.text),
            (&told(s.total_ns, 8), t.text),
            (&told(s.sli_ns, 8), t.dim),
            (&told(s.pulling_ns, 9), t.dim),
            (&told(s.init_ns, 8), t.dim),
        ])
        .to(Lead::Pod(s.pod.clone(), PaneId::Timeline))
    });
}
