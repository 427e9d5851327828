//! The user's configuration: `$XDG_CONFIG_HOME/kflow/config.toml`, else `~/.config/kflow/config.toml`. Every key is
//! optional; an unknown key gives a warning with the file and the key.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::action::{Action, Command};
use super::keys::Keymap;
use super::layout::Layout;
use super::model::Look;
use super::pane::pods::Chosen;
use super::theme::{BUILT_IN, Depth, Theme};
use kflow_model::patient;

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name of a built-in theme, or of a file in `themes/` beside the configuration.
    pub theme: String,
    /// `auto` (by the size of the screen), `single`, `split` or `dashboard`.
    pub layout: String,
    /// `auto`, `unicode` or `ascii`.
    pub charset: String,
    /// `auto`, `true`, `256`, `16` or `none`.
    pub colours: String,
    /// Whether the terminal reports mouse events to kflow.
    pub mouse: bool,
    /// Whether times are in UTC instead of local time.
    pub utc: bool,
    /// Limit on frames per second.
    pub frame_rate: u16,
    /// Keys by name of the action.
    pub keys: BTreeMap<String, Vec<String>>,
    /// Styles by name, which override those of the theme.
    pub style: BTreeMap<String, String>,
    /// Columns of the list of pods; empty for as many as fit.
    pub columns: Vec<Chosen>,
    /// Commands of the palette by name of the view that they lead to.
    pub views: BTreeMap<String, Vec<Command>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            theme: "dark".to_owned(),
            layout: "auto".to_owned(),
            charset: "auto".to_owned(),
            colours: "auto".to_owned(),
            mouse: true,
            utc: false,
            frame_rate: 30,
            keys: BTreeMap::new(),
            style: BTreeMap::new(),
            columns: Vec::new(),
            views: BTreeMap::new(),
        }
    }
}

/// The environment variables that describe the terminal, passed in by the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    pub no_color: Option<String>,
    pub colorterm: Option<String>,
    pub term: Option<String>,
    /// The first of `LC_ALL`, `LC_CTYPE`, `LANG` that is set.
    pub locale: Option<String>,
}

impl Environment {
    /// True when the terminal can show more than ASCII.
    pub fn unicode(&self) -> bool {
        let utf8 = self.locale.as_deref().is_some_and(|l| {
            let l = l.to_lowercase();
            l.contains("utf-8") || l.contains("utf8")
        });
        // The Linux console's font has few of the symbols.
        utf8 && !matches!(self.term.as_deref(), Some("linux" | "dumb" | "vt100"))
    }
}

/// Moves the value of a key out of a table into `to`. Returns false if the key is missing, or if the value has the
/// wrong type, which adds a warning.
fn take<T: serde::de::DeserializeOwned>(
    table: &mut toml::Table,
    within: &str,
    key: &str,
    file: &str,
    to: &mut T,
    warnings: &mut Vec<String>,
) -> bool {
    let Some(value) = table.remove(key) else {
        return false;
    };
    match value.try_into() {
        Ok(v) => {
            *to = v;
            true
        }
        Err(e) => {
            warnings.push(format!("{file}: {within}{key}: {}", e.message()));
            false
        }
    }
}

