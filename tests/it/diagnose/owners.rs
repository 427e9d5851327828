//! How the owners of pods stand, and owners that have a verdict of their own: recordings of a real cluster, by the API alone
//! (fixtures/correlate/README.md).

use serde_json::Value;

use crate::in_repository;
use crate::program::{Said, kflow};

pub(super) fn recording(name: &str) -> String {
    let file = in_repository(format!("fixtures/correlate/{name}.kflow.zst"));
    file.display().to_string()
}

fn asked(name: &str, form: &str, args: &[&str]) -> Said {
    let file = recording(name);
    kflow([&["why", "-o", form, "-s", &file], args].concat())
}

/// What `why` says, on one line, and its status.
pub(super) fn why(name: &str, args: &[&str]) -> (String, Option<i32>) {
    let said = asked(name, "text", args);
    let all = format!("{} {}", said.out, said.err);
    (crate::one_line(&all), said.code)
}

fn verdicts(name: &str, args: &[&str]) -> Vec<Value> {
    serde_json::from_str(&asked(name, "json", args).out).unwrap()
}

/// The owner, the cause of its first verdict, and how it stands.
const OWNERS: [(&str, &str, &str, &str); 16] = [
    (
        "stateful-sets",
        "sts/sts/img",
        "KF601",
        "statefulset/img: none of 3 pods is ready; the next 2 are not made until all before are ready (podManagementPolicy OrderedReady)",
    ),
    (
        "stateful-sets",
        "sts/sts/unsched",
        "KF201",
        "statefulset/unsched: none of 3 pods is ready; the next 2 are not made until all before are ready (podManagementPolicy OrderedReady)",
    ),
    // Its pods are made side by side.
    (
        "stateful-sets",
        "sts/sts/par",
        "KF801",
        "statefulset/par: none of 3 pods is ready",
    ),
    // Its first pod was ready for a moment.
    (
        "stateful-sets",
        "sts/sts/crash",
        "KF708",
        "statefulset/crash: 1 of 3 pods is ready",
    ),
    (
        "stateful-sets",
        "sts/sts/second",
        "KF708",
        "statefulset/second: 2 of 3 pods are ready",
    ),
    // It is not a pod that the next ones wait for.
    (
        "stateful-sets",
        "sts/sts/nosa",
        "KF106",
        "statefulset/nosa: none of 3 pods is ready",
    ),
    (
        "former-template",
        "sts/sts/img",
        "KF601",
        "statefulset/img: none of 3 pods is ready; the next 2 are not made until all before are ready (podManagementPolicy OrderedReady); this pod is of a former template, and is not replaced until it is ready",
    ),
    (
        "rollouts",
        "roll/deploy/web",
        "KF601",
        "deployment/web: 2 of 2 pods are ready; of its new template there is 1 pod, of the former 2; its rollout does not go on: ProgressDeadlineExceeded",
    ),
    // All its pods were stopped before the new one was made.
    (
        "rollouts",
        "roll/deploy/recreate",
        "KF601",
        "deployment/recreate: its pod is not ready",
    ),
    (
        "rollouts",
        "roll/ds/agent-crash",
        "KF708",
        "daemonset/agent-crash: its pod is not ready",
    ),
    (
        "jobs",
        "jobs/job/idx",
        "KF708",
        "job/idx: it has failed, so no other pod follows (FailedIndexes: Job has failed indexes)",
    ),
    (
        "jobs",
        "jobs/job/pfp",
        "KF708",
        "job/pfp: it has failed, so no other pod follows (PodFailurePolicy: Container app for pod jobs/pfp-dgn8m failed with exit code 42 matching FailJob rule at index 0)",
    ),
    // A Job that has no pods any more says itself that it has failed.
    ("jobs", "jobs/job/onfail", "KF115", ""),
    ("jobs", "jobs/job/deadline-img", "KF115", ""),
    // The Jobs of a CronJob.
    ("jobs", "jobs/cj/cj-sa", "KF106", ""),
    ("jobs", "jobs/job/nosa", "KF106", ""),
];

#[test]
fn a_verdict_says_how_the_owner_stands() {
    for (name, asked, cause, stands) in OWNERS {
        let all = verdicts(name, &[asked]);
        let v = &all[0];
        let said = v["owner_state"].as_str().unwrap_or_default();
        assert_eq!(
            (v["cause"].as_str(), said),
            (Some(cause), stands),
            "{asked}: {v}"
        );
        let (printed, status) = why(name, &[asked]);
        assert_eq!(status, Some(1), "{asked}");
        // A line may be broken after a hyphen or a slash.
        let row = printed.contains(" owner ");
        assert_eq!(row, !stands.is_empty(), "{asked}: {printed}");
    }
}

