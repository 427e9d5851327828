//! `kflow record`

mod store;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::args::live::RecordArgs;
use super::collect::{Notice, notices};
use super::live::{config, since, stderr_log, wait_after};
use kflow_core::diagnose::{
    self,
    unknown::{self, Asked, Unknown},
};
use kflow_engine::Snapshot;
use kflow_engine::live::{Config, Earlier, Live, Reading};
use kflow_engine::record::{CLOSE, Ended, KEEP, Options, State};
use kflow_model::gap::Failure;
use kflow_model::{Scope, Text, clock};
use kflow_serve::Log;

/// The messages about sources that `record` has printed: each is printed once, and again when its cause recurs.
#[derive(Default)]
struct Told(Vec<String>);

impl Told {
    fn tell(&mut self, snapshot: &Snapshot, log: &Log) {
        let works = snapshot.sources.iter().filter(|s| s.is_on()).map(|s| {
            let key = format!("{} {}: on", s.source.name(), s.name);
            let text = format!("{key} ({})", s.detail());
            Notice { key, text }
        });
        let all: Vec<Notice> = works.chain(notices(snapshot)).collect();
        for n in all.iter().filter(|n| !self.0.contains(&n.key)) {
            log(&n.text);
        }
        self.0 = all.into_iter().map(|n| n.key).collect();
    }
}

/// `kflow record`
pub(super) fn record(args: &RecordArgs) -> anyhow::Result<u8> {
    if let Some(url) = &args.keep.store {
        ensure!(
            args.since.is_none(),
            "--since is of recording into a file (-O), which `kflow store add` adds to a store: leave --since or --store out"
        );
        return store::record(args, url);
    }
    if let Some(flag) = args.keep.flag() {
        bail!("{flag} is of recording into a store: name one with --store, or leave it out");
    }
    let log = stderr_log();
    let path = args.output_file.as_ref().context("name a file with -O")?;
    let piped = path.as_os_str() == "-";
    ensure!(
        !piped || !std::io::stdout().is_terminal(),
        "-O - is for a pipe, and standard output is a terminal: name a file, or write | behind it"
    );
    ensure!(
        !piped || args.max_size.is_none(),
        "--max-size begins new files, and -O - has none: leave one of them out"
    );
    let mut config = Config {
        traces: super::traces::store(&args.traces)?,
        ..config(&args.live, args.pod.as_deref())?
    };
    super::live::search(&mut config, &args.live);
    let earlier = since(&mut config, args.since.as_deref())?;
    let scope = config.scope.clone();
    let mut live = Live::start(config)?;
    live.record(Options {
        path: path.clone(),
        max_size: args.max_size,
        pod: args.pod.clone(),
        node: Text::default(),
    })?;
    let whither = if piped {
        "standard output".into()
    } else {
        path.to_string_lossy()
    };
    log(&format!("recording to {whither}"));
    let mut told = Told::default();
    let mut before = Before::new(earlier);
    before.tell(&log);
    let why = wait_after(before.earlier.clone().as_ref(), args.for_time, || {
        told.tell(&live.snapshot(), &log);
        before.tell(&log);
        live.recording().is_none_or(|r| r.ended.is_none()) && live.check().is_ok()
    })?;
    let running = live.check();
    let ended = live.stop();
    super::traces::conclude(&live);
    running?;
    match ended {
        Some(State {
            path, ended: None, ..
        }) => bail!(
            "{} was not closed within {}: its disk does not answer, and what was seen last may be missing",
            path.display(),
            kflow_model::units::wait(CLOSE)
        ),
        Some(State {
            ended: Some(Ended::Failed(reason)),
            ..
        }) => bail!("the recording stopped by itself: {reason}"),
        Some(s) => {
            let last = live.snapshot();
            told.tell(&last, &log);
            before.tell(&log);
            log(&format!(
                "{why}: {} observations, {} bytes, {} lost",
                s.observations, s.bytes, s.lost
            ));
            if s.removed > 0 {
                let left = s.observations.saturating_sub(s.removed);
                log(&format!(
                    "{left} observations are left: the older files had to go, as {KEEP} are kept"
                ));
            }
            if let Some((left_out, unnamed)) = s.only {
                log(&format!(
                    "left out, as they are about other pods or what made them: {left_out}; recorded, though they name none of these: {unnamed}"
                ));
            }
            if let Some(none) = none_seen(&last, args.pod.as_deref()) {
                log(&none);
            }
            let made = Made {
                path: s.path,
                lost: s.lost,
            };
            let missing = [before.missing(), missing(&last, scope.as_ref(), &made)];
            let statuses = missing.iter().map(|m| super::pods::whole(m.as_ref()));
            Ok(statuses.max().unwrap_or(super::OK))
        }
        None => bail!("the recording was never started"),
    }
}

