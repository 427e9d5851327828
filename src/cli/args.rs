//! The command line's grammar. Uses only clap: completions and man pages are generated from it.

/// How what is looked at is named, in the help of every command that takes it.
macro_rules! named {
    () => {
        "ns/name, name or UID; or of what has pods: KIND/name, ns/KIND/name (deploy, rs, sts, ds, job, cj, rc, pvc), node/name"
    };
}

pub mod agent;
pub mod control;
pub mod fleet;
pub mod form;
pub mod live;
pub mod range;
pub mod stats;
pub mod store;
pub mod terminal;

pub use form::{ExportFormat, Format, RowsFormat, TableFormat, TimelineFormat, WhyFormat};
pub use range::Range;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum, ValueHint};
use kflow_core::query::{self, CallRecord, Field, Number, PodRecord, Query};
use kflow_export::file::Kind;
use kflow_export::rows::Rows;
use kflow_model::kind;
use std::path::{Path, PathBuf};

/// Trace what Kubernetes and the container runtime do to a pod, call by call.
#[derive(Debug, Parser)]
#[command(
    name = "kflow",
    version,
    max_term_width = 100,
    propagate_version = false
)]
pub struct Args {
    /// Log what kflow itself does to this file; KFLOW_LOG chooses how much (error, info, debug, kflow_sources=trace)
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// When to colour; auto: a terminal, where neither NO_COLOR nor TERM=dumb is set
    #[arg(
        long,
        global = true,
        alias = "colour",
        value_name = "WHEN",
        value_enum,
        default_value_t
    )]
    pub color: Colour,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Command {
    /// True when the command draws panes, so that nothing else may be written to the terminal.
    pub const fn owns_terminal(&self) -> bool {
        matches!(self, Self::Tui(_) | Self::Replay(_) | Self::Demo(_))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Turn raw captures into a session
    Import(ImportArgs),
    /// Print the timelines of pods
    Timeline(TimelineArgs),
    /// Print the CRI calls
    Calls(CallsArgs),
    /// Write timelines for Perfetto, OpenTelemetry, a ticket or a program
    Export(ExportArgs),
    /// Print the map of the call flow, or what each of its steps did
    Flow(control::FlowArgs),
    /// Print the requests to the apiserver
    Requests(control::RequestsArgs),
    /// Say how long starts, stages and calls took, and what got slower
    Stats(stats::StatsArgs),
    /// Say which causes, how often and where, and how long things took, of many nodes
    ///
    /// The program kflow-fleet of a release has it; kflow itself says so, and ends with 2.
    Fleet(fleet::FleetArgs),
    /// Put recordings into a store, say what it has, or remove what is old
    Store(store::StoreCommand),
    /// Carry the kubelet's calls to the runtime, byte by byte, and tell what passed
    Proxy(live::ProxyArgs),
    /// See and keep what happens on a node, and serve it to viewers elsewhere
    Agent(agent::AgentArgs),
    /// Watch a running node or cluster in the terminal
    Tui(live::TuiArgs),
    /// Record a running node or cluster
    Record(live::RecordArgs),
    /// Say what would work here, and what to do about the rest; changes nothing
    Doctor(live::DoctorArgs),
    /// Say why a pod is stuck, with evidence and what to do next
    ///
    /// Exits with 0 when all is well, 1 with a verdict, 2 when that cannot be known (something could not be read: a sentence
    /// says what), 3 when there is no such pod.
    Why(WhyArgs),
    /// Print the catalogue of causes
    Causes(CausesArgs),
    /// Play a session in the terminal
    Replay(terminal::ReplayArgs),
    /// Play a recorded node with pods that hang; needs nothing
    Demo(terminal::DemoArgs),
    /// Print the language of --filter: its fields, operators and words
    #[command(after_help = query::docs::text() + "\nExamples:\n  kflow filter")]
    Filter,
    /// Print the key map
    Keys(terminal::KeysArgs),
    /// List themes, or their keys
    Themes(terminal::ThemesArgs),
    /// Say where the configuration is read from, or print the default one
    Config(terminal::ConfigArgs),
    /// Make the pictures of every pane
    #[command(hide = true)]
    Screenshots(terminal::ScreenshotArgs),
    /// Print a completion script for a shell
    #[command(after_help = "Examples:\n  \
kflow completions bash > ~/.local/share/bash-completion/completions/kflow\n  \
kflow completions kubectl > ~/.local/bin/kubectl_complete-kflow")]
    Completions {
        /// The shell.
        #[arg(value_enum)]
        shell: super::complete::Shell,
    },
    /// Print the manual page, or write one for each command into a folder
    #[command(after_help = "Examples:\n  \
kflow man | man -l -\n  \
kflow man .")]
    Man {
        /// The folder.
        #[arg(value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}

impl Command {
    /// The machine-readable form of the command's result; `None` when it has none.
    pub const fn rows(&self) -> Option<Rows> {
        match self {
            Self::Timeline(a) => a.output.rows(),
            Self::Calls(a) => a.output.rows(),
            Self::Requests(a) => a.output.rows(),
            Self::Flow(a) => a.output.rows(),
            Self::Why(a) => a.output.rows(),
            Self::Stats(a) => a.output.rows(),
            Self::Fleet(a) => a.output.rows(),
            Self::Export(a)
                if matches!(a.output, Some(ExportFormat::Timelines(Kind::Json)))
                    && a.output_file.is_none() =>
            {
                Some(Rows::Json)
            }
            _ => None,
        }
    }

    /// Joins a kind and a name that stand apart, as kubectl takes them, into the one word that queries are.
    ///
    /// # Errors
    /// A sentence for the user, when the first word is no kind.
    pub fn join_names(&mut self) -> Result<(), String> {
        let (query, of_kind) = match self {
            Self::Why(a) => (&mut a.pod, &mut a.of_kind),
            Self::Timeline(a) => (&mut a.pod, &mut a.of_kind),
            Self::Export(a) => (&mut a.pod, &mut a.of_kind),
            _ => return Ok(()),
        };
        let (Some(first), Some(name)) = (query.as_mut(), of_kind.name.take()) else {
            return Ok(());
        };
        if kind::of_word(first).is_none() {
            return Err(format!(
                "{first} {name}: kflow looks at one object at a time, or, without a name, at every pod; write NAME, KIND/NAME or KIND NAME"
            ));
        }
        *first = format!("{first}/{name}");
        Ok(())
    }
}

/// Parses the name of a pod, or of what has pods. A dash is none: other programs read what is piped at it.
pub(in crate::cli) fn name(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("a value is required, and it is empty"),
        "-" => Err("it is no name; to read what is piped: -s -"),
        _ => Ok(text.to_owned()),
    }
}

/// The name of `KIND NAME`, as kubectl takes it.
#[derive(Debug, Default, ClapArgs)]
pub struct NameOfKind {
    /// The name, after a kind
    #[arg(hide = true, value_parser = name)]
    pub name: Option<String>,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

/// Where observations come from, and as of when: the same for every command that reads.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Input")]
pub struct Input {
    /// A recording: a session, or what `kflow import` reads, such as a support bundle or what kubectl printed (- is standard input)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, env = "KFLOW_SESSION")]
    pub session: Option<PathBuf>,
    /// As of this moment: a date and time, a time of day (UTC), the time since the epoch, 50%, start, end, or from the end (-5m) or begin (+90s)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// Without a recording: look for so long [default: until the lists are complete]
    #[arg(long = "for", value_name = "TIME", value_parser = live::duration)]
    pub for_time: Option<std::time::Duration>,
    /// In the place of a recording: what of a store.
    #[command(flatten)]
    pub store: store::StoreArgs,
    /// Without a recording: what to look at.
    #[command(flatten)]
    pub live: live::LiveArgs,
}

impl Input {
    /// The flags that name the recording and the moment, each with a space before it, for a command that looks at the
    /// same; `None` for what runs and for standard input.
    pub fn flags(&self) -> Option<String> {
        let mut all = self.recording()?;
        if let Some(at) = &self.at {
            all += &format!(" --at {}", quoted(at));
        }
        Some(all)
    }

    /// [`flags`](Self::flags) without the moment, for a command that looks at another one.
    pub fn recording(&self) -> Option<String> {
        naming(self.session.as_deref(), &self.store)
    }
}

/// See [`Input::recording`].
pub fn naming(session: Option<&Path>, store: &store::StoreArgs) -> Option<String> {
    if let Some(url) = &store.store {
        let given = [
            ("--store", Some(url)),
            ("--cluster", store.cluster.as_ref()),
            ("--from", store.from.as_ref()),
            ("--to", store.to.as_ref()),
        ];
        let given = given
            .iter()
            .filter_map(|(flag, value)| Some((flag, (*value)?)));
        let mut all = String::new();
        for (flag, value) in given {
            all += &format!(" {flag} {}", quoted(value));
        }
        return Some(all);
    }
    let file = session?.to_str()?;
    (file != "-").then(|| format!(" -s {}", quoted(file)))
}

/// Quotes a word for a shell, where it needs that.
pub(in crate::cli) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+,=@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// `kflow import`
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Every capture can be plain, .zst, .gz or .xz, and - is standard input (once). A log that rotated is given file by file. \
Captures can be repeated and come in any order; the session is the same. `-O -` writes it to standard output.\n\
Examples:\n  \
kflow import must-gather.tar.gz --node master-0 -O incident.kflow.zst\n  \
kflow import kubelet.log pods.json describe.txt -O incident.kflow.zst\n  \
kflow import --kubelet-log kubelet.log --audit audit.log -O incident.kflow.zst"
)]
pub struct ImportArgs {
    /// Write the session here: out.kflow, or out.kflow.zst for a compressed one
    #[arg(short = 'O', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output_file: PathBuf,
    /// What is imported.
    #[command(flatten)]
    pub captures: CaptureArgs,
    /// Compression level of a .zst session
    #[arg(long, value_name = "1-19", default_value_t = 3, value_parser = clap::value_parser!(i32).range(1..=19))]
    pub level: i32,
    /// Print no summary and no progress
    #[arg(long, short)]
    pub quiet: bool,
}

/// Raw captures, and what they do not tell about themselves.
#[derive(Clone, Debug, Default, ClapArgs)]
pub struct CaptureArgs {
    /// Support bundles, folders and files, packed or not: what kflow knows is taken, by names and content
    #[arg(value_name = "CAPTURE", value_hint = ValueHint::AnyPath)]
    pub captures: Vec<PathBuf>,
    /// Kubelet log: klog text, JSON, from journalctl (-o short, short-iso-precise, json, export), or a journal file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kubelet_log: Vec<PathBuf>,
    /// Lists and watches of pods, events, nodes, owners: `kubectl get … -o json`, with or without -w --output-watch-events; what `kubectl describe` and `kubectl get events` print
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub watch: Vec<PathBuf>,
    /// Audit log of the apiserver (JSON lines)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub audit: Vec<PathBuf>,
    /// OpenTelemetry spans: OTLP JSON lines, as the collector's file exporter writes them
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub otlp: Vec<PathBuf>,
    /// Log of kube-apiserver
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub apiserver_log: Vec<PathBuf>,
    /// Log of kube-scheduler
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub scheduler_log: Vec<PathBuf>,
    /// Log of kube-controller-manager
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub controller_manager_log: Vec<PathBuf>,
    /// Log of containerd
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub containerd_log: Vec<PathBuf>,
    /// Log of CRI-O
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub crio_log: Vec<PathBuf>,
    /// Year of the oldest of the log lines that have none (default: as the other captures tell)
    #[arg(long, value_name = "YEAR")]
    pub year: Option<i32>,
    /// Zone of log lines that have none: +02:00, -0530, Z
    #[arg(long, value_name = "OFFSET", default_value = "Z", allow_hyphen_values = true, value_parser = parse_offset)]
    pub utc_offset: i32,
    /// When lists were read, which do not tell: RFC 3339, a date and time or a time of day (UTC), the time since the epoch, or before now (-2h) [default: when their file was written, if it fits what they tell]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub taken: Option<String>,
    /// The node whose captures are taken, where there are those of several; its name, where they do not tell it
    #[arg(long, value_name = "NAME", default_value = "")]
    pub node: String,
}

/// `kflow why`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow why shop/web-0\n  \
kflow why -A\n  \
kflow why --all -s incident.kflow.zst\n  \
kflow why --all -s must-gather.tar.gz\n  \
kubectl describe pod web-0 | kflow why web-0 -s -\n  \
kflow why node/node1 -s incident.kflow.zst --at -5m\n  \
kflow why --ever -s incident.kflow.zst -o markdown\n  \
kflow why --all -n shop -o name | xargs -r kubectl -n shop describe")]
pub struct WhyArgs {
    /// A pod, or what has pods.
    #[arg(help = concat!("A pod: ", named!()), value_parser = name)]
    pub pod: Option<String>,
    /// The name, after a kind.
    #[command(flatten)]
    pub of_kind: NameOfKind,
    /// Every pod that is not well, worst first, and owners that cannot create any; also without it, where no pod is given
    #[arg(long, conflicts_with = "pod")]
    pub all: bool,
    /// Everything that was ever not well in a recording, in order: begin, length, cause, pod, owner or node; up to --at
    #[arg(long, conflicts_with = "watch")]
    pub ever: bool,
    /// With --ever: only what lasted at this moment or came after it, as --at takes it
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "ever"
    )]
    pub since: Option<String>,
    /// With --ever: only what lasted at some moment of this time, as -1h..-30m or 00:40..00:50
    #[arg(long, value_name = "FROM..TO", value_parser = Range::parse, allow_hyphen_values = true, requires = "ever", conflicts_with = "since")]
    pub range: Option<Range>,
    /// Stay, and tell again whenever it changes (what runs, no recording)
    #[arg(long, short)]
    pub watch: bool,
    /// Each pod by itself, also where the same is true of many
    #[arg(long, conflicts_with = "ever")]
    pub each: bool,
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: WhyFormat,
    /// Input.
    #[command(flatten)]
    pub input: Input,
}

