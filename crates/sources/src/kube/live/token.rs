//! A bearer token in a file that is rewritten while kflow runs.
//!
//! kube-client reads such a file within the request that finds its token too old (`client/auth/mod.rs`,
//! `TokenFile::token`), on the thread that runs every source. Here a request takes the token that was read last, and
//! a thread for blocking work reads the file meanwhile.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::client::{Body, Client, ClientBuilder};
use tonic::codegen::http::{HeaderValue, Request, header::AUTHORIZATION};
use tower::util::MapRequestLayer;

use super::why::{identity, login, provided};
use kflow_model::clock;
use kflow_model::gap::Failure;

/// A token is read again after this time (as kube-client and client-go do).
const AGE: Duration = Duration::from_secs(50);

/// Why there is no client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct NoClient {
    pub failure: Failure,
    pub why: String,
}

impl From<String> for NoClient {
    fn from(why: String) -> Self {
        let failure = Failure::NoCluster;
        Self { failure, why }
    }
}

/// Makes a client that reads a token's file off the thread that sends requests. The first read happens here, and
/// waits for the file.
pub fn client(mut config: kube::Config) -> Result<Client, NoClient> {
    let file = match (&config.auth_info.token, config.auth_info.token_file.take()) {
        (None, file) => file,
        (Some(_), _) => None,
    };
    let token = file
        .map(|path| Token::read(Path::new(&path), AGE))
        .transpose()?;
    let exec = config.auth_info.exec.clone();
    let provider = config.auth_info.auth_provider.as_ref();
    let provider = provider.map(|p| p.name.clone());
    let builder = ClientBuilder::try_from(config).map_err(|e| match (e, provider) {
        (kube::Error::Auth(e), Some(provider)) => NoClient {
            failure: Failure::Unauthorized,
            why: provided(&provider, &e),
        },
        (kube::Error::Auth(e), None) => NoClient {
            failure: Failure::Unauthorized,
            why: login(&e, exec.as_ref()),
        },
        (e, _) => match identity(&e) {
            Some(why) => NoClient {
                failure: Failure::Unauthorized,
                why,
            },
            None => format!("cannot make a client: {e}").into(),
        },
    })?;
    Ok(match token {
        None => builder.build(),
        Some(token) => builder
            .with_layer(&MapRequestLayer::new(move |mut request: Request<Body>| {
                request.headers_mut().insert(AUTHORIZATION, token.header());
                request
            }))
            .build(),
    })
}

#[derive(Clone, Debug)]
struct Token {
    path: PathBuf,
    age: Duration,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    header: HeaderValue,
    read: Instant,
    /// The file is being read.
    reading: bool,
}

impl Token {
    fn read(path: &Path, age: Duration) -> Result<Self, String> {
        let header = header(path)
            .map_err(|e| format!("cannot read the token in {}: {e}", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            age,
            state: Arc::new(Mutex::new(State {
                header,
                read: clock::monotonic(),
                reading: false,
            })),
        })
    }

    /// Returns the header with the token that was read last. Never waits.
    fn header(&self) -> HeaderValue {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let age = clock::monotonic().saturating_duration_since(state.read);
        if age >= self.age && !state.reading {
            state.reading = true;
            let (path, shared) = (self.path.clone(), Arc::clone(&self.state));
            tokio::task::spawn_blocking(move || {
                let new = header(&path);
                let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
                // When the file is gone, the last token stays in use (kubernetes/kubernetes#68164).
                if let Ok(new) = new {
                    state.header = new;
                }
                state.read = clock::monotonic();
                state.reading = false;
            });
        }
        state.header.clone()
    }
}

fn header(path: &Path) -> Result<HeaderValue, String> {
    #[expect(clippy::disallowed_methods, reason = "in a thread for blocking work")]
    let token = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let mut header = HeaderValue::try_from(format!("Bearer {}", token.trim()))
        .map_err(|_| "it is no token".to_owned())?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe without a writer is a file that does not answer.
    #[tokio::test]
    async fn a_token_whose_file_does_not_answer_keeps_no_request_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "old\n").unwrap();
        let token = Token::read(&path, Duration::ZERO).unwrap();
        std::fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        for _ in 0..100 {
            assert_eq!(token.header(), "Bearer old");
        }
        // The file answers after all: the one thread that reads it gets the new token.
        let writer = path.clone();
        tokio::task::spawn_blocking(move || std::fs::write(writer, "new"))
            .await
            .unwrap()
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "new").unwrap();
        while token.header() != "Bearer new" {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn without_credentials_it_is_told_which_program_is_missing_or_what_replaces_it() {
        let said = |user: &str| {
            let mut config = kube::Config::new("https://10.0.0.1:6443".parse().unwrap());
            config.auth_info = serde_json::from_str(user).unwrap();
            let Err(no) = client(config) else {
                panic!("{user}")
            };
            assert_eq!(no.failure, Failure::Unauthorized);
            no.why
        };
        let program = r#"{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"/nowhere/aws","interactiveMode":"Never"}}"#;
        let wanted = "the kubeconfig's login program /nowhere/aws is not there: ";
        assert!(said(program).starts_with(wanted), "{}", said(program));
        let failing = r#"{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"sh","args":["-c","echo please run aws sso login >&2; exit 1"],"interactiveMode":"Never"}}"#;
        let wanted = "the kubeconfig's login program sh failed: please run aws sso login";
        assert_eq!(said(failing), wanted);
        let gcp = said(r#"{"auth-provider":{"name":"gcp","config":{}}}"#);
        assert!(gcp.contains("gke-gcloud-auth-plugin"), "{gcp}");
    }

    /// Certificates and keys of `fixtures/tls/make.sh`.
    #[tokio::test]
    async fn a_client_certificate_that_cannot_be_used_is_told_with_what_to_do() {
        let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tls/");
        let made = |certificate: &str, key: &str| {
            let mut config = kube::Config::new("https://10.0.0.1:6443".parse().unwrap());
            let file = |name: &str| Some(format!("{tls}{name}"));
            config.auth_info.client_certificate = file(certificate);
            config.auth_info.client_key = file(key);
            client(config).map(drop)
        };
        assert_eq!(made("signed.crt", "signed.key"), Ok(()));
        for (certificate, key, wanted) in [
            (
                "version1.crt",
                "version1.key",
                "client-certificate is of X.509 version 1, and kflow takes version 3 only: have it signed with an extension",
            ),
            (
                "signed.crt",
                "other.key",
                "client-key is not the key of its client-certificate",
            ),
            ("signed.crt", "signed.crt", "client-key has no private key"),
            (
                "signed.key",
                "signed.key",
                "client-certificate has no certificate",
            ),
        ] {
            let no = made(certificate, key).unwrap_err();
            assert_eq!(no.failure, Failure::Unauthorized, "{no}");
            let wanted = format!("the kubeconfig's {wanted}");
            assert!(no.why.starts_with(&wanted), "{no}");
        }
    }
}
