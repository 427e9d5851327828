//! Arguments, configuration, wiring, exit codes. Only this module prints.
//!
//! Each command has a file of its name, and its arguments in [`args`]. The other modules:
//!
//! | module | owns |
//! |---|---|
//! | [`args`] | the command line's grammar (clap only) |
//! | [`input`] | where a command takes its observations from, and as of which moment |
//! | `complete` | shell completion |
//! | `collect` | a single look at live sources, for commands that answer once |
//! | `debug` | an agent that runs for one command |
//! | `live` | the sources of commands that observe live, and signals |
//! | `log` | kflow's own log |
//! | `manual` | manual pages |
//! | `out` | standard output, colours |
//! | `pods` | the pods that a command is about, and the messages when there are none |
//! | `scope` | the selection of pods that a command looks at |
//! | `settings` | `kflow keys`, `themes`, `config` |
//! | `store` | `kflow store`, and the segments that a command fetches from a store |

pub mod args;
pub mod input;

mod agent;
mod agents;
mod bar;
mod calls;
mod collect;
mod complete;
mod debug;
mod doctor;
mod export;
#[cfg(feature = "fleet")]
mod fleet;
mod flow;
mod import;
mod live;
mod log;
mod manual;
mod out;
mod pods;
#[cfg(target_os = "linux")]
mod proxy;
mod record;
mod recording;
mod replay;
mod requests;
mod scope;
mod screenshots;
mod settings;
mod stats;
mod store;
pub(crate) mod tap;
mod timeline;
mod traces;
mod tui;
mod watched;
mod why;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use anyhow::Context as _;
use args::{Args, Command};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, CommandFactory, FromArgMatches, ValueHint};

use kflow_core::diagnose::Unknown;
use kflow_core::query::{self, Moment};
use kflow_core::suggest::suggest;

/// Exit code: success, and no verdict.
pub const OK: u8 = 0;
/// Exit code: `why` has a verdict.
pub const VERDICT: u8 = 1;
/// Exit code: wrong usage, or data that the answer needs could not be read, so that the answer
/// is unknown or incomplete.
pub const ERROR: u8 = 2;
/// Exit code: the named object does not exist, and all of its kind are known (for a pod: all of its namespace).
pub const NO_SUCH: u8 = 3;

#[cfg(not(feature = "fleet"))]
const WITHOUT_FLEET: &str = "this kflow was built without its tables: use kflow-fleet of the release, or build it with --profile fleet --features fleet";

/// Parses the value of `--at`.
fn moment(text: &str) -> anyhow::Result<Moment> {
    Moment::parse(text).with_context(|| format!("--at {text:?} is not a time: {}", query::FORMS))
}

/// A runtime on this thread, for a command that asks somebody.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")
}

pub fn main() -> ExitCode {
    if complete::answered() {
        return ExitCode::from(OK);
    }
    let args = parse();
    let rows = args.command.rows();
    out::choose_colour(args.color);
    let ran = log::start(args.log.as_deref(), args.command.owns_terminal()).and_then(|log| {
        let ran = run(args);
        drop(log);
        ran
    });
    match ran {
        Ok(code) => {
            out::tell_rest("");
            ExitCode::from(code)
        }
        Err(e) => {
            if let (Some(unknown), Some(form)) = (e.downcast_ref::<Unknown>(), rows) {
                let mut out = out::stdout();
                if let Err(e) =
                    kflow_export::unknown::rows(&mut out, unknown, form).and_then(|()| out.flush())
                {
                    out::tell(&e.to_string());
                }
            }
            out::conclude(&redacted(&told(&e), NAMED.get().map_or(&[], Vec::as_slice)));
            ExitCode::from(ERROR)
        }
    }
}

/// Printed when kflow is called without arguments.
const WHERE_TO_BEGIN: &str = "\
kflow shows, call by call, what Kubernetes and the container runtime do to a pod, and why one is stuck.

  KFLOW demo                   a recorded node with pods that hang; needs nothing
  KFLOW why --all              which pods of the cluster are stuck, and why; needs a kubeconfig
  KFLOW tui --node NODE        watch a node; as root on the node also its calls
  KFLOW replay FILE            look at a recording that somebody made with KFLOW record
  KFLOW doctor                 what would work here, and what to do about the rest

KFLOW help lists all commands.";

