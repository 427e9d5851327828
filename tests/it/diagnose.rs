//! Verdicts on recordings of real nodes, as of the moments in `fixtures/expected.json`: with all sources, with the API
//! alone, and with the node's own sources alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::in_repository;
use crate::pages::current;
use causes::scenarios;
use kflow_core::correlate::World;
use kflow_core::diagnose::{self, Catalogue, Diagnoser, State, Target, Verdict};
use kflow_model::session::reader;
use kflow_model::{Evidence, Nanos, Source, stamp::SECOND};
use serde::Deserialize;

mod absence;
mod asked;
mod causes;
mod degraded;
mod disrupted;
mod ended;
mod first_look;
mod heard;
mod held;
mod lives;
mod many;
mod owners;
mod played;
mod recall;
mod recorded;
mod refused;
mod scenario;
mod silence;
mod storage;
mod versions;
mod walked;

#[derive(Clone, Debug, Deserialize)]
struct Expected {
    session: String,
    scenario: String,
    at_ns: i64,
    target: String,
    namespace: String,
    stage: Option<String>,
    causes: Vec<String>,
    names: Vec<String>,
    #[serde(default)]
    state: Vec<State>,
    /// The pod is well at the moment asked about, but was not well at all times since its start.
    #[serde(default)]
    unwell_before: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sources {
    All,
    Api,
    Node,
    /// All sources, with some observations lost.
    Less,
    /// One source, without any other.
    Only(Source),
}

impl Sources {
    const EACH: [Self; 3] = [Self::All, Self::Api, Self::Node];
    fn has(self, s: Source) -> bool {
        match self {
            Self::All | Self::Less => true,
            Self::Api => matches!(s, Source::Kube | Source::Audit),
            Self::Node => s.is_node(),
            Self::Only(only) => s == only,
        }
    }
    /// True where a verdict may be missing, and may say less.
    fn is_part(self) -> bool {
        matches!(self, Self::Less | Self::Only(_))
    }
}

/// Folders of sessions, each with its expected verdicts: the recordings from which the rules were made; excerpts of
/// later recordings, with other names, of causes in the catalogue; and recordings of another runtime
/// and of older kubelets.
const RECORDED: [(&str, &str); 3] = [
    ("fixtures/sessions", "fixtures/expected.json"),
    ("fixtures/causes/real", "fixtures/causes/real/expected.json"),
    ("fixtures/versions", "fixtures/versions/expected.json"),
];

fn expected(path: &str) -> Vec<Expected> {
    let text = std::fs::read_to_string(in_repository(path)).expect("what is expected");
    serde_json::from_str(&text).expect("it has the documented form")
}

/// The targets of a name in a namespace, newest first.
fn targets<'w>(world: &'w World, e: &Expected) -> Vec<Target<'w>> {
    let mut found = diagnose::find(world, &e.target);
    found.retain(|t| match t {
        Target::Pod(p) => p.namespace == e.namespace,
        Target::Owner(o, _) => o.object.namespace == e.namespace,
        Target::Node(..) => e.namespace.is_empty(),
    });
    found
}

fn ask(world: &World, e: &Expected, now: Nanos) -> Option<Verdict> {
    targets(world, e).first()?.verdict(world, now)
}

/// True for a cause that holds of any failure of the stage. Volumes and sandbox count as one stage, because only the
/// node's sources tell which of them a pod waits for; so do image and create, which only the tap tells apart.
fn is_general(v: &Verdict, stage: Option<&str>) -> bool {
    let same = |a: &str, b: &str| {
        a == b
            || [["volumes", "sandbox"], ["image", "create"]]
                .iter()
                .any(|pair| pair.contains(&a) && pair.contains(&b))
    };
    v.cause.is_some_and(|id| Catalogue::get().cause(id).general)
        && stage.is_none_or(|s| same(s, v.stage.name()))
}

