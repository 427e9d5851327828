//! Clients of an agent of another version, which a stand-in plays on its socket; and a client that reads more slowly
//! than the agent sees.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kflow_model::gap::Note;
use kflow_model::offset::Offset;
use kflow_model::session::load;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, clock};
use kflow_serve::ring::{Ring, line};
use kflow_serve::service::{Host, Past};
use kflow_serve::wire::{INFO, InfoRequest, InfoResponse};
use kflow_sources::agent::{
    AgentPod, Earlier, Follow, Gives, Mark, Reading, Silent, Way, follow, greet,
};
use kflow_sources::live::Board;
use prost::bytes::Bytes;
use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tonic::body::Body as GrpcBody;
use tonic::server::{Grpc, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::forward::Apiserver;
use super::serving::Serving;
use super::{PATIENCE, SubscribeRequest, block_on};

/// `kflow.v1.InfoResponse` of another version: it has a field that is unknown here, and lacks some that are known.
#[derive(Clone, PartialEq, prost::Message)]
struct OtherInfo {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(uint64, tag = "2")]
    epoch: u64,
    /// 0 for a version that does not send this field.
    #[prost(uint64, tag = "20")]
    next: u64,
    /// 0 for a version that does not send this field.
    #[prost(uint64, tag = "21")]
    now: u64,
    #[prost(string, tag = "99")]
    later: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct OtherBatch {
    #[prost(uint64, tag = "1")]
    epoch: u64,
    #[prost(uint64, tag = "2")]
    next: u64,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    lines: Vec<Bytes>,
    #[prost(string, tag = "99")]
    later: String,
}

/// An agent that answers every subscription with these lines, and then sends nothing more.
#[derive(Clone)]
struct Other {
    version: &'static str,
    /// Its `Info` has its clock, and the position where its ring ends.
    tells: bool,
    lines: Vec<Bytes>,
}

impl UnaryService<InfoRequest> for Other {
    type Response = OtherInfo;
    type Future = std::future::Ready<Result<Response<OtherInfo>, Status>>;
    fn call(&mut self, _: Request<InfoRequest>) -> Self::Future {
        let tells = u64::from(self.tells);
        std::future::ready(Ok(Response::new(OtherInfo {
            version: self.version.to_owned(),
            epoch: 7,
            next: tells * (1 + self.lines.len() as u64),
            now: tells * clock::now().0.cast_unsigned(),
            later: "of a later version".to_owned(),
        })))
    }
}

impl ServerStreamingService<SubscribeRequest> for Other {
    type Response = OtherBatch;
    type ResponseStream = tokio_stream::wrappers::ReceiverStream<Result<OtherBatch, Status>>;
    type Future = std::future::Ready<Result<Response<Self::ResponseStream>, Status>>;
    fn call(&mut self, _: Request<SubscribeRequest>) -> Self::Future {
        let (to, stream) = mpsc::channel(1);
        let batch = OtherBatch {
            epoch: 7,
            next: 1 + self.lines.len() as u64,
            lines: self.lines.clone(),
            later: "of a later version".to_owned(),
        };
        tokio::spawn(async move {
            to.send(Ok(batch)).await.ok();
            to.closed().await;
        });
        std::future::ready(Ok(Response::new(stream.into())))
    }
}

impl Other {
    fn serve(self, at: &Path) {
        let listener = UnixListener::bind(at).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let its = self.clone();
                let service = service_fn(move |request: hyper::Request<Incoming>| {
                    let its = its.clone();
                    async move {
                        let request = request.map(GrpcBody::new);
                        Ok::<_, Infallible>(if request.uri().path() == INFO {
                            Grpc::new(ProstCodec::default()).unary(its, request).await
                        } else {
                            let mut grpc = Grpc::new(ProstCodec::default());
                            grpc.server_streaming(its, request).await
                        })
                    }
                });
                let http = http2::Builder::new(TokioExecutor::new());
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
    }
}

fn note(source: Source, text: String) -> Observation {
    Observation {
        stamp: Stamp::exact(clock::now()),
        source,
        body: Body::Note(Box::new(Note { text: text.into() })),
    }
}

fn text(o: &Observation) -> Option<&str> {
    match &o.body {
        Body::Note(n) => Some(&n.text),
        _ => None,
    }
}

struct Following {
    board: Board,
    from: mpsc::Receiver<Observation>,
    mark: Mark,
    earlier: Option<Earlier>,
}

fn following(socket: PathBuf, since: Option<Nanos>) -> Following {
    let (board, from) = Board::new(64);
    let earlier = since.map(Earlier::since);
    let mark = Mark::default();
    let wanted = Follow {
        way: Way::Socket(socket),
        earlier: earlier.clone(),
        mark: mark.clone(),
        all: false,
        gives: watch::channel(Gives::default()).0,
    };
    tokio::spawn(follow(wanted, board.out(Source::Cri, "agent")));
    Following {
        board,
        from,
        mark,
        earlier,
    }
}

async fn next(from: &mut mpsc::Receiver<Observation>) -> Observation {
    let next = tokio::time::timeout(PATIENCE, from.recv());
    next.await.expect("in time").expect("more")
}

/// Lines as another version may write them: two of known kinds, one of which has an unknown field, and
/// two of unknown kinds.
fn lines() -> Vec<Bytes> {
    let known =
        String::from_utf8(line(&note(Source::Kubelet, "first".to_owned())).to_vec()).unwrap();
    let more = known
        .replacen('{', r#"{"later":[1],"#, 1)
        .replace("first", "second");
    assert!(known.contains(r#""note""#), "{known}");
    let unknown = known.replace(r#""note""#, r#""noted""#);
    assert_ne!(known, unknown);
    [known, unknown, "not a line at all".to_owned(), more]
        .into_iter()
        .map(Bytes::from)
        .collect()
}

#[test]
fn what_one_of_two_versions_does_not_know_is_left_out_and_both_are_named() {
    let own = env!("CARGO_PKG_VERSION");
    block_on(async {
        for (version, tells) in [("0.0.9", false), ("99.0.0", true)] {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("agent.sock");
            let lines = lines();
            Other {
                version,
                tells,
                lines,
            }
            .serve(&socket);
            // An older agent ignores `since`: the client stops waiting for the past and goes on.
            let mut f = following(socket.clone(), Some(clock::now().plus(-1_000_000_000)));
            let mut texts = Vec::new();
            while texts.len() < 2 {
                let o = next(&mut f.from).await;
                texts.extend(text(&o).map(str::to_owned));
            }
            assert_eq!(texts, ["first", "second"], "{version}");
            let earlier = f.earlier.unwrap();
            tokio::time::timeout(PATIENCE, earlier.over())
                .await
                .expect("in time");
            assert_eq!(earlier.reading(), Reading::Read);
            let status = &f.board.statuses()[0];
            let want = format!(
                "kflow {version} there, {own} here: what one of them does not know is left out"
            );
            assert!(
                status.is_on() && status.detail().starts_with(&want),
                "{status:?}"
            );
            assert_eq!(f.mark.clock().is_some(), tells);
            if let Some(Offset {
                ahead_ns,
                within_ns,
            }) = f.mark.clock()
            {
                assert!(ahead_ns.abs() <= within_ns);
            }
            // A command that asks once refuses another version, instead of judging by what it could misread.
            let (_, url) = Apiserver::start(Some(socket), false).await;
            let pod = AgentPod {
                name: "kflow-agent-x".to_owned(),
                version: String::new(),
                ready: true,
            };
            let client = super::forward::client(&url);
            let refused = greet(&client, "kflow", "node1", &pod).await.unwrap_err();
            let there = version.to_owned();
            assert_eq!(refused, Silent::OtherVersion { there });
        }
    });
}

struct Nobody;

impl Host for Nobody {
    fn info(&self) -> InfoResponse {
        InfoResponse::default()
    }
    fn refused(&self) {}
    fn past(&self, _: Nanos, _: Nanos, _: Past<'_>) -> Result<(), String> {
        Err("nothing is kept".to_owned())
    }
}

/// An agent whose spool cannot be written, or that has none.
#[test]
fn a_call_in_flight_is_known_although_nothing_is_kept_of_the_past() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("run").join("agent.sock");
        let ring = Ring::new(64 << 10, Duration::from_secs(600));
        let serving = Serving::start(&at, ring, Nobody);
        let ring = &serving.ring;
        let recorded = load(&crate::fixture("sessions/S13-crictl.kflow.zst")).unwrap();
        let calls = recorded.observations.iter();
        let call = calls.clone().find(|o| matches!(o.body, Body::CallStart(_)));
        ring.push(
            &mut vec![Observation::clone(call.unwrap())],
            clock::monotonic(),
        );
        let mut random = fastrand::Rng::with_seed(1);
        while ring.oldest().0.is_empty() {
            let any: String = (0..1 << 10).map(|_| random.alphanumeric()).collect();
            ring.push(&mut vec![note(Source::Fs, any)], clock::monotonic());
        }
        let mut f = following(at, Some(clock::now().plus(-60_000_000_000)));
        let (mut gap, mut begun) = (false, false);
        while !(gap && begun) {
            let o = next(&mut f.from).await;
            gap |= matches!(&o.body, Body::Gap(g) if g.why.contains("nothing is kept"));
            begun |= matches!(o.body, Body::CallStart(_));
            assert!(text(&o).is_none() || (gap && begun), "{o:?}");
        }
        drop(f);
        tokio::task::spawn_blocking(move || drop(serving))
            .await
            .unwrap();
    });
}

#[test]
fn who_reads_more_slowly_than_an_agent_sees_is_told_of_every_source_and_of_every_line() {
    const MORE: usize = 20_000;
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("run").join("agent.sock");
        let ring = Ring::new(256 << 10, Duration::from_secs(600));
        let serving = Serving::start(&at, ring, Nobody);
        let see = |mut all: Vec<Observation>| serving.ring.push(&mut all, clock::monotonic());
        // Random text, which compresses badly.
        let mut random = fastrand::Rng::with_seed(1);
        let mut some = |n: usize| {
            let source = [Source::Kubelet, Source::Fs][n % 2];
            let any: String = (0..1 << 10).map(|_| random.alphanumeric()).collect();
            note(source, format!("{n} {any}"))
        };
        see(vec![some(0), some(1)]);
        let mut f = following(at, None);
        for want in ["0 ", "1 "] {
            while !text(&next(&mut f.from).await).is_some_and(|t| t.starts_with(want)) {}
        }
        // The client reads nothing while the agent sees far more than the ring and the connection hold.
        for n in 0..MORE / 100 {
            see((0..100).map(|i| some(2 + n * 100 + i)).collect());
            tokio::task::yield_now().await;
        }
        see(vec![note(Source::Kubelet, "the last".to_owned())]);
        let (mut had, mut lost, mut gaps) = (0, 0, Vec::new());
        loop {
            let o = next(&mut f.from).await;
            match &o.body {
                Body::Gap(g) => {
                    lost += g.lost;
                    gaps.push(g.of);
                }
                Body::Note(n) if n.text == "the last" => break,
                Body::Note(_) => had += 1,
                _ => {}
            }
        }
        assert_eq!(had + lost as usize, MORE, "{had} {gaps:?}");
        assert!(lost > 0);
        for source in [Source::Cri, Source::Kubelet, Source::Fs] {
            assert!(gaps.contains(&source), "{source:?}: {gaps:?}");
        }
        // The connection is still in use: new observations arrive.
        see(vec![note(Source::Fs, "and more".to_owned())]);
        while text(&next(&mut f.from).await) != Some("and more") {}
        assert!(f.board.statuses()[0].is_on());
        drop(f);
        tokio::task::spawn_blocking(move || drop(serving))
            .await
            .unwrap();
    });
}
