//! "I do not know": answers that cannot be given because something could not be read. Without it, neither "well" nor
//! "there is no such pod" can be said.
//!
//! | question | what its answer needs |
//! |---|---|
//! | [`every`]: is every pod of a scope well? | a complete list of its pods, and lists of the kinds that show that an owner cannot create pods |
//! | [`known`]: is this pod well? | a complete list that covers the pod, whose watch still works, and the pod's Events; or a plain list that shows it as well at the moment |
//! | [`absent`]: is there no such pod? | a complete list of its namespace |
//! | [`none`]: are there no pods? | a complete list of the scope |
//! | [`elsewhere`]: what is there in this namespace, on this node? | an observation of the namespace or node |
//! | [`outside`]: how was it at this moment? | a moment within what was recorded |

mod alone;
mod claims;
mod listed;
mod missing;
mod nodes;
mod trouble;
mod warned;

use super::target::{self, Target, namespace_asked, node_asked, owner_asked, pods_of};
use super::text::list;
use crate::correlate::{BLINK, Incomplete, Lost, ObjectState, PodView, World};
use alone::{unheard, unready};
pub use claims::claims_unexplained;
use kflow_model::gap::{Failure, Gap, WatchNote};
use kflow_model::pod::WatchEvent;
use kflow_model::scope::{OfOwner, covers, excludes, includes, is_of, namespace_of, pod_asked};
use kflow_model::{Nanos, ObjectRef, Scope, Source};
pub use listed::all_unexplained;
pub(super) use listed::resting;
pub use missing::{elsewhere, without_namespace};
use nodes::absent_node;
pub use nodes::{known_node, nodes_alone, nodes_unexplained};
use trouble::help;
pub use trouble::{Trouble, troubles};
use warned::warned;

/// Kinds that show that an owner cannot create pods, or that a pod failed.
const TELLING: [&str; 6] = [
    "events",
    "deployments",
    "replicasets",
    "daemonsets",
    "statefulsets",
    "jobs",
];

/// True for a kind without which the health of pods is not known; without another kind only details are missing.
pub fn is_needed(resource: &str) -> bool {
    resource == "pods" || TELLING.contains(&resource)
}

/// Why an answer is missing, as a category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The apiserver could not be read.
    Failed(Failure),
    /// kflow was not told to read it.
    NotAsked,
    /// The recording does not hold it.
    NotRecorded,
    /// Observations were lost.
    Lost,
    /// Only a part of the cluster was listed, without what was asked about.
    OutOfScope,
    /// The cluster has no such node.
    NoSuchNode,
    /// The cluster has no such namespace.
    NoSuchNamespace,
    /// It is of no cause that kflow knows.
    NoCause,
}

impl Reason {
    /// The category's name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed(f) => f.name(),
            Self::NotAsked => "not-asked",
            Self::NotRecorded => "not-recorded",
            Self::Lost => "lost",
            Self::OutOfScope => "out-of-scope",
            Self::NoSuchNode => "no-such-node",
            Self::NoSuchNamespace => "no-such-namespace",
            Self::NoCause => "no-cause",
        }
    }
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What is not known: `how pod shop/web-0 is`.
    pub what: String,
    /// The category of the reason.
    pub reason: Reason,
    /// What could not be read, and why.
    pub why: String,
    /// What the user can do about it.
    pub help: String,
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown {}: {}; {}", self.what, self.why, self.help)
    }
}

impl std::error::Error for Unknown {}

/// A question's context: the world, where it comes from, and the moment that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The world of what was seen up to `at`.
    pub world: &'a World,
    pub at: Nanos,
    /// The part of the cluster that is looked at; `None` for all that a recording holds.
    pub scope: Option<&'a Scope>,
    /// The last moment of the recording that the world comes from; `None` for a live world.
    pub recorded: Option<Nanos>,
}

