//! Names only, one per line, for kubectl and xargs.

use std::io::{self, Write};
use std::sync::Arc;

use super::text::clean;
use kflow_core::correlate::{Call, Pod, Request, owners};
use kflow_core::diagnose::{Incident, Subject, Verdict};
use kflow_model::ObjectRef;

/// Returns `pod/web-0` for an object in the requested namespace, which kubectl takes with the same `-n`. Without a
/// requested namespace kubectl could take that for another namespace's pod: then the result is `pod/shop/web-0`, which
/// kubectl refuses and kflow accepts.
fn name(kind: &str, namespace: &str, name: &str, within: Option<&str>) -> String {
    let kind = owners::word(kind);
    if namespace.is_empty() || within == Some(namespace) {
        format!("{kind}/{name}")
    } else if kind == "pod" {
        // A namespace may have the name of a kind.
        format!("pod/{namespace}/{name}")
    } else {
        format!("{namespace}/{kind}/{name}")
    }
}

fn object(o: &ObjectRef, within: Option<&str>) -> String {
    name(&o.kind, &o.namespace, &o.name, within)
}

/// Writes each name once, where it occurs first.
fn lines(out: &mut impl Write, names: impl Iterator<Item = String>) -> io::Result<()> {
    let mut told = std::collections::HashSet::new();
    for name in names {
        let line = clean(&name).into_owned();
        if told.insert(name) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// Writes the pods that have a name: of some only the UID is known.
pub fn of_pods(out: &mut impl Write, pods: &[Pod], within: Option<&str>) -> io::Result<()> {
    let names = pods
        .iter()
        .filter(|p| !p.name.is_empty())
        .map(|p| name("pod", &p.namespace, &p.name, within));
    lines(out, names)
}

pub fn of_objects<'a>(
    out: &mut impl Write,
    objects: impl Iterator<Item = &'a ObjectRef>,
    within: Option<&str>,
) -> io::Result<()> {
    lines(out, objects.map(|o| object(o, within)))
}

/// Writes the pods that the calls are about, if they have a name.
pub fn of_calls<'a>(
    out: &mut impl Write,
    calls: impl Iterator<Item = &'a Arc<Call>>,
    within: Option<&str>,
) -> io::Result<()> {
    let named = calls.filter(|c| !c.pod.is_empty());
    lines(
        out,
        named.map(|c| name("pod", &c.namespace, &c.pod, within)),
    )
}

/// Writes the pods that the requests are about, if they have a name. The apiserver generates the name of a pod with
/// `generateName`, and the audit log contains it from level Request on.
pub fn of_requests<'a>(
    out: &mut impl Write,
    requests: impl Iterator<Item = &'a Request>,
    within: Option<&str>,
) -> io::Result<()> {
    let of_pods = requests.filter(|r| r.resource.split('/').next() == Some("pods"));
    let named = of_pods.map(|r| &r.object).filter(|o| !o.name.is_empty());
    lines(
        out,
        named.map(|o| name("pod", &o.namespace, &o.name, within)),
    )
}

/// Writes the subject of each verdict.
pub fn of_verdicts<'a>(
    out: &mut impl Write,
    verdicts: impl Iterator<Item = &'a Verdict>,
    within: Option<&str>,
) -> io::Result<()> {
    let names = verdicts.filter_map(|v| match &v.owner {
        _ if !v.pod.is_empty() => Some(name("pod", &v.namespace, &v.pod, within)),
        owner => {
            let named = owner.as_ref().filter(|o| !o.name.is_empty());
            named.map(|o| object(o, within))
        }
    });
    lines(out, names)
}

/// Writes the subject of each incident: the owner, if several of its pods are affected.
pub fn of_incidents(
    out: &mut impl Write,
    incidents: &[&Incident],
    within: Option<&str>,
) -> io::Result<()> {
    let names = incidents.iter().filter_map(|i| match &i.subject {
        Subject::Pod { name: pod, .. } if pod.is_empty() => None,
        Subject::Pod {
            namespace,
            name: pod,
            ..
        } => Some(name("pod", namespace, pod, within)),
        Subject::Owner(o) => Some(object(o, within)),
        Subject::Node(n) if n.is_empty() => None,
        Subject::Node(n) => Some(name("node", "", n, within)),
    });
    lines(out, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_only_where_it_cannot_mean_another() {
        for (kind, namespace, within, want) in [
            ("pod", "shop", Some("shop"), "pod/x"),
            ("pod", "shop", Some("else"), "pod/shop/x"),
            ("Pod", "shop", None, "pod/shop/x"),
            ("Deployment", "shop", Some("shop"), "deployment/x"),
            ("Deployment", "shop", None, "shop/deployment/x"),
            ("Node", "", None, "node/x"),
            ("node", "", Some("shop"), "node/x"),
        ] {
            assert_eq!(name(kind, namespace, "x", within), want);
        }
    }
}
