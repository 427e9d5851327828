//! The work of the kubelet's loops: how often, when last, how long, and a sparkline with one column per second.

use std::sync::Arc;

use crate::shared::Ctx;
use crate::text::count;
use crate::widget::page::{Lead, Line, column, line, right, spark};
use kflow_core::correlate::kubelet::Work;
use kflow_core::diagnose::limits;
use kflow_model::units::{age, duration};
use kflow_model::{Body, log::LogLine};

/// Length of a sparkline, in seconds.
pub(super) const SPARK: usize = 60;

/// Limit on the newest log lines that are listed below a kind of work.
const NEWEST: usize = 3;

/// The name of a loop, its kinds of work, and the kubelet's histogram metrics that time the loop, each with a label.
type Group = (
    &'static str,
    &'static [Work],
    &'static [(&'static str, &'static str)],
);

const GROUPS: &[Group] = &[
    (
        "SYNC LOOP",
        &[
            Work::ConfigAdd,
            Work::ConfigUpdate,
            Work::ConfigRemove,
            Work::ConfigDelete,
            Work::ConfigReconcile,
            Work::PlegEvent,
            Work::Sync,
            Work::ProbeUpdate,
            Work::Housekeeping,
            Work::Skipped,
        ],
        &[],
    ),
    (
        "POD WORKERS",
        &[Work::WorkerBegan, Work::WorkerEnded, Work::WorkerError],
        &[(
            "sync, by its metrics",
            "kubelet_pod_worker_duration_seconds",
        )],
    ),
    (
        "PLEG",
        &[Work::PlegChange, Work::Relist, Work::RelistOnDemand],
        &[
            (
                "relist, by its metrics",
                "kubelet_pleg_relist_duration_seconds",
            ),
            (
                "interval, by its metrics",
                "kubelet_pleg_relist_interval_seconds",
            ),
        ],
    ),
    ("PROBES", &[Work::ProbePassed, Work::ProbeFailed], &[]),
    (
        "STATUS, LEASE",
        &[Work::StatusPatch, Work::Lease, Work::NodeStatus],
        // The metric measures from the kubelet's detection of a change to the patch in the apiserver.
        &[(
            "change to patch, by its metrics",
            "kubelet_pod_status_sync_duration_seconds",
        )],
    ),
    (
        "GARBAGE, EVICTION",
        &[
            Work::ContainerGc,
            Work::ImageGc,
            Work::EvictionCheck,
            Work::Threshold,
            Work::Eviction,
            Work::Oom,
        ],
        &[],
    ),
];

/// Returns the time, in ns, after which a periodic loop is late: the limit at which the diagnosis counts it as silent.
const fn due(w: Work) -> Option<i64> {
    match w {
        Work::Relist => Some(limits::KUBELET_SILENT.ns),
        Work::Lease => Some(limits::LEASE_MISSED.ns),
        _ => None,
    }
}

