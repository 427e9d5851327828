//! Percentiles and a histogram for each method. Lengths are kept for each chunk of the call log, so that only changed
//! chunks are looked at again.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use super::index::Keep;
use crate::canvas::Canvas;
use crate::filter::Filter;
use crate::shared::Ctx;
use crate::text::count;
use crate::widget::scroll::Scroll;
use kflow_core::correlate::Call;
use kflow_core::stats::percentile;
use kflow_engine::Snapshot;
use kflow_model::Text;
use kflow_model::units::{duration, size};

/// Returns counts for `columns` equal parts of a logarithmic axis from `lo` to `hi` ns.
fn histogram(lengths: &[i64], columns: usize, lo: f64, hi: f64) -> Vec<u32> {
    let mut out = vec![0; columns];
    let (a, z) = (lo.log2(), hi.log2());
    for ns in lengths {
        let share = ((*ns).max(1) as f64).log2() - a;
        let at = share / (z - a).max(1.0) * columns as f64;
        let i = at.clamp(0.0, columns.saturating_sub(1) as f64) as usize;
        if let Some(c) = out.get_mut(i) {
            *c += 1;
        }
    }
    out
}

#[derive(Clone, Debug, Default)]
struct Method {
    /// Lengths of the calls that have ended, in ns, ascending.
    lengths: Vec<i64>,
    errors: u64,
    flying: u64,
    bytes: u64,
}

impl AddAssign<&Self> for Method {
    /// Adds the counts, and appends the lengths without sorting them.
    fn add_assign(&mut self, other: &Self) {
        self.lengths.extend_from_slice(&other.lengths);
        self.errors += other.errors;
        self.flying += other.flying;
        self.bytes += other.bytes;
    }
}

type Chunk = Arc<Vec<Arc<Call>>>;

/// Statistics of all methods.
#[derive(Debug, Default)]
pub(super) struct Table {
    chunks: Vec<(Chunk, BTreeMap<Text, Method>)>,
    rows: Vec<(Text, Method)>,
    epoch: u64,
}

/// Counts the calls of a chunk that the list would show too.
fn count_chunk(
    chunk: &Chunk,
    keep: &Keep,
    filter: &Filter,
    snap: &Snapshot,
) -> BTreeMap<Text, Method> {
    let mut m: BTreeMap<Text, Method> = BTreeMap::new();
    for c in chunk.iter().filter(|c| keep.keeps(c, filter, snap)) {
        let e = m.entry(c.method.clone()).or_default();
        e.bytes += c.request_bytes + c.response_bytes;
        match c.end {
            Some(end) => {
                e.lengths.push(end.since(c.start));
                e.errors += u64::from(c.is_error());
            }
            None => e.flying += 1,
        }
    }
    for e in m.values_mut() {
        e.lengths.sort_unstable();
    }
    m
}