impl Asked<'_> {
    /// True when an apiserver was asked, or was to be asked, for objects of this kind.
    fn asks(&self, resource: &str) -> bool {
        let live = self.recorded.is_none() && self.scope.is_some();
        live || self.world.coverage().asked(resource)
    }
    /// True when the world has objects of this kind from lists as kubectl writes them, without their selectors.
    fn has_plain_list(&self, resource: &str) -> bool {
        let plain = |event| event == WatchEvent::Listed;
        let mut nodes = self.world.nodes().into_iter();
        self.recorded.is_some()
            && match resource {
                "pods" => {
                    let mut pods = self.world.every_pod().iter();
                    pods.any(|p| p.api.as_ref().is_some_and(|p| plain(p.event)))
                }
                "nodes" => nodes.any(|n| n.api.as_ref().is_some_and(|n| plain(n.event))),
                _ => false,
            }
    }
    /// Names the part of the recording that is asked about: ` up to 2026-11-21T00:27:35Z`; empty
    /// for the whole recording.
    fn so_far(&self) -> String {
        match self.recorded {
            Some(end) if self.at < end => format!(" up to {}", self.at.to_rfc3339_seconds()),
            _ => String::new(),
        }
    }
    fn without(&self, what: String, source: &str, help: &str) -> Unknown {
        let why = if self.recorded.is_some() {
            format!("what was read has no source of {source}{}", self.so_far())
        } else {
            format!("no source of {source} has told anything")
        };
        Unknown {
            what,
            reason: if self.recorded.is_some() {
                Reason::NotRecorded
            } else {
                Reason::NotAsked
            },
            why,
            help: help.to_owned(),
        }
    }
    fn because(&self, what: String, resource: &str, why: &Incomplete) -> Unknown {
        let (reason, why, help) = match why {
            Incomplete::NotAsked if self.has_plain_list(resource) => (
                Reason::NotRecorded,
                format!(
                    "the lists of {resource} that were read do not say what they were asked for, so {resource} may be missing"
                ),
                format!("what they show is known: ask about one of these {resource} by name"),
            ),
            Incomplete::NotAsked if self.recorded.is_some() => (
                Reason::NotRecorded,
                format!("what was read has no list of {resource}{}", self.so_far()),
                if self.so_far().is_empty() {
                    format!(
                        "add one (`kubectl get {resource} -A -o json`), or record with an apiserver to ask"
                    )
                } else {
                    "ask as of a later moment (--at), or record with an apiserver to ask".to_owned()
                },
            ),
            // An apiserver was asked for a scope, and has not answered.
            Incomplete::NotAsked if self.scope.is_some() => (
                Reason::Failed(Failure::TimedOut),
                format!("the apiserver has not answered with a list of {resource}"),
                help(Failure::TimedOut, false).to_owned(),
            ),
            Incomplete::NotAsked => (
                Reason::NotAsked,
                format!("no apiserver was asked for {resource}"),
                "leave out --no-api".to_owned(),
            ),
            // Only an agent follows a watch without a list: a run that asks an apiserver itself has the list first.
            Incomplete::NoList if self.recorded.is_none() => (
                Reason::NotAsked,
                format!(
                    "the agent of the node tells what it saw of {resource} lately, and no list of them"
                ),
                alone::ASK.to_owned(),
            ),
            Incomplete::NoList => (
                Reason::NotRecorded,
                format!(
                    "what was read follows a watch of {resource}, but has no list of them{}",
                    self.so_far()
                ),
                format!("add one (`kubectl get {resource} -A -o json`)"),
            ),
            Incomplete::NotYet if self.recorded.is_some() => (
                Reason::NotRecorded,
                format!("the list of {resource} had not ended by then"),
                "ask as of a later moment (--at)".to_owned(),
            ),
            Incomplete::NotYet => (
                Reason::Failed(Failure::TimedOut),
                format!("the list of {resource} has not ended"),
                help(Failure::TimedOut, false).to_owned(),
            ),
            Incomplete::Failing(f) => {
                let all = troubles(self.world.coverage(), self.at);
                let told = all
                    .iter()
                    .find(|t| t.failure == f.failure && t.concerns(resource));
                let (text, help) = match told {
                    Some(t) => (t.sentence(), t.help()),
                    None => (f.detail.to_string(), help(f.failure, false)),
                };
                let since = match self.world.coverage().newest_list(resource) {
                    Some(end) => format!(
                        " (since {}, last list {})",
                        f.since.to_rfc3339_seconds(),
                        end.to_rfc3339_seconds()
                    ),
                    None => String::new(),
                };
                // The failure was that of the recorder, which may be an agent, and not of the present run.
                let (whose, help) = if self.recorded.is_some() {
                    ("where it was recorded, ", "ask as of another moment (--at)")
                } else {
                    ("", help)
                };
                (
                    Reason::Failed(f.failure),
                    format!("{whose}{text}{since}"),
                    help.to_owned(),
                )
            }
            Incomplete::Lost(lost) => {
                let help = if lost.resource == Gap::CAPTURE {
                    "read a whole copy of it".to_owned()
                } else if self.recorded.is_some() {
                    format!(
                        "ask as of a moment before {} (--at)",
                        lost.since.to_rfc3339_seconds()
                    )
                } else {
                    "ask again".to_owned()
                };
                (Reason::Lost, loss(lost), help)
            }
            Incomplete::Narrower(bounds) => {
                let bounds: Vec<String> = bounds.iter().map(|b| in_words(b)).collect();
                (
                    Reason::OutOfScope,
                    format!("only {resource} of {} were listed", list(&bounds)),
                    if self.recorded.is_some() {
                        "look into a recording of a wider scope".to_owned()
                    } else {
                        "leave out the selectors, or name another namespace with -n".to_owned()
                    },
                )
            }
        };
        Unknown {
            what,
            reason,
            why,
            help,
        }
    }
}