/// Checks a verdict, and returns what is wrong with it. With a part of the sources the verdict may say less, but
/// nothing else.
fn judge(e: &Expected, sources: Sources, got: Option<&Verdict>) -> Result<(), String> {
    let silent = || sources.is_part() || silence::is_known(e, sources);
    let Some(v) = got else {
        return if e.causes.is_empty() || silent() {
            Ok(())
        } else {
            Err("nothing told".into())
        };
    };
    let well = v.state.is_well();
    if e.causes.is_empty() {
        return if well {
            Ok(())
        } else {
            Err("a verdict on a pod that is well".into())
        };
    }
    if well {
        return if silent() {
            Ok(())
        } else {
            Err("told to be well".into())
        };
    }
    // A cause that holds of any failure of the stage says less than the expected cause, but does not contradict it.
    // One source alone may place a wait in another stage.
    let only = matches!(sources, Sources::Only(_));
    let stage = e.stage.as_deref().filter(|_| !only);
    let general = sources != Sources::All && is_general(v, stage);
    // The exit code 137 was seen, but not who killed the container; or only that it ended.
    let seen = ["137", "exit codes were not recorded"];
    if sources.is_part() && v.cause_id() == "KF708" && seen.iter().any(|s| v.sentence.contains(s)) {
        return Ok(());
    }
    if !general && !e.causes.iter().any(|c| *c == v.cause_id()) {
        return Err(format!("cause {}", v.cause_id()));
    }
    if !general && !only && e.stage.as_deref() != Some(v.stage.name()) {
        return Err(format!("stage {}", v.stage));
    }
    if [" ?", "  ", "..", "{", "rpc error: ", "desc = "]
        .iter()
        .any(|h| v.sentence.contains(h))
    {
        return Err("a hole in the sentence".into());
    }
    if sources == Sources::All {
        let mut text = v.sentence.to_lowercase();
        for p in &v.evidence {
            let _ = write!(text, "\n{}", p.to_string().to_lowercase());
        }
        for n in &e.names {
            if !text.contains(&n.to_lowercase()) {
                return Err(format!("does not name {n}"));
            }
        }
    }
    if !e.state.is_empty() && !e.state.contains(&v.state) && !sources.is_part() {
        return Err(format!("state {:?}", v.state));
    }
    Ok(())
}

/// Rows by session, scenario and target.
type Rows = BTreeMap<(String, String, String), Row>;

struct Row {
    expected: Expected,
    got: BTreeMap<Sources, String>,
}

/// Replays one session with a set of sources: adds the verdict at each moment asked about to `rows`, and what is wrong
/// to `wrong`.
fn run(
    observations: &[Evidence],
    sources: Sources,
    asked: &[&Expected],
    rows: &mut Rows,
    wrong: &mut Vec<String>,
) {
    let mut world = World::new();
    let mut diagnoser = Diagnoser::new();
    let mut pending: Vec<&&Expected> = asked.iter().collect();
    pending.sort_by_key(|e| std::cmp::Reverse(e.at_ns));
    let Some((first, last)) = observations.first().zip(observations.last()) else {
        return;
    };
    let mut tick = first.stamp.seen;
    // The moment of the last observation is one that can be asked about.
    for o in observations.iter().map(Some).chain([None]) {
        let before = o.map_or(last.stamp.seen.0 + 1, |o| o.stamp.seen.0);
        while let Some(e) = pending.last().filter(|e| e.at_ns < before) {
            world.refresh();
            let now = Nanos(e.at_ns);
            let got = ask(&world, e, now);
            let verdict = judge(e, sources, got.as_ref());
            let told = got.as_ref().map_or_else(
                || "-".to_owned(),
                |v| {
                    if v.cause.is_none() {
                        format!("{:?}", v.state).to_lowercase()
                    } else {
                        format!("{} {} {:?}", v.cause_id(), v.stage, v.confidence)
                            .to_lowercase()
                            .replacen("kf", "KF", 1)
                    }
                },
            );
            if let Err(why) = &verdict {
                wrong.push(format!(
                    "{}/{} {} {:?}: {why}; got {told}: {}",
                    e.session,
                    e.scenario,
                    e.target,
                    sources,
                    got.as_ref().map_or("", |v| v.sentence.as_str())
                ));
            }
            let told = if verdict.is_err() {
                format!("{told} WRONG")
            } else {
                told
            };
            rows.entry((e.session.clone(), e.scenario.clone(), e.target.clone()))
                .or_insert_with(|| Row {
                    expected: (**e).clone(),
                    got: BTreeMap::new(),
                })
                .got
                .insert(sources, told);
            pending.pop();
        }
        let Some(o) = o else { break };
        // A healthy pod has no bad verdict at any time before the moment asked about.
        if o.stamp.seen >= tick {
            let step = if sources.is_part() { 10 } else { 1 };
            tick = o.stamp.seen.plus(step * SECOND);
            world.refresh();
            let now = o.stamp.seen;
            let (verdicts, _) = diagnoser.update(&world, now);
            for e in asked
                .iter()
                .filter(|e| e.causes.is_empty() && now.0 <= e.at_ns)
                .filter(|e| !e.unwell_before)
            {
                let Some(Target::Pod(p)) = targets(&world, e).first().cloned() else {
                    continue;
                };
                if let Some(v) = verdicts.get(&p.uid).filter(|v| !v.state.is_well()) {
                    wrong.push(format!(
                        "{}/{} {} {:?}: at {now} {} {}: {}",
                        e.session,
                        e.scenario,
                        e.target,
                        sources,
                        v.cause_id(),
                        v.stage,
                        v.sentence
                    ));
                }
            }
        }
        if sources.has(o.source) {
            world.observe(o);
        }
    }
    for e in pending {
        wrong.push(format!(
            "{}/{} {} {sources:?}: its moment is after the recording",
            e.session, e.scenario, e.target
        ));
    }
}

