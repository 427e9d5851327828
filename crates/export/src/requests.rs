//! Requests to the apiserver as text and as rows (documented in `docs/json.md`).

use serde::Serialize;
use std::io::{self, Write};

use super::rows::{self, Rows};
use super::text::{Times, clean, cut};
use super::timeline::Paint;
use kflow_core::correlate::Request;
use kflow_core::correlate::requests::{RequestGroup, RequestStep, Webhook};
use kflow_core::diagnose::CauseId;
use kflow_core::diagnose::admission::{self, Admission, Called};
use kflow_model::units::duration;
use kflow_model::{Nanos, Source};

/// Width of the bar in a waterfall, characters.
const BAR: usize = 32;

/// Writes groups of requests for people, the most frequent first.
pub fn groups(out: &mut impl Write, groups: &[RequestGroup], colour: bool) -> io::Result<()> {
    let paint = Paint { colour };
    writeln!(
        out,
        "{}",
        paint.bold(&format!(
            "{:>7} {:>6} {:>5} {:>8} {:>8} {:>8} {:>8}  {:<8} {:<32} CLIENT",
            "COUNT", "ERRORS", "OPEN", "P50", "P95", "P99", "MAX", "VERB", "RESOURCE"
        ))
    )?;
    for g in groups {
        let errors = format!("{:>6}", g.errors);
        writeln!(
            out,
            "{:>7} {} {:>5} {:>8} {:>8} {:>8} {:>8}  {:<8} {:<32} {}",
            g.count,
            if g.errors > 0 {
                paint.red(&errors)
            } else {
                errors
            },
            g.open,
            duration(g.p50_ns),
            duration(g.p95_ns),
            duration(g.p99_ns),
            duration(g.max_ns),
            clean(&g.verb),
            clean(&g.resource),
            clean(&g.agent),
        )?;
    }
    Ok(())
}

/// Returns the object of a request: `ns/name`, a name, or nothing for a cluster-wide collection.
pub fn object(r: &Request) -> String {
    match (r.object.namespace.as_str(), r.object.name.as_str()) {
        ("", name) => name.to_owned(),
        (ns, "") => format!("{ns}/"),
        (ns, name) => format!("{ns}/{name}"),
    }
}

/// Writes requests for people, one per line.
pub fn list<'a>(
    out: &mut impl Write,
    requests: impl Iterator<Item = &'a Request> + Clone,
    now: Nanos,
    wide: bool,
    colour: bool,
) -> io::Result<()> {
    let paint = Paint { colour };
    let times = Times::of(requests.clone().map(|r| r.received));
    let start = times.width(15);
    for (n, r) in requests.enumerate() {
        if n == 0 {
            writeln!(
                out,
                "{}",
                paint.bold(&format!(
                    "{:<start$} {:>8} {:>4} {:<7} {:<24} {:<40} {}CLIENT  AUDIT ID",
                    "START (UTC)",
                    "LENGTH",
                    "CODE",
                    "VERB",
                    "RESOURCE",
                    "OBJECT",
                    if wide {
                        format!("{:<40} {:>8} {:<32} ", "USER", "WEBHOOKS", "TRACE")
                    } else {
                        String::new()
                    }
                ))
            )?;
        }
        let code = match r.code {
            0 => paint.yellow("  …"),
            c if r.is_error() => paint.red(&format!("{c:>3}")),
            c => format!("{c:>3}"),
        };
        let more = if wide {
            let trace = r.span.map(|(t, _)| t.to_string()).unwrap_or_default();
            let user = clean(&r.user);
            let user = cut(&user, 40);
            format!("{user:<40} {:>8} {trace:<32} ", r.webhooks.len())
        } else {
            String::new()
        };
        let mut row = format!(
            "{:<start$} {:>8}  {code} {:<7} {:<24} {:<40} {more}{}",
            times.at(r.received, r.precision.max(1000)),
            duration(r.duration(now)),
            clean(&r.verb),
            clean(&r.resource),
            clean(&object(r)),
            clean(&r.agent),
        );
        if r.is_error() && !r.message.is_empty() {
            row.push_str(&format!("  {}", cut(&clean(&r.message), 120)));
        }
        row.push_str(&paint.dim(&format!("  {}", clean(&r.audit_id))));
        writeln!(out, "{row}")?;
    }
    Ok(())
}

/// Returns what is known of a request as pairs: the client, the decision, where the time went, and the webhooks.
pub fn facts(r: &Request) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("audit id", r.audit_id.to_string()),
        ("user", r.user.to_string()),
        ("client", r.agent.to_string()),
        ("query", r.query.to_string()),
        ("decision", r.decision.to_string()),
        ("message", r.message.to_string()),
    ];
    let parts: Vec<String> = r
        .latency
        .iter()
        .map(|(part, ns)| format!("{part} {}", duration(*ns)))
        .collect();
    rows.push(("latency", parts.join(", ")));
    if let Some(a) = admission::of(r) {
        rows.push(("admission", admitted(&a)));
    }
    for w in &r.webhooks {
        rows.push(("webhook", webhook(w)));
    }
    if let Some((trace, _)) = r.span {
        rows.push(("trace", trace.to_string()));
    }
    rows.retain(|(_, v)| !v.is_empty());
    rows
}