/// Returns what is missing, in words that do not depend on a question.
pub fn incomplete(why: &Incomplete) -> Unknown {
    let (reason, why, help) = match why {
        Incomplete::Lost(lost) => (Reason::Lost, loss(lost), String::new()),
        Incomplete::Failing(f) => (
            Reason::Failed(f.failure),
            f.detail.to_string(),
            help(f.failure, false).to_owned(),
        ),
        Incomplete::NotAsked
        | Incomplete::NotYet
        | Incomplete::NoList
        | Incomplete::Narrower(_) => (
            Reason::NotRecorded,
            "no list of pods has ended".to_owned(),
            help(Failure::TimedOut, false).to_owned(),
        ),
    };
    Unknown {
        what: "how the pods are".to_owned(),
        reason,
        why,
        help,
    }
}

fn loss(lost: &Lost) -> String {
    match lost.count {
        0 => lost.why.to_string(),
        n => format!("{} ({n} lost)", lost.why),
    }
}

/// Bounds of a list in words.
fn in_words(bounds: &str) -> String {
    if bounds.is_empty() {
        return "all namespaces".to_owned();
    }
    match namespace_of(bounds) {
        Some(ns) if ns.len() == bounds.len() => format!("namespace {ns}"),
        _ => bounds.to_owned(),
    }
}

/// Returns why it cannot be said that every pod of the scope is well; `None` when it can.
pub fn every(asked: Asked<'_>) -> Option<Unknown> {
    let coverage = asked.world.coverage();
    let what = || match asked.scope {
        Some(scope) => format!("how the pods of {} are", scope.name()),
        None => "how the pods are".to_owned(),
    };
    if let Some(why) = coverage.incomplete("pods", asked.scope, asked.at) {
        let shows_some = matches!(why, Incomplete::NotAsked) && asked.has_plain_list("pods");
        let what = if shows_some {
            "how other pods are".to_owned()
        } else {
            what()
        };
        return Some(asked.because(what, "pods", &why));
    }
    telling(asked, what)
}

/// Returns why the kinds of [`TELLING`] are not known completely.
fn telling(asked: Asked<'_>, what: impl Fn() -> String) -> Option<Unknown> {
    let coverage = asked.world.coverage();
    TELLING
        .iter()
        .find_map(|kind| {
            let why = coverage.unread(kind, asked.at)?;
            Some((kind, why))
        })
        .map(|(kind, why)| asked.because(what(), kind, &why))
}

/// True when pods were listed with selectors that may select this one.
pub(super) fn may_be_listed(world: &World, pod: &PodView) -> bool {
    let may = |bounds: &str| !excludes(bounds, &pod.namespace, &pod.node, &pod.name);
    world.coverage().asked_where("pods", may)
}

