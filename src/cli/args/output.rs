//! `-o` is the form and `-O` the file, in every command that writes one.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{
    EnumValueParser, PathBufValueParser, PossibleValue, StyledStr, TypedValueParser,
};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches, ValueEnum, ValueHint};

use super::live::duration;
use super::stats::StatsFormat;
use super::{ExportFormat, TableFormat, TimelineFormat, WhyFormat};
use kflow_core::suggest::suggest;

const FORM: &str = "output";
const FILE: &str = "output-file";
/// Form of an export in the old spelling.
const FORMAT: &str = "format";
/// `--for` of `kflow record` in the old spelling.
const DURATION: &str = "duration";

/// An old spelling, and the one that took its place.
pub type Old = (&'static str, &'static str);

const OLD_FORM: Old = ("-f FORM", "-o FORM");
const OLD_FILE: Old = ("-o FILE", "-O FILE");
const OLD_TIME: Old = ("--duration TIME", "--for TIME");

/// What a command that writes a file is told of it. `F` is its forms; a [`Session`] has none to choose from.
#[derive(Clone, Debug)]
pub struct Output<F> {
    pub form: Option<F>,
    /// `-` is standard output.
    pub file: Option<PathBuf>,
    /// What was said in the old spelling.
    pub old: Vec<Old>,
}

/// The forms of a session: none, as its file's name says whether it is compressed.
#[derive(Clone, Debug)]
pub enum Session {}

impl ValueEnum for Session {
    fn value_variants<'a>() -> &'a [Self] {
        &[]
    }
    fn to_possible_value(&self) -> Option<PossibleValue> {
        match *self {}
    }
}

/// What follows `-o`.
#[derive(Clone, Debug)]
enum Word<F> {
    Form(F),
    Other(PathBuf),
}

#[derive(Clone)]
struct Words<F>(PhantomData<F>);

impl<F: ValueEnum + Send + Sync + 'static> TypedValueParser for Words<F> {
    type Value = Word<F>;

    fn parse_ref(
        &self,
        cmd: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, Error> {
        let form = value.to_str().and_then(|v| F::from_str(v, false).ok());
        match form {
            Some(form) => Ok(Word::Form(form)),
            None => PathBufValueParser::new()
                .parse_ref(cmd, arg, value)
                .map(Word::Other),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let all = F::value_variants().iter();
        has_forms::<F>().then(|| Box::new(all.filter_map(F::to_possible_value)) as _)
    }
}

fn has_forms<F: ValueEnum>() -> bool {
    !F::value_variants().is_empty()
}

fn names<F: ValueEnum>() -> Vec<String> {
    let all = F::value_variants().iter();
    all.filter_map(|f| f.to_possible_value().map(|v| v.get_name().to_owned()))
        .collect()
}

/// A form of any command.
fn is_a_form(word: &str) -> bool {
    [
        names::<ExportFormat>(),
        names::<TableFormat>(),
        names::<TimelineFormat>(),
        names::<StatsFormat>(),
        names::<WhyFormat>(),
    ]
    .iter()
    .flatten()
    .any(|name| name == word)
}

/// The argument `-o`.
fn word<F: ValueEnum + Send + Sync + 'static>(name: &'static str) -> Arg {
    Arg::new(FORM)
        .short('o')
        .long(FORM)
        .value_name(name)
        .value_parser(Words::<F>(PhantomData))
}

/// Takes what 0.1 wrote too: `-o FILE`, of an export with `-f FORM` beside it, and `record --duration`. Nothing that lists
/// the arguments lists these. A word that is a form is never a file.
pub fn with_old_spellings(command: Command) -> Command {
    let file = |c: Command| {
        c.arg(word::<Session>("FILE").hide(true))
            .mut_arg(FILE, |a| a.required(false).required_unless_present(FORM))
    };
    let time = Arg::new(DURATION)
        .long(DURATION)
        .hide(true)
        .value_name("TIME")
        .conflicts_with("for_time")
        .value_parser(duration);
    let form = Arg::new(FORMAT)
        .short('f')
        .long(FORMAT)
        .hide(true)
        .value_name("FORM")
        .value_parser(EnumValueParser::<ExportFormat>::new());
    command
        .mut_subcommand("import", file)
        .mut_subcommand("record", |c| {
            let or_store = |a: Arg| a.required_unless_present_any([FORM, "store"]);
            file(c).mut_arg(FILE, or_store).arg(time)
        })
        .mut_subcommand("export", |c| {
            let or_old = |a: Arg| {
                let a = a.alias("out").required(false);
                a.required_unless_present_any([FORMAT, "otlp_to"])
            };
            c.arg(form).mut_arg(FORM, or_old)
        })
}

