//! Imports raw captures as observations in order of arrival.
//!
//! Every input is decoded by its own decoder on its own thread, sorted by arrival, and merged; files that are one
//! stream in pieces (a log that rotated) go through one decoder in the order of their times. Where two observations
//! arrived in the same nanosecond, the kind of source decides, then the file's path, then the order of lines: the
//! result does not depend on the order of flags or on threads.

mod bundle;
mod containers;
mod kind;
mod moment;
mod nameless;
mod open;
mod placeholders;
mod plain;
mod recognise;
mod repeats;
mod retold;
mod stream;
mod uids;
mod utf16;
mod whole;
mod yaml;
mod zone;

pub use bundle::{Bundle, Left, Part, find};
pub use kind::{Input, Kind, Only};
pub use moment::{Dating, Made};
pub use open::Progress;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use kflow_model::session::{Header, SourceInfo};
use kflow_model::{Body, Nanos, Observation, Source, Text, redact};
use kflow_sources::TimeHint;
use open::{Closed, Open};
use stream::{Decoded, Stream};

/// Facts that the inputs do not contain.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Year of log lines without one: the year of the oldest line.
    pub year: Option<i32>,
    /// Offset of the logs' local time from UTC, seconds east.
    pub utc_offset_s: i32,
    /// Name of the node for the header; if empty, that of the only Node object in the inputs, else `host`.
    pub node: Text,
    /// The host that a node's captures are of, where they tell it. It is mostly the node's name.
    pub host: Text,
    /// A time near log lines without a year, used when no input gives one: now.
    pub fallback: Option<Nanos>,
    /// When bundles were made, where they say it.
    pub made: Made,
    /// Archives whose ends are missing.
    pub cut: Vec<String>,
    /// When lists were read, where they do not tell.
    pub taken: Option<Nanos>,
}

/// The result of reading one input.
#[derive(Clone, Debug)]
pub struct Summary {
    pub input: Input,
    /// Lines read.
    pub lines: u64,
    /// Bytes read, uncompressed.
    pub bytes: u64,
    /// Observations made of it.
    pub observations: u64,
    /// Lines without anything that kflow uses, by reason.
    pub ignored: BTreeMap<&'static str, u64>,
    /// Lines that are not in the format of the source, by reason.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Lines of these that look like errors: the first few, and only those before the first observation.
    pub unread: Vec<Text>,
    /// Why the end of the input is missing, if it is.
    pub cut: Option<String>,
    /// A sentence that says what the input is instead, if it is not of the kind that it was given as.
    pub misfit: Option<String>,
}

/// A finished import, in memory.
#[derive(Debug)]
pub struct Imported {
    pub header: Header,
    /// Observations in order of arrival. They are not redacted yet: the session writer does that.
    pub observations: Vec<Observation>,
    /// One per input, in order of merging.
    pub summaries: Vec<Summary>,
    /// The newest time in each bundle.
    pub ends: BTreeMap<usize, Nanos>,
    /// How lists were dated.
    pub dating: Dating,
}

impl Imported {
    /// True if objects have placeholders for names that no input tells.
    pub fn has_placeholders(&self) -> bool {
        self.observations.iter().any(placeholders::has_placeholder)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// An input could not be read at all.
    #[error("cannot read {path}: {source}")]
    Open {
        /// Path of the capture.
        path: String,
        source: io::Error,
    },
    /// More than one input is standard input.
    #[error("standard input (-) can be only one of the inputs")]
    TwoStdins,
    /// Nothing to read.
    #[error("nothing to import: name at least one capture, folder or archive")]
    Nothing,
    /// Lists are said to have been read before what they tell.
    #[error(
        "--taken ({taken}) is before {newest}, a time in {name}: a list is read after what it tells"
    )]
    Taken {
        taken: Nanos,
        newest: Nanos,
        /// Name of the list.
        name: String,
    },
    /// The captures are of another node than the one that was named.
    #[error(
        "the captures are of host {host}, and nothing in them names a node {node}: leave --node out, or name {host}"
    )]
    Node { host: Text, node: Text },
    /// There is no list whose time of reading could be given.
    #[error(
        "--taken says when lists of API objects were read, and there are none: give them with --watch"
    )]
    NothingTaken,
}