impl Config {
    /// Parses a configuration. Warnings name `file` and the key. Text that is not TOML gives one warning and the
    /// default configuration.
    pub fn parse(text: &str, file: &str) -> (Self, Vec<String>) {
        Self::read(text, file).unwrap_or_else(|why| (Self::default(), vec![why]))
    }
    /// Parses a configuration and returns it with warnings, or an error with the line if the text is not TOML.
    pub fn read(text: &str, file: &str) -> Result<(Self, Vec<String>), String> {
        let mut table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            let before = e.span().and_then(|s| text.get(..s.start));
            let line = before.map_or(1, |b| b.lines().count().max(1));
            format!("{file}:{line}: {}", e.message())
        })?;
        // Each key is read by itself, so that a wrong value does not affect the others.
        let mut config = Self::default();
        let mut warnings = Vec::new();
        let w = &mut warnings;
        take(&mut table, "", "theme", file, &mut config.theme, w);
        take(&mut table, "", "layout", file, &mut config.layout, w);
        take(&mut table, "", "charset", file, &mut config.charset, w);
        take(&mut table, "", "colours", file, &mut config.colours, w);
        take(&mut table, "", "mouse", file, &mut config.mouse, w);
        take(&mut table, "", "utc", file, &mut config.utc, w);
        take(
            &mut table,
            "",
            "frame-rate",
            file,
            &mut config.frame_rate,
            w,
        );
        let (mut keys, mut style) = (toml::Table::new(), toml::Table::new());
        take(&mut table, "", "keys", file, &mut keys, w);
        take(&mut table, "", "style", file, &mut style, w);
        for name in keys.keys().cloned().collect::<Vec<_>>() {
            // A single key may be a string instead of a list.
            if let Some(toml::Value::String(key)) = keys.get(&name) {
                config.keys.insert(name, vec![key.clone()]);
                continue;
            }
            let mut list = Vec::new();
            if take(&mut keys, "keys.", &name, file, &mut list, w) {
                config.keys.insert(name, list);
            }
        }
        for name in style.keys().cloned().collect::<Vec<_>>() {
            let mut text = String::new();
            if take(&mut style, "style.", &name, file, &mut text, w) {
                config.style.insert(name, text);
            }
        }
        let (mut columns, mut views) = (Vec::<String>::new(), toml::Table::new());
        take(&mut table, "", "columns", file, &mut columns, w);
        for name in &columns {
            match Chosen::parse(name) {
                Ok(c) => config.columns.push(c),
                Err(why) => w.push(format!("{file}: columns: {why}")),
            }
        }
        take(&mut table, "", "views", file, &mut views, w);
        for name in views.keys().cloned().collect::<Vec<_>>() {
            let mut lines = Vec::<String>::new();
            if !take(&mut views, "views.", &name, file, &mut lines, w) {
                continue;
            }
            let mut commands = Vec::new();
            for line in &lines {
                match Command::parse(line).filter(|c| c.action != Action::View) {
                    Some(c) => commands.push(c),
                    None => w.push(format!(
                        "{file}: views.{name}: there is no command \"{line}\""
                    )),
                }
            }
            config.views.insert(name, commands);
        }
        warnings.extend(table.keys().map(|k| format!("{file}: {k}: unknown key")));
        let mut one_of = |key: &str, value: &mut String, allowed: &[&str]| {
            if !allowed.contains(&value.as_str()) {
                warnings.push(format!(
                    "{file}: {key}: \"{value}\" is none of {}",
                    allowed.join(", ")
                ));
                allowed
                    .first()
                    .copied()
                    .unwrap_or_default()
                    .clone_into(value);
            }
        };
        one_of(
            "layout",
            &mut config.layout,
            &["auto", "single", "split", "dashboard"],
        );
        one_of(
            "charset",
            &mut config.charset,
            &["auto", "unicode", "ascii"],
        );
        one_of(
            "colours",
            &mut config.colours,
            &["auto", "true", "256", "16", "none"],
        );
        if !(1..=120).contains(&config.frame_rate) {
            warnings.push(format!("{file}: frame-rate: must be between 1 and 120"));
            config.frame_rate = 30;
        }
        Ok((config, warnings))
    }
    /// Returns the configured layout, or the one that suits a screen of this size.
    pub fn layout(&self, size: (u16, u16)) -> Layout {
        Layout::parse(&self.layout).unwrap_or_else(|| Layout::of_size(size))
    }
    /// Returns the key map with the overrides applied, and warnings.
    pub fn keymap(&self, file: &str) -> (Keymap, Vec<String>) {
        Keymap::with(&self.keys, file)
    }
    /// Returns theme and symbols for a terminal, and warnings. `themes` returns the text of a theme file by name.
    pub fn look(
        &self,
        env: &Environment,
        file: &str,
        themes: &dyn Fn(&str) -> Option<ThemeText>,
    ) -> (Look, Vec<String>) {
        let depth = match self.colours.as_str() {
            "true" => Depth::True,
            "256" => Depth::Ansi256,
            "16" => Depth::Ansi16,
            "none" => Depth::Mono,
            _ => Depth::detect(
                env.no_color.as_deref(),
                env.colorterm.as_deref(),
                env.term.as_deref(),
            ),
        };
        let unicode = match self.charset.as_str() {
            "unicode" => true,
            "ascii" => false,
            _ => env.unicode(),
        };
        let mut warnings = Vec::new();
        let built_in = BUILT_IN.iter().any(|(n, _)| *n == self.theme);
        let mut look = Look::new(if built_in { &self.theme } else { "dark" }, depth, unicode)
            .unwrap_or_else(|| Look {
                theme: Theme::default(),
                depth,
                glyphs: super::glyph::Glyphs::new(unicode),
            });
        if !built_in && depth != Depth::Mono {
            match themes(&self.theme) {
                Some(Err(why)) => warnings.push(why),
                Some(Ok(text)) => {
                    let loaded = Theme::load(&text, &format!("themes/{}.toml", self.theme));
                    warnings.extend(loaded.warnings);
                    look.theme = loaded.theme.at(depth);
                }
                None => warnings.push(format!(
                    "{file}: theme: there is no theme \"{}\" (built in: {})",
                    self.theme,
                    BUILT_IN
                        .iter()
                        .map(|(n, _)| *n)
                        .collect::<Vec<_>>()
                        .join(", ")
                )),
            }
        }
        if !self.style.is_empty() && depth != Depth::Mono {
            warnings.extend(look.theme.restyle(&self.style, file, depth));
        }
        (look, warnings)
    }
    /// Returns the default configuration with every key explained, as `kflow config --print-default` prints it.
    pub fn print_default() -> String {
        let mut s = String::from(
            "# kflow's configuration: $XDG_CONFIG_HOME/kflow/config.toml. Every key is optional; what is shown is the default.\n\
             # Changes are taken over while kflow runs.\n\n\
             # dark, light, high-contrast, colour-blind, ansi, mono, or the name of a file in themes/ beside this one.\n\
             theme = \"dark\"\n\
             # auto (by the size of the screen), single, split, dashboard\n\
             layout = \"auto\"\n\
             # auto, unicode, ascii\n\
             charset = \"auto\"\n\
             # auto, true, 256, 16, none\n\
             colours = \"auto\"\n\
             mouse = true\n\
             utc = false\n\
             frame-rate = 30\n\n\
             # Columns of the list of pods, the last is dropped first; label:KEY is a label. By default what fits of these.\n\
             # columns = [COLUMNS]\n\n\
             # Views: names for commands of the palette that are run one after the other; V chooses one.\n\
             [views]\n\
             # pulls = [\"calls\", \"filter method:PullImage\", \"calls-sort time\"]\n\n\
             # Styles over the theme's; `kflow themes --keys` lists them all.\n\
             [style]\n# fail = \"bold #ff5f5f\"\n\n\
             # Keys by action; an empty list takes them away. `kflow keys` prints the live map.\n[keys]\n",
        );
        let columns: Vec<String> = Chosen::names().map(|n| format!("\"{n}\"")).collect();
        s = s.replace("COLUMNS", &columns.join(", "));
        for a in Action::ALL {
            let keys: Vec<String> = a
                .default_keys()
                .iter()
                .map(|k| format!("\"{}\"", k.replace('\\', "\\\\").replace('"', "\\\"")))
                .collect();
            s.push_str(&format!(
                "# {} = [{}] # {}: {}\n",
                a.name(),
                keys.join(", "),
                a.scope(),
                a.help()
            ));
        }
        s
    }
}