/// Takes `--duration` for `--for`.
pub fn take_old_time(matches: &ArgMatches, args: &mut super::Args) {
    if let (Some((_, of_it)), super::Command::Record(a)) = (matches.subcommand(), &mut args.command)
        && let Some(time) = of_it.get_one::<Duration>(DURATION)
    {
        a.for_time = Some(*time);
        a.output.old.push(OLD_TIME);
    }
}

/// An argument that the command may not have.
fn given<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, id: &str) -> Option<T> {
    matches.try_get_one::<T>(id).ok().flatten().cloned()
}

impl<F: ValueEnum + Send + Sync + 'static> Args for Output<F> {
    fn augment_args(cmd: Command) -> Command {
        let file = Arg::new(FILE)
            .short('O')
            .long(FILE)
            .value_name("FILE")
            .value_hint(ValueHint::FilePath)
            .value_parser(PathBufValueParser::new());
        if !has_forms::<F>() {
            return cmd.arg(
                file.required(true).help(
                    "Write the session here: out.kflow, or out.kflow.zst for a compressed one",
                ),
            );
        }
        cmd.arg(word::<F>("FORM").required(true).help("How to write it"))
            .arg(file.help("File to write [default, or -: standard output]"))
    }

    fn augment_args_for_update(cmd: Command) -> Command {
        Self::augment_args(cmd)
    }
}

impl<F: ValueEnum + Send + Sync + 'static> FromArgMatches for Output<F> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut file = given::<PathBuf>(matches, FILE);
        let format = given::<F>(matches, FORMAT);
        let mut old: Vec<Old> = format.iter().map(|_| OLD_FORM).collect();
        let form = match (given::<Word<F>>(matches, FORM), format) {
            (None, form) => form,
            (Some(Word::Form(form)), None) => Some(form),
            (Some(Word::Form(_)), Some(_)) => {
                return Err(Error::raw(
                    ErrorKind::ArgumentConflict,
                    "-f and -o name two forms: leave -f out, and name a file with -O\n",
                ));
            }
            (Some(Word::Other(word)), None) if has_forms::<F>() => {
                return Err(no_form::<F>(&word.to_string_lossy()));
            }
            (Some(Word::Other(word)), form) => {
                let text = word.to_string_lossy().into_owned();
                if file.is_some() || (form.is_none() && is_a_form(&text)) {
                    return Err(Error::raw(
                        ErrorKind::ArgumentConflict,
                        format!(
                            "-o is the form, and {text} is none of this: name one file, with -O\n"
                        ),
                    ));
                }
                file = Some(word);
                old.push(OLD_FILE);
                form
            }
        };
        Ok(Self { form, file, old })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// As clap says it of other arguments, and what names a file.
fn no_form<F: ValueEnum>(word: &str) -> Error {
    let names = names::<F>();
    let mut e = Error::new(ErrorKind::InvalidValue);
    e.insert(
        ContextKind::InvalidArg,
        ContextValue::String("--output <FORM>".to_owned()),
    );
    e.insert(
        ContextKind::InvalidValue,
        ContextValue::String(word.to_owned()),
    );
    if let Some(near) = suggest(word, &names, |n| n).first() {
        e.insert(
            ContextKind::SuggestedValue,
            ContextValue::String((*near).clone()),
        );
    }
    e.insert(ContextKind::ValidValue, ContextValue::Strings(names));
    e.insert(
        ContextKind::Suggested,
        ContextValue::StyledStrs(vec![StyledStr::from("-o is the form; name a file with -O")]),
    );
    e
}

/// The line that teaches the new spelling.
pub fn hint(old: &[Old]) -> Option<String> {
    let all = |side: fn(&Old) -> &'static str| old.iter().map(side).collect::<Vec<_>>().join(" ");
    let was = all(|(was, _)| was);
    (!old.is_empty()).then(|| format!("{was} is the old spelling; write {}", all(|(_, now)| now)))
}