/// Returns why it cannot be said that a pod is well about which nothing bad is known.
pub fn known(asked: Asked<'_>, pod: &PodView) -> Option<Unknown> {
    let coverage = asked.world.coverage();
    let what = || {
        let seen = if pod.status.is_empty() {
            String::new()
        } else {
            format!(" ({} when it was last seen)", pod.status)
        };
        format!("how pod {} is{seen}", pod.key())
    };
    if let Some(unknown) = warned(asked, pod, what()) {
        return Some(unknown);
    }
    // A run that asks no apiserver depends on the node's own sources.
    if !asked.asks("pods") && pod.api.is_none() {
        return lost_or_unseen(asked, what())
            .or_else(|| unheard(asked, pod, what))
            .or_else(|| unready(asked, pod, what));
    }
    let shown = |bounds: &str| covers(bounds, &pod.namespace, &pod.node, &pod.name);
    let why = match coverage.incomplete_where("pods", shown, asked.at) {
        Some(why) => why,
        None if may_be_listed(asked.world, pod) => {
            coverage.incomplete("pods", asked.scope, asked.at)
        }
        None => Some(Incomplete::NotAsked),
    };
    if let Some(why) = why {
        match listed::known(asked, pod, what) {
            Some(Ok(())) => {}
            Some(Err(unknown)) => return Some(unknown),
            None => {
                let unexplained = listed::unexplained(asked, pod, what());
                return unexplained.or_else(|| Some(asked.because(what(), "pods", &why)));
            }
        }
    }
    let why = coverage.unread("events", asked.at)?;
    Some(asked.because(what(), "events", &why))
}

/// Returns why it cannot be said that the pods of an owner or claim are well. A list of these pods alone is enough;
/// without one, the answer is that of [`every`]. Of a claim that waits, whether it is known what for.
pub fn known_owner(asked: Asked<'_>, owner: &ObjectRef) -> Option<Unknown> {
    if let Some(known) = claims::known(asked, owner) {
        return known.err();
    }
    let what = || format!("how the pods of {} are", owner.name);
    let Some(why) = of_these(asked, owner) else {
        // Of later than it was read the list says nothing.
        let read = named_without(asked, owner).filter(|read| asked.at.since(*read) <= BLINK);
        return match read {
            Some(_) => telling(asked, what),
            None => every(asked),
        };
    };
    match why {
        Err(why) => Some(asked.because(what(), "pods", &why)),
        Ok(()) => telling(asked, what),
    }
}

/// Returns whether a list of the pods of this owner or claim alone is complete; `None` when there is no such list.
fn of_these(asked: Asked<'_>, owner: &ObjectRef) -> Option<Result<(), Incomplete>> {
    let of = OfOwner {
        kind: &owner.kind,
        name: &owner.name,
    };
    let shown = |bounds: &str| is_of(bounds, &owner.namespace, of);
    let coverage = asked.world.coverage();
    let why = coverage.incomplete_where("pods", shown, asked.at)?;
    Some(why.map_or(Ok(()), Err))
}

/// Returns what may be missing in an answer that lists pods, their calls or requests; `None` when nothing is known to
/// be missing.
pub fn partial(asked: Asked<'_>) -> Option<Unknown> {
    unlisted(asked).or_else(|| lost(asked, else_there(asked)))
}

/// Returns why it cannot be said that there are no pods.
pub fn none(asked: Asked<'_>) -> Option<Unknown> {
    partial(asked).or_else(|| {
        let scope = asked.world.selection().scope();
        let why = asked
            .world
            .coverage()
            .incomplete("pods", Some(scope), asked.at)?;
        Some(asked.because("which pods there are".to_owned(), "pods", &why))
    })
}

/// Returns what is missing about the pods as they are at this moment. A loss after which the pods were listed anew
/// does not count.
pub fn standing(asked: Asked<'_>) -> Option<Unknown> {
    if asked.asks("pods") || asked.asks("events") {
        unlisted(asked)
    } else {
        lost_or_unseen(asked, else_there(asked))
    }
}

fn else_there(asked: Asked<'_>) -> String {
    let none = asked.world.pods().is_empty();
    match asked.scope {
        Some(scope) if none => format!("which pods there are {}", scope.place()),
        Some(scope) => format!("what else there is {}", scope.place()),
        None if none => "which pods there were".to_owned(),
        None => "what else there was".to_owned(),
    }
}

/// Returns why the pods or their Events are not known completely, when an apiserver was asked for them.
fn unlisted(asked: Asked<'_>) -> Option<Unknown> {
    let coverage = asked.world.coverage();
    ["pods", "events"].iter().find_map(|kind| {
        let by_object = *kind == "pods" && asked.world.selection().needs_the_api();
        if !asked.asks(kind) && !by_object {
            return None;
        }
        let why = if *kind == "pods" {
            coverage.incomplete(kind, asked.scope, asked.at)?
        } else {
            coverage.unread(kind, asked.at)?
        };
        // A watch without a list is one more source that knows some pods, unless the selection needs the API's objects.
        (why != Incomplete::NoList || by_object)
            .then(|| asked.because(else_there(asked), kind, &why))
    })
}