/// `refused (KF101, Quota exceeded); no mutating webhook was called; whether a validating one was is not known`.
fn admitted(a: &Admission) -> String {
    let mut parts = Vec::new();
    match a.cause {
        Some(c) => parts.push(format!("refused ({}, {})", c.id, c.title)),
        None if a.refused => parts.push("refused".to_owned()),
        None => {}
    }
    let kinds = [("mutating", a.mutating), ("validating", a.validating)];
    let none = kinds.iter().all(|(_, c)| *c == Called::None);
    if none {
        parts.push("no webhook was called".to_owned());
    }
    for (kind, called) in kinds.into_iter().filter(|_| !none) {
        parts.push(match called {
            Called::Webhooks(1) => format!("a {kind} webhook was called"),
            Called::Webhooks(n) => format!("{n} {kind} webhooks were called"),
            Called::None => format!("no {kind} webhook was called"),
            Called::Unknown => format!("whether a {kind} webhook was called is not known"),
        });
    }
    if let Some(level) = &a.pod_security {
        parts.push(format!("Pod Security enforces {level}"));
    }
    parts.join("; ")
}

fn webhook(w: &Webhook) -> String {
    let mut s = w.name.to_string();
    if !w.configuration.is_empty() && w.configuration != w.name {
        s.push_str(&format!(" of {}", w.configuration));
    }
    s.push_str(if w.mutating {
        ", mutating"
    } else {
        ", validating"
    });
    if w.mutated {
        s.push_str(", changed the object");
    }
    if w.failed_open {
        s.push_str(", failed and was ignored");
    }
    s
}

/// Returns the first cell and the number of cells of a step, in a bar of `width` cells for the whole request.
pub fn bar(start: Nanos, end: Nanos, step: &RequestStep, width: usize) -> (usize, usize) {
    let total = end.since(start).max(1) as f64;
    let at = |t: Nanos| ((t.since(start) as f64 / total).clamp(0.0, 1.0) * width as f64) as usize;
    let from = at(step.start).min(width.saturating_sub(1));
    let until = at(step.end).max(from + 1).min(width);
    (from, until.saturating_sub(from).max(1))
}

/// Writes one request for people: its facts, and its waterfall.
pub fn waterfall(out: &mut impl Write, r: &Request, now: Nanos, colour: bool) -> io::Result<()> {
    let paint = Paint { colour };
    let code = match r.code {
        0 => "no answer yet".to_owned(),
        c => c.to_string(),
    };
    writeln!(
        out,
        "{}  {}  {}  {}",
        paint.bold(&clean(&format!("{} {} {}", r.verb, r.resource, object(r)))),
        if r.is_error() { paint.red(&code) } else { code },
        Times::of([r.received, now]).at(r.received, r.precision),
        duration(r.duration(now)),
    )?;
    for (key, value) in facts(r) {
        writeln!(
            out,
            "  {} {}",
            paint.dim(&format!("{key:<9}")),
            clean(&value)
        )?;
    }
    let steps = r.steps();
    if steps.is_empty() {
        writeln!(
            out,
            "  {}",
            paint.dim("no spans of it: the apiserver's tracing shows filters, admission and etcd")
        )?;
        return Ok(());
    }
    let end = r
        .ended
        .unwrap_or(now)
        .max(steps.iter().map(|s| s.end).max().unwrap_or(now));
    writeln!(
        out,
        "  {}",
        paint.bold(&format!(
            "{:>8} {:>8} {:>8}  {:<BAR$}  STEP",
            "AT", "LENGTH", "OWN", ""
        ))
    )?;
    for s in &steps {
        let (from, n) = bar(r.received, end, s, BAR);
        let cells = format!(
            "{}{}{}",
            " ".repeat(from),
            "━".repeat(n),
            " ".repeat(BAR - from - n)
        );
        let name = format!(
            "{:indent$}{}",
            "",
            clean(&s.name),
            indent = usize::from(s.depth) * 2
        );
        let mut row = format!(
            "  {:>8} {:>8} {:>8}  {cells}  {}",
            format!("+{}", duration(s.start.since(r.received))),
            duration(s.end.since(s.start)),
            duration(s.own_ns),
            if s.error { paint.red(&name) } else { name },
        );
        if !s.detail.is_empty() {
            row.push_str(&paint.dim(&format!("  {}", cut(&clean(&s.detail), 100))));
        }
        writeln!(out, "{row}")?;
    }
    Ok(())
}

#[derive(Default, Serialize)]
struct GroupJson<'a> {
    client: &'a str,
    verb: &'a str,
    resource: &'a str,
    count: u64,
    errors: u64,
    open: u64,
    p50_ns: i64,
    p95_ns: i64,
    p99_ns: i64,
    max_ns: i64,
}