fn all((folder, wanted): (&str, &str)) -> (Rows, Vec<String>) {
    let mut sessions: BTreeMap<String, Vec<Expected>> = BTreeMap::new();
    for e in expected(wanted) {
        sessions.entry(e.session.clone()).or_default().push(e);
    }
    let mut rows = BTreeMap::new();
    let mut wrong = Vec::new();
    let only = std::env::var("ONLY").ok();
    for (name, asked) in &sessions {
        if only.as_ref().is_some_and(|o| !name.starts_with(o.as_str())) {
            continue;
        }
        let path = in_repository(format!("{folder}/{name}.kflow.zst"));
        let session = reader::load(&path).unwrap_or_else(|e| panic!("{e}"));
        let asked: Vec<&Expected> = asked.iter().collect();
        // Lists alone tell nothing by the node.
        let seen = |s: &Sources| session.observations.iter().any(|o| s.has(o.source));
        for sources in Sources::EACH.into_iter().filter(seen) {
            run(
                &session.observations,
                sources,
                &asked,
                &mut rows,
                &mut wrong,
            );
        }
    }
    (rows, wrong)
}

/// Grades of `fixtures/reports.tsv`.
const GRADES: [&str; 4] = ["right", "less", "nothing", "wrong"];
/// What its samples are of.
const SAMPLES: [&str; 21] = [
    "on the node, before it, controllers",
    "distributions and managed clusters; storage, network, GPU and batch add-ons",
    "of every kind, while the repairs of these two were half done",
    "of every kind, half of them ordinary questions, after all these repairs",
    "the pastes as they are, mostly a few lines that name no pod, before such were read",
    "the same, after that",
    "the same, after the repairs of these",
    "the same, after the repairs of all these",
    "pastes of objects in YAML and JSON, mostly a part of one, before such were read",
    "pastes of every kind, before the repairs of these two",
    "symptoms in vendors' documentation on troubleshooting, as it has them, after the repairs of all these",
    "what benchmarks of AI agents give to read (17 of the 20 behind two lines of JSON that hid it), logs of nodes, articles, after all these",
    "exercises and benchmarks, played on a real cluster",
    "support bundles, logs and dumps of clusters (19 of one data set in a form that was not read)",
    "others of these, half of them well, and pastes, after the repairs of those",
    "others of all these, two fifths of them well, after the repairs of those",
    "others, mostly pastes of issues, a third of them well, after the repairs of all these",
    "others, nearly all of them pastes of issues, many cut in the middle, a quarter of them well, after the repairs of those",
    "pastes of issues of other components and other forms, many cut in the middle, a third of them well, after the repairs of those",
    "what is asked most often, as issues and pages of the web have it, a fifth of them well, after the repairs of all these",
    "what other programs than kubectl print of pods, and pastes of issues, a third of them well or of no known cause, after the repairs of those",
];
/// The first sample of pastes as they are; such were read only after it.
const PASTED: usize = 4;
/// The sample of situations that were played on a cluster: kflow asked the apiserver. Those after it are of whole clusters.
const PLAYED: usize = 12;

