//! Parses field selectors of pods (`k8s.io/apimachinery/pkg/fields/selector.go`; the fields: `ToSelectableFields` in
//! `pkg/registry/core/pod/strategy.go`).

use crate::correlate::PodView;

/// The fields that pods can be selected by.
pub(super) const NAMES: [&str; 10] = [
    "metadata.name",
    "metadata.namespace",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
];

/// `name=value`, or `name!=value` when `equal` is false.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    name: &'static str,
    value: String,
    equal: bool,
}

/// Terms that all have to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldSelector(Vec<Term>);

impl FieldSelector {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub(super) fn fits(&self, pod: &PodView) -> bool {
        self.0.iter().all(|term| {
            field(term.name, pod).is_some_and(|value| (value == term.value) == term.equal)
        })
    }
}

/// Returns a field of a pod; `None` when no source showed it.
fn field<'p>(name: &str, pod: &'p PodView) -> Option<&'p str> {
    match name {
        "metadata.name" => return Some(&pod.name),
        "metadata.namespace" => return Some(&pod.namespace),
        "spec.nodeName" => return Some(&pod.node),
        _ => {}
    }
    let p = pod.api.as_deref()?;
    Some(match name {
        "spec.restartPolicy" if p.spec.restart_policy.is_empty() => "Always",
        "spec.restartPolicy" => &p.spec.restart_policy,
        "spec.schedulerName" if p.spec.scheduler.is_empty() => "default-scheduler",
        "spec.schedulerName" => &p.spec.scheduler,
        "spec.serviceAccountName" => &p.spec.service_account,
        "spec.hostNetwork" if p.spec.host_network => "true",
        "spec.hostNetwork" => "false",
        "status.phase" => p.status.phase.as_str(),
        "status.podIP" => &p.status.pod_ip,
        "status.nominatedNodeName" => &p.status.nominated_node,
        _ => return None,
    })
}

/// Parses a field selector; the empty text selects everything.
pub(super) fn parse(text: &str) -> Result<FieldSelector, String> {
    let mut all = Vec::new();
    for term in terms(text) {
        if term.is_empty() {
            continue;
        }
        let Some((name, value, equal)) = ["!=", "==", "="].into_iter().find_map(|sign| {
            let (name, value) = term.split_once(sign)?;
            Some((name, value, sign != "!="))
        }) else {
            return Err(format!("{term:?} is not FIELD=VALUE or FIELD!=VALUE"));
        };
        let Some(name) = NAMES.into_iter().find(|n| *n == name) else {
            return Err(format!("{name:?} is no field that pods are selected by"));
        };
        all.push(Term {
            name,
            value: unescaped(value)?,
            equal,
        });
    }
    Ok(FieldSelector(all))
}

/// Splits a selector at the commas that no backslash escapes.
fn terms(text: &str) -> Vec<&str> {
    let (mut out, mut begin, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                out.push(text.get(begin..i).unwrap_or_default());
                begin = i + 1;
            }
            _ => {}
        }
    }
    out.push(text.get(begin..).unwrap_or_default());
    out
}

fn unescaped(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                _ => return Err(format!("{value:?} has a backslash that escapes nothing")),
            },
            '=' => return Err(format!("{value:?} has a = that is not escaped (\\=)")),
            c => out.push(c),
        }
    }
    Ok(out)
}
