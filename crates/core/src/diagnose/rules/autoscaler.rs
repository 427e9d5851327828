//! The autoscalers that add nodes (the cluster autoscaler and Karpenter), by their Events about the pod.

use super::Context;
use crate::diagnose::cause;
use crate::diagnose::finding::{self, Finding};
use crate::diagnose::history::PodHistory;
use crate::diagnose::quantity::Quantity;
use crate::diagnose::scheduler;
use crate::diagnose::signal::Signal;
use crate::diagnose::text::{capital, list, span, times};
use crate::diagnose::{State, limits};
use kflow_model::{Body, Nanos, Text, event::AUTOSCALER_REASONS};
use std::collections::BTreeMap;

/// Keeps the finding of the newest autoscaler Event only, because an autoscaler that found no node may add one later;
/// and adds the autoscaler's name.
pub(super) fn rules<'a>(cx: Context<'a>, f: &PodHistory<'a>, found: &mut Vec<Finding<'a>>) {
    let newest = f
        .signals
        .iter()
        .filter(|s| is_of_autoscaler(s))
        .max_by_key(|s| s.at);
    let Some(newest) = newest else { return };
    let brings = newest.reason != "NotTriggerScaleUp" && newest.reason != "@autoscaler";
    found.retain(|x| match x.cause.id {
        cause::KF225 => !brings,
        cause::KF230 => brings,
        _ => true,
    });
    for x in found.iter_mut() {
        if !matches!(x.cause.id, cause::KF225 | cause::KF230) {
            continue;
        }
        x.names.set("autoscaler", &capital(autoscaler(newest)));
        if x.cause.id == cause::KF225 && x.names.get("own").is_some() {
            // What the scheduler says of the nodes that exist does not say why there is no other.
            x.rank = OWN;
            in_plain_units(x);
            if let Some(pod) = f.api.filter(|_| x.names.get("pool").is_none()) {
                let wants = scheduler::wanted(&pod.spec).unwrap_or_default();
                x.names.set("wants", &wants);
            }
        }
        let what = x.names.get("what").map(plain);
        if let Some(what) = what {
            x.names.replace("what", &what);
        }
        if x.cause.id == cause::KF230 {
            let asked = asked(f, newest);
            let current = asked.last().map_or(newest.first, |a| a.at);
            x.names.vary("asked", &span(cx.now.since(current)), "");
            if let Some((joined, proof)) = joined(cx, newest) {
                x.names.set("joined", &joined);
                x.proofs.extend(proof.map(finding::proof));
            }
            in_vain(cx, &asked, x);
            // By now the autoscaler has given the node up.
            if cx.now.since(newest.first) >= limits::NODE_JOINS.ns {
                x.state = State::Stuck;
            }
        }
    }
}

/// Rank of an autoscaler's own reason: above those of the scheduler, which are about the nodes that exist.
const OWN: u8 = 64;

/// Rewrites the resources and requirements in an autoscaler's reason as people write them.
fn in_plain_units(x: &mut Finding<'_>) {
    // `"cpu":"14430m","memory":"122710Mi","pods":"7"`
    let amounts = |text: &str| {
        let all: BTreeMap<String, String> = serde_json::from_str(&format!("{{{text}}}")).ok()?;
        let words = all.iter().filter(|(r, _)| *r != "pods").map(|(r, amount)| {
            let shown = Quantity::parse(amount).map(|q| q.show(r));
            format!("{} {r}", shown.as_ref().unwrap_or(amount))
        });
        Some(words.collect::<Vec<_>>().join(", "))
    };
    for (from, to) in [("resources", "needs"), ("overhead", "overhead")] {
        if let Some(text) = x.names.get(from).and_then(amounts) {
            x.names.replace(to, &text);
        }
    }
    // `karpenter.sh/nodepool In [default], node.kubernetes.io/instance-type In [r6i.4xlarge]`
    if let Some(text) = x.names.get("requirements").map(str::to_owned) {
        let parts: Vec<String> = text.split(", ").filter_map(requirement).collect();
        x.names.set("allowed", &parts.join(", "));
    }
    if x.names.get("others").is_some() {
        x.names.replace("others", "no other NodePool fits either");
    }
}

/// Returns a requirement in words, as Karpenter prints it (kubernetes-sigs/karpenter `pkg/scheduling/requirement.go`,
/// `String`): `KEY In [a b c d e and 3 others]`, `KEY Exists >4`. `None` for one that Karpenter sets itself.
fn requirement(part: &str) -> Option<String> {
    let (key, rest) = part.split_once(' ')?;
    let key = key.rsplit('/').next().unwrap_or(key);
    if matches!(key, "nodepool" | "ec2nodeclass" | "provisioner-name") {
        return None;
    }
    let (operator, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let set = rest.strip_prefix('[').and_then(|r| r.rsplit_once(']'));
    let (values, bounds) = set.unwrap_or(("", rest));
    let (values, more) = match values.split_once(" and ") {
        Some((values, more)) => (values, Some(more)),
        None => (values, None),
    };
    let mut values: Vec<String> = values.split_whitespace().map(str::to_owned).collect();
    if let Some((last, more)) = values.last_mut().zip(more) {
        last.push_str(" and ");
        last.push_str(more);
    }
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let words = scheduler::constraint_in_words(key, operator, &values);
    Some(match bounds.trim() {
        "" => words,
        bounds => format!("{words} {bounds}"),
    })
}

/// What an autoscaler asked for: Karpenter's `nodeclaim/default-x7k2p`, since when.
struct Asked<'a> {
    what: &'a str,
    at: Nanos,
}

