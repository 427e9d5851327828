//! Why the apiserver could not be read: each cause once, in one sentence, with what would help.

use crate::correlate::{Coverage, Failing};
use crate::diagnose::text::list;
use kflow_model::gap::Failure;
use kflow_model::scope::namespace_of;
use kflow_model::{Nanos, Text};

/// One cause for which something could not be read, and what it befell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub since: Nanos,
    pub failure: Failure,
    /// The failure in the words of the first list or watch that met it.
    detail: Text,
    /// Kinds that could not be read, by namespace; `None` for the whole cluster. The apiserver as a whole is a kind
    /// without a name.
    kinds: Vec<(Option<Text>, Vec<Text>)>,
    namespaced: bool,
}

impl Trouble {
    fn of(resource: &str, scope: &str, f: &Failing) -> Self {
        let namespace = namespace_of(scope);
        Self {
            since: f.since,
            failure: f.failure,
            detail: f.detail.clone(),
            kinds: vec![(namespace.map(Text::from), vec![resource.into()])],
            // Nodes have no namespace: none can be named to read them.
            namespaced: namespace.is_some() || resource == "nodes",
        }
    }
    /// An apiserver that is away is away for every kind, whichever word of its going each watch heard. Rights that are
    /// missing are one trouble, wherever they are missing.
    fn is_one_with(&self, other: &Self) -> bool {
        self.failure == other.failure
            && (self.detail == other.detail
                || matches!(self.failure, Failure::Unreachable | Failure::Forbidden))
    }
    /// Takes the kinds of one that it is one with.
    fn join(&mut self, other: Self) {
        self.since = self.since.min(other.since);
        for (namespace, resources) in other.kinds {
            match self.kinds.iter_mut().find(|(n, _)| *n == namespace) {
                Some((_, known)) => {
                    for r in resources {
                        if !known.contains(&r) {
                            known.push(r);
                        }
                    }
                }
                None => self.kinds.push((namespace, resources)),
            }
        }
    }
    /// One sentence without a full stop.
    pub fn sentence(&self) -> String {
        match self.failure {
            Failure::Forbidden => {
                let places = self.kinds.iter().map(|(namespace, resources)| {
                    let kinds = list(resources);
                    match namespace {
                        Some(n) => format!("{kinds} in namespace {n}"),
                        None => format!("{kinds} in the whole cluster"),
                    }
                });
                let places: Vec<String> = places.collect();
                format!(
                    "forbidden: needs list and watch on {}",
                    places.join(", and ")
                )
            }
            Failure::NotFound => {
                let kinds: Vec<&str> = self.resources().filter(|r| !r.is_empty()).collect();
                match kinds.as_slice() {
                    [] => self.detail.to_string(),
                    kinds => format!("{}: {}", self.detail, list(kinds)),
                }
            }
            _ => self.detail.to_string(),
        }
    }
    /// What would help.
    pub const fn help(&self) -> &'static str {
        help(self.failure, self.namespaced)
    }
    /// Kinds that could not be read: `pods`, `events`; one without a name for all.
    pub fn resources(&self) -> impl Iterator<Item = &str> {
        self.kinds
            .iter()
            .flat_map(|(_, resources)| resources)
            .map(Text::as_str)
    }
    /// True when this kind could not be read.
    pub fn concerns(&self, resource: &str) -> bool {
        self.resources().any(|r| r.is_empty() || r == resource)
    }
}

/// What could not be read of the apiserver at a moment: each cause once, the one that matters most first.
pub fn troubles(coverage: &Coverage, at: Nanos) -> Vec<Trouble> {
    let mut all: Vec<Trouble> = Vec::new();
    let mut failures: Vec<_> = coverage.failures(at).collect();
    let rank = |resource: &str| match resource {
        "" => 0,
        "pods" => 1,
        "events" => 2,
        "nodes" => 3,
        _ => 4,
    };
    failures.sort_by_key(|(resource, ..)| rank(resource));
    for (resource, scope, f) in failures {
        let new = Trouble::of(resource, scope, f);
        match all.iter_mut().find(|t| t.is_one_with(&new)) {
            Some(t) => t.join(new),
            None => all.push(new),
        }
    }
    // What is needed to know how pods are makes them unknown; of the rest it is said that it is missing.
    let lost = coverage.losses_by_kind();
    all.extend(lost.filter(|(r, _)| !super::is_needed(r)).map(|(r, l)| {
        let failing = Failing {
            since: l.since,
            last: l.at,
            failure: Failure::Other,
            detail: super::loss(l).into(),
        };
        Trouble::of(r, "", &failing)
    }));
    all
}

/// What would help against a failure. `namespaced`: of a right, that it can be had for a namespace already named.
pub(super) const fn help(failure: Failure, namespaced: bool) -> &'static str {
    match failure {
        Failure::NoCluster => {
            "name one with --kubeconfig or --context, or a recording with --session; on the pod's node `--no-api --node NODE` needs none; `kflow doctor` says what works"
        }
        Failure::Unreachable => {
            "check that it runs and that the kubeconfig has its address; on the pod's node `--no-api --node NODE` needs none"
        }
        Failure::TimedOut => {
            "ask again later, or wait longer with --for 1m; on the pod's node `--no-api --node NODE` needs no apiserver"
        }
        Failure::Throttled | Failure::Expired => "ask again later, or wait longer with --for 1m",
        Failure::Unauthorized => "log in again, or name another --context",
        Failure::Forbidden if namespaced => "`kflow doctor` prints what grants the right",
        Failure::Forbidden => {
            "with rights in one namespace use -n NAMESPACE, or `kflow doctor` prints what grants the right"
        }
        Failure::NotFound => "check that the kubeconfig's address is an apiserver's",
        Failure::NotKubernetes => {
            "check the kubeconfig's address: a proxy or a login page may stand before the apiserver"
        }
        Failure::Refused | Failure::Interrupted | Failure::Other => {
            "ask again; `kflow doctor` says what works"
        }
    }
}
