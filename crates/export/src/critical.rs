//! The critical path of each start as text and as rows (documented in `docs/json.md`).

use serde::Serialize;
use std::io::{self, Write};

use super::rows::{self, Rows};
use super::text::{clean, cut};
use super::timeline::Paint;
use kflow_core::correlate::{Pod, PodView, World};
use kflow_core::diagnose::awaited::{self, Waits};
use kflow_core::flow::Stage;
use kflow_core::timeline::critical::{self, Blocker, Critical, Line, Reached};
use kflow_model::Nanos;
use kflow_model::units::duration;

/// Writes a row per piece, pod by pod; none for pods without a known timeline.
pub fn rows(
    out: &mut impl Write,
    world: &World,
    pods: &[Pod],
    now: Nanos,
    form: Rows,
) -> io::Result<()> {
    let pieces = pods.iter().flat_map(|p| {
        let path = critical::path(p, now);
        let n = path.as_ref().map_or(0, |c| c.pieces.len());
        let waits = Waits::of(world, p, now);
        (0..n).filter_map(move |i| PieceRow::of(p, path.as_ref()?, i, &waits, now))
    });
    rows::write(out, form, pieces)
}

#[derive(Default, Serialize)]
struct PieceRow<'a> {
    uid: &'a str,
    namespace: &'a str,
    name: &'a str,
    node: &'a str,
    reached: Option<Reached>,
    start_ns: Nanos,
    end_ns: Nanos,
    ns: i64,
    share: f64,
    blocker: Option<Blocker>,
    stage: Option<Stage>,
    step: &'a str,
    container: &'a str,
    attempt: Option<u32>,
    what: String,
    waits_for: Vec<String>,
}

impl<'a> PieceRow<'a> {
    fn of(
        p: &'a PodView,
        path: &Critical,
        index: usize,
        waits: &Waits<'_>,
        now: Nanos,
    ) -> Option<Self> {
        let piece = path.pieces.get(index)?;
        let span = piece.span.and_then(|i| p.timeline.spans.get(i as usize));
        Some(Self {
            uid: p.uid.as_str(),
            namespace: &p.namespace,
            name: &p.name,
            node: &p.node,
            reached: Some(path.reached),
            start_ns: piece.start,
            end_ns: piece.end,
            ns: piece.ns(),
            share: path.share(piece.ns()),
            blocker: Some(piece.blocker),
            stage: span.map(|s| s.stage),
            step: span.map_or("", |s| &s.step),
            container: span.map_or("", |s| &s.container),
            attempt: span.map(|s| s.attempt),
            what: critical::words(&p.timeline, path, index),
            waits_for: waits.in_piece(piece).iter().map(|a| a.words(now)).collect(),
        })
    }
}

/// Writes the paths for people, a line per piece in order of time; adjacent short pieces share a line.
pub fn text(
    out: &mut impl Write,
    world: &World,
    pods: &[Pod],
    now: Nanos,
    colour: bool,
) -> io::Result<()> {
    let paint = Paint { colour };
    for (n, p) in pods.iter().enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        pod(out, world, p, now, &paint)?;
    }
    Ok(())
}

fn pod(
    out: &mut impl Write,
    world: &World,
    p: &PodView,
    now: Nanos,
    paint: &Paint,
) -> io::Result<()> {
    let name = paint.bold(&clean(&p.key()));
    let Some(path) = critical::path(p, now) else {
        return writeln!(out, "{name}  nothing of its start was seen");
    };
    if path.ns() == 0 {
        return writeln!(out, "{name}  {}", path.headline(&p.timeline));
    }
    writeln!(out, "{name}  {}", path.headline(&p.timeline))?;
    let head = format!(
        "  {:>10}  {:>8}  {:>5}  {:<9}   WHAT",
        "AT", "TIME", "SHARE", "STAGE"
    );
    writeln!(out, "{}", paint.dim(&head))?;
    let waits = Waits::of(world, p, now);
    let begin = path.pieces.first().map(|p| p.start).unwrap_or_default();
    for line in path.lines() {
        let (from, ns) = (line.start(&path), line.ns(&path));
        let stage = line.stages(&path, &p.timeline);
        let mut what = line.words(&path, &p.timeline);
        if let Line::Piece(i) = line
            && let Some(piece) = path.pieces.get(i)
            && let Some(waits) = awaited::sentence(&waits.in_piece(piece), now)
        {
            what.push_str(&format!(", {waits}"));
        }
        let what = cut(&clean(&what), 160).into_owned();
        let (sign, what) = match line {
            Line::Piece(i) => match path.pieces.get(i).map(|p| p.blocker) {
                Some(Blocker::Unknown) => ("?", paint.dim(&what)),
                Some(b) if b.is_wait() => ("~", paint.yellow(&what)),
                _ => (" ", what),
            },
            Line::Short(..) => (" ", paint.dim(&what)),
        };
        writeln!(
            out,
            "  {:>10}  {:>8}  {:>4.0}%  {stage:<9} {sign} {what}",
            format!("+{}", duration(from.since(begin))),
            duration(ns),
            path.share(ns) * 100.0,
        )?;
    }
    Ok(())
}