/// Returns why a recording never had a complete list of the pods or of the Events, when these were asked for.
pub fn never_listed(asked: Asked<'_>) -> Option<Unknown> {
    let coverage = asked.world.coverage();
    ["pods", "events"].iter().find_map(|kind| {
        if !asked.asks(kind) || coverage.newest_list(kind).is_some() {
            return None;
        }
        let why = if *kind == "pods" {
            coverage.incomplete(kind, asked.scope, asked.at)?
        } else {
            coverage.unread(kind, asked.at)?
        };
        Some(asked.because(format!("which {kind} there were"), kind, &why))
    })
}

/// Returns what is missing among the CRI calls.
pub fn calls(asked: Asked<'_>) -> Option<Unknown> {
    let what = "which calls the kubelet made to the runtime".to_owned();
    if asked.world.calls().is_empty() && !asked.world.source(Source::Cri).tapped {
        return Some(asked.without(
            what,
            "CRI calls",
            "the eBPF tap gives them (--tap ebpf, as root on the node; docs/tap.md), and so does `kflow proxy` (--proxy)",
        ));
    }
    lost(asked, what)
}

/// Returns what is missing among the requests to the apiserver.
pub fn requests(asked: Asked<'_>) -> Option<Unknown> {
    let what = "which requests the apiserver got".to_owned();
    let told = [Source::Audit, Source::Otlp, Source::Control];
    if told.iter().all(|s| asked.world.source(*s).count == 0) {
        return Some(asked.without(
            what,
            "requests",
            "an audit log gives them (--audit-log, --audit-webhook), or spans (--otlp)",
        ));
    }
    lost(asked, what)
}

/// Returns what lost observations of pods, Events or segments leave unknown. A loss of another kind leaves out only
/// details, which [`troubles`] reports.
fn lost(asked: Asked<'_>, what: String) -> Option<Unknown> {
    lost_of(asked, what, &["pods", "events", Gap::SEGMENTS])
}

/// As [`lost`], for a state that no list shows: a time without recording leaves it unknown too.
fn lost_or_unseen(asked: Asked<'_>, what: String) -> Option<Unknown> {
    let kinds = ["pods", "events", Gap::SEGMENTS, Gap::UNRECORDED];
    lost_of(asked, what, &kinds)
}

fn lost_of(asked: Asked<'_>, what: String, kinds: &[&str]) -> Option<Unknown> {
    let lost = asked.world.coverage().lost(kinds)?;
    Some(asked.because(what, "", &Incomplete::Lost(lost.clone())))
}

/// Returns why it cannot be said that nothing with this name exists in the scope, or that an owner with this name has
/// no pods. For a name without a namespace, all namespaces have to be known.
pub fn absent(asked: Asked<'_>, query: &str) -> Option<Unknown> {
    let found = target::find(asked.world, query);
    let is_there = !found.is_empty();
    let is_listed = |owner: &ObjectRef| {
        of_these(asked, owner) == Some(Ok(())) || named_without(asked, owner).is_some()
    };
    let listed = |t: &Target<'_>| matches!(t, Target::Owner(o, _) if is_listed(&o.object));
    if is_there && found.iter().all(listed) {
        return None;
    }
    if let Some(node) = node_asked(query).filter(|_| !is_there) {
        return absent_node(asked, node);
    }
    if let Some(namespace) = namespace_asked(query).filter(|_| !is_there) {
        let why = asked
            .world
            .coverage()
            .incomplete("namespaces", None, asked.at)?;
        let what = format!("whether there is a namespace {namespace}");
        return Some(asked.because(what, "namespaces", &why));
    }
    let scope = asked.world.selection().scope();
    let coverage = asked.world.coverage();
    let unread = |resource: &str| coverage.incomplete(resource, Some(scope), asked.at);
    let kind = owner_asked(query).map(|(_, kind, _)| kind);
    let what = match kind {
        _ if is_there => format!("whether {query} has pods"),
        Some(_) => format!("whether there is {query}"),
        None => format!("whether there is a pod {query}"),
    };
    let namespace = pod_asked(query).split_once('/').map(|(ns, _)| ns);
    let is_pod_of_list = kind.is_none() && named(asked, namespace).is_some();
    if let Some(why) = unread("pods").filter(|_| !is_pod_of_list) {
        return Some(asked.because(what, "pods", &why));
    }
    let kind = kind.filter(|_| !is_there)?;
    // An owner may have no pod: only a list of its kind shows that it does not exist.
    let resource = format!("{}s", kind.to_lowercase());
    if asked.recorded.is_none() && matches!(kind, "CronJob" | "ReplicationController") {
        return Some(Unknown {
            what,
            reason: Reason::NotAsked,
            why: format!("kflow lists no {resource}"),
            help: "name one of its pods".to_owned(),
        });
    }
    let why = unread(&resource)?;
    Some(asked.because(what, &resource, &why))
}

