//! The words fit the facts: every recording at a hundred moments, each view of a pod beside the others.

use crate::correlate::session;
use kflow::correlate::World;
use kflow::diagnose::{Diagnoser, Verdicts};
use kflow::model::Nanos;
use kflow::timeline::Evidence;

/// Moments at which each recording is looked at.
const MOMENTS: i64 = 100;

/// Looks at a recording at each moment.
fn sample(observations: &[Evidence], mut look: impl FnMut(&World, &Verdicts, Nanos)) {
    let seen = || observations.iter().map(|o| o.stamp.seen);
    let (Some(from), Some(to)) = (seen().min(), seen().max()) else {
        return;
    };
    let mut rest = observations.iter().peekable();
    let mut world = World::new();
    let mut diagnoser = Diagnoser::new();
    for i in 1..=MOMENTS {
        let now = from.plus(to.since(from) / MOMENTS * i);
        while let Some(o) = rest.next_if(|o| o.stamp.seen <= now) {
            world.observe(o);
        }
        world.settle();
        let verdicts = diagnoser.update(&world, now);
        look(&world, &verdicts, now);
    }
}

#[test]
#[ignore = "prints"]
fn print_all() {
    let only = std::env::var("S").unwrap_or_default();
    for name in super::correlate::SESSIONS {
        if !only.is_empty() && !name.starts_with(&only) {
            continue;
        }
        let t0 = std::time::Instant::now();
        let observations = session(name);
        println!("== {name} load {:?}", t0.elapsed());
        let mut told: std::collections::BTreeMap<String, Vec<(i64, String)>> = Default::default();
        let mut first = None;
        sample(&observations, |w, v, now| {
            let zero = *first.get_or_insert(now);
            for p in w.pods() {
                let s = match v.0.get(&p.uid) {
                    Some(v) => format!(
                        "{:?} {} {} c={} {}",
                        v.state, v.cause, v.stage, v.container, v.sentence
                    ),
                    None => "-".into(),
                };
                let s = format!(
                    "[{} {:?} {}/{} gone={}] {s}",
                    p.status,
                    p.current.map(|c| c.0),
                    p.ready.0,
                    p.ready.1,
                    p.gone.is_some()
                );
                let list = told.entry(p.key()).or_default();
                if list.last().is_none_or(|l| l.1 != s) {
                    list.push((now.since(zero) / 1_000_000_000, s));
                }
            }
        });
        println!("== {name} all {:?}", t0.elapsed());
        for (k, l) in told {
            println!("{k}");
            for (t, s) in l {
                println!("   {t:5} {s}");
            }
        }
    }
}

