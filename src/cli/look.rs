//! `kflow replay`, `demo`, and what the terminal can be set to: `keys`, `themes`, `config`, `screenshots`.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::args::live::TuiArgs;
use super::args::look::{ConfigArgs, ReplayArgs, ScreenshotArgs, ThemesArgs};
use super::{OK, out, scope};
use kflow_core::query::Moment;
use kflow_engine::Core;
use kflow_engine::replay::Player;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_model::file::{self, Access};
use kflow_model::session::Reader;
use kflow_tui::action::Action;
use kflow_tui::config::{self, Config, Environment};
use kflow_tui::driver::{Drive, Driver as _};
use kflow_tui::replay::Replay;
use kflow_tui::run::{Options, run};
use kflow_tui::zone::Zone;
use kflow_tui::{shots, theme};

/// A recorded node with pods that hang, for `kflow demo`.
const DEMO: &[u8] = include_bytes!("../../fixtures/sessions/S2-stuck-early.kflow.zst");

fn var(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|v| !v.is_empty())
}

/// What the environment says of the terminal, the configuration and the time zone.
pub(super) fn options(theme: Option<String>) -> Options {
    let home = var("HOME");
    Options {
        config: config::path(var("XDG_CONFIG_HOME").as_deref(), home.as_deref()),
        theme,
        environment: Environment {
            no_color: var("NO_COLOR"),
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
    }
}

/// Where `--at` begins.
fn start(at: Option<&str>) -> anyhow::Result<Moment> {
    let Some(text) = at else {
        return Ok(Moment::Begin);
    };
    super::moment(text)
}

/// `kflow replay`
pub(super) fn replay(a: &ReplayArgs) -> anyhow::Result<u8> {
    super::control::take_map(None)?;
    let selection = scope::selection(&scope::named(&a.scope, None)?)?;
    let begin = start(a.at.as_deref())?;
    let mut driver = Replay::new(Player::open(&a.session, begin, selection)?);
    driver.player().set_speed(a.speed.0);
    if !a.paused && a.at.is_none() {
        driver
            .drive(Drive::PlayPause, kflow_model::clock::monotonic())
            .map_err(anyhow::Error::msg)?;
    }
    let mut o = options(a.theme.clone());
    o.filter.clone_from(&a.filter);
    run(&mut driver, &o)?;
    Ok(OK)
}

/// `kflow tui --session`: paused where it was asked for.
pub(super) fn play(a: &TuiArgs, session: &Path) -> anyhow::Result<u8> {
    super::input::only_recorded(&a.live)?;
    super::control::take_map(None)?;
    let selection = scope::selection(&scope::named(&a.live.scope, None)?)?;
    let begin = start(a.at.as_deref())?;
    let mut driver = Replay::new(Player::open(session, begin, selection)?);
    run(&mut driver, &options(a.theme.clone()))?;
    Ok(OK)
}

pub(super) fn demo() -> anyhow::Result<u8> {
    super::control::take_map(None)?;
    let reader = Reader::new("demo", Box::new(DEMO), DEMO.len() as u64)?;
    // Where pods hang for every reason, half-way through.
    let mut driver = Replay::new(Player::new(
        reader,
        "demo",
        Moment::Later(100_000_000_000),
        Arc::default(),
    ));
    run(&mut driver, &options(None))?;
    Ok(OK)
}

pub(super) fn keys() -> anyhow::Result<u8> {
    let o = options(None);
    let (config, file) = read(o.config.as_deref());
    let (map, warnings) = config.keymap(&file);
    let mut out = out::stdout();
    for a in Action::ALL {
        writeln!(
            out,
            "{:10} {:18} {:24} {}",
            a.scope().name(),
            a.name(),
            map.text(*a),
            a.help()
        )?;
    }
    out.flush()?;
    told(&warnings);
    Ok(OK)
}

fn read(path: Option<&Path>) -> (Config, String) {
    let file = path.map(|p| p.display().to_string()).unwrap_or_default();
    let Some(text) = path.and_then(|p| std::fs::read_to_string(p).ok()) else {
        return (Config::default(), file);
    };
    let (c, warnings) = Config::parse(&text, &file);
    told(&warnings);
    (c, file)
}

#[expect(clippy::print_stderr, reason = "warnings belong on standard error")]
fn told(warnings: &[String]) {
    for w in warnings {
        eprintln!("kflow: {w}");
    }
}

pub(super) fn themes(a: &ThemesArgs) -> anyhow::Result<u8> {
    let mut out = out::stdout();
    if a.keys {
        for (k, text) in theme::KEYS {
            writeln!(out, "{k:18} {text}")?;
        }
    } else if let Some(name) = &a.print {
        let (_, text) = theme::BUILT_IN
            .iter()
            .find(|(n, _)| n == name)
            .with_context(|| format!("there is no theme \"{name}\"; `kflow themes` lists them"))?;
        out.write_all(text.as_bytes())?;
    } else {
        for (name, text) in theme::BUILT_IN {
            let about = text
                .lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("# ");
            writeln!(out, "{name:15} {about}")?;
        }
    }
    out.flush()?;
    Ok(OK)
}

pub(super) fn configuration(a: &ConfigArgs) -> anyhow::Result<u8> {
    let mut out = out::stdout();
    if a.print_default {
        out.write_all(Config::print_default().as_bytes())?;
    } else {
        let o = options(None);
        match &o.config {
            Some(p) => writeln!(out, "{}", p.display())?,
            None => writeln!(
                out,
                "neither XDG_CONFIG_HOME nor HOME is set: no configuration is read"
            )?,
        }
        // Everything that the terminal would complain of.
        let (config, file) = read(o.config.as_deref());
        told(&config.keymap(&file).1);
        let beside = o.config.map(config::Watched::new);
        let theme = |name: &str| beside.as_ref().and_then(|w| w.theme(name));
        told(&config.look(&o.environment, &file, &theme).1);
    }
    out.flush()?;
    Ok(OK)
}

/// A session up to a moment as the terminal would see it.
fn picture(dir: &Path, session: &str, permille: u16) -> anyhow::Result<Snapshot> {
    let path = dir.join(format!("{session}.kflow.zst"));
    let s = super::input::load(&path)?;
    let (begin, end) = s.range().context("the session is empty")?;
    let now = begin.plus(end.since(begin) / 1000 * i64::from(permille));
    let mut core = Core::new();
    for o in s.observations.iter().take(s.arrived_by(now)) {
        core.observe(Arc::clone(o));
    }
    let mode = Mode::paused(session);
    Ok(core.snapshot(now, mode, (begin, end), Vec::new()))
}

pub(super) fn screenshots(a: &ScreenshotArgs) -> anyhow::Result<u8> {
    std::fs::create_dir_all(&a.out).with_context(|| format!("cannot make {}", a.out.display()))?;
    let mut stale = Vec::new();
    for shot in shots::SHOTS {
        let snap = picture(&a.sessions, shot.session, shot.at_permille)?;
        let svg = shots::render(shot, &snap).with_context(|| format!("theme {}", shot.theme))?;
        let path = a.out.join(format!("{}.svg", shot.name));
        if a.check {
            if std::fs::read_to_string(&path).ok().as_deref() != Some(&svg) {
                stale.push(path.display().to_string());
            }
        } else {
            file::write(&path, Access::Public, svg.as_bytes())?;
        }
    }
    anyhow::ensure!(
        stale.is_empty(),
        "not current: {}; run kflow screenshots",
        stale.join(", ")
    );
    Ok(OK)
}