/// True for an owner that was deleted, or of which only Events are left while the list of its kind is complete.
pub fn is_deleted(asked: Asked<'_>, owner: &ObjectState) -> bool {
    let world = asked.world;
    let listed = || {
        let resource = format!("{}s", owner.object.kind.to_lowercase());
        let scope = world.selection().scope();
        let coverage = world.coverage();
        let is_listed = coverage.newest_list(&resource).is_some();
        is_listed
            && coverage
                .incomplete(&resource, Some(scope), asked.at)
                .is_none()
    };
    super::rules::gone(owner) || (super::rules::events_alone(owner) && listed())
}

/// Returns when the newest list was read that was imported and has every pod of the namespace, or else of the scope.
fn named(asked: Asked<'_>, namespace: Option<&str>) -> Option<Nanos> {
    let mut scope = asked.world.selection().scope().clone();
    scope.namespace = namespace.map(str::to_owned).or(scope.namespace);
    let shown = |bounds: &str| includes(bounds, &scope);
    let coverage = asked.world.coverage();
    let why = coverage.incomplete_where(WatchNote::NAMES, shown, asked.at)?;
    let own = coverage
        .watches()
        .filter(|(r, bounds, _)| *r == WatchNote::NAMES && shown(bounds));
    let read = own.filter_map(|(_, _, w)| Some(w.list()?.end)).max();
    read.filter(|_| why.is_none())
}

/// Returns when the newest list was read in which an owner has no pod, though it has every pod of the namespace.
fn named_without(asked: Asked<'_>, owner: &ObjectRef) -> Option<Nanos> {
    let pods = pods_of(asked.world, owner);
    let is_bare = pods.iter().all(|p| p.gone.is_some());
    named(asked, Some(&owner.namespace)).filter(|_| is_bare)
}

/// Returns why nothing can be said as of a moment, when it lies outside of what was recorded.
pub fn outside(range: Option<(Nanos, Nanos)>, at: Nanos) -> Option<Unknown> {
    let what = format!("what was so at {}", at.to_rfc3339());
    let Some((begin, end)) = range else {
        return Some(Unknown {
            what: "what was so".to_owned(),
            reason: Reason::NotRecorded,
            why: "what was read holds no observation".to_owned(),
            help: "record again, and see what `kflow record` says of its sources".to_owned(),
        });
    };
    let side = match at {
        t if t < begin => "before",
        t if t > end => "after",
        _ => return None,
    };
    Some(Unknown {
        what,
        reason: Reason::NotRecorded,
        why: format!(
            "that is {side} what was recorded, from {} to {}",
            begin.to_rfc3339(),
            end.to_rfc3339()
        ),
        help: "ask as of a moment within (--at)".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::cri::{CallKey, Inventory};
    use kflow_model::{Body, Observation, Stamp, Text};
    use std::sync::Arc;

    /// A list that was requested from the runtime, without a tap, does not show which calls the kubelet made.
    #[test]
    fn a_list_of_the_runtime_does_not_say_that_there_are_no_calls() {
        let mut world = World::default();
        let inventory = Body::Inventory(Box::new(Inventory {
            key: CallKey { conn: 1, stream: 1 },
            complete: true,
            sandboxes: true,
            items: Vec::new(),
        }));
        let conn = Body::Conn(Box::new(kflow_model::cri::ConnChange {
            conn: 1,
            open: true,
            pid: 1,
            peer: Text::default(),
            why: Text::default(),
            sight: kflow_model::cri::Sight::default(),
        }));
        for (body, is_unknown) in [(inventory, true), (conn, false)] {
            world.observe(&Arc::new(Observation {
                stamp: Stamp::exact(Nanos(1)),
                source: Source::Cri,
                body,
            }));
            let asked = Asked {
                world: &world,
                at: Nanos(2),
                scope: None,
                recorded: None,
            };
            assert_eq!(calls(asked).is_some(), is_unknown);
        }
    }
}
