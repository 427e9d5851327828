//! Draws the second line: the tabs of the panes, and the selected pod.

use crate::canvas::Canvas;
use crate::model::Model;
use crate::pane::PaneId;
use crate::shared::Ctx;
use crate::text::width;
use crate::widget::stage;

/// Least columns for the selected pod beside the tabs.
const SELECTED: usize = 28;

fn tab_places(model: &Model, w: u16) -> Vec<(PaneId, u16, String)> {
    let all: Vec<PaneId> = model.panes.iter().map(|p| p.id()).collect();
    let label = |id: PaneId, short: bool| {
        let key = model.keys.first(id.action());
        match (key.is_empty(), short) {
            (true, _) => id.name().to_owned(),
            (false, false) => format!("{key} {}", id.name()),
            (false, true) => format!("{key}{}", id.name().chars().take(4).collect::<String>()),
        }
    };
    let room = usize::from(w).saturating_sub(SELECTED);
    let full = |id: PaneId| format!(" {} ", label(id, false));
    let dense = |id: PaneId| format!(" {}{}", model.keys.first(id.action()), id.name());
    let sum =
        |label: &dyn Fn(PaneId) -> String| -> usize { all.iter().map(|p| width(&label(*p))).sum() };
    // If the full names leave too little room for the selected pod, they stand close together, and are shortened only
    // where there is no room for that either.
    if sum(&full) > room && sum(&dense) < usize::from(w) {
        let mut x = 1;
        let place = |p: PaneId| {
            let (at, l) = (x, dense(p));
            x += width(&l) as u16;
            (p, at, l)
        };
        return all.iter().copied().map(place).collect();
    }
    // That of the focused pane stays whole if possible.
    let wide = |p: PaneId, short: bool| width(&label(p, short)) + 2;
    let full: usize = all.iter().map(|p| wide(*p, false)).sum();
    let short = full + SELECTED > usize::from(w);
    let least: usize = all.iter().map(|p| wide(*p, true)).sum();
    let more = wide(model.focus, false).saturating_sub(wide(model.focus, true));
    let whole = least + more + 2 <= usize::from(w);
    let mut x = 1;
    all.into_iter()
        .map(|p| {
            let l = format!(" {} ", label(p, short && !(whole && p == model.focus)));
            let at = x;
            x += width(&l) as u16;
            (p, at, l)
        })
        .collect()
}

/// Returns the pane whose tab is at this column.
pub fn tab_at(model: &Model, x: u16) -> Option<PaneId> {
    tab_places(model, model.size.0)
        .into_iter()
        .find(|(_, at, l)| (*at..at + width(l) as u16).contains(&x))
        .map(|(p, _, _)| p)
}

pub(super) fn draw(model: &Model, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>) {
    let t = ctx.theme;
    let mut end = 0;
    for (p, x, label) in tab_places(model, canvas.width()) {
        let style = if p == model.focus { t.tab_on } else { t.tab };
        end = x + canvas.text(x, 0, &label, style);
    }
    // The selected pod, if there is room.
    if let Some(p) = ctx.shared.view(ctx.snap) {
        let room = canvas.width().saturating_sub(end + 14);
        if room >= 12 {
            stage::strip(ctx, canvas, canvas.width() - 12, 0, p);
            let right = canvas.width() - 13;
            canvas.text_right(right, 0, room - 1, &p.key(), t.dim);
        }
    }
}
