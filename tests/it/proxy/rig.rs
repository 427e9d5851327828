//! A proxy between a client and a server that the test plays.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kflow_cri::Direction;
use kflow_model::{Body, Nanos, Observation};
use kflow_proxy::tap::Decode;
use kflow_proxy::{Config, Proxy};
use kflow_serve::Log;

/// What a test waits for at most before it fails: never reached when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Connection, direction, bytes.
pub(crate) type Chunk = (u32, Direction, Vec<u8>);

/// A decoder that keeps what it is fed.
#[derive(Clone, Default)]
pub(crate) struct Tape {
    pub(crate) chunks: Arc<Mutex<Vec<Chunk>>>,
}

impl Tape {
    /// All bytes that one connection sent one way.
    pub(crate) fn bytes(&self, conn: u32, direction: Direction) -> Vec<u8> {
        let chunks = self.chunks.lock().unwrap();
        chunks
            .iter()
            .filter(|(c, d, _)| *c == conn && *d == direction)
            .flat_map(|(_, _, b)| b.clone())
            .collect()
    }
}

impl Decode for Tape {
    fn open(&mut self, _: u32, _: Nanos, _: u32, _: &str, _: &mut Vec<Observation>) {}
    fn feed(
        &mut self,
        conn: u32,
        direction: Direction,
        _: Nanos,
        bytes: &[u8],
        _: &mut Vec<Observation>,
    ) {
        self.chunks
            .lock()
            .unwrap()
            .push((conn, direction, bytes.to_vec()));
    }
    fn lose(
        &mut self,
        _: u32,
        _: Option<kflow_cri::Direction>,
        _: Nanos,
        _: kflow_cri::Lost,
        _: &str,
        _: &mut Vec<Observation>,
    ) {
    }
    fn advance(&mut self, _: Nanos, _: &mut Vec<Observation>) {}
    fn restart(&mut self, _: u32, _: Nanos, _: &str, _: &mut Vec<Observation>) {}
    fn close(&mut self, _: u32, _: Nanos, _: &str, _: &mut Vec<Observation>) {}
}

pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) config: Config,
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let mut config = Config::new(dir.path().join("cri.sock"), dir.path().join("up.sock"));
        config.serve = Some(dir.path().join("obs.sock"));
        Self {
            dir,
            config,
            log: Arc::default(),
        }
    }
    pub(crate) fn start(&self, decoder: impl Decode + 'static) -> Proxy {
        let lines = Arc::clone(&self.log);
        let log: Log = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
        Proxy::start(&self.config, Box::new(decoder), &log).unwrap()
    }
    /// The runtime, played by the test.
    pub(crate) fn upstream(&self) -> UnixListener {
        UnixListener::bind(&self.config.upstream).unwrap()
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    /// A client's connection, and the other end of it at the runtime.
    pub(crate) fn pair(&self, upstream: &UnixListener) -> (UnixStream, UnixStream) {
        let client = connect(&self.config.listen);
        // The proxy's probes connect and close at once: they are not the client's connection.
        client_marks(&client);
        loop {
            let (mut server, _) = upstream.accept().unwrap();
            server.set_read_timeout(Some(PATIENCE)).unwrap();
            let mut mark = [0];
            if server.read(&mut mark).unwrap() == 1 {
                assert_eq!(mark, *b"#");
                return (client, server);
            }
        }
    }
}

fn client_marks(mut client: &UnixStream) {
    client.write_all(b"#").unwrap();
}

/// Connects as soon as somebody listens.
pub(crate) fn connect(path: &std::path::Path) -> UnixStream {
    let stream = eventually("somebody listens", || UnixStream::connect(path).ok());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asks until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let mut answer = None;
    let came = came_true(|| {
        answer = ask();
        answer.as_ref().map(|_| ())
    });
    assert!(came, "never: {what}");
    answer.unwrap()
}

/// Asks until there is an answer, or the patience is at its end.
pub(crate) fn came_true(mut ask: impl FnMut() -> Option<()>) -> bool {
    #[expect(clippy::disallowed_methods, reason = "how long a test may take")]
    let begin = Instant::now();
    while ask().is_none() {
        if begin.elapsed() >= PATIENCE {
            return false;
        }
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(1));
    }
    true
}

/// Reads to the end.
pub(crate) fn rest(mut stream: &UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

pub(crate) fn half_close(stream: &UnixStream) {
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Bytes that do not repeat.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x.to_be_bytes()[3]
        })
        .collect()
}

/// Writes in pieces of many sizes.
pub(crate) fn send(mut to: &UnixStream, bytes: &[u8], seed: u64) {
    let mut sizes = noise(seed, 64).into_iter().cycle();
    let mut rest = bytes;
    while !rest.is_empty() {
        let n = (usize::from(sizes.next().unwrap()).pow(2) + 1).min(rest.len());
        to.write_all(&rest[..n]).unwrap();
        rest = &rest[n..];
    }
}

/// Observations in the proxy's ring.
pub(crate) fn observations(proxy: &Proxy) -> Vec<Observation> {
    in_ring(&proxy.ring)
}

/// Observations in a ring; all of them once the proxy has stopped.
pub(crate) fn in_ring(ring: &kflow_serve::ring::Ring) -> Vec<Observation> {
    let mut all = vec![];
    let mut from = 0;
    // One read gives what is left of one block.
    loop {
        let batch = ring.read(from, usize::MAX);
        if batch.lines.is_empty() {
            return all;
        }
        from = batch.first + batch.lines.len() as u64;
        let lines = batch.lines.iter();
        all.extend(lines.map(|l| serde_json::from_slice::<Observation>(l).unwrap()));
    }
}

/// Reasons of the gaps in the proxy's ring, with connection and number of lost units.
pub(crate) fn gaps(proxy: &Proxy) -> Vec<(u32, u64, String)> {
    observations(proxy)
        .into_iter()
        .filter_map(|o| match o.body {
            Body::Gap(g) => Some((g.conn, g.lost, g.why.to_string())),
            _ => None,
        })
        .collect()
}
