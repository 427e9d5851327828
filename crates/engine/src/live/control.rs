//! Sources of the control plane and of the kubelet's own work: the OTLP and audit receivers, tails of logs, scrapes
//! of health and metrics.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;

use super::LogPlace;
use super::agent::Gives;
use kflow_model::Source;
use kflow_model::clock;
use kflow_model::log::Component;
use kflow_sources::audit::decode::AuditLines;
use kflow_sources::klog::KlogDecoder;
use kflow_sources::klog::live as log;
use kflow_sources::live::{Board, Out};
use kflow_sources::receive::{Error, Listener, Sink};
use kflow_sources::runtime::decode::RuntimeDecoder;
use kflow_sources::{LineDecoder, TimeHint, audit, metrics, otlp};

/// Which of these sources run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Addresses that receive spans, by gRPC and HTTP on each.
    pub otlp: Vec<SocketAddr>,
    /// A unix socket that receives spans too.
    pub otlp_socket: Option<PathBuf>,
    /// Address that receives the audit webhook's batches.
    pub audit_webhook: Option<SocketAddr>,
    /// Lets receivers listen on addresses other than loopback.
    pub listen_anywhere: bool,
    pub audit_logs: Vec<PathBuf>,
    /// Logs of control-plane components and of the runtime.
    pub logs: Vec<(Component, LogPlace)>,
    /// The folder of pods' logs, and the components whose static pods write there.
    pub pod_logs: Option<(PathBuf, Vec<Component>)>,
    /// Scrapes health and metrics of apiserver and kubelet, if there is an apiserver to ask.
    pub scrape: bool,
}

impl Control {
    /// Starts the receivers and tails.
    pub(super) fn spawn(&self, board: &Board, tasks: &mut JoinSet<()>) {
        for addr in self.otlp.iter().copied() {
            let out = board.out(Source::Otlp, &format!("receiver {addr}"));
            let anywhere = self.listen_anywhere;
            tasks.spawn(async move {
                if let Some((listener, sink)) =
                    listening(otlp::live::bind(addr, anywhere).await, out)
                {
                    otlp::live::serve(listener, sink, std::future::pending()).await;
                }
            });
        }
        if let Some(path) = self.otlp_socket.clone() {
            let out = board.out(Source::Otlp, &format!("receiver {}", path.display()));
            tasks.spawn(async move {
                if let Some((listener, sink)) = listening(otlp::live::bind_unix(&path), out) {
                    otlp::live::serve(listener, sink, std::future::pending()).await;
                }
            });
        }
        if let Some(addr) = self.audit_webhook {
            let out = board.out(Source::Audit, &format!("webhook {addr}"));
            let anywhere = self.listen_anywhere;
            tasks.spawn(async move {
                if let Some((listener, sink)) =
                    listening(audit::live::bind(addr, anywhere).await, out)
                {
                    audit::live::serve(listener, sink, std::future::pending()).await;
                }
            });
        }
        for path in &self.audit_logs {
            let out = board.out(Source::Audit, &path.to_string_lossy());
            let decoder = || Box::new(AuditLines::new()) as Box<dyn LineDecoder>;
            tasks.spawn(log::file(
                path.clone(),
                Source::Audit,
                Box::new(decoder),
                out,
            ));
        }
        for (component, place) in &self.logs {
            let component = *component;
            let decoder = Box::new(move || decoder_of(component));
            let place = place.clone();
            place.spawn(component.source(), decoder, board, tasks);
        }
        for (root, component) in self
            .pod_logs
            .iter()
            .flat_map(|(root, all)| all.iter().map(move |c| (root, *c)))
        {
            let source = component.source();
            let out = board.out(source, component.name());
            let decoder = Box::new(move || decoder_of(component));
            tasks.spawn(log::pod(root.clone(), component, source, decoder, out));
        }
    }

    /// Starts the scrapes; they end with the tasks.
    pub(super) fn spawn_scrapes(
        &self,
        client: &kube::Client,
        node: Option<&str>,
        agent: Option<&Gives>,
        board: &Board,
        tasks: &mut JoinSet<()>,
    ) {
        if !self.scrape {
            return;
        }
        let target = metrics::live::apiserver();
        let out = board.out(Source::Metrics, target.name);
        tasks.spawn(metrics::live::scrape(client.clone(), target, out));
        let Some(target) = node.map(metrics::live::of_node) else {
            return;
        };
        let out = board.out(Source::Metrics, target.name);
        let client = client.clone();
        let scrape = move |out| metrics::live::scrape(client.clone(), target.clone(), out);
        match agent.cloned() {
            None => {
                tasks.spawn(scrape(out));
            }
            Some(gives) => {
                tasks.spawn(gives.unless(|g| g.metrics, out, scrape));
            }
        }
    }
}

