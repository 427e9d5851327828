//! Which role a container has in its pod: by the API where it was seen, else as the kubelet's log calls it.

use super::{ContainerHistory, PodHistory};
use crate::diagnose::signal::Signal;

impl PodHistory<'_> {
    fn spec(&self, name: &str) -> Option<&crate::correlate::ContainerView> {
        self.view
            .containers
            .iter()
            .find(|v| v.name == name)
            .filter(|_| self.api.is_some())
    }
    /// An init container or a sidecar: by the API, or as the kubelet's log calls it.
    pub fn is_initial(&self, name: &str) -> bool {
        match self.spec(name) {
            Some(v) => v.init,
            None => self.known(name).is_some_and(ContainerHistory::is_init),
        }
    }
    /// A sidecar: by the API. The kubelet's log calls it an init container, but it has probes, or main containers were
    /// begun beside it.
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
    /// An init container that has to end before others start.
    pub fn is_init(&self, name: &str) -> bool {
        self.is_initial(name) && !self.is_sidecar(name)
    }
    /// An ephemeral container: whatever becomes of it, the pod is none the worse for it.
    pub fn is_ephemeral(&self, name: &str) -> bool {
        match self.spec(name) {
            Some(v) => v.ephemeral,
            None => self.known(name).is_some_and(ContainerHistory::is_ephemeral),
        }
    }
    /// Something of an ephemeral container went wrong: it says so, or it is a pull of an image that only such a one wants.
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
        // A container without an image is one whose image is not known.
        let unknown = self.view.containers.iter().any(|c| c.image.is_empty());
        !unknown && wants(true) && !wants(false)
    }
}