/// Returns what the autoscaler has asked for on behalf of this pod, oldest first. Karpenter repeats its Event while it
/// waits for one NodeClaim, so that each claim counts once.
fn asked<'a>(f: &PodHistory<'a>, newest: &Signal<'_>) -> Vec<Asked<'a>> {
    let mut out: Vec<Asked<'a>> = Vec::new();
    for o in f.view.evidence.telling() {
        let Body::Event(e) = &o.body else { continue };
        if e.reason != *newest.reason || e.is_of_another_pod(&f.view.uid, &f.view.mirrors) {
            continue;
        }
        let Some((_, claim)) = e.message.split_once("nodeclaim/") else {
            continue;
        };
        let what = claim.split([',', ' ']).next().unwrap_or(claim);
        if out.iter().all(|a| a.what != what) {
            let at = e.began().unwrap_or(o.stamp.at);
            out.push(Asked { what, at });
        }
    }
    out
}

/// Says that the autoscaler has asked before, so that what it asked for then has become no node for the pod, and what
/// was said of the newest that failed.
fn in_vain(cx: Context<'_>, asked: &[Asked<'_>], x: &mut Finding<'_>) {
    let [first, .., _] = asked else { return };
    let earlier: Vec<&str> = asked.iter().rev().skip(1).map(|a| a.what).collect();
    let since = span(cx.now.since(first.at));
    let text = format!(
        "asked {} in {since}, and {} came to nothing",
        times(asked.len().try_into().unwrap_or(u32::MAX)),
        list(&earlier)
    );
    x.names.vary("again", &text, "asked before, in vain");
    // A second claim may be for room that another pod took of the first. A third is not.
    if asked.len() > 2 {
        x.state = State::Stuck;
    }
    let warning = |a: &Asked<'_>| {
        let claim = cx.world.object("NodeClaim", "", a.what)?;
        claim.evidence.iter().rev().find_map(|o| match &o.body {
            Body::Event(e) if e.warning => Some((o, &e.message)),
            _ => None,
        })
    };
    if let Some((o, said)) = asked.iter().rev().find_map(warning) {
        x.names.set("said", said.trim_end_matches(['.', ' ']));
        x.proofs.push(finding::proof(o));
    }
}

fn is_of_autoscaler(s: &Signal<'_>) -> bool {
    s.reason == "@autoscaler" || AUTOSCALER_REASONS.contains(&s.reason.as_ref())
}

/// Turns Go's notation of lists and maps (`[{workers-a 3->4 (max: 10)}]`, `resources={"cpu":"64"}`) into plain text
/// without braces.
fn plain(what: &str) -> String {
    let bare = what.trim_start_matches("[{").trim_end_matches("}]");
    bare.replace("} {", ", ")
        .replace('{', "(")
        .replace('}', ")")
}

/// What the autoscaler is called.
fn autoscaler(s: &Signal<'_>) -> &'static str {
    let named = match &s.evidence.body {
        Body::Event(e) => e.autoscaler(),
        _ => None,
    };
    named.unwrap_or("the cluster autoscaler")
}

/// Returns what is known about the node that Karpenter named
/// (`nodeclaim/default-x7k2p, node/ip-10-0-1-7`), and the evidence.
fn joined<'a>(
    cx: Context<'a>,
    s: &Signal<'_>,
) -> Option<(String, Option<&'a kflow_model::Evidence>)> {
    let (_, after) = s.text.split_once("node/")?;
    let name = after.split([',', ' ']).next().filter(|n| !n.is_empty())?;
    let Some(node) = cx.world.node(name).filter(|n| n.api.is_some()) else {
        return Some((format!("node {name} was not seen"), None));
    };
    let ready = node
        .api
        .as_deref()?
        .conditions
        .iter()
        .find(|c| c.kind == "Ready")?;
    let why: &Text = if ready.message.is_empty() {
        &ready.reason
    } else {
        &ready.message
    };
    let text = match (ready.status.as_str(), why.as_str()) {
        ("True", _) => format!("node {name} is there and ready"),
        (_, "") => format!("node {name} is there and not ready"),
        (_, why) => format!(
            "node {name} is there and not ready: {}",
            why.trim_end_matches('.')
        ),
    };
    Some((text, node.evidence.last()))
}

#[cfg(test)]
mod tests {
    use super::requirement;

    #[test]
    fn a_requirement_of_karpenter_keeps_what_it_leaves_out_and_its_bounds() {
        for (printed, words) in [
            (
                "node.kubernetes.io/instance-type In [r6i.4xlarge]",
                Some("instance-type=r6i.4xlarge"),
            ),
            ("zone In [a b]", Some("zone in (a, b)")),
            (
                "zone In [a b c d e and 3 others]",
                Some("zone in (a, b, c, d, e and 3 others)"),
            ),
            ("zone NotIn [a b]", Some("zone not in (a, b)")),
            ("gpu DoesNotExist", Some("no gpu")),
            ("instance-cpu Exists >4", Some("instance-cpu >4")),
            ("instance-cpu Exists >4 <9", Some("instance-cpu >4 <9")),
            (
                "family In [m6 m7] minValues 2",
                Some("family in (m6, m7) minValues 2"),
            ),
            ("karpenter.sh/nodepool In [default]", None),
        ] {
            assert_eq!(requirement(printed).as_deref(), words, "{printed}");
        }
    }
}
