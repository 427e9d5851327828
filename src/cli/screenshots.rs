//! `kflow screenshots`

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::OK;
use super::args::terminal::ScreenshotArgs;
use kflow_engine::replay::Player;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_engine::{Overview, Pipeline};
use kflow_model::file::{self, Access};
use kflow_model::{clock, patient};
use kflow_tui::backend::Backend as _;
use kflow_tui::offscreen::played::Played;
use kflow_tui::replay::Replay;
use kflow_tui::{cast, offscreen};

/// A session up to a moment, as the terminal would show it. `known` caches the overviews of sessions.
fn picture(
    dir: &Path,
    session: &'static str,
    permille: u16,
    known: &mut BTreeMap<&'static str, Arc<Overview>>,
) -> anyhow::Result<Snapshot> {
    let path = dir.join(format!("{session}.kflow.zst"));
    let s = super::input::load(&path, None)?;
    let (begin, end) = s.range().context("the session is empty")?;
    let now = begin.plus(end.since(begin) / 1000 * i64::from(permille));
    let mut pipeline = Pipeline::new();
    for o in s.observations.iter().take(s.arrived_by(now)) {
        pipeline.observe(Arc::clone(o));
    }
    let mode = Mode::paused(session);
    let overview = known.entry(session).or_insert_with(|| {
        Arc::new(Overview::of(
            &s.observations,
            Arc::default(),
            None,
            (begin, end),
        ))
    });
    Ok(Snapshot {
        overview: Arc::clone(overview),
        ..pipeline.snapshot(now, mode, (begin, end), Vec::new())
    })
}

/// The first minute of `kflow demo`.
const CAST: &str = "first-minute.cast";

fn first_minute(sessions: &Path) -> anyhow::Result<String> {
    let path = sessions.join("S2-stuck-early.kflow.zst");
    let player = Player::open(&path, super::replay::DEMO_BEGINS, Arc::default())?;
    let mut backend = Replay::new(player);
    let now = clock::monotonic();
    // The search for past incidents runs in another thread.
    while !backend.player().overview().whole {
        backend.snapshot(now);
        std::thread::yield_now();
    }
    let mut model = offscreen::model((100, 30), "dark").context("theme dark")?;
    model.strip = true;
    let mut screen = Played {
        model,
        backend,
        now,
    };
    cast::record(
        &mut screen,
        cast::FIRST_MINUTE,
        "kflow demo: the first minute",
    )
    .context("writing the cast")
}

pub(super) fn screenshots(a: &ScreenshotArgs) -> anyhow::Result<u8> {
    let dir = a.out.clone();
    patient::ask(&a.out, move || std::fs::create_dir_all(dir))
        .flatten()
        .with_context(|| format!("cannot make {}", a.out.display()))?;
    let mut stale = Vec::new();
    let mut known = BTreeMap::new();
    for shot in offscreen::SHOTS {
        let snap = picture(&a.sessions, shot.session, shot.at_permille, &mut known)?;
        let svg =
            offscreen::render(shot, &snap).with_context(|| format!("theme {}", shot.theme))?;
        let path = a.out.join(format!("{}.svg", shot.name));
        if a.check {
            if patient::read_to_string(&path).ok().as_deref() != Some(&svg) {
                stale.push(path.display().to_string());
            }
        } else {
            file::write(&path, Access::Public, svg.as_bytes())?;
        }
    }
    let path = a.out.join(CAST);
    let text = first_minute(&a.sessions)?;
    if !a.check {
        file::write(&path, Access::Public, text.as_bytes())?;
    } else if patient::read_to_string(&path).ok().as_deref() != Some(&text) {
        stale.push(path.display().to_string());
    }
    anyhow::ensure!(
        stale.is_empty(),
        "not current: {}; run kflow screenshots",
        stale.join(", ")
    );
    Ok(OK)
}
