//! Requests health and metrics of apiserver and kubelet, through the apiserver or from the kubelet itself.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body as HttpBody;
use tonic::codegen::http::{Request, StatusCode};

use super::{Scrape, Scrapes};
use crate::live::Out;
use crate::live::root;
use kflow_model::clock;

/// How often health and metrics are requested.
const EVERY: Duration = Duration::from_secs(10);
/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(8);
/// Largest answer that is read, bytes: a kubelet's metrics of 500 pods are 5 MB.
const BODY_MAX: usize = 32 << 20;

/// A component whose endpoints are requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name in the status bar.
    pub name: &'static str,
    /// The paths to request, and the name of each path's answers ([`Scrape::what`]).
    pub paths: Vec<(&'static str, String)>,
    /// Like `paths`, for what is requested only once: settings.
    pub once: Vec<(&'static str, String)>,
    /// The RBAC resource on which `get` allows all of the paths; `None` where each path needs a right of its own.
    pub right: Option<&'static str>,
}

/// The apiserver's health and version.
pub fn apiserver() -> Target {
    Target {
        name: "apiserver readyz",
        paths: vec![("apiserver-readyz", "/readyz?verbose".to_owned())],
        once: vec![("apiserver-version", "/version".to_owned())],
        right: None,
    }
}

/// The kubelet of a node, through the apiserver.
pub fn of_node(node: &str) -> Target {
    let base = format!("/api/v1/nodes/{}/proxy", escape(node));
    Target {
        right: Some("nodes/proxy"),
        ..asked_at("kubelet metrics", &base)
    }
}

/// The kubelet, when it is asked directly. Each of its paths needs a right of its own there (since 1.33), and not
/// `nodes/proxy`, which is a right to run commands in pods.
pub fn kubelet() -> Target {
    Target {
        right: Some("nodes/metrics, nodes/healthz, nodes/pods and nodes/configz"),
        ..asked_at("kubelet", "")
    }
}

fn asked_at(name: &'static str, base: &str) -> Target {
    let path = |what: &str| format!("{base}/{what}");
    Target {
        name,
        paths: vec![
            ("kubelet-metrics", path("metrics")),
            ("kubelet-metrics-probes", path("metrics/probes")),
            ("kubelet-healthz", path("healthz")),
            ("kubelet-pods", path("pods")),
        ],
        once: vec![("kubelet-configz", path("configz"))],
        right: None,
    }
}

/// Returns a node's name for use in a path: node names are DNS labels, so any other character is left out.
fn escape(node: &str) -> String {
    node.chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.'))
        .collect()
}

/// Requests the target's paths for ever.
pub async fn scrape(client: Client, target: Target, mut out: Out) {
    let mut scrapes = Scrapes::default();
    let mut once = target.once.clone();
    let mut told = Vec::new();
    loop {
        let mut trouble = None;
        let asked = target
            .paths
            .iter()
            .chain(&once)
            .cloned()
            .collect::<Vec<_>>();
        for (what, path) in asked {
            let began = clock::now();
            let answer = tokio::time::timeout(PATIENCE, get(&client, &path))
                .await
                .unwrap_or_else(|_| Err("no answer within 8 s".to_owned()));
            let at = clock::now();
            let (code, body) = match answer {
                Ok((StatusCode::FORBIDDEN, _)) => {
                    let right = target.right.unwrap_or(&path);
                    trouble = Some(format!("forbidden: needs get on {right}"));
                    continue;
                }
                Ok((code, body)) => (code.as_u16(), body),
                Err(why) => {
                    trouble = Some(format!("{path}: {why}"));
                    (0, why)
                }
            };
            let scrape = Scrape {
                at,
                took_ns: u64::try_from(at.since(began)).unwrap_or(0),
                what,
                code,
                body: &body,
            };
            match scrapes.take(scrape, &mut told) {
                Ok(()) => {
                    if (1..500).contains(&code) {
                        once.retain(|(_, settings)| *settings != path);
                    }
                    if out.send_all(&mut told).await.is_err() {
                        return;
                    }
                }
                Err(why) => trouble = Some(format!("{path}: {why}")),
            }
        }
        match trouble {
            None => out.on("asked every 10 s"),
            Some(why) => out.off(why),
        }
        out.pause(EVERY).await;
    }
}

async fn get(client: &Client, path: &str) -> Result<(StatusCode, String), String> {
    let request = Request::get(path)
        .body(HttpBody::empty())
        .map_err(|e| e.to_string())?;
    let response = client.send(request).await.map_err(|e| root(&e))?;
    let code = response.status();
    let body = http_body_util::Limited::new(response.into_body(), BODY_MAX)
        .collect()
        .await
        .map_err(|e| e.to_string())?
        .to_bytes();
    Ok((code, String::from_utf8_lossy(&body).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nodes_name_cannot_lead_elsewhere() {
        let target = of_node("node1/../../secrets?x");
        assert_eq!(
            target.paths[0].1,
            "/api/v1/nodes/node1....secretsx/proxy/metrics"
        );
    }
}
