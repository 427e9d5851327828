//! The detail of one call: everything that is known about it.

use super::outcome_style;
use crate::canvas::Canvas;
use crate::shared::Ctx;
use crate::time::TimeFormat;
use crate::widget::details::Details;
use kflow_core::correlate::Call;
use kflow_core::diagnose::pulls::Progress;
use kflow_engine::Snapshot;
use kflow_model::units::{duration, size};
use kflow_model::{Body, Text};
use ratatui::style::Style;

/// Styles of headings, of facts, of the call's state, and of facts that are not known.
struct Styles {
    head: Style,
    plain: Style,
    state: Style,
    faint: Style,
}

/// Returns the facts of a call. `beside` counts, by method, the other calls that were in flight at the same time.
fn facts(
    (c, beside): (&Call, &[(&Text, usize)]),
    snap: &Snapshot,
    time: &TimeFormat,
    s: &Styles,
) -> Details {
    let (plain, state) = (s.plain, s.state);
    let mut v = Details::default();
    v.head(c.method.as_str(), s.head);
    let mut fact = |k: &str, val: String, style: Style| v.fact(k, val, style);
    if c.partial {
        let text = "joined in the middle of the connection: headers of this call are not known";
        fact("unknown", text.to_owned(), s.faint);
    }
    fact("state", c.ending(), state);
    if c.inferred {
        let text = "concluded: the trailers refer to headers from before kflow looked";
        fact("status", text.to_owned(), s.faint);
    }
    fact("message", c.message.to_string(), state);
    fact("took", duration(c.duration(snap.now)), plain);
    let methods: Vec<String> = beside.iter().map(|(m, n)| format!("{n} {m}")).collect();
    fact("meanwhile", methods.join(", "), plain);
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
    if c.pod_inferred {
        let text = "the trace or the order of the calls: the request names no pod";
        fact("pod by", text.to_owned(), s.faint);
    }
    fact("container", c.container.to_string(), plain);
    fact(
        "attempt",
        c.attempt.map(|a| a.to_string()).unwrap_or_default(),
        plain,
    );
    fact("image", c.image.to_string(), plain);
    let progress = Progress::of_call(&snap.world, c, snap.now);
    if let Some(progress) = &progress {
        fact("progress", progress.whole(snap.now), plain);
    }
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
    if let Some(progress) = &progress {
        v.head("layers", s.head);
        for (_, number, text) in progress.each(snap.now) {
            v.fact(&number, text, plain);
        }
    }
    let mut fields = |head: String, all: &[(Text, Text)]| {
        v.head(head, s.head);
        for (k, val) in all {
            v.fact(k, val, plain);
        }
        if all.is_empty() {
            v.fact("", "no field that kflow shows", s.faint);
        }
    };
    if let Body::CallStart(start) = &c.started.body {
        let head = format!("request  {}", size(c.request_bytes));
        fields(head, &start.fields);
    }
    if let Some(Body::CallEnd(e)) = c.ended.as_ref().map(|o| &o.body) {
        let n = match e.messages {
            1 => String::new(),
            n => format!(", {n} messages"),
        };
        let head = format!("answer  {}{n}", size(c.response_bytes));
        fields(head, &e.fields);
    }
    v
}

/// Draws the detail, scrolled down by `top` lines.
pub(super) fn draw(
    ctx: &Ctx<'_>,
    canvas: &mut Canvas<'_>,
    (c, beside): (&Call, &[(&Text, usize)]),
    top: usize,
) {
    let styles = Styles {
        head: ctx.theme.strong,
        plain: ctx.theme.text,
        state: outcome_style(ctx, c),
        faint: ctx.theme.faint,
    };
    facts((c, beside), ctx.snap, &ctx.time(), &styles).draw(ctx, canvas, top);
}

/// Returns the detail as plain text, for the clipboard.
pub(super) fn text(
    (c, beside): (&Call, &[(&Text, usize)]),
    snap: &Snapshot,
    time: &TimeFormat,
) -> String {
    let s = Style::new();
    let styles = Styles {
        head: s,
        plain: s,
        state: s,
        faint: s,
    };
    facts((c, beside), snap, time, &styles).text()
}
