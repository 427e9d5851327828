//! How long a frame takes at 200×60 with 10,000 pods and 3.5 million observations, while 20,000 more arrive each second:
//! bringing the model up to date and drawing, and from a key to its frame. Percentiles of 200 frames for each pane, by
//! the clock and as processor time of this thread, which other work on the machine does not lengthen.
//! `cargo bench --bench draw`, or only some panes and one layout: `cargo bench --bench draw -- dashboard pods log`
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::cast_sign_loss,
    reason = "a benchmark measures time and prints it"
)]

#[path = "shared/allocator.rs"]
mod allocator;
#[path = "../tests/it/churn.rs"]
mod churn;

use std::time::Instant;

use kflow_engine::snapshot::Mode;
use kflow_tui::action::Command;
use kflow_tui::offscreen;
use kflow_tui::pane::PaneId;
use kflow_tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::time::{ClockId, clock_gettime};

fn percentile(sorted: &[u128], p: usize) -> f64 {
    // Nearest rank, as everywhere in kflow.
    let i = (sorted.len() * p).div_ceil(100).saturating_sub(1);
    sorted.get(i).copied().unwrap_or(0) as f64 / 1e6
}

/// Returns the elapsed time and the processor time of this thread; ns.
fn times() -> (u128, u128) {
    let now = |id| {
        let t = clock_gettime(id);
        t.tv_sec as u128 * 1_000_000_000 + t.tv_nsec as u128
    };
    (now(ClockId::Monotonic), now(ClockId::ThreadCPUTime))
}

fn report(name: &str, frames: &[(u128, u128)]) {
    let mut clock: Vec<u128> = frames.iter().map(|f| f.0).collect();
    let mut cpu: Vec<u128> = frames.iter().map(|f| f.1).collect();
    clock.sort_unstable();
    cpu.sort_unstable();
    println!(
        "{name:24} processor p50 {:6.3} p99 {:6.3} max {:6.3} ms   clock p50 {:6.3} p99 {:6.3} max {:6.3} ms",
        percentile(&cpu, 50),
        percentile(&cpu, 99),
        percentile(&cpu, 100),
        percentile(&clock, 50),
        percentile(&clock, 99),
        percentile(&clock, 100)
    );
}

fn main() {
    let (pods, observations) = (10_000, 3_500_000);
    let t = Instant::now();
    // Of five steps, three are calls with two observations each, so 2.2 million steps give 3.5 million observations.
    let mut pipeline = churn::pipeline(pods, observations * 10 / 16);
    let now = churn::BEGIN.plus(2_000_000_000_000);
    let mut snap = churn::snapshot(&mut pipeline, now);
    let mut ms = 2_000_000;
    println!(
        "{} pods, {} observations, {} calls; built in {:.1} s",
        snap.world.pods().len(),
        snap.log.len(),
        snap.world.calls().len(),
        t.elapsed().as_secs_f64()
    );
    let mut m = offscreen::model((200, 60), "dark").expect("theme");
    offscreen::frame(&mut m, &snap);
    let mut buf = Buffer::empty(Rect::new(0, 0, 200, 60));
    let moves = ["j", "ctrl-d", "j", "G", "k", "g"];
    // `cargo bench` adds `--bench`.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let layouts = ["single", "dashboard"];
    let named = |name: &str| asked.iter().any(|a| a.eq_ignore_ascii_case(name));
    let any_layout = !layouts.iter().any(|l| named(l));
    let any_pane = !PaneId::ALL.iter().any(|p| named(p.name()));
    for layout in layouts.into_iter().filter(|l| any_layout || named(l)) {
        let layout = &format!("layout {layout}");
        println!("{layout}");
        m.run(&Command::parse(layout).expect("layout"), &snap);
        for pane in PaneId::ALL
            .into_iter()
            .filter(|p| any_pane || named(p.name()))
        {
            m.show(pane);
            if matches!(pane, PaneId::Log) {
                // Everything, not only the selected pod's rows.
                offscreen::press(&mut m, &snap, "a");
            }
            let (mut frames, mut keys) = (Vec::new(), Vec::new());
            for i in 0..200_usize {
                // At 20,000 observations per second 667 arrive in a thirtieth of a second.
                for k in 0..667_usize {
                    let p = churn::pod((i * 667 + k) % pods, "late", true);
                    pipeline.observe(churn::line(ms, "SyncLoop (PLEG): event for pod", &p));
                }
                ms += 33;
                snap = churn::snapshot(&mut pipeline, churn::BEGIN.plus(ms * 1_000_000));
                snap.mode = Mode::Replay {
                    name: "churn".into(),
                    playing: true,
                    speed_permille: 1000,
                    loading_permille: 1000,
                };
                let begin = times();
                m.sync(&snap);
                view::draw(&m, &snap, &mut buf);
                let drawn = times();
                let key = moves.get(i % moves.len()).copied().unwrap_or("j");
                offscreen::press(&mut m, &snap, key);
                m.sync(&snap);
                view::draw(&m, &snap, &mut buf);
                let pressed = times();
                frames.push((drawn.0 - begin.0, drawn.1 - begin.1));
                keys.push((pressed.0 - drawn.0, pressed.1 - drawn.1));
            }
            report(&format!("  {} frame", pane.name()), &frames);
            report(&format!("  {} key to frame", pane.name()), &keys);
        }
    }
}
