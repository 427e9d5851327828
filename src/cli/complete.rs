//! Shell completion. `clap_complete` knows the arguments; names are read here, from the recording or the cluster that
//! the command line names.
//!
//! The user waits for the answer, so it has a time limit. A kind of names that is not known in time is left out
//! completely: with a part of the names, a shell could complete to the wrong one. Nothing else is ever
//! printed to the terminal.

mod kubectl;
mod names;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use clap::{ArgMatches, Command, CommandFactory as _, ValueEnum};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{Bash, CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};

use super::args::Args;
use super::{OK, out};
use kflow_core::diagnose::Catalogue;
use kflow_core::flow::Map;
use kflow_core::query::{self, Field};
use kflow_core::stats;
use kflow_model::cri::method;
use kflow_model::session::Names;
use kflow_model::{clock, kind};
use kflow_tui::theme;
use names::{Asked, Need};

/// Environment variable that a completion script sets when it calls `kflow`.
const VAR: &str = "KFLOW_COMPLETE";

/// Limit from the start of the program to the answer.
const WHOLE: Duration = Duration::from_millis(190);
/// Limit from the start of the program to the end of the search for names; completions without names are still
/// answered then.
const NAMES: Duration = Duration::from_millis(160);

const SHELLS: Shells<'static> =
    Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh, &kubectl::Kubectl]);

/// Who asks for completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
    /// The program kubectl_complete-kflow, which kubectl asks when `kubectl kflow` is completed
    Kubectl,
}

impl Shell {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &Bash,
            Self::Elvish => &Elvish,
            Self::Fish => &Fish,
            Self::Powershell => &Powershell,
            Self::Zsh => &Zsh,
            Self::Kubectl => &kubectl::Kubectl,
        }
    }
}

/// `kflow completions`: prints the script that calls `kflow` while the user types.
pub(super) fn script(shell: Shell) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    let asker = shell.completer();
    asker.write_registration(VAR, "kflow", "kflow", "kflow", &mut script)?;
    let mut out = out::stdout();
    out.write_all(script.trim_ascii_start())?;
    out.flush()?;
    Ok(OK)
}

/// Answers a completion script; returns false when none calls.
pub(super) fn answered() -> bool {
    if std::env::var_os(VAR).is_none_or(|v| v.is_empty()) {
        return false;
    }
    let begun = clock::monotonic();
    let (done, is_done) = sync_channel(1);
    let asker = move || {
        let args: Vec<OsString> = std::env::args_os().collect();
        let words = args.iter().skip_while(|a| *a != "--").skip(1);
        let asked = Arc::new(Asked::of(&matches(words.cloned()), begun + NAMES));
        let here = std::env::current_dir().ok();
        let told = CompleteEnv::with_factory(|| with_names(Args::command(), &asked))
            .var(VAR)
            .shells(SHELLS)
            .try_complete(args, here.as_deref());
        done.send(told.is_ok()).ok();
    };
    // A file system that does not answer blocks only the thread: the process exits anyway.
    if std::thread::Builder::new().spawn(asker).is_ok() {
        let left = WHOLE.saturating_sub(clock::monotonic().saturating_duration_since(begun));
        is_done.recv_timeout(left).ok();
    }
    true
}

/// Parses the words so far, as far as possible.
fn matches(words: impl Iterator<Item = OsString>) -> ArgMatches {
    let command = Args::command().ignore_errors(true);
    command.try_get_matches_from(words).unwrap_or_default()
}

/// Adds completion of names to the arguments that take names, by argument id.
fn with_names(command: Command, asked: &Arc<Asked>) -> Command {
    let subcommands: Vec<String> = command
        .get_subcommands()
        .map(|c| c.get_name().to_owned())
        .collect();
    subcommands.into_iter().fold(command, |command, name| {
        let asked = Arc::clone(asked);
        command.mut_subcommand(name.clone(), |c| {
            c.mut_args(|arg| {
                let id = arg.get_id().as_str().to_owned();
                let session = || arg.clone().add(ArgValueCompleter::new(sessions));
                let Some(kind) = Kind::of(&name, &id) else {
                    return arg;
                };
                if kind == Kind::Session {
                    return session();
                }
                let asked = Arc::clone(&asked);
                arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
                    let typed = typed.to_str().unwrap_or_default();
                    kind.candidates(typed, &asked)
                }))
            })
        })
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Session,
    /// A pod, or its owner, claim or node.
    Pod,
    Namespace,
    Node,
    Context,
    Method,
    Measure,
    Cause,
    Theme,
    /// A flow, a step or a pod.
    Flow,
    Filter,
}

