//! `kflow keys`, `themes`, `config`: the terminal's settings.

use std::io::{ErrorKind, Write as _};
use std::path::Path;

use serde::Serialize;

use super::args::terminal::{ConfigArgs, KeysArgs, ThemesArgs};
use super::replay::options;
use super::{NO_SUCH, OK, out};
use kflow_core::query;
use kflow_core::suggest::suggest;
use kflow_export::rows;
use kflow_model::patient;
use kflow_tui::action::Action;
use kflow_tui::config::{self, Config};
use kflow_tui::theme;

/// A command of the terminal and its keys.
#[derive(Serialize)]
struct Bound<'a> {
    /// `global`, `list`, or the pane.
    #[serde(rename = "where")]
    scope: String,
    command: &'a str,
    /// Empty when the user's configuration unbinds the command.
    keys: Vec<String>,
    about: &'a str,
}

/// `kflow filter`
pub(super) fn filter() -> anyhow::Result<u8> {
    let mut out = out::stdout();
    out.write_all(query::docs::text().as_bytes())?;
    out.flush()?;
    Ok(OK)
}

pub(super) fn keys(args: &KeysArgs) -> anyhow::Result<u8> {
    let o = options(None);
    let (config, file) = read(o.config.as_deref());
    let (map, warnings) = config.keymap(&file);
    let all = Action::ALL.iter().map(|a| Bound {
        scope: a.scope().to_string(),
        command: a.name(),
        keys: map.keys(*a).iter().map(ToString::to_string).collect(),
        about: a.help(),
    });
    let mut out = out::stdout();
    if let Some(form) = args.output.rows() {
        rows::values(&mut out, form, all)?;
    } else {
        writeln!(out, "{:10} {:18} {:24} WHAT", "WHERE", "COMMAND", "KEYS")?;
        for b in all {
            let keys = b.keys.join(" ");
            writeln!(out, "{:10} {:18} {keys:24} {}", b.scope, b.command, b.about)?;
        }
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

/// A theme, or a key of themes, with its description.
#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    about: &'a str,
}

pub(super) fn themes(a: &ThemesArgs) -> anyhow::Result<u8> {
    let mut out = out::stdout();
    if let Some(name) = &a.print {
        let Some((_, text)) = theme::BUILT_IN.iter().find(|(n, _)| n == name) else {
            let near = suggest(name, theme::BUILT_IN.iter().map(|(n, _)| *n), |n| n);
            told(&[match near.as_slice() {
                [] => format!("no theme {name}: `kflow themes` lists them"),
                near => format!("no theme {name}: did you mean {}?", near.join(", ")),
            }]);
            return Ok(NO_SUCH);
        };
        out.write_all(text.as_bytes())?;
        out.flush()?;
        return Ok(OK);
    }
    let (head, width, all): (_, _, Vec<Named<'_>>) = if a.keys {
        let keys = theme::KEYS.iter();
        let all = keys.map(|(name, about)| Named { name, about }).collect();
        ("KEY", 18, all)
    } else {
        let about = |text: &'static str| text.lines().next().unwrap_or_default();
        let all = theme::BUILT_IN.iter().map(|(name, text)| Named {
            name,
            about: about(text).trim_start_matches("# "),
        });
        ("THEME", 15, all.collect())
    };
    if let Some(form) = a.output.rows() {
        rows::values(&mut out, form, all.into_iter())?;
    } else {
        writeln!(out, "{head:width$} WHAT")?;
        for Named { name, about } in all {
            writeln!(out, "{name:width$} {about}")?;
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
        // Prints every warning that the terminal would print.
        let (config, file) = read(o.config.as_deref());
        told(&config.keymap(&file).1);
        let beside = o.config.map(config::Watched::new);
        let theme = |name: &str| beside.as_ref().and_then(|w| w.theme(name));
        told(&config.look(&o.environment, &file, &theme).1);
    }
    out.flush()?;
    Ok(OK)
}
