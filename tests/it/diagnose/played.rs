//! What was played on a real cluster and recorded by the API alone (fixtures/correlate): words that an answer has, and words that it
//! must not have.

use crate::program::command;

struct Told {
    recording: &'static str,
    /// Namespace and query.
    of: (&'static str, &'static str),
    /// Words of the answer.
    says: &'static [&'static str],
    not: &'static [&'static str],
}

const TOLD: [Told; 13] = [
    // Its other pod did the work.
    Told {
        recording: "retried",
        of: ("a-well", "j-retry-wvtl6"),
        says: &["job/j-retry is complete: nothing waits for it"],
        not: &["KF"],
    },
    // What it ran for is not how long ago it failed.
    Told {
        recording: "odd-pods",
        of: ("a-odd", "deadline"),
        says: &["failed in terminate 3m05s ago", "KF712"],
        not: &[],
    },
    Told {
        recording: "odd-pods",
        of: ("a-odd", "hp2"),
        says: &[
            "port 28080 is taken by a-odd/hp1 on node1",
            "nobody makes another",
        ],
        not: &["--show-labels"],
    },
    // One Event tells of a kill for the probe; the kernel has killed it each time.
    Told {
        recording: "killed-by-kernel",
        of: ("a-mix", "live-oom"),
        says: &["KF709", "6 times so far"],
        not: &["KF803"],
    },
    Told {
        recording: "deleted-in-hook",
        of: ("a-mix", "poststart"),
        says: &["container c still runs"],
        not: &["its containers have ended"],
    },
    // The end of an ephemeral container says nothing of when the pod ceased to be ready.
    Told {
        recording: "kubelet-away",
        of: ("a-odd2", "dbg"),
        says: &["stuck in ready for 3m", "KF805"],
        not: &[],
    },
    // Its kubelet had said that it has ended, before it went away itself.
    Told {
        recording: "kubelet-away",
        of: ("a-odd2", "fin"),
        says: &["KF901", "example.com/hold"],
        not: &["KF902", "out-of-service"],
    },
    Told {
        recording: "patch-that-fails",
        of: ("a-wh-badpatch", "deploy/d"),
        says: &["a mutating webhook changes the pod by a patch"],
        not: &[],
    },
    Told {
        recording: "binding-refused",
        of: ("a-wh-bind", "deploy/d"),
        says: &["webhook bind.a.example.com refuses what the scheduler asks for"],
        not: &[],
    },
    // It ran for 47 s before that.
    Told {
        recording: "turned-away",
        of: ("a-base", "late-6b55b96cd-x842c"),
        says: &["KF303", "failed in admit 51s ago"],
        not: &[],
    },
    Told {
        recording: "alternatives",
        of: ("a-x", "affzone"),
        says: &["kubernetes.io/arch=arm64 or metadata.name=node7"],
        not: &["no label metadata.name"],
    },
    // A node without the label disk satisfies `disk NotIn ssd`.
    Told {
        recording: "alternatives",
        of: ("a-x", "gt"),
        says: &["no label cpu-gen"],
        not: &["no label disk"],
    },
    Told {
        recording: "alternatives",
        of: ("a-x", "localpv"),
        says: &["KF217"],
        not: &["KF214"],
    },
];

fn answer(recording: &str, args: &[&str]) -> String {
    let path = crate::fixture(&format!("correlate/{recording}.kflow.zst"));
    let path = path.display().to_string();
    let o = command().args(args).args(["-s", &path]).output().unwrap();
    let said = [o.stdout, o.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    // Lines are broken anywhere.
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn what_is_seldom_played_is_told_as_it_was() {
    for told in &TOLD {
        let (namespace, query) = told.of;
        let said = answer(told.recording, &["why", "-n", namespace, query]);
        for words in told.says {
            assert!(said.contains(words), "{} {query}: {said}", told.recording);
        }
        for words in told.not {
            assert!(
                !said.contains(words),
                "{} {query} {words}: {said}",
                told.recording
            );
        }
    }
}

/// Events tell of what was so before the pods were listed: it is not believed while they are being listed.
#[test]
fn what_was_over_before_a_recording_began_is_no_incident_of_it() {
    let said = answer("retried", &["why", "--ever", "-n", "a-well"]);
    for gone in ["KF115 a-well/job/j-pfp", "slow-ready", "d-roll"] {
        assert!(!said.contains(gone), "{gone}: {said}");
    }
    assert!(said.contains("a-well/sc-image"), "{said}");
}

/// Nobody could renew a lease while the apiserver was away: that says nothing of the kubelet.
#[test]
fn a_kubelet_is_not_blamed_for_an_apiserver_that_was_away() {
    let said = answer("apiserver-away", &["why", "--ever"]);
    assert!(said.contains("cannot reach the apiserver"), "{said}");
    assert!(!said.contains("has not renewed its lease"), "{said}");
}

/// The recording began when the container ran for the third time: the pod's start was not seen.
#[test]
fn a_pod_that_ran_before_it_was_seen_has_no_start() {
    for pod in ["live-oom", "sc-crash"] {
        let (recording, namespace) = match pod {
            "live-oom" => ("killed-by-kernel", "a-mix"),
            _ => ("retried", "a-well"),
        };
        let said = answer(recording, &["timeline", "-n", namespace, pod]);
        assert!(!said.contains("started in"), "{said}");
    }
}

/// Of a pod of which the kubelet has sent many Events it tells that a pull begins, and not that it has failed.
#[test]
fn a_pull_whose_failure_nobody_heard_of_holds_up_no_other() {
    for second in ["11:34:35", "11:37:37", "11:44:00", "11:49:00"] {
        let at = format!("2026-12-01T{second}Z");
        let args = ["why", "--all", "--each", "-n", "b-one", "--at", &at];
        let said = answer("pulls-unheard", &args);
        assert_eq!(said.matches("KF601").count(), 2, "{second}: {said}");
        assert!(!said.contains("KF610"), "{second}: {said}");
    }
}
