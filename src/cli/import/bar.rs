//! A progress bar on standard error.

use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kflow_engine::import::Progress;

pub(super) const READING: &str = "reading {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
pub(super) const WRITING: &str = "writing {wide_bar} {human_pos}/{human_len} observations {eta}";

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
