//! All that is known of one call.

use std::fmt::Write as _;

use super::{outcome, outcome_style};
use crate::correlate::Call;
use crate::engine::Snapshot;
use crate::model::Body;
use crate::tui::canvas::Canvas;
use crate::tui::shared::Ctx;
use crate::tui::text::{bytes, duration, wrap};
use crate::tui::time::TimeFormat;
use ratatui::style::Style;

enum Line {
    Head(String),
    Fact(String, String, Style),
}

fn lines(c: &Call, snap: &Snapshot, time: &TimeFormat, plain: Style, state: Style) -> Vec<Line> {
    let mut v = vec![Line::Head(c.method.to_string())];
    let mut fact = |k: &str, val: String, s: Style| {
        if !val.is_empty() {
            v.push(Line::Fact(k.to_owned(), val, s));
        }
    };
    fact("state", outcome(c), state);
    fact("message", c.message.to_string(), state);
    fact("took", duration(c.duration(snap.now)), plain);
    if let Some(d) = c.timeout_ns {
        let left = d - c.duration(snap.now);
        let text = if c.end.is_none() && left > 0 {
            format!("{}, {} left", duration(d), duration(left))
        } else if c.end.is_none() {
            format!("{}, over by {}", duration(d), duration(-left))
        } else {
            duration(d)
        };
        fact("deadline", text, plain);
    }
    fact("start", time.full(c.start, 1), plain);
    fact(
        "end",
        c.end.map(|e| time.full(e, 1)).unwrap_or_default(),
        plain,
    );
    if !c.pod.is_empty() {
        fact("pod", format!("{}/{}", c.namespace, c.pod), plain);
    }
    fact("uid", c.pod_uid.to_string(), plain);
    fact("container", c.container.to_string(), plain);
    fact(
        "attempt",
        c.attempt.map(|a| a.to_string()).unwrap_or_default(),
        plain,
    );
    fact("image", c.image.to_string(), plain);
    fact("sandbox", c.sandbox_id.to_string(), plain);
    fact("container id", c.container_id.to_string(), plain);
    fact(
        "connection",
        format!("{} stream {}", c.key.conn, c.key.stream),
        plain,
    );
    if let Some((trace, span)) = c.traceparent {
        fact("trace", format!("{trace} {span}"), plain);
    }
    v.push(Line::Head(format!("request  {}", bytes(c.request_bytes))));
    if let Body::CallStart(s) = &c.started.body {
        for (k, val) in &s.fields {
            v.push(Line::Fact(k.to_string(), val.to_string(), plain));
        }
        if s.fields.is_empty() {
            v.push(Line::Fact(
                String::new(),
                "no field that kflow shows".to_owned(),
                plain,
            ));
        }
    }
    if let Some(Body::CallEnd(e)) = c.ended.as_ref().map(|o| &o.body) {
        let n = if e.messages == 1 {
            String::new()
        } else {
            format!(", {} messages", e.messages)
        };
        v.push(Line::Head(format!(
            "answer  {}{n}",
            bytes(c.response_bytes)
        )));
        for (k, val) in &e.fields {
            v.push(Line::Fact(k.to_string(), val.to_string(), plain));
        }
        if e.fields.is_empty() {
            v.push(Line::Fact(
                String::new(),
                "no field that kflow shows".to_owned(),
                plain,
            ));
        }
    }
    v
}

/// Draws the detail, `top` lines scrolled down.
pub(super) fn draw(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, c: &Call, top: usize) {
    let t = ctx.theme;
    let label = 14_u16.min(canvas.width() / 3);
    let room = usize::from(canvas.width().saturating_sub(label));
    let mut rows: Vec<(String, String, Style)> = Vec::new();
    for line in lines(c, ctx.snap, &ctx.time(), t.text, outcome_style(ctx, c)) {
        match line {
            Line::Head(h) => {
                if !rows.is_empty() {
                    rows.push((String::new(), String::new(), t.text));
                }
                rows.push((h, String::new(), t.strong));
            }
            Line::Fact(k, v, s) => {
                let s = if k.is_empty() { t.faint } else { s };
                for (i, part) in wrap(&v, room).into_iter().enumerate() {
                    let k = if i == 0 { k.clone() } else { String::new() };
                    rows.push((k, part, s));
                }
            }
        }
    }
    let h = usize::from(canvas.height());
    let top = top.min(rows.len().saturating_sub(h));
    for (y, (k, v, s)) in rows.iter().skip(top).take(h).enumerate() {
        if v.is_empty() {
            canvas.text(0, y as u16, k, *s);
        } else {
            canvas.text_in(0, y as u16, label.saturating_sub(1), k, t.dim);
            canvas.text(label, y as u16, v, *s);
        }
    }
}

/// The detail as plain text, for the clipboard.
pub(super) fn text(c: &Call, snap: &Snapshot, time: &TimeFormat) -> String {
    let mut out = String::new();
    for l in lines(c, snap, time, Style::new(), Style::new()) {
        // Writing to a String cannot fail.
        let _written = match l {
            Line::Head(h) => writeln!(out, "{h}"),
            Line::Fact(k, v, _) => writeln!(out, "  {k}: {v}"),
        };
    }
    out
}