impl Kind {
    fn of(command: &str, arg: &str) -> Option<Self> {
        Some(match (command, arg) {
            (_, "session" | "compare") => Self::Session,
            (_, "pod") => Self::Pod,
            (_, "namespace") => Self::Namespace,
            ("import", "node") => return None,
            (_, "node") => Self::Node,
            (_, "context") => Self::Context,
            (_, "method") => Self::Method,
            (_, "measure") => Self::Measure,
            ("causes", "id") => Self::Cause,
            (_, "theme") | ("themes", "print") => Self::Theme,
            ("flow", "what") => Self::Flow,
            (_, "filter" | "against") => Self::Filter,
            _ => return None,
        })
    }

    fn candidates(self, typed: &str, asked: &Asked) -> Vec<CompletionCandidate> {
        let begin = |(name, _): &(String, String)| name.starts_with(typed);
        let all: Vec<(String, String)> = match self {
            Self::Session => Vec::new(),
            Self::Pod => pods(typed, asked),
            Self::Namespace => asked.names(Need::Namespaces, |n| bare(n.namespaces())),
            Self::Node => asked.names(Need::Nodes, |n| bare(&n.nodes)),
            Self::Context => asked.contexts().map(bare).unwrap_or_default(),
            Self::Method => bare(method::ALL),
            Self::Measure => bare(stats::names()),
            Self::Cause => causes(typed),
            Self::Theme => themes(),
            Self::Flow => flows(typed, asked),
            Self::Filter => return expression(typed, asked),
        };
        all.into_iter().filter(begin).map(candidate).collect()
    }
}

fn candidate((name, help): (String, String)) -> CompletionCandidate {
    let help = kflow_export::text::clean(&help).into_owned();
    let help = (!help.is_empty()).then(|| help.into());
    CompletionCandidate::new(name).help(help)
}

/// Candidates without an explanation. Names with control characters are left out, since the answer consists of lines.
fn bare<S: ToString>(names: impl IntoIterator<Item = S>) -> Vec<(String, String)> {
    let names = names.into_iter().map(|n| n.to_string());
    let fit = |n: &String| !n.is_empty() && !n.contains(char::is_control);
    names.filter(fit).map(|n| (n, String::new())).collect()
}

fn sessions(typed: &OsStr) -> Vec<CompletionCandidate> {
    let is_session = |p: &Path| {
        let name = p.file_name().and_then(OsStr::to_str).unwrap_or_default();
        [".kflow", ".kflow.zst"].iter().any(|e| name.ends_with(e))
    };
    PathCompleter::any()
        .filter(is_session)
        .stdio()
        .complete(typed)
}

/// The kinds besides pods, each with the word that is written before a slash: the shortest, and `node`.
fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    kind::WORDS.iter().filter_map(|(kind, words)| match *kind {
        kind::POD => None,
        kind::NODE => Some(("node", *kind)),
        _ => Some((*words.first()?, *kind)),
    })
}

