//! What the scenarios of `fixtures/causes` say of recordings: that their cause is told of one.

use super::{Expected, RECORDED, Sources, expected, targets};
use crate::in_repository;
use kflow_core::correlate::World;
use kflow_core::diagnose::{Diagnoser, Verdict};
use kflow_model::Nanos;
use kflow_model::session::reader;
use kflow_model::stamp::SECOND;

/// A claim about a recording, which is the last part of a scenario's `synthetic`: `recorded: ` and what it is, or
/// `recorded, by the API alone: ` where other sources tell more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim<'s> {
    sources: Sources,
    what: What<'s>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What<'s> {
    /// `SESSION SCENARIO`: a row of an `expected.json`.
    Row(&'s str),
    /// `fixtures/FILE.kflow.zst`, told of something in the file at its end; or ` at ` a second since the epoch.
    File(&'s str, Option<Nanos>),
}

impl<'s> Claim<'s> {
    fn of(synthetic: &'s str) -> Option<Self> {
        let forms = [
            ("recorded, by the API alone: ", Sources::Api),
            ("recorded: ", Sources::All),
        ];
        let claimed = forms.into_iter().find_map(|(begin, sources)| {
            let (_, what) = synthetic.rsplit_once(begin)?;
            Some((sources, what))
        });
        let (sources, what) = claimed?;
        let what = match what.split_once(" at ") {
            Some((file, second)) => {
                let second: f64 = second.parse().expect("seconds since the epoch");
                // Tenths of a second are enough.
                let at = Nanos((second * 10.0).round() as i64 * (SECOND / 10));
                What::File(file, Some(at))
            }
            None if what.starts_with("fixtures/") => What::File(what, None),
            None => What::Row(what),
        };
        Some(Self { sources, what })
    }
    fn holds(self, cause: &str, rows: &[(&str, Expected)]) -> bool {
        match self.what {
            What::File(file, at) => self.is_told(file, at, cause),
            What::Row(row) => {
                let mut named = rows
                    .iter()
                    .filter(|(_, e)| row.split_once(' ') == Some((&e.session, &e.scenario)));
                match self.sources {
                    Sources::All => named.any(|(_, e)| e.causes.iter().any(|c| c == cause)),
                    _ => named.any(|(folder, e)| self.is_told_of(folder, e, cause)),
                }
            }
        }
    }
    fn world(self, file: &str, at: Option<Nanos>) -> (World, Nanos) {
        let session = reader::load(&in_repository(file)).unwrap_or_else(|e| panic!("{e}"));
        let end = session.range().expect("a recording is not empty").1;
        let now = at.unwrap_or(end);
        assert!(now <= end, "{file}: {now} is after its end");
        let mut world = World::new();
        let seen = session.observations.iter();
        for o in seen.take_while(|o| o.stamp.seen <= now) {
            if self.sources.has(o.source) {
                world.observe(o);
            }
        }
        world.refresh();
        (world, now)
    }
    fn is_told(self, file: &str, at: Option<Nanos>, cause: &str) -> bool {
        let (world, now) = self.world(file, at);
        let (pods, owners) = Diagnoser::new().update(&world, now);
        let is =
            |v: &Verdict| v.cause_id() == cause || v.also.iter().any(|a| a.cause_id() == cause);
        pods.values().chain(owners.iter()).any(|v| is(v))
    }
    fn is_told_of(self, folder: &str, e: &Expected, cause: &str) -> bool {
        let file = format!("{folder}/{}.kflow.zst", e.session);
        let (world, now) = self.world(&file, Some(Nanos(e.at_ns)));
        let target = targets(&world, e).into_iter().next();
        let told = target.and_then(|t| t.verdict(&world, now));
        told.is_some_and(|v| v.cause_id() == cause)
    }
}

/// The recorded rows, each with the folder of its session.
fn rows() -> Vec<(&'static str, Expected)> {
    let of = |(folder, file): &(&'static str, &str)| {
        let folder = *folder;
        expected(file).into_iter().map(move |e| (folder, e))
    };
    RECORDED.iter().flat_map(of).collect()
}

#[test]
fn what_a_scenario_says_is_recorded_is_recorded() {
    let rows = rows();
    let mut wrong = Vec::new();
    let mut claims = 0;
    for s in super::scenarios() {
        let Some(claim) = Claim::of(&s.synthetic) else {
            continue;
        };
        claims += 1;
        if !claim.holds(&s.cause, &rows) {
            wrong.push(format!("{} {}: {claim:?}", s.name, s.cause));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {claims} recordings do not show what is said of them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(claims > 100, "{claims}");
}

#[test]
fn a_scenario_names_the_recording_that_there_is() {
    let rows = rows();
    let mut wrong = Vec::new();
    for s in super::scenarios() {
        let recorded = rows.iter().find(|(_, e)| e.causes == [s.cause.as_str()]);
        // Further stories of a cause tell of what was not recorded.
        let is_first = s.name == s.cause;
        if let Some((_, e)) = recorded.filter(|_| is_first && Claim::of(&s.synthetic).is_none()) {
            wrong.push(format!("{}: {} {}", s.name, e.session, e.scenario));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_claim_that_is_not_true_does_not_hold() {
    let rows = rows();
    for (cause, synthetic, holds) in [
        ("KF617", "x; recorded: pause corrupt", true),
        ("KF613", "x; recorded: pause corrupt", false),
        ("KF402", "x; recorded: S2-stuck-early no-such-row", false),
        ("KF914", "recorded, by the API alone: config busyvol", true),
        ("KF908", "recorded, by the API alone: config busyvol", false),
        (
            "KF917",
            "x; recorded: fixtures/correlate/drain.kflow.zst",
            true,
        ),
        (
            "KF916",
            "x; recorded: fixtures/correlate/drain.kflow.zst",
            false,
        ),
    ] {
        let claim = Claim::of(synthetic).expect("a claim");
        assert_eq!(claim.holds(cause, &rows), holds, "{cause}: {synthetic}");
    }
    assert_eq!(Claim::of("kubernetes, a/b.go, c"), None);
}
