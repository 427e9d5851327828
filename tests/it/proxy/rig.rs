//! A proxy between a client and a server that the test plays itself.

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

/// How long a test waits before it fails. A run in which all is well never waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Connection, direction, bytes.
pub(crate) type Chunk = (u32, Direction, Vec<u8>);

/// A decoder that keeps the chunks that it is given.
#[derive(Clone, Default)]
pub(crate) struct Tape {
    pub(crate) chunks: Arc<Mutex<Vec<Chunk>>>,
}

impl Tape {
    /// Returns all bytes that one connection sent in one direction.
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
    /// Binds the runtime's socket, which the test serves.
    pub(crate) fn upstream(&self) -> UnixListener {
        UnixListener::bind(&self.config.upstream).unwrap()
    }
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    /// Connects a client; returns its connection and the runtime's end of it.
    pub(crate) fn pair(&self, upstream: &UnixListener) -> (UnixStream, UnixStream) {
        let client = connect(&self.config.listen);
        // The proxy's own probes connect and close at once. A first byte from the client tells
        // its connection from theirs.
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

/// Connects as soon as somebody listens at the path.
pub(crate) fn connect(path: &std::path::Path) -> UnixStream {
    let stream = eventually("somebody listens", || UnixStream::connect(path).ok());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Repeats `ask` until it returns a value; panics after [`PATIENCE`].
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let mut answer = None;
    let came = came_true(|| {
        answer = ask();
        answer.as_ref().map(|_| ())
    });
    assert!(came, "never: {what}");
    answer.unwrap()
}

/// Repeats `ask` until it returns a value; returns false after [`PATIENCE`].
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

/// Reads until the end of the stream.
pub(crate) fn rest(mut stream: &UnixStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

pub(crate) fn half_close(stream: &UnixStream) {
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Returns pseudo-random bytes.
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

/// Writes the bytes in chunks of varying sizes.
pub(crate) fn send(mut to: &UnixStream, bytes: &[u8], seed: u64) {
    let mut sizes = noise(seed, 64).into_iter().cycle();
    let mut rest = bytes;
    while !rest.is_empty() {
        let n = (usize::from(sizes.next().unwrap()).pow(2) + 1).min(rest.len());
        to.write_all(&rest[..n]).unwrap();
        rest = &rest[n..];
    }
}

/// Returns the observations in the proxy's ring.
pub(crate) fn observations(proxy: &Proxy) -> Vec<Observation> {
    in_ring(&proxy.ring)
}

/// Returns the observations in a ring; they are complete once the proxy has stopped.
pub(crate) fn in_ring(ring: &kflow_serve::ring::Ring) -> Vec<Observation> {
    let mut all = vec![];
    let mut from = 0;
    // One read returns the rest of one block.
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

/// Returns the gaps in the proxy's ring: connection, number of lost units, reason.
pub(crate) fn gaps(proxy: &Proxy) -> Vec<(u32, u64, String)> {
    observations(proxy)
        .into_iter()
        .filter_map(|o| match o.body {
            Body::Gap(g) => Some((g.conn, g.lost, g.why.to_string())),
            _ => None,
        })
        .collect()
}