/// Candidates for a pod: its name or `namespace/name`, and other kinds: first only `kind/`, after the slash the
/// objects of that kind.
fn pods(typed: &str, asked: &Asked) -> Vec<(String, String)> {
    let need = match typed.split_once('/') {
        Some(("node", _)) => Need::Nodes,
        _ => Need::Pods,
    };
    asked.names(need, |names| {
        let within = |ns: &str| asked.namespace().is_none_or(|wanted| wanted == ns);
        let mut all = BTreeSet::new();
        for (ns, name) in names.pods.iter().filter(|(ns, _)| within(ns)) {
            if asked.namespace().is_some() || !typed.is_empty() && name.starts_with(typed) {
                all.insert(name.clone());
            }
            if asked.namespace().is_none() || typed.contains('/') {
                all.insert(format!("{ns}/{name}"));
            }
            if let Some(("pod" | "pods" | "po", _)) = typed.split_once('/') {
                let kind = typed.split('/').next().unwrap_or_default();
                all.insert(format!("{kind}/{name}"));
            }
        }
        for (short, kind) in kinds() {
            let of_kind: Vec<&str> = if kind == kind::NODE {
                names.nodes.iter().map(String::as_str).collect()
            } else {
                let objects = names.objects.iter();
                let of_kind = objects.filter(|(k, ns, _)| k == kind && within(ns));
                of_kind.map(|(_, _, name)| name.as_str()).collect()
            };
            if typed.contains('/') {
                all.extend(of_kind.iter().map(|name| format!("{short}/{name}")));
            } else if !of_kind.is_empty() {
                all.insert(format!("{short}/"));
            }
        }
        bare(all)
    })
}

fn causes(typed: &str) -> Vec<(String, String)> {
    let all = Catalogue::get().iter();
    // Cause ids are accepted in lower case too.
    all.map(|c| {
        let id = c.id.as_str();
        let id = match id.get(..typed.len()) {
            Some(begin) if begin.eq_ignore_ascii_case(typed) => {
                format!("{typed}{}", id.get(typed.len()..).unwrap_or_default())
            }
            _ => id.to_owned(),
        };
        (id, c.title.clone())
    })
    .collect()
}

fn themes() -> Vec<(String, String)> {
    let about = |text: &str| {
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches("# ").to_owned()
    };
    let all = theme::BUILT_IN.iter();
    all.map(|(name, text)| ((*name).to_owned(), about(text)))
        .collect()
}

/// Candidates for `kflow flow`: flows and steps of the map, functions once something is typed, and pods.
fn flows(typed: &str, asked: &Asked) -> Vec<(String, String)> {
    let map = Map::embedded();
    let flows = map.flows().iter();
    let mut all: Vec<(String, String)> = flows
        .map(|f| (f.name.to_string(), f.title.to_string()))
        .collect();
    for step in map.steps() {
        all.push((step.id.to_string(), step.label.to_string()));
        if !typed.is_empty() {
            all.push((step.function.to_string(), step.label.to_string()));
        }
    }
    all.extend(pods(typed, asked));
    all
}

/// Candidates for the end of a filter expression.
fn expression(typed: &str, asked: &Asked) -> Vec<CompletionCandidate> {
    let of = |need, of: fn(&Names) -> Vec<String>| asked.names(need, of);
    let known = |field: Field| match field {
        Field::Method => method::ALL.iter().map(|m| (*m).to_owned()).collect(),
        Field::Pod => of(Need::Pods, |n| n.pods.iter().map(|p| p.1.clone()).collect()),
        Field::Namespace => of(Need::Namespaces, |n| {
            n.namespaces().into_iter().map(str::to_owned).collect()
        }),
        Field::Node => of(Need::Nodes, |n| n.nodes.iter().cloned().collect()),
        Field::Owner => of(Need::Pods, |n| {
            n.objects.iter().map(|o| o.2.clone()).collect()
        }),
        Field::Reason => Catalogue::get().iter().map(|c| c.id.to_string()).collect(),
        _ => Vec::new(),
    };
    let all = query::complete(typed, &known).into_iter();
    let fit = all.filter(|c| !c.text.contains(char::is_control));
    fit.map(|c| candidate((c.text, c.help))).collect()
}

/// The path in an argument, if it was given.
fn path_of(matches: &ArgMatches, id: &str) -> Option<PathBuf> {
    matches.try_get_one::<PathBuf>(id).ok().flatten().cloned()
}

/// Time left until `until`; zero when it has passed.
fn left(until: Instant) -> Duration {
    until.saturating_duration_since(clock::monotonic())
}
