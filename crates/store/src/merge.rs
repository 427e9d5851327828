//! Joins segments to one stream of observations again.
//!
//! A segment begins with the state carried over from the time before it. If the previous segment is there too, that
//! state is left out: the result is the stream that was cut. If it is not (a segment is lost, or another process
//! recorded), the stream has a gap there and goes on with the carried state. Between two processes nobody recorded;
//! what is missing within one was lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use kflow_model::cri::{CallEnd, CallKey, CallOutcome};
use kflow_model::gap::Gap;
use kflow_model::session::reader::sort_arrivals;
use kflow_model::session::{Header, Part, Reader, Report};
use kflow_model::units::counted;
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp, Text};

/// A segment in memory.
#[derive(Clone, Debug)]
pub struct Piece {
    pub header: Header,
    /// State from the time before the segment.
    pub carried: Vec<Evidence>,
    /// The segment's own observations, in order of arrival.
    pub own: Vec<Evidence>,
    pub report: Report,
}

impl Piece {
    /// Reads a whole segment. If it is cut, reads what is left, which ends with a gap.
    pub fn read(reader: Reader) -> Self {
        let header = reader.header.clone();
        let mut carried: Vec<Evidence> = Vec::new();
        let report = reader.for_each(|batch| {
            carried.extend(batch.observations);
            true
        });
        let first = header.segment.as_ref().is_none_or(|p| p.n == 0);
        let own = match report.from {
            Some(_) => carried.split_off(report.carried.min(carried.len())),
            None if first => std::mem::take(&mut carried),
            // The segment was cut before its own time began.
            None => Vec::new(),
        };
        let mut piece = Self {
            header,
            carried,
            own,
            report,
        };
        sort_arrivals(&mut piece.own);
        piece
    }

    /// Says how much is left of a segment that had `named` observations of its own when it was sent; `None` when it has them all. The
    /// rest is a gap at its end.
    pub fn lacks(&mut self, named: u64) -> Option<String> {
        let carried = self.carried.len() as u64;
        let of_a_later_kflow: u64 = self.report.unknown.values().sum();
        let read = (self.report.observations + of_a_later_kflow).saturating_sub(carried);
        if read >= named {
            return None;
        }
        let left = format!("{read} of its {} are left", counted(named, "observation"));
        if self.report.cut.is_none() {
            let end = self.end();
            self.report.cut = Some(left.clone());
            self.own.extend(self.report.cut_at(end));
        }
        Some(left)
    }

    fn part(&self) -> Option<&Part> {
        self.header.segment.as_ref()
    }

    /// Begin of the segment's own time.
    pub fn begin(&self) -> Nanos {
        let first = self.own.iter().map(|o| o.stamp.seen).min();
        let from = self.report.from.or(first);
        from.unwrap_or(self.header.created)
            .min(first.unwrap_or(Nanos(i64::MAX)))
    }

    /// End of the segment: when it was closed, or when its last observation arrived.
    pub fn end(&self) -> Nanos {
        let last = self.own.iter().map(|o| o.stamp.seen).max();
        let until = self.report.until.max(last);
        until.unwrap_or_else(|| self.begin())
    }
}

/// Sorts the segments of one node as they were recorded, and keeps each once. Runs are ordered by the begin of their
/// first segment, segments of a run by number, whatever the clock showed.
pub fn arrange(pieces: Vec<Piece>) -> Vec<Piece> {
    let mut runs: BTreeMap<(Text, u32), Vec<Piece>> = BTreeMap::new();
    let mut whole = 0;
    for piece in pieces {
        let (run, n) = match piece.part() {
            Some(part) => (part.run.clone(), part.n),
            // A session that is not part of a run is a run by itself.
            None => {
                whole += 1;
                (Text::from(format!("-{whole}")), 0)
            }
        };
        runs.entry((run, n)).or_default().push(piece);
    }
    let mut by_run: BTreeMap<Text, Vec<Piece>> = BTreeMap::new();
    for ((run, _), same) in runs {
        // A segment that a crash cut may have been sent twice, the second time complete.
        let longest = same.into_iter().max_by_key(|p| p.own.len());
        by_run.entry(run).or_default().extend(longest);
    }
    let mut runs: Vec<Vec<Piece>> = by_run.into_values().collect();
    runs.sort_by_key(|run| run.first().map(Piece::begin));
    runs.into_iter().flatten().collect()
}

/// A time that no segment covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub from: Nanos,
    pub to: Nanos,
    /// True if a segment about it is missing; false if nobody recorded.
    pub lost: bool,
}

/// Joins the segments of one node, which are given in order.
#[derive(Debug, Default)]
pub struct Merge {
    /// The last segment and its end.
    before: Option<(Option<Part>, Nanos)>,
    /// Calls without an end so far.
    open: BTreeMap<CallKey, Text>,
    /// Added to connection numbers, since each run counts from 1.
    base: u32,
    /// The highest connection number so far.
    most: u32,
    holes: Vec<Hole>,
}

impl Merge {
    /// A new merge whose connection numbers begin after `base`.
    pub fn after(base: u32) -> Self {
        Self {
            base,
            most: base,
            ..Self::default()
        }
    }

    /// The highest connection number so far.
    pub const fn connections(&self) -> u32 {
        self.most
    }

