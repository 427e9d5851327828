//! `kflow replay`, `demo`, `tui --session`: a recording in the terminal.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::args::live::TuiArgs;
use super::args::terminal::{DemoArgs, ReplayArgs};
use super::args::{Colour, naming};
use super::out::chosen_colour;
use super::{OK, recording, scope};
use kflow_core::query::Moment;
use kflow_engine::replay::Player;
use kflow_model::session::Reader;
use kflow_tui::backend::{Backend as _, Drive};
use kflow_tui::config::{self, Environment};
use kflow_tui::pane::PaneId;
use kflow_tui::replay::Replay;
use kflow_tui::run::{Options, run};
use kflow_tui::timezone::Zone;
use kflow_tui::tour::{Guide, PARTS, Part};

/// A recorded node with pods that hang: for `kflow demo`.
const DEMO: &[u8] = include_bytes!("../../fixtures/sessions/S2-stuck-early.kflow.zst");
/// A recorded node with a pod that starts well: for the tour.
const WELL: &[u8] = include_bytes!("../../fixtures/sessions/S1-basics.kflow.zst");

/// Start of the demo, half-way through the recording: pods hang for every reason.
pub(super) const DEMO_BEGINS: Moment = Moment::Later(100_000_000_000);

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// Options from the environment: terminal, configuration and time zone.
pub(super) fn options(theme: Option<String>) -> Options {
    let home = var("HOME");
    Options {
        config: config::path(var("XDG_CONFIG_HOME").as_deref(), home.as_deref()),
        theme,
        environment: Environment {
            no_color: match chosen_colour() {
                Colour::Auto => var("NO_COLOR"),
                Colour::Always => None,
                Colour::Never => Some("--color never".to_owned()),
            },
            colorterm: var("COLORTERM"),
            term: var("TERM"),
            locale: var("LC_ALL")
                .or_else(|| var("LC_CTYPE"))
                .or_else(|| var("LANG")),
        },
        zone: Zone::of_the_system(),
        state: var("XDG_STATE_HOME")
            .or_else(|| home.map(|h| format!("{h}/.local/state")))
            .map(|d| Path::new(&d).join("kflow")),
        pane: None,
        filter: None,
        recording: String::new(),
        tour: false,
        strip: false,
    }
}

/// Parses `--at`.
fn start(at: Option<&str>) -> anyhow::Result<Option<Moment>> {
    at.map(super::moment).transpose()
}

/// `kflow replay`
pub(super) fn replay(a: &ReplayArgs) -> anyhow::Result<u8> {
    super::flow::take_map(None)?;
    let selection = scope::selection(&scope::named(&a.scope, None)?)?;
    let begin = start(a.at.as_deref())?;
    let session = a.session.as_ref().context("name a session, or --store")?;
    let player = recording::play(session, a.scope.node.as_deref(), begin, selection)?;
    let mut driver = Replay::new(player);
    if let Some(speed) = a.speed {
        driver.player().set_speed(speed.0);
    }
    // Without a speed the recording stands still, so that who reads its incidents stays where they are.
    if a.speed.is_some() && !a.paused && a.at.is_none() {
        driver
            .drive(Drive::PlayPause, kflow_model::clock::monotonic())
            .map_err(anyhow::Error::msg)?;
    }
    let mut o = options(a.theme.clone());
    o.pane = Some(PaneId::Incidents);
    o.filter.clone_from(&a.filter);
    o.recording = naming(a.session.as_deref(), &a.store).unwrap_or_default();
    run(&mut driver, &o)?;
    Ok(OK)
}

/// `kflow tui --session`: paused at the requested moment.
pub(super) fn play(a: &TuiArgs, session: &Path) -> anyhow::Result<u8> {
    super::input::only_recorded(&a.live)?;
    super::flow::take_map(None)?;
    let selection = scope::selection(&scope::named(&a.live.scope, None)?)?;
    let begin = start(a.at.as_deref())?;
    let node = a.live.scope.node.as_deref();
    let mut driver = Replay::new(recording::play(session, node, begin, selection)?);
    let mut o = options(a.theme.clone());
    o.pane = Some(PaneId::Incidents);
    o.recording = naming(Some(session), &a.store).unwrap_or_default();
    run(&mut driver, &o)?;
    Ok(OK)
}

/// `kflow demo`
pub(super) fn demo(a: &DemoArgs) -> anyhow::Result<u8> {
    super::flow::take_map(None)?;
    if a.tour {
        return tour(a);
    }
    let reader = Reader::new("demo", Box::new(DEMO), DEMO.len() as u64)?;
    let mut driver = Replay::new(Player::new(reader, "demo", DEMO_BEGINS, Arc::default()));
    let mut o = options(a.theme.clone());
    o.strip = true;
    run(&mut driver, &o)?;
    Ok(OK)
}

/// `kflow demo --tour`
fn tour(a: &DemoArgs) -> anyhow::Result<u8> {
    let [well, stuck] = PARTS;
    let player = |part: Part, bytes: &'static [u8]| -> anyhow::Result<Replay> {
        let reader = Reader::new(part.session, Box::new(bytes), bytes.len() as u64)?;
        let begin = part
            .stops
            .first()
            .map_or(Moment::Begin, |s| Moment::At(s.at));
        let player = Player::new(reader, part.session, begin, Arc::default());
        Ok(Replay::new(player))
    };
    let mut guide = Guide::new(player(well, WELL)?, [player(stuck, DEMO)?]);
    let mut o = options(a.theme.clone());
    o.tour = true;
    run(&mut guide, &o)?;
    Ok(OK)
}
