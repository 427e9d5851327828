//! Draws the rows of the list of calls.

use ratatui::style::Style;

use super::index::{Index, Order, Row, Sort};
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::text::{cut_middle, width};
use crate::widget::scroll::Scroll;
use crate::widget::table::{self, Column};
use kflow_core::correlate::Call;
use kflow_export::text::clean;
use kflow_model::units::{duration, size};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Col {
    Time,
    Method,
    Subject,
    Duration,
    /// The duration as a bar.
    Bar,
    Code,
    Size,
}

const COLUMNS: [Column<'static, Col>; 7] = [
    Column::new(Col::Time, "START", 12, 15, 1),
    Column::new(Col::Method, "METHOD", 18, 25, 0),
    Column::new(Col::Subject, "POD  CONTAINER", 20, 200, 0),
    Column::new(Col::Duration, "TIME", 7, 8, 0).right(),
    Column::new(Col::Bar, "LENGTH", 8, 16, 4),
    Column::new(Col::Code, "CODE", 8, 16, 2),
    Column::new(Col::Size, "SIZE", 5, 6, 3).right(),
];

pub(crate) fn outcome_style(ctx: &Ctx<'_>, c: &Call) -> Style {
    if c.end.is_none() {
        ctx.theme.run
    } else {
        match c.failed() {
            Some(true) => ctx.theme.fail,
            Some(false) => ctx.theme.ok,
            None => ctx.theme.dim,
        }
    }
}

/// Draws the visible rows with their headings.
pub(super) fn draw(
    (index, order): (&Index, Order),
    scroll: &Scroll,
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
) {
    let (t, g) = (ctx.theme, ctx.glyphs);
    let columns = table::place(&COLUMNS, canvas.width().saturating_sub(3));
    let sorted = sorted_by(order.sort).map(|c| (c, up(order)));
    table::head(ctx, canvas, 2, 0, &columns, sorted);
    // The bars are relative to the longest visible call, whose bar fills the column.
    let shown = scroll.visible().filter_map(|row| index.call(ctx.snap, row));
    let longest = shown.map(|c| c.duration(ctx.snap.now)).max().unwrap_or(0);
    let time = ctx.time();
    for (n, row) in scroll.visible().enumerate() {
        let y = 1 + n as u16;
        let Some(r) = index.row(row) else {
            continue;
        };
        match r {
            Row::Fold { from, calls, .. } => {
                let Some(c) = Index::at(ctx.snap, from) else {
                    continue;
                };
                for p in &columns {
                    let x = p.x + 2;
                    match p.column.id {
                        Col::Time => {
                            canvas.text_in(x, y, p.w, &time.within(c.start, 1, 6, p.w), t.faint);
                        }
                        Col::Method => {
                            canvas.text_in(
                                x,
                                y,
                                p.w,
                                &format!("{}{calls} List, Status", g.times),
                                t.faint,
                            );
                        }
                        _ => {}
                    }
                }
            }
            Row::Call(at) => {
                let Some(c) = Index::at(ctx.snap, at) else {
                    continue;
                };
                let live = c.end.is_none();
                if live {
                    canvas.symbol(1, y, g.running, t.run);
                } else if c.is_error() {
                    canvas.symbol(1, y, g.failing, t.fail);
                }
                for p in &columns {
                    let (x, w, end) = (p.x + 2, p.w, p.x + 2 + p.w);
                    match p.column.id {
                        Col::Time => {
                            canvas.text_in(x, y, w, &time.within(c.start, 1, 6, w), t.dim);
                        }
                        Col::Method => {
                            let style = if c.is_noise() {
                                t.dim
                            } else if live {
                                t.run
                            } else {
                                t.strong
                            };
                            canvas.text_in(x, y, w, short(&c.method), style);
                        }
                        Col::Subject => subject(ctx, canvas, x, y, w, c),
                        Col::Duration => {
                            let d = c.duration(ctx.snap.now);
                            let style = if live {
                                t.run
                            } else if d > 1_000_000_000 {
                                t.warn
                            } else {
                                t.text
                            };
                            canvas.text_right(end, y, w, &duration(d), style);
                        }
                        Col::Bar => {
                            let d = c.duration(ctx.snap.now);
                            bar(ctx, canvas, (x, y, w), (d, longest), outcome_style(ctx, c));
                        }
                        Col::Code => {
                            let text = match (live, c.timeout_ns) {
                                (true, Some(d)) => format!("of {}", duration(d)),
                                _ => c.ending(),
                            };
                            canvas.text_in(x, y, w, &text, outcome_style(ctx, c));
                        }
                        Col::Size => {
                            canvas.text_right(
                                end,
                                y,
                                w,
                                &size(c.request_bytes + c.response_bytes),
                                t.dim,
                            );
                        }
                    }
                }
            }
        }
        if row == scroll.at {
            select(ctx, canvas, y);
        }
    }
    scroll.draw(ctx, canvas, 1);
}

