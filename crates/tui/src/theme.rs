//! Colours. One table of style keys generates the struct, the parsing and validation of theme files, and
//! the list of keys.
//!
//! A theme is a TOML file with a `[palette]` of named colours and a `[style]` table of keys. Overrides may be
//! partial; an unknown key gives a warning with the file and the key, and never an error.

pub mod color;

use ratatui::style::{Modifier, Style};
use std::collections::BTreeMap;

pub use color::Depth;

use kflow_core::flow::Stage;
use kflow_model::Source;

macro_rules! styles {
    ($($(#[doc = $doc:literal])* $name:ident = $key:literal;)*) => {
        /// The styles of everything that is drawn.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Theme {
            /// Name of the theme.
            pub name: String,
            $($(#[doc = $doc])* pub $name: Style,)*
        }
        /// Every style key with its description, in the order of the table.
        pub const KEYS: &[(&str, &str)] = &[$(($key, concat!($($doc),*).trim_ascii())),*];

        impl Theme {
            fn slot(&mut self, key: &str) -> Option<&mut Style> {
                match key { $($key => Some(&mut self.$name),)* _ => None }
            }
            /// Returns the style of a key.
            pub fn get(&self, key: &str) -> Option<Style> {
                match key { $($key => Some(self.$name),)* _ => None }
            }
            fn each(&mut self, f: impl Fn(&str, Style) -> Style) {
                $(self.$name = f($key, self.$name);)*
            }
        }
    };
}

styles! {
    /// Background and ordinary text.
    text = "text";
    /// Secondary text: ages, ids, units.
    dim = "dim";
    /// Barely visible: grids, what was not reached.
    faint = "faint";
    /// Headings and what is emphasised.
    strong = "strong";
    /// Names that can be opened, the brand.
    accent = "accent";
    /// Title bar.
    bar = "bar";
    /// Badge LIVE.
    live = "bar.live";
    /// Badge REPLAY.
    replay = "bar.replay";
    /// Badge of a paused or scrolled-back view.
    paused = "bar.paused";
    /// Tab of a pane.
    tab = "tab";
    /// Tab of the pane that has the focus.
    tab_on = "tab.on";
    /// Rules between panes.
    rule = "rule";
    /// Rule of the pane that has the focus.
    rule_on = "rule.on";
    /// Column headings.
    head = "head";
    /// Column heading that the list is sorted by.
    head_on = "head.on";
    /// Selected row.
    selection = "selection";
    /// Selected row of a pane without the focus.
    selection_off = "selection.off";
    /// Time cursor and ruler position.
    cursor = "cursor";
    /// The two marks of a delta.
    delta = "delta";
    /// Keys in the footer and in help.
    key = "key";
    /// What keys do.
    key_text = "key.text";
    /// Prompt of the palette and of filters.
    prompt = "prompt";
    /// The part that a filter matched.
    matched = "match";
    /// Boxes over panes.
    popup = "popup";
    /// Frame of such a box.
    popup_rule = "popup.rule";
    /// Done, well.
    ok = "ok";
    /// Going on.
    run = "run";
    /// Waiting, backing off.
    wait = "wait";
    /// Failing, failed, error.
    fail = "fail";
    /// Attention: warnings.
    warn = "warn";
    /// Losses: must be seen.
    alarm = "alarm";
    /// New and changing rows.
    fresh = "fresh";
    /// Pods that are gone.
    gone = "gone";
    /// Time that nothing explains.
    unknown = "unknown";
    /// Critical path.
    critical = "critical";
    /// Stage api.
    stage_api = "stage.api";
    /// Stage schedule.
    stage_schedule = "stage.schedule";
    /// Stage admit.
    stage_admit = "stage.admit";
    /// Stage cgroup.
    stage_cgroup = "stage.cgroup";
    /// Stage volumes.
    stage_volumes = "stage.volumes";
    /// Stage sandbox.
    stage_sandbox = "stage.sandbox";
    /// Stage image.
    stage_image = "stage.image";
    /// Stage create.
    stage_create = "stage.create";
    /// Stage start.
    stage_start = "stage.start";
    /// Stage ready.
    stage_ready = "stage.ready";
    /// Stage terminate.
    stage_terminate = "stage.terminate";
    /// Source cri.
    source_cri = "source.cri";
    /// Source kubelet.
    source_kubelet = "source.kubelet";
    /// Source fs.
    source_fs = "source.fs";
    /// Source kube.
    source_kube = "source.kube";
    /// Source audit.
    source_audit = "source.audit";
    /// Source otlp.
    source_otlp = "source.otlp";
    /// Source runtime.
    source_runtime = "source.runtime";
    /// Source control.
    source_control = "source.control";
    /// Source metrics.
    source_metrics = "source.metrics";
    /// Source kflow.
    source_kflow = "source.kflow";
}

/// Themes that are built into kflow: name and TOML.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("dark", include_str!("../../../themes/dark.toml")),
    ("light", include_str!("../../../themes/light.toml")),
    (
        "high-contrast",
        include_str!("../../../themes/high-contrast.toml"),
    ),
    (
        "colour-blind",
        include_str!("../../../themes/colour-blind.toml"),
    ),
    ("ansi", include_str!("../../../themes/ansi.toml")),
    ("mono", include_str!("../../../themes/mono.toml")),
];

/// A theme, and what was not understood in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    pub theme: Theme,
    /// Warnings with file, key and reason, one line each.
    pub warnings: Vec<String>,
}

#[derive(serde::Deserialize, Default)]
#[serde(default)]
struct File {
    name: String,
    inherits: String,
    palette: BTreeMap<String, toml::Value>,
    style: BTreeMap<String, toml::Value>,
    #[serde(flatten)]
    other: BTreeMap<String, toml::Value>,
}

impl Theme {
    /// Returns a theme that is built into kflow.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, toml) = BUILT_IN.iter().find(|(n, _)| *n == name)?;
        Some(Self::parse(toml, name, 0).theme)
    }
    /// Parses a theme, on top of the one that it inherits from (`dark` if it names none). `file` is used in warnings.
    pub fn load(toml: &str, file: &str) -> Loaded {
        Self::parse(toml, file, 0)
    }
    fn parse(text: &str, file: &str, depth: u8) -> Loaded {
        let parsed: File = match toml::from_str(text) {
            Ok(f) => f,
            Err(e) => {
                let mut l = Loaded {
                    warnings: vec![format!("{file}: not a theme: {}", e.message())],
                    ..Loaded::default()
                };
                if depth == 0 {
                    l.theme = Self::built_in("dark").unwrap_or_default();
                }
                return l;
            }
        };
        let mut warnings = Vec::new();
        let base = match parsed.inherits.as_str() {
            "" if depth == 0 && !BUILT_IN.iter().any(|(n, _)| *n == file) => "dark",
            other => other,
        };
        let mut theme = BUILT_IN
            .iter()
            .find(|(n, _)| *n == base && depth < 4)
            .map(|(n, t)| Self::parse(t, n, depth + 1).theme)
            .unwrap_or_default();
        if !base.is_empty() && !BUILT_IN.iter().any(|(n, _)| *n == base) {
            warnings.push(format!("{file}: inherits: there is no theme \"{base}\""));
        }
        theme.name = if parsed.name.is_empty() {
            file.to_owned()
        } else {
            parsed.name
        };
        for key in parsed.other.keys() {
            warnings.push(format!("{file}: {key}: unknown table or key"));
        }
        let mut palette = BTreeMap::new();
        for (k, v) in &parsed.palette {
            match v.as_str().and_then(color::parse) {
                Some(c) => {
                    palette.insert(k.clone(), c);
                }
                None => warnings.push(format!("{file}: palette.{k}: not a colour")),
            }
        }
        for (k, v) in &parsed.style {
            let Some(slot) = theme.slot(k) else {
                warnings.push(format!("{file}: style.{k}: unknown key"));
                continue;
            };
            match v.as_str().map(|s| spec(s, &palette)) {
                Some(Ok(style)) => *slot = style,
                Some(Err(word)) => warnings.push(format!(
                    "{file}: style.{k}: \"{word}\" is neither a colour nor an attribute"
                )),
                None => warnings.push(format!("{file}: style.{k}: must be a string")),
            }
        }
        Loaded { theme, warnings }
    }
    /// Overrides styles of the theme. Returns warnings for unknown keys and values.
    pub fn restyle(
        &mut self,
        styles: &BTreeMap<String, String>,
        file: &str,
        depth: Depth,
    ) -> Vec<String> {
        let mut warnings = Vec::new();
        for (k, v) in styles {
            match (self.slot(k), spec(v, &BTreeMap::new())) {
                (None, _) => warnings.push(format!("{file}: style.{k}: unknown key")),
                (Some(_), Err(word)) => warnings.push(format!(
                    "{file}: style.{k}: \"{word}\" is neither a colour nor an attribute"
                )),
                (Some(slot), Ok(style)) => *slot = color::reduce(style, depth),
            }
        }
        warnings
    }
    /// Returns the theme reduced to a terminal's colour depth.
    #[must_use]
    pub fn at(mut self, depth: Depth) -> Self {
        self.each(|_, s| color::reduce(s, depth));
        self
    }
    /// Returns the style of a stage's bars.
    pub const fn stage(&self, stage: Stage) -> Style {
        match stage {
            Stage::Api => self.stage_api,
            Stage::Schedule => self.stage_schedule,
            Stage::Admit => self.stage_admit,
            Stage::Cgroup => self.stage_cgroup,
            Stage::Volumes => self.stage_volumes,
            Stage::Sandbox => self.stage_sandbox,
            Stage::Image => self.stage_image,
            Stage::Create => self.stage_create,
            Stage::Start => self.stage_start,
            Stage::Ready => self.stage_ready,
            Stage::Terminate => self.stage_terminate,
        }
    }
    /// Returns the style of a source's name.
    pub const fn source(&self, source: Source) -> Style {
        match source {
            Source::Cri => self.source_cri,
            Source::Kubelet => self.source_kubelet,
            Source::Fs => self.source_fs,
            Source::Kube => self.source_kube,
            Source::Audit => self.source_audit,
            Source::Otlp => self.source_otlp,
            Source::Runtime => self.source_runtime,
            Source::Control => self.source_control,
            Source::Metrics => self.source_metrics,
            Source::Kflow => self.source_kflow,
        }
    }
}

