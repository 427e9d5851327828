//! Every cause of the catalogue on its scenario: with all sources, with the API alone, and with the
//! node's own sources alone.

use super::{Sources, is_general, scenario, silence};
use crate::in_repository;
use kflow_core::correlate::World;
use kflow_core::diagnose::{self, Catalogue, State, Verdict};
use kflow_core::flow::Stage;
use kflow_model::pod::PodSeen;
use kflow_model::stamp::{MILLI, SECOND};
use kflow_model::{Body, Observation, Source, Stamp};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::process::Command;

/// The scenario of each cause, and those of `fixtures/causes/cited`, whose texts are cited from sources of components.
pub(super) fn scenarios() -> Vec<scenario::Scenario> {
    let folder = in_repository("fixtures/causes");
    let of_causes = Catalogue::get().iter().map(|c| format!("{}.json", c.id));
    let cited = std::fs::read_dir(folder.join("cited")).expect("fixtures/causes/cited");
    let mut cited: Vec<String> = cited
        .filter_map(|f| Some(format!("cited/{}", f.ok()?.file_name().to_str()?)))
        .collect();
    cited.sort();
    of_causes
        .chain(cited)
        .map(|f| scenario::Scenario::load(&folder.join(f)))
        .collect()
}

pub(super) fn told(s: &scenario::Scenario, sources: Sources) -> Option<Verdict> {
    let mut world = World::new();
    for o in s.observations().iter().filter(|o| sources.has(o.source)) {
        world.observe(o);
    }
    world.refresh();
    let target = diagnose::find(&world, &s.target).into_iter().next()?;
    target.verdict(&world, s.now())
}

/// The apiserver's node authorizer refuses a kubelet also while it has not heard of the pod's binding.
#[test]
fn a_refusal_that_may_pass_is_slow_at_first() {
    let path = in_repository("fixtures/causes/KF413.json");
    let s = scenario::Scenario::load(&path);
    let mut world = World::new();
    for o in &s.observations() {
        world.observe(o);
    }
    world.refresh();
    let target = diagnose::find(&world, &s.target);
    let state = |at| {
        let v = target.first().and_then(|t| t.verdict(&world, at));
        v.map(|v| (v.cause_id().to_string(), v.state))
    };
    // The refusal came 55 s before.
    let early = s.now().plus(-52 * SECOND);
    assert_eq!(state(early), Some(("KF413".to_owned(), State::Slow)));
    assert_eq!(state(s.now()), Some(("KF413".to_owned(), State::Stuck)));
}

/// One look suffices: the owner says when it was created.
#[test]
fn an_owner_that_nothing_touches_waits_since_it_was_created() {
    let path = in_repository("fixtures/causes/KF110.json");
    let s = scenario::Scenario::load(&path);
    let waits = |created_before: i64| {
        let mut listed = (**s.observations().first().expect("the owner")).clone();
        listed.stamp = Stamp::exact(s.now().plus(-MILLI));
        if let Body::Object(o) = &mut listed.body {
            o.created = s.now().plus(-created_before);
        }
        let mut world = World::new();
        world.observe(&listed.into());
        world.refresh();
        let target = diagnose::find(&world, &s.target);
        let v = target.first().and_then(|t| t.verdict(&world, s.now()));
        v.map(|v| (v.cause_id().to_string(), s.now().since(v.since)))
    };
    assert_eq!(waits(75 * SECOND), Some(("KF110".into(), 75 * SECOND)));
    assert_eq!(waits(5 * SECOND), None);
}