/// `kflow causes`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow causes\n  \
kflow causes KF601\n  \
kflow causes -o json")]
pub struct CausesArgs {
    /// One cause, such as KF601
    pub id: Option<String>,
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: RowsFormat,
}

/// `kflow timeline`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow timeline shop/web-0 -s incident.kflow.zst\n  \
kflow timeline --critical shop/web-0 -s incident.kflow.zst\n  \
kflow timeline deploy/web -n shop -s night.kflow.zst\n  \
kflow timeline -s incident.kflow.zst -o csv")]
pub struct TimelineArgs {
    /// A pod, or what has pods.
    #[arg(help = concat!("A pod: ", named!(), " [default: every pod]"), value_parser = name)]
    pub pod: Option<String>,
    /// The name, after a kind.
    #[command(flatten)]
    pub of_kind: NameOfKind,
    /// Also pods of the past, known only by Events from before the recording
    #[arg(long)]
    pub past: bool,
    /// What the start waited for, instant by instant: steps and waits that add up to the whole
    #[arg(long)]
    pub critical: bool,
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: TimelineFormat,
    /// Input.
    #[command(flatten)]
    pub input: Input,
}

/// `kflow calls`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow calls --errors -s incident.kflow.zst\n  \
kflow calls --pod shop/web-0 --slower-than 1ms -s incident.kflow.zst -o wide\n  \
kflow calls --filter 'method:PullImage !ok' -s incident.kflow.zst -o jsonl\n  \
kflow calls --follow --local -o jsonl\n  \
kflow calls --follow --pod deploy/web -n shop")]
pub struct CallsArgs {
    /// How to write it
    #[arg(short, long, value_name = "FORM", value_enum, default_value_t)]
    pub output: TableFormat,
    /// Stay, and print each call when it ends (what runs, no recording), with its node where there are several; until Ctrl-C, or --for
    #[arg(long)]
    pub follow: bool,
    /// Which calls.
    #[command(flatten)]
    pub filter: CallFilter,
    /// Input.
    #[command(flatten)]
    pub input: Input,
}