#[test]
#[ignore = "prints"]
fn measure() {
    use kflow::diagnose::facts::Facts;
    use kflow::flow::lit::RunEnd;
    use kflow::flow::map::Map;
    use kflow::model::Body;
    use kflow::timeline::Outcome;
    use std::collections::{BTreeMap, BTreeSet};
    let only = std::env::var("S").unwrap_or_default();
    let map = Map::embedded();
    for name in super::correlate::SESSIONS {
        if !only.is_empty() && name != only {
            continue;
        }
        let observations = session(name);
        let mut told: BTreeMap<String, (u32, String)> = BTreeMap::new();
        let mut before: BTreeMap<String, kflow::correlate::Pod> = BTreeMap::new();
        let mut first = None;
        sample(&observations, |w, v, now| {
            let zero = *first.get_or_insert(now);
            let mut say = |kind: String, text: String| {
                let e = told
                    .entry(kind)
                    .or_insert((0, format!("{}s {text}", now.since(zero) / 1_000_000_000)));
                e.0 += 1;
            };
            for p in w.pods() {
                let changed = before
                    .insert(p.uid.to_string(), p.clone())
                    .is_none_or(|o| !std::sync::Arc::ptr_eq(&o, p));
                let k = p.key();
                let f = Facts::gather(p, now);
                let v = v.0.get(&p.uid);
                for c in &p.containers {
                    let runs = f.known(&c.name).is_some_and(|x| x.runs());
                    let span = p
                        .timeline
                        .spans
                        .iter()
                        .any(|s| s.is_run() && s.container == c.name && s.end.is_none());
                    let view = c.state == "running";
                    let gone = if p.gone.is_some() { "gone" } else { "" };
                    if runs != span {
                        say(
                            format!("runs:facts={runs} span={span} {gone} {k}/{}", c.name),
                            format!("{:?}", c),
                        );
                    }
                    if view != span {
                        say(
                            format!("runs:view={} span={span} {gone} {k}/{}", c.state, c.name),
                            format!("{:?}", c),
                        );
                    }
                }
                // calls
                let node: BTreeSet<_> = w
                    .calls()
                    .in_flight()
                    .filter(|c| c.pod_uid == p.uid)
                    .map(|c| (c.key, c.method.to_string()))
                    .collect();
                let tl: BTreeSet<_> = p
                    .timeline
                    .spans
                    .iter()
                    .filter(|s| s.end.is_none())
                    .filter_map(|s| Some((s.call?, s.step.to_string())))
                    .collect();
                let fa: BTreeSet<_> = f
                    .open
                    .iter()
                    .map(|c| (c.start.key, c.start.method.to_string()))
                    .collect();
                if node != fa {
                    say(
                        format!(
                            "calls node≠facts {k} {:?} {:?}",
                            node.difference(&fa).map(|x| &x.1).collect::<Vec<_>>(),
                            fa.difference(&node).map(|x| &x.1).collect::<Vec<_>>()
                        ),
                        String::new(),
                    );
                }
                let tlk: BTreeSet<_> = tl.iter().map(|x| x.0).collect();
                let nk: BTreeSet<_> = node.iter().map(|x| x.0).collect();
                for x in node.iter().filter(|x| !tlk.contains(&x.0)) {
                    say(
                        format!("call in flight not in timeline {} {k}", x.1),
                        String::new(),
                    );
                }
                for x in tl.iter().filter(|x| !nk.contains(&x.0)) {
                    say(
                        format!("timeline open call not in node {} {k}", x.1),
                        String::new(),
                    );
                }
                if changed {
                    for l in kflow::correlate::steps::steps(map, p, now) {
                        let step = map.get(l.step).unwrap();
                        let spans: Vec<_> = p
                            .timeline
                            .spans
                            .iter()
                            .filter(|s| s.step == step.function.as_str())
                            .collect();
                        for r in l.runs.iter().filter(|r| r.how == RunEnd::InFlight) {
                            if let (true, Body::CallStart(c)) = (
                                !spans.iter().any(|s| s.call.is_none() && s.end.is_none()),
                                &r.begin.body,
                            ) {
                                if !nk.contains(&c.key) {
                                    say(
                                        format!(
                                            "lit call in flight not in node {} {k}",
                                            step.function
                                        ),
                                        String::new(),
                                    );
                                }
                                continue;
                            }
                            let open = spans.iter().any(|s| s.end.is_none());
                            let near = spans
                                .iter()
                                .find(|s| s.start.at.since(r.start).abs() < 50_000_000);
                            if !open {
                                say(
                                    format!(
                                        "lit inflight, timeline {} {} {k}",
                                        near.map_or("none".into(), |s| format!("{:?}", s.outcome)),
                                        step.function
                                    ),
                                    format!("spans={} run {:?}", spans.len(), r.begin.body),
                                );
                            }
                        }
                        for _ in spans.iter().filter(|s| s.outcome == Outcome::InFlight) {
                            if !l.runs.iter().any(|r| r.how == RunEnd::InFlight) {
                                say(
                                    format!(
                                        "timeline inflight, lit {:?} {} {k}",
                                        l.runs.last().map(|r| r.how),
                                        step.function
                                    ),
                                    String::new(),
                                );
                            }
                        }
                        if !spans.is_empty() && l.count as usize != spans.len() {
                            say(
                                format!(
                                    "count lit={} timeline={} {}",
                                    if l.count as usize > spans.len() {
                                        "more"
                                    } else {
                                        "less"
                                    },
                                    step.function,
                                    if l.runs.is_empty() { "noruns" } else { "" }
                                ),
                                format!(
                                    "{k} lit {} runs {} spans {} evidence {:?}",
                                    l.count,
                                    l.runs.len(),
                                    spans.len(),
                                    l.evidence.iter().map(|e| e.0).collect::<Vec<_>>()
                                ),
                            );
                        } else if !spans.is_empty()
                            && !l.runs.is_empty()
                            && l.runs.len() != spans.len()
                        {
                            say(
                                format!("runs lit≠timeline {}", step.function),
                                format!(
                                    "{k} lit {} runs {} spans {} evidence {:?}",
                                    l.count,
                                    l.runs.len(),
                                    spans.len(),
                                    l.evidence.iter().map(|e| e.0).collect::<Vec<_>>()
                                ),
                            );
                        } else if !spans.is_empty() && !l.runs.is_empty() {
                            for (r, s) in l.runs.iter().zip(&spans) {
                                let (a, b) = (r.duration(now), s.duration(now));
                                if a.is_some_and(|a| (a - b).abs() > 20_000_000 + b / 10) {
                                    say(
                                        format!("length lit≠timeline {}", step.function),
                                        format!("{k} lit {a:?} span {b}"),
                                    );
                                }
                            }
                        }
                    }
                }
                if let Some(v) = v.filter(|v| !v.state.is_well()) {
                    if p.ready.0 > 0 && p.current.is_none() && p.gone.is_none() {
                        say(
                            format!("ready but {:?} {} {k}", v.state, v.cause),
                            v.sentence.clone(),
                        );
                    }
                    if let Some((stage, since)) = p.current {
                        if stage != v.stage {
                            say(
                                format!(
                                    "stage verdict={} view={stage} {} {k} [{}]",
                                    v.stage, v.cause, p.status
                                ),
                                v.sentence.clone(),
                            );
                        } else if since.since(v.since).abs() > 500_000_000 {
                            say(
                                format!("since {} {stage} {k}", v.cause),
                                format!(
                                    "verdict {} view {}",
                                    now.since(v.since) as f64 / 1e9,
                                    now.since(since) as f64 / 1e9
                                ),
                            );
                        }
                    }
                    if let Some(c) = &v.in_flight {
                        if !w
                            .calls()
                            .in_flight()
                            .any(|x| x.method == c.method && x.start == c.since)
                        {
                            say(
                                format!("verdict in flight not in node {} {k}", c.method),
                                String::new(),
                            );
                        }
                    }
                    let n = match v.stage.name() {
                        "image" => p
                            .timeline
                            .spans
                            .iter()
                            .filter(|s| {
                                s.step == "PullImage"
                                    && s.container == v.container
                                    && s.outcome == Outcome::Error
                            })
                            .count()
                            .max(
                                p.timeline
                                    .spans
                                    .iter()
                                    .filter(|s| {
                                        s.step == "EnsureImageExists"
                                            && s.container == v.container
                                            && s.outcome == Outcome::Error
                                    })
                                    .count(),
                            ),
                        "sandbox" => p
                            .timeline
                            .spans
                            .iter()
                            .filter(|s| s.step == "RunPodSandbox")
                            .count(),
                        "start" | "ready" => p
                            .timeline
                            .spans
                            .iter()
                            .filter(|s| {
                                s.container == v.container
                                    && (s.is_run() && s.end.is_some()
                                        || s.step == "StartContainer"
                                            && s.outcome == Outcome::Error)
                            })
                            .map(|s| s.attempt)
                            .collect::<BTreeSet<_>>()
                            .len(),
                        _ => v.attempt as usize,
                    };
                    if v.attempt > 0 && n != v.attempt as usize {
                        say(
                            format!("attempt {} {}", v.cause, k),
                            format!("verdict {} timeline {n}", v.attempt),
                        );
                    }
                    // last error
                    let last = p
                        .timeline
                        .spans
                        .iter()
                        .filter(|s| {
                            s.stage == v.stage
                                && !s.is_stage()
                                && matches!(s.outcome, Outcome::Error)
                        })
                        .max_by_key(|s| s.end);
                    if let Some(s) = last {
                        let newest = v.evidence.iter().map(|e| e.at).max();
                        if newest.is_none_or(|t| s.end.unwrap().at.since(t) > 1_500_000_000) {
                            say(
                                format!("last error {} {}", v.cause, k),
                                format!("timeline {} {} {}", s.step, s.end.unwrap().at, s.message),
                            );
                        }
                    }
                } else if let Some((stage, _)) = p.current
                    && p.deletion_requested.is_none()
                {
                    let bad = p
                        .timeline
                        .stage(stage)
                        .is_some_and(|s| matches!(s.outcome, Outcome::Error));
                    if bad {
                        say(
                            format!("no verdict, view {stage} failing {k} [{}]", p.status),
                            String::new(),
                        );
                    }
                }
            }
        });
        println!("== {name}");
        for (k, (n, t)) in told {
            println!("{n:4} {k}   | {}", t.chars().take(200).collect::<String>());
        }
    }
}

