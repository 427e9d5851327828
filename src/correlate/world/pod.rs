//! A pod as of a moment, and its view when somebody looks.
//!
//! What is known of a pod when the world settles is caught in an [`Origin`]: nothing in it changes any more, so the view
//! that is derived from it is the same whenever that is done. Nobody looks at most of the states that a pod goes through
//! while a session is read: those are never derived.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::pods::{PodFile, PodKey};
use super::settle::Basis;
use crate::correlate::PodView;
use crate::correlate::derive::{self, Input};
use crate::model::{ObjectRef, PodUid, Text};
use crate::timeline::{Evidence, Timeline};

/// A pod: a handle that is shared between snapshots until the pod changes. It dereferences to its [`PodView`], which is
/// derived at the first look.
pub type Pod = Arc<LazyPod>;

/// What a pod's view is derived from. Never changes.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) file: Arc<PodFile>,
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) owners: Vec<ObjectRef>,
    pub(crate) basis: Arc<Basis>,
}

impl Origin {
    fn view(&self) -> PodView {
        let mut view = derive::view(&Input {
            uid: PodUid(self.file.uid.clone()),
            mirrors: self.file.mirrors.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            evidence: Arc::new(self.file.sorted()),
            listed: &self.file.listed_items,
            windows: &self.basis.windows,
            shift_ns: self.basis.shift,
            present: self.basis.present,
            began: self.basis.began,
            blind: &self.basis.blind,
            local: self.basis.local.clone(),
            folded: self.file.folded,
        });
        view.owners.clone_from(&self.owners);
        view
    }
}

/// A pod's view, derived at the first look.
#[derive(Debug, Default)]
pub struct LazyPod {
    key: PodKey,
    origin: Option<Arc<Origin>>,
    view: OnceLock<PodView>,
}

impl LazyPod {
    pub(crate) fn new(key: PodKey, origin: Origin) -> Self {
        Self {
            key,
            origin: Some(Arc::new(origin)),
            view: OnceLock::new(),
        }
    }
    /// What it is listed by.
    pub(crate) fn listed_by(&self) -> (crate::model::Nanos, &PodUid) {
        (self.key.0, &self.key.1)
    }
    /// True for `ns/name` and `name`; does not derive the view.
    pub(crate) fn is_called(&self, query: &str) -> bool {
        let (namespace, name) = match &self.origin {
            Some(o) => (&o.namespace, &o.name),
            None => (&self.namespace, &self.name),
        };
        name == query
            || query
                .split_once('/')
                .is_some_and(|(ns, n)| namespace == ns && name == n)
    }
    /// Derives the view, unless it was, and keeps what lists show: the timeline is derived again when somebody asks.
    pub(crate) fn summarise(&self) {
        self.view.get_or_init(|| self.slim(self.derived()));
    }
    /// A handle of the same state of which nobody has seen more than the summary: what is derived through it goes when
    /// it goes.
    pub(crate) fn afresh(&self) -> Self {
        Self {
            key: self.key.clone(),
            origin: self.origin.clone(),
            view: self
                .view
                .get()
                .map(|v| OnceLock::from(self.slim(v.clone())))
                .unwrap_or_default(),
        }
    }
    fn derived(&self) -> PodView {
        self.origin.as_ref().map(|o| o.view()).unwrap_or_default()
    }
    fn slim(&self, mut view: PodView) -> PodView {
        if let Some(origin) = &self.origin {
            view.timeline = Part::of(origin);
            view.evidence = Part::of(origin);
        }
        view
    }
}

impl Deref for LazyPod {
    type Target = PodView;
    fn deref(&self) -> &PodView {
        self.view.get_or_init(|| self.derived())
    }
}

impl AsRef<PodView> for LazyPod {
    fn as_ref(&self) -> &PodView {
        self
    }
}

impl From<PodView> for LazyPod {
    fn from(view: PodView) -> Self {
        Self {
            key: (view.created, view.uid.clone()),
            origin: None,
            view: OnceLock::from(view),
        }
    }
}

/// A large part of a view: derived with it, or again at the first look where only the summary was kept.
#[derive(Clone)]
pub struct Part<T> {
    here: OnceLock<Arc<T>>,
    origin: Option<Arc<Origin>>,
}

/// What a view can leave out.
pub(crate) trait Large: Sized + 'static {
    /// Derives it.
    fn of(origin: &Origin) -> Arc<Self>;
    /// What stands where there is none.
    fn none() -> &'static Self;
}

impl Large for Timeline {
    fn of(origin: &Origin) -> Arc<Self> {
        origin.view().timeline.shared()
    }
    fn none() -> &'static Self {
        static NONE: Timeline = Timeline {
            spans: Vec::new(),
            marks: Vec::new(),
            gaps: Vec::new(),
        };
        &NONE
    }
}

impl Large for Vec<Evidence> {
    fn of(origin: &Origin) -> Arc<Self> {
        Arc::new(origin.file.sorted())
    }
    fn none() -> &'static Self {
        static NONE: Vec<Evidence> = Vec::new();
        &NONE
    }
}

#[expect(private_bounds, reason = "closed: a timeline and evidence")]
impl<T: Large + Default> Part<T> {
    fn of(origin: &Arc<Origin>) -> Self {
        Self {
            here: OnceLock::new(),
            origin: Some(Arc::clone(origin)),
        }
    }
    /// It, to hold on to.
    pub fn shared(&self) -> Arc<T> {
        match &self.origin {
            Some(origin) => Arc::clone(self.here.get_or_init(|| T::of(origin))),
            None => self.here.get().cloned().unwrap_or_default(),
        }
    }
}

impl<T: Large> Deref for Part<T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.origin {
            Some(origin) => self.here.get_or_init(|| T::of(origin)),
            None => self.here.get().map_or(T::none(), |t| t),
        }
    }
}

impl<T> From<Arc<T>> for Part<T> {
    fn from(here: Arc<T>) -> Self {
        Self {
            here: OnceLock::from(here),
            origin: None,
        }
    }
}

impl<T> Default for Part<T> {
    fn default() -> Self {
        Self {
            here: OnceLock::new(),
            origin: None,
        }
    }
}

impl<T: Large + PartialEq> PartialEq for Part<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Large + fmt::Debug> fmt::Debug for Part<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}