/// `kflow export`
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  \
kflow export shop/web-0 -s incident.kflow.zst -o html -O web-0.html\n  \
kflow export deploy/web -n shop -s night.kflow.zst -o perfetto -O web.pftrace\n  \
kflow export shop/web-0 -s incident.kflow.zst -o svg --theme light -O web-0.svg\n  \
kflow export -s incident.kflow.zst -o perfetto -O incident.pftrace\n  \
kflow export -s incident.kflow.zst --otlp-to http://127.0.0.1:4318")]
pub struct ExportArgs {
    /// A pod, or what has pods.
    #[arg(help = concat!("Of a pod: ", named!(), " [default: every pod]"), value_parser = name)]
    pub pod: Option<String>,
    /// The name, after a kind.
    #[command(flatten)]
    pub of_kind: NameOfKind,
    /// Also pods of the past, known only by Events from before the recording
    #[arg(long)]
    pub past: bool,
    /// Colours of an SVG: a theme that `kflow themes` lists [default: dark]
    #[arg(long, value_name = "NAME")]
    pub theme: Option<String>,
    /// How to write it
    #[arg(
        short,
        long,
        value_name = "FORM",
        value_enum,
        required_unless_present = "otlp_to"
    )]
    pub output: Option<ExportFormat>,
    /// File to write [default, or -: standard output]
    #[arg(short = 'O', long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output_file: Option<PathBuf>,
    /// Where traces go.
    #[command(flatten)]
    pub traces: live::TracesArgs,
    /// Input.
    #[command(flatten)]
    pub input: Input,
}

