//! Draws the first line: what is shown and in which mode, the moment, the sources.

use ratatui::style::Style;

use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::{count, width};
use kflow_engine::snapshot::{Mode, SourceStatus, own};
use kflow_model::Source;

/// Formats a speed: `1×`, `0.5×`, `max`.
fn speed(permille: u32, times: &str) -> String {
    match permille {
        0 => "max".to_owned(),
        p if p % 1000 == 0 => format!("{}{times}", p / 1000),
        p => format!("{}{times}", f64::from(p) / 1000.0),
    }
}

pub(super) fn draw(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let (t, g, snap) = (ctx.theme, ctx.glyphs, ctx.snap);
    let w = canvas.width();
    canvas.clear(t.bar);
    let on_bar = |s: Style| t.bar.patch(s);
    let mut x = 1 + canvas.text(1, 0, "kflow", on_bar(t.accent));
    x += 1;
    match &snap.mode {
        Mode::Replay {
            name,
            playing,
            speed_permille,
            loading_permille,
        } => {
            x += canvas.text(x, 0, " REPLAY ", t.replay) + 1;
            let room = if w >= 100 { 30 } else { 14 };
            x += canvas.text_in(x, 0, room, name, t.bar) + 1;
            let scope = snap.world.selection().scope().short();
            if !scope.is_empty() {
                x += canvas.text_in(x, 0, 24, &scope, t.bar) + 1;
            }
            let (symbol, style) = if *playing {
                (g.play, on_bar(t.ok))
            } else {
                (g.pause, on_bar(t.wait))
            };
            x += canvas.text(x, 0, symbol, style) + 1;
            x += canvas.text(x, 0, &speed(*speed_permille, g.times), on_bar(t.dim)) + 1;
            if *loading_permille < 1000 {
                x += canvas.text(
                    x,
                    0,
                    &format!("reading {}%", loading_permille / 10),
                    on_bar(t.run),
                ) + 1;
            }
        }
        Mode::Live {
            scope,
            following,
            recording,
        } => {
            let (badge, style) = if *following {
                (" LIVE ", t.live)
            } else {
                (" PAUSED ", t.paused)
            };
            x += canvas.text(x, 0, badge, style) + 1;
            x += canvas.text_in(x, 0, 24, scope, t.bar) + 1;
            if !recording.is_empty() {
                x += canvas.text(x, 0, g.record, on_bar(t.fail)) + 1;
                x += canvas.text_in(x, 0, 24, recording, on_bar(t.dim)) + 1;
            }
        }
    }
    // Only some moments are affected; at those, the banner says that they are not known.
    let damaged =
        |s: &SourceStatus| s.source == Source::Kflow && s.is_off() && s.name == own::SESSION;
    if snap.sources.iter().any(damaged) {
        x += canvas.text(x, 0, " INCOMPLETE ", t.alarm) + 1;
    }
    let time = ctx.time();
    let clock = if w >= 90 {
        time.full(snap.now, 1_000_000)
    } else {
        time.wall(snap.now, 1)
    };
    x += canvas.text(x, 0, &clock, on_bar(t.strong)) + 2;
    sources(ctx, canvas, x);
}

/// Draws the sources at the right: which are on, which are off and why as far as there is room, and what was lost.
fn sources(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, from: u16) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let on_bar = |s: Style| t.bar.patch(s);
    // For each source: whether a part of it is on, whether a part is off, and the number of lost observations.
    let mut by: Vec<(Source, bool, bool, u64)> = Vec::new();
    for s in &ctx.snap.sources {
        // The status of the kubeconfig tells an address only, not that the apiserver is reached.
        let on = s.is_on() && s.name != own::KUBECONFIG;
        match by.iter_mut().find(|b| b.0 == s.source) {
            Some(b) => {
                b.1 |= on;
                b.2 |= s.is_off();
                b.3 += s.lost;
            }
            None => by.push((s.source, on, s.is_off(), s.lost)),
        }
    }
    let lost: u64 = by.iter().map(|b| b.3).sum();
    let mut end = canvas.width().saturating_sub(1);
    if lost > 0 {
        let text = format!(" {} lost ", count(lost as usize));
        let used = canvas.text_right(end, 0, 20, &text, t.alarm);
        end = end.saturating_sub(used + 1);
    }
    let full: usize = by.iter().map(|b| width(b.0.name()) + 3).sum();
    let names = usize::from(end.saturating_sub(from)) >= full;
    let total = if names { full } else { by.len() };
    if usize::from(end.saturating_sub(from)) < total {
        return;
    }
    let mut x = end.saturating_sub(total as u16);
    for (source, on, off, lost) in by {
        let (symbol, style) = match (on, off, lost) {
            (_, _, 1..) => (g.on, t.fail),
            (true, false, 0) => (g.on, t.ok),
            (true, true, 0) => (g.on, t.wait),
            (false, _, 0) => (g.off, t.faint),
        };
        x += canvas.text(x, 0, symbol, on_bar(style));
        if names {
            let s = if on { on_bar(t.dim) } else { on_bar(t.faint) };
            x += canvas.text(x, 0, source.name(), s) + 2;
        }
    }
}
