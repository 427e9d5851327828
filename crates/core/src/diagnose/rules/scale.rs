//! Autoscalers of owners that cannot scale, by their conditions (Kubernetes 1.36 `pkg/controller/podautoscaler/horizontal.go`).

use super::{Context, newest_state, on_object, selected, without_pod};
use crate::correlate::{ObjectState, World};
use crate::diagnose::finding::{Finding, owner_arg};
use crate::diagnose::history::PodHistory;
use crate::diagnose::standing::there;
use crate::diagnose::{Catalogue, Verdict, cause, limits};
use kflow_model::kind::AUTOSCALER;
use kflow_model::object::ObjectSeen;
use kflow_model::pod::Condition;
use kflow_model::{ObjectRef, Text};
use rustc_hash::FxHashMap;

/// Returns what an autoscaler scales.
pub(in crate::diagnose) fn target_of(o: &ObjectState) -> Option<ObjectRef> {
    let api = there(o).filter(|_| o.object.kind == AUTOSCALER)?;
    Some(ObjectRef {
        kind: api.fact("targetKind")?.into(),
        namespace: o.object.namespace.clone(),
        name: api.fact("targetName")?.into(),
        uid: Text::default(),
    })
}

/// Returns the verdicts on the selected autoscalers that cannot scale, by namespace and name.
pub(in crate::diagnose) fn autoscalers(cx: Context<'_>) -> Vec<Verdict> {
    let all = selected(cx, AUTOSCALER).into_iter();
    all.filter_map(|o| autoscaler(cx, o)).collect()
}

/// Returns the verdicts on the autoscalers of an owner that cannot scale.
pub(super) fn below(cx: Context<'_>, owner: &ObjectRef) -> Vec<Verdict> {
    let its = |t: ObjectRef| key(&t) == key(owner);
    let mut all = cx.world.objects();
    all.retain(|o| target_of(o).is_some_and(its));
    all.into_iter().filter_map(|o| autoscaler(cx, o)).collect()
}

/// Returns the condition by which an autoscaler says that it cannot scale. One whose target wants no pods is switched off.
fn cannot(api: &ObjectSeen) -> Option<&Condition> {
    let kinds = ["AbleToScale", "ScalingActive"];
    let mut all = kinds.into_iter().filter_map(|kind| api.condition(kind));
    all.find(|c| c.status == "False" && c.reason != "ScalingDisabled")
}

/// Returns the verdict on an autoscaler; `None` for one that can scale.
pub(in crate::diagnose) fn autoscaler(cx: Context<'_>, o: &ObjectState) -> Option<Verdict> {
    let api = there(o).filter(|_| o.object.kind == AUTOSCALER)?;
    let c = cannot(api)?;
    let since = c.transition.unwrap_or(api.created);
    // Of a pod that has just started there are no metrics yet.
    if cx.now.since(since) < limits::METRICS.ns {
        return None;
    }
    let view = without_pod(o, &o.object.namespace, since);
    let f = PodHistory::gather(&view, cx.now);
    let told = Catalogue::get().best("@hpa", &c.message, |_| true);
    let mut x = Finding::new(cause::KF116, &f);
    if let Some((_, names)) = told {
        x.names = names;
    }
    let x = x
        .since(since)
        .name("name", &o.object.name)
        .name("reason", &c.reason)
        .name("what", c.message.trim_end_matches(['.', ' ']));
    let x = match newest_state(o) {
        Some(e) => x.condition(e, c),
        None => x,
    };
    let x = match target_of(o) {
        Some(target) => x.name("target", &owner_arg(&target)),
        None => x,
    };
    let x = match api.fact("currentReplicas") {
        Some(n) => x.name("replicas", n),
        None => x,
    };
    Some(on_object(x, &f, o))
}

/// Says what an autoscaler does that can scale: its target's number of pods, and what bounds it.
pub(in crate::diagnose) fn at_rest(o: &ObjectState) -> Option<String> {
    let api = there(o).filter(|_| o.object.kind == AUTOSCALER)?;
    let target = owner_arg(&target_of(o)?);
    if let Some(c) = api
        .condition("ScalingActive")
        .filter(|c| c.reason == "ScalingDisabled")
    {
        return Some(format!(
            "It does nothing: {}.",
            c.message.trim_end_matches('.')
        ));
    }
    let (have, want) = (api.fact("currentReplicas")?, api.fact("desiredReplicas")?);
    let so = if have == want {
        format!("It keeps {target} at {have}")
    } else {
        format!("It scales {target} from {have} to {want}")
    };
    Some(format!("{so}{}.", limited(api).unwrap_or_default()))
}

/// Says what bounds an autoscaler that would do more: `, its most (maxReplicas 5): …`.
fn limited(api: &ObjectSeen) -> Option<String> {
    let c = api.condition("ScalingLimited").filter(|c| c.is_true())?;
    let why = c.message.trim_end_matches('.');
    Some(match c.reason.as_str() {
        "TooManyReplicas" => {
            let most = api.fact("maxReplicas").unwrap_or("?");
            format!(", its most (maxReplicas {most}): {why}")
        }
        "TooFewReplicas" => {
            let least = api.fact("minReplicas").unwrap_or("1");
            format!(", its least (minReplicas {least}): {why}")
        }
        _ => format!(": {why}"),
    })
}

/// Kind, namespace and name.
type Key = (Text, Text, Text);

fn key(o: &ObjectRef) -> Key {
    (o.kind.clone(), o.namespace.clone(), o.name.clone())
}

/// What autoscalers that are at their most say, by what they scale: the other pods that the owner's pods would wait for do
/// not come.
#[derive(Clone, Debug, Default)]
pub struct AtMost(FxHashMap<Key, String>);

impl AtMost {
    pub fn of(world: &World) -> Self {
        let objects = world.objects().into_iter();
        let at_most = objects.filter_map(|o| {
            let limited = there(o)?.condition("ScalingLimited")?;
            let is_at_most = limited.is_true() && limited.reason == "TooManyReplicas";
            let said = at_rest(o).filter(|_| is_at_most)?;
            Some((
                key(&target_of(o)?),
                format!("{}: {said}", owner_arg(&o.object)),
            ))
        });
        Self(at_most.collect())
    }
    /// Returns what the autoscaler of an owner says, where it is at its most.
    pub fn said(&self, owner: &ObjectRef) -> Option<&str> {
        self.0.get(&key(owner)).map(String::as_str)
    }
}
