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

use kflow_model::clock;

/// A token is read again after this time (as kube-client and client-go do).
const AGE: Duration = Duration::from_secs(50);

/// Makes a client that reads a token's file off the thread that sends requests. The first read happens here, and
/// waits for the file.
pub fn client(mut config: kube::Config) -> Result<Client, String> {
    let file = match (&config.auth_info.token, config.auth_info.token_file.take()) {
        (None, file) => file,
        (Some(_), _) => None,
    };
    let token = file
        .map(|path| Token::read(Path::new(&path), AGE))
        .transpose()?;
    let builder =
        ClientBuilder::try_from(config).map_err(|e| format!("cannot make a client: {e}"))?;
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
}
