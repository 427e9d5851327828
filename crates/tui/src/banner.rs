//! A line above every pane that says what kflow could not read. Without the line, a reader would take missing data
//! for healthy or absent pods.
//!
//! At 80 columns the line has the cause in a few words, since when it holds, the time until the next try, and the
//! number of other causes; the Node pane shows each in full.

use ratatui::style::Style;

use super::canvas::Canvas;
use super::pane::PaneId;
use super::shared::Ctx;
use super::text::{count, width};
use kflow_core::diagnose::Unknown;
use kflow_core::diagnose::unknown::{self, Trouble};
use kflow_engine::snapshot::{Mode, Snapshot, SourceStatus, own as names};
use kflow_model::gap::Failure;
use kflow_model::stamp::SECOND;
use kflow_model::units::age;
use kflow_model::{Nanos, Source};

/// How long the first list of pods may take before the banner reports that it is missing, ns.
const PATIENCE: i64 = 2 * SECOND;

/// How severe a reason is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// What the panes show is wrong or incomplete.
    Unknown,
    /// The panes are right, but some additional data is missing.
    Missing,
}

/// One reason why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The label at the left of the banner, in one or two words, such as `UNKNOWN`.
    pub badge: &'static str,
    pub weight: Weight,
    /// The cause in a few words.
    pub what: String,
    /// What the source reported.
    pub said: String,
    /// What the user can do about it; may be empty.
    pub help: String,
    /// A short form of `help`, for narrow screens.
    pub brief: &'static str,
    pub since: Option<Nanos>,
    /// When the source tries again.
    pub next: Option<Nanos>,
}

impl Reason {
    /// Formats how long the reason has held and when the next try is: ` for 12s, next try in 4s`.
    pub fn times(&self, now: Nanos) -> String {
        let next = self.next.map(|n| n.since(now)).filter(|ns| *ns > 0);
        let next = next.map(|ns| format!(", next try in {}", age(ns)));
        format!("{}{}", self.lasted(now), next.unwrap_or_default())
    }
    /// Formats how long the reason has held: ` for 12s`.
    fn lasted(&self, now: Nanos) -> String {
        let since = self.since.map(|s| now.since(s)).filter(|ns| *ns >= 0);
        since.map_or_else(String::new, |ns| format!(" for {}", age(ns)))
    }
    const fn style(&self, ctx: &Ctx<'_>) -> Style {
        match self.weight {
            Weight::Unknown => ctx.theme.alarm,
            Weight::Missing => ctx.theme.paused,
        }
    }
}

/// Returns why something is not known at the moment of a snapshot, worst first. Empty if everything was read that was
/// asked for.
pub fn reasons(snap: &Snapshot) -> Vec<Reason> {
    let mut all: Vec<Reason> = snap.sources.iter().filter_map(own).collect();
    let troubles = unknown::troubles(snap.world.coverage(), snap.now);
    let next = next_try(snap, |s| s.source == Source::Kube);
    all.extend(troubles.iter().map(|t| of_trouble(snap, t, next)));
    let away = troubles.iter().any(|t| t.concerns("pods"));
    if !away {
        // A live run without an apiserver was started that way on purpose, but the reader of a recording may not know
        // which sources it had.
        let read = matches!(snap.mode, Mode::Replay { loading_permille, .. }
            if loading_permille == 1000 || !snap.log.is_empty());
        let never = |u: &Unknown| read && u.reason == unknown::Reason::NotRecorded;
        let asked = snap.asked();
        if let Some(u) = unknown::elsewhere(asked) {
            let of = of_unknown(snap, &u);
            all.extend(of.map(|r| Reason { what: u.what, ..r }));
        } else {
            let why = unknown::standing(asked).or_else(|| unknown::every(asked).filter(never));
            all.extend(why.and_then(|u| of_unknown(snap, &u)));
        }
    }
    let none_works = !snap.sources.iter().any(SourceStatus::is_on);
    let missing = snap.sources.iter().filter(|s| {
        s.is_off()
            && !matches!(s.source, Source::Kube | Source::Kflow)
            && (!s.guessed || s.count > 0 || none_works)
            && !(away && s.source == Source::Metrics)
    });
    all.extend(missing.map(|s| of_source(snap, s)));
    let behind = snap.sources.iter().filter_map(|s| catches_up(snap, s));
    all.extend(behind);
    all.sort_by_key(|r| r.weight == Weight::Missing);
    all
}

/// Returns the earliest next try of the matching sources that are off; `None` unless the picture is live and follows.
fn next_try(snap: &Snapshot, of: impl Fn(&SourceStatus) -> bool) -> Option<Nanos> {
    let follows = matches!(snap.mode, Mode::Live { following, .. } if following);
    let off = snap
        .sources
        .iter()
        .filter(|s| follows && s.is_off() && of(s));
    off.filter_map(|s| s.next).min()
}

