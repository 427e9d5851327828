//! When lists were read. `kubectl get -o json` does not write it down, and a decoder knows no more than the newest time
//! in the document, which in a calm namespace is days old.
//!
//! The lists of an import are taken to have been read together: not before the newest time in any of them, and each not
//! after its file was written. Ages that kubectl printed count back from when its file was written. A bundle may say when it was made
//! ([`MadeAt`]), which counts more than the times of its files: a checkout or a copy loses those. Lists of different bundles were not
//! read together.
//! Two lists that have an object in two versions were not read together: the older one stays at its own newest time, with
//! all that stands before it in its file.

mod made;

pub use made::Made;
pub(super) use made::MadeAt;

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::stream::Decoded;
use super::{ImportError, Input};
use kflow_model::gap::{Gap, WatchNote};
use kflow_model::pod::WatchEvent;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, Source, Stamp};
use kflow_sources::kube::decode::{newest_time, printed_at};

/// A file that was written this long after the newest time in any list does not tell when they were read: it was copied
/// without its time, or the time is of another zone. A list of Events that was read later has none of those that tell
/// the newest time: kube-apiserver keeps them for an hour (`--event-ttl`).
const SOON: i64 = 3600 * SECOND;
/// The same where a list has a node that is ready: twice the time after which the kubelet reports its conditions again
/// (`nodeStatusReportFrequency`).
const SOON_OF_NODES: i64 = 600 * SECOND;

/// How lists were dated that were read after their own newest time, each with the longest time between the two, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dating {
    /// By the time at which their file was written.
    pub by_file: Option<i64>,
    /// By the newest time in any list.
    pub by_list: Option<i64>,
    /// The file that was written last, where that is too late to tell when its lists were read.
    pub late: Option<Late>,
    /// The first and the last moment from which ages count back that kubectl printed, as far as only the time of a file or of its bundle
    /// tells them.
    pub printed: Option<(Nanos, Nanos)>,
    /// True where only the date in the name of a bundle or file tells when something was read or printed.
    pub by_name: bool,
    /// The list whose time of reading is the longest after its own newest time: that time, and its name.
    longest: Option<(i64, String)>,
}

/// When a file was written that was written too late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Late {
    /// Time since the newest time in any list, ns.
    pub by: i64,
    /// The end of the second in which it was written.
    pub written: Nanos,
}

/// The lists of one file.
struct File {
    /// When it was written.
    written: Option<Nanos>,
    /// In the order of the file.
    lists: Vec<List>,
    /// Number of lists at the end that nothing but lists follows.
    movable: usize,
    /// The newest time of the last list that has an object in a newer version than a list before it. Those before it were
    /// read at other moments.
    begun: Option<Nanos>,
}

/// A list, or several in a row that were first taken to be of the same moment.
struct List {
    /// The newest time in it or before it in its file. Its observations have it as their arrival.
    newest: Nanos,
    /// The earliest arrival of a newer version of one of its objects.
    outdated: Option<Nanos>,
}

/// Dates the lists in these streams. `taken` is when the user says that they were read.
pub(super) fn date(
    streams: &mut [Decoded],
    taken: Option<Nanos>,
    made: &Made,
) -> Result<Dating, ImportError> {
    let printed = || streams.iter().filter_map(|d| d.printed);
    let mut dating = Dating {
        printed: printed().min().zip(printed().max()),
        by_name: (streams.iter()).any(|d| d.by_name && d.printed.is_some()),
        ..Dating::default()
    };
    let bundles: BTreeSet<usize> = streams.iter().map(Decoded::bundle).collect();
    let several = bundles.iter().filter(|b| **b > 0).count() > 1;
    for bundle in bundles {
        let own = |d: &&mut Decoded| d.bundle() == bundle;
        let mut group: Vec<&mut Decoded> = if several {
            streams.iter_mut().filter(own).collect()
        } else {
            streams.iter_mut().collect()
        };
        date_together(&mut group, taken, made, &mut dating)?;
        if !several {
            break;
        }
    }
    Ok(dating)
}

