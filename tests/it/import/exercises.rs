//! Situations that others set as exercises, played on a real cluster (kubelet 1.36.3, containerd 2.1.9): its objects, as `kubectl get -o
//! json` printed them.

use std::sync::OnceLock;

use super::{Desk, run, text};
use crate::in_repository;

/// What is said of everything, and what of one pod or owner.
fn why(args: &[&str]) -> String {
    let file = in_repository("fixtures/kube/exercises.json");
    said_of(&file.display().to_string(), args)
}

fn said_of(file: &str, args: &[&str]) -> String {
    let mut all = vec!["why", "-s", file];
    all.extend(args);
    let o = run(&all);
    let said = format!("{}{}", text(&o.stdout), text(&o.stderr));
    crate::one_line(&said)
}

fn all() -> &'static str {
    static ALL: OnceLock<String> = OnceLock::new();
    ALL.get_or_init(|| why(&["--all"]))
}

/// The kubelet's recorder drops Events of a pod that has had 25 at once: the newest exits come without the Event of the kill.
#[test]
fn a_probe_is_known_to_kill_when_events_are_dropped() {
    let said = why(&["shop/web-0"]);
    assert!(said.contains("KF803") && said.contains("likely"), "{said}");
    assert!(
        said.contains("fails its liveness probe (httpGet :9090/alive"),
        "{said}"
    );
    // Since the first back-off, and not since the last end.
    let minutes = said.split("stuck in ready for ").nth(1).unwrap_or_default();
    let minutes = minutes.split('m').next().unwrap_or_default();
    assert!(minutes.parse::<u32>().is_ok_and(|m| m >= 10), "{said}");
}

#[test]
fn a_job_that_failed_without_pods_is_told() {
    let why_not = "DeadlineExceeded: Job was active longer than specified deadline (activeDeadlineSeconds 10)";
    assert!(
        all().contains(&format!(
            "job/timeout-job has failed, and no pod of it is left: {why_not}."
        )),
        "{}",
        all()
    );
    // It is over: what is stuck stands before it.
    let place = |of: &str| all().find(of).unwrap();
    assert!(place("depot/no-path stuck") < place("job/timeout-job (depot) failed in terminate"));
    for asked in [&["depot/job/timeout-job"][..], &["--all", "--ever"]] {
        let said = why(asked);
        assert!(said.contains("KF115") && said.contains(why_not), "{said}");
    }
    // This one has pods that tell it.
    assert!(
        !all().contains("job/failing-job has failed, and no"),
        "{}",
        all()
    );
    // It is not well, in every form of the answer, also where nothing else is wrong.
    let desk = Desk::new();
    let objects = std::fs::read_to_string(in_repository("fixtures/kube/exercises.json")).unwrap();
    let mut alone: serde_json::Value = serde_json::from_str(&objects).unwrap();
    let items = alone["items"].as_array_mut().unwrap();
    items.retain(|o| o["metadata"]["name"] == "timeout-job");
    assert_eq!(items.len(), 1);
    let alone = desk.file("alone.json", alone.to_string());
    let whole = in_repository("fixtures/kube/exercises.json");
    let whole = whole.display().to_string();
    for (file, asked) in [
        (&whole, &["depot/job/timeout-job"][..]),
        (&whole, &["depot/job/timeout-job", "-o", "json"]),
        (&alone, &["depot/job/timeout-job"]),
        (&alone, &["--all"]),
        (&alone, &["--all", "-o", "json"]),
        (&alone, &["--all", "-n", "depot"]),
    ] {
        let o = run(&[&["why", "-s", file], asked].concat());
        let said = text(&o.stderr);
        assert_eq!(o.status.code(), Some(1), "{asked:?}: {said}");
    }
    // It is of no other namespace.
    let o = run(&["why", "--all", "-n", "shop", "-s", &alone]);
    assert_ne!(o.status.code(), Some(1), "{}", text(&o.stderr));
}

#[test]
fn the_volume_that_nearly_fits_is_named() {
    let said = why(&["depot/many"]);
    let near =
        "volume small-pv does not fit: it is ReadWriteOnce and the claim wants ReadWriteMany";
    assert!(said.contains("KF213") && said.contains(near), "{said}");
}

#[test]
fn a_storage_class_that_is_missing_is_told_beside_those_that_there_are() {
    let said = why(&["depot/no-class"]);
    let missing = "\"fast-ssd\" not found; there is only broken-storage.";
    assert!(said.contains("KF214") && said.contains(missing), "{said}");
    let step = "which storage classes there are: fast-ssd is none of them";
    assert!(said.contains(step), "{said}");
    // Invented: the cluster had one.
    let desk = Desk::new();
    let objects = std::fs::read_to_string(in_repository("fixtures/kube/exercises.json")).unwrap();
    let class = r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"standard","uid":"standard"},"provisioner":"x"}"#;
    let objects = objects.replace("\"items\":[", &format!("\"items\":[{class},"));
    let said = said_of(&desk.file("objects.json", &objects), &["depot/no-class"]);
    let both = "not found; there are broken-storage and standard.";
    assert!(said.contains(both), "{said}");
}

#[test]
fn the_steps_show_what_is_wrong() {
    // The command of an init container is not among those of `containers`.
    let said = why(&["depot/init-typo"]);
    assert!(
        said.contains("KF704") && said.contains("{.spec..command}{.spec..args}"),
        "{said}"
    );
    // The kubelet says the same of a path that is not there (pkg/volume/hostpath/host_path.go, checkTypeInternal).
    let said = why(&["depot/no-path"]);
    assert!(said.contains("it is missing or not a directory"), "{said}");
}

#[test]
fn an_evicted_pod_failed_when_it_was_evicted() {
    // It had run for two minutes.
    let o = run(&[
        "why",
        "depot/fills-up",
        "-o",
        "json",
        "-s",
        &in_repository("fixtures/kube/exercises.json")
            .display()
            .to_string(),
    ]);
    let said = text(&o.stdout);
    assert!(said.contains("KF911"), "{said}");
    assert!(said.contains("\"since_ns\":179590316"), "{said}");
}