/// Returns the reason for a status of kflow's own source that is off, such as a recording that has stopped.
fn own(s: &SourceStatus) -> Option<Reason> {
    // What could not be read of a session affects some moments only; the session's own observations say which.
    if s.source != Source::Kflow || s.is_on() || s.name == names::SESSION {
        return None;
    }
    let (badge, what) = match s.name.as_str() {
        names::RECORDING => ("NOT RECORDING", "the recording has stopped"),
        names::MOMENT => ("UNKNOWN", "the moment was not recorded"),
        _ => ("STANDS STILL", "kflow makes no new picture"),
    };
    Some(Reason {
        badge,
        weight: Weight::Unknown,
        what: what.to_owned(),
        said: s.detail().to_owned(),
        help: s.help.to_string(),
        brief: "",
        since: s.since,
        next: None,
    })
}

fn of_trouble(snap: &Snapshot, t: &Trouble, next: Option<Nanos>) -> Reason {
    let needed = t.resources().any(|r| r.is_empty() || unknown::is_needed(r));
    let (badge, weight) = if needed {
        ("UNKNOWN", Weight::Unknown)
    } else {
        ("MISSING", Weight::Missing)
    };
    let resources: Vec<&str> = t.resources().collect();
    let kinds = match resources.as_slice() {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [one, two] => format!("{one} and {two}"),
        [one, more @ ..] => format!("{one} and {} more", more.len()),
    };
    let (what, brief) = match t.failure {
        Failure::NoCluster => ("no cluster".to_owned(), "see --kubeconfig"),
        Failure::Unreachable => ("apiserver unreachable".to_owned(), "does it run?"),
        Failure::Untrusted => (
            "apiserver not trusted".to_owned(),
            "is the kubeconfig this cluster's?",
        ),
        Failure::TimedOut => ("apiserver does not answer".to_owned(), "is it overloaded?"),
        Failure::Unauthorized => (
            "apiserver wants other credentials".to_owned(),
            "log in again",
        ),
        Failure::Forbidden => (format!("no right to read {kinds}"), "see kflow doctor"),
        Failure::NotFound => (
            format!("apiserver does not serve {kinds}"),
            "is it the right address?",
        ),
        Failure::Expired => ("apiserver forgets its lists (410)".to_owned(), ""),
        Failure::Throttled => ("apiserver is overloaded (429)".to_owned(), ""),
        Failure::Refused => (
            "apiserver answers with errors".to_owned(),
            "see kflow doctor",
        ),
        Failure::NotKubernetes => (
            "what answers is no apiserver".to_owned(),
            "is it the right address?",
        ),
        Failure::Interrupted => (
            "apiserver's answers break off".to_owned(),
            "see kflow doctor",
        ),
        Failure::Other => ("apiserver cannot be read".to_owned(), "see kflow doctor"),
    };
    let recorded = matches!(snap.mode, Mode::Replay { .. });
    Reason {
        badge,
        weight,
        what,
        said: t.sentence(),
        help: if recorded {
            ELSEWHERE.to_owned()
        } else {
            t.help().to_owned()
        },
        brief: if recorded { ELSEWHERE } else { brief },
        since: Some(t.since),
        next,
    }
}

/// The advice for a moment at which a recording lacks the data.
const ELSEWHERE: &str = "look at another moment";

/// Returns what the user can do about what is not known: where a command line takes `--at`, the terminal has `@`.
pub fn advice(u: &Unknown) -> String {
    u.help.replace("--at", "@")
}

fn of_unknown(snap: &Snapshot, u: &Unknown) -> Option<Reason> {
    let elsewhere = matches!(snap.mode, Mode::Replay { .. })
        && !matches!(u.reason, unknown::Reason::NotRecorded);
    let waits = u.reason == unknown::Reason::Failed(Failure::TimedOut);
    if waits && snap.now.since(snap.range.0) < PATIENCE {
        return None;
    }
    let (badge, what) = match u.reason {
        unknown::Reason::Failed(Failure::TimedOut) => ("WAITING", "no list of pods yet"),
        unknown::Reason::Lost => ("INCOMPLETE", "observations were lost"),
        _ => ("UNKNOWN", "not all pods are known"),
    };
    Some(Reason {
        badge,
        weight: Weight::Unknown,
        what: what.to_owned(),
        said: u.why.clone(),
        help: if elsewhere {
            ELSEWHERE.to_owned()
        } else {
            advice(u)
        },
        brief: if elsewhere { ELSEWHERE } else { "" },
        since: waits.then_some(snap.range.0),
        next: None,
    })
}

fn of_source(snap: &Snapshot, s: &SourceStatus) -> Reason {
    let name = if s.name.is_empty() {
        s.source.name().to_owned()
    } else {
        format!("{} {}", s.source.name(), s.name)
    };
    let help = match s.source {
        Source::Cri => "run kflow as root on the node (--tap ebpf), or `kflow proxy`; docs/tap.md",
        _ => "`kflow doctor` says what works",
    };
    Reason {
        badge: "MISSING",
        weight: Weight::Missing,
        what: format!("{name} cannot be read"),
        said: s.detail().to_owned(),
        help: help.to_owned(),
        brief: "see kflow doctor",
        since: s.since,
        next: next_try(snap, |o| o.source == s.source && o.name == s.name),
    }
}