#[test]
fn what_the_owner_suggests_is_a_step() {
    let step = |name, asked| {
        let all = verdicts(name, &[asked]);
        let steps = all[0]["next"].as_array().unwrap().clone();
        let commands = steps
            .iter()
            .map(|s| s["command"].as_str().unwrap().to_owned());
        commands.collect::<Vec<_>>().join("\n")
    };
    let undo = "kubectl -n roll rollout undo deployment/";
    assert!(step("rollouts", "roll/deploy/web").contains(&format!("{undo}web")));
    // Nothing of the former template is left to go back to without a gap.
    assert!(!step("rollouts", "roll/deploy/recreate").contains(undo));
    let anew = "kubectl -n sts delete pod img-0";
    assert!(step("former-template", "sts/sts/img").starts_with(anew));
    assert!(!step("stateful-sets", "sts/sts/img").contains(anew));
}

#[test]
fn a_failed_job_without_pods_says_what_its_last_pod_had() {
    for (job, last) in [
        (
            "onfail",
            "in its last pod, onfail-rfgsr, container app ended with exit code 5.",
        ),
        (
            "deadline-img",
            "in its last pod, deadline-img-q4pjx, container app was in ImagePullBackOff.",
        ),
        // Its container ran until it was stopped.
        (
            "deadline",
            "Job was active longer than specified deadline (activeDeadlineSeconds 15).",
        ),
    ] {
        let (said, _) = why("jobs", &[&format!("jobs/job/{job}")]);
        assert!(said.contains(&format!("job/{job} has failed, and no pod of it is left: ")));
        assert!(said.contains(last), "{said}");
        let kept = format!("Events about {job} are kept for an hour");
        assert!(said.contains(&kept), "{said}");
        // It is in the list of incidents too.
        let (said, _) = why("jobs", &["--ever", &format!("jobs/job/{job}")]);
        assert!(said.contains("KF115"), "{said}");
    }
}

#[test]
fn an_owner_without_a_verdict_says_what_it_waits_for() {
    for (name, asked, expected) in [
        ("jobs", "jobs/job/okjob", "It is complete."),
        (
            "jobs",
            "jobs/job/susp",
            "It is suspended (spec.suspend), so it makes no pod.",
        ),
        (
            "jobs",
            "jobs/cj/cj-susp",
            "It is suspended (spec.suspend), so it makes no Job. Its schedule is * * * * *, and it has started no Job yet.",
        ),
        (
            "jobs",
            "jobs/cj/cj-forbid",
            "Its pod is well. Its schedule is * * * * * (concurrencyPolicy Forbid), and its last Job started at 2026-11-29T14:20:00Z.",
        ),
        // It was deleted when its time to live was over.
        (
            "jobs",
            "jobs/job/ttl",
            "It does not exist any more. Its last Event: BackoffLimitExceeded: Job has reached the specified backoff limit",
        ),
        (
            "rollouts",
            "roll/deploy/paused",
            "It is paused (spec.paused), so it makes no pod.",
        ),
        (
            "rollouts",
            "roll/deploy/zero",
            "It wants no pods (spec.replicas is 0).",
        ),
        (
            "rollouts",
            "roll/ds/agent-nosel",
            "It wants no pods: no node fits its node selector, affinity and tolerations.",
        ),
        ("rollouts", "roll/deploy/guarded", "Its 2 pods are well."),
        ("stateful-sets", "sts/sts/ok", "Its 2 pods are well."),
    ] {
        let (said, status) = why(name, &[asked]);
        assert!(said.contains(expected), "{asked}: {said}");
        assert_eq!(status, Some(0), "{asked}");
    }
}

/// A namespace can have the name of a kind: `jobs/NAME` is printed of its pods.
#[test]
fn a_printed_name_is_taken_whatever_its_namespace_is_called() {
    for (name, of) in [("jobs", "jobs/"), ("stateful-sets", "sts/")] {
        let all = verdicts(name, &["--all"]);
        let mut asked = 0;
        for v in all.iter().filter(|v| v["pod"] != "") {
            let pod = format!("{of}{}", v["pod"].as_str().unwrap());
            let again = verdicts(name, &[&pod]);
            assert_eq!(again[0]["uid"], v["uid"], "{pod}");
            asked += 1;
        }
        assert!(asked > 5, "{name}: {asked}");
    }
}

/// Pods with one cause stand together, and each owner is told apart: one serves on, the other does not.
#[test]
fn owners_with_one_cause_are_told_apart() {
    let (said, _) = why("rollouts", &["--all"]);
    let serves = "owner deployment/web: 2 of 2 pods are ready";
    let waits = "owner deployment/recreate: its pod is not ready";
    assert!(said.contains(serves) && said.contains(waits), "{said}");
}

/// The count of an Event `FailedCreate` is the number of attempts to create the pod.
#[test]
fn an_event_with_a_count_is_as_many_attempts() {
    let file = in_repository("fixtures/sessions/S8-node.kflow.zst");
    let file = file.display().to_string();
    let asked = ["why", "deploy/denied", "-n", "s30", "-s", &file];
    for at in ["00:49:00", "00:49:20"] {
        let said = kflow([&asked[..], &["--at", at]].concat());
        assert!(
            said.out.contains("(attempt 12)"),
            "{at}: {} {}",
            said.out,
            said.err
        );
    }
}