/// Parses a filter expression over calls.
fn of_calls(text: &str) -> Result<Query, String> {
    expression(text, "call", CallRecord::FIELDS, CallRecord::NUMBERS)
}

/// Parses a filter expression over pods.
fn of_pods(text: &str) -> Result<Query, String> {
    expression(text, "pod", PodRecord::FIELDS, PodRecord::NUMBERS)
}

/// Parses a filter expression. Refuses fields that a `thing` does not have: it would match nothing, as if there were
/// no `thing`.
fn expression(
    text: &str,
    thing: &str,
    fields: &[Field],
    numbers: &[Number],
) -> Result<Query, String> {
    let query = query::parse(text).map_err(|e| e.to_string())?;
    let Some(name) = query.foreign(fields, numbers) else {
        return Ok(query);
    };
    let names = fields.iter().map(|f| f.name());
    let all: Vec<&str> = names.chain(numbers.iter().map(|n| n.name())).collect();
    Err(format!(
        "a {thing} has no {name}; it has {}",
        all.join(", ")
    ))
}

/// Checks a filter expression and returns its text, which the terminal shows.
fn filter(text: &str) -> Result<String, String> {
    query::parse(text)
        .map(|_| text.to_owned())
        .map_err(|e| e.to_string())
}

/// Which calls.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Filter")]
pub struct CallFilter {
    /// Only calls about these pods.
    #[arg(help = concat!("Only calls about a pod: ", named!()), long, value_name = "POD", value_parser = name)]
    pub pod: Option<String>,
    /// Only calls that an expression holds for: 'method:RunPodSandbox dur>2s !ok pod:web*'; `kflow filter` prints the language
    #[arg(long, value_name = "EXPR", value_parser = of_calls, allow_hyphen_values = true)]
    pub filter: Option<Query>,
    /// Only this method (several: repeat, or separate with commas)
    #[arg(long, value_name = "METHOD", value_delimiter = ',')]
    pub method: Vec<String>,
    /// Only calls that failed
    #[arg(long)]
    pub errors: bool,
    /// Only calls that took, or take, longer: 100ms, 2s, 1m30s
    #[arg(long, value_name = "DURATION", value_parser = kflow_model::units::parse_duration)]
    pub slower_than: Option<i64>,
    /// Only calls that lasted at some moment of this time, as -1h..-30m or 00:40..00:50
    #[arg(long, value_name = "FROM..TO", value_parser = Range::parse, allow_hyphen_values = true, conflicts_with = "follow")]
    pub range: Option<Range>,
    /// Fold the loops' own calls (List*, Status, …) that are about nobody and went well
    #[arg(long)]
    pub no_noise: bool,
}