/// Returns the reason for a log of which lines of the past still come: what they begin is shown as still going on until the line comes that
/// ends it.
fn catches_up(snap: &Snapshot, s: &SourceStatus) -> Option<Reason> {
    let is_live = matches!(snap.mode, Mode::Live { following, .. } if following);
    let at = s.catches_up(snap.now).filter(|_| is_live)?;
    Some(Reason {
        badge: "CATCHING UP",
        weight: Weight::Unknown,
        what: format!(
            "the log of {} is read up to {} ago",
            s.source.name(),
            age(snap.now.since(at))
        ),
        said: "what its lines begin seems to go on until the line comes that ends it".to_owned(),
        help: String::new(),
        brief: "",
        since: None,
        next: None,
    })
}

/// Draws the first (worst) of the reasons on the first row.
pub fn draw(ctx: &Ctx<'_>, canvas: &mut Canvas<'_>, all: &[Reason]) {
    let Some(worst) = all.first() else { return };
    let t = ctx.theme;
    let w = canvas.width();
    canvas.clear(t.bar);
    let mut x = canvas.text_in(0, 0, w, &format!(" {} ", worst.badge), worst.style(ctx)) + 1;
    let key = ctx.keys.first(PaneId::Node.action());
    let more = match all.len() - 1 {
        0 => String::new(),
        n => format!("+{} more ", count(n)),
    };
    // If the whole text fits, the line need not name the Node pane's key.
    let full = if worst.help.is_empty() {
        worst.said.clone()
    } else {
        format!("{}; {}", worst.said, worst.help)
    };
    let mut times = worst.times(ctx.snap.now);
    let lead = width(&worst.what) + width(&times);
    let room = usize::from(w.saturating_sub(x + 1)).saturating_sub(lead);
    let whole = room >= width(&full) + width(&more) + 3;
    let end = if whole || key.is_empty() {
        more
    } else {
        format!("{more}{key} tells all ")
    };
    let used = canvas.text_right(w, 0, w, &end, t.bar.patch(t.key));
    let end = w.saturating_sub(used + 2);
    // On a narrow screen the next try is dropped first, then the end of the cause; since when it holds always stays.
    let room = usize::from(end.saturating_sub(x));
    if width(&worst.what) + width(&times) > room {
        times = worst.lasted(ctx.snap.now);
    }
    let room = room.saturating_sub(width(&times));
    let room = u16::try_from(room).unwrap_or(u16::MAX);
    x += canvas.text_in(x, 0, room, &worst.what, t.bar.patch(t.strong));
    x += canvas.text_in(x, 0, end.saturating_sub(x), &times, t.bar.patch(t.wait));
    let room = usize::from(end.saturating_sub(x)).saturating_sub(2);
    let short = if worst.brief.is_empty() {
        worst.said.clone()
    } else {
        format!("{}; {}", worst.said, worst.brief)
    };
    let tail = [full.as_str(), &short, &worst.help, worst.brief]
        .into_iter()
        .find(|text| !text.is_empty() && width(text) <= room);
    let tail = tail.or_else(|| (room >= 24).then_some(&worst.said));
    if let Some(text) = tail {
        x += canvas.text_in(x, 0, 2, ": ", t.bar);
        canvas.text_in(x, 0, end.saturating_sub(x), text, t.bar);
    }
}

/// Returns the sentence and hint for a pane without nodes: why nodes are not known, or what watching them needs.
pub fn no_nodes(snap: &Snapshot) -> (String, String) {
    let mut all = reasons(snap).into_iter();
    let worst = all.find(|r| r.weight == Weight::Unknown);
    // Whoever may not read nodes is told which rights that needs.
    if let Some(r) = worst.filter(|r| !r.said.starts_with("forbidden")) {
        return (
            format!("Which nodes there are is not known: {}.", r.said),
            r.help,
        );
    }
    if matches!(snap.mode, Mode::Replay { .. }) {
        return (
            "What was read has no list of nodes.".to_owned(),
            "Add one (`kubectl get nodes -o json`), or record with an apiserver to ask.".to_owned(),
        );
    }
    (
        "No node has been seen yet.".to_owned(),
        "Watching nodes needs `list` and `watch` on nodes; `kflow doctor` says what is missing."
            .to_owned(),
    )
}

/// Returns the sentence and hint for a pane without pods: that the pods are not known, or that none exist.
pub fn no_pods(snap: &Snapshot) -> (String, String) {
    if let Some(r) = reasons(snap)
        .into_iter()
        .find(|r| r.weight == Weight::Unknown)
    {
        return (
            format!("Which pods there are is not known: {}.", r.said),
            r.help,
        );
    }
    if unknown::every(snap.asked()).is_none() {
        let place = snap.scope.as_ref().map(|s| format!(" {}", s.place()));
        return (
            format!("There are no pods{}.", place.unwrap_or_default()),
            "They appear when they are made.".to_owned(),
        );
    }
    (
        "No pod has been seen yet.".to_owned(),
        "They appear with the first watch event, call or log line about them.".to_owned(),
    )
}
