//! Pods that recover, crash-loop and flap, as the API shows them. The states are synthetic: no recording has a pod that
//! recovers after a crash loop, or whose readiness comes and goes.

use crate::churn;
use kflow_core::correlate::World;
use kflow_core::diagnose::{self, Diagnoser, State, Verdict};
use kflow_model::pod::{Condition, ContainerState, PodSeen, ProbeSpec, Terminated};
use kflow_model::{Body, ContainerId, Nanos, Source, stamp::SECOND};

fn at(s: i64) -> Nanos {
    churn::BEGIN.plus(s * SECOND)
}

/// The state of the pod's one container.
enum Is {
    Ready,
    NotReady,
    Exited,
}

/// Returns the pod `s` seconds after the beginning, after so many restarts.
fn pod(s: i64, is: &Is, restarts: u32, since: i64) -> PodSeen {
    let mut p = churn::pod(0, "web", true);
    p.resource_version = s as u64 + 1;
    p.spec.restart_policy = "Always".into();
    p.status.start_time = Some(at(0));
    let ready = matches!(is, Is::Ready);
    if let Some(c) = p.spec.containers.first_mut() {
        c.probes.push(ProbeSpec {
            kind: "readiness".into(),
            handler: "httpGet :8080/ready".into(),
            period_s: 5,
            failure_threshold: 1,
            ..ProbeSpec::default()
        });
    }
    p.status.conditions.push(Condition {
        kind: "Ready".into(),
        status: if ready { "True" } else { "False" }.into(),
        transition: Some(at(s)),
        ..Condition::default()
    });
    let id = |n: u32| ContainerId::from(format!("{:064x}", 1000 + n));
    let exit = |n: u32, finished: i64| Terminated {
        exit_code: Some(1),
        reason: "Error".into(),
        finished: Some(at(finished)),
        id: id(n),
        ..Terminated::default()
    };
    if let Some(c) = p.status.containers.first_mut() {
        c.restarts = restarts;
        c.ready = ready;
        c.id = id(restarts);
        c.state = if matches!(is, Is::Exited) {
            ContainerState::Terminated(exit(restarts, s))
        } else {
            ContainerState::Running {
                started: Some(at(since)),
            }
        };
        c.last = restarts.checked_sub(1).map(|n| exit(n, since - 1));
    }
    p
}

/// Returns the verdict as of `now`, and the state that the diagnosis of all pods reports for this one.
fn said(states: &[PodSeen], times: &[i64], now: i64) -> (Verdict, Option<State>) {
    let mut w = World::new();
    for (p, s) in states.iter().zip(times).filter(|(_, s)| **s <= now) {
        let body = Body::Pod(Box::new(p.clone()));
        w.observe(&churn::observation(s * 1000, Source::Kube, body));
    }
    w.refresh();
    let p = w.pods().first().expect("one pod");
    let all = Diagnoser::new().update(&w, at(now)).0;
    let v = diagnose::why(&w, p, at(now)).expect("something is said");
    (v, all.get(&p.uid).map(|v| v.state))
}

#[test]
fn a_container_that_ended_twice_crash_loops_until_it_has_run_long_enough() {
    let story = [
        (0, Is::Ready, 0, 0),
        (4, Is::Exited, 0, 0),
        (5, Is::Ready, 1, 5),
        (9, Is::Exited, 1, 5),
        (20, Is::Ready, 2, 20),
    ];
    let times: Vec<i64> = story.iter().map(|s| s.0).collect();
    let states: Vec<PodSeen> = story.iter().map(|s| pod(s.0, &s.1, s.2, s.3)).collect();
    let told = |now| said(&states, &times, now);

    let (v, all) = told(12);
    assert_eq!((v.state, all), (State::BackingOff, Some(State::BackingOff)));
    let (v, all) = told(32);
    assert_eq!(
        (v.state, all),
        (State::CrashLooping, Some(State::CrashLooping))
    );
    assert!(
        v.sentence.contains("running again for 12s"),
        "{}",
        v.sentence
    );
    let r = v.recurrence.expect("it happened twice");
    assert_eq!((r.times, r.up), (2, Some(at(20))));
    let text = kflow_export::why::text(&v, at(32));
    assert!(
        text.contains("crash-looping in start, now running for 12s"),
        "{text}"
    );
    assert!(!text.contains("stuck"), "{text}");

    let (v, all) = told(140);
    assert_eq!((v.state, all), (State::Recovered, Some(State::Recovered)));
    assert_eq!(v.since, at(20));
    assert!(
        v.sentence.contains("well for 2m00s") && v.sentence.contains("ended twice"),
        "{}",
        v.sentence
    );
    // The list drops the recovery when the kubelet forgets the crashes.
    let (v, all) = told(2000);
    assert_eq!((v.state, all), (State::Recovered, None));
}

/// Returns alternating states, ready first, each `seconds` long: their times, in s, and the pod in each.
fn turns(seconds: i64, count: i64) -> (Vec<i64>, Vec<PodSeen>) {
    (0..count)
        .map(|n| {
            let is = if n % 2 == 0 { Is::Ready } else { Is::NotReady };
            (n * seconds, pod(n * seconds, &is, 0, 0))
        })
        .unzip()
}

#[test]
fn readiness_that_comes_and_goes_is_flapping_in_both_phases_and_ends() {
    // Twenty seconds ready, twenty not, three times; then ready for good.
    let (times, states) = turns(20, 7);
    let told = |now| said(&states, &times, now);
    for (now, ready) in [(70, false), (90, true), (110, false), (125, true)] {
        let (v, all) = told(now);
        assert_eq!(
            (v.state, all),
            (State::Flapping, Some(State::Flapping)),
            "{now}"
        );
        let r = v.recurrence.expect("it happened more than once");
        assert_eq!(r.up.is_some(), ready, "{now}");
        let text = kflow_export::why::text(&v, at(now));
        assert!(
            text.contains("flapping in ready") && !text.contains("stuck"),
            "{text}"
        );
    }
    let (v, _) = told(125);
    assert_eq!(v.recurrence.map(|r| (r.times, r.first)), Some((3, at(20))));
    let (v, all) = told(200);
    assert_eq!((v.state, all), (State::Recovered, Some(State::Recovered)));

    // In the first half minute of the pod's life too.
    let (early, quick) = turns(4, 6);
    for now in [17, 19, 21, 25] {
        let (v, all) = said(&quick, &early, now);
        assert_eq!(
            (v.state, all),
            (State::Flapping, Some(State::Flapping)),
            "{now}"
        );
    }

    // Not ready for longer than ever before is no longer flapping.
    let until = |now| said(&states[..6], &times[..6], now).0;
    let v = until(150);
    assert_eq!(
        v.state,
        State::Flapping,
        "{} {:?}",
        v.sentence,
        v.recurrence
    );
    assert_eq!(until(400).state, State::Stuck);
}