/// Pods that were there before do not show that a controller reacts to a change. The objects are invented, as those of
/// fixtures/causes/KF110.json.
#[test]
fn an_owner_with_pods_waits_since_a_change_that_nothing_takes_up() {
    let path = in_repository("fixtures/causes/KF110.json");
    let s = scenario::Scenario::load(&path);
    let told = |made_before: i64, observed: u64| {
        let at = s.now().plus(-20 * SECOND);
        let mut changed = (**s.observations().first().expect("the owner")).clone();
        changed.stamp = Stamp::exact(at);
        let Body::Object(o) = &mut changed.body else {
            return None;
        };
        o.created = s.now().plus(-3600 * SECOND);
        (o.generation, o.observed_generation) = (4, observed);
        let owner = o.object.clone();
        let pod = PodSeen {
            uid: "p1".into(),
            namespace: "ns".into(),
            name: "web-1".into(),
            created: at.plus(-made_before),
            owner: Some(owner),
            ..PodSeen::default()
        };
        let pod = Observation {
            stamp: Stamp::exact(at.plus(-SECOND)),
            source: Source::Kube,
            body: Body::Pod(Box::new(pod)),
        };
        let mut world = World::new();
        world.observe(&pod.into());
        world.observe(&changed.into());
        world.refresh();
        let target = diagnose::find(&world, &s.target);
        let v = target.first().and_then(|t| t.verdict(&world, s.now()))?;
        Some((v.cause_id().to_string(), v.sentence))
    };
    let (cause, sentence) = told(600 * SECOND, 3).expect("a verdict");
    assert_eq!(cause, "KF110", "{sentence}");
    let why = "its generation 4 was not taken up (its status is of generation 3)";
    assert!(sentence.contains(why), "{sentence}");
    assert_eq!(told(600 * SECOND, 4), None);
    assert_eq!(told(-5 * SECOND, 3), None);
}

/// A kubelet that was started anew reads objects anew, of pods that run for long.
#[test]
fn what_fails_after_a_start_did_not_fail_since_the_pod_came() {
    let path = in_repository("fixtures/causes/KF404.json");
    let s = scenario::Scenario::load(&path);
    let since = |start: Option<i64>| {
        let mut world = World::new();
        let all = s.observations();
        for o in &all {
            world.observe(o);
        }
        let failed = all.last().expect("the Event").stamp.at;
        if let Some(before) = start {
            let mut started = (**all.last().expect("the Event")).clone();
            started.stamp = Stamp::exact(failed.plus(-before));
            if let Body::Event(e) = &mut started.body {
                e.reason = "Started".into();
                e.message = "Started container c".into();
                e.container = "c".into();
                e.name = "started".into();
                (e.warning, e.first) = (false, None);
            }
            world.observe(&started.into());
        }
        world.refresh();
        let target = diagnose::find(&world, &s.target);
        let v = target.first().and_then(|t| t.verdict(&world, s.now()));
        let v = v.expect("a verdict");
        assert_eq!(v.cause_id(), "KF404", "{}", v.sentence);
        failed.since(v.since)
    };
    assert!(since(None) > SECOND);
    assert_eq!(since(Some(3 * SECOND)), 0);
}

/// A list has the last of the failures that an Event counts.
#[test]
fn a_row_of_failures_is_as_old_as_the_first_that_an_event_counts() {
    let path = in_repository("fixtures/causes/KF404.json");
    let s = scenario::Scenario::load(&path);
    let all = s.observations();
    let (last, before) = all.split_last().expect("the Event");
    let failed = last.stamp.at;
    let with = |change: &dyn Fn(&mut kflow_model::event::EventSeen), after: i64| {
        let mut o = (**last).clone();
        o.stamp = Stamp::exact(failed.plus(after * SECOND));
        if let Body::Event(e) = &mut o.body {
            change(e);
        }
        o
    };
    // The container has run, and fails when it is started again.
    let started = with(
        &|e| {
            e.reason = "Started".into();
            e.message = "Started container c".into();
            e.container = "c".into();
            e.name = "started".into();
            (e.warning, e.first) = (false, None);
        },
        10,
    );
    let since = |first: i64, count: u32| {
        let counted = with(
            &|e| (e.count, e.first) = (count, Some(failed.plus(first * SECOND))),
            3600,
        );
        let mut world = World::new();
        for o in before {
            world.observe(o);
        }
        world.observe(&started.clone().into());
        world.observe(&counted.into());
        world.refresh();
        let target = diagnose::find(&world, &s.target);
        let now = s.now().plus(3600 * SECOND);
        let v = target.first().and_then(|t| t.verdict(&world, now));
        let v = v.expect("a verdict");
        assert_eq!(v.cause_id(), "KF404", "{}", v.sentence);
        v.since.since(failed) / SECOND
    };
    assert_eq!(since(600, 30), 600);
    assert_eq!(since(3600, 1), 3600);
    // It counts on after the container has run.
    assert_eq!(since(0, 30), 3600);
}