/// Parses the arguments. clap takes `--help` for the value of a flag whose value may begin with a dash (`--from
/// -2h`); help is then printed nevertheless.
fn understood(command: clap::Command) -> clap::ArgMatches {
    const HELP: &str = "--help";
    let all: Vec<OsString> = std::env::args_os().collect();
    let own = || all.iter().take_while(|a| *a != "--");
    let parsed = command.clone().try_get_matches_from(&all);
    let is_value = match &parsed {
        Ok(_) => own().any(|a| a == HELP),
        Err(e) => e
            .get(ContextKind::InvalidValue)
            .is_some_and(|v| v.to_string() == HELP),
    };
    if !is_value {
        return parsed.unwrap_or_else(|e| with_tip(e, &command).exit());
    }
    let mut about = &command;
    let mut asked: Vec<&OsStr> = own().take(1).map(OsString::as_os_str).collect();
    for word in own().skip(1) {
        if let Some(named) = about.find_subcommand(word) {
            about = named;
            asked.push(word);
        }
    }
    asked.push(OsStr::new(HELP));
    command.get_matches_from(asked)
}

/// Words of kubectl and of similar programs, and the command that does here what they do there.
const ELSEWHERE: [(&str, &str); 16] = [
    ("debug", "why"),
    ("describe", "why"),
    ("diagnose", "why"),
    ("explain", "why"),
    ("status", "why"),
    ("get", "tui"),
    ("pods", "tui"),
    ("top", "tui"),
    ("watch", "tui"),
    ("events", "timeline"),
    ("logs", "timeline"),
    ("trace", "timeline"),
    ("capture", "record"),
    ("open", "replay"),
    ("play", "replay"),
    ("check", "doctor"),
];

/// Adds the command that was meant to an error about one that there is not. clap suggests none for words as short as
/// most commands, nor what has another name elsewhere.
fn with_tip(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let told = error.get(ContextKind::SuggestedSubcommand).is_some();
    let word = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if !told => word.clone(),
        _ => return error,
    };
    let elsewhere = ELSEWHERE.iter().find(|(other, _)| *other == word);
    if let Some((_, here)) = elsewhere {
        let about = command
            .find_subcommand(here)
            .and_then(clap::Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let tip = format!("there is 'kflow {here}': {about}");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
        return error;
    }
    let shown = command.get_subcommands().filter(|c| !c.is_hide_set());
    let near = suggest(&word, shown.map(|c| c.get_name().to_owned()), |name| name);
    if !near.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(near),
        );
    }
    error
}

/// Parses the arguments. Under the name `kubectl-kflow` the program is a plugin of kubectl, and help shows that name.
fn parse() -> Args {
    let plugin = std::env::args_os().next().is_some_and(|me| {
        Path::new(&me)
            .file_stem()
            .is_some_and(|n| n == "kubectl-kflow")
    });
    let mut command = Args::command();
    if std::env::args_os().len() < 2 {
        let me = if plugin { "kubectl kflow" } else { "kflow" };
        // stderr may be closed.
        let _unread = writeln!(std::io::stderr(), "{}", WHERE_TO_BEGIN.replace("KFLOW", me));
        std::process::exit(ERROR.into());
    }
    if plugin {
        command = command.bin_name("kubectl kflow");
    }
    let matches = understood(command.clone());
    NAMED.get_or_init(|| named(&command, &matches));
    let mut args = Args::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    if let Err(e) = args.command.join_names() {
        out::conclude(&redacted(&e, NAMED.get().map_or(&[], Vec::as_slice)));
        std::process::exit(ERROR.into());
    }
    args
}

/// The files, pods and namespaces that the arguments name.
static NAMED: OnceLock<Vec<String>> = OnceLock::new();

/// Returns the files, pods and namespaces that the arguments name, longest first; of `ns/name` also the parts.
fn named(command: &clap::Command, matches: &ArgMatches) -> Vec<String> {
    let (mut command, mut matches) = (command, matches);
    let mut all = Vec::new();
    loop {
        for arg in command.get_arguments() {
            let is_path = matches!(
                arg.get_value_hint(),
                ValueHint::FilePath | ValueHint::DirPath | ValueHint::AnyPath
            );
            let is_name = matches!(arg.get_id().as_str(), "pod" | "name" | "namespace");
            let Ok(Some(values)) = matches.try_get_raw(arg.get_id().as_str()) else {
                continue;
            };
            for value in values.map(OsStr::to_string_lossy) {
                if is_name {
                    all.extend(value.split('/').map(str::to_owned));
                }
                if is_name || is_path {
                    all.push(value.into_owned());
                }
            }
        }
        let Some((name, of_it)) = matches.subcommand() else {
            break;
        };
        let Some(sub) = command.find_subcommand(name) else {
            break;
        };
        (command, matches) = (sub, of_it);
    }
    all.retain(|name| !name.is_empty());
    all.sort_by_key(|name| std::cmp::Reverse(name.len()));
    all.dedup();
    all
}

