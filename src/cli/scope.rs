//! The scope of a command: from its flags, from the namespace in a pod's name, and for a cluster from the
//! kubeconfig's context.

use std::sync::Arc;

use anyhow::ensure;

use super::args::live::{LiveArgs, ScopeArgs};
use kflow_core::diagnose::{namespace_asked, namespace_of, node_asked};
use kflow_core::selection::Selection;
use kflow_engine::live::context_namespace;
use kflow_model::Scope;
use kflow_model::scope::is_uid;

/// The scope from the flags and a pod's name. An error when they name different namespaces.
pub(super) fn named(args: &ScopeArgs, pod: Option<&str>) -> anyhow::Result<Scope> {
    let of_pod = pod.and_then(namespace_of);
    if let (Some(flag), Some(of_pod)) = (args.namespace.as_deref(), of_pod) {
        ensure!(
            flag == of_pod,
            "-n {flag} and {} name two namespaces: leave one of them out",
            pod.unwrap_or_default()
        );
    }
    let namespace = args.namespace.as_deref().or(of_pod).map(str::to_owned);
    for (flag, value) in [
        ("--namespace", namespace.as_deref()),
        ("--node", args.node.as_deref()),
    ] {
        ensure!(
            value != Some(""),
            "{flag} is empty: name one, or leave it out"
        );
    }
    Ok(Scope {
        node: args.node.clone(),
        namespace,
        labels: args.selector.clone(),
        fields: args.field_selector.clone(),
    })
}

/// The scope in a cluster: without `-n` and `-A`, the namespace of the kubeconfig's context, as in kubectl. A node's
/// pods are of all namespaces, and a UID names one pod of the cluster. A context without a namespace
/// stands for all namespaces.
pub(super) fn of_cluster(args: &LiveArgs, pod: Option<&str>) -> anyhow::Result<Scope> {
    let mut scope = named(&args.scope, pod)?;
    // The namespace in a pod's name says which pod is meant; with `-A` the others are asked for too, and of a node, which may do nothing
    // for the pod because of them.
    if args.scope.all_namespaces || (scope.node.is_some() && args.scope.namespace.is_none()) {
        scope.namespace = None;
    }
    // A pod of a namespace that is called `ns` is named `pod/ns/NAME`.
    if let Some(namespace) = pod.and_then(namespace_asked)
        && scope.namespace.is_none()
        && !args.scope.all_namespaces
    {
        scope.namespace = Some(namespace.to_owned());
    }
    let whole = args.scope.all_namespaces
        || scope.node.is_some()
        || args.local
        || args.no_api
        || pod.is_some_and(|p| is_uid(p) || node_asked(p).is_some());
    if scope.namespace.is_none() && !whole {
        let kubeconfig = args.kubeconfig.as_deref();
        match context_namespace(kubeconfig, args.context.as_deref()) {
            Ok(namespace) => scope.namespace = namespace,
            Err(e) => super::out::tell(&format!(
                "cannot read {}: {e}: which namespace its context names is not known, so all are looked at",
                kubeconfig.map_or("the kubeconfig".into(), |p| p.display().to_string())
            )),
        }
    }
    Ok(scope)
}

/// The namespace in a pod's name, else that of the kubeconfig's context, for a look at a whole cluster that is refused.
pub(super) fn likely(args: &LiveArgs, pod: Option<&str>) -> Option<String> {
    let of_context = || {
        let named = context_namespace(args.kubeconfig.as_deref(), args.context.as_deref());
        named.ok().flatten()
    };
    pod.and_then(namespace_of)
        .map(str::to_owned)
        .or_else(of_context)
}

/// Parses the selectors of a scope.
pub(super) fn selection(scope: &Scope) -> anyhow::Result<Arc<Selection>> {
    Ok(Arc::new(Selection::new(scope)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the other pods of a node do to it holds up the one that is asked about.
    #[test]
    fn of_a_node_the_pods_of_all_namespaces_are_asked_for_unless_one_is_given() {
        let namespace = |flag: Option<&str>, node: Option<&str>| {
            let args = LiveArgs {
                scope: ScopeArgs {
                    namespace: flag.map(str::to_owned),
                    node: node.map(str::to_owned),
                    ..ScopeArgs::default()
                },
                ..LiveArgs::default()
            };
            of_cluster(&args, Some("shop/web-0")).unwrap().namespace
        };
        assert_eq!(namespace(None, None).as_deref(), Some("shop"));
        assert_eq!(namespace(None, Some("node1")), None);
        let given = namespace(Some("shop"), Some("node1"));
        assert_eq!(given.as_deref(), Some("shop"));
    }

    #[test]
    fn a_pod_that_is_named_with_a_namespace_narrows_to_it() {
        let args = |namespace: &str| ScopeArgs {
            namespace: (!namespace.is_empty()).then(|| namespace.to_owned()),
            ..ScopeArgs::default()
        };
        let namespace = |flag: &str, pod| named(&args(flag), pod).map(|s| s.namespace);
        for (flag, pod, want) in [
            ("", None, None),
            ("shop", None, Some("shop")),
            ("", Some("shop/web-0"), Some("shop")),
            ("shop", Some("shop/web-0"), Some("shop")),
            ("shop", Some("web-0"), Some("shop")),
            ("", Some("deploy/web"), None),
            ("", Some("pod/web-0"), None),
        ] {
            let got = namespace(flag, pod).unwrap();
            assert_eq!(got.as_deref(), want, "{flag} {pod:?}");
        }
        let said = namespace("shop", Some("kube-system/web-0")).unwrap_err();
        assert!(said.to_string().contains("two namespaces"), "{said}");
    }
}
