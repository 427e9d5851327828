//! Pods that a text shows and that are gone by what stands below: kubectl has deleted them, does not find them any more, or shows another
//! pod of the same name, which is younger.
//!
//! What stands above is then of an earlier pod. It keeps its story, under a UID of its own, and ends.

use rustc_hash::FxHashMap;

use super::{MADE_UID, NAMESPACE, ROW_UID};
use kflow_model::pod::{PodSeen, WatchEvent};
use kflow_model::{Body, Nanos, Observation, PodUid, Source, Stamp, Text, stamp::SECOND};

/// Stands in the made UID of an earlier pod, before its number. No name has it.
pub const EARLIER: char = '#';
/// What kubectl and the apiserver round, ns: ages are no more exact between two outputs.
const ROUNDED: i64 = 5 * SECOND;
/// Most earlier pods of one name that are told apart.
const MOST: usize = 100;

/// What kubectl answers about an object. `namespace` is empty where neither it nor the command names one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    is_found: bool,
    is_of_namespace: bool,
    namespace: String,
    name: String,
}

impl Answer {
    /// Reads `pod "web-0" deleted` (1.36: k8s.io/kubectl pkg/cmd/delete/delete.go, `PrintObj`) and
    /// `Error from server (NotFound): pods "web-0" not found` (k8s.io/apimachinery pkg/api/errors/errors.go, `NewNotFound`).
    /// `namespace`: that of the command.
    pub(super) fn of(line: &str, namespace: &str) -> Option<Self> {
        let line = line.trim();
        let (is_found, of_namespace, rest) = [
            (true, false, "pod \""),
            (true, true, "namespace \""),
            (false, false, "Error from server (NotFound): pods \""),
            (false, true, "Error from server (NotFound): namespaces \""),
        ]
        .into_iter()
        .find_map(|(is_found, of, begin)| Some((is_found, of, line.strip_prefix(begin)?)))?;
        let (name, said) = rest.split_once('"')?;
        let said = said.trim();
        let namespace = match (is_found, said) {
            (true, "deleted" | "force deleted") | (false, "not found") => namespace,
            // Since 1.34.
            (true, _) => said
                .strip_prefix("deleted from ")?
                .strip_suffix(" namespace")?,
            (false, _) => return None,
        };
        Some(Self {
            is_found,
            is_of_namespace: of_namespace,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    fn is_of(&self, pod: &PodSeen) -> bool {
        if self.is_of_namespace {
            return pod.namespace == self.name.as_str();
        }
        let known = [self.namespace.as_str(), pod.namespace.as_str()];
        let is_told = known.iter().all(|n| !n.is_empty() && *n != NAMESPACE);
        pod.name == self.name.as_str() && (!is_told || self.namespace == pod.namespace.as_str())
    }
}

/// An answer, how many observations stand above it, and when it was given.
pub(super) type Given = (Answer, usize, Nanos);

/// Ends the pods of a text that are gone by what stands below them. `answers` are in the order of the text.
pub(super) fn settle(out: &mut Vec<Observation>, answers: &[Given]) {
    // Where each pod is shown, and each of its Events, in the order of the text.
    let mut pods: Vec<((Text, Text), Vec<usize>)> = Vec::new();
    let mut place: FxHashMap<(Text, Text), usize> = FxHashMap::default();
    for (at, o) in out.iter().enumerate() {
        let key = match &o.body {
            Body::Pod(p) => (p.namespace.clone(), p.name.clone()),
            Body::Event(e) if e.object.kind == "Pod" => {
                (e.object.namespace.clone(), e.object.name.clone())
            }
            _ => continue,
        };
        let of_it = *place.entry(key).or_insert_with_key(|key| {
            pods.push((key.clone(), Vec::new()));
            pods.len() - 1
        });
        if let Some((_, places)) = pods.get_mut(of_it) {
            places.push(at);
        }
    }
    let mut by_name: FxHashMap<(bool, &str), Vec<&Given>> = FxHashMap::default();
    for given in answers {
        let (answer, ..) = given;
        let key = (answer.is_of_namespace, answer.name.as_str());
        by_name.entry(key).or_default().push(given);
    }
    let mut ended = Vec::new();
    for ((namespace, name), places) in pods {
        let mut its: Vec<&Given> = Vec::new();
        for key in [(false, name.as_str()), (true, namespace.as_str())] {
            its.extend(by_name.get(&key).into_iter().flatten());
        }
        its.sort_by_key(|(_, at, _)| *at);
        ended.extend(end(out, (&namespace, &name), &places, &its));
    }
    out.retain(|o| !matches!(&o.body, Body::Pod(p) if p.uid.is_empty()));
    out.extend(ended);
}

/// Ends the earlier pods of these names, which stand at `places` with their Events. Returns the observations that say so; a row that
/// gives way to a description loses its UID.
fn end(
    out: &mut [Observation],
    (namespace, name): (&Text, &Text),
    places: &[usize],
    answers: &[&Given],
) -> Vec<Observation> {
    // Each time that it is shown: where, as of which moment, and how old, where that is told.
    let shown: Vec<(usize, Nanos, Option<i64>)> = (places.iter())
        .filter_map(|at| {
            let o = out.get(*at)?;
            let Body::Pod(p) = &o.body else { return None };
            let age = o.stamp.at.since(p.created);
            Some((*at, o.stamp.at, Some(age).filter(|age| *age >= SECOND)))
        })
        .collect();
    let Some((first, ..)) = shown.first().copied() else {
        return Vec::new();
    };
    if shown.len() < 2 && answers.is_empty() {
        return Vec::new();
    }
    // Where an earlier pod ends, and when.
    let mut ends: Vec<(usize, Nanos)> = Vec::new();
    let is_younger = |old: Option<i64>, new: Option<i64>| {
        old.zip(new).is_some_and(|(old, new)| new + ROUNDED < old)
    };
    for two in shown.windows(2).filter(|_| !is_generated(name)) {
        if let [(_, _, old), (at, moment, new)] = two
            && is_younger(*old, *new)
        {
            ends.push((*at, *moment));
        }
    }
    let is_of = |answer: &Answer| {
        let pod = out.get(first).map(|o| &o.body);
        matches!(pod, Some(Body::Pod(p)) if answer.is_of(p))
    };
    let its = answers.iter().filter(|(answer, ..)| is_of(answer));
    for (answer, at, moment) in its {
        let (above, below) = shown.split_at(shown.partition_point(|(n, ..)| n < at));
        let (before, after) = (above.last(), below.first());
        // A pod that was asked to go may still be there.
        let is_there = || match (before, after) {
            (Some((_, _, old)), Some((_, _, new))) => !is_younger(*old, *new),
            _ => false,
        };
        if before.is_some() && !(answer.is_found && is_there()) {
            ends.push((*at, *moment));
        }
    }
    ends.sort_unstable();
    ends.truncate(MOST);
    let mut ended = Vec::new();
    let mut from = 0;
    for (until, moment) in ends {
        let its = || {
            shown
                .iter()
                .map(|(at, ..)| *at)
                .filter(|at| (from..until).contains(at))
        };
        let is_row = |at: &usize| match out.get(*at).map(|o| &o.body) {
            Some(Body::Pod(p)) => p.uid.as_str().starts_with(ROW_UID),
            _ => false,
        };
        // Of an earlier pod rows say too little.
        let is_last = shown.iter().all(|(at, ..)| *at < until);
        let is_told = !is_last || its().any(|at| !is_row(&at));
        let rows: Vec<usize> = its().filter(|at| is_told && is_row(at)).collect();
        let earlier = format!("{MADE_UID}{namespace}/{name}{EARLIER}{}", ended.len() + 1);
        let mut last: Option<(PodSeen, Nanos)> = None;
        for at in places.iter().filter(|at| (from..until).contains(*at)) {
            let Some(o) = out.get_mut(*at) else { continue };
            match &mut o.body {
                Body::Pod(p) => {
                    if rows.contains(at) {
                        p.uid = PodUid::default();
                        continue;
                    }
                    if is_made(p.uid.as_str()) {
                        p.uid = PodUid(earlier.as_str().into());
                    }
                    last = Some(((**p).clone(), o.stamp.seen));
                }
                Body::Event(e) if is_made(&e.object.uid) => {
                    e.object.uid = earlier.as_str().into();
                }
                _ => {}
            }
        }
        if let Some((mut pod, seen)) = last {
            pod.event = WatchEvent::Deleted;
            // Its own Events may tell a later moment than the rest of the text.
            let moment = moment.max(seen.plus(SECOND));
            ended.push(Observation {
                stamp: Stamp::exact(moment),
                source: Source::Kube,
                body: Body::Pod(Box::new(pod)),
            });
        }
        from = from.max(until);
    }
    ended
}

/// True for a name that the apiserver made: it has five characters of its own at the end, and no other pod has it, ever
/// (k8s.io/apimachinery pkg/util/rand/rand.go, `alphanums`). A younger one was printed earlier.
fn is_generated(name: &str) -> bool {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let end = name.rsplit_once('-').map_or("", |(_, end)| end);
    end.len() == 5 && end.bytes().all(|b| ALPHABET.contains(&b))
}

fn is_made(uid: &str) -> bool {
    uid.is_empty() || uid.starts_with(MADE_UID) || uid.starts_with(ROW_UID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        for (line, want) in [
            ("pod \"web-0\" deleted", Some(("shop", "web-0", true))),
            ("pod \"web-0\" force deleted", Some(("shop", "web-0", true))),
            (
                "pod \"web-0\" deleted from default namespace",
                Some(("default", "web-0", true)),
            ),
            (
                "Error from server (NotFound): pods \"web-0\" not found",
                Some(("shop", "web-0", false)),
            ),
            ("pod \"web-0\" deleted (server dry run)", None),
            ("pod \"web-0\" not found", None),
            ("persistentvolumeclaim \"web-0\" deleted", None),
            (
                "Error from server (NotFound): deployments.apps \"web-0\" not found",
                None,
            ),
        ] {
            let got = Answer::of(line, "shop");
            let got = got.as_ref().map(|a| (&*a.namespace, &*a.name, a.is_found));
            assert_eq!(got, want, "{line}");
        }
    }
}
