//! Why the apiserver could not be read: each cause once, in one sentence, with advice.

use crate::correlate::{Coverage, Failing};
use crate::diagnose::text::list;
use kflow_model::gap::Failure;
use kflow_model::scope::{is_of_cluster, namespace_of};
use kflow_model::{Nanos, Text};

/// One cause for which the apiserver could not be read, and the kinds that it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub since: Nanos,
    pub failure: Failure,
    /// The error message of the first list or watch that failed.
    detail: Text,
    /// Kinds that could not be read, by namespace; `None` for the whole cluster. The empty kind stands
    /// for the whole apiserver.
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
            // To read what has no namespace it does not help to name one (-n).
            namespaced: namespace.is_some() || is_of_cluster(resource),
        }
    }
    /// True when two troubles are one. An apiserver that cannot be reached cannot be reached for any kind, whatever
    /// error each watch got. Missing rights are one trouble, for whatever kinds they are missing.
    fn is_one_with(&self, other: &Self) -> bool {
        self.failure == other.failure
            && (self.detail == other.detail
                || matches!(
                    self.failure,
                    Failure::Unreachable | Failure::Untrusted | Failure::Forbidden
                ))
    }
    /// Takes over the kinds of a trouble that is the same.
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
    /// The trouble in one sentence, without a full stop.
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
    /// What the user can do about it.
    pub const fn help(&self) -> &'static str {
        help(self.failure, self.namespaced)
    }
    /// Kinds that could not be read: `pods`, `events`; an empty one stands for all.
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

/// Returns what could not be read of the apiserver at a moment: each cause once, the most important first.
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
    // A loss of a needed kind makes the pods' health unknown (see the parent module). Losses of other kinds are
    // reported here.
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

/// Returns what the user can do about a failure. `namespaced`: naming a namespace does not help to get a missing
/// right, because one is named already or the kind has none.
pub(super) const fn help(failure: Failure, namespaced: bool) -> &'static str {
    match failure {
        Failure::NoCluster => {
            "name one with --kubeconfig or --context, or a recording with --session; on the pod's node `--no-api --node NODE` needs none; `kflow doctor` says what works"
        }
        Failure::Unreachable => {
            "check that it runs and that the kubeconfig has its address; on the pod's node `--no-api --node NODE` needs none"
        }
        Failure::Untrusted => {
            "check this machine's clock, and fetch the cluster's kubeconfig anew: it has the address and the authority; on the pod's node `--no-api --node NODE` needs none"
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
        Failure::Interrupted => {
            "ask again; on the pod's node `--no-api --node NODE` needs none; `kflow doctor` says what works"
        }
        Failure::Refused | Failure::Other => "ask again; `kflow doctor` says what works",
    }
}
