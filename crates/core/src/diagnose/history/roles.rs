//! Which role a container has in its pod: by the API where it was seen, else as the kubelet's log calls it.

use super::{ContainerHistory, PodHistory};
use crate::diagnose::signal::Signal;

impl PodHistory<'_> {
    /// True while init containers have to succeed, for the first time or once more in a new sandbox: what main containers did
    /// was in an earlier one.
    pub fn initializes(&self) -> bool {
        let initialized = self.api.and_then(|p| p.condition("Initialized"));
        initialized.is_some_and(|c| c.status == "False")
    }
    fn spec(&self, name: &str) -> Option<&crate::correlate::ContainerView> {
        self.view
            .containers
            .iter()
            .find(|v| v.name == name)
            .filter(|_| self.api.is_some())
    }
    /// True for an init container or a sidecar: by the API, else as the kubelet's log calls it.
    pub fn is_initial(&self, name: &str) -> bool {
        match self.spec(name) {
            Some(v) => v.init,
            None => self.known(name).is_some_and(ContainerHistory::is_init),
        }
    }
    /// True for a sidecar, by the API. Without the API, true for an init container (as the kubelet's log calls it)
    /// that has probes, or beside which main containers were begun.
    pub fn is_sidecar(&self, name: &str) -> bool {
        if let Some(v) = self.spec(name) {
            return v.sidecar;
        }
        let Some(c) = self.known(name).filter(|c| c.is_init()) else {
            return false;
        };
        c.startup.is_some()
            || c.liveness.is_some()
            || c.readiness.is_some()
            || self.containers.iter().any(|o| o.kind == "container")
    }
    /// True for an init container that has to end before others start: no sidecar.
    pub fn is_init(&self, name: &str) -> bool {
        self.is_initial(name) && !self.is_sidecar(name)
    }
    /// True for an ephemeral container, whose failures do not make the pod unhealthy.
    pub fn is_ephemeral(&self, name: &str) -> bool {
        match self.spec(name) {
            Some(v) => v.ephemeral,
            None => self.known(name).is_some_and(ContainerHistory::is_ephemeral),
        }
    }
    /// True for a signal of an ephemeral container: the signal names one, or is about an image that only ephemeral
    /// containers use.
    pub fn is_of_ephemeral(&self, s: &Signal<'_>) -> bool {
        if !s.container.is_empty() {
            return self.is_ephemeral(&s.container);
        }
        let wants = |ephemeral: bool| {
            self.view
                .containers
                .iter()
                .any(|c| c.ephemeral == ephemeral && s.text.contains(c.image.as_str()))
        };
        // A container without an image is one whose image is not known, and might be this one.
        let unknown = self.view.containers.iter().any(|c| c.image.is_empty());
        !unknown && wants(true) && !wants(false)
    }
}