/// Redacts a message. Where it first mentions one of `names`, standing alone, the name is no credential, nor the key of
/// one: `cannot open session passwd: No such file`.
fn redacted(text: &str, names: &[String]) -> String {
    // Characters for private use stand in for the names: no pattern of a credential has them.
    const STAND_IN: u32 = 0xf_0000;
    let stand_ins = (STAND_IN..).filter_map(char::from_u32);
    let pairs: Vec<(char, &String)> = stand_ins.zip(names).collect();
    let mut text = text.to_owned();
    for (stand_in, name) in &pairs {
        let alone = |at: usize| {
            let before = text.get(..at).and_then(|t| t.chars().next_back());
            let after = text.get(at + name.len()..).unwrap_or_default();
            before.is_none_or(|c| c.is_whitespace() || matches!(c, '"' | '\'' | '`'))
                && (after.is_empty()
                    || after.starts_with([';', ',', '"', '\'', '`'])
                    || after.starts_with(": ")
                    || after.starts_with(char::is_whitespace))
        };
        let mut found = text.match_indices(name.as_str()).map(|(at, _)| at);
        if let Some(at) = found.find(|at| alone(*at)) {
            text.replace_range(at..at + name.len(), stand_in.encode_utf8(&mut [0; 4]));
        }
    }
    let mut text = kflow_model::redact::text(&text).into_owned();
    for (stand_in, name) in &pairs {
        text = text.replace(*stand_in, name);
    }
    text
}

fn run(mut args: Args) -> anyhow::Result<u8> {
    // The fetched segments are removed when this is dropped.
    let _fetched = store::fetch_into(&mut args.command)?;
    let _debugging = debug::start(&mut args.command)?;
    match args.command {
        Command::Import(a) => import::run(&a),
        Command::Timeline(a) => timeline::timeline(&a),
        Command::Calls(a) => calls::calls(&a),
        Command::Export(a) => export::export(&a),
        Command::Flow(a) => flow::flow(&a),
        Command::Requests(a) => requests::requests(&a),
        Command::Stats(a) => stats::stats(&a),
        #[cfg(feature = "fleet")]
        Command::Fleet(a) => fleet::fleet(&a),
        #[cfg(not(feature = "fleet"))]
        Command::Fleet(_) => anyhow::bail!(WITHOUT_FLEET),
        Command::Store(a) => store::store(&a),
        #[cfg(target_os = "linux")]
        Command::Proxy(a) => proxy::proxy(&a),
        #[cfg(not(target_os = "linux"))]
        Command::Proxy(_) => Err(live::only_on_a_node("kflow proxy")),
        Command::Agent(a) => agent::agent(&a),
        Command::Tui(a) => match &a.session {
            Some(file) => replay::play(&a, file),
            None => tui::tui(&a),
        },
        Command::Record(a) => record::record(&a),
        Command::Doctor(a) => doctor::doctor(&a),
        Command::Why(a) => why::why(&a),
        Command::Causes(a) => why::catalogue(&a),
        Command::Replay(a) => replay::replay(&a),
        Command::Demo(a) => replay::demo(&a),
        Command::Filter => settings::filter(),
        Command::Keys(a) => settings::keys(&a),
        Command::Themes(a) => settings::themes(&a),
        Command::Config(a) => settings::configuration(&a),
        Command::Screenshots(a) => screenshots::screenshots(&a),
        Command::Completions { shell } => complete::script(shell),
        Command::Man { dir } => manual::man(dir.as_deref()),
    }
}

/// An error and its causes, each printed once: many messages already include their cause.
fn told(e: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in e.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_the_user_gave_is_no_credential_and_what_else_is_said_is_searched_for_them() {
        for (name, text, want) in [
            ("passwd", "cannot open session passwd: No such file", None),
            (
                "./password=x.kflow",
                "cannot open session ./password=x.kflow: No such file",
                None,
            ),
            (
                "nope-token",
                "unknown what there is in namespace nope-token: nothing is",
                None,
            ),
            // Only where the name stands alone, and only once.
            (
                "password",
                "refused: password=hunter2",
                Some("refused: password=<redacted>"),
            ),
            (
                "passwd",
                "cannot open passwd: it has passwd: hunter2",
                Some("cannot open passwd: it has passwd: <redacted>"),
            ),
            (
                "x",
                "no x: password=hunter2",
                Some("no x: password=<redacted>"),
            ),
        ] {
            assert_eq!(redacted(text, &[name.to_owned()]), want.unwrap_or(text));
        }
    }

    #[test]
    fn a_cause_that_a_message_tells_already_is_not_said_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gone");
        let io = std::fs::File::open(&path).unwrap_err();
        let said = io.to_string();
        let e = anyhow::Error::new(kflow_model::session::SessionError::Io {
            op: "open",
            path: "gone".into(),
            source: io,
        })
        .context("cannot replay");
        assert_eq!(
            told(&e),
            format!("cannot replay: cannot open session gone: {said}")
        );
    }
}