/// Returns the column whose heading shows the order; `None` for the default order.
const fn sorted_by(sort: Sort) -> Option<Col> {
    Some(match sort {
        Sort::Start => return None,
        Sort::Method => Col::Method,
        Sort::Pod => Col::Subject,
        Sort::Time => Col::Duration,
        Sort::Code => Col::Code,
        Sort::Size => Col::Size,
    })
}

/// Returns true if the sorted column ascends. Names ascend by default; durations and sizes ascend
/// only in reverse order.
const fn up(order: Order) -> bool {
    match order.sort {
        Sort::Start | Sort::Time | Sort::Size => order.reverse,
        Sort::Method | Sort::Pod | Sort::Code => !order.reverse,
    }
}

/// Returns the order that a click on column `x` of the headings chooses, for a list of this width.
pub(super) fn sorting(width: u16, x: u16) -> Option<Sort> {
    let columns = table::place(&COLUMNS, width.saturating_sub(3));
    let hit = columns
        .iter()
        .find(|c| (c.x + 2..c.x + 3 + c.w).contains(&x))?;
    Some(match hit.column.id {
        Col::Time => Sort::Start,
        Col::Method => Sort::Method,
        Col::Subject => Sort::Pod,
        Col::Duration | Col::Bar => Sort::Time,
        Col::Code => Sort::Code,
        Col::Size => Sort::Size,
    })
}

/// Draws a duration as a bar, relative to the longest one.
fn bar(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    (x, y, w): (u16, u16, u16),
    (ns, longest): (i64, i64),
    style: Style,
) {
    if longest <= 0 {
        return;
    }
    let eighths = (ns as f64 / longest as f64 * f64::from(w) * 8.0) as u16;
    let (full, rest) = (eighths / 8, usize::from(eighths % 8));
    canvas.line(x, y, full.min(w), ctx.glyphs.full, style);
    let cap = ctx.glyphs.eighth(rest);
    if !cap.is_empty() && full < w {
        canvas.symbol(x + full, y, cap, style);
    } else if full == 0 {
        canvas.symbol(x, y, ctx.glyphs.tick, ctx.theme.faint);
    }
}

/// Marks a row as selected and keeps the colours of its cells, except that faint text, which can be read only on the
/// ordinary background, becomes secondary text.
pub(crate) fn select(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, y: u16) {
    let style = if ctx.focused {
        ctx.theme.selection
    } else {
        ctx.theme.selection_off
    };
    let mut s = Style::new().add_modifier(style.add_modifier);
    s.bg = style.bg;
    let w = canvas.width();
    canvas.style(0, y, w, 1, s);
    canvas.recolour(y, ctx.theme.faint.fg, ctx.theme.dim.fg);
    canvas.symbol(0, y, ctx.glyphs.here, ctx.theme.accent.patch(s));
}

fn subject(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, x: u16, y: u16, w: u16, c: &Call) {
    let t = ctx.theme;
    if c.pod.is_empty() {
        let id = if c.container_id.is_empty() {
            c.sandbox_id.as_str()
        } else {
            c.container_id.as_str()
        };
        let what = if c.image.is_empty() {
            id.get(..12).unwrap_or(id)
        } else {
            &c.image
        };
        canvas.text_in(x, y, w, what, t.faint);
        return;
    }
    let cleaned = clean(&c.pod);
    let beside = match c.container.as_str() {
        "" => 0,
        name => (width(name) as u16).saturating_add(2).min(w / 3),
    };
    let room = w.saturating_sub(beside);
    let used = canvas.text_in(x, y, room, &cut_middle(&cleaned, usize::from(room)), t.text);
    if !c.container.is_empty() {
        canvas.text_in(
            x + used + 2,
            y,
            w.saturating_sub(used + 2),
            &c.container,
            t.accent,
        );
    } else if !c.image.is_empty() {
        canvas.text_in(x + used + 2, y, w.saturating_sub(used + 2), &c.image, t.dim);
    }
}

/// Returns a method without its protobuf package: `Images/List` for `/containerd.services.images.v1.Images/List`. CRI
/// methods are recorded without a package.
fn short(method: &str) -> &str {
    method.rsplit('.').next().unwrap_or(method)
}
