//! An agent's real service on a unix socket, for what a test makes of an agent.

use std::path::Path;
use std::sync::Arc;
use std::thread::{JoinHandle, spawn};

use kflow_serve::ring::Ring;
use kflow_serve::service::{Host, Server, Service};
use kflow_serve::socket::Socket;

/// Serves until it is dropped, which waits for the end of the server's thread.
pub(crate) struct Serving {
    pub(crate) ring: Arc<Ring>,
    pub(crate) service: Service,
    thread: Option<JoinHandle<()>>,
}

impl Serving {
    pub(crate) fn start(at: &Path, ring: Ring, host: impl Host + 'static) -> Self {
        let ring = Arc::new(ring);
        let service = Service::new(Arc::clone(&ring), Arc::new(host));
        let server = Server::bind(Socket::claim(at).unwrap(), None).unwrap();
        let its = service.clone();
        let log: kflow_serve::Log = Arc::new(|_: &str| ());
        Self {
            ring,
            service,
            thread: Some(spawn(move || server.run(&its, &log))),
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.ring.finish();
        if let Some(t) = self.thread.take() {
            t.join().ok();
        }
    }
}
