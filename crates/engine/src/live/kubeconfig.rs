//! The cluster and the credentials that the kubeconfig names, and what is missing in it.

use std::net::IpAddr;
use std::path::Path;

use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError, LoadDataError};

use super::Config;
use kflow_core::suggest::suggest;
use kflow_model::redact;

/// Most names that are listed in a message.
const NAMED: usize = 10;

/// A cluster with credentials.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) config: kube::Config,
    /// Why there are no credentials, although the context names a user; else empty.
    pub(super) anonymous: String,
}

/// Returns what the kubeconfig's context names, or, where no kubeconfig can be used and none was asked for, the pod's
/// own account.
pub(super) async fn found(config: &Config) -> Result<Found, String> {
    let asked = config.kubeconfig.as_deref();
    let context = config.context.as_deref();
    let read = match asked {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let place = place(asked);
    let found = match read {
        Ok(file) => chosen(file, &place, context).await,
        Err(e) => Err(unread(&e, &place)),
    };
    if asked.is_some() || context.is_some() {
        return found;
    }
    let mut found = found.or_else(|why| {
        let config = kube::Config::incluster().map_err(|_| format!("no cluster: {why}"))?;
        let anonymous = String::new();
        Ok::<_, String>(Found { config, anonymous })
    })?;
    found.config.apply_debug_overrides();
    Ok(found)
}

/// The kubeconfig's name for messages.
fn place(path: Option<&Path>) -> String {
    let usual = || {
        let named = std::env::var("KUBECONFIG").unwrap_or_default();
        if named.is_empty() {
            "~/.kube/config".to_owned()
        } else {
            named
        }
    };
    path.map_or_else(usual, |p| p.display().to_string())
}

/// Why the file cannot be read.
fn unread(e: &KubeconfigError, place: &str) -> String {
    match e {
        KubeconfigError::ReadConfig(e, path) => {
            format!("cannot read the kubeconfig {}: {e}", path.display())
        }
        KubeconfigError::FindPath => "there is no kubeconfig: HOME is not set".to_owned(),
        e => format!("cannot read the kubeconfig {place}: {e}"),
    }
}

/// What the context of this name has, or the current one.
async fn chosen(file: Kubeconfig, place: &str, context: Option<&str>) -> Result<Found, String> {
    let names: Vec<&str> = file.contexts.iter().map(|c| c.name.as_str()).collect();
    let current = file.current_context.as_deref();
    if names.is_empty() {
        return Err(format!("the kubeconfig {place} has no context"));
    }
    let Some(name) = context.or(current).filter(|n| !n.is_empty()) else {
        let names = listed(&names);
        return Err(format!(
            "the kubeconfig {place} has no current context: name one with --context; it has {names}"
        ));
    };
    let Some(found) = file.contexts.iter().find(|c| c.name == name) else {
        let near = suggest(name, names.iter().copied(), |n| n);
        let near = near.first().map(|n| format!(", did you mean {n}?"));
        return Err(format!(
            "the kubeconfig {place} has no context {name}{} It has {}",
            near.unwrap_or_else(|| ".".to_owned()),
            listed(&names)
        ));
    };
    let (name, found) = (name.to_owned(), found.context.clone().unwrap_or_default());
    let missing = |kind: &str, of: &str| {
        format!(
            "the context {name} names the {kind} {of}, which the kubeconfig {place} does not have"
        )
    };
    if !file.clusters.iter().any(|c| c.name == found.cluster) {
        return Err(missing("cluster", &found.cluster));
    }
    // As client-go does, such a context is used without credentials.
    let user = found.user.filter(|u| !u.is_empty());
    let unknown = user.filter(|u| !file.auth_infos.iter().any(|a| a.name == *u));
    let anonymous = unknown.map(|u| missing("user", &u)).unwrap_or_default();
    let options = KubeConfigOptions {
        context: Some(name.clone()),
        ..KubeConfigOptions::default()
    };
    let cluster = file.clusters.iter().find(|c| c.name == found.cluster);
    let own = cluster.and_then(|c| c.cluster.as_ref()?.proxy_url.clone());
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    let mut config = config.map_err(|e| unusable(&e, &name, place))?;
    // kube compares the proxy itself with NO_PROXY, and not the server.
    let proxy = match own.filter(|own| !own.is_empty()) {
        Some(own) => Some(own),
        None => proxy(&config.cluster_url, |name| std::env::var(name).ok()),
    };
    let unread = |proxy: String| {
        format!(
            "the proxy {} of the environment or of the kubeconfig {place} is no URL",
            redact::text(&proxy)
        )
    };
    config.proxy_url = match proxy {
        Some(proxy) => Some(proxy.parse().map_err(|_| unread(proxy))?),
        None => None,
    };
    Ok(Found { config, anonymous })
}

/// Returns the proxy through which the environment wants a server to be reached, as client-go reads it (golang.org/x/net
/// `http/httpproxy`): none for this machine itself, and none for what NO_PROXY names.
fn proxy(server: &Uri, env: impl Fn(&str) -> Option<String>) -> Option<String> {
    let one_of = |names: [&str; 2]| {
        let mut set = names.into_iter().filter_map(&env);
        set.find(|value| !value.trim().is_empty())
    };
    let proxy = match server.scheme_str() {
        Some("http") => one_of(["HTTP_PROXY", "http_proxy"])?,
        _ => one_of(["HTTPS_PROXY", "https_proxy"])?,
    };
    let host = server.host()?.trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    let proxy = if proxy.contains("://") {
        proxy
    } else {
        format!("http://{proxy}")
    };
    let no = one_of(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let wanted = Matcher::builder().all(&*proxy).no(no).build();
    (!is_here && wanted.intercept(server).is_some()).then_some(proxy)
}

/// Why a context that exists cannot be used.
fn unusable(e: &KubeconfigError, context: &str, place: &str) -> String {
    use KubeconfigError as K;
    match e {
        K::LoadCertificateAuthority(LoadDataError::ReadFile(e, path))
        | K::LoadClientCertificate(LoadDataError::ReadFile(e, path))
        | K::LoadClientKey(LoadDataError::ReadFile(e, path)) => format!(
            "cannot read {}, which the kubeconfig {place} names: {e}",
            path.display()
        ),
        e => format!("the context {context} of the kubeconfig {place} cannot be used: {e}"),
    }
}

fn listed(names: &[&str]) -> String {
    let first: Vec<&str> = names.iter().copied().take(NAMED).collect();
    match names.len() {
        n if n > NAMED => format!("{}, and {} more", first.join(", "), n - NAMED),
        _ => first.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environments_proxy_is_used_as_kubectl_uses_it() {
        let by = |set: &[(&str, &str)], server: &str| {
            let env = |name: &str| {
                let mut set = set.iter();
                Some(set.find(|(n, _)| *n == name)?.1.to_owned())
            };
            proxy(&server.parse().unwrap(), env)
        };
        let corp = ("HTTPS_PROXY", "http://proxy.corp:3128");
        let through = Some(corp.1.to_owned());
        let far = "https://api.cluster.example.com:6443";
        assert_eq!(by(&[], far), None);
        assert_eq!(by(&[corp], far), through);
        assert_eq!(by(&[("https_proxy", "proxy.corp:3128")], far), through);
        assert_eq!(by(&[("HTTP_PROXY", corp.1)], far), None);
        assert_eq!(by(&[("HTTPS_PROXY", "")], far), None);
        for here in [
            "https://127.0.0.1:6443",
            "https://localhost:6443",
            "https://[::1]:6443",
        ] {
            assert_eq!(by(&[corp], here), None, "{here}");
        }
        for no in [
            "*",
            ".example.com",
            "api.cluster.example.com",
            "10.0.0.1,example.com",
        ] {
            assert_eq!(by(&[corp, ("NO_PROXY", no)], far), None, "{no}");
        }
        assert_eq!(
            by(&[corp, ("no_proxy", "10.0.0.0/8")], "https://10.1.2.3:6443"),
            None
        );
        assert_eq!(by(&[corp, ("NO_PROXY", "proxy.corp")], far), through);
    }

    const FILE: &str = "apiVersion: v1
kind: Config
contexts:
- {name: prod-eu, context: {cluster: eu, user: admin}}
- {name: prod-us, context: {cluster: gone, user: admin}}
- {name: lab, context: {cluster: eu, user: nobody}}
- {name: open, context: {cluster: eu}}
clusters:
- {name: eu, cluster: {server: 'https://10.0.0.1:6443'}}
users:
- {name: admin, user: {token: secret}}
";

    /// What becomes of a kubeconfig: why it is asked without credentials, or the error.
    async fn said(text: &str, context: Option<&str>) -> Result<String, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config");
        std::fs::write(&path, text).unwrap();
        let config = Config {
            kubeconfig: Some(path.clone()),
            context: context.map(str::to_owned),
            ..Config::nothing()
        };
        let clean = |said: String| said.replace(&path.display().to_string(), "FILE");
        let found = found(&config).await;
        found.map(|f| clean(f.anonymous)).map_err(clean)
    }

    #[tokio::test]
    async fn what_a_kubeconfig_lacks_is_named_with_what_it_has() {
        let all = "prod-eu, prod-us, lab, open";
        let ok = |text: &str| Ok(text.to_owned());
        let err = |text: &str| Err(text.to_owned());
        let current = |name: &str| format!("{FILE}current-context: '{name}'\n");
        for (text, context, wanted) in [
            (
                "apiVersion: v1\nkind: Config\n".to_owned(),
                None,
                err("the kubeconfig FILE has no context"),
            ),
            (current("prod-eu"), None, ok("")),
            (current("lab"), Some("open"), ok("")),
            (
                current("lab"),
                None,
                ok(
                    "the context lab names the user nobody, which the kubeconfig FILE does not have",
                ),
            ),
            (
                current("prod-us"),
                None,
                err(
                    "the context prod-us names the cluster gone, which the kubeconfig FILE does not have",
                ),
            ),
            (
                current(""),
                None,
                err(&format!(
                    "the kubeconfig FILE has no current context: name one with --context; it has {all}"
                )),
            ),
            (
                FILE.to_owned(),
                None,
                err(&format!(
                    "the kubeconfig FILE has no current context: name one with --context; it has {all}"
                )),
            ),
            (
                FILE.to_owned(),
                Some("prod"),
                err(&format!(
                    "the kubeconfig FILE has no context prod, did you mean prod-eu? It has {all}"
                )),
            ),
            (
                FILE.to_owned(),
                Some("xxxxxxxx"),
                err(&format!(
                    "the kubeconfig FILE has no context xxxxxxxx. It has {all}"
                )),
            ),
            (
                FILE.replace("server:", "certificate-authority: /nowhere/ca.crt, server:"),
                Some("open"),
                err(
                    "cannot read /nowhere/ca.crt, which the kubeconfig FILE names: No such file or directory (os error 2)",
                ),
            ),
        ] {
            assert_eq!(said(&text, context).await, wanted, "{context:?}");
        }
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_not_there_is_named_once() {
        let config = Config {
            kubeconfig: Some("/nowhere/config".into()),
            ..Config::nothing()
        };
        let said = found(&config).await.unwrap_err();
        let wanted =
            "cannot read the kubeconfig /nowhere/config: No such file or directory (os error 2)";
        assert_eq!(said, wanted);
    }
}