fn date_together(
    streams: &mut [&mut Decoded],
    taken: Option<Nanos>,
    made: &Made,
    dating: &mut Dating,
) -> Result<(), ImportError> {
    let made = streams.iter().find_map(|d| made.get(&d.bundle())).copied();
    let mut files: Vec<File> = (streams.iter())
        .map(|d| File::new(d, taken, made))
        .collect();
    let newest = |(f, d)| -> Option<(Nanos, &&mut Decoded)> { Some((File::newest(f)?, d)) };
    let all = files.iter().zip(&*streams).filter_map(newest);
    let Some((newest, whose)) = all.max_by_key(|(n, _)| *n) else {
        return Ok(());
    };
    let late = match taken {
        Some(taken) if end_of_second(taken) < newest => {
            let name = whose.summaries.first().map(|s| s.input.name.clone());
            return Err(ImportError::Taken {
                taken,
                newest: newest.plus(-1),
                name: name.unwrap_or_default(),
            });
        }
        Some(_) => Nanos(i64::MAX),
        None if made
            .is_some_and(|made| !made.is_named() && newest <= end_of_second(made.until())) =>
        {
            Nanos(i64::MAX)
        }
        None if streams.iter().any(|d| has_ready_node(d)) => newest.plus(SOON_OF_NODES),
        None => newest.plus(SOON),
    };
    outdate(&mut files, streams);
    for (file, decoded) in files.iter().zip(streams) {
        let mut read: FxHashMap<Nanos, Nanos> = FxHashMap::default();
        let together = |l: &&List| file.begun.is_none_or(|begun| l.newest >= begun);
        let last = file.lists.iter().rev().take(file.movable);
        for list in last.take_while(together) {
            let Some(at) = file.read(list, newest, late) else {
                break;
            };
            read.insert(list.newest, at);
            if taken.is_none() {
                dating.note(file, decoded, (list.newest, newest, at));
            }
        }
        if read.is_empty() {
            continue;
        }
        for o in &mut decoded.observations {
            if let Some(at) = read.get(&o.stamp.seen) {
                set(o, *at);
            }
        }
    }
    Ok(())
}

/// Returns when an input was made: what its bundle says, else what its name does.
pub(super) fn made_of(input: &Input, made: &Made) -> Option<MadeAt> {
    let name = || MadeAt::of_name(input.name.rsplit('/').next()?);
    made.get(&input.bundle).copied().or_else(name)
}

/// Returns the moment at which a text was printed at the latest, where it tells that and its file was written too late to.
pub(super) fn of_itself(text: &str, written: Nanos) -> Option<Nanos> {
    printed_at(text).filter(|told| *told > Nanos(0) && written > told.plus(SOON))
}

/// Returns when a text was written whose newest time this is, unless that is too late to tell.
pub(super) fn unless_late(newest: Nanos, written: Option<Nanos>) -> Nanos {
    let tells = |written: &Nanos| *written < newest.plus(SOON) && end_of_second(*written) >= newest;
    written.filter(tells).unwrap_or(newest)
}

/// Returns when a text was read in which objects stand: when its file was written, unless that is too late to tell.
pub(super) fn of_text(objects: &[u8], written: Option<Nanos>) -> Option<Nanos> {
    let lines = objects.split(|b| *b == b'\n');
    let Some((at, precision)) = lines.filter_map(newest_time).max() else {
        return written;
    };
    Some(unless_late(at.plus(i64::from(precision)), written))
}

/// Inserts the end of all captures but lists, where lists were read after it: no log was written for that long, or it
/// was collected earlier. `observations` are in order of arrival.
pub(super) fn put_end(observations: &mut Vec<Observation>) {
    let newest = |of: &dyn Fn(&Observation) -> bool| {
        let last = observations.iter().rev().find(|o| of(o));
        last.map(|o| o.stamp.seen)
    };
    // crictl lists what exists too.
    let is_log = |o: &Observation| {
        !is_listed(o) && o.source != Source::Kube && !matches!(o.body, Body::Inventory(_))
    };
    let end = newest(&is_log);
    let read = newest(&|o| is_listed(o) || is_names(o));
    let Some(end) = end.filter(|end| read > Some(*end)) else {
        return;
    };
    let at = observations.partition_point(|o| o.stamp.seen <= end);
    let gap = Observation {
        stamp: Stamp::exact(end),
        source: Source::Kflow,
        body: Body::Gap(Box::new(Gap {
            of: Source::Kflow,
            since: end,
            lost: 0,
            conn: 0,
            resource: Gap::END.into(),
            why: "the captures of logs end here, and lists were read later".into(),
        })),
    };
    observations.insert(at, gap);
}

