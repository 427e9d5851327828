//! The incidents of the recordings: compared with what is known of the recordings, with the verdicts of single moments,
//! and as the command and the terminal show them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use crate::in_repository;
use kflow_core::correlate::World;
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::diagnose::{CauseId, Diagnoser, Incident, Incidents, Subject, Verdict, Walk};
use kflow_core::query::Moment;
use kflow_engine::{Overview, Player};
use kflow_model::session::{Session, reader};
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation};
use kflow_tui::backend::{Answer, Backend as _, Drive};
use kflow_tui::replay::{Replay, is_error};
use serde::Deserialize;

fn path(name: &str) -> PathBuf {
    crate::recording(name)
}

fn load(name: &str) -> Session {
    reader::load(&path(name)).unwrap_or_else(|e| panic!("{e}"))
}

type Known<T> = LazyLock<Mutex<BTreeMap<String, Arc<T>>>>;

fn known<T>(all: &Known<T>, name: &str, make: impl FnOnce() -> T) -> Arc<T> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(
        all.entry(name.to_owned())
            .or_insert_with(|| Arc::new(make())),
    )
}

/// The overview of a recording; computed once for all tests.
pub(crate) fn overview(name: &str) -> Arc<Overview> {
    static ALL: Known<Overview> = LazyLock::new(Mutex::default);
    known(&ALL, name, || {
        let s = load(name);
        let range = s.range().expect("not empty");
        Overview::of(&s.observations, Arc::default(), None, range)
    })
}

#[derive(Deserialize)]
struct Expected {
    session: String,
    scenario: String,
    at_ns: i64,
    target: String,
    namespace: String,
    causes: Vec<String>,
}

fn expected() -> Vec<Expected> {
    let text = std::fs::read_to_string(in_repository("fixtures/expected.json")).expect("the file");
    serde_json::from_str(&text).expect("its form")
}

/// True for an incident of the target of an entry in `expected.json`: the pod, or the owner of this kind and name.
fn is_of(i: &Incident, e: &Expected) -> bool {
    let owner = |kind: &str, name: &str| {
        e.target
            .split_once('/')
            .is_some_and(|(k, n)| kind.to_lowercase().starts_with(k) && name == n)
    };
    match &i.subject {
        Subject::Owner(o) if i.pods() == 0 => o.namespace == e.namespace && owner(&o.kind, &o.name),
        Subject::Node(_) => false,
        _ => i
            .parts
            .iter()
            .any(|p| format!("{}/{}", p.verdict.namespace, p.verdict.pod) == e.target),
    }
}