#[test]
fn every_cause_has_a_scenario_and_every_scenario_a_cause() {
    let mut files: Vec<String> = std::fs::read_dir(in_repository("fixtures/causes"))
        .expect("fixtures/causes")
        .filter_map(|f| {
            Some(
                f.ok()?
                    .file_name()
                    .to_str()?
                    .strip_suffix(".json")?
                    .to_owned(),
            )
        })
        .collect();
    files.sort();
    let ids: Vec<&str> = Catalogue::get().iter().map(|c| c.id.as_str()).collect();
    assert_eq!(files, ids);
    for s in scenarios() {
        assert!(
            !s.names.is_empty() && !s.synthetic.is_empty(),
            "{}",
            s.cause
        );
        assert!(
            says_its_source(&s.synthetic),
            "{}: its texts come from no place of a component's source: {}",
            s.name,
            s.synthetic
        );
    }
}

/// True when a scenario cites `REPOSITORY, path/file.go, function`, or says that it is invented.
fn says_its_source(synthetic: &str) -> bool {
    let cites = [".go, ", ".c, "].iter().any(|ending| {
        synthetic
            .split_once(ending)
            .is_some_and(|(file, function)| file.contains('/') && !function.is_empty())
    });
    !synthetic.contains("catalogue") && (synthetic.starts_with("invented: ") || cites)
}