/// Returns the path of the configuration file. `xdg` and `home` are `$XDG_CONFIG_HOME` and `$HOME`; `None` if neither
/// is usable.
pub fn path(xdg: Option<&str>, home: Option<&str>) -> Option<PathBuf> {
    let base = match xdg.filter(|x| Path::new(x).is_absolute()) {
        Some(x) => PathBuf::from(x),
        None => PathBuf::from(home?).join(".config"),
    };
    Some(base.join("kflow").join("config.toml"))
}

/// A configuration file that is read again when the file or a theme beside it has changed.
#[derive(Debug)]
pub struct Watched {
    path: PathBuf,
    seen: Option<Modified>,
    /// Why the last attempt to read failed.
    failed: Option<String>,
}

/// Contents of the configuration's folder when it was last read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// Text of the configuration file; empty if the file does not exist.
    pub text: String,
    themes: BTreeMap<String, ThemeText>,
}

/// Text of a theme file beside the configuration, or why it cannot be read.
pub type ThemeText = Result<String, String>;

impl Folder {
    /// Returns a theme; `None` if there is no file with this name.
    pub fn theme(&self, name: &str) -> Option<ThemeText> {
        self.themes.get(name).cloned()
    }
}

/// Limit on the theme files that are read.
const THEMES: usize = 64;

