//! The Service behind an admission webhook that does not answer, and the pods that may serve it.

use super::Context;
use crate::diagnose::cause;
use crate::diagnose::finding::Finding;
use crate::diagnose::text::list;
use kflow_model::{Nanos, Scope};

/// Returns namespace and name of the Service that a webhook was called at. The text has the call's address: `Post
/// "https://mesh.mesh-system.svc:443/inject?timeout=10s"`. The apiserver writes the Service as the host
/// (k8s.io/apiserver, pkg/util/webhook/client.go, `HookClient`: `serverName = name + "." + namespace + ".svc"`); a
/// webhook outside of the cluster has another host.
fn service_of(text: &str) -> Option<(&str, &str)> {
    let (_, url) = text.split_once("https://")?;
    let host = url.split(['/', ':', '"', '?']).next()?;
    let mut parts = host.split('.');
    let (name, namespace) = (parts.next()?, parts.next()?);
    let is_service = parts.next() == Some("svc") && !name.is_empty() && !namespace.is_empty();
    is_service.then_some((namespace, name))
}

/// Adds to a finding the Service that a webhook's call failed at, and the pods of its namespace that are not ready.
/// Which of these pods serve it is not known, because kflow reads neither Services nor EndpointSlices.
pub(super) fn follow(cx: Context<'_>, text: &str, x: &mut Finding<'_>) {
    if !matches!(x.cause.id, cause::KF105 | cause::KF910) {
        return;
    }
    let Some((namespace, name)) = service_of(text) else {
        return;
    };
    let service = format!("{namespace}/{name}");
    x.names.set("service_ns", namespace);
    if x.names.get("gone").is_some() {
        // No pod serves it.
        x.names.set("lost", &service);
        return;
    }
    x.names.set("service", &service);
    x.names.set("service_name", name);
    if let Some(pods) = pods(cx, namespace, name) {
        x.names.set("backend", &pods);
    }
}

/// Returns the state of the pods in a Service's namespace, in words, as far as it says something about the Service.
fn pods(cx: Context<'_>, namespace: &str, service: &str) -> Option<String> {
    let unready = cx.shared.unready_in(cx.world, namespace);
    let mut names: Vec<String> = unready.iter().map(|p| p.key()).collect();
    // Pods whose names begin like the Service's come first.
    names.sort_by_key(|n| {
        let own = n.split_once('/').map_or("", |(_, n)| n);
        !own.starts_with(service)
    });
    if !names.is_empty() {
        return Some(format!("not ready in its namespace: {}", list(&names)));
    }
    let all_listed = listed(cx, namespace, cx.now);
    let exists = cx
        .world
        .every_pod()
        .iter()
        .any(|p| p.namespace == namespace && p.gone.is_none());
    match (all_listed, exists) {
        (true, false) => Some("its namespace has no pod".to_owned()),
        (true, true) => Some("every pod of its namespace is ready".to_owned()),
        (false, _) => None,
    }
}

/// True when the pods of a namespace are known completely.
fn listed(cx: Context<'_>, namespace: &str, at: Nanos) -> bool {
    let scope = Scope {
        namespace: Some(namespace.to_owned()),
        ..Scope::default()
    };
    cx.world
        .coverage()
        .incomplete("pods", Some(&scope), at)
        .is_none()
}

#[cfg(test)]
mod tests {
    use super::service_of;

    #[test]
    fn the_service_of_a_webhook_is_read_from_the_url_that_was_called() {
        for (text, service) in [
            (
                "failed to call webhook: Post \"https://mesh.mesh-system.svc:443/inject?timeout=10s\": context deadline exceeded",
                Some(("mesh-system", "mesh")),
            ),
            (
                "Post \"https://gatekeeper.hooked.svc/v?timeout=3s\": service \"gatekeeper\" not found",
                Some(("hooked", "gatekeeper")),
            ),
            ("Post \"https://hooks.example.com:8443/v\": EOF", None),
            ("Post \"https://10.0.0.1:8443/v\": EOF", None),
            ("denied the request: see https://", None),
        ] {
            assert_eq!(service_of(text), service, "{text}");
        }
    }
}
