//! `kflow tui --metrics`

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, ensure};

use kflow_agent::metrics::sources;
use kflow_agent::scrape::{self, Page};
use kflow_engine::live::Live;
use kflow_export::open_metrics;
use kflow_export::world_metrics::{self, Starts};

/// Serves the metrics of the newest snapshot until the process ends.
pub(super) fn serve(at: SocketAddr, live: &Live) -> anyhow::Result<()> {
    ensure!(
        at.ip().is_loopback(),
        "{at} can be reached from other machines: metrics are served on loopback only; name 127.0.0.1:{}",
        at.port()
    );
    let listener = TcpListener::bind(at)
        .with_context(|| format!("cannot listen on {at}: name another port with --metrics"))?;
    let newest = live.watch();
    let starts = Mutex::<Starts>::default();
    let page: Page = Arc::new(move || {
        let picture = newest();
        let mut starts = starts.lock().unwrap_or_else(PoisonError::into_inner);
        starts.look(&picture.world);
        let mut text = Vec::new();
        let mut page = open_metrics::Page::new(&mut text);
        let verdicts = picture
            .verdicts
            .values()
            .chain(picture.owner_verdicts.iter());
        world_metrics::write(&mut page, &starts, verdicts.map(|v| &**v))?;
        sources(&mut page, &picture.sources)?;
        page.end()?;
        Ok(text)
    });
    // The terminal shows the panes, so an error of this thread is visible only to the scraper.
    std::thread::Builder::new()
        .name("kflow-metrics".into())
        .spawn(move || scrape::serve(listener, &page))
        .context("cannot serve metrics")?;
    Ok(())
}
