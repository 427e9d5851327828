//! Decides which span attributes leave the decoder (an allow-list), and takes out of URLs what may be secret.

use crate::logtext::cut;
use kflow_model::{Text, redact};

/// Longest attribute value that is kept, bytes.
const VALUE_MAX: usize = 512;

/// Attributes that are kept by name: Kubernetes' own (`component-base/tracing`), and OpenTelemetry's.
const KEYS: &[&str] = &[
    "UID",
    "api-group",
    "api-version",
    "audit-id",
    "client",
    "client.address",
    "configuration",
    "error.type",
    "group",
    "ip",
    "key",
    "name",
    "namespace",
    "net.peer.name",
    "net.peer.port",
    "netns.path",
    "network.peer.address",
    "operation",
    "process.pid",
    "resource",
    "scope",
    "server.address",
    "server.port",
    "snapshotter.name",
    "subresource",
    "task.container.id",
    "task.exec.id",
    "task.id",
    "task.pid",
    "type",
    "url",
    "url.full",
    "url.path",
    "user-agent",
    "user_agent.original",
    "verb",
    "webhook",
];

/// Attributes that are kept by the prefix of their name.
const PREFIXES: &[&str] = &[
    "k8s.",
    "rpc.",
    "http.",
    "sandbox.",
    "container.",
    "image.",
    "cni.",
    "runtime.",
    "layer.media.",
];

/// Prefixes of keys that are dropped although [`PREFIXES`] lets them in: times that the span has itself, and headers
/// (`http.request.header.authorization`), which may be secrets.
const NOT: &[&str] = &[
    "sandbox.CreatedAt",
    "sandbox.UpdatedAt",
    "container.createdAt",
    "container.updatedAt",
    "http.request.header.",
    "http.response.header.",
    "rpc.message.",
    "rpc.grpc.request.metadata",
    "rpc.grpc.response.metadata",
];

/// Returns true for an attribute that is kept.
pub(super) fn is_kept(key: &str) -> bool {
    (KEYS.contains(&key) || PREFIXES.iter().any(|p| key.starts_with(p)))
        && !NOT.iter().any(|n| key.starts_with(n))
        && redact::kind(key) == redact::Kind::Plain
}

/// Returns the value in the form in which it may leave the decoder.
pub(super) fn clean(key: &str, value: &str) -> Text {
    match key {
        // The product is enough: `kubelet/v1.36.2`.
        "user-agent" | "user_agent.original" | "http.user_agent" => {
            cut(value.split(' ').next().unwrap_or_default(), VALUE_MAX)
        }
        _ => cut(value, VALUE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_users_secrets_and_arguments() {
        for (raw, want) in [
            (
                "https://127.0.0.1:6443/api/v1/nodes?limit=500",
                "https://127.0.0.1:6443/api/v1/nodes?limit=500",
            ),
            (
                "https://me:pw@registry/v2/",
                "https://<redacted>@registry/v2/",
            ),
            (
                "/exec/s26/web/c?command=sh&command=-c&command=echo&stdout=1",
                "/exec/s26/web/c?command=sh&command=<redacted>&command=<redacted>&stdout=1",
            ),
            (
                "https://s3/blob?X-Amz-Signature=abc&x=1",
                "https://s3/blob?X-Amz-Signature=<redacted>&x=<redacted>",
            ),
        ] {
            assert_eq!(clean("http.url", raw), want);
        }
    }

    #[test]
    fn only_listed_attributes_are_kept() {
        for key in [
            "k8s.pod.uid",
            "rpc.method",
            "audit-id",
            "sandbox.id",
            "image.ref",
            "server.address",
            "key",
        ] {
            assert!(is_kept(key), "{key}");
        }
        for key in [
            "accept",
            "http.request.header.authorization",
            "rpc.message.id",
            "encoder",
            "task.request.options",
            "sandbox.CreatedAt",
            "http.token",
        ] {
            assert!(!is_kept(key), "{key}");
        }
    }
}