/// True for the names in a table of pods.
pub(super) fn is_names(o: &Observation) -> bool {
    matches!(&o.body, Body::Watch(n) if n.resource == WatchNote::NAMES)
}

/// Drops the names ([`WatchNote::NAMES`]) whose time is more than [`SOON`] after everything else: it is that of a copied file.
pub(super) fn drop_late_names(observations: &mut Vec<Observation>) {
    if !observations.iter().any(is_names) {
        return;
    }
    let others = observations.iter().filter(|o| !is_names(o));
    let newest = others.map(|o| o.stamp.seen).max().unwrap_or_default();
    observations.retain(|o| !is_names(o) || o.stamp.seen <= newest.plus(SOON));
}

impl File {
    fn new(decoded: &Decoded, taken: Option<Nanos>, made: Option<MadeAt>) -> Self {
        // What a name tells is in the stream's own time already.
        let told = made.filter(|made| !made.is_named());
        let in_it = told.map(|made| made.written(decoded.written));
        let written = taken.or(in_it).or(decoded.written);
        let mut file = Self {
            written: written.map(end_of_second),
            lists: Vec::new(),
            movable: 0,
            begun: None,
        };
        if !decoded.guessed {
            return file;
        }
        for o in &decoded.observations {
            let newest = o.stamp.seen;
            if is_listed(o) {
                if file.newest() != Some(newest) {
                    file.movable += 1;
                    file.lists.push(List {
                        newest,
                        outdated: None,
                    });
                }
            } else if !matches!(o.body, Body::Gap(_)) {
                file.movable = 0;
            }
        }
        file
    }

    /// Returns the newest time in its lists.
    fn newest(&self) -> Option<Nanos> {
        self.lists.last().map(|l| l.newest)
    }

    /// Notes that an object of one of its lists has a newer version that arrived at a time.
    fn outdate(&mut self, list: Nanos, by: Nanos) {
        let at = self.lists.binary_search_by_key(&list, |l| l.newest);
        if let Some(list) = at.ok().and_then(|n| self.lists.get_mut(n)) {
            list.outdated = Some(list.outdated.map_or(by, |b| b.min(by)));
        }
    }

    /// Returns when a list of it was read, by its own time if that is before `late`; `None` when it stays at its own newest time.
    fn read(&self, list: &List, newest: Nanos, late: Nanos) -> Option<Nanos> {
        let tells = |written: &Nanos| {
            let in_time = match list.outdated {
                Some(by) => *written < by,
                None => *written < late,
            };
            in_time && *written >= list.newest
        };
        let otherwise = list.outdated.is_none().then_some(newest);
        self.written.filter(tells).or(otherwise)
    }
}

impl Dating {
    /// The list whose time of reading is the longest after its own newest time.
    pub fn longest(&self) -> Option<&str> {
        self.longest.as_ref().map(|(_, name)| name.as_str())
    }

    /// Notes that a list with `own` as its newest time was read `at`. `newest` is the newest time of all lists.
    fn note(&mut self, file: &File, of: &Decoded, (own, newest, at): (Nanos, Nanos, Nanos)) {
        let most = |have: &mut Option<i64>, off: i64| {
            if off > 0 {
                *have = (*have).max(Some(off));
            }
        };
        let off = at.since(own);
        if self.longest.as_ref().map_or(0, |(most, _)| *most) < off {
            let name = of.summaries.first().map(|s| s.input.name.clone());
            self.longest = Some((off, name.unwrap_or_default()));
        }
        if file.written == Some(at) {
            most(&mut self.by_file, off);
            self.by_name |= of.by_name;
        } else {
            most(&mut self.by_list, off);
            let late = file.written.map(|written| Late {
                by: written - newest,
                written,
            });
            self.late = self.late.max(late.filter(|late| late.by > 0));
        }
    }
}

/// Returns the end of the second that a time lies in. Times of the API and of files in archives have no fractions.
fn end_of_second(at: Nanos) -> Nanos {
    Nanos::from_secs(at.0.div_euclid(SECOND)).plus(SECOND)
}

/// True for what a list told.
fn is_listed(o: &Observation) -> bool {
    match &o.body {
        Body::Pod(p) => p.event == WatchEvent::Listed,
        Body::Node(n) => n.event == WatchEvent::Listed,
        Body::Object(x) => x.event == WatchEvent::Listed,
        Body::Event(e) => e.listed,
        _ => false,
    }
}