#[test]
fn every_scenario_is_among_the_incidents_and_what_was_healthy_is_not() {
    let mut wrong = Vec::new();
    let mut found = 0;
    for e in expected() {
        let overview = overview(&e.session);
        let (what, at) = (
            format!("{}/{} {}", e.session, e.scenario, e.target),
            Nanos(e.at_ns),
        );
        let of_it: Vec<&Incident> = overview.incidents.iter().filter(|i| is_of(i, &e)).collect();
        if e.causes.is_empty() {
            // A later incident, when the pod is deleted, does not count.
            if let Some(i) = of_it.iter().find(|i| i.begin <= at) {
                wrong.push(format!("{what}: {}", i.verdict.sentence));
            }
            continue;
        }
        let holds = |i: &&&Incident| {
            e.causes.iter().any(|c| c == i.verdict.cause_id())
                && i.begin <= at
                && i.end.is_none_or(|end| at <= end)
        };
        match of_it.iter().find(holds) {
            Some(i) => {
                found += 1;
                let named = match &i.subject {
                    Subject::Pod {
                        namespace, name, ..
                    } => format!("{namespace}/{name}") == e.target,
                    Subject::Owner(o) => o.namespace == e.namespace,
                    Subject::Node(_) => false,
                };
                if !named {
                    wrong.push(format!("{what}: subject {}", i.subject));
                }
            }
            None => wrong.push(format!(
                "{what}: none of {:?} at {at}; {:?}",
                e.causes,
                of_it
                    .iter()
                    .map(|i| (i.verdict.cause_id(), i.begin.to_rfc3339(), i.end))
                    .collect::<Vec<_>>()
            )),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(found > 50, "{found}");
}

fn of_node(overview: &Overview) -> Vec<(&str, i64)> {
    overview
        .incidents
        .iter()
        .filter(|i| matches!(&i.subject, Subject::Node(n) if n == "node1"))
        .map(|i| (i.verdict.cause_id(), i.length(overview.range.1) / SECOND))
        .collect()
}

#[test]
fn a_node_whose_runtime_or_kubelet_stands_still_is_a_subject() {
    // The runtime was stopped for 60 s, and killed for 30 s.
    let stopped = overview("S4-runtime");
    let mut runtime = of_node(&stopped);
    // Before that its network had no configuration for 70 s.
    runtime.retain(|(id, _)| *id != "KF310");
    let lengths: Vec<i64> = runtime.iter().map(|(_, s)| *s).collect();
    assert!(runtime.iter().all(|(id, _)| *id == "KF302"), "{runtime:?}");
    assert!(lengths.iter().any(|s| (50..80).contains(s)), "{runtime:?}");
    assert!(lengths.iter().any(|s| (20..50).contains(s)), "{runtime:?}");
    // The kubelet was frozen while pods were waiting.
    let frozen = overview("S11-control-plane");
    assert!(
        of_node(&frozen).iter().any(|(id, _)| *id == "KF301"),
        "{:?}",
        of_node(&frozen)
    );
    // 40 pods that start at once are no incident.
    let burst = overview("S5-burst");
    let told: Vec<&str> = burst
        .incidents
        .iter()
        .map(|i| i.verdict.sentence.as_str())
        .collect();
    assert!(told.is_empty(), "{told:?}");
}

/// The verdicts of a moment that are not well: pod or owner, and cause.
type Told = BTreeSet<(String, &'static str)>;

fn told<'v>(verdicts: impl Iterator<Item = &'v Arc<Verdict>>) -> Told {
    let who = |v: &Verdict| match &v.owner {
        Some(o) if v.uid.is_empty() => format!("{}/{}/{}", o.kind, o.namespace, o.name),
        _ => v.uid.to_string(),
    };
    verdicts
        .filter(|v| !v.state.is_well())
        .map(|v| (who(v), v.cause_id()))
        .collect()
}

/// Walks through a session, and returns the incidents.
fn walked(s: &Session) -> Incidents {
    let mut walk = Walk::new(Arc::default(), None, s.range().expect("not empty"));
    for o in &s.observations {
        walk.observe(o);
    }
    walk.finish().0
}

#[test]
fn at_each_moment_that_was_looked_at_what_is_told_is_what_is_open() {
    for name in [
        "S2-stuck-early",
        "S4-runtime",
        "S8-node",
        "S11-control-plane",
    ] {
        let s = load(name);
        let (begin, end) = s.range().expect("not empty");
        let incidents = walked(&s);
        let mut world = World::new();
        let mut observations = s.observations.iter().peekable();
        let mut open = 0;
        // In a session of this length the walk looks every second. The verdicts of one moment depend
        // on no earlier look.
        let looks = end.since(begin) / SECOND;
        for n in (1..looks).step_by(23) {
            let at = begin.plus(n * SECOND);
            while let Some(o) = observations.next_if(|o| o.stamp.seen <= at) {
                world.observe(o);
            }
            world.refresh();
            let (pods, others) = Diagnoser::new().update(&world, at);
            let now = told(pods.values().chain(others.iter()));
            let intervals = incidents.parts().filter(|p| p.is_told_at(at));
            let then = told(intervals.map(|p| &p.verdict));
            assert_eq!(then, now, "{name} at {at}");
            open += now.len();
        }
        assert!(open > 2, "{name}: {open}");
    }
}

#[test]
fn incidents_are_in_order_and_none_is_told_twice() {
    for name in ["S2-stuck-early", "S3-crashes", "S4-runtime"] {
        let overview = overview(name);
        assert!(overview.whole && overview.upto == Some(overview.range.1));
        assert!(overview.incidents.is_sorted_by_key(|i| i.begin), "{name}");
        for (n, i) in overview.incidents.iter().enumerate() {
            assert!(i.end.is_none_or(|e| i.begin <= e), "{name}: {i:?}");
            assert!(!i.parts.is_empty() && !i.verdict.sentence.is_empty());
            let (at, v) = i.middle(overview.range.1);
            assert!(i.parts.iter().any(|p| p.is_told_at(at)), "{name}: {i:?}");
            assert_eq!(v.cause, i.cause());
            let overlaps = |o: &&Incident| {
                o.subject == i.subject
                    && o.cause() == i.cause()
                    && o.begin <= i.end.unwrap_or(overview.range.1)
            };
            let again = overview.incidents.iter().skip(n + 1).find(overlaps);
            assert!(again.is_none(), "{name}: {i:?}\n{again:?}");
        }
        assert!(overview.density.iter().any(|n| *n > 0));
    }
}

/// The overview says that all is known at a moment exactly when a world of that moment alone says so.
#[test]
fn what_was_known_at_each_moment_is_what_the_walk_says_was_known() {
    for name in ["S1-basics", "S8-node", "S13-crictl"] {
        let s = load(name);
        let (begin, end) = s.range().expect("not empty");
        let knowledge = &overview(name).knowledge;
        let mut clear = 0;
        for n in 0..24 {
            let at = begin.plus(end.since(begin) / 23 * n);
            let world = kflow_engine::pipeline::world_at(&s, at, Arc::default());
            let asked = Asked {
                world: &world,
                at,
                scope: None,
                recorded: Some(end),
            };
            assert_eq!(
                knowledge.is_known_at(at),
                unknown::every(asked).is_none(),
                "{name} at {at}"
            );
            clear += usize::from(knowledge.is_known_at(at));
        }
        assert!(clear > 20, "{name}: {clear}");
        let (from, upto) = knowledge.known().expect("all was known");
        assert!(
            begin <= from && from.since(begin) < 5 * SECOND && upto == end,
            "{name}"
        );
    }
}

fn verdict(pod: &str, cause: &str, since: i64) -> Arc<Verdict> {
    use kflow_core::diagnose::{Catalogue, Confidence, State};
    let id: CauseId = Catalogue::get().find(cause).expect("a cause").id;
    Arc::new(Verdict {
        uid: pod.into(),
        namespace: "shop".into(),
        pod: pod.into(),
        owner: None,
        root: None,
        cause: Some(id),
        title: "".into(),
        stage: kflow_core::flow::Stage::Image,
        container: "".into(),
        state: State::Stuck,
        since: at(since),
        at_least: false,
        in_flight: None,
        attempt: 0,
        next_retry: None,
        behind: None,
        recurrence: None,
        sentence: format!("{cause} since {since}"),
        same: String::new(),
        evidence: Vec::new(),
        not_reached: Vec::new(),
        owner_state: None,
        node_state: None,
        next: Vec::new(),
        confidence: Confidence::Certain,
        also: Vec::new(),
    })
}

fn at(second: i64) -> Nanos {
    Nanos((1_790_000_000 + second) * SECOND)
}

/// Incidents from verdicts that are told during some seconds: pod, cause, seconds. Each claims to hold since
/// 3 s before that.
fn looked(told: &[(&str, &str, std::ops::Range<i64>)], seconds: std::ops::Range<i64>) -> Incidents {
    let world = World::new();
    let mut incidents = Incidents::default();
    for second in seconds {
        let pods = told
            .iter()
            .filter(|(.., when)| when.contains(&second))
            .map(|(pod, cause, when)| ((*pod).into(), verdict(pod, cause, when.start - 3)))
            .collect();
        incidents.look(&world, &(Arc::new(pods), Arc::default()), at(second));
    }
    incidents
}

/// Several Jobs of a CronJob end in the same way, one in another, which is told last. Their numbers differ each time.
#[test]
fn an_incident_is_told_in_the_words_of_most_and_names_the_others() {
    let world = World::new();
    let object = |kind: &str, name: &str| kflow_model::ObjectRef {
        kind: kind.into(),
        namespace: "shop".into(),
        name: name.into(),
        ..kflow_model::ObjectRef::default()
    };
    let said = [
        "ended with exit code 1 after request 70001",
        "ended with exit code 1 after request 70002",
        "ended with exit code 2 after request 70003",
    ];
    let verdicts = (0..).zip(said).map(|(n, said)| {
        let mut v = Arc::unwrap_or_clone(verdict("", "KF708", n));
        v.owner = Some(object("Job", &format!("nightly-{n}")));
        v.root = Some(object("CronJob", "nightly"));
        v.sentence = said.to_owned();
        v.same = said.to_owned();
        Arc::new(v)
    });
    let verdicts: Vec<_> = verdicts.collect();
    let mut incidents = Incidents::default();
    for n in 1..=3_usize {
        let told = Arc::new(verdicts[..n].to_vec());
        incidents.look(&world, &(Arc::default(), told), at(n as i64));
    }
    let all = incidents.list();
    let [i] = all.as_slice() else {
        panic!("{all:?}")
    };
    assert_eq!(i.subject.to_string(), "shop/cronjob/nightly");
    assert_eq!(i.verdict.sentence, said[1]);
    let others = i.others();
    let others: Vec<_> = others
        .iter()
        .map(|(n, v)| (*n, v.sentence.as_str()))
        .collect();
    assert_eq!(others, [(1, said[2])]);
    let text = kflow_export::incidents::text(&[i], (at(0), at(9)), at(9), |_| None);
    assert!(text.contains(&format!("      also: {}", said[2])), "{text}");
}

#[test]
fn the_same_cause_after_a_short_while_is_the_same_incident_and_another_begins_where_the_last_ended()
{
    let told = [
        ("web", "KF601", 10..20),
        ("web", "KF601", 25..40),
        // Replaces KF601 at second 40, but claims to hold since second 37.
        ("web", "KF604", 40..50),
        ("web", "KF601", 90..95),
    ];
    let list = looked(&told, 0..100).list();
    let lines: Vec<(String, i64, Option<i64>, usize)> = list
        .iter()
        .map(|i| {
            let seconds = |t: Nanos| t.since(at(0)) / SECOND;
            (
                i.verdict.cause_id().to_owned(),
                seconds(i.begin),
                i.end.map(seconds),
                i.parts.len(),
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            ("KF601".to_owned(), 7, Some(40), 2),
            ("KF604".to_owned(), 40, Some(50), 1),
            ("KF601".to_owned(), 87, Some(95), 1),
        ]
    );
}

#[test]
fn what_passes_by_itself_while_a_pod_starts_is_no_incident() {
    let short = looked(&[("web", "KF404", 10..13)], 0..30);
    assert_eq!((short.list().len(), short.parts().count()), (0, 1));
    let long = looked(&[("web", "KF404", 10..20)], 0..30);
    assert_eq!(long.list().len(), 1);
    // While a wait lasts, nobody knows how long it will be: it is an incident for now.
    let lasting = looked(&[("web", "KF404", 10..13)], 0..12);
    assert_eq!(lasting.list().len(), 1);
}

fn kflow(args: &[&str]) -> (Option<i32>, String, String) {
    crate::program::kflow(args).parts()
}

#[test]
fn the_command_tells_every_incident_of_a_recording_in_both_forms() {
    let s2 = path("S2-stuck-early").display().to_string();
    let (code, text, _) = kflow(&["why", "--ever", "-s", &s2]);
    assert_eq!(code, Some(1));
    let all = overview("S2-stuck-early");
    for i in all.incidents.iter() {
        let line = |l: &str| l.contains(i.verdict.cause_id()) && l.contains(&i.subject.to_string());
        assert!(text.lines().any(line), "{}\n{text}", i.subject);
    }
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let (_, json, _) = kflow(&["why", "--ever", "-o", "json", "-s", &s2]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).expect("JSON");
    assert_eq!(rows.len(), all.incidents.len());
    let quota = rows
        .iter()
        .find(|r| r["cause"] == "KF101")
        .expect("the quota");
    assert_eq!(quota["subject"]["kind"], "owner");
    assert_eq!(quota["subject"]["name"], "quota");
    assert!(quota["length_ns"].as_i64() > Some(100 * SECOND));
    // The same for one pod, and for a part of the recording.
    let (code, one, _) = kflow(&["why", "s10/rc", "--ever", "-s", &s2]);
    assert_eq!((code, one.matches("KF").count()), (Some(1), 1), "{one}");
    let (code, none, _) = kflow(&["why", "--ever", "--at", "+1s", "-s", &s2]);
    assert_eq!(code, Some(0), "{none}");
    assert!(
        none.starts_with("Nothing was ever wrong between "),
        "{none}"
    );
    let (code, _, said) = kflow(&["why", "s10/nobody", "--ever", "-s", &s2]);
    assert_eq!(code, Some(3), "{said}");
    let (code, _, said) = kflow(&["why", "--ever"]);
    assert!(code == Some(2) && said.contains("--session"), "{said}");
}

/// What the text says below an incident is in the other forms too: what was said of each pod, and their names.
#[test]
fn what_is_said_of_each_pod_of_an_incident_is_in_every_form() {
    let (mut parts, mut others, mut owners) = (0, 0, 0);
    for name in [
        "causes/real/faults",
        "causes/real/running",
        "correlate/stops",
        "correlate/jobs",
    ] {
        let path = crate::fixture(&format!("{name}.kflow.zst"));
        let path = path.display().to_string();
        let said = |form: &str| kflow(&["why", "--ever", "-o", form, "-s", &path]).1;
        let rows: Vec<serde_json::Value> = serde_json::from_str(&said("json")).expect("JSON");
        let (csv, markdown) = (
            said("csv"),
            crate::one_line(&said("markdown").replace('\\', "")),
        );
        for row in &rows {
            let told = row["parts"].as_array().expect("parts");
            let of: BTreeSet<&str> = told.iter().filter_map(|p| p["sentence"].as_str()).collect();
            assert!(
                of.contains(row["sentence"].as_str().expect("words")),
                "{row}"
            );
            for part in told {
                parts += 1;
                assert_ne!(part["sentence"], "", "{row}");
                assert_ne!(part["state"], "", "{row}");
                // A part that is of no pod names what it is of.
                assert_eq!(part["pod"] == "", part["owner"].is_string(), "{row}");
                owners += usize::from(part["owner"].is_string());
            }
        }
        // What the text says deeper than the sentence.
        for line in said("text").lines().filter(|l| l.starts_with("      ")) {
            let line = crate::one_line(line);
            let line = line.trim_matches('"');
            others += usize::from(line.starts_with("also: "));
            assert!(markdown.contains(line), "{line} is not in {markdown}");
            let plain = line.replace('"', "\"\"");
            assert!(
                crate::one_line(&csv).contains(&plain),
                "{plain} is not in {csv}"
            );
        }
    }
    assert!(
        parts > 20 && others > 1 && owners > 2,
        "{parts} {others} {owners}"
    );
}

#[test]
fn from_a_moment_on_only_what_lasted_then_or_came_later_is_told() {
    let s2 = path("S2-stuck-early").display().to_string();
    let all = overview("S2-stuck-early");
    let since = |at: Nanos, more: &[&str]| {
        let at = at.0.to_string();
        kflow(&[&["why", "--ever", "-s", &s2, "--since", &at], more].concat())
    };
    let ends: Option<Vec<Nanos>> = all.incidents.iter().map(|i| i.end).collect();
    let mut ends = ends.expect("all are over");
    ends.sort_unstable();
    let (middle, over) = (ends[ends.len() / 2], ends[ends.len() - 1]);
    let left = |i: &&Incident| i.end.is_none_or(|end| middle < end);
    let want = all.incidents.iter().filter(left).count();
    assert!(0 < want && want < all.incidents.len(), "{want}");
    let (code, json, _) = since(middle, &["-o", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, rows.len()), (Some(1), want));
    // Nothing was wrong after the last incident, and the text claims no more than that.
    let (code, text, error) = since(over, &[]);
    assert_eq!(code, Some(0), "{text}{error}");
    let claim = format!("Nothing was ever wrong between {} and ", over.to_rfc3339());
    assert!(text.starts_with(&claim), "{text}");
    let (code, _, error) = since(over, &["--at", "+1s"]);
    assert!(code == Some(2) && error.contains("--since"), "{error}");
    // With `--since` before the begin of a recording, all of it is shown.
    let (code, json, error) = since(all.range.0.plus(-SECOND), &["-o", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, rows.len()), (Some(1), all.incidents.len()));
    assert!(error.contains("the recording begins at"), "{error}");
}

/// A player that has read its session and computed the overview.
fn player(name: &str) -> Replay {
    let player = Player::open(&path(name), Moment::Begin, Arc::default()).expect("fixture");
    let mut r = Replay::new(player);
    let now = kflow_model::clock::monotonic();
    let mut last = None;
    while !r.player().overview().whole {
        r.snapshot(now);
        // An overview that is not complete says up to when it was computed.
        let upto = r.player().overview().upto;
        assert!(upto >= last, "{upto:?} {last:?}");
        last = upto;
        std::thread::park_timeout(Duration::from_millis(5));
    }
    r.snapshot(now);
    r
}

#[test]
fn a_player_finds_what_the_whole_session_holds() {
    let mut r = player("S3-crashes");
    let found = Arc::clone(r.player().overview());
    let whole = overview("S3-crashes");
    let lines = |e: &Overview| -> Vec<String> {
        e.incidents
            .iter()
            .map(|i| format!("{} {} {:?}", i.subject, i.begin, i.end))
            .collect()
    };
    assert_eq!(lines(&found), lines(&whole));
    assert_eq!(found.density, whole.density);
    let now = kflow_model::clock::monotonic();
    assert_eq!(
        r.snapshot(now).overview.incidents.len(),
        whole.incidents.len()
    );
}

#[test]
fn the_next_error_is_one_that_something_suffered_from_and_is_said_in_words_with_its_pod() {
    let now = kflow_model::clock::monotonic();
    let error = |r: &mut Replay| {
        r.drive(
            Drive::Error {
                pod: None,
                forward: true,
            },
            now,
        )
    };
    let done = |answer| match answer {
        Ok(Answer::Done(done)) => done,
        other => panic!("{other:?}"),
    };
    // Forty healthy starts: the kubelet logs errors meanwhile, and none of them is followed by an incident.
    let mut r = player("S5-burst");
    let count = |o: &&Arc<Observation>| is_error(o) && matches!(o.body, kflow_model::Body::Log(_));
    let logged = r.player().all().iter().filter(count).count();
    assert!(logged > 0, "{logged}");
    let mut steps = 0;
    let end = loop {
        let done = done(error(&mut r));
        if done.said.starts_with("there is no error after this") {
            break done.said;
        }
        let s = r.snapshot(now);
        let o = s.log.get(s.log.len() - 1).expect("an observation");
        assert!(
            !matches!(o.body, kflow_model::Body::Log(_)),
            "{}",
            done.said
        );
        steps += 1;
        assert!(steps < 100);
    };
    assert!(end.contains("that nothing suffered from"), "{end}");
    let mut r = player("S2-stuck-early");
    let mut with_pod = 0;
    for _ in 0..40 {
        let done = done(error(&mut r));
        assert!(!done.said.is_empty());
        let s = r.snapshot(now);
        if let Some(uid) = &done.pod {
            with_pod += 1;
            let p = s.world.pod(uid).expect("it is there");
            assert!(done.said.contains(p.name.as_str()), "{}", done.said);
        }
    }
    assert!(with_pod > 20, "{with_pod}");
}

/// Real recordings without all but their Events: the API has one pod of a name at a time.
#[test]
fn what_was_wrong_with_a_pod_that_events_alone_tell_of_is_over_once_another_has_its_name() {
    let mut over = 0;
    for file in std::fs::read_dir(in_repository("fixtures/causes/real")).unwrap() {
        let path = file.unwrap().path();
        if !path.to_string_lossy().ends_with(".kflow.zst") {
            continue;
        }
        let mut observations = reader::load(&path).unwrap().observations;
        observations.retain(|o| matches!(o.body, Body::Event(_)));
        // When the Events of each pod of a name began to happen, and to arrive.
        let mut names: BTreeMap<_, BTreeMap<_, (Nanos, Nanos)>> = BTreeMap::new();
        for o in &observations {
            let Body::Event(e) = &o.body else { continue };
            // Some name a pod without its UID.
            if e.object.kind == "Pod" && !e.object.uid.is_empty() {
                let name = (e.object.namespace.clone(), e.object.name.clone());
                let (at, seen) = names
                    .entry(name)
                    .or_default()
                    .entry(e.object.uid.clone())
                    .or_insert((o.stamp.at, o.stamp.seen));
                *at = o.stamp.at.min(*at);
                *seen = o.stamp.seen.min(*seen);
            }
        }
        names.retain(|_, pods| pods.len() > 1);
        if names.is_empty() {
            continue;
        }
        let range = (
            observations[0].stamp.seen,
            observations.last().unwrap().stamp.seen,
        );
        let all = Overview::of(&observations, Arc::default(), None, range);
        for part in all.incidents.iter().flat_map(|i| &i.parts) {
            let v = &part.verdict;
            let pods = names.get(&(v.namespace.clone(), v.pod.clone()));
            let own = pods.and_then(|p| p.get(v.uid.0.as_str()));
            let Some((born, _)) = own else { continue };
            let younger = pods.into_iter().flatten().filter(|(_, (at, _))| at > born);
            let Some(known) = younger.map(|(_, (_, seen))| *seen).min() else {
                continue;
            };
            let by = known.max(part.told).plus(all.within + SECOND);
            assert!(part.end.is_some_and(|end| end <= by), "{path:?}: {part:?}");
            over += 1;
        }
    }
    assert!(over > 3, "{over}");
}
