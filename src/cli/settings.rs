//! `kflow keys`, `themes`, `config`: what the terminal can be set to.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use super::args::terminal::{ConfigArgs, ThemesArgs};
use super::replay::options;
use super::{NO_SUCH, OK, out};
use kflow_core::suggest::suggest;
use kflow_model::patient;
use kflow_tui::action::Action;
use kflow_tui::config::{self, Config};
use kflow_tui::theme;

pub(super) fn keys() -> anyhow::Result<u8> {
    let o = options(None);
    let (config, file) = read(o.config.as_deref());
    let (map, warnings) = config.keymap(&file);
    let mut out = out::stdout();
    writeln!(out, "{:10} {:18} {:24} WHAT", "WHERE", "COMMAND", "KEYS")?;
    for a in Action::ALL {
        writeln!(
            out,
            "{:10} {:18} {:24} {}",
            a.scope().to_string(),
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
    let text = match path.map(patient::read_to_string) {
        None => return (Config::default(), file),
        Some(Ok(text)) => text,
        Some(Err(e)) => {
            if e.kind() != ErrorKind::NotFound {
                told(&[format!("cannot read {file}: {e}")]);
            }
            return (Config::default(), file);
        }
    };
    let (c, warnings) = Config::parse(&text, &file);
    told(&warnings);
    (c, file)
}

fn told(warnings: &[String]) {
    for w in warnings {
        super::out::tell(w);
    }
}

pub(super) fn themes(a: &ThemesArgs) -> anyhow::Result<u8> {
    let mut out = out::stdout();
    if a.keys {
        writeln!(out, "{:18} WHAT", "KEY")?;
        for (k, text) in theme::KEYS {
            writeln!(out, "{k:18} {text}")?;
        }
    } else if let Some(name) = &a.print {
        let Some((_, text)) = theme::BUILT_IN.iter().find(|(n, _)| n == name) else {
            let near = suggest(name, theme::BUILT_IN.iter().map(|(n, _)| *n), |n| n);
            told(&[match near.as_slice() {
                [] => format!("no theme {name}: `kflow themes` lists them"),
                near => format!("no theme {name}: did you mean {}?", near.join(", ")),
            }]);
            return Ok(NO_SUCH);
        };
        out.write_all(text.as_bytes())?;
    } else {
        writeln!(out, "{:15} ABOUT", "THEME")?;
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
