//! Large parts of a view, which a summary leaves out and derives again when they are read.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::Observed;
use crate::timeline::Timeline;

/// Derives a part of a view from immutable input.
pub(crate) trait Derive<T>: fmt::Debug + Send + Sync {
    /// Derives the part.
    fn part(&self) -> Arc<T>;
}

/// A large part of a view: present from the start, or derived at the first read where only the summary was kept.
#[derive(Clone)]
pub struct Lazy<T> {
    here: OnceLock<Arc<T>>,
    origin: Option<Arc<dyn Derive<T>>>,
}

/// A part that a view can leave out.
pub(crate) trait Large: Sized + 'static {
    /// The empty value, for a view that has neither the part nor a way to derive it.
    fn none() -> &'static Self;
}

impl Large for Timeline {
    fn none() -> &'static Self {
        static NONE: Timeline = Timeline {
            spans: Vec::new(),
            marks: Vec::new(),
            gaps: Vec::new(),
        };
        &NONE
    }
}

impl Large for Observed {
    fn none() -> &'static Self {
        static NONE: Observed = Observed::NONE;
        &NONE
    }
}

impl<T> Lazy<T> {
    /// A part that is derived at the first read.
    pub(crate) fn of(origin: Arc<dyn Derive<T>>) -> Self {
        Self {
            here: OnceLock::new(),
            origin: Some(origin),
        }
    }
}

impl<T: Default> Lazy<T> {
    /// Returns the part, derived if necessary.
    pub fn shared(&self) -> Arc<T> {
        match &self.origin {
            Some(origin) => Arc::clone(self.here.get_or_init(|| origin.part())),
            None => self.here.get().cloned().unwrap_or_default(),
        }
    }
}

impl<T: Large> Deref for Lazy<T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.origin {
            Some(origin) => self.here.get_or_init(|| origin.part()),
            None => self.here.get().map_or(T::none(), |t| t),
        }
    }
}

impl<T> From<Arc<T>> for Lazy<T> {
    fn from(here: Arc<T>) -> Self {
        Self {
            here: OnceLock::from(here),
            origin: None,
        }
    }
}

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self {
            here: OnceLock::new(),
            origin: None,
        }
    }
}

impl<T: Large + PartialEq> PartialEq for Lazy<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Large + fmt::Debug> fmt::Debug for Lazy<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}
