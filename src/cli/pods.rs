//! The pods that a command is about, and its messages on standard error when there are none or when data is missing.

use std::collections::BTreeSet;

use super::args::Input;
use super::out::{conclude, tell};
use super::{ERROR, NO_SUCH, OK};
use kflow_core::correlate::{Pod, World};
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::diagnose::{self, Target, Unknown, namespace_of, node_asked, owner_asked};
use kflow_core::suggest::suggest;
use kflow_model::kind::CLAIM;
use kflow_model::scope::pod_asked;
use kflow_model::units::counted;
use kflow_model::{ObjectRef, Text};

/// Returns the exit status of a result that may be incomplete, and prints what is missing.
pub(super) fn whole(missing: Option<&Unknown>) -> u8 {
    let Some(unknown) = missing else { return OK };
    conclude(&unknown.to_string());
    ERROR
}

/// Reports that everything was read and nothing exists.
pub(super) fn tell_of_none(what: &str, asked: Asked<'_>) {
    let place = asked.scope.map(|s| format!(" {}", s.place()));
    let place = place.unwrap_or_default();
    tell(&format!("there are no {what}{place}"));
}

/// Reports that a filter matched nothing in the scope, and why that may be.
pub(super) fn tell_of_no_match(what: &str, of: usize, asked: Asked<'_>, why: Option<String>) {
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    match of {
        0 => tell_of_none(what, asked),
        of => tell(&format!("no match among {of} {what}{why}")),
    }
}

/// Reports that a scope that was named has no pods.
pub(super) fn tell_of_empty_scope(asked: Asked<'_>) {
    if !asked.world.selection().is_all() && asked.world.pods().is_empty() {
        tell_of_none("pods", asked);
    }
}

/// The objects that a query names, and their pods.
pub(super) struct Chosen<'w> {
    /// Pods and owners of pods; empty without a query.
    pub(super) targets: Vec<Target<'w>>,
    /// Oldest first.
    pub(super) pods: Vec<Pod>,
    /// Number of pods of the past that were left out.
    pub(super) past: usize,
}

/// Resolves a query: the one way in which commands accept a pod, an owner, a claim or a node. Pods of the past are
/// left out unless `past` is set or no other pod has the name.
pub(super) fn chosen<'w>(world: &'w World, query: Option<&str>, past: bool) -> Chosen<'w> {
    let targets = query.map_or_else(Vec::new, |q| diagnose::find(world, q));
    let mut pods = match query {
        Some(_) => of_targets(&targets),
        None => world.pods().to_vec(),
    };
    let all = pods.len();
    if !past && (query.is_none() || pods.iter().any(|p| !p.past)) {
        pods.retain(|p| !p.past);
    }
    Chosen {
        targets,
        past: all - pods.len(),
        pods,
    }
}

fn of_targets(targets: &[Target<'_>]) -> Vec<Pod> {
    let pods = targets.iter().flat_map(|t| t.pods().iter());
    let mut pods: Vec<Pod> = pods.map(|p| Pod::clone(p)).collect();
    pods.sort_by(|a, b| a.listed_by().cmp(&b.listed_by()));
    pods
}

/// The pods that a filter names, including those of the past.
pub(super) fn named(world: &World, query: &str) -> Vec<Pod> {
    chosen(world, Some(query), true).pods
}

/// The nodes of the query's pods that exist.
pub(super) fn nodes(world: &World, query: Option<&str>) -> BTreeSet<Text> {
    let pods = chosen(world, query, false).pods;
    let there = pods.iter().filter(|p| p.gone.is_none() && !p.past);
    let nodes = there.map(|p| &p.node).filter(|n| !n.is_empty());
    nodes.cloned().collect()
}

/// The namespace that printed names may leave out: the one from `-n` or from the kubeconfig's context, which kubectl
/// uses too; `None` when only the query names it.
pub(super) fn within<'a>(asked: Asked<'a>, query: Option<&str>) -> Option<&'a str> {
    let scope = asked
        .scope
        .filter(|_| query.and_then(namespace_of).is_none());
    scope.and_then(|s| s.namespace.as_deref())
}

/// Reports how many pods of the past were left out.
pub(super) fn tell_of_past(left_out: usize) {
    if left_out > 0 {
        tell(&format!(
            "pods of the past, known by Events alone, that are left out: {left_out} (--past shows them)"
        ));
    }
}

/// Reports on standard error how many of kflow's own calls are not in the output.
pub(super) fn tell_of_own(calls: usize, how: &str, input: &Input) {
    if calls > 0 {
        let calls = counted(calls as u64, "call");
        let flags = input.flags().unwrap_or_default();
        tell(&format!(
            "{how}: {calls} of kflow itself (kflow calls --filter own{flags})"
        ));
    }
}

/// Reports on standard error what was dropped from a long session.
pub(super) fn tell_of_loss(world: &World) {
    let u = world.unfiled();
    for (n, what) in [
        (
            u.folded,
            "observations of pods that have very many are kept no more (their timelines have a gap there)",
        ),
        (u.calls_forgotten, "older calls were forgotten"),
        (
            u.given_up,
            "observations name ids that nothing led to a pod, and were given up",
        ),
    ] {
        if n > 0 {
            tell(&format!("{n} {what}"));
        }
    }
}

