//! Everything that could not be read, each reason in full. The banner has room for a short form of the worst only.

use crate::banner::{Weight, reasons};
use crate::shared::Ctx;
use crate::text::wrap;
use crate::widget::page::{Line, head, line};

pub(super) fn draw(ctx: &Ctx<'_>, w: u16, out: &mut Vec<Line>) {
    let t = ctx.theme;
    let all = reasons(ctx.snap);
    if all.is_empty() {
        return;
    }
    out.push(head(ctx, "NOT KNOWN"));
    for r in all {
        let style = match r.weight {
            Weight::Unknown => t.fail,
            Weight::Missing => t.wait,
        };
        out.push(line(&[
            (ctx.glyphs.failing, style),
            (" ", t.text),
            (&r.what, style),
            (&r.times(ctx.snap.now), t.wait),
        ]));
        for (text, style) in [(&r.said, t.text), (&r.help, t.dim)] {
            for l in wrap(text, usize::from(w.saturating_sub(4))) {
                out.push(line(&[("  ", t.text), (&l, style)]));
            }
        }
    }
}
