//! A run that is kept in a spool, in the place of a file.

use std::sync::Arc;

use kflow_core::selection::Selection;
use kflow_model::Evidence;
use kflow_store::Keeper;

use super::pods::PodFilter;

/// The giving end of a spool, and what of a run goes into it.
#[derive(Debug)]
pub struct Kept {
    keeper: Arc<Keeper>,
    filter: Option<Box<PodFilter>>,
}

impl Kept {
    /// Of one pod, as it is named, and of those of a selection.
    pub fn new(keeper: Arc<Keeper>, pod: Option<&str>, selection: Arc<Selection>) -> Self {
        let filter = PodFilter::new(pod, selection).map(Box::new);
        Self { keeper, filter }
    }

    /// Takes an observation. Never waits.
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