/// Says that an apiserver listed no pod of those that were to be recorded. They may come after this recording; a name may be misspelt, too.
fn none_seen(last: &Snapshot, query: Option<&str>) -> Option<String> {
    let world = &last.world;
    let coverage = world.coverage();
    let scope = last.scope.as_deref();
    if !coverage.asked("pods") || coverage.incomplete("pods", scope, last.now).is_some() {
        return None;
    }
    match query {
        Some(query) => diagnose::find(world, query)
            .is_empty()
            .then(|| format!("nothing that is called {query} was seen")),
        None => world.every_pod().is_empty().then(|| {
            let place = last.scope.as_ref().map(|s| format!(" {}", s.place()));
            format!("no pod was seen{}", place.unwrap_or_default())
        }),
    }
}

/// How often it is said how far what the agent kept has been read.
const PROGRESS: Duration = Duration::from_secs(5);

/// What an agent kept from before the recording, and what was said of it.
struct Before {
    earlier: Option<Earlier>,
    /// The last message: of what kind it was, and when it was printed.
    said: Option<(Instant, Saying)>,
    over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Saying {
    Asked,
    Waits,
    Reads,
    Over,
}

impl Before {
    const fn new(earlier: Option<Earlier>) -> Self {
        Self {
            earlier,
            said: None,
            over: false,
        }
    }

    /// Says how far it has been read, now and then, and how that ended.
    fn tell(&mut self, log: &Log) {
        let Some(earlier) = self.earlier.as_ref().filter(|_| !self.over) else {
            return;
        };
        let now = clock::monotonic();
        let what = format!(
            "what the agent kept since {}",
            earlier.begin().to_rfc3339_seconds()
        );
        let (saying, text) = match earlier.reading() {
            Reading::Coming => match earlier.progress() {
                (_, Some(why)) => (Saying::Waits, format!("{what} is waited for: {why}")),
                (Some(to), None) => {
                    let to = to.to_rfc3339_seconds();
                    (Saying::Reads, format!("{what} is read up to {to}"))
                }
                (None, None) => (Saying::Asked, format!("{what} is asked for")),
            },
            Reading::Read => (Saying::Over, format!("{what} is read")),
            Reading::Missing(why) => (Saying::Over, format!("{what} is not all there: {why}")),
        };
        self.over = saying == Saying::Over;
        let due = |(at, said): (Instant, Saying)| {
            said != saying || now.saturating_duration_since(at) >= PROGRESS
        };
        if self.said.is_none_or(due) {
            log(&text);
            self.said = Some((now, saying));
        }
    }

    fn missing(&self) -> Option<Unknown> {
        let earlier = self.earlier.as_ref()?;
        let Reading::Missing(why) = earlier.reading() else {
            return None;
        };
        Some(Unknown {
            what: format!(
                "what the node's agent kept since {}",
                earlier.begin().to_rfc3339_seconds()
            ),
            reason: unknown::Reason::NotRecorded,
            why: why.to_string(),
            help: "record again; `kflow agent status` says what an agent keeps".to_owned(),
        })
    }
}

/// A finished recording.
struct Made {
    /// The file, or the store's URL.
    path: PathBuf,
    /// Number of observations lost because the disk had no room or was too slow.
    lost: u64,
}

/// What a finished recording lacks of the requested data: lists that never ended or are incomplete at its end, and
/// observations that were lost.
fn missing(last: &Snapshot, scope: Option<&Scope>, made: &Made) -> Option<Unknown> {
    let asked = Asked {
        world: &last.world,
        at: last.now,
        scope,
        recorded: None,
    };
    let longer = "record for longer; `kflow doctor` says what works";
    if let Some(mut missing) = unknown::never_listed(asked).or_else(|| unknown::partial(asked)) {
        match missing.reason {
            unknown::Reason::Failed(Failure::TimedOut) => longer.clone_into(&mut missing.help),
            unknown::Reason::Lost => "record again".clone_into(&mut missing.help),
            _ => {}
        }
        return Some(missing);
    }
    if made.lost > 0 {
        return Some(Unknown {
            what: format!(
                "what else happened, and {} does not tell",
                made.path.display()
            ),
            reason: unknown::Reason::Lost,
            why: format!(
                "its disk had no room for {} observations, or was too slow for them",
                made.lost
            ),
            help: "record to a larger or faster disk, or less of the cluster (-n, -l, --node)"
                .to_owned(),
        });
    }
    let silent = last.sources.iter().all(|s| s.count == 0);
    silent.then(|| Unknown {
        what: format!("what happened, and {} does not tell", made.path.display()),
        reason: unknown::Reason::NotRecorded,
        why: "no source gave anything".to_owned(),
        help: longer.to_owned(),
    })
}