/// Writes a row per group.
pub fn group_rows(out: &mut impl Write, groups: &[RequestGroup], form: Rows) -> io::Result<()> {
    let rows = groups.iter().map(|g| GroupJson {
        client: &g.agent,
        verb: &g.verb,
        resource: &g.resource,
        count: g.count,
        errors: g.errors,
        open: g.open,
        p50_ns: g.p50_ns,
        p95_ns: g.p95_ns,
        p99_ns: g.p99_ns,
        max_ns: g.max_ns,
    });
    rows::write(out, form, rows)
}

#[derive(Default, Serialize)]
struct RequestRow<'a> {
    audit_id: &'a str,
    received_ns: Nanos,
    precision_ns: u32,
    ended_ns: Option<Nanos>,
    duration_ns: i64,
    verb: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
    user: &'a str,
    client: &'a str,
    code: u16,
    message: &'a str,
    decision: &'a str,
    query: &'a str,
}

#[derive(Default, Serialize)]
struct RequestJson<'a> {
    #[serde(flatten)]
    row: RequestRow<'a>,
    latency: Vec<LatencyJson<'a>>,
    admission: Option<AdmissionJson>,
    webhooks: Vec<WebhookJson<'a>>,
    trace: Option<String>,
    sources: Vec<Source>,
    steps: Vec<StepJson>,
}

#[derive(Serialize)]
struct LatencyJson<'a> {
    part: &'a str,
    ns: i64,
}

/// A number of webhooks is `null` when unknown.
#[derive(Serialize)]
struct AdmissionJson {
    refused: bool,
    cause: Option<CauseId>,
    pod_security: Option<String>,
    mutating_webhooks: Option<usize>,
    validating_webhooks: Option<usize>,
}

impl From<Admission> for AdmissionJson {
    fn from(a: Admission) -> Self {
        let number = |c| match c {
            Called::Webhooks(n) => Some(n),
            Called::None => Some(0),
            Called::Unknown => None,
        };
        Self {
            refused: a.refused,
            cause: a.cause.map(|c| c.id),
            pod_security: a.pod_security.map(|l| l.to_string()),
            mutating_webhooks: number(a.mutating),
            validating_webhooks: number(a.validating),
        }
    }
}

#[derive(Serialize)]
struct WebhookJson<'a> {
    name: &'a str,
    configuration: &'a str,
    mutating: bool,
    mutated: bool,
    failed_open: bool,
}

#[derive(Serialize)]
struct StepJson {
    name: String,
    service: String,
    start_ns: Nanos,
    end_ns: Nanos,
    own_ns: i64,
    depth: u16,
    detail: String,
    error: bool,
}

/// Writes a row per request; in JSON with its waterfall.
pub fn rows<'a>(
    out: &mut impl Write,
    requests: impl Iterator<Item = &'a Request>,
    now: Nanos,
    form: Rows,
) -> io::Result<()> {
    match form {
        Rows::Csv => rows::write(out, form, requests.map(|r| flat(r, now))),
        Rows::Json | Rows::Jsonl | Rows::Yaml => {
            rows::write(out, form, requests.map(|r| request(r, now)))
        }
    }
}

/// Returns the CSV row of a request.
pub fn row(r: &Request, now: Nanos) -> impl Serialize + '_ {
    flat(r, now)
}

fn flat(r: &Request, now: Nanos) -> RequestRow<'_> {
    RequestRow {
        audit_id: &r.audit_id,
        received_ns: r.received,
        precision_ns: r.precision,
        ended_ns: r.ended,
        duration_ns: r.duration(now),
        verb: &r.verb,
        resource: &r.resource,
        namespace: &r.object.namespace,
        name: &r.object.name,
        user: &r.user,
        client: &r.agent,
        code: r.code,
        message: &r.message,
        decision: &r.decision,
        query: &r.query,
    }
}

fn request(r: &Request, now: Nanos) -> RequestJson<'_> {
    let mut sources: Vec<Source> = r.evidence.iter().map(|e| e.source).collect();
    sources.sort_unstable();
    sources.dedup();
    RequestJson {
        row: flat(r, now),
        latency: r
            .latency
            .iter()
            .map(|(part, ns)| LatencyJson { part, ns: *ns })
            .collect(),
        admission: admission::of(r).map(Into::into),
        webhooks: r
            .webhooks
            .iter()
            .map(|w| WebhookJson {
                name: &w.name,
                configuration: &w.configuration,
                mutating: w.mutating,
                mutated: w.mutated,
                failed_open: w.failed_open,
            })
            .collect(),
        trace: r.span.map(|(t, _)| t.to_string()),
        sources,
        steps: r
            .steps()
            .into_iter()
            .map(|s| StepJson {
                name: s.name.to_string(),
                service: s.service.to_string(),
                start_ns: s.start,
                end_ns: s.end,
                own_ns: s.own_ns,
                depth: s.depth,
                detail: s.detail.to_string(),
                error: s.error,
            })
            .collect(),
    }
}