/// Reports that nothing has the name, or that the named object has no pods. An error when that is not known.
pub(super) fn no_pods(query: &str, asked: Asked<'_>) -> anyhow::Result<u8> {
    begins_one(query, asked.world)?;
    tell(&absence(query, asked)?);
    Ok(NO_SUCH)
}

/// An error when the UIDs of several pods begin with the query.
pub(super) fn begins_one(query: &str, world: &World) -> anyhow::Result<()> {
    let several = world.of_uid_begin(pod_asked(query)).count();
    anyhow::ensure!(
        several < 2,
        "the UIDs of {several} pods begin with {query}: write more of it"
    );
    Ok(())
}

/// The message of [`no_pods`], with similar names.
pub(super) fn absence(query: &str, asked: Asked<'_>) -> Result<String, Unknown> {
    let world = asked.world;
    if let Some(unknown) = unknown::absent(asked, query) {
        let near = match owner_asked(query) {
            _ if node_asked(query).is_some() => None,
            Some(owner) => near_owners(query, owner, world),
            None => near_pods(pod_asked(query), world),
        };
        return Err(match near {
            Some(near) => Unknown {
                help: format!("{near} Or {}", unknown.help),
                ..unknown
            },
            None => unknown,
        });
    }
    let selection = world.selection();
    let place = if selection.is_all() {
        String::new()
    } else {
        format!(" {}", selection.scope().place())
    };
    if !diagnose::find(world, query).is_empty() {
        return Ok(match owner_asked(query) {
            Some((_, CLAIM, _)) => format!("no pod mounts {query}{place}"),
            _ => format!("{query}{place} has no pods"),
        });
    }
    if let Some(node) = node_asked(query) {
        return Ok(no_node(node, world));
    }
    Ok(match owner_asked(query) {
        Some(owner) => format!("no {query}{place}: {}", near_owner(query, owner, world)),
        None => format!(
            "no pod {query}{place}: {}",
            near_pod(pod_asked(query), world)
        ),
    })
}

/// A hint for an owner that does not exist: similar names.
fn near_owner(query: &str, owner: (Option<&str>, &str, &str), world: &World) -> String {
    let (namespace, kind, name) = owner;
    let (word, _) = query.rsplit_once('/').unwrap_or_default();
    let objects = world.objects().into_iter().map(|o| &o.object);
    let of_kind: Vec<&ObjectRef> = objects.filter(|o| o.kind == kind).collect();
    if let Some(o) = of_kind.iter().find(|o| o.name == name) {
        let short = word.rsplit('/').next().unwrap_or(word);
        return format!(
            "there is {}/{short}/{name}, which is not of it",
            o.namespace
        );
    }
    let within =
        |ns: &str| namespace.is_none_or(|of| of == ns) && world.selection().admits_namespace(ns);
    let known = of_kind.iter().filter(|o| within(&o.namespace));
    let known: BTreeSet<&str> = known.map(|o| o.name.as_str()).collect();
    near_owners(query, owner, world).unwrap_or_else(|| match known.len() {
        1 => "1 of the kind is known".to_owned(),
        n => format!("{n} of the kind are known"),
    })
}

/// A question with the names of known owners that are similar to an unknown one.
fn near_owners(
    query: &str,
    (namespace, kind, name): (Option<&str>, &str, &str),
    world: &World,
) -> Option<String> {
    let (word, _) = query.rsplit_once('/')?;
    let within =
        |ns: &str| namespace.is_none_or(|of| of == ns) && world.selection().admits_namespace(ns);
    let objects = world.objects().into_iter().map(|o| &o.object);
    let known = objects.filter(|o| o.kind == kind && within(&o.namespace));
    let known: BTreeSet<&str> = known.map(|o| o.name.as_str()).collect();
    let near = suggest(name, known, |n| n);
    (!near.is_empty()).then(|| format!("did you mean {word}/{}?", near.join(&format!(", {word}/"))))
}

/// A hint for a pod that does not exist: similar names.
fn near_pod(query: &str, world: &World) -> String {
    if query.contains('*') {
        return "a name is taken as it is; -n NAMESPACE, -l and --field-selector choose several"
            .to_owned();
    }
    let bears = |p: &&Pod| p.key() == query || p.name == query || p.uid.as_str() == query;
    if let Some(p) = world.every_pod().iter().find(bears) {
        return format!("there is {}, which is not of it", p.key());
    }
    near_pods(query, world).unwrap_or_else(|| match world.pods().len() {
        1 => "1 pod is known".to_owned(),
        n => format!("{n} pods are known"),
    })
}

/// A question with the names of known pods that are similar to an unknown one.
fn near_pods(query: &str, world: &World) -> Option<String> {
    let near = suggest(query, world.pods().iter().map(|p| p.key()), name_of);
    (!near.is_empty()).then(|| format!("did you mean {}?", near.join(", ")))
}

/// The message that all nodes were listed and none has the name, with similar names.
fn no_node(node: &str, world: &World) -> String {
    let known = world.nodes().into_iter().map(|n| n.name.to_string());
    let near = suggest(node, known, |n: &str| n);
    let hint = if near.is_empty() {
        format!("nodes that are known: {}", world.nodes().len())
    } else {
        format!("did you mean node/{}?", near.join(", node/"))
    };
    format!("no node {node}: {hint}")
}

fn name_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
