//! The namespace of the kubeconfig's context.

use std::io;
use std::path::Path;

use kflow_model::patient;
use kube::config::Kubeconfig;

/// Returns the namespace that the kubeconfig's context names. `None` when it names none, and when no kubeconfig can
/// be read, which is reported on connecting. An error when its file system does not answer.
pub fn context_namespace(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> io::Result<Option<String>> {
    let path = kubeconfig.map(Path::to_owned);
    let read = move || match &path {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let config = patient::ask(kubeconfig.unwrap_or(Path::new("~/.kube/config")), read)?;
    Ok(config.ok().and_then(|config| namespace(config, context)))
}

fn namespace(config: Kubeconfig, context: Option<&str>) -> Option<String> {
    let name = context
        .map(str::to_owned)
        .or(config.current_context)
        .filter(|n| !n.is_empty())?;
    let found = config.contexts.into_iter().find(|c| c.name == name)?;
    found.context?.namespace.filter(|ns| !ns.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_context_that_is_named_counts_else_the_current_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n\
            - {name: a, context: {cluster: c, user: u, namespace: shop}}\n\
            - {name: b, context: {cluster: c, user: u}}\n";
        std::fs::write(&path, text).unwrap();
        let of = |context| context_namespace(Some(&path), context).unwrap();
        assert_eq!(of(None).as_deref(), Some("shop"));
        assert_eq!(of(Some("a")).as_deref(), Some("shop"));
        assert_eq!(of(Some("b")), None);
        assert_eq!(of(Some("gone")), None);
        assert_eq!(
            context_namespace(Some(&dir.path().join("none")), None).unwrap(),
            None
        );
    }
}
