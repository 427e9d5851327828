//! A progress bar on standard error.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kflow_engine::import::Progress;
use kflow_model::Evidence;

pub(super) const READING: &str = "reading {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
pub(super) const WRITING: &str = "writing {wide_bar} {human_pos}/{human_len} observations {eta}";
const LOOKING: &str =
    "looking at each moment {wide_bar} {human_pos}/{human_len} observations {eta}";

/// Passes on `known` observations, which a walk through all moments takes, with a bar on a terminal.
pub(super) fn looking<'o, T>(
    observations: impl Iterator<Item = &'o Evidence>,
    known: usize,
    walk: impl FnOnce(&mut dyn Iterator<Item = &'o Evidence>) -> T,
) -> T {
    let progress = Arc::new(Progress::default());
    progress.total.store(known as u64, Ordering::Relaxed);
    let shown = std::io::stderr().is_terminal();
    let bar = shown.then(|| Bar::start(&progress, LOOKING));
    let walked = walk(&mut observations.inspect(|_| {
        progress.taken.fetch_add(1, Ordering::Relaxed);
    }));
    if let Some(bar) = bar {
        bar.stop();
    }
    walked
}

/// A progress bar that reads the counters ten times a second.
pub(super) struct Bar {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Bar {
    pub(super) fn start(progress: &Arc<Progress>, template: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (progress, stopped) = (Arc::clone(progress), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let style = ProgressStyle::with_template(template);
            let bar = ProgressBar::new(0);
            if let Ok(style) = style {
                bar.set_style(style);
            }
            while !stopped.load(Ordering::Relaxed) {
                bar.set_length(progress.total.load(Ordering::Relaxed));
                bar.set_position(progress.taken.load(Ordering::Relaxed));
                std::thread::park_timeout(Duration::from_millis(100));
            }
            bar.finish_and_clear();
        });
        Self { stop, thread }
    }

    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        if self.thread.join().is_err() {
            // A panic in the bar's thread costs only its drawing.
        }
    }
}
