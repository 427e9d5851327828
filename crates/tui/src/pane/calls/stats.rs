//! Percentiles and a histogram for each method. Counts are kept for each chunk of the call log, so that only changed
//! chunks are counted again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::index::Keep;
use crate::canvas::Canvas;
use crate::filter::Filter;
use crate::shared::Ctx;
use crate::text::count;
use crate::widget::scroll::Scroll;
use kflow_core::correlate::Call;
use kflow_engine::Snapshot;
use kflow_model::Text;
use kflow_model::units::{duration, size};

/// Buckets per factor of two. A percentile, being the upper bound of its bucket, is at most 9 % too high.
const PER_OCTAVE: f64 = 8.0;

/// A histogram of durations with logarithmic buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Histogram {
    buckets: BTreeMap<u16, u32>,
    n: u64,
    max: i64,
}

impl Histogram {
    pub(crate) fn add(&mut self, ns: i64) {
        let b = ((ns.max(1) as f64).log2() * PER_OCTAVE) as u16;
        *self.buckets.entry(b).or_default() += 1;
        self.n += 1;
        self.max = self.max.max(ns);
    }
    pub(crate) fn merge(&mut self, other: &Self) {
        for (b, n) in &other.buckets {
            *self.buckets.entry(*b).or_default() += n;
        }
        self.n += other.n;
        self.max = self.max.max(other.max);
    }
    /// Returns the upper bound, in ns, of the bucket that contains the quantile `q` (0 to 1), but at most the maximum.
    pub(crate) fn quantile(&self, q: f64) -> i64 {
        let want = (self.n as f64 * q).ceil().max(1.0) as u64;
        let mut sum = 0;
        for (b, n) in &self.buckets {
            sum += u64::from(*n);
            if sum >= want {
                return (((f64::from(*b) + 1.0) / PER_OCTAVE).exp2() as i64).min(self.max);
            }
        }
        self.max
    }
    /// Returns counts for `columns` equal parts of a logarithmic axis from `lo` to `hi` ns.
    pub(crate) fn columns(&self, columns: usize, lo: f64, hi: f64) -> Vec<u32> {
        let mut out = vec![0; columns];
        let (a, z) = (lo.log2() * PER_OCTAVE, hi.log2() * PER_OCTAVE);
        for (b, n) in &self.buckets {
            let share = (f64::from(*b) - a) / (z - a).max(1.0);
            let i = (share * columns as f64).clamp(0.0, columns.saturating_sub(1) as f64) as usize;
            if let Some(c) = out.get_mut(i) {
                *c += n;
            }
        }
        out
    }
}

#[derive(Clone, Debug, Default)]
struct Method {
    times: Histogram,
    errors: u64,
    flying: u64,
    bytes: u64,
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
                e.times.add(end.since(c.start));
                e.errors += u64::from(c.is_error());
            }
            None => e.flying += 1,
        }
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
                let e = sum.entry(name.clone()).or_default();
                e.times.merge(&x.times);
                e.errors += x.errors;
                e.flying += x.flying;
                e.bytes += x.bytes;
            }
        }
        self.rows = sum.into_iter().collect();
        self.rows
            .sort_by_key(|(_, m)| std::cmp::Reverse(m.times.n + m.flying));
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
            let h = &m.times;
            let noise = kflow_model::cri::is_noise(name);
            canvas.text_in(2, y, longest, name, if noise { t.dim } else { t.strong });
            let done = h.n > 0;
            let q = |p: f64| {
                if done {
                    duration(h.quantile(p))
                } else {
                    String::new()
                }
            };
            let values = [
                count(h.n as usize),
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
                q(0.5),
                q(0.99),
                if done { duration(h.max) } else { String::new() },
                size(m.bytes),
            ];
            let styles = [t.text, t.fail, t.run, t.text, t.text, t.warn, t.dim];
            let mut x = 2 + longest;
            for ((v, (_, cw)), s) in values.iter().zip(cells).zip(styles) {
                x += cw + 1;
                canvas.text_right(x, y, cw, v, s);
            }
            if columns >= 20 {
                let c = h.columns(columns, lo, hi);
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
    use super::*;

    #[test]
    fn quantiles_are_within_a_bucket_of_the_truth() {
        let mut h = Histogram::default();
        for i in 1..=1000_i64 {
            h.add(i * 1_000_000);
        }
        for (q, truth) in [(0.5, 500e6), (0.9, 900e6), (0.99, 990e6)] {
            let got = h.quantile(q) as f64;
            assert!(got >= truth && got <= truth * 1.095, "{q}: {got}");
        }
        assert_eq!(h.quantile(1.0), 1_000_000_000);
        assert_eq!(h.columns(10, 1e4, 3e11).iter().sum::<u32>(), 1000);
    }
}