/// Returns the number of reports of each grade in each sample.
fn graded() -> [[usize; GRADES.len()]; SAMPLES.len()] {
    let all = std::fs::read_to_string(in_repository("fixtures/reports.tsv")).expect("the reports");
    let mut counts = [[0; GRADES.len()]; SAMPLES.len()];
    for line in all.lines().skip(1) {
        let cells: Vec<&str> = line.split('\t').collect();
        let [sample, report, wanted, told, grade] = cells[..] else {
            panic!("{line}");
        };
        assert!(report.starts_with("https://"), "{line}");
        for code in [wanted, told].into_iter().filter(|c| *c != "-") {
            assert!(Catalogue::get().find(code).is_some(), "{line}");
        }
        let sample: usize = sample.parse().expect(line);
        let grade = GRADES.iter().position(|g| *g == grade).expect(line);
        counts[sample - 1][grade] += 1;
    }
    counts
}

/// What kflow said of public reports, before it was changed because of them.
fn reports(out: &mut String) {
    let _ = write!(
        out,
        "## Situations that it was not made for\n\n\
         Reports that users wrote in public, each of a situation of which kflow had no scenario (`fixtures/reports.tsv` lists them). A reader\n\
         wrote down the cause before kflow ran; the input was made from the source of the component that writes the message, as\n\
         what the user had (a description, a paste of several commands, lists, lines of a log), and graded as of 2026-11-27; of the 233 after these the input is what\n\
         the user pasted, character for character (of the last 61 of them, as much of it as an index of public issues shows); of the last 60 it is what the\n\
         documentation on troubleshooting of 15 projects and clouds gives as a symptom, and the cause is the one that it gives. Both were graded on 2026-11-28. In the\n\
         last sample but nine the cause is the author's; 27 more of it are not listed, as an index of public pages did not tell where they stand (12 right, 3 less, 11\n\
         nothing, 1 wrong), nor are 11 more of the last (6 right, 2 less, 3 wrong). In the last but eight the author's manifests stood on a cluster (kubelet 1.36.3, containerd 2.1.9; some images were replaced by ones that behave as\n\
         theirs), and kflow asked its apiserver; where it was right at first and not ten minutes later, it counts as wrong. The last eight\n\
         (2026-11-29 to 12-01) are of what public repositories, issues and pages hold of clusters; of the first two of them 32 and 28 have nothing that is stuck, of the others 41,\n\
         25, 19, 23, 22 and 17 nothing that is stuck by a cause that kflow has. One untrue word about one of its pods makes a bundle wrong. What was not right\n\
         was repaired afterwards, of the last sample in part, so each row is of other reports. *Less*: what was said is true, and does not lead to the cause as\n\
         directly as it could.\n\n\
         | | reports | {} |\n|---|---|---|---|---|---|\n",
        GRADES.join(" | ")
    );
    for (of, counts) in SAMPLES.iter().zip(graded()) {
        let all: usize = counts.iter().sum();
        let counts = counts.map(|n| n.to_string()).join(" | ");
        let _ = writeln!(out, "| {of} | {all} | {counts} |");
    }
    out.push('\n');
}

#[test]
fn the_readme_says_how_many_reports_were_told_right() {
    let samples = graded();
    let sum =
        |of: &[[usize; GRADES.len()]], grade: usize| of.iter().map(|s| s[grade]).sum::<usize>();
    let all = |of: &[[usize; GRADES.len()]]| (0..GRADES.len()).map(|g| sum(of, g)).sum::<usize>();
    let (read, later) = samples.split_at(PLAYED);
    let (played, whole) = later.split_at(1);
    let (pasted, since) = (&read[PASTED..=PASTED], &read[PASTED + 1..]);
    let said = format!(
        "of {} public reports, and symptoms in vendors' documentation, of situations that it was not made for it told the cause of {}, something true that says less of {}, \
         nothing of {}, and something untrue of {}. The last {} were the pastes as they are, mostly a few lines that name no pod: it could read {} of the \
         first {}; since such are read, of the other {} it told the cause of {}, something that says less of {}, something untrue of {}, and nothing of {}. \
         Of {} situations of public exercises and benchmarks, played on a real cluster, it told the cause of {}, something that says less of {}, nothing of {}, and \
         something untrue of {}. Of {} support bundles, logs and dumps of clusters of others it was right about {}, said less of {} and something untrue of {}, \
         and could not read {}, or told nothing of them",
        all(read),
        sum(read, 0),
        sum(read, 1),
        sum(read, 2),
        sum(read, 3),
        all(&read[PASTED..]),
        all(pasted) - sum(pasted, 2),
        all(pasted),
        all(since),
        sum(since, 0),
        sum(since, 1),
        sum(since, 3),
        sum(since, 2),
        all(played),
        sum(played, 0),
        sum(played, 1),
        sum(played, 2),
        sum(played, 3),
        all(whole),
        sum(whole, 0),
        sum(whole, 1),
        sum(whole, 3),
        sum(whole, 2),
    );
    let readme = std::fs::read_to_string(in_repository("README.md")).expect("the page");
    let readme = crate::one_line(&readme);
    assert!(readme.contains(&said), "README.md lacks: {said}");
}

