//! What the tap costs a process that it does not watch: nanoseconds that a system call gains, off and on in turn.
//!
//!     cargo run -p kflow-tap --example cost [ROUNDS]
//!
//! Of each kind the least of all rounds counts: what else the machine does only ever adds.

#![expect(clippy::print_stdout, reason = "it prints")]

use std::fs::File;
use std::hint::black_box;
use std::io::Read as _;
use std::time::Duration;

use kflow_model::clock;
use kflow_tap::{Config, Tap};

/// Calls of one round.
const CALLS: u32 = 1_000_000;

/// Nanoseconds that one call takes.
fn time(mut call: impl FnMut()) -> f64 {
    let begin = clock::monotonic();
    for _ in 0..CALLS {
        call();
    }
    let took: Duration = clock::monotonic().saturating_duration_since(begin);
    took.as_secs_f64() * 1e9 / f64::from(CALLS)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(5), |n| n.parse())?;
    let mut zero = File::open("/dev/zero")?;
    let mut byte = [0];
    // A call that no program is attached to pays for tracepoints of system calls being on at all.
    let mut measure = |least: &mut [f64; 2]| {
        let parent = time(|| {
            black_box(rustix::process::getppid());
        });
        let read = time(|| {
            black_box(zero.read(&mut byte).is_ok());
        });
        for (least, now) in least.iter_mut().zip([parent, read]) {
            *least = least.min(now);
        }
    };
    let (mut off, mut on) = ([f64::MAX; 2], [f64::MAX; 2]);
    for _ in 0..rounds {
        measure(&mut off);
        let config = Config {
            socket: "/run/no-such-runtime.sock".into(),
            ..Config::default()
        };
        let tap = Tap::start(config, |_| true)?;
        measure(&mut on);
        tap.stop();
    }
    println!(
        "{:<20} {:>8} {:>8} {:>8} {:>6}",
        "ns a call", "off", "on", "gains", "ratio"
    );
    for (name, (off, on)) in ["getppid", "read of /dev/zero"]
        .iter()
        .zip(off.iter().zip(on))
    {
        println!(
            "{name:<20} {off:>8.0} {on:>8.0} {:>8.0} {:>6.2}",
            on - off,
            on / off
        );
    }
    Ok(())
}
