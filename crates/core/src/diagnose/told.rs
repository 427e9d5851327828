//! Which causes a message shows, matched once for each message in a run of the diagnosis: an Event and the log line
//! that repeats it have the same message, and so have the replicas of one owner.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::catalogue::{Catalogue, Cause};
use super::signal::searched;
use super::text::Names;

/// The largest number of messages that are remembered: few messages repeat.
const TEXTS: usize = 1024;

/// The causes that match one message under one reason.
#[derive(Debug, Default)]
pub struct Told<'c> {
    /// Highest first.
    causes: SmallVec<[Hit<'c>; 2]>,
}

#[derive(Debug)]
struct Hit<'c> {
    cause: &'c Cause,
    /// Index of the first pattern that matches; `None` when the reason alone is enough.
    pattern: Option<usize>,
    names: OnceCell<Names>,
}

impl<'c> Told<'c> {
    pub(super) fn extend(&mut self, cause: Option<&'c Cause>, pattern: Option<usize>) {
        self.causes.extend(cause.map(|cause| Hit {
            cause,
            pattern,
            names: OnceCell::new(),
        }));
    }
    /// Returns the first allowed cause, with the names in the text. A cause whose pattern matches, and that is not
    /// `general`, comes before all others; the others keep the catalogue's order.
    pub fn best(&self, text: &str, allow: impl Fn(&Cause) -> bool) -> Option<(&'c Cause, Names)> {
        let allowed = || self.causes.iter().filter(|h| allow(h.cause));
        let shown = allowed().find(|h| h.pattern.is_some() && !h.cause.general);
        let hit = shown.or_else(|| allowed().next())?;
        let read = || {
            let names = hit
                .pattern
                .and_then(|p| hit.cause.names(p, &searched(text)));
            names.unwrap_or_default()
        };
        Some((hit.cause, hit.names.get_or_init(read).clone()))
    }
}

/// Matched causes by text, then by reason.
type Known = FxHashMap<Box<str>, SmallVec<[(Box<str>, Rc<Told<'static>>); 1]>>;

/// The messages that one thread has matched in one run of the diagnosis.
#[derive(Debug, Default)]
pub struct Texts {
    known: RefCell<Known>,
}

impl Texts {
    /// Returns the causes that a text under a reason shows.
    pub fn told(&self, reason: &str, text: &str) -> Rc<Told<'static>> {
        let mut known = self.known.borrow_mut();
        let same = |(r, _): &&(Box<str>, Rc<_>)| **r == *reason;
        if let Some((_, told)) = known.get(text).and_then(|under| under.iter().find(same)) {
            return Rc::clone(told);
        }
        let told = Rc::new(Catalogue::get().told(reason, text));
        if known.len() < TEXTS {
            let under = known.entry(text.into()).or_default();
            under.push((reason.into(), Rc::clone(&told)));
        }
        told
    }
}
