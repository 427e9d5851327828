//! The kubelet's own endpoint over TLS: kflow sends a token only after the kubelet has proved its identity.

use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kflow_engine::live::{Config, kubelet};
use kflow_model::Scope;
use prost::bytes::Bytes;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};
use tonic::codegen::http::{Request, Response};

pub(crate) fn tls(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/tls")
        .join(name)
}

/// The TLS configuration of a server with this certificate of `fixtures/tls`.
pub(crate) fn server(certificate: &str) -> ServerConfig {
    let chain = CertificateDer::pem_file_iter(tls(&format!("{certificate}.crt")))
        .unwrap()
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_file(tls(&format!("{certificate}.key"))).unwrap();
    ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap()
}

/// Starts a kubelet with this certificate; returns its address, and the tokens that clients send it.
async fn serve(certificate: &str) -> (String, Arc<Mutex<Vec<String>>>) {
    let acceptor = TlsAcceptor::from(Arc::new(server(certificate)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let sent = Arc::<Mutex<Vec<String>>>::default();
    let tokens = Arc::clone(&sent);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // A client that does not trust the certificate ends the handshake.
            let Ok(stream) = acceptor.accept(stream).await else {
                continue;
            };
            let tokens = Arc::clone(&tokens);
            let service = service_fn(move |r: Request<hyper::body::Incoming>| {
                let token = r
                    .headers()
                    .get("authorization")
                    .map_or("", |v| v.to_str().unwrap());
                tokens.lock().unwrap().push(token.to_owned());
                async {
                    Ok::<_, std::convert::Infallible>(Response::new(Full::new(Bytes::from("ok"))))
                }
            });
            hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await
                .ok();
        }
    });
    (address, sent)
}

/// Which certificate the kubelet has, whether its own certificate is in its folder, whether the kubeconfig skips
/// verification, and whether the client trusts the kubelet.
const CASES: [(&str, bool, bool, bool); 8] = [
    ("signed", false, false, true),
    ("signed", true, false, true),
    ("own", true, false, true),
    ("own", false, false, false),
    ("other", false, false, false),
    ("own", false, true, false),
    ("other", false, true, false),
    ("signed", false, true, true),
];

#[tokio::test]
async fn a_token_is_sent_only_to_a_kubelet_that_proves_who_it_is() {
    for case in CASES {
        let (certificate, in_folder, skips, believed) = case;
        let (address, sent) = serve(certificate).await;
        let dir = tempfile::tempdir().unwrap();
        let authority = STANDARD.encode(std::fs::read(tls("cluster.crt")).unwrap());
        let mut cluster =
            json!({"server": "https://127.0.0.1:1", "certificate-authority-data": authority});
        if skips {
            cluster["insecure-skip-tls-verify"] = json!(true);
        }
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "of-the-kubeconfig"}}],
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        });
        let path = dir.path().join("config");
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let root = dir.path().join("kubelet");
        std::fs::create_dir_all(root.join("pki")).unwrap();
        if in_folder {
            std::fs::copy(tls("own.crt"), root.join("pki/kubelet.crt")).unwrap();
        }
        let config = Config {
            scope: Some(Scope {
                node: Some("node1".into()),
                ..Scope::default()
            }),
            kubeconfig: Some(path),
            kubelet: Some(address),
            kubelet_root: Some(root),
            ..Config::nothing()
        };
        let client = kubelet(&config).await.unwrap();
        let request = Request::get("/healthz")
            .body(kube::client::Body::empty())
            .unwrap();
        let answer = client.send(request).await;
        let sent = sent.lock().unwrap();
        if believed {
            assert_eq!(answer.unwrap().status(), 200, "{case:?}");
            assert_eq!(*sent, ["Bearer of-the-kubeconfig"], "{case:?}");
        } else {
            let why = format!("{:?}", answer.unwrap_err());
            assert!(
                why.to_lowercase().contains("certificate"),
                "{case:?}: {why}"
            );
            assert!(sent.is_empty(), "{case:?}: {sent:?}");
        }
    }
}