    /// Times between segments that none of them covers.
    pub fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// Returns the observations that the next segment adds, in order of arrival.
    pub fn next(&mut self, piece: Piece) -> Vec<Evidence> {
        let (begin, end) = (piece.begin(), piece.end());
        let mut out = self.begin(piece.part().cloned(), begin, piece.carried);
        out.extend(self.own(piece.own));
        self.end(end);
        // What the next segment carries over tells what the lost end of this one did.
        if piece.report.cut.is_some() {
            self.before = Some((None, end));
        }
        out
    }

    /// Returns the observations for the begin of the next segment: if it does not follow the last one, a gap and the
    /// carried state.
    pub(crate) fn begin(
        &mut self,
        part: Option<Part>,
        begin: Nanos,
        carried: Vec<Evidence>,
    ) -> Vec<Evidence> {
        let before = self.before.replace((part.clone(), begin));
        let follows = match (&before, &part) {
            (Some((Some(a), _)), Some(b)) => a.run == b.run && a.n.checked_add(1) == Some(b.n),
            _ => false,
        };
        let mut out = Vec::new();
        if follows {
            return out;
        }
        if let Some((was, ended)) = before {
            let of_run = |p: &Option<Part>| p.as_ref().map(|p| p.run.clone());
            let another = was.is_none() || of_run(&was) != of_run(&part);
            if another {
                self.base = self.most;
            }
            let hole = Hole {
                from: ended.min(begin),
                to: begin,
                // The first segment of a process has no predecessor.
                lost: !another || part.is_some_and(|p| p.n > 0),
            };
            // A recording that goes on in another file has no time between.
            if hole.lost || hole.from < hole.to {
                self.holes.push(hole);
                out.push(told(hole));
            }
            self.lose_calls(begin, &carried, &mut out);
        }
        out.extend(self.own(carried));
        out
    }

    /// Returns the segment's own observations, in order.
    pub(crate) fn own(&mut self, observations: Vec<Evidence>) -> Vec<Evidence> {
        observations.into_iter().map(|o| self.take(o)).collect()
    }

    /// Notes the end of the segment.
    pub(crate) fn end(&mut self, at: Nanos) {
        if let Some((_, ended)) = &mut self.before {
            *ended = at;
        }
    }

    /// Ends calls that were open and are not carried over: whether and how they ended is unknown.
    fn lose_calls(&mut self, at: Nanos, carried: &[Evidence], out: &mut Vec<Evidence>) {
        let base = self.base;
        let still = |key: &CallKey| {
            carried.iter().any(|o| match &o.body {
                Body::CallStart(c) => {
                    c.key.stream == key.stream && c.key.conn.checked_add(base) == Some(key.conn)
                }
                _ => false,
            })
        };
        let ended: Vec<CallKey> = self.open.keys().filter(|k| !still(k)).copied().collect();
        for key in ended {
            self.open.remove(&key);
            out.push(Arc::new(Observation {
                stamp: Stamp::exact(at),
                source: Source::Cri,
                body: Body::CallEnd(Box::new(CallEnd::new(key, CallOutcome::Lost))),
            }));
        }
    }

    fn take(&mut self, o: Evidence) -> Evidence {
        let o = renumbered(o, self.base);
        if let Some(conn) = connection(&o.body) {
            self.most = self.most.max(conn);
        }
        match &o.body {
            Body::CallStart(c) => drop(self.open.insert(c.key, c.method.clone())),
            Body::CallEnd(c) => drop(self.open.remove(&c.key)),
            Body::Conn(c) if !c.open => self.open.retain(|key, _| key.conn != c.conn),
            _ => {}
        }
        o
    }
}

/// Returns the gap for a time without segments.
pub(crate) fn told(hole: Hole) -> Evidence {
    let (resource, why) = if hole.lost {
        ("", "no segment tells of this time")
    } else {
        (Gap::UNRECORDED, "nobody recorded in this time")
    };
    Arc::new(Observation {
        stamp: Stamp::exact(hole.to),
        source: Source::Kflow,
        body: Body::Gap(Box::new(Gap {
            of: Source::Kflow,
            since: hole.from,
            lost: 0,
            conn: 0,
            resource: Text::new(resource),
            why: Text::new(why),
        })),
    })
}

/// Returns the number of the connection that an observation is about.
fn connection(body: &Body) -> Option<u32> {
    let conn = match body {
        Body::CallStart(c) => c.key.conn,
        Body::CallEnd(c) => c.key.conn,
        Body::ContainerEvent(c) => c.key.conn,
        Body::Conn(c) => c.conn,
        Body::Gap(g) => g.conn,
        _ => 0,
    };
    (conn > 0).then_some(conn)
}

fn renumbered(o: Evidence, base: u32) -> Evidence {
    if base == 0 || connection(&o.body).is_none() {
        return o;
    }
    let mut o = Arc::unwrap_or_clone(o);
    let conn = match &mut o.body {
        Body::CallStart(c) => &mut c.key.conn,
        Body::CallEnd(c) => &mut c.key.conn,
        Body::ContainerEvent(c) => &mut c.key.conn,
        Body::Conn(c) => &mut c.conn,
        Body::Gap(g) => &mut g.conn,
        _ => return Arc::new(o),
    };
    *conn = conn.saturating_add(base);
    Arc::new(o)
}