/// True if a list has a node that reports its conditions.
fn has_ready_node(decoded: &Decoded) -> bool {
    let ready = |o: &Observation| match &o.body {
        Body::Node(n) => n.condition("Ready").is_some_and(|c| c.status == "True"),
        _ => false,
    };
    let mut listed = decoded.observations.iter().filter(|o| is_listed(o));
    decoded.guessed && listed.any(ready)
}

/// Sets when an observation arrived that a list told, or the gap behind it.
fn set(o: &mut Observation, seen: Nanos) {
    let listed = is_listed(o);
    match &mut o.body {
        // It has a time of its own.
        Body::Event(e) if e.listed => o.stamp.seen = seen,
        Body::Gap(gap) => {
            gap.since = seen;
            o.stamp = Stamp::exact(seen);
        }
        _ if listed => o.stamp = Stamp::new(seen.plus(-SECOND), SECOND as u32, seen),
        _ => {}
    }
}

/// An object: its kind, and its UID or its namespace and name.
type Key<'a> = (u8, &'a str, &'a str);

/// Returns what identifies an observation's object, and a number that is greater in its newer versions.
fn version(o: &Observation) -> Option<(Key<'_>, u64)> {
    let (key, version) = match &o.body {
        Body::Pod(p) => ((0, p.uid.as_str(), ""), p.resource_version),
        Body::Node(n) => ((1, n.name.as_str(), ""), n.resource_version),
        Body::Object(x) => ((2, x.object.uid.as_str(), ""), x.resource_version),
        Body::Event(e) => {
            let key = (3, e.object.namespace.as_str(), e.name.as_str());
            (key, u64::from(e.count))
        }
        _ => return None,
    };
    (version > 0).then_some((key, version))
}