#[test]
#[ignore = "prints"]
fn print_pod() {
    let (file, key, at) = (
        std::env::var("F").unwrap(),
        std::env::var("P").unwrap(),
        std::env::var("AT").unwrap().parse::<i64>().unwrap(),
    );
    let s = kflow::session::load(std::path::Path::new(&file)).unwrap();
    let mut w = World::new();
    for o in s.observations.iter().filter(|o| o.stamp.seen.0 <= at) {
        w.observe(o);
    }
    w.settle();
    for p in w.find(&key) {
        let f = kflow::diagnose::facts::Facts::gather(p, Nanos(at));
        println!("{} {} {:?}", p.key(), p.status, p.current);
        for c in &f.containers {
            println!(
                "  facts {} runs={} started={:?} run={:?} ran={:?} restarts={} exits={:?} status={:?}",
                c.name,
                c.runs(),
                c.started,
                c.run,
                c.ran,
                c.restarts,
                c.exits
                    .iter()
                    .map(|e| (e.at, e.code, e.id.to_string()))
                    .collect::<Vec<_>>(),
                c.status
            );
        }
        for s in p.timeline.spans.iter() {
            println!(
                "  span {} {} {} #{} {} .. {:?} {:?} {}",
                s.stage,
                s.step,
                s.container,
                s.attempt,
                s.start.at,
                s.end.map(|e| e.at),
                s.outcome,
                s.message.chars().take(60).collect::<String>()
            );
        }
        println!(
            "  {:?}",
            kflow::diagnose::why(&w, p, Nanos(at)).map(|v| (
                v.state,
                v.cause.clone(),
                v.sentence.clone(),
                v.recurrence
            ))
        );
        for t in &f.turns {
            println!("  turn {t:?}");
        }
    }
}
