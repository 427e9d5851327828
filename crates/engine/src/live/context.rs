//! The namespace of the kubeconfig's context.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use kube::config::Kubeconfig;

/// How long a kubeconfig may take to be read: its file system may be dead.
const READ: Duration = Duration::from_secs(5);

/// The namespace that the context of the kubeconfig names. `None` when it names none, and when there is no kubeconfig that
/// can be read: whoever connects says so.
pub fn context_namespace(kubeconfig: Option<&Path>, context: Option<&str>) -> Option<String> {
    let path: Option<PathBuf> = kubeconfig.map(Path::to_owned);
    let (done, read) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("kflow-kubeconfig".into())
        .spawn(move || {
            let config = match &path {
                Some(path) => Kubeconfig::read_from(path),
                None => Kubeconfig::read(),
            };
            // The receiver may have waited long enough.
            done.send(config).ok();
        })
        .ok()?;
    let config = read.recv_timeout(READ).ok()?.ok()?;
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
        let of = |context| context_namespace(Some(&path), context);
        assert_eq!(of(None).as_deref(), Some("shop"));
        assert_eq!(of(Some("a")).as_deref(), Some("shop"));
        assert_eq!(of(Some("b")), None);
        assert_eq!(of(Some("gone")), None);
        assert_eq!(
            context_namespace(Some(&dir.path().join("none")), None),
            None
        );
    }
}