#[test]
fn every_cause_is_told_of_its_scenario() {
    let mut wrong = Vec::new();
    for s in scenarios() {
        let cause = Catalogue::get()
            .find(&s.cause)
            .expect("named after its cause");
        let stage = s.stage.as_deref().unwrap_or(cause.stage.name());
        let Some(v) = told(&s, Sources::All) else {
            wrong.push(format!("{}: nothing told", s.name));
            continue;
        };
        let mut text = v.sentence.clone();
        for p in &v.evidence {
            text.push_str(&p.to_string());
        }
        let state = serde_json::to_value(v.state).expect("a word");
        let missing: Vec<&String> = s
            .names
            .iter()
            .filter(|n| !text.to_lowercase().contains(&n.to_lowercase()))
            .collect();
        if v.cause_id() != s.cause
            || v.stage.name() != stage
            || !missing.is_empty()
            || s.state.as_ref().is_some_and(|w| state != w.as_str())
        {
            wrong.push(format!(
                "{}: {} {stage} {:?}: got {} {} {state}, names missing {missing:?}: {}",
                s.name,
                s.cause,
                s.state,
                v.cause_id(),
                v.stage,
                v.sentence
            ));
        }
        let next: Vec<String> = v
            .next
            .iter()
            .map(|n| format!("{}: {}", n.text, n.command))
            .collect();
        let untold = |step: &&String| !next.iter().any(|n| n.contains(step.as_str()));
        let untold: Vec<&String> = s.steps.iter().filter(untold).collect();
        if !untold.is_empty() {
            wrong.push(format!("{}: steps missing {untold:?}: {next:?}", s.name));
        }
        if [" ?", "  ", "..", "{", "rpc error: ", "desc = "]
            .iter()
            .any(|h| v.sentence.contains(h))
        {
            wrong.push(format!(
                "{}: a hole in the sentence: {}",
                s.name, v.sentence
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// What Events, the API, the tap and the kubelet's log show of a pod that was admitted and runs.
fn life() -> [Vec<Value>; 4] {
    let event = |t: f64, reason: &str, message: &str| json!({"t": t, "event": {"reason": reason, "message": message, "by": "kubelet", "c": "c", "w": false}});
    [
        vec![
            event(
                0.15,
                "Pulled",
                "Container image \"reg.example/team/app:1\" already present on machine",
            ),
            event(0.2, "Created", "Created container c"),
            event(0.25, "Started", "Started container c"),
        ],
        vec![
            json!({"t": 0.27, "pod": {"st": {"ph": "Running", "t0": 0, "cond": [{"k": "PodReadyToStartContainers", "s": "True", "t": 0}, {"k": "Ready", "s": "True", "t": 0}],
            "css": [{"n": "c", "img": "reg.example/team/app:1", "id": "9a9a00", "rc": 0, "ok": true, "sd": true, "st": {"running": {"t": 0}}}]}}}),
        ],
        vec![
            json!({"t": 0.12, "call": {"id": 7, "method": "RunPodSandbox"}}),
            json!({"t": 0.14, "end": {"id": 7, "code": 0}}),
        ],
        vec![
            json!({"t": 0.11, "log": {"m": "SyncLoop ADD", "l": "info", "kv": {"source": "api"}}}),
        ],
    ]
}

/// The scenario's pod was admitted and ran before the kubelet refused it: it admits its pods again when it or its node
/// starts anew. `parts` are the sources that saw it run; `ended`: the exit code that its last state shows of the
/// container. A list shows only the last state of the pod, of which the newest time may be older than its Events.
fn refused_after_it_ran(
    mut s: scenario::Scenario,
    parts: u8,
    later: f64,
    ended: Option<i32>,
    listed: bool,
) -> scenario::Scenario {
    let t = |step: &Value| step["t"].as_f64().unwrap_or_default();
    let refused = |step: &Value| {
        step.pointer("/pod/st/ph") == Some(&json!("Failed"))
            || step.pointer("/event/w") == Some(&Value::Null)
    };
    let from = s
        .see
        .iter()
        .find(|x| refused(x) && x.get("event").is_some())
        .or_else(|| s.see.iter().find(|x| refused(x)))
        .map_or(0.3, t);
    for step in &mut s.see {
        if let Some(code) = ended
            && step.pointer("/pod/st/ph") == Some(&json!("Failed"))
        {
            let reason = if code == 0 {
                "Completed"
            } else {
                "ContainerStatusUnknown"
            };
            step["pod"]["st"]["css"] = json!([{"n": "c", "img": "reg.example/team/app:1", "id": "9a9a00", "rc": 0, "ok": false, "sd": false,
                "st": {"terminated": {"xc": code, "r": reason, "t0": 0.25, "t1": from, "id": "9a9a00"}}}]);
        }
        if t(step) >= from {
            step["t"] = json!(t(step) + later);
        }
    }
    for (n, steps) in life().into_iter().enumerate() {
        if parts & (1 << n) != 0 && !(listed && n == 1) {
            s.see.extend(steps);
        }
    }
    s.see.sort_by(|a, b| t(a).total_cmp(&t(b)));
    if listed {
        let mut pods = s.see.iter().filter(|x| x.get("pod").is_some());
        let (mut first, last) = (
            pods.next().cloned().unwrap_or_default(),
            pods.next_back().cloned().unwrap_or_default(),
        );
        first["pod"]["st"] = last["pod"]["st"].clone();
        s.see.retain(|x| x.get("pod").is_none());
        s.see.insert(0, first);
    }
    s
}

/// The scenarios in which the kubelet does not admit the pod, and it stays Failed.
fn refused() -> Vec<scenario::Scenario> {
    let catalogue = Catalogue::get();
    let mut all = scenarios();
    all.retain(|s| {
        catalogue.find(&s.cause).is_some_and(|c| {
            c.stage == Stage::Admit && c.state == State::Failed && c.id != diagnose::cause::KF317
        })
    });
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_pod_that_is_refused_after_it_ran_is_told_why(parts in 1_u8..16, later in 1.0..100_000.0, ended in prop_oneof![Just(None), Just(Some(0)), Just(Some(137))], listed: bool) {
        // KF308 is refused like the others, but a pod that ran before is told as evicted: it was ended.
        let fine = |s: &scenario::Scenario, id: &str| id == s.cause || s.cause == "KF308" && id == "KF911";
        for s in refused() {
            let s = refused_after_it_ran(s, parts, later, ended, listed);
            for sources in [Sources::All, Sources::Api] {
                let mut world = World::new();
                for o in s.observations().iter().filter(|o| sources.has(o.source)) {
                    world.observe(o);
                }
                world.refresh();
                let target = diagnose::find(&world, &s.target).into_iter().next();
                let now = s.now().plus((later * 1e9) as i64);
                let v = target.and_then(|t| t.verdict(&world, now));
                let told = v.as_ref().map_or("nothing", Verdict::cause_id);
                prop_assert!(fine(&s, told), "{} {sources:?}: {told}", s.name);
            }
        }
    }
}

/// A command with a placeholder such as `<CLAIM>` cannot be run. Names that texts give are checked with each pattern of
/// the catalogue, in its own tests; this is of those that code sets.
#[test]
fn no_next_step_has_an_empty_place() {
    let mut wrong = Vec::new();
    for s in scenarios() {
        let Some(v) = told(&s, Sources::All) else {
            continue;
        };
        for v in std::iter::once(&v).chain(&v.also) {
            for step in &v.next {
                let place = step.command.split('<').skip(1).find_map(|rest| {
                    let (name, _) = rest.split_once('>')?;
                    let is_name = |c: char| c.is_ascii_uppercase() || c == '_';
                    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
                });
                if let Some(place) = place {
                    wrong.push(format!(
                        "{} {}: <{place}>: {}",
                        s.name,
                        v.cause_id(),
                        step.command
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A command of the catalogue with a value for each of its names.
fn filled(command: &str) -> String {
    let mut parts = command.split('{');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
        match part.split_once('}') {
            Some((name, rest)) if !name.is_empty() && name.chars().all(is_name) => {
                out.push('x');
                out.push_str(rest);
            }
            _ => {
                out.push('{');
                out.push_str(part);
            }
        }
    }
    out
}

/// A word in capitals stands for what the user has to find out, and words in brackets are no shell.
#[test]
fn every_command_of_the_catalogue_can_be_run_as_it_is() {
    let bash = |args: &[&str]| Command::new("bash").args(args).output();
    let has_bash = bash(&["--version"]).is_ok_and(|o| o.status.success());
    let mut wrong = Vec::new();
    for cause in Catalogue::get().iter() {
        for (_, command) in cause.all_steps() {
            let command = filled(command);
            let is_place =
                |w: &&str| w.len() > 1 && w.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
            let mut words = command.split([' ', ';', '<', '>', '/', '=']);
            if let Some(place) = words.find(is_place) {
                wrong.push(format!("{}: {place}: {command}", cause.id));
            }
            if !has_bash {
                continue;
            }
            let checked = bash(&["-n", "-c", &command]).expect("bash");
            if !checked.status.success() || !checked.stderr.is_empty() {
                let said = String::from_utf8_lossy(&checked.stderr);
                wrong.push(format!("{}: {command}: {said}", cause.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn stage_of(cause: &str) -> Option<&'static str> {
    Some(Catalogue::get().find(cause)?.stage.name())
}

#[test]
fn part_of_the_sources_never_tell_another_cause() {
    let mut wrong = Vec::new();
    for s in scenarios() {
        for sources in [Sources::Api, Sources::Node] {
            let v = told(&s, sources);
            // A source alone is silent exactly where `UNTOLD` lists a reason.
            let heard = s.observations().iter().any(|o| sources.has(o.source));
            let silent = v.as_ref().is_none_or(|v| v.cause.is_none());
            if heard && silent != silence::is_untold(&s.name, sources) {
                wrong.push(format!(
                    "{} {sources:?}: {}",
                    s.name,
                    if silent {
                        "silent"
                    } else {
                        "is told, and UNTOLD lists it"
                    }
                ));
            }
            let Some(v) = v else { continue };
            if v.cause.is_some()
                && v.cause_id() != s.cause
                && !s.also_fine.iter().any(|c| *c == v.cause_id())
                && !is_general(&v, s.stage.as_deref().or_else(|| stage_of(&s.cause)))
            {
                wrong.push(format!(
                    "{} {sources:?}: {} {}",
                    s.name,
                    v.cause_id(),
                    v.sentence
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A log of a runtime has ids only, a log of the kubelet no node's name: what no source names is told without a name.
#[test]
fn a_sentence_has_no_hole_whatever_source_is_alone() {
    let mut wrong = Vec::new();
    for s in scenarios() {
        let alone = Source::ALL.map(Sources::Only);
        for sources in alone.into_iter().chain(Sources::EACH) {
            let Some(v) = told(&s, sources) else { continue };
            for v in std::iter::once(&v).chain(&v.also) {
                let hole = |word: &str| word.trim_matches(|c| ",.:;()".contains(c)) == "?";
                if v.sentence.split_whitespace().any(hole) {
                    wrong.push(format!("{} {sources:?}: {}", s.name, v.sentence));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The line of containerd that says that a container was made has its name; later ones have its id.
#[test]
fn the_runtimes_own_log_names_the_container_that_cannot_be_started() {
    let all = crate::correlate::session("S3-crashes");
    let mut world = World::new();
    for o in all.iter().filter(|o| o.source == Source::Runtime) {
        world.observe(o);
    }
    world.refresh();
    let pod = world.find("s31/starterror");
    let now = all.last().expect("a recording").stamp.seen;
    let v = diagnose::why(&world, pod.first().expect("its log names it"), now);
    let v = v.expect("it is stuck");
    assert!(
        v.sentence
            .starts_with("Container c cannot be started: command /no/such"),
        "{}",
        v.sentence
    );
    assert!(!v.at_least, "the log shows how its sandbox is made");
}

/// Every text of the scenarios, and of Events and logs as components write them: an error of several lines says what
/// it says on one. Texts are broken at every blank, with an empty line, as mount(8), fsck and CSI drivers do.
#[test]
fn a_text_of_several_lines_shows_what_it_shows_on_one() {
    let all = Catalogue::get();
    let reasons: std::collections::BTreeSet<&str> =
        all.iter().flat_map(|c| &c.on).map(String::as_str).collect();
    let mut texts = std::collections::BTreeSet::new();
    for s in scenarios() {
        for o in s.observations() {
            match &o.body {
                Body::Event(e) => texts.insert(e.message.to_string()),
                Body::Log(l) => texts.insert(l.error.to_string()),
                Body::CallEnd(e) => texts.insert(e.message.to_string()),
                _ => false,
            };
        }
    }
    let mut hit = 0;
    for text in &texts {
        let broken = text.replace(' ', " \n\n");
        for reason in &reasons {
            let told = |text| {
                let (cause, names) = all.best(reason, text, |_| true)?;
                // Some texts have two blanks in a row.
                let names = names
                    .iter()
                    .map(|(k, v)| format!("{k}={}", crate::one_line(v)));
                Some((cause.id, names.collect::<Vec<_>>()))
            };
            let whole = told(text);
            hit += usize::from(whole.is_some());
            assert_eq!(told(&broken), whole, "{reason}: {text}");
        }
    }
    assert!(hit > texts.len(), "{hit} of {}", texts.len());
}
