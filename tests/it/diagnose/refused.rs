//! Owners that the apiserver refused a pod, and that want none any more.

use super::Sources;
use super::causes::{scenarios, told};
use super::scenario::Scenario;
use serde_json::{Value, json};

/// Kinds whose status counts the pods that they want and have.
const COUNTED: [&str; 2] = ["ReplicaSet", "StatefulSet"];

/// Reasons of the Events by which controllers say that the apiserver refuses what they create.
const REASONS: [&str; 2] = ["FailedCreate", "ReplicaSetCreateError"];

/// The kind and name of the owner whose controller was refused last.
fn refused(s: &Scenario) -> Option<(String, String)> {
    let text = |v: &Value| v.as_str().map(str::to_owned);
    let mut events = s.see.iter().rev().filter_map(|step| step.get("event"));
    let event = events.find(|e| REASONS.iter().any(|reason| e["reason"] == *reason))?;
    Some((text(&event["on"])?, text(&event["name"])?))
}

/// The scenarios of owners of these kinds that were refused, each with kind and name.
fn of_kinds(kinds: &[&str]) -> Vec<(Scenario, String, String)> {
    let with_owner = |s: Scenario| refused(&s).map(|(kind, name)| (s, kind, name));
    let mut all: Vec<_> = scenarios().into_iter().filter_map(with_owner).collect();
    all.retain(|(_, kind, _)| kinds.contains(&kind.as_str()));
    all
}

/// The cause that is told once the API shows the owner in addition, with this in its status, after all that the scenario tells.
fn after(of: &(Scenario, String, String), status: &Value) -> Option<String> {
    let (s, kind, name) = of;
    let mut s = s.clone();
    let mut object = json!({"ct": 0, "gen": 2, "og": 2});
    object["o"] = json!({"k": kind, "ns": "ns", "n": name, "u": format!("uid-{kind}-{name}")});
    for (key, value) in status.as_object().expect("an object") {
        object[key] = value.clone();
    }
    s.see.push(json!({"t": s.now_s - 1.0, "object": object}));
    told(&s, Sources::All).map(|v| v.cause_id().to_string())
}

/// Scaled to what it has, to nothing, or replaced by an owner with another template: its controller asks for no pod any more, and says
/// nothing that would end the refusal.
#[test]
fn an_owner_that_has_all_that_it_wants_is_refused_no_more() {
    for kind in COUNTED {
        let all = of_kinds(&[kind]);
        assert!(!all.is_empty(), "{kind}");
        for of in all {
            let cause = |w, h| after(&of, &json!({"f": [["statusReplicas", h], ["replicas", w]]}));
            assert_eq!(cause("2", "1").as_ref(), Some(&of.0.cause), "{}", of.0.name);
            assert_eq!(cause("2", "2"), None, "{}", of.0.name);
            assert_eq!(cause("0", "0"), None, "{}", of.0.name);
        }
    }
}

/// A Job or CronJob that somebody has suspended makes nothing.
#[test]
fn an_owner_that_is_suspended_is_refused_no_more() {
    let all = of_kinds(&["CronJob"]);
    assert!(!all.is_empty());
    for of in all {
        let cause = |suspend| after(&of, &json!({"f": [["suspend", suspend]]}));
        assert_eq!(cause("false").as_ref(), Some(&of.0.cause), "{}", of.0.name);
        assert_eq!(cause("true"), None, "{}", of.0.name);
    }
}

/// A Deployment has its former pods while it is refused the ReplicaSet of its new template, and says by a condition how that went.
#[test]
fn a_deployment_that_has_its_replica_set_is_refused_no_more() {
    let all = of_kinds(&["Deployment"]);
    assert!(!all.is_empty());
    for of in all {
        let cause = |status, reason| {
            let progressing = json!({"k": "Progressing", "s": status, "r": reason, "m": ""});
            let counts = json!([["replicas", "1"], ["statusReplicas", "1"]]);
            after(&of, &json!({"cond": [progressing], "f": counts}))
        };
        let still = cause("False", "ReplicaSetCreateError");
        assert_eq!(still.as_ref(), Some(&of.0.cause), "{}", of.0.name);
        assert_eq!(cause("True", "NewReplicaSetCreated"), None, "{}", of.0.name);
    }
}

/// Events expire, and may not be readable. The condition has the words of the Event without what is put before them.
#[test]
fn a_refusal_is_told_by_the_condition_of_the_owner_alone() {
    const CREATING: &str = "Error creating: ";
    let all = of_kinds(&["ReplicaSet", "Deployment"]);
    assert!(all.len() > 10);
    for (mut s, kind, name) in all {
        let mut events = s.see.iter().filter_map(|step| step.get("event"));
        let said = events.next_back().and_then(|e| e["message"].as_str());
        let said = said.unwrap_or_default();
        let said = said.strip_prefix(CREATING).unwrap_or(said).to_owned();
        let (condition, status, reason) = match kind.as_str() {
            "Deployment" => ("Progressing", "False", "ReplicaSetCreateError"),
            _ => ("ReplicaFailure", "True", "FailedCreate"),
        };
        let condition = json!({"k": condition, "s": status, "r": reason, "m": said, "t": 1});
        let counts = json!([["replicas", "1"]]);
        s.see.clear();
        s.target = format!("{kind}/{name}").to_lowercase();
        let of = (s, kind, name);
        let cause = after(&of, &json!({"cond": [condition], "f": counts}));
        assert_eq!(cause.as_ref(), Some(&of.0.cause), "{}: {said}", of.0.name);
    }
}

/// No sentence about a CronJob or a Deployment says that it is refused a pod, which it does not make.
#[test]
fn what_an_owner_is_refused_is_what_it_makes() {
    let kinds = [("CronJob", "the Job"), ("Deployment", "the ReplicaSet")];
    let mut causes = Vec::new();
    for (kind, made) in kinds {
        for (s, ..) in of_kinds(&[kind]) {
            let v = told(&s, Sources::All).unwrap_or_else(|| panic!("{}: nothing", s.name));
            assert_eq!(v.not_reached, [format!("create {made}")], "{}", s.name);
            assert!(v.sentence.contains(made), "{}: {}", s.name, v.sentence);
            for wrong in ["the pod", "a pod"] {
                assert!(!v.sentence.contains(wrong), "{}: {}", s.name, v.sentence);
            }
            causes.push(s.cause);
        }
    }
    for cause in ["KF101", "KF105", "KF111"] {
        assert!(
            causes.iter().any(|c| c == cause),
            "no {cause} in {causes:?}"
        );
    }
}