impl Table {
    /// Brings the counts up to date; `all` counts every chunk again.
    pub(super) fn update(
        &mut self,
        snap: &Snapshot,
        keep: &Keep,
        filter: &Filter,
        epoch: u64,
        all: bool,
    ) {
        if self.epoch == epoch {
            return;
        }
        // While the table was hidden, nothing was counted and the switches may have changed.
        let all = all || self.epoch + 1 != epoch || filter.depends_on_time();
        self.epoch = epoch;
        if all {
            self.chunks.clear();
        }
        let chunks = snap.world.calls().chunks();
        self.chunks.truncate(chunks.len());
        let mut changed = all;
        for (i, c) in chunks.iter().enumerate() {
            match self.chunks.get_mut(i) {
                Some((old, _)) if Arc::ptr_eq(old, c) => {}
                Some(slot) => {
                    *slot = (Arc::clone(c), count_chunk(c, keep, filter, snap));
                    changed = true;
                }
                None => {
                    self.chunks
                        .push((Arc::clone(c), count_chunk(c, keep, filter, snap)));
                    changed = true;
                }
            }
        }
        if !changed {
            return;
        }
        let mut sum: BTreeMap<Text, Method> = BTreeMap::new();
        for (_, m) in &self.chunks {
            for (name, x) in m {
                *sum.entry(name.clone()).or_default() += x;
            }
        }
        for m in sum.values_mut() {
            m.lengths.sort_unstable();
        }
        self.rows = sum.into_iter().collect();
        self.rows
            .sort_by_key(|(_, m)| std::cmp::Reverse(m.lengths.len() as u64 + m.flying));
    }
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }
    pub(super) fn method(&self, row: usize) -> Option<&str> {
        self.rows.get(row).map(|(m, _)| m.as_str())
    }
    pub(super) fn draw(&self, ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, scroll: &Scroll) {
        let (t, w) = (ctx.theme, canvas.width());
        if self.rows.is_empty() {
            let (text, hint) = if ctx.snap.world.calls().is_empty() {
                ("No CRI call has been seen.", "")
            } else {
                (
                    "No call is left.",
                    "E, i, a and the filter choose which are counted.",
                )
            };
            return super::super::empty(ctx, canvas, text, hint);
        }
        let longest = if w < 70 { 18 } else { 26 };
        let cells: [(&str, u16); 7] = [
            ("COUNT", 7),
            ("ERR", 5),
            ("FLY", 4),
            ("P50", 7),
            ("P99", 7),
            ("MAX", 7),
            ("BYTES", 6),
        ];
        canvas.text(2, 0, "METHOD", t.head);
        let mut x = 2 + longest;
        for (name, cw) in cells {
            x += cw + 1;
            canvas.text_right(x, 0, cw, name, t.head);
        }
        let chart = x + 2;
        let columns = usize::from(w.saturating_sub(chart + 2));
        let (lo, hi) = (10_000.0, 300e9);
        if columns >= 20 {
            canvas.text(chart, 0, "10µs", t.head);
            canvas.text_right(chart + columns as u16, 0, 6, "5m", t.head);
        }
        for (n, row) in scroll.visible().enumerate() {
            let y = 1 + n as u16;
            let Some((name, m)) = self.rows.get(row) else {
                continue;
            };
            let noise = kflow_model::cri::is_noise(name);
            canvas.text_in(2, y, longest, name, if noise { t.dim } else { t.strong });
            let q = |permille: usize| match m.lengths.as_slice() {
                [] => String::new(),
                lengths => duration(percentile(lengths, permille)),
            };
            let values = [
                count(m.lengths.len()),
                if m.errors > 0 {
                    m.errors.to_string()
                } else {
                    String::new()
                },
                if m.flying > 0 {
                    m.flying.to_string()
                } else {
                    String::new()
                },
                q(500),
                q(990),
                q(1000),
                size(m.bytes),
            ];
            let styles = [t.text, t.fail, t.run, t.text, t.text, t.warn, t.dim];
            let mut x = 2 + longest;
            for ((v, (_, cw)), s) in values.iter().zip(cells).zip(styles) {
                x += cw + 1;
                canvas.text_right(x, y, cw, v, s);
            }
            if columns >= 20 {
                let c = histogram(&m.lengths, columns, lo, hi);
                let top = c.iter().copied().max().unwrap_or(0).max(1);
                for (i, n) in c.iter().enumerate() {
                    if *n > 0 {
                        let level = (f64::from(*n) / f64::from(top) * 8.0).ceil() as usize;
                        canvas.symbol(chart + i as u16, y, ctx.glyphs.level(level), t.accent);
                    } else {
                        canvas.symbol(chart + i as u16, y, ctx.glyphs.level(0), t.faint);
                    }
                }
            }
            if row == scroll.at {
                super::select(ctx, canvas, y);
            }
        }
        scroll.draw(ctx, canvas, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::histogram;

    #[test]
    fn every_length_is_in_a_column_also_outside_of_the_axis() {
        let ms = |i: i64| i * 1_000_000;
        let lengths: Vec<i64> = (0..=1000).map(ms).chain([ms(1_000_000)]).collect();
        let columns = histogram(&lengths, 10, 1e4, 3e11);
        assert_eq!(columns.iter().sum::<u32>(), 1002);
        assert_eq!((columns.first(), columns.last()), (Some(&1), Some(&1)));
    }
}
