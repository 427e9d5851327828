//! Draws the whole frame: title, tabs, panes with their rules, scrubber, footer, overlays. Reads the model and
//! changes nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::banner;
use super::canvas::Canvas;
use super::layout::{HEAD, LEAST, Slot, has_scrubber};
use super::model::{Model, Overlay};
use super::pane::PaneId;
use super::shared::Ctx;
use super::text::{cut_middle, width};
use super::widget::scroll;
use kflow_engine::Snapshot;
use kflow_engine::snapshot::Mode;

mod footer;
pub(super) mod overlay;
mod scrubber;
mod tabs;
mod title;
mod tour;

pub use footer::hint_at;
pub use scrubber::scrub_bar;
pub use tabs::tab_at;

/// Draws a frame. The model must be in sync with the snapshot.
pub fn draw(model: &Model, snap: &Snapshot, buf: &mut Buffer) {
    let area = *buf.area();
    let ctx = model.ctx(snap, true);
    let mut canvas = Canvas::new(buf, area);
    canvas.clear(ctx.theme.text);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return too_small(&ctx, &mut canvas);
    }
    title::draw(&ctx, &mut canvas.part(0, 0, area.width, 1));
    tabs::draw(model, &ctx, &mut canvas.part(0, 1, area.width, 1));
    let reasons = banner::reasons(snap);
    banner::draw(&ctx, &mut canvas.part(0, HEAD, area.width, 1), &reasons);
    let slots = model.slots(snap);
    for s in &slots {
        pane(model, snap, s, &mut canvas);
    }
    if let Some(tour) = &model.tour {
        let a = model.places(snap).1;
        tour::draw(
            tour,
            model,
            &ctx,
            &mut canvas.part(a.x, a.y, a.width, a.height),
        );
    }
    if model.strip && model.tour.is_none() {
        let a = model.places(snap).1;
        strip(model, &ctx, &mut canvas.part(a.x, a.y, a.width, a.height));
    }
    let replay = matches!(snap.mode, Mode::Replay { .. });
    if has_scrubber((area.width, area.height), replay) {
        scrubber::draw(&ctx, &mut canvas.part(0, area.height - 2, area.width, 1));
    }
    footer::draw(model, &ctx, &mut canvas);
    for o in &model.overlays {
        match o {
            Overlay::Help(h) => overlay::help(model, &ctx, &mut canvas, h),
            Overlay::Prompt(p) => overlay::prompt(&ctx, &mut canvas, p),
            Overlay::Menu(m) => overlay::menu(&ctx, &mut canvas, m),
        }
    }
    if !ctx.glyphs.is_unicode() {
        to_ascii(buf);
    }
}

/// Draws the line of the demo: as many hints as fit, and last the key that removes the line.
fn strip(model: &Model, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let t = ctx.theme;
    let w = canvas.width();
    if canvas.height() == 0 {
        return;
    }
    let mut all = super::strip::hints(model.focus, &model.keys);
    let away = all.pop().unwrap_or_default();
    let need = |(key, what): &(String, &str)| (width(key) + width(what) + 3) as u16;
    canvas.line(0, 0, w, ctx.glyphs.rule, t.rule);
    let last = w.saturating_sub(need(&away) + 1);
    let mut x = 2;
    for hint in &all {
        if x + need(hint) > last {
            break;
        }
        canvas.spans(
            x,
            0,
            &[
                (" ", t.text),
                (&hint.0, t.accent),
                (" ", t.text),
                (hint.1, t.text),
            ],
        );
        x += need(hint);
    }
    canvas.spans(
        last,
        0,
        &[
            (" ", t.text),
            (&away.0, t.accent),
            (" ", t.text),
            (away.1, t.dim),
        ],
    );
}

/// Replaces characters that a terminal without Unicode cannot show. They come from names and messages of other
/// programs, and from texts that were cut.
fn to_ascii(buf: &mut Buffer) {
    for c in &mut buf.content {
        if !c.symbol().is_ascii() {
            let plain = match c.symbol() {
                "…" => "~",
                "·" => ".",
                "×" => "x",
                "µ" => "u",
                "–" | "—" => "-",
                "→" => ">",
                "←" => "<",
                _ => "?",
            };
            c.set_symbol(plain);
        }
    }
}

