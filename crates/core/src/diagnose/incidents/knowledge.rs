//! The time during which it was known how the pods are. "Nothing was ever wrong" can be said about no other time.

use crate::correlate::{Hindsight, Incomplete};
use crate::diagnose::unknown::{self, Asked, Unknown};
use kflow_model::Nanos;
use kflow_model::gap::Gap;
use kflow_model::stamp::SECOND;
use kflow_model::units::duration;

/// The first lists may take this long, ns; a longer time without them at the begin counts as unknown. Chosen: as long
/// as somebody who starts a recording waits for its first answer without asking why.
const FIRST_LISTS_NS: i64 = 10 * SECOND;
/// The largest number of unknown times that are kept one by one; beyond it the last one grows.
const MOST: usize = 1000;

/// A time during which it was not known how the pods are.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Blind {
    since: Nanos,
    /// `None` while it lasts.
    until: Option<Nanos>,
    why: Unknown,
}

/// Since when it was known how the pods are, and the times after that during which it was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// The first moment that was looked at.
    begin: Option<Nanos>,
    last: Option<Nanos>,
    /// The first moment at which all was known.
    from: Option<Nanos>,
    /// Why not all was known at the newest moment before `from`.
    before: Option<Unknown>,
    blind: Vec<Blind>,
}

impl Knowledge {
    /// Takes what is known at a moment; a moment before the last one counts as the last one. Returns true when
    /// something changed.
    pub fn look(&mut self, asked: Asked<'_>) -> bool {
        let at = self.last.map_or(asked.at, |l| l.max(asked.at));
        self.last = Some(at);
        self.begin.get_or_insert(at);
        let why = unknown::every(asked);
        let first = self.begin.is_some_and(|b| at.since(b) <= FIRST_LISTS_NS);
        if first && why.is_some() && self.blind.is_empty() {
            // The first lists are still being made: the kinds are listed one after the other.
            self.from = None;
        }
        if self.from.is_none() {
            let changed = self.before != why;
            match why {
                None => {
                    self.from = Some(at);
                    self.first(at);
                }
                why => self.before = why,
            }
            return changed || self.from.is_some();
        }
        let full = self.blind.len() >= MOST;
        match (self.blind.last_mut(), why) {
            (Some(b), None) if b.until.is_none() => b.until = Some(at),
            (Some(b), Some(_)) if b.until.is_none() => return false,
            (Some(b), Some(_)) if full => b.until = None,
            (_, None) => return false,
            (_, Some(why)) => self.blind.push(Blind {
                since: at,
                until: None,
                why,
            }),
        }
        true
    }

    /// Notes that all is known for the first time.
    fn first(&mut self, at: Nanos) {
        let begin = self.begin.unwrap_or(at);
        if let Some(why) = self.before.take()
            && at.since(begin) > FIRST_LISTS_NS
        {
            self.blind.push(Blind {
                since: begin,
                until: Some(at),
                why,
            });
        }
    }

    /// Adds losses and silent watches, which a recording reports only once they are over.
    pub fn look_back(&mut self, hindsight: &Hindsight) {
        let (Some(from), Some(last)) = (self.from, self.last) else {
            return;
        };
        let matters = |why: &Incomplete| match why {
            Incomplete::Lost(l) => {
                let any = ["", Gap::SEGMENTS, Gap::UNRECORDED, Gap::CAPTURE]
                    .contains(&l.resource.as_str());
                any || unknown::is_needed(&l.resource)
            }
            _ => true,
        };
        for (begin, end, why) in hindsight.dark().filter(|(.., why)| matters(why)) {
            if from < end && begin <= last {
                self.blind.push(Blind {
                    since: begin.max(from),
                    until: (end <= last).then_some(end),
                    why: unknown::incomplete(&why),
                });
            }
        }
        self.blind.sort_by_key(|b| b.since);
    }

    /// Restricts the knowledge to the time from a moment on.
    #[must_use]
    pub fn after(mut self, since: Nanos) -> Self {
        self.from = self.from.map(|from| from.max(since));
        self.blind.retain(|b| b.until.is_none_or(|u| since < u));
        for b in &mut self.blind {
            b.since = b.since.max(since);
        }
        self
    }

    /// Returns from when until when all was known.
    ///
    /// # Errors
    /// Why it cannot be said that nothing was wrong in that time.
    pub fn known(&self) -> Result<(Nanos, Nanos), Unknown> {
        let what = "whether anything was wrong";
        let (Some(from), Some(last)) = (self.from, self.last) else {
            return Err(match &self.before {
                Some(u) => Unknown {
                    what: what.to_owned(),
                    ..u.clone()
                },
                None => unknown::incomplete(&crate::correlate::Incomplete::NotYet),
            });
        };
        let Some(first) = self.blind.first() else {
            return Ok((from, last));
        };
        let (times, ns) = self.unknown(last);
        let more = match times {
            1 => String::new(),
            n => format!(", the first of {n} times"),
        };
        Err(Unknown {
            what: format!(
                "{what} for {} from {}{more}",
                duration(ns),
                first.since.to_rfc3339()
            ),
            help: "what was seen before and after holds".to_owned(),
            ..first.why.clone()
        })
    }

    /// True when all was known at this moment.
    pub fn is_known_at(&self, at: Nanos) -> bool {
        let known = self.from.is_some_and(|f| f <= at);
        let blind = |b: &Blind| b.since <= at && b.until.is_none_or(|u| at < u);
        known && !self.blind.iter().any(blind)
    }

    /// Returns the number of times up to `now` during which it was not known how the pods are, and
    /// their total length, ns.
    pub fn unknown(&self, now: Nanos) -> (usize, i64) {
        let (mut times, mut ns) = (0, 0);
        let mut upto = Nanos(i64::MIN);
        for b in &self.blind {
            let end = b.until.unwrap_or(now).max(b.since);
            if b.since > upto || times == 0 {
                times += 1;
            }
            let begin = b.since.max(upto);
            ns += end.since(begin).max(0);
            upto = upto.max(end);
        }
        (times, ns)
    }
}