/// Draws every kind of work that was seen, grouped by loop.
pub(super) fn draw(ctx: &Ctx<'_>, width: u16, out: &mut Vec<Line>) {
    let t = ctx.theme;
    let m = ctx.snap.world.kubelet();
    // One column per second, as many as there is room for.
    let seconds = SPARK.min(usize::from(width).saturating_sub(57));
    let mut first = true;
    for (title, kinds, metrics) in GROUPS {
        let mut rows = Vec::new();
        for w in *kinds {
            let Some(a) = m.work(*w) else { continue };
            let trouble = w.is_trouble();
            let series = a.series.last(ctx.snap.now, seconds);
            let idle = a.last.map(|l| ctx.snap.now.since(l));
            let late = idle.zip(due(*w)).is_some_and(|(idle, due)| idle > due);
            let told = |ns: Option<i64>| ns.map(duration).unwrap_or_default();
            rows.push(
                line(&[
                    (
                        &column(&format!("  {}", w.name()), 24),
                        if trouble { t.fail } else { t.text },
                    ),
                    (
                        // Work without a count is known from spans only, which give durations.
                        &right(
                            &if a.count > 0 {
                                count(a.count as usize)
                            } else {
                                String::new()
                            },
                            8,
                        ),
                        t.text,
                    ),
                    (
                        &right(&idle.map(age).unwrap_or_default(), 7),
                        if late { t.fail } else { t.dim },
                    ),
                    (&right(&told(a.mean_ns()), 8), t.dim),
                    (&right(&told((a.timed > 0).then_some(a.worst_ns)), 8), t.dim),
                    ("  ", t.text),
                    (
                        &spark(ctx.glyphs, &series),
                        if trouble { t.fail } else { t.accent },
                    ),
                ])
                .to(match (m.newest(*w).next_back(), a.last) {
                    (Some(e), _) => Lead::Evidence(Arc::clone(e)),
                    (None, Some(at)) => Lead::Moment(at),
                    (None, None) => Lead::None,
                }),
            );
            newest(ctx, *w, &mut rows);
        }
        for (label, family) in *metrics {
            if let Some(mean) = m.histogram_mean(family) {
                rows.push(line(&[
                    (&column(&format!("  {label}"), 39), t.text),
                    (&right(&duration((mean * 1e9) as i64), 8), t.dim),
                ]));
            }
        }
        if rows.is_empty() {
            continue;
        }
        let mut title = (*title).to_owned();
        if *kinds == [Work::WorkerBegan, Work::WorkerEnded, Work::WorkerError]
            && let Some(n) = m.busy_workers()
        {
            title.push_str(&format!(" {} {n} busy", ctx.glyphs.dot));
        }
        if first {
            out.push(line(&[
                (&column(&title, 24), t.head),
                (&right("COUNT", 8), t.head),
                (&right("LAST", 7), t.head),
                (&right("MEAN", 8), t.head),
                (&right("WORST", 8), t.head),
                (
                    if seconds < 10 {
                        ""
                    } else if seconds < SPARK {
                        "  PER SECOND"
                    } else {
                        "  PER SECOND, LAST MINUTE"
                    },
                    t.head,
                ),
            ]));
        } else {
            out.push(line(&[(&title, t.head)]));
        }
        first = false;
        out.append(&mut rows);
    }
    if first {
        out.push(line(&[("KUBELET", t.head)]));
        out.push(line(&[(
            "  Nothing was seen of the kubelet's loops: its log tells (--kubelet-log, best at -v=4),",
            t.faint,
        )]));
        out.push(line(&[(
            "  and so does a tap on its calls to the runtime (--tap ebpf, or kflow proxy).",
            t.faint,
        )]));
    }
}

/// Adds the newest log lines of a kind of work.
fn newest(ctx: &Ctx<'_>, work: Work, rows: &mut Vec<Line>) {
    let t = ctx.theme;
    let kubelet = ctx.snap.world.kubelet();
    for e in kubelet.newest(work).rev().take(NEWEST) {
        let Body::Log(l) = &e.body else { continue };
        let (who, what) = said(ctx, work, l);
        rows.push(
            line(&[
                ("    ", t.text),
                (&ctx.time().at(e.stamp.at, e.stamp.precision, 3), t.dim),
                (" ", t.text),
                (&who, t.text),
                (if who.is_empty() { "" } else { "  " }, t.text),
                (&what, if work.is_trouble() { t.fail } else { t.dim }),
            ])
            .to(Lead::Evidence(Arc::clone(e))),
        );
    }
}

/// Returns the pod or object that a log line is about, and the text.
fn said(ctx: &Ctx<'_>, work: Work, l: &LogLine) -> (String, String) {
    let field = |key| l.field(key).unwrap_or_default();
    let pod = (!l.pod.uid.is_empty())
        .then(|| ctx.snap.world.pod(&l.pod.uid))
        .flatten();
    let mut who = match pod {
        Some(p) => p.key(),
        None if l.pod.name.is_empty() => l.pod.uid.0.to_string(),
        None => format!("{}/{}", l.pod.namespace, l.pod.name),
    };
    let container = pod
        .and_then(|p| p.containers.iter().find(|c| c.id == *l.container_id))
        .map_or(l.container.as_str(), |c| c.name.as_str());
    if !container.is_empty() {
        who.push_str(&format!(" [{container}]"));
    }
    let what = match work {
        Work::PlegChange => format!(
            "{} {} {}",
            field("oldState"),
            ctx.glyphs.right,
            field("newState")
        ),
        Work::ProbeFailed => format!("{} {}", field("probeType"), field("output")),
        Work::Threshold => format!(
            "{}: {} left, threshold {}",
            field("signal"),
            field("available"),
            field("quantity")
        ),
        Work::Oom => {
            let fields: Vec<String> = l.fields.iter().map(|(k, v)| format!("{k}={v}")).collect();
            fields.join(" ")
        }
        _ => String::new(),
    };
    (who, what)
}