/// Returns the place of a pane that is drawn alone: below the banner, if there is one.
pub fn alone(snap: &Snapshot, pane: PaneId, area: Rect) -> Slot {
    let top = u16::from(!banner::reasons(snap).is_empty()).min(area.height);
    let area = Rect {
        y: area.y + top,
        height: area.height - top,
        ..area
    };
    Slot { pane, area }
}

/// Draws one pane alone, with its rule and the banner, for exports.
pub fn draw_pane(model: &Model, snap: &Snapshot, id: PaneId, buf: &mut Buffer) {
    let area = *buf.area();
    let mut canvas = Canvas::new(buf, area);
    canvas.clear(model.look.theme.text);
    let ctx = model.ctx(snap, true);
    let reasons = banner::reasons(snap);
    banner::draw(&ctx, &mut canvas.part(0, 0, area.width, 1), &reasons);
    pane(model, snap, &alone(snap, id, area), &mut canvas);
}

fn too_small(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let (w, h) = (canvas.width(), canvas.height());
    let y = h.saturating_sub(2) / 2;
    let need = format!("kflow needs {}x{}", LEAST.0, LEAST.1);
    for (i, (t, s)) in [
        (need, ctx.theme.strong),
        (format!("this is {w}x{h}"), ctx.theme.dim),
    ]
    .iter()
    .enumerate()
    {
        let x = w.saturating_sub(width(t) as u16) / 2;
        canvas.text(x, y + i as u16, t, *s);
    }
}

fn pane(model: &Model, snap: &Snapshot, slot: &Slot, canvas: &mut Canvas<'_>) {
    let focused = slot.pane == model.focus;
    let ctx = model.ctx(snap, focused);
    let Some(p) = model.pane(slot.pane) else {
        return;
    };
    let a = slot.area;
    let t = ctx.theme;
    let rule = if focused { t.rule_on } else { t.rule };
    canvas.line(a.x, a.y, a.width, ctx.glyphs.rule, rule);
    let mut head = canvas.part(a.x, a.y, a.width, 1);
    let name = format!(" {} ", slot.pane.name());
    let mut x = 1 + head.text(1, 0, &name, if focused { t.accent } else { t.dim });
    let about_pod = !matches!(slot.pane, PaneId::Pods | PaneId::Node);
    if about_pod
        && matches!(
            slot.pane,
            PaneId::Timeline | PaneId::Why | PaneId::Sequence | PaneId::Flow
        )
        && let Some(pod) = ctx.shared.view(snap)
    {
        let max = a.width.saturating_sub(x + 20).max(10);
        x += head.text_in(
            x,
            0,
            max,
            &cut_middle(&pod.key(), usize::from(max)),
            t.strong,
        );
        x += head.text(x, 0, " ", t.text);
    } else if slot.pane == PaneId::Why
        && let Some(o) = ctx
            .shared
            .owner
            .as_ref()
            .filter(|_| ctx.shared.pod.is_none())
    {
        let max = a.width.saturating_sub(x + 20).max(10);
        let name = super::pane::named(o);
        x += head.text_in(x, 0, max, &cut_middle(&name, usize::from(max)), t.strong);
        x += head.text(x, 0, " ", t.text);
    }
    let detail = p.title(&ctx);
    // The title ends where the number of hidden rows begins.
    let (above, below) = p.hidden().unwrap_or_default();
    let more = width(&scroll::more(ctx.glyphs, above, below)) as u16;
    let end = a.width.saturating_sub(if more > 0 { more + 4 } else { 1 });
    if !detail.is_empty() {
        let room = end.saturating_sub(x);
        x += head.text_in(x, 0, room, &format!("{detail} "), t.dim);
    }
    if let Some(f) = p.filter().filter(|f| !f.is_empty()) {
        let room = end.saturating_sub(x + 1);
        head.text_in(x + 1, 0, room, &format!(" /{f} "), t.matched);
    }
    let mut rule = canvas.part(a.x, a.y, a.width.saturating_sub(1), 1);
    scroll::draw_more(&ctx, &mut rule, 0, above, below);
    if a.x > 0 {
        canvas.column(a.x - 1, a.y, a.height, ctx.glyphs.wall, t.rule);
    }
    let i = slot.inner();
    p.draw(&ctx, &mut canvas.part(i.x, i.y, i.width, i.height));
}

/// Returns the area of a box of this size, centred.
fn middle((cw, ch): (u16, u16), w: u16, h: u16) -> Rect {
    let (w, h) = (w.min(cw), h.min(ch));
    Rect::new((cw - w) / 2, (ch - h) / 2, w, h)
}
