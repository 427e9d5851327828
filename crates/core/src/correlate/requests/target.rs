//! Reads verb, resource and object from the target of a request, like the apiserver does (`RequestInfo`).

use kflow_model::Text;

/// The parts of a request's target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    /// `get`, `list`, `watch`, `create`, …
    pub(super) verb: &'static str,
    /// `pods`, `pods/status`; the path for a request without a resource.
    pub(super) resource: Text,
    /// Empty when there is none.
    pub(super) namespace: Text,
    /// Empty when there is none.
    pub(super) name: Text,
    /// Query string, empty when there is none.
    pub(super) query: Text,
}

/// Reads a method and a target: `GET`, `/api/v1/namespaces/s01/pods/healthy/status?watch=1`.
pub(super) fn read(method: &str, target: &str) -> Target {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut parts = path.split('/').filter(|p| !p.is_empty());
    let resource = match parts.next() {
        Some("api") => parts.nth(1),
        Some("apis") => parts.nth(2),
        _ => None,
    };
    let Some(mut resource) = resource else {
        return Target {
            verb: plain(method),
            resource: path.into(),
            query: query.into(),
            ..Target::default()
        };
    };
    let mut namespace = "";
    let mut name = parts.next().unwrap_or_default();
    let mut rest = parts.next();
    // `namespaces/NAME/status` and `…/finalize` are requests for the namespace itself.
    if resource == "namespaces"
        && let Some(inner) = rest.filter(|r| !matches!(*r, "status" | "finalize"))
    {
        namespace = name;
        resource = inner;
        name = parts.next().unwrap_or_default();
        rest = parts.next();
    }
    let resource = match rest {
        Some(sub) => format!("{resource}/{sub}").into(),
        None => resource.into(),
    };
    let watches = query
        .split('&')
        .any(|p| matches!(p, "watch=1" | "watch=true"));
    let verb = match (method, name) {
        ("GET" | "HEAD", _) if watches => "watch",
        ("GET" | "HEAD", "") => "list",
        ("DELETE", "") => "deletecollection",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        _ => plain(method),
    };
    // A route shows only that there is a name: `/api/v1/namespaces/{:namespace}/pods/{:name}`.
    let told = |s: &str| Text::from(if s.starts_with("{:") { "" } else { s });
    Target {
        verb,
        resource,
        namespace: told(namespace),
        name: told(name),
        query: query.into(),
    }
}

/// The verb of a request whose verb is its method in lower case.
fn plain(method: &str) -> &'static str {
    match method {
        "GET" => "get",
        "HEAD" => "head",
        "POST" => "post",
        "PUT" => "put",
        "PATCH" => "patch",
        "DELETE" => "delete",
        "OPTIONS" => "options",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_as_the_apiserver_does() {
        for (method, target, want) in [
            ("GET", "/api", ("get", "/api", "", "")),
            ("GET", "/readyz?verbose", ("get", "/readyz", "", "")),
            ("GET", "/api/v1/nodes?watch=1", ("watch", "nodes", "", "")),
            ("GET", "/api/v1/nodes", ("list", "nodes", "", "")),
            (
                "GET",
                "/api/v1/namespaces/s27",
                ("get", "namespaces", "", "s27"),
            ),
            (
                "PUT",
                "/api/v1/namespaces/s27/status",
                ("update", "namespaces/status", "", "s27"),
            ),
            (
                "POST",
                "/api/v1/namespaces/s01/pods",
                ("create", "pods", "s01", ""),
            ),
            (
                "POST",
                "/api/v1/namespaces/s01/pods/healthy/binding",
                ("create", "pods/binding", "s01", "healthy"),
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/s05/deployments/burst/status",
                ("patch", "deployments/status", "s05", "burst"),
            ),
            (
                "DELETE",
                "/apis/batch/v1/namespaces/s05/jobs",
                ("deletecollection", "jobs", "s05", ""),
            ),
            (
                "GET",
                "/api/v1/namespaces/{:namespace}/pods/{:name}",
                ("get", "pods", "", ""),
            ),
            ("", "", ("", "", "", "")),
            ("GET", "/apis", ("get", "/apis", "", "")),
        ] {
            let t = read(method, target);
            assert_eq!(
                (
                    t.verb,
                    t.resource.as_str(),
                    t.namespace.as_str(),
                    t.name.as_str()
                ),
                want,
                "{method} {target}"
            );
        }
    }
}
