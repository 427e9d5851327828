//! Arguments of the commands for the terminal UI.

use clap::{Args as ClapArgs, ValueHint};
use std::path::PathBuf;

use super::RowsFormat;

/// Playing speed in thousandths of real time; 0 for as fast as possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed(pub u32);

fn speed(text: &str) -> Result<Speed, String> {
    kflow_tui::update::parse_speed(text)
        .map(Speed)
        .ok_or_else(|| "a factor such as 0.5, 10x, or max".to_owned())
}

/// `kflow replay`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow replay incident.kflow.zst\n  \
kflow replay incident.kflow.zst --at -5m\n  \
kflow replay incident.kflow.zst --speed 10x --filter 'pod:web* !ok'\n  \
kflow replay --store file:///var/lib/kflow/store --node node1 --from -26h --to -25h")]
pub struct ReplayArgs {
    /// The session, or what `kflow import` reads, such as a support bundle
    #[arg(value_name = "SESSION", value_hint = ValueHint::FilePath, required_unless_present = "store")]
    pub session: Option<PathBuf>,
    /// Play at once, this fast: 1x, 10x, 0.5x, max; else space plays, 1x
    #[arg(long, value_name = "FACTOR", value_parser = speed)]
    pub speed: Option<Speed>,
    /// Begin at this moment and pause there: RFC 3339, a date and time or a time of day (UTC), the time since the epoch, -5m (before the end), +90s (after the begin)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// Filter of calls and log to begin with: 'method:RunPodSandbox dur>2s !ok pod:web*'
    #[arg(long, value_name = "EXPR", value_parser = super::filter)]
    pub filter: Option<String>,
    /// Begin paused, with --speed too
    #[arg(long)]
    pub paused: bool,
    /// Theme: a name of `kflow themes`, or of a file in themes/ beside the configuration
    #[arg(long, value_name = "THEME")]
    pub theme: Option<String>,
    /// In the place of a session: what of a store.
    #[command(flatten)]
    pub store: super::store::StoreArgs,
    /// Which pods are shown.
    #[command(flatten)]
    pub scope: super::live::ScopeArgs,
}

/// `kflow demo`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow demo\n  \
kflow demo --tour")]
pub struct DemoArgs {
    /// Theme: a name of `kflow themes`, or of a file in themes/ beside the configuration
    #[arg(long, value_name = "THEME")]
    pub theme: Option<String>,
    /// A tour: a start that goes well and one that hangs, step by step, with what each step does and how it would hang
    #[arg(long)]
    pub tour: bool,
}

/// `kflow keys`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow keys\n  \
kflow keys -o json")]
pub struct KeysArgs {
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: RowsFormat,
}

/// `kflow themes`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow themes\n  \
kflow themes --keys -o json\n  \
kflow themes --print dark > my-theme.toml")]
pub struct ThemesArgs {
    /// List the style keys
    #[arg(long)]
    pub keys: bool,
    /// Print a theme's file, to begin one's own with
    #[arg(long, value_name = "THEME", conflicts_with_all = ["keys", "output"])]
    pub print: Option<String>,
    /// How to write the list
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: RowsFormat,
}

/// `kflow config`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow config\n  \
kflow config --print-default > config.toml")]
pub struct ConfigArgs {
    /// Print the default configuration, every key explained
    #[arg(long)]
    pub print_default: bool,
}

/// `kflow screenshots`
#[derive(Debug, ClapArgs)]
pub struct ScreenshotArgs {
    /// Folder of the sessions
    #[arg(long, value_name = "DIR", default_value = "fixtures/sessions")]
    pub sessions: PathBuf,
    /// Folder to write to
    #[arg(long, value_name = "DIR", default_value = "screenshots")]
    pub out: PathBuf,
    /// Only say whether they are current
    #[arg(long)]
    pub check: bool,
}
