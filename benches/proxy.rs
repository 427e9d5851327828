//! Compares the proxy with a direct connection and with socat, which only copies: see docs/benchmarks.md.
//!
//! `cargo bench --bench proxy` measures with a synthetic server; `tests/real/run.sh --exec cargo bench --bench proxy`
//! also measures with a real containerd. Server, relay and client are separate processes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark: it measures time, prints, and stops at the first thing that goes wrong"
)]

#[path = "../tests/it/proxy/h2.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod h2;
#[path = "proxy/system.rs"]
mod system;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use h2::{Raw, Seen, framed, serve};
use kflow_sources::proxy::Client;
use prost::Message;
use system::{cpu, load, memory};

/// Rounds in which the candidates take turns, so that other load on the machine affects all of them. The reported
/// figure is the median of the rounds' percentiles, because a burst of other load lasts only a few rounds.
const ROUNDS: usize = 31;
/// Calls per round: some tens of milliseconds, so that kflow's later work on the copied bytes falls into its own round.
const CALLS: usize = 1000;
const LARGE_ROUNDS: usize = 20;
/// Large answers per round.
const LARGE: usize = 2;
/// How long the benchmark measures the load of an idle node.
const IDLE: Duration = Duration::from_secs(30);

/// A container in the answer of `ListContainers`.
#[derive(Clone, PartialEq, Message)]
struct Container {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    sandbox: String,
    #[prost(string, tag = "5")]
    image_ref: String,
    #[prost(int32, tag = "6")]
    state: i32,
    #[prost(int64, tag = "7")]
    created_at: i64,
    #[prost(map = "string, string", tag = "8")]
    labels: std::collections::HashMap<String, String>,
    #[prost(map = "string, string", tag = "9")]
    annotations: std::collections::HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct Containers {
    #[prost(message, repeated, tag = "1")]
    containers: Vec<Container>,
}

fn containers(n: usize) -> Vec<u8> {
    let text = |k: &str, v: String| (k.to_owned(), v);
    let all = (0..n).map(|i| Container {
        id: format!("{i:064x}"),
        sandbox: format!("{:064x}", i + 1000),
        image_ref: format!("sha256:{i:064x}"),
        state: 1,
        created_at: 1_795_221_763_183_359_608,
        labels: [
            text("io.kubernetes.container.name", "web".into()),
            text("io.kubernetes.pod.name", format!("web-69c5447696-{i:05}")),
            text("io.kubernetes.pod.namespace", "default".into()),
            text(
                "io.kubernetes.pod.uid",
                format!("{i:08x}-c0de-4000-8000-000000000000"),
            ),
        ]
        .into(),
        annotations: [
            text("io.kubernetes.container.hash", "4f3a9b1c".into()),
            text("io.kubernetes.container.restartCount", "0".into()),
            text(
                "io.kubernetes.container.terminationMessagePath",
                "/dev/termination-log".into(),
            ),
            text(
                "io.kubernetes.container.terminationMessagePolicy",
                "File".into(),
            ),
            text("io.kubernetes.pod.terminationGracePeriod", "30".into()),
        ]
        .into(),
    });
    Containers {
        containers: all.collect(),
    }
    .encode_to_vec()
}

const LIST: &str = "/runtime.v1.RuntimeService/ListContainers";
const STATUS: &str = "/runtime.v1.RuntimeService/Status";
const VERSION: &str = "/runtime.v1.RuntimeService/Version";
const BIG: &str = "/t/Big";

/// Runs the synthetic server until its process is killed.
fn serve_forever(path: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = tokio::net::UnixListener::bind(path).unwrap();
        // One message of 16 MiB, which is a list: the largest that the kubelet accepts.
        let one = containers(1).len();
        let big = containers((16 << 20) / one - 1);
        assert!(big.len() <= 16 << 20);
        let canned = [
            (LIST, framed(&containers(110))),
            (STATUS, framed(&[0x0a, 0x00])),
            (
                VERSION,
                framed(b"\x0a\x050.1.0\x12\x09synthetic\x1a\x011\x22\x02v1"),
            ),
            (BIG, framed(&big)),
        ];
        serve(listener, Arc::new(Seen::default()), Arc::new(canned.into()));
        std::future::pending::<()>().await;
    });
}

