//! Verdicts on the recordings of a real node, as of the moments that `fixtures/expected.json` names, with all sources,
//! with the API alone and with the node's own sources alone; and every cause of the catalogue on its scenario.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use kflow::correlate::World;
use kflow::diagnose::{self, Diagnoser, State, Target, Verdict};
use kflow::model::{Nanos, Source, stamp::SECOND};
use kflow::session::reader;
use kflow::timeline::Evidence;
use serde::Deserialize;

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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sources {
    All,
    Api,
    Node,
}

impl Sources {
    const EACH: [Self; 3] = [Self::All, Self::Api, Self::Node];
    fn has(self, s: Source) -> bool {
        match self {
            Self::All => true,
            Self::Api => matches!(s, Source::Kube | Source::Audit),
            Self::Node => s.is_node(),
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

fn expected() -> Vec<Expected> {
    let text =
        std::fs::read_to_string(root().join("fixtures/expected.json")).expect("expected.json");
    serde_json::from_str(&text).expect("expected.json has the documented form")
}

fn ask(world: &World, e: &Expected, now: Nanos) -> Option<Verdict> {
    match diagnose::find(world, &e.target, Some(&e.namespace)).first()? {
        Target::Pod(p) => diagnose::why(world, p, now),
        Target::Owner(o, _) => diagnose::why_owner(world, &o.object, now),
    }
}

/// What is wrong with an answer; with part of the sources less may be told, but nothing else.
fn judge(e: &Expected, sources: Sources, got: Option<&Verdict>) -> Result<(), String> {
    let Some(v) = got else {
        return if e.causes.is_empty() || sources != Sources::All {
            Ok(())
        } else {
            Err("nothing told".into())
        };
    };
    let well = matches!(v.state, State::Healthy | State::Recovered);
    if e.causes.is_empty() {
        return if well {
            Ok(())
        } else {
            Err("a verdict on a pod that is well".into())
        };
    }
    if well {
        return if sources == Sources::All {
            Err("told to be well".into())
        } else {
            Ok(())
        };
    }
    if !e.causes.iter().any(|c| *c == v.cause.as_str()) {
        return Err(format!("cause {}", v.cause));
    }
    if e.stage.as_deref() != Some(v.stage.name()) {
        return Err(format!("stage {}", v.stage));
    }
    if sources == Sources::All {
        let mut text = v.sentence.to_lowercase();
        for p in &v.evidence {
            let _ = write!(text, "\n{}", p.text.to_lowercase());
        }
        for n in &e.names {
            if !text.contains(&n.to_lowercase()) {
                return Err(format!("does not name {n}"));
            }
        }
    }
    if !e.state.is_empty() && !e.state.contains(&v.state) {
        return Err(format!("state {:?}", v.state));
    }
    Ok(())
}

struct Row {
    expected: Expected,
    got: BTreeMap<Sources, String>,
}

/// Runs one session with a set of sources: what is said at the moments that are asked about, and what is wrong.
fn run(
    observations: &[Evidence],
    sources: Sources,
    asked: &[&Expected],
    rows: &mut BTreeMap<(String, String, String), Row>,
    wrong: &mut Vec<String>,
) {
    let mut world = World::new();
    let mut diagnoser = Diagnoser::new();
    let mut pending: Vec<&&Expected> = asked.iter().collect();
    pending.sort_by_key(|e| std::cmp::Reverse(e.at_ns));
    let Some(first) = observations.first() else {
        return;
    };
    let mut tick = first.stamp.seen;
    for o in observations {
        while let Some(e) = pending.last().filter(|e| e.at_ns < o.stamp.seen.0) {
            world.settle();
            let now = Nanos(e.at_ns);
            let got = ask(&world, e, now);
            let verdict = judge(e, sources, got.as_ref());
            let told = got.as_ref().map_or_else(
                || "-".to_owned(),
                |v| {
                    if v.cause.is_empty() {
                        format!("{:?}", v.state).to_lowercase()
                    } else {
                        format!("{} {} {:?}", v.cause, v.stage, v.confidence)
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
            if std::env::var_os("SHOW").is_some()
                && let Some(v) = &got
                && !v.cause.is_empty()
            {
                eprintln!("--- {sources:?}\n{}", kflow::export::why::text(v, now));
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
        // Healthy ones have no verdict at any time between their being ready and their deletion.
        if o.stamp.seen >= tick {
            tick = o.stamp.seen.plus(SECOND);
            world.settle();
            let now = o.stamp.seen;
            let (verdicts, _) = diagnoser.update(&world, now);
            for e in asked
                .iter()
                .filter(|e| e.causes.is_empty() && now.0 <= e.at_ns)
            {
                let Some(Target::Pod(p)) = diagnose::find(&world, &e.target, Some(&e.namespace))
                    .first()
                    .cloned()
                else {
                    continue;
                };
                if let Some(v) = verdicts.get(&p.uid) {
                    wrong.push(format!(
                        "{}/{} {} {:?}: at {now} {} {}: {}",
                        e.session, e.scenario, e.target, sources, v.cause, v.stage, v.sentence
                    ));
                }
            }
        }
        if sources.has(o.source) {
            world.observe(o);
        }
    }
}

fn all() -> (BTreeMap<(String, String, String), Row>, Vec<String>) {
    let mut sessions: BTreeMap<String, Vec<Expected>> = BTreeMap::new();
    for e in expected() {
        sessions.entry(e.session.clone()).or_default().push(e);
    }
    let mut rows = BTreeMap::new();
    let mut wrong = Vec::new();
    let only = std::env::var("ONLY").ok();
    for (name, asked) in &sessions {
        if only.as_ref().is_some_and(|o| !name.starts_with(o.as_str())) {
            continue;
        }
        let path = root().join(format!("fixtures/sessions/{name}.kflow.zst"));
        let session = reader::load(&path).unwrap_or_else(|e| panic!("{e}"));
        let asked: Vec<&Expected> = asked.iter().collect();
        for sources in Sources::EACH {
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

#[test]
fn every_recorded_scenario_is_told_as_it_was() {
    let (rows, wrong) = all();
    if std::env::var_os("TABLE").is_some() {
        for ((_, scenario, target), r) in &rows {
            eprintln!(
                "{scenario:26} {target:28} {:?} {:?} | {:?}",
                r.expected.stage,
                r.expected.causes,
                r.got.values()
            );
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
