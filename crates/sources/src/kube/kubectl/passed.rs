//! How much time passed between what a text shows: `kubectl get pods` before and after somebody did something.
//!
//! What kubectl prints is as of the moment at which it ran. An object that a text shows twice tells how far apart these moments
//! are: by its age, or by an Event that was not there the first time.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::age::Age;
use super::attribute::Named;
use super::table::Row;

/// What is older was not printed in one story: the age is of another cluster, or no age.
const MOST: i64 = 366 * 86_400;

/// What an output shows of an object.
pub(super) struct Shown {
    /// Tells objects apart.
    pub(super) key: String,
    pub(super) age: Option<Age>,
    /// A hash of everything else: it changes with the object.
    pub(super) state: u64,
}

/// The time that passed so far. See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Since the first output, s. Where the ages are rounded it is the least that they allow.
    seconds: i64,
    /// What was shown last of each object, and when: its age, its state.
    shown: FxHashMap<String, (Option<Age>, u64, i64)>,
    /// The Events that were shown of each object, and when.
    events: FxHashMap<String, (FxHashMap<u64, Age>, i64)>,
}

impl Passed {
    pub(super) const fn seconds(&self) -> i64 {
        self.seconds
    }

    fn reach(&mut self, seconds: Option<i64>) {
        let seconds = seconds.filter(|s| *s <= MOST).unwrap_or_default();
        self.seconds = self.seconds.max(seconds);
    }

    /// Takes an output: objects as they are now.
    pub(super) fn show(&mut self, all: Vec<Shown>) {
        let since = |new: &Shown| {
            let (age, state, at) = self.shown.get(&new.key)?;
            let more = match (age, new.age) {
                (Some(old), Some(new)) => between(*old, new),
                _ => Some(0),
            }?;
            Some(at.saturating_add(more.max(i64::from(*state != new.state))))
        };
        let passed = all.iter().filter_map(since).max();
        self.reach(passed);
        for Shown { key, age, state } in all {
            self.shown.insert(key, (age, state, self.seconds));
        }
    }

    /// Takes the Events that a description of an object, or a list of its Events, shows.
    pub(super) fn happened(&mut self, object: &Named, rows: &[Row]) {
        if object.name.is_empty() || rows.is_empty() {
            return;
        }
        let key = format!("{}/{}", object.namespace, object.name);
        let new: FxHashMap<u64, Age> = rows.iter().filter_map(first_seen).collect();
        if let Some((old, at)) = self.events.get(&key) {
            let known = new.iter().filter_map(|(event, age)| {
                let old = old.get(event)?;
                between(*old, *age)
            });
            // One that was not there happened since.
            let last = |row: &Row| row.ages.last.map(|age| age.seconds);
            let is_new = |row: &&Row| !old.contains_key(&identity(row));
            let since = rows.iter().filter(is_new).filter_map(last).min();
            let passed = known.max().or(since.map(|age| age.saturating_add(1)));
            let passed = passed.map(|passed| at.saturating_add(passed));
            self.reach(passed);
        }
        self.events.insert(key, (new, self.seconds));
    }
}

/// Returns how much later an age was printed than another of the same thing, s: the least that it can be. `None` where it was not
/// printed later.
fn between(old: Age, new: Age) -> Option<i64> {
    let more = new.seconds.saturating_sub(old.seconds);
    let unit = old.unit.max(new.unit);
    match more {
        0 => Some(0),
        more if more >= unit => Some(more - (unit - 1)),
        _ => None,
    }
}

/// Returns an Event and the age of its first occurrence, which only time changes.
fn first_seen(row: &Row) -> Option<(u64, Age)> {
    let once = row
        .ages
        .last
        .filter(|_| row.ages.count.is_none_or(|n| n <= 1));
    row.ages.first.or(once).map(|age| (identity(row), age))
}

fn identity(row: &Row) -> u64 {
    let mut hasher = FxHasher::default();
    (&row.object, &row.reason, &row.message).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::kubectl::age::{Ages, age};

    fn passed(outputs: &[&[(&str, &str, u64)]]) -> i64 {
        let mut passed = Passed::default();
        for output in outputs {
            let all = output.iter().map(|(key, text, state)| Shown {
                key: (*key).to_owned(),
                age: age(text),
                state: *state,
            });
            passed.show(all.collect());
        }
        passed.seconds()
    }

    #[test]
    fn ages_tell_how_much_time_passed() {
        for (outputs, want) in [
            (&[&[("a", "63s", 1)][..], &[("a", "93s", 2)]][..], 30),
            // The greatest difference counts, as ages are rounded.
            (
                &[
                    &[("a", "5m", 1), ("b", "10s", 1)],
                    &[("a", "7m", 1), ("b", "75s", 1)],
                ],
                65,
            ),
            (&[&[("a", "5m", 1)], &[("a", "7m", 1)]], 61),
            (&[&[("a", "2d", 1)], &[("a", "2d", 1)]], 0),
            // It changed.
            (&[&[("a", "2d", 1)], &[("a", "2d", 2)]], 1),
            (&[&[("a", "<unknown>", 1)], &[("a", "<unknown>", 2)]], 1),
            // It was made again, or the order is another.
            (&[&[("a", "93s", 1)], &[("a", "3s", 2)]], 0),
            (
                &[
                    &[("a", "1s", 1)],
                    &[("b", "9s", 1)],
                    &[("a", "4s", 1)],
                    &[("b", "19s", 1)],
                ],
                10,
            ),
            // No time that a text was written over.
            (&[&[("a", "1s", 1)], &[("a", "900y", 1)]], 0),
            (&[&[("a", "1s", 1)], &[("a", "9223372036854775807s", 1)]], 0),
        ] {
            assert_eq!(passed(outputs), want, "{outputs:?}");
        }
    }

    #[test]
    fn events_tell_it_too() {
        let row = |reason: &str, last: &str, first: Option<&str>| Row {
            reason: reason.to_owned(),
            ages: Ages {
                last: age(last),
                first: first.and_then(age),
                count: first.map(|_| 3),
            },
            ..Row::default()
        };
        let of = |outputs: &[Vec<Row>]| {
            let mut passed = Passed::default();
            let pod = Named {
                namespace: "shop".to_owned(),
                name: "web-0".to_owned(),
            };
            for rows in outputs {
                passed.happened(&pod, rows);
            }
            passed.seconds()
        };
        let mounts = row("FailedMount", "8s", None);
        // The first time is the same for ever, the last one is not.
        let again = row("FailedMount", "2s", Some("68s"));
        assert_eq!(of(&[vec![mounts.clone()], vec![again]]), 60);
        assert_eq!(of(&[vec![mounts.clone()], vec![mounts.clone()]]), 0);
        let starts = [row("Created", "11s", None), row("Started", "10s", None)];
        assert_eq!(of(&[vec![mounts.clone()], starts.to_vec()]), 11);
        // One that both show tells more than one that may have been left out.
        let both = [starts.as_slice(), std::slice::from_ref(&mounts)].concat();
        assert_eq!(of(&[vec![mounts], both]), 0);
    }
}
