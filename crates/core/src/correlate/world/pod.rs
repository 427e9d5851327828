//! A pod at a moment, whose view is derived at the first read.
//!
//! When the world is refreshed, an [`Origin`] captures the pod's state. It never changes, so the view derived from it
//! does not depend on when it is derived. Most of the states that a pod goes through while a session is read are
//! never looked at, and so never derived.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::pods::{PodFile, PodKey};
use crate::correlate::Observed;
use crate::correlate::context::PodContext;
use crate::correlate::derive::{self, Input};
use crate::correlate::lazy::{Derive, Lazy};
use crate::correlate::view::PodView;
use crate::timeline::Timeline;
use kflow_model::{Nanos, ObjectRef, PodUid, Text};

/// A pod: a handle that snapshots share until the pod changes. It dereferences to its [`PodView`], which is derived
/// at the first read.
pub type Pod = Arc<LazyPod>;

/// The immutable input of a pod's view.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) file: Arc<PodFile>,
    pub(crate) namespace: Text,
    pub(crate) name: Text,
    pub(crate) owners: Vec<ObjectRef>,
    /// Since when, at the latest, a younger pod has the name.
    pub(crate) followed: Option<Nanos>,
    pub(crate) context: Arc<PodContext>,
}

impl Origin {
    fn view(&self) -> PodView {
        let mut view = derive::view(&Input {
            uid: PodUid(self.file.uid.clone()),
            mirrors: self.file.mirrors.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            followed: self.followed,
            evidence: Arc::new(Observed::new(self.file.sorted())),
            listed: &self.file.listed_items,
            context: &self.context,
            folded: self.file.folded,
        });
        view.owners.clone_from(&self.owners);
        view
    }
}

impl Derive<Timeline> for Origin {
    fn part(&self) -> Arc<Timeline> {
        self.view().timeline.shared()
    }
}

impl Derive<Observed> for Origin {
    fn part(&self) -> Arc<Observed> {
        Arc::new(Observed::new(self.file.sorted()))
    }
}

/// A pod whose view is derived at the first read.
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
    pub fn listed_by(&self) -> (Nanos, &PodUid) {
        (self.key.0, &self.key.1)
    }
    /// True when `query` is the pod's `ns/name` or `name`. Does not derive the view.
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
    pub(crate) fn is_derived(&self) -> bool {
        self.view.get().is_some()
    }
    /// Derives the view if that has not been done.
    pub(crate) fn derive(&self) {
        self.view.get_or_init(|| self.derived());
    }
    /// Derives the view if that has not been done, and keeps only what lists show. The timeline is derived again when
    /// it is read.
    pub(crate) fn summarise(&self) {
        self.view.get_or_init(|| self.slim(self.derived()));
    }
    /// Returns a new handle of the same state that caches only the summary. What is derived through the new handle is
    /// freed with it.
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
            view.timeline = Lazy::of(Arc::clone(origin) as Arc<dyn Derive<Timeline>>);
            view.evidence = Lazy::of(Arc::clone(origin) as Arc<dyn Derive<Observed>>);
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
