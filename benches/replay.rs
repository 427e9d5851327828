//! Replay of a session of a million observations: time to the first frame, time to load, time to seek, resident memory.
//!
//! The session repeats a recorded one (fixtures/sessions/S5-burst): each round is a minute or more later and has pods,
//! sandboxes, containers, traces and connections of its own. The player runs in a process of its own, so that no other
//! memory is counted. `cargo bench --bench replay [-- FILE]`; `-- make FILE` writes the session and plays nothing.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a benchmark measures time, prints it, and stops where it cannot"
)]

#[path = "shared/allocator.rs"]
mod allocator;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use kflow_core::query::Moment;
use kflow_engine::replay::Player;
use kflow_tui::offscreen;
use regex::{Captures, Regex};

const OBSERVATIONS: usize = 1_000_000;
const FIRST_FRAME_S: f64 = 2.0;
const SEEK_MS: f64 = 50.0;
const RESIDENT_MB: f64 = 300.0;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    match args.as_slice() {
        [play, file] if play == "play" => play_it(Path::new(file)),
        [make, file] if make == "make" => synthesise(Path::new(file)),
        [file] => in_a_process(Path::new(file)),
        _ => {
            let dir = tempfile::tempdir().expect("a folder");
            let file = dir.path().join("million.kflow.zst");
            synthesise(&file);
            in_a_process(&file);
        }
    }
}

fn in_a_process(file: &Path) {
    let me = std::env::current_exe().expect("my own path");
    let status = Command::new(me)
        .arg("play")
        .arg(file)
        .status()
        .expect("myself");
    assert!(status.success(), "the player ended with {status}");
}