/// `docs/diagnosis.md`: scenario, expected verdict, and the verdict with each set of sources.
fn document(tables: &[Rows], told: &recall::Told) -> String {
    let mut out = String::from(
        "# Diagnosis of the recorded scenarios\n\n\
         What `kflow why` says of every entry of an `expected.json`, as of the moment that it names: with all\n\
         sources, with the API alone (watches and audit log), and with the node's own sources alone (tap, kubelet log,\n\
         file system, runtime log). `-` is nothing told: the pod is not known to those sources, or too little is.\n\n\
         Written by `KFLOW_UPDATE=1 cargo test --test it diagnose`; a test fails when it is stale.\n\n\
",
    );
    reports(&mut out);
    recall::table(told, &mut out);
    for (rows, of) in tables.iter().zip([
        "The recordings in `fixtures/sessions`",
        "Others, in `fixtures/causes/real`",
        "CRI-O, cri-dockerd, containerd 1.7 and 2.3, and kubelets 1.27 to 1.35, in `fixtures/versions`",
    ]) {
        let _ = write!(out, "\n## {of}\n\n");
        table(rows, &mut out);
    }
    out
}

fn table(rows: &Rows, out: &mut String) {
    out.push_str(
        "| scenario | target | expected | all sources | API alone | node alone |\n|---|---|---|---|---|---|\n",
    );
    for ((_, scenario, target), r) in rows {
        let e = &r.expected;
        let expected = match &e.stage {
            Some(stage) => format!("{} {stage}", e.causes.join(" or ")),
            None => "well".to_owned(),
        };
        let got = |s| r.got.get(&s).map_or("-", String::as_str);
        let _ = writeln!(
            out,
            "| {scenario} | {target} | {expected} | {} | {} | {} |",
            got(Sources::All),
            got(Sources::Api),
            got(Sources::Node)
        );
    }
}

#[test]
fn every_recorded_scenario_is_told_as_it_was() {
    let mut tables = Vec::new();
    let mut wrong = Vec::new();
    for recorded in RECORDED {
        let (rows, bad) = all(recorded);
        tables.push(rows);
        wrong.extend(bad);
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    if std::env::var_os("ONLY").is_none() {
        let told = recall::told(&tables);
        current("docs/diagnosis.md", &document(&tables, &told));
        current("docs/versions.md", &versions::document(&tables));
        let moved = recall::moved(&told, &recall::floor());
        assert!(moved.is_empty(), "{}", moved.join("\n"));
    }
}

#[test]
fn an_ephemeral_container_that_waits_is_told_beside_a_pod_that_is_well() {
    let session = reader::load(&in_repository("fixtures/causes/real/modern.kflow.zst")).unwrap();
    let now = session.range().unwrap().1;
    let world = kflow_engine::world_at(&session, now, std::sync::Arc::default());
    let found = diagnose::find(&world, "modern/debugged");
    let v = found.first().unwrap().verdict(&world, now).unwrap();
    assert_eq!(v.state, State::Healthy);
    assert!(
        v.sentence.contains("ephemeral container debugger-"),
        "{}",
        v.sentence
    );
    let [also] = v.also.as_slice() else {
        panic!("{:?}", v.also);
    };
    assert_eq!(also.cause_id(), "KF601");
    assert!(also.sentence.contains("tools:9"), "{}", also.sentence);
    assert!(also.since > v.since);
}