/// Marks the lists that have an object which another document has in a newer version.
fn outdate(files: &mut [File], streams: &[&mut Decoded]) {
    // The versions of an object: number, arrival, and the file of a list.
    let mut objects: FxHashMap<Key<'_>, Vec<(u64, Nanos, Option<usize>)>> = FxHashMap::default();
    let all = || {
        let guessed = streams.iter().enumerate().filter(|(_, d)| d.guessed);
        guessed.flat_map(|(n, d)| d.observations.iter().map(move |o| (n, o)))
    };
    for (n, o) in all().filter(|(_, o)| is_listed(o)) {
        if let Some((key, version)) = version(o) {
            objects
                .entry(key)
                .or_default()
                .push((version, o.stamp.seen, Some(n)));
        }
    }
    for (_, o) in all().filter(|(_, o)| !is_listed(o)) {
        if let Some((key, version)) = version(o)
            && let Some(versions) = objects.get_mut(&key)
        {
            versions.push((version, o.stamp.seen, None));
        }
    }
    for versions in objects.values_mut().filter(|v| v.len() > 1) {
        versions.sort_unstable();
        let mut newer: Option<Nanos> = None;
        // Files that have it, with the first arrival of the newest version there.
        let mut begun: Vec<(usize, Nanos)> = Vec::new();
        for same in versions.chunk_by(|a, b| a.0 == b.0).rev() {
            let mut here: Vec<(usize, Nanos)> = Vec::new();
            for (_, seen, n) in same {
                let Some((n, file)) = n.and_then(|n| Some((n, files.get_mut(n)?))) else {
                    continue;
                };
                if let Some((_, begun)) = begun.iter().find(|(of, _)| *of == n) {
                    file.begun = file.begun.max(Some(*begun));
                } else if here.iter().all(|(of, _)| *of != n) {
                    here.push((n, *seen));
                }
                if let Some(by) = newer {
                    file.outdate(*seen, by);
                }
            }
            begun.extend(here);
            let first = same.first().map(|(_, seen, _)| *seen);
            newer = first.into_iter().chain(newer).min();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_sources::kube::decode::KubeLines;
    use kflow_sources::{LineDecoder, TimeHint};
    use serde_json::{Value, json};

    /// A list of pods: name, resource version, and the time of its only news.
    fn list(pods: &[(&str, u64, &str)]) -> Value {
        let items: Vec<Value> = pods.iter().map(pod).collect();
        json!({"kind": "List", "items": items})
    }

    fn pod((name, version, time): &(&str, u64, &str)) -> Value {
        json!({"kind": "Pod",
            "metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": version.to_string()},
            "status": {"startTime": time}})
    }

    fn watched(p: (&str, u64, &str)) -> Value {
        json!({"type": "MODIFIED", "object": pod(&p)})
    }

    fn time(text: &str) -> Nanos {
        Nanos::parse_rfc3339(text).unwrap().0
    }

    fn hour(text: &str) -> String {
        format!("2026-11-21T{text}Z")
    }

    fn file(written: Option<&str>, documents: &[Value]) -> Decoded {
        let mut decoder = KubeLines::new(TimeHint::default());
        let mut observations = Vec::new();
        for d in documents {
            decoder.line(d.to_string().as_bytes(), &mut observations);
        }
        Decoded {
            observations,
            summaries: Vec::new(),
            guessed: decoder.guesses_arrival(),
            printed: None,
            by_name: false,
            zone: None,
            lists_all_of: None,
            written: written.map(time),
        }
    }

    /// `pod@time` of each observation: the last second in which its list may have been read.
    fn read(files: &[Decoded]) -> Vec<String> {
        let all = files.iter().flat_map(|d| &d.observations);
        all.map(|o| {
            assert!(o.stamp.until() == o.stamp.seen && o.stamp.precision == SECOND as u32);
            let Body::Pod(p) = &o.body else { panic!() };
            let at = o.stamp.at.to_rfc3339();
            format!("{}@{}", p.name, at.get(11..19).unwrap())
        })
        .collect()
    }

    const EIGHT: &str = "2026-11-21T08:00:00Z";
    const NINE: &str = "2026-11-21T09:00:00Z";

    /// Dates files and compares when each list counts as read.
    fn check(what: &str, mut files: Vec<Decoded>, want: &[&str]) -> Dating {
        let dating = date(&mut files, None, &Made::new()).unwrap();
        assert_eq!(read(&files), want, "{what}");
        dating
    }

    #[test]
    fn lists_of_an_import_were_read_together_before_their_files_were_written() {
        let a = list(&[("a", 1, EIGHT)]);
        let b = list(&[("b", 2, NINE)]);
        for (what, written_a, written_b, want) in [
            ("no file tells", None, None, ["a@09:00:00", "b@09:00:00"]),
            (
                "both",
                Some("09:00:04.5"),
                Some("09:00:07"),
                ["a@09:00:04", "b@09:00:07"],
            ),
            (
                "one was complete before",
                Some("08:30:00"),
                None,
                ["a@08:30:00", "b@09:00:00"],
            ),
            (
                "a clock that is behind",
                Some("07:00:00"),
                Some("08:59:59"),
                ["a@09:00:00", "b@09:00:00"],
            ),
            (
                "copied later",
                Some("10:00:01"),
                Some("10:00:01"),
                ["a@09:00:00", "b@09:00:00"],
            ),
            (
                "a time of another zone, and just in time",
                Some("10:00:00"),
                Some("09:59:59"),
                ["a@09:00:00", "b@09:59:59"],
            ),
        ] {
            let written = |t: Option<&str>| t.map(hour);
            let files = vec![
                file(written(written_a).as_deref(), std::slice::from_ref(&a)),
                file(written(written_b).as_deref(), std::slice::from_ref(&b)),
            ];
            check(what, files, &want);
        }
    }

    #[test]
    fn where_nodes_report_a_file_tells_for_minutes_only() {
        let node = |ready: &str| {
            json!({"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions":
                [{"type": "Ready", "status": ready, "lastHeartbeatTime": NINE}]}})
        };
        for (ready, written, want) in [
            ("True", "09:08:00", "09:08:00"),
            ("True", "09:12:00", "09:00:00"),
            ("Unknown", "09:12:00", "09:12:00"),
        ] {
            let pods = list(&[("a", 1, EIGHT)]);
            let mut files = [file(Some(&hour(written)), &[node(ready), pods])];
            date(&mut files, None, &Made::new()).unwrap();
            let read: Vec<Nanos> = files[0].observations.iter().map(|o| o.stamp.at).collect();
            assert_eq!(read, [time(&hour(want)); 2], "{ready} {written}");
        }
    }

    #[test]
    fn what_was_done_is_told() {
        let own = |written: &str| file(Some(&hour(written)), &[list(&[("a", 1, EIGHT)])]);
        let minutes = |m: i64| Some(m * 60 * SECOND);
        let dating = check("by its file", vec![own("08:20:00")], &["a@08:20:00"]);
        assert_eq!((dating.by_file, dating.by_list), (minutes(20), None));
        let dating = check("too late", vec![own("10:00:00")], &["a@08:00:00"]);
        let late = minutes(120).map(|by| Late {
            by,
            written: time(&hour("10:00:00")).plus(SECOND),
        });
        assert_eq!((dating.by_file, dating.late), (None, late));
        let dating = check("as it tells", vec![own("08:00:00")], &["a@08:00:00"]);
        assert_eq!(dating, Dating::default());
        let other = file(None, &[list(&[("b", 1, NINE)])]);
        let files = vec![file(None, &[list(&[("a", 1, EIGHT)])]), other];
        let dating = check("by another", files, &["a@09:00:00", "b@09:00:00"]);
        assert_eq!((dating.by_file, dating.by_list), (None, minutes(60)));
    }

    #[test]
    fn lists_with_an_object_in_two_versions_are_two_moments() {
        let before = list(&[("a", 1, EIGHT), ("calm", 1, EIGHT)]);
        let after = list(&[("a", 7, NINE), ("calm", 1, EIGHT)]);
        let same = list(&[("a", 7, NINE)]);
        for written in [None, Some("2026-11-21T09:30:00Z")] {
            let files = vec![
                file(written, std::slice::from_ref(&before)),
                file(written, &[after.clone(), same.clone()]),
            ];
            let last = if written.is_some() {
                "09:30:00"
            } else {
                "09:00:00"
            };
            let want = ["a@08:00:00", "calm@08:00:00"].map(str::to_owned);
            let late = ["a", "calm", "a"].map(|p| format!("{p}@{last}"));
            let want: Vec<&str> = want.iter().chain(&late).map(String::as_str).collect();
            check("one after the other", files, &want);
        }
        // The older file was complete before the newer list was read.
        let files = vec![
            file(Some("2026-11-21T08:10:00Z"), &[before]),
            file(None, &[after]),
        ];
        check(
            "each by its file",
            files,
            &["a@08:10:00", "calm@08:10:00", "a@09:00:00", "calm@09:00:00"],
        );
    }

    #[test]
    fn a_watch_stays_as_it_is_and_so_does_what_stands_before_it() {
        let written = Some("2026-11-21T09:20:00Z");
        let listed = list(&[("a", 1, EIGHT), ("b", 1, EIGHT)]);
        let watch = watched(("c", 5, "2026-11-21T08:30:00Z"));
        check(
            "a watch of what was listed",
            vec![file(written, &[listed.clone(), watch.clone()])],
            &["a@08:00:00", "b@08:00:00", "c@08:30:00"],
        );
        check(
            "a list behind a watch",
            vec![file(written, &[watch, listed.clone()])],
            &["c@08:30:00", "a@09:20:00", "b@09:20:00"],
        );
        check(
            "a watch in another file",
            vec![
                file(written, &[listed]),
                file(written, &[watched(("a", 2, NINE))]),
            ],
            &["a@08:00:00", "b@08:00:00", "a@09:00:00"],
        );
        // `kubectl get -w -o json` prints each state of each object.
        let states = [
            ("a", 1, EIGHT),
            ("b", 2, "2026-11-21T08:01:00Z"),
            ("a", 3, NINE),
        ];
        check(
            "states one by one",
            vec![file(written, &states.map(|s| pod(&s)))],
            &["a@08:00:00", "b@08:01:00", "a@09:20:00"],
        );
    }

    #[test]
    fn the_user_knows_better_than_files_but_not_than_lists() {
        let files = || {
            vec![file(
                Some("2026-11-21T08:10:00Z"),
                &[list(&[("a", 1, EIGHT)])],
            )]
        };
        for taken in ["2026-11-23T08:00:00Z", "2026-11-21T08:05:00Z", EIGHT] {
            let mut files = files();
            date(&mut files, Some(time(taken)), &Made::new()).unwrap();
            assert_eq!(files[0].observations[0].stamp.at, time(taken));
        }
        let early = date(
            &mut files(),
            Some(time("2026-11-21T07:59:59Z")),
            &Made::new(),
        );
        assert!(matches!(early, Err(ImportError::Taken { .. })), "{early:?}");
    }
}