/// Modification times of the configuration and of the newest theme; `None` where no file exists.
type Modified = (Option<SystemTime>, Option<SystemTime>);

impl Watched {
    /// Returns a watch on a path; the file may not exist yet.
    pub const fn new(path: PathBuf) -> Self {
        Self {
            path,
            seen: None,
            failed: None,
        }
    }
    /// Returns the folder's contents if something has changed since the last call, or why the configuration cannot be
    /// read. An error is returned once, and reading is tried again at each call. Blocks on file I/O.
    pub fn poll(&mut self) -> Option<Result<Folder, String>> {
        let modified = self.modified();
        if self.seen == Some(modified) {
            return None;
        }
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => String::new(),
            Err(e) => {
                let why = format!("cannot read {}: {e}", self.path.display());
                let news = self.failed.as_ref() != Some(&why);
                self.failed = Some(why.clone());
                return news.then_some(Err(why));
            }
        };
        self.seen = Some(modified);
        self.failed = None;
        let files = self.folder().and_then(|d| std::fs::read_dir(d).ok());
        let names = files.into_iter().flatten().filter_map(|f| {
            let name = f.ok()?.file_name().into_string().ok()?;
            Some(name.strip_suffix(".toml")?.to_owned())
        });
        let themes = names
            .take(THEMES)
            .filter_map(|name| Some((name.clone(), self.theme(&name)?)))
            .collect();
        Some(Ok(Folder { text, themes }))
    }
    fn folder(&self) -> Option<PathBuf> {
        Some(self.path.parent()?.join("themes"))
    }
    fn modified(&self) -> Modified {
        let of = |p: &Path| std::fs::metadata(p).ok()?.modified().ok();
        let themes = self
            .folder()
            .and_then(|d| std::fs::read_dir(d).ok())
            .into_iter();
        let newest = themes.flatten().filter_map(|f| of(&f.ok()?.path())).max();
        (of(&self.path), newest)
    }
    /// Returns the path, as warnings name it.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }
    /// Reads a theme beside the configuration; `None` if there is no file with this name.
    pub fn theme(&self, name: &str) -> Option<ThemeText> {
        if name.contains(['/', '\\']) || name.starts_with('.') {
            return None;
        }
        let path = self.folder()?.join(format!("{name}.toml"));
        match patient::read_to_string(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            read => Some(read.map_err(|e| format!("cannot read {}: {e}", path.display()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_default_is_the_default_and_lists_every_action() {
        let text = Config::print_default();
        let (c, w) = Config::parse(&text, "config.toml");
        assert_eq!((c, w), (Config::default(), Vec::new()));
        // Without the comment signs, the keys are those of the default map.
        let keys = text
            .split("[keys]\n")
            .nth(1)
            .expect("keys")
            .replace("# ", "");
        let uncommented: String = keys
            .lines()
            .map(|l| l.rsplit_once(" global:").map_or(l, |(a, _)| a))
            .map(|l| {
                l.split("] ")
                    .next()
                    .map_or_else(String::new, |a| format!("{}]\n", a.trim_end_matches(']')))
            })
            .collect();
        let parsed: BTreeMap<String, Vec<String>> = toml::from_str(&uncommented).expect("keys");
        assert_eq!(Keymap::with(&parsed, "x"), (Keymap::default(), Vec::new()));
    }
    #[test]
    fn what_is_not_understood_is_a_warning_and_the_default_stays() {
        let (c, w) = Config::parse(
            "theme = \"light\"\nlayout = \"grid\"\nmose = true\nframe-rate = 0\n",
            "c.toml",
        );
        assert_eq!(c.theme, "light");
        assert_eq!(c.layout((80, 24)), Layout::Single);
        assert_eq!(c.layout((200, 60)), Layout::Dashboard);
        assert_eq!(
            w,
            [
                "c.toml: mose: unknown key",
                "c.toml: layout: \"grid\" is none of auto, single, split, dashboard",
                "c.toml: frame-rate: must be between 1 and 120",
            ]
        );
        let (c, w) = Config::parse(
            "theme = 3\nutc = true\n[keys]\nquit = \"x\"\nglobal = { help = 1 }\n[style]\nok = 3",
            "c.toml",
        );
        assert!(c.utc && c.theme == "dark" && c.style.is_empty());
        assert_eq!(c.keys.get("quit"), Some(&vec!["x".to_owned()]));
        let keys: Vec<&str> = w.iter().filter_map(|w| w.split(": ").nth(1)).collect();
        assert_eq!(keys, ["theme", "keys.global", "style.ok"], "{w:?}");
        let (_, w) = Config::parse("utc = true\n\ntheme = ", "c.toml");
        assert!(
            w.len() == 1 && w.iter().all(|w| w.starts_with("c.toml:3: ")),
            "{w:?}"
        );
    }
    #[test]
    fn columns_and_views_are_read_one_by_one() {
        let text = "columns = [\"name\", \"label:app\", \"nme\"]\n[views]\n\
                    web = [\"pods\", \"filter ns:shop\", \"dance\"]\nloop = [\"view loop\"]\nbad = 3\n";
        let (c, w) = Config::parse(text, "c.toml");
        assert_eq!(c.columns.len(), 2);
        let web = c.views.get("web").map(Vec::as_slice).unwrap_or_default();
        let names: Vec<_> = web
            .iter()
            .map(|c| (c.action.name(), c.arg.as_str()))
            .collect();
        assert_eq!(names, [("pods", ""), ("filter", "ns:shop")]);
        let about = |what: &str| w.iter().any(|w| w.contains(what));
        assert!(
            about("columns: \"nme\" is none of namespace, name"),
            "{w:?}"
        );
        assert!(about("views.web: there is no command \"dance\""), "{w:?}");
        assert!(about("views.loop: there is no command"), "{w:?}");
        assert!(about("views.bad: "), "{w:?}");
    }
    #[test]
    fn the_charset_follows_locale_and_terminal() {
        let env = |locale: &str, term: &str| Environment {
            locale: Some(locale.into()),
            term: Some(term.into()),
            ..Environment::default()
        };
        assert!(env("de_DE.UTF-8", "xterm").unicode());
        assert!(!env("C", "xterm").unicode());
        assert!(!env("en_US.UTF-8", "linux").unicode());
    }
    #[test]
    fn the_path_follows_xdg_then_home() {
        assert_eq!(path(Some("/x"), None), Some("/x/kflow/config.toml".into()));
        assert_eq!(
            path(Some("rel"), Some("/h")),
            Some("/h/.config/kflow/config.toml".into())
        );
        assert_eq!(path(None, None), None);
    }
    #[test]
    fn styles_of_the_configuration_lie_over_the_theme() {
        let (c, _) = Config::parse(
            "colours = \"true\"\n[style]\nok = \"#010203\"\nnope = \"red\"\n",
            "c.toml",
        );
        let (look, w) = c.look(&Environment::default(), "c.toml", &|_| None);
        assert_eq!(look.theme.ok.fg, Some(ratatui::style::Color::Rgb(1, 2, 3)));
        assert_eq!(w, ["c.toml: style.nope: unknown key"]);
    }
}