/// Writes a million lines: a recorded session repeated with other ids, names and times.
fn synthesise(to: &Path) {
    let from =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/sessions/S5-burst.kflow.zst");
    let text = zstd::decode_all(std::fs::File::open(&from).expect("the fixture")).expect("zstd");
    let text = String::from_utf8(text).expect("JSON");
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    let lines: Vec<&str> = lines.collect();
    let seen = Regex::new(r#""s":(\d{19})"#).expect("a pattern");
    let times: Vec<i64> = lines
        .iter()
        .filter_map(|l| seen.captures(l)?.get(1)?.as_str().parse().ok())
        .collect();
    let span =
        times.iter().max().expect("times") - times.iter().min().expect("times") + 1_000_000_000;
    // UIDs; ids of sandboxes, containers, traces and spans; times in ns; namespaces; connections. Digits after a
    // decimal point stay as they are.
    let changes = Regex::new(concat!(
        r"(?P<fraction>\d\.\d+)|(?P<uid>\b[0-9a-f]{8}-[0-9a-f]{4}-)|(?P<hex>\b(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{16})\b)",
        r#"|(?P<ns>\b1[78]\d{17}\b)|(?P<space>"ns":"[a-z0-9-]+)|(?P<conn>"(?:call_start|call_end|container_event|inventory|conn)":\{"c":\d+)"#,
    ))
    .expect("a pattern");
    let mut out = zstd::Encoder::new(std::fs::File::create(to).expect("a file"), 1).expect("zstd");
    writeln!(out, "{header}").expect("room");
    let (mut written, mut round, mut buf) = (0, 0_i64, String::new());
    while written < OBSERVATIONS {
        for line in lines.iter().take(OBSERVATIONS - written) {
            buf.clear();
            buf.push_str(&changes.replace_all(line, |c: &Captures<'_>| changed(c, round, span)));
            writeln!(out, "{buf}").expect("room");
            written += 1;
        }
        round += 1;
    }
    out.finish().expect("room");
    println!(
        "{written} observations: {} rounds of {}, {:.1} MB compressed",
        round,
        from.file_name().unwrap_or_default().display(),
        std::fs::metadata(to).map_or(0.0, |m| m.len() as f64 / 1e6)
    );
}

fn changed(c: &Captures<'_>, round: i64, span: i64) -> String {
    let mut out = String::new();
    let told = if let Some(m) = c.name("fraction") {
        write!(out, "{}", m.as_str())
    } else if let Some(m) = c.name("uid").or_else(|| c.name("hex")) {
        // Only the first four digits are the round's, so that different ids stay different.
        let rest = m.as_str().split_at(4).1;
        write!(out, "{round:04x}{rest}")
    } else if let Some(m) = c.name("ns") {
        let ns: i64 = m.as_str().parse().unwrap_or(0);
        write!(out, "{}", ns + round * span)
    } else if let Some(m) = c.name("space") {
        write!(out, "{}-{round}", m.as_str())
    } else {
        let whole = c.get(0).map_or("", |m| m.as_str());
        let (head, conn) = whole.rsplit_once(':').unwrap_or((whole, "0"));
        write!(
            out,
            "{head}:{}",
            conn.parse::<i64>().unwrap_or(0) + round * 1000
        )
    };
    told.expect("strings grow");
    out
}

/// Returns the resident memory and its maximum, MB.
fn resident() -> (f64, f64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|l| l.starts_with(name));
        let kib = line.and_then(|l| l.split_whitespace().nth(1)?.parse::<f64>().ok());
        kib.unwrap_or(0.0) * 1024.0 / 1e6
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Returns the processor time of this thread in s, which a busy machine does not lengthen (Linux; elsewhere 0).
fn used() -> f64 {
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|s| s.split(' ').next()?.parse::<f64>().ok())
        .map_or(0.0, |ns| ns / 1e9)
}

fn row(what: &str, value: f64, unit: &str, limit: f64) {
    let mark = if value <= limit { "met" } else { "NOT MET" };
    println!("{what:46} {value:9.2} {unit:3} limit {limit:7.1}  {mark}");
}

fn play_it(file: &Path) {
    // kflow's own main function does the same.
    rustix::thread::disable_transparent_huge_pages(true).expect("the system has this switch");
    let begun = Instant::now();
    let now = kflow_model::clock::monotonic;
    let mut model = offscreen::model((200, 60), "dark").expect("theme");
    let mut player =
        Player::open(file, Moment::Begin, std::sync::Arc::default()).expect("a session");
    let wait = |player: &mut Player| {
        std::thread::sleep(Duration::from_millis(2));
        player.tick(now());
    };
    while player.is_empty() {
        wait(&mut player);
    }
    offscreen::frame(&mut model, &player.snapshot());
    row(
        "first frame",
        begun.elapsed().as_secs_f64(),
        "s",
        FIRST_FRAME_S,
    );
    while player.report().is_none() {
        wait(&mut player);
    }
    let damaged = player.report().map_or(0, |r| r.malformed);
    assert_eq!(damaged, 0, "lines of what was made cannot be read");
    println!(
        "{:46} {:9.2} s   {} observations",
        "loaded",
        begun.elapsed().as_secs_f64(),
        player.len()
    );
    let at = |phase: &str| println!("{:46} {:9.2} MB", format!("resident {phase}"), resident().0);
    at("when loaded");
    // The player's own thread finds the incidents meanwhile.
    while !player.overview().whole {
        wait(&mut player);
    }
    println!(
        "{:46} {:9.2} s   {} incidents",
        "looked through",
        begun.elapsed().as_secs_f64(),
        player.overview().incidents.len()
    );
    at("when looked through");
    let (begin, end) = player.range();
    let (mut seeks, mut busy, mut x) = (Vec::new(), Vec::new(), 1_i64);
    for _ in 0..60 {
        // Seeks to pseudo-random moments, forward and back.
        x = x * 48_271 % 0x7fff_ffff;
        let to = begin.plus(end.since(begin) / 1000 * (x % 1000));
        let (t, cpu) = (Instant::now(), used());
        player.seek(to);
        offscreen::frame(&mut model, &player.snapshot());
        seeks.push(t.elapsed().as_secs_f64() * 1e3);
        busy.push((used() - cpu) * 1e3);
    }
    for (what, all) in [("", &mut seeks), (", processor time", &mut busy)] {
        all.sort_by(f64::total_cmp);
        let nth = |p: usize| {
            all.get((all.len() * p / 100).min(all.len() - 1))
                .copied()
                .unwrap_or(0.0)
        };
        row(
            &format!("seek and frame{what}, p50"),
            nth(50),
            "ms",
            SEEK_MS,
        );
        row(
            &format!("seek and frame{what}, longest of 60"),
            nth(100),
            "ms",
            SEEK_MS,
        );
    }
    let t = Instant::now();
    player.seek_end();
    let snap = player.snapshot();
    println!(
        "{:46} {:9.2} ms  {} pods",
        "seek to the end",
        t.elapsed().as_secs_f64() * 1e3,
        snap.world.pods().len()
    );
    let (rss, peak) = resident();
    row("resident", rss, "MB", RESIDENT_MB);
    row("resident at most", peak, "MB", RESIDENT_MB);
}