/// A child process that ends when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // SIGTERM lets the process close its recording and remove its socket.
        Command::new("kill")
            .arg(self.0.id().to_string())
            .status()
            .ok();
        let until = Instant::now() + Duration::from_secs(15);
        while self.0.try_wait().is_ok_and(|s| s.is_none()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn start(command: &mut Command, path: &Path) -> Running {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let running = Running(child.unwrap_or_else(|e| panic!("{command:?}: {e}")));
    let until = Instant::now() + Duration::from_secs(20);
    while std::os::unix::net::UnixStream::connect(path).is_err() {
        assert!(Instant::now() < until, "{command:?} does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    running
}

/// Whether `KFLOW_BENCH` has this word. `KFLOW_BENCH=latency` leaves out the idle load, `latency,unwatched` also the
/// subscriber, `latency,lists` all calls but the synthetic lists: this helps to find out what costs time. With `busy` as many
/// processes as there are cores compute all the time; with `first` the kernel runs the proxy before them (`nice -n -20`, as root).
fn bench(what: &str) -> bool {
    std::env::var("KFLOW_BENCH").is_ok_and(|b| b.split(',').any(|w| w == what))
}

struct Relays {
    dir: tempfile::TempDir,
    running: Vec<(&'static str, Running)>,
}

impl Relays {
    fn new(upstream: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        // The proxy requires a private folder for its sockets.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(dir.path(), private).unwrap();
        let path = |name: &str| dir.path().join(name);
        let kflow = env!("CARGO_BIN_EXE_kflow");
        let socat = start(
            Command::new("socat")
                .arg(format!("UNIX-LISTEN:{},fork", path("socat").display()))
                .arg(format!("UNIX-CONNECT:{}", upstream.display())),
            &path("socat"),
        );
        let mut proxy = Command::new(if bench("first") { "nice" } else { kflow });
        if bench("first") {
            proxy.args(["-n", "-20", kflow]);
        }
        let proxy = start(
            proxy
                .arg("proxy")
                .arg("--upstream")
                .arg(upstream)
                .arg("--listen")
                .arg(path("kflow"))
                .arg("--serve")
                .arg(path("serve")),
            &path("kflow"),
        );
        if bench("unwatched") {
            return Self {
                dir,
                running: vec![("socat", socat), ("kflow", proxy)],
            };
        }
        let recorder = Command::new(kflow)
            .args(["record", "--no-api", "--proxy"])
            .arg(path("serve"))
            .arg("-O")
            .arg(path("run.kflow.zst"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let running = vec![
            ("socat", socat),
            ("kflow", proxy),
            ("record", Running(recorder)),
        ];
        let all = Self { dir, running };
        let until = Instant::now() + Duration::from_secs(20);
        while !all.path("run.kflow.zst").exists() {
            assert!(Instant::now() < until, "nothing records");
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_secs(1));
        all
    }
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
    fn pid(&self, name: &str) -> u32 {
        self.running
            .iter()
            .find(|(n, _)| *n == name)
            .unwrap()
            .1
            .0
            .id()
    }
}

fn percentile(sorted: &[Duration], p: f64) -> f64 {
    let i = ((sorted.len() as f64 * p) as usize).min(sorted.len() - 1);
    sorted[i].as_secs_f64() * 1e6
}

/// Returns the ratio of the latencies that two relays add, or a dash where `limit`, the plain relay's, is within noise.
fn ratio(added: f64, limit: f64) -> String {
    if limit > 0.5 {
        format!("{:.2}", added / limit)
    } else {
        "–".to_owned()
    }
}

/// Returns the median over all rounds of each round's percentile.
fn typical(rounds: &[Vec<Duration>], p: f64) -> f64 {
    let mut all: Vec<f64> = rounds.iter().map(|r| percentile(r, p)).collect();
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Measures the latency of sequential calls. Returns the text of [`decoded`].
async fn latency(title: &str, method: &str, upstream: &Path, relays: &Relays) -> String {
    let candidates = [
        ("direct", upstream.to_owned()),
        ("socat", relays.path("socat")),
        ("kflow", relays.path("kflow")),
    ];
    let mut all: Vec<Vec<Vec<Duration>>> = vec![Vec::new(); 3];
    let mut raws = Vec::new();
    for (_, path) in &candidates {
        raws.push(Raw::connect(path).await.unwrap());
    }
    let mut order = [0, 1, 2];
    for round in 0..=ROUNDS {
        // Each candidate runs first, and after each of the others, equally often.
        order.rotate_left(1);
        if round % 3 == 0 {
            order.swap(1, 2);
        }
        for i in order {
            let mut took = Vec::with_capacity(CALLS);
            for _ in 0..CALLS {
                let begin = Instant::now();
                raws[i].call(method, b"", &[]).await.unwrap();
                took.push(begin.elapsed());
            }
            took.sort_unstable();
            // The first round only warms up.
            if round > 0 {
                all[i].push(took);
            }
        }
    }
    let mut base = (0.0, 0.0);
    let mut limit = (0.0, 0.0);
    for (i, (name, _)) in candidates.iter().enumerate() {
        let (p50, p99) = (typical(&all[i], 0.5), typical(&all[i], 0.99));
        let added = (p50 - base.0, p99 - base.1);
        let text = match i {
            0 => {
                base = (p50, p99);
                String::new()
            }
            1 => {
                limit = added;
                format!("{:+.1} | {:+.1} | 1.00 | 1.00", added.0, added.1)
            }
            _ => format!(
                "{:+.1} | {:+.1} | {} | {}",
                added.0,
                added.1,
                ratio(added.0, limit.0),
                ratio(added.1, limit.1)
            ),
        };
        let text = if text.is_empty() {
            " | | | ".to_owned()
        } else {
            text
        };
        println!("| {title} | {name} | {p50:.1} | {p99:.1} | {text} |");
    }
    decoded(title, relays).await
}

/// Returns a line on what the decoder made of the calls. Where bytes of a connection were lost, the figures lack the
/// decoder's work that this benchmark is about.
async fn decoded(title: &str, relays: &Relays) -> String {
    let mut proxy = Client::connect(&relays.path("serve")).await.unwrap();
    // Waits until the decoder has emptied its queue.
    let info = loop {
        let info = proxy.info().await.unwrap();
        if info.queued_bytes == 0 {
            break info;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    format!(
        "after {title}: {} observations, {} of {} connections in part, {} of {} MiB not decoded",
        info.observations,
        info.partial,
        info.accepted,
        info.lost_bytes >> 20,
        info.bytes >> 20
    )
}

/// Measures the median MB/s for answers of 16 MiB.
async fn throughput(upstream: &Path, relays: &Relays) {
    let candidates = [
        ("direct", upstream.to_owned()),
        ("socat", relays.path("socat")),
        ("kflow", relays.path("kflow")),
    ];
    let mut all: Vec<Vec<Duration>> = vec![Vec::new(); 3];
    let mut size = 0;
    let mut raws = Vec::new();
    for (_, path) in &candidates {
        raws.push(Raw::connect(path).await.unwrap());
    }
    for round in 0..=LARGE_ROUNDS {
        for (i, raw) in raws.iter_mut().enumerate() {
            for _ in 0..LARGE {
                let begin = Instant::now();
                size = raw.call(BIG, b"", &[]).await.unwrap().bytes.len();
                if round > 0 {
                    all[i].push(begin.elapsed());
                }
            }
        }
    }
    let mut limit = 0.0;
    for (i, (name, _)) in candidates.iter().enumerate() {
        all[i].sort_unstable();
        let rate = size as f64 / percentile(&all[i], 0.5);
        let ratio = match i {
            0 => String::new(),
            1 => {
                limit = rate;
                "1.00".into()
            }
            _ => format!("{:.2}", rate / limit),
        };
        println!("| {name} | {rate:.0} | {ratio} |");
    }
}

/// Starts as many processes that compute all the time as there are cores.
fn busy() -> Vec<Running> {
    let me = std::env::current_exe().unwrap();
    let cores = std::thread::available_parallelism().unwrap().get();
    let burner = |_| Running(Command::new(&me).arg("--burn").spawn().unwrap());
    (0..cores).map(burner).collect()
}

fn burn() {
    let mut x = 1_u64;
    loop {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005));
    }
}

/// Makes two list calls per second and a status call every five seconds, as on an idle node with 110 pods.
async fn idle(relays: &Relays) {
    let mut raw = Raw::connect(&relays.path("kflow")).await.unwrap();
    let names = ["kflow", "record"];
    let before: Vec<f64> = names.iter().map(|n| cpu(relays.pid(n))).collect();
    let begin = Instant::now();
    let mut n = 0;
    while begin.elapsed() < IDLE {
        raw.call(LIST, b"", &[]).await.unwrap();
        if n % 10 == 0 {
            raw.call(STATUS, b"", &[]).await.unwrap();
        }
        n += 1;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let took = begin.elapsed().as_secs_f64();
    for (name, before) in names.iter().zip(before) {
        let share = (cpu(relays.pid(name)) - before) / took * 100.0;
        let (now, most) = memory(relays.pid(name));
        println!("| {name} | {share:.2} | {now:.1} | {most:.1} |");
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("--serve") => return serve_forever(Path::new(&args.next().expect("a path"))),
        Some("--burn") => return burn(),
        _ => {}
    }
    println!("load average before: {}", load());
    let _burners = if bench("busy") { busy() } else { Vec::new() };
    let dir = tempfile::tempdir().unwrap();
    let synthetic = dir.path().join("synthetic.sock");
    let me = std::env::current_exe().unwrap();
    let _server = start(Command::new(me).arg("--serve").arg(&synthetic), &synthetic);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        if !bench("latency") {
            let relays = Relays::new(&synthetic);
            println!("Idle load of 110 pods, {} s\n\n| process | CPU % of a core | resident MiB | at most MiB |\n|---|---|---|---|", IDLE.as_secs());
            idle(&relays).await;
        }
        println!("\nLatency, µs\n\n| call | by way of | p50 | p99 | added p50 | added p99 | p50 to socat's | p99 to socat's |\n|---|---|---|---|---|---|---|---|");
        let mut seen = Vec::new();
        if let Some(real) = std::env::var_os("KFLOW_REAL") {
            let upstream = PathBuf::from(real).join("run/containerd.sock");
            let relays = Relays::new(&upstream);
            seen.push(latency("containerd Version", VERSION, &upstream, &relays).await);
            seen.push(latency("containerd ListContainers", LIST, &upstream, &relays).await);
        }
        let relays = Relays::new(&synthetic);
        if !bench("lists") {
            seen.push(latency("synthetic Version", VERSION, &synthetic, &relays).await);
        }
        let title = "synthetic ListContainers, 110 pods";
        seen.push(latency(title, LIST, &synthetic, &relays).await);
        if !bench("lists") {
            println!("\nAnswers of 16 MiB\n\n| by way of | MB/s | to socat's |\n|---|---|---|");
            throughput(&synthetic, &relays).await;
            seen.push(decoded("answers of 16 MiB", &relays).await);
        }
        println!();
        for line in seen {
            println!("{line}");
        }
        let (now, most) = memory(relays.pid("kflow"));
        println!("\nkflow proxy afterwards: {now:.1} MiB resident, {most:.1} MiB at most");
    });
    println!("load average after: {}", load());
}