/// Parses `Z`, `+02:00`, `-0530` or `+2` to seconds east of UTC.
fn parse_offset(s: &str) -> Result<i32, String> {
    let bad = || format!("{s:?} is not an offset such as +02:00, -0530 or Z");
    if matches!(s, "Z" | "z" | "UTC" | "utc") {
        return Ok(0);
    }
    let (sign, rest) = match (s.strip_prefix('+'), s.strip_prefix('-')) {
        (Some(r), _) => (1, r),
        (_, Some(r)) => (-1, r),
        _ => return Err(bad()),
    };
    let digits: String = rest.chars().filter(|c| *c != ':').collect();
    if digits.is_empty() || digits.len() > 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let n: i32 = digits.parse().map_err(|_| bad())?;
    let (h, m) = if digits.len() <= 2 {
        (n, 0)
    } else {
        (n / 100, n % 100)
    };
    if h > 14 || m > 59 {
        return Err(bad());
    }
    Ok(sign * (h * 3600 + m * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn offsets_are_written_in_several_ways() {
        for (s, want) in [
            ("Z", Some(0)),
            ("+02:00", Some(7200)),
            ("-0530", Some(-19800)),
            ("+2", Some(7200)),
            ("+24:00", None),
            ("2", None),
            ("+", None),
            ("", None),
        ] {
            assert_eq!(parse_offset(s).ok(), want, "{s}");
        }
    }
}