/// Parses a style such as `bold #cba6f7 on #1e1e2e`; the error is the word that was not understood.
fn spec(s: &str, palette: &BTreeMap<String, ratatui::style::Color>) -> Result<Style, String> {
    let mut style = Style::new();
    let mut background = false;
    for word in s.split_whitespace() {
        let modifier = match word {
            "on" => {
                background = true;
                continue;
            }
            "bold" => Modifier::BOLD,
            "dim" => Modifier::DIM,
            "italic" => Modifier::ITALIC,
            "underline" => Modifier::UNDERLINED,
            "reverse" => Modifier::REVERSED,
            "strike" => Modifier::CROSSED_OUT,
            _ => {
                let c = palette
                    .get(word)
                    .copied()
                    .or_else(|| color::parse(word))
                    .ok_or_else(|| word.to_owned())?;
                style = if background { style.bg(c) } else { style.fg(c) };
                continue;
            }
        };
        style = style.add_modifier(modifier);
    }
    Ok(style)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::style::Color;

    #[test]
    fn every_theme_file_sets_every_key_and_nothing_else() {
        for (name, text) in BUILT_IN {
            let f: File = toml::from_str(text).expect(name);
            let missing: Vec<_> = KEYS
                .iter()
                .map(|(k, _)| *k)
                .filter(|k| !f.style.contains_key(*k))
                .collect();
            assert!(missing.is_empty(), "{name} lacks {missing:?}");
            assert_eq!(Theme::load(text, name).warnings, Vec::<String>::new());
            assert_eq!(f.name, *name);
        }
    }
    /// The relative luminance of WCAG 2.2, 0 to 1; `None` for a colour that the terminal chooses.
    fn luminance(c: Color) -> Option<f64> {
        let (r, g, b) = color::rgb(c)?;
        let linear = |v: u8| match f64::from(v) / 255.0 {
            v if v <= 0.04045 => v / 12.92,
            v => ((v + 0.055) / 1.055).powf(2.4),
        };
        Some(0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b))
    }
    /// The contrast ratio of WCAG 2.2, 1 to 21.
    fn contrast(a: Color, b: Color) -> f64 {
        let (a, b) = (luminance(a).expect("a"), luminance(b).expect("b"));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }
    #[test]
    fn every_text_has_contrast_on_every_background_that_it_is_drawn_on() {
        for (name, least) in [
            ("dark", 4.5),
            ("light", 4.5),
            ("colour-blind", 4.5),
            ("high-contrast", 7.0),
        ] {
            let theme = Theme::built_in(name).expect(name);
            let mut low = Vec::new();
            // Rules and grids are lines that nobody reads.
            for (key, _) in KEYS.iter().filter(|(k, _)| *k != "rule") {
                let style = theme.get(key).expect("a key");
                let Some(fg) = style.fg else { continue };
                // On the selected row, faint text is drawn as secondary text (`calls::select`).
                let selection = theme
                    .selection
                    .bg
                    .filter(|_| fg != theme.faint.fg.expect("faint"));
                let plain = [theme.text, theme.bar, theme.popup, theme.selection_off];
                let under = plain.iter().filter_map(|s| s.bg).chain(selection);
                let under: Vec<Color> = match style.bg {
                    Some(own) => vec![own],
                    None => under.collect(),
                };
                for bg in under {
                    let ratio = contrast(fg, bg);
                    if ratio < least {
                        low.push(format!("{key} {fg} on {bg}: {ratio:.1}"));
                    }
                }
            }
            assert!(
                low.is_empty(),
                "{name}, at least {least}:\n{}",
                low.join("\n")
            );
        }
    }
    #[test]
    fn an_unknown_key_is_a_warning_with_file_and_key() {
        let l = Theme::load(
            "colour = 1\n[palette]\np = \"nope\"\n[style]\nok = \"#00ff00\"\nbogus = \"red\"\nwait = \"blinky\"\n",
            "my.toml",
        );
        assert_eq!(
            l.warnings,
            [
                "my.toml: colour: unknown table or key",
                "my.toml: palette.p: not a colour",
                "my.toml: style.bogus: unknown key",
                "my.toml: style.wait: \"blinky\" is neither a colour nor an attribute",
            ]
        );
        assert_eq!(l.theme.ok.fg, Some(Color::Rgb(0, 255, 0)));
    }
    #[test]
    fn a_partial_theme_keeps_the_rest_of_what_it_inherits() {
        let l = Theme::load(
            "inherits = \"light\"\n[style]\nok = \"bold red on blue\"\n",
            "x",
        );
        let light = Theme::built_in("light").expect("light");
        assert_eq!(l.theme.text, light.text);
        assert_eq!(
            l.theme.ok,
            Style::new()
                .fg(Color::Red)
                .bg(Color::Blue)
                .add_modifier(Modifier::BOLD)
        );
    }
    #[test]
    fn a_file_that_is_not_toml_leaves_the_default_and_says_so() {
        let l = Theme::load("[[[", "bad.toml");
        assert_eq!(l.theme, Theme::built_in("dark").expect("dark"));
        assert_eq!(l.warnings.len(), 1);
    }
    #[test]
    fn mono_has_no_colour_at_all() {
        let mut t = Theme::built_in("dark").expect("dark").at(Depth::Mono);
        t.each(|k, s| {
            assert!(s.fg.is_none() && s.bg.is_none(), "{k}");
            s
        });
    }
}
