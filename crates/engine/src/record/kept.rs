//! A run whose observations are kept in a spool instead of a file.

use std::sync::Arc;

use kflow_core::selection::Selection;
use kflow_model::Evidence;
use kflow_store::Keeper;

use super::pods::PodFilter;

/// The sending end of a spool, with a filter for the observations that go into it.
#[derive(Debug)]
pub struct Kept {
    keeper: Arc<Keeper>,
    filter: Option<Box<PodFilter>>,
}

impl Kept {
    /// Keeps one pod's observations if `pod` names one, and those of the selected pods only.
    pub fn new(keeper: Arc<Keeper>, pod: Option<&str>, selection: Arc<Selection>) -> Self {
        let filter = PodFilter::new(pod, selection).map(Box::new);
        Self { keeper, filter }
    }

    /// Takes an observation. Never blocks.
    pub fn take(&mut self, o: &Evidence) {
        match &mut self.filter {
            None => self.keeper.take(o),
            Some(filter) => {
                if let Some(o) = filter.keep(o) {
                    self.keeper.take(&o);
                }
            }
        }
    }
}
