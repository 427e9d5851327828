//! Which pods are looked at: a [`Scope`] with its selectors parsed, to be matched against what is known of a pod.
//!
//! A run asks the apiserver for no more than its scope, but other sources (a node's calls, files and logs) show all
//! pods, and a recording holds whatever was recorded. So every view of a world is filtered by the same selection.

mod fields;
mod labels;

use std::sync::Arc;

use crate::correlate::PodView;
use fields::FieldSelector;
use kflow_model::Scope;
use kflow_model::pod::PodSeen;
pub(crate) use labels::LabelSelector;

/// A selector that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The text is no label selector.
    #[error(
        "-l {selector}: {why}; write it as in kubectl: app=web, tier!=cache, env in (a, b), !canary"
    )]
    Labels {
        selector: String,
        /// What is wrong, in words.
        why: String,
    },
    /// The text is no field selector, or names a field that pods cannot be selected by.
    #[error("--field-selector {selector}: {why}; pods can be chosen by {}", fields::NAMES.join(", "))]
    Fields {
        selector: String,
        /// What is wrong, in words.
        why: String,
    },
}

/// See the [module](self). The default selects every pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    scope: Scope,
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    /// Parses the selectors of a scope.
    pub fn new(scope: &Scope) -> Result<Self, SelectionError> {
        let labels = labels::parse(&scope.labels).map_err(|why| SelectionError::Labels {
            selector: scope.labels.clone(),
            why,
        })?;
        let fields = fields::parse(&scope.fields).map_err(|why| SelectionError::Fields {
            selector: scope.fields.clone(),
            why,
        })?;
        Ok(Self {
            scope: scope.clone(),
            labels,
            fields,
        })
    }

    pub const fn scope(&self) -> &Scope {
        &self.scope
    }

    /// True when it selects every pod.
    pub fn is_all(&self) -> bool {
        self.is_of_nodes() && self.scope.node.is_none()
    }

    /// True when it restricts nothing but the node. Observations that are about no pod (a node's own calls, lines and
    /// metrics) have no namespace and no labels: only such a selection includes them.
    pub fn is_of_nodes(&self) -> bool {
        self.scope.namespace.is_none() && !self.needs_the_api()
    }

    /// True when it restricts nothing but the namespace.
    pub fn is_of_namespaces(&self) -> bool {
        self.scope.node.is_none() && !self.needs_the_api()
    }

    /// True when only the pod's API object can tell whether the pod is selected.
    pub fn needs_the_api(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    /// True when the pod is selected, by its newest state. A pod without a node is on every node. A pod that the API
    /// never showed has no known labels and fields: a label or field selector does not select it.
    pub fn admits(&self, pod: &PodView) -> bool {
        self.admits_namespace(&pod.namespace)
            && self
                .scope
                .node
                .as_deref()
                .is_none_or(|node| pod.node.is_empty() || pod.node == node)
            && (self.labels.is_empty()
                || pod
                    .api
                    .as_ref()
                    .is_some_and(|p| self.labels.fits(&p.labels)))
            && (self.fields.is_empty() || self.fields.fits(pod))
    }

    /// Like [`Self::admits`], for one state of a pod.
    pub fn admits_state(&self, pod: &Arc<PodSeen>) -> bool {
        self.is_all()
            || self.admits(&PodView {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                node: pod.spec.node.clone(),
                api: Some(Arc::clone(pod)),
                ..PodView::default()
            })
    }

    /// True when things in this namespace are selected: an owner, a request.
    pub fn admits_namespace(&self, namespace: &str) -> bool {
        self.scope
            .namespace
            .as_deref()
            .is_none_or(|ns| ns == namespace)
    }

    /// True when owners in this namespace are selected. Labels and fields are those of pods, so with such selectors no
    /// owner is.
    pub fn admits_owner(&self, namespace: &str) -> bool {
        self.admits_namespace(namespace) && !self.needs_the_api()
    }
}

#[cfg(test)]
mod tests;