/// Reads all inputs.
pub fn run(
    inputs: &[Input],
    options: &Options,
    progress: &Arc<Progress>,
) -> Result<Imported, ImportError> {
    if inputs.is_empty() {
        return Err(ImportError::Nothing);
    }
    if inputs
        .iter()
        .filter(|i| i.is_stdin() && i.part.is_none())
        .count()
        > 1
    {
        return Err(ImportError::TwoStdins);
    }
    if options.taken.is_some() && inputs.iter().all(|i| i.kind != Kind::Watch) {
        return Err(ImportError::NothingTaken);
    }
    let mut files: Vec<Closed> = Vec::with_capacity(inputs.len());
    for input in inputs {
        files.push(Closed::new(input, progress)?);
    }
    files.sort_by(|a, b| (a.input.kind, &a.input.path).cmp(&(b.input.kind, &b.input.path)));
    let mut streams = stream::of(files);

    let (mut near, mut zone) = (None, None);
    let mut done: Vec<Decoded> = Vec::with_capacity(streams.len());
    for round in 0..=2 {
        let (now, later): (Vec<Stream>, Vec<Stream>) =
            streams.into_iter().partition(|s| s.kind.round() == round);
        streams = later;
        let finished = stream::decode_all(now, options, near, zone)?;
        // All captures end when they were taken, which was at about the same time.
        near = near.or_else(|| finished.iter().filter_map(Decoded::near).max());
        zone = zone.or_else(|| finished.iter().find_map(|d| d.zone));
        done.extend(finished);
    }

    let dating = moment::date(&mut done, options.taken, &options.made)?;
    whole::put_names(&mut done);
    let mut observations = Vec::with_capacity(done.iter().map(|d| d.observations.len()).sum());
    let mut summaries = Vec::with_capacity(inputs.len());
    let mut ends: BTreeMap<usize, Nanos> = BTreeMap::new();
    for d in done {
        let newest = d.observations.iter().map(|o| o.stamp.seen).max();
        if let Some(newest) = newest {
            let end = ends.entry(d.bundle()).or_default();
            *end = newest.max(*end);
        }
        observations.extend(d.observations);
        summaries.extend(d.summaries);
    }
    // Stable: ties keep the order of kinds, inputs and lines.
    observations.sort_by_key(|o: &Observation| o.stamp.seen);
    nameless::name(&mut observations);
    placeholders::resolve(&mut observations);
    uids::resolve(&mut observations);
    containers::resolve(&mut observations);
    retold::drop_printed(&mut observations);
    moment::drop_late_names(&mut observations);
    moment::put_end(&mut observations);
    // What is missing may be of any time.
    let begin = observations.first().map(|o| o.stamp.seen);
    let cuts = options.cut.iter().zip(begin.into_iter().cycle());
    let cuts = cuts.map(|(name, begin)| {
        let why = format!("{name} is cut: what it had behind the cut is missing");
        stream::gap(Source::Kflow, begin, &redacted(&why))
    });
    observations.splice(0..0, cuts.collect::<Vec<_>>());

    let mut header = Header::new(
        observations
            .first()
            .map_or_else(Nanos::default, |o| o.stamp.seen),
    );
    if !options.node.is_empty()
        && !options.host.is_empty()
        && options.host != options.node
        && !bundle::nodes::same(&options.host, &options.node)
        && !observations.iter().any(|o| names_node(o, &options.node))
    {
        return Err(ImportError::Node {
            host: redacted(&options.host),
            node: redacted(&options.node),
        });
    }
    header.node = if options.node.is_empty() {
        only_node(&observations).unwrap_or_else(|| redacted(&options.host))
    } else {
        options.node.clone()
    };
    header.sources = summaries
        .iter()
        .map(|s| SourceInfo {
            source: s.input.kind.source().name().into(),
            name: s.input.name.as_str().into(),
            observations: Some(s.observations),
        })
        .collect();
    Ok(Imported {
        header,
        observations,
        summaries,
        ends,
        dating,
    })
}

/// The newest time in the lists among the inputs, found without decoding them.
pub fn newest_of_lists(inputs: &[Input]) -> Option<Nanos> {
    let lists =
        (inputs.iter()).filter(|i| i.kind == Kind::Watch && (i.part.is_some() || !i.is_stdin()));
    let newest = |input: &Input| {
        let mut decoder = Kind::Watch.decoder(TimeHint::default());
        let mut list = Vec::new();
        let file = Open::new(input, &Arc::default()).ok()?;
        stream::take(file, &mut *decoder, &mut list);
        decoder.finish(&mut list);
        let told = list.iter().filter(|_| decoder.guesses_arrival());
        told.map(|o| o.stamp.seen).max()
    };
    lists.filter_map(newest).max()
}

/// Returns the name of the node if the inputs have Node objects of exactly one.
fn only_node(observations: &[Observation]) -> Option<Text> {
    let mut names = observations.iter().filter_map(|o| match &o.body {
        Body::Node(n) => Some(&n.name),
        _ => None,
    });
    let first = names.next()?;
    names.all(|n| n == first).then(|| redacted(first))
}

/// True if an object says that there is a node of this name.
fn names_node(o: &Observation, node: &str) -> bool {
    match &o.body {
        Body::Node(n) => n.name == node,
        Body::Pod(p) => p.spec.node == node,
        _ => false,
    }
}

/// The session writer redacts observations, not the header.
fn redacted(name: &str) -> Text {
    redact::text(name).as_ref().into()
}
