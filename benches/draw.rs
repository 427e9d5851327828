//! How long a frame takes at 200×60 with 10,000 pods and a million observations: bringing the model up to date after a
//! change, and drawing. Prints percentiles of 200 frames for each pane; `cargo bench --bench draw`.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark measures time and prints it"
)]

#[path = "../tests/it/churn.rs"]
mod churn;

use std::time::Instant;

use kflow::tui::action::Command;
use kflow::tui::pane::PaneId;
use kflow::tui::shots;
use kflow::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

fn percentile(sorted: &[u128], p: usize) -> f64 {
    let i = (sorted.len() * p / 100).min(sorted.len().saturating_sub(1));
    sorted.get(i).copied().unwrap_or(0) as f64 / 1e6
}

fn report(name: &str, mut ns: Vec<u128>) {
    ns.sort_unstable();
    println!(
        "{name:28} p50 {:7.3} ms   p99 {:7.3} ms   max {:7.3} ms",
        percentile(&ns, 50),
        percentile(&ns, 99),
        percentile(&ns, 100)
    );
}

fn main() {
    let (pods, observations) = (10_000, 1_000_000);
    let t = Instant::now();
    // Of a round of five, three are calls with two observations each: 620,000 steps make a million.
    let mut core = churn::core(pods, observations * 10 / 16);
    let now = churn::BEGIN.plus(2_000_000_000_000);
    let mut snap = churn::snapshot(&mut core, now);
    let (mut ms, mut version) = (2_000_000, 1_000_000);
    println!(
        "{} pods, {} observations, {} calls; built in {:.1} s",
        snap.world.pods().len(),
        snap.log.len(),
        snap.world.calls().len(),
        t.elapsed().as_secs_f64()
    );
    let mut m = shots::model((200, 60), "dark").expect("theme");
    shots::frame(&mut m, &snap);
    let mut buf = Buffer::empty(Rect::new(0, 0, 200, 60));
    let moves = ["j", "ctrl-d", "j", "G", "k", "g"];
    for layout in ["layout single", "layout dashboard"] {
        println!("{layout}");
        m.run(&Command::parse(layout).expect("layout"), &snap);
        for pane in PaneId::ALL {
            m.show(pane);
            if matches!(pane, PaneId::Log) {
                // Everything, not one pod's.
                shots::press(&mut m, &snap, "a");
            }
            let (mut draws, mut whole) = (Vec::new(), Vec::new());
            for i in 0..200_usize {
                // What arrives in a thirtieth of a second when 20,000 observations a second do.
                for k in 0..667_usize {
                    let p = churn::pod((i * 667 + k) % pods, "late", true);
                    core.observe(churn::line(ms, "SyncLoop (PLEG): event for pod", &p));
                }
                ms += 33;
                snap = churn::snapshot(&mut core, churn::BEGIN.plus(ms * 1_000_000));
                let key = moves.get(i % moves.len()).copied().unwrap_or("j");
                shots::press(&mut m, &snap, key);
                version += 1;
                snap.version = version;
                let t = Instant::now();
                m.sync(&snap);
                let synced = t.elapsed();
                view::draw(&m, &snap, &mut buf);
                let all = t.elapsed();
                draws.push(all.saturating_sub(synced).as_nanos());
                whole.push(all.as_nanos());
            }
            report(&format!("  {} draw", pane.name()), draws);
            report(&format!("  {} sync + draw", pane.name()), whole);
        }
    }
}
