//! What the kubelet's loops do: how often, when last, how long, and a second a column.

use super::lines::{Line, column, line, right, spark};
use crate::correlate::machinery::Work;
use crate::tui::shared::Ctx;
use crate::tui::text::{age, count, duration};

/// Seconds of a sparkline.
pub(super) const SPARK: usize = 60;

/// A loop's name, its kinds of work, and the histograms of the kubelet's metrics that time it, each with its label.
type Group = (
    &'static str,
    &'static [Work],
    &'static [(&'static str, &'static str)],
);

/// Every loop.
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
        &[],
    ),
    (
        "GARBAGE, EVICTION",
        &[
            Work::ContainerGc,
            Work::ImageGc,
            Work::EvictionCheck,
            Work::Eviction,
            Work::Oom,
        ],
        &[],
    ),
];

/// Every kind of work that was seen, by loop.
pub(super) fn draw(ctx: &Ctx<'_>, width: u16, out: &mut Vec<Line>) {
    let t = ctx.theme;
    let m = ctx.snap.world.machinery();
    // A second a column, as many as there is room for.
    let seconds = SPARK.min(usize::from(width).saturating_sub(57));
    let mut first = true;
    for (title, kinds, metrics) in GROUPS {
        let mut rows = Vec::new();
        for w in *kinds {
            let Some(a) = m.work(*w) else { continue };
            let trouble = w.is_trouble();
            let series = a.series.last(ctx.snap.now, seconds);
            let told = |ns: Option<i64>| ns.map(duration).unwrap_or_default();
            rows.push(line(&[
                (
                    &column(&format!("  {}", w.name()), 24),
                    if trouble { t.fail } else { t.text },
                ),
                (
                    // Spans bring lengths of what only the log counts.
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
                    &right(
                        &a.last
                            .map(|l| age(ctx.snap.now.since(l)))
                            .unwrap_or_default(),
                        7,
                    ),
                    t.dim,
                ),
                (&right(&told(a.mean_ns()), 8), t.dim),
                (&right(&told((a.timed > 0).then_some(a.worst_ns)), 8), t.dim),
                ("  ", t.text),
                (
                    &spark(ctx.glyphs, &series),
                    if trouble { t.fail } else { t.accent },
                ),
            ]));
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
            "  and so does the tap on its runtime calls (kflow proxy).",
            t.faint,
        )]));
    }
}
