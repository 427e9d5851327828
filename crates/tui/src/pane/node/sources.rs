//! The sources: number of observations, lag, and losses.

use crate::describe::clock_step;
use crate::pane::PaneId;
use crate::shared::Ctx;
use crate::text::count;
use crate::widget::page::{Lead, Line, column, line, right};
use kflow_model::units::{age, duration};
use kflow_model::{Body, Nanos, Source};

/// Limit on the jumps of the wall clock that are shown.
const STEPS: usize = 3;

pub(super) fn draw(ctx: &Ctx<'_>, out: &mut Vec<Line>) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    out.push(line(&[
        (&column("SOURCES", 20), t.head),
        (&right("SEEN", 12), t.head),
        (&right("LAST", 7), t.head),
        (&right("LAG", 8), t.head),
        (&right("LOST", 8), t.head),
    ]));
    for s in &ctx.snap.sources {
        // In a replay there is one row of a kind.
        let last = s.last.or_else(|| ctx.snap.world.source(s.source).last);
        let last = last
            .filter(|_| s.count > 0)
            .map(|l: Nanos| age(ctx.snap.now.since(l)))
            .unwrap_or_default();
        let (symbol, style) = if s.lost > 0 {
            (g.on, t.fail)
        } else if s.is_on() {
            (g.on, t.ok)
        } else {
            (g.off, t.faint)
        };
        let name = if s.name.is_empty() || s.name == s.source.name() {
            s.source.name().to_owned()
        } else {
            format!("{} {}", s.source.name(), s.name)
        };
        let lost = if s.lost > 0 {
            count(s.lost as usize)
        } else {
            String::new()
        };
        out.push(
            line(&[
                (symbol, style),
                (" ", t.text),
                (&column(&name, 18), t.source(s.source)),
                (&right(&count(s.count as usize), 12), t.text),
                (&right(&last, 7), t.dim),
                (
                    &right(&s.lag_ns.map(duration).unwrap_or_default(), 8),
                    t.dim,
                ),
                (&" ".repeat(8_usize.saturating_sub(lost.len())), t.text),
                (&lost, t.alarm),
                ("  ", t.text),
                (s.detail(), if s.is_on() { t.dim } else { t.wait }),
            ])
            .to(Lead::List(
                PaneId::Log,
                format!("source:{}", s.source.name()),
            )),
        );
    }
    let off: Vec<&str> = Source::ALL
        .iter()
        .filter(|s| !ctx.snap.sources.iter().any(|x| x.source == **s))
        .map(|s| s.name())
        .collect();
    if !off.is_empty() {
        out.push(line(&[
            (g.off, t.faint),
            (" nothing from ", t.faint),
            (&off.join(", "), t.faint),
        ]));
    }
    for o in ctx.snap.world.clock_steps().iter().rev().take(STEPS) {
        if let Body::ClockStep(c) = &o.body {
            let at = ctx.shared.time(ctx.snap).dated(o.stamp.at, 0);
            out.push(
                line(&[(&clock_step(c.by), t.wait), (&format!(" at {at}"), t.dim)])
                    .to(Lead::Moment(o.stamp.at)),
            );
        }
    }
    let left = ctx.snap.world.unfiled().left;
    if left > 0 {
        out.push(line(&[(
            &format!(
                "{} pods that were gone are kept no more (--keep-gone, --keep-gone-pods)",
                count(left as usize)
            ),
            t.dim,
        )]));
    }
    let skew = ctx.snap.world.skew();
    if let Some(ns) = skew.api_ns {
        out.push(line(&[(
            &format!(
                "apiserver's clock is {} {} the node's, within {} ({} pairs)",
                duration(ns.saturating_abs()),
                if ns < 0 { "behind" } else { "ahead of" },
                duration(skew.api_within_ns),
                skew.pairs
            ),
            t.dim,
        )]));
    }
}