fn decoder_of(component: Component) -> Box<dyn LineDecoder> {
    match component {
        Component::Containerd | Component::Crio => Box::new(RuntimeDecoder::new(component)),
        _ => Box::new(KlogDecoder::new(
            component,
            TimeHint {
                not_after: Some(clock::now()),
                grows: true,
                ..TimeHint::default()
            },
        )),
    }
}

/// Returns a bound receiver and its sink into the engine; `None` if it cannot listen, which its status explains.
fn listening<L: Into<Listener>>(bound: Result<L, Error>, out: Out) -> Option<(Listener, Sink)> {
    match bound.map(Into::into) {
        Ok(listener) => {
            // If port 0 was given, only this tells the actual port.
            let at = listener.place();
            out.on(format!("listening on {at}; nothing has come yet"));
            let taken = Mutex::new((out, false));
            let sink: Sink = Arc::new(move |all| {
                let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
                let (out, told) = &mut *taken;
                if !std::mem::replace(told, true) {
                    out.on("receiving");
                }
                out.offer_all(all)
            });
            Some((listener, sink))
        }
        Err(why) => {
            out.off(why.to_string());
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::net::TcpListener;

    /// An audit record of a GET of a pod, at the level Metadata.
    const RECORD: &str = r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/s01/pods/p","verb":"get","user":{"username":"u"},"objectRef":{"resource":"pods","namespace":"s01","name":"p","apiVersion":"v1"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T00:24:27.504775Z","stageTimestamp":"2026-11-21T00:24:27.512507Z"}"#;

    async fn next(
        from: &mut tokio::sync::mpsc::Receiver<kflow_model::Observation>,
    ) -> kflow_model::Observation {
        tokio::time::timeout(Duration::from_secs(20), from.recv())
            .await
            .unwrap()
            .unwrap()
    }

    #[tokio::test]
    async fn an_audit_log_is_followed_over_a_rotation_and_a_half_written_line_waits() {
        use std::io::Write;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let (half, rest) = RECORD.split_at(90);
        std::fs::write(&path, format!("{RECORD}\n{half}")).unwrap();
        let (board, mut from) = Board::new(16);
        let mut tasks = JoinSet::new();
        let control = Control {
            audit_logs: vec![path.clone()],
            ..Control::default()
        };
        control.spawn(&board, &mut tasks);
        assert_eq!(next(&mut from).await.source, Source::Audit);
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .unwrap();
        file.write_all(format!("{rest}\n").as_bytes()).unwrap();
        assert_eq!(next(&mut from).await.source, Source::Audit);
        std::fs::rename(&path, dir.path().join("audit-old.log")).unwrap();
        std::fs::write(&path, format!("{RECORD}\n")).unwrap();
        assert_eq!(next(&mut from).await.source, Source::Audit);
    }

    #[tokio::test]
    async fn a_receiver_without_its_port_says_why_and_the_others_go_on() {
        let taken = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let addr = taken.local_addr().unwrap();
        let (board, mut from) = Board::new(16);
        let mut tasks = JoinSet::new();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        std::fs::write(&path, format!("{RECORD}\n")).unwrap();
        let control = Control {
            otlp: vec![addr],
            audit_logs: vec![path],
            ..Control::default()
        };
        control.spawn(&board, &mut tasks);
        next(&mut from).await;
        // The bind failed before the file was read to its end: both began at once.
        loop {
            let status = board
                .statuses()
                .into_iter()
                .find(|s| s.source == Source::Otlp)
                .unwrap();
            if status.detail().contains("another collector") {
                assert!(status.is_off());
                break;
            }
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_finds_no_room_is_refused_counted_and_told() {
        let (board, mut from) = Board::new(2);
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let out = board.out(Source::Otlp, "receiver");
        let (_, sink) = listening(
            listener.map_err(|source| Error::Bind {
                what: "x",
                addr: SocketAddr::from(([127, 0, 0, 1], 0)),
                source,
            }),
            out,
        )
        .unwrap();
        let mut lines = Vec::new();
        let mut decoder = AuditLines::new();
        for _ in 0..5 {
            decoder.line(RECORD.as_bytes(), &mut lines);
        }
        assert_eq!(sink(lines.clone()), 3, "the newest are refused");
        assert_eq!(board.statuses()[0].lost, 3);
        from.recv().await.unwrap();
        from.recv().await.unwrap();
        lines.truncate(1);
        assert_eq!(sink(lines), 0);
        let told = from.recv().await.unwrap();
        assert!(
            matches!(&told.body, kflow_model::Body::Gap(g) if g.lost == 3),
            "{told:?}"
        );
    }
}
