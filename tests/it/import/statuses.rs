//! What the word in the column STATUS of a table of pods tells, and what it does not.

use super::fragments::told;
use super::{Desk, fixture, run, text};

/// A table that a real kubectl printed, and when.
pub(super) struct Listed {
    file: &'static str,
    pub(super) taken: &'static str,
    /// The recording that its pods are of.
    recording: &'static str,
    truth: &'static str,
}

pub(super) const LISTED: [Listed; 3] = [
    Listed {
        file: "s2-pods-wide-1.36.txt",
        taken: "2026-11-21T00:30:07Z",
        recording: "S2-",
        truth: "expected.json",
    },
    Listed {
        file: "s3-pods-wide-1.36.txt",
        taken: "2026-11-21T00:33:28Z",
        recording: "S3-",
        truth: "expected.json",
    },
    Listed {
        file: "s15-pods-1.36.txt",
        taken: "2026-11-26T02:12:00Z",
        recording: "S15-",
        truth: "versions/expected.json",
    },
];

/// What a status says where a message would say more: the cause that it stands for, and the truer ones.
const LESS: [(&str, &[&str]); 6] = [
    ("KF613", &["KF601", "KF604"]),
    ("KF316", &["KF303"]),
    ("KF701", &["KF414"]),
    ("KF703", &["KF704"]),
    ("KF704", &["KF714"]),
    // The container ends; who ends it, or why, is not told.
    ("KF708", &["KF705", "KF712", "KF802", "KF803"]),
];

impl Listed {
    pub(super) fn text(&self) -> String {
        std::fs::read_to_string(fixture("kubectl").join(self.file)).unwrap()
    }
    /// The causes that are true of each pod, by `namespace/name`.
    fn truth(&self) -> std::collections::BTreeMap<String, Vec<String>> {
        let all = std::fs::read(fixture(self.truth)).unwrap();
        let all: Vec<serde_json::Value> = serde_json::from_slice(&all).unwrap();
        let mut out = std::collections::BTreeMap::<String, Vec<String>>::new();
        for row in all {
            if row["session"].as_str().unwrap().starts_with(self.recording) {
                let causes = row["causes"].as_array().unwrap().iter();
                let of_pod = out.entry(row["target"].as_str().unwrap().to_owned());
                of_pod
                    .or_default()
                    .extend(causes.map(|c| c.as_str().unwrap().to_owned()));
            }
        }
        out
    }
}

#[test]
fn a_table_of_pods_tells_their_statuses_and_no_cause_that_is_not_true() {
    let desk = Desk::new();
    let (mut told, mut wrong) = (0, Vec::new());
    for t in LISTED {
        let table = desk.file(t.file, t.text());
        let (session, said) =
            desk.import(&format!("{}.kflow", t.file), &[&table, "--taken", t.taken]);
        assert!(!said.contains("malformed"), "{said}");
        let truth = t.truth();
        for row in t.text().lines().skip(1) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let (pod, ready, status) = (format!("{}/{}", cells[0], cells[1]), cells[2], cells[3]);
            let o = run(&["why", &pod, "-s", &session, "-o", "json"]);
            let got: serde_json::Value = serde_json::from_slice(&o.stdout).unwrap_or_default();
            let cause = got[0]["cause"].as_str().unwrap_or_default();
            let right = match o.status.code() {
                Some(0) => matches!((ready, status), ("1/1", "Running") | (_, "Completed")),
                Some(1) => {
                    told += 1;
                    let less = LESS
                        .iter()
                        .find(|(c, _)| *c == cause)
                        .map_or(&[][..], |l| l.1);
                    let of_pod = truth.get(&pod).unwrap_or_else(|| panic!("{pod}"));
                    of_pod
                        .iter()
                        .any(|c| c == cause || less.contains(&c.as_str()))
                }
                // What is not known is told with the status that is.
                _ => text(&o.stderr).contains(&format!("({status} when it was last seen)")),
            };
            if !right {
                let said = text(&o.stderr);
                wrong.push(format!("{pod}: {cause} {:?} {said}", o.status.code()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(told >= 20, "{told}");
    // Of all of them, those are named of which nothing tells why.
    let table = desk.file("pods.txt", LISTED[1].text());
    let (session, _) = desk.import("all.kflow", &[&table, "--taken", LISTED[1].taken]);
    let o = run(&["why", "--all", "-s", &session]);
    let said = text(&o.stderr);
    let names = "how s13/notready (Running), s42/gate (Running) and s45/init-hangs (Init:0/1) are";
    assert!(said.contains(names), "{said}");
}

/// What the one word of a row says of containers, and no more.
#[test]
fn a_word_of_a_row_is_a_verdict() {
    let desk = Desk::new();
    for (row, code, says) in [
        (
            "0/1     CrashLoopBackOff        5 (2m18s ago)   6m",
            "KF708",
            "A container has ended at least 6 times; its exit codes were not recorded.",
        ),
        (
            "0/2     Init:CrashLoopBackOff   5 (2m18s ago)   6m",
            "KF707",
            "An init container has ended at least 6 times; its exit codes were not recorded.",
        ),
        (
            "0/1     Error                   0               3h",
            "KF708",
            "A container has ended with an error at least once; its exit code was not recorded.",
        ),
        (
            "0/1     Init:Error              2               40s",
            "KF707",
            "An init container has ended with an error at least 3 times; its exit codes were not recorded.",
        ),
        (
            "1/2     NotReady                0               11m",
            "KF810",
            "A container of the pod has ended well, and another one runs on, so the pod does not complete.",
        ),
        (
            "0/1     ContainerCannotRun      0               11m",
            "KF704",
            "A container cannot be started.",
        ),
    ] {
        let table = format!("NAME   READY   STATUS   RESTARTS   AGE\nweb    {row}\n");
        let why = told(&desk, &table);
        let one = crate::one_line(&why);
        assert!(one.contains(code) && one.contains(says), "{row}: {why}");
        // When a container ended, or is started next, is not told by a row.
        let head = why.lines().take_while(|l| !l.contains("evidence"));
        let head = head.collect::<Vec<_>>().join(" ");
        assert!(
            !head.contains("next in") && !head.contains(" for "),
            "{row}: {why}"
        );
    }
}

/// A kubelet has taken on a pod with a container that waits, runs or has ended, whether or not a column shows on which node.
#[test]
fn a_pod_whose_row_tells_of_its_container_does_not_wait_for_the_scheduler() {
    let desk = Desk::new();
    for (status, waits) in [
        ("CrashLoopBackOff", false),
        ("ContainerCreating", false),
        ("Init:0/1", false),
        ("Running", false),
        ("Pending", true),
    ] {
        let row = format!(
            "$ kubectl get pods\nNAME    READY   STATUS              RESTARTS   AGE\nweb-0   0/1     {status}   0          12m\n"
        );
        let o = run(&["timeline", "-s", &desk.file("row.txt", row)]);
        let said = text(&o.stdout);
        assert!(said.contains("web-0"), "{status}: {}", text(&o.stderr));
        assert_eq!(said.contains("scheduleOnePod"), waits, "{status}\n{said}");
    }
}

/// The word alone, without the message that would name more.
#[test]
fn a_sentence_of_a_word_is_whole() {
    let desk = Desk::new();
    for (status, sentence) in [
        ("NodeLost", "The kubelet of its node does not report"),
        ("ImageInspectError", "does not say whether it has the image"),
        (
            "TopologyAffinityError",
            "its resources do not fit on one NUMA node",
        ),
        ("OutOfcpu", "rejected the pod: not enough cpu."),
    ] {
        let row = format!(
            "$ kubectl get pods\nNAME    READY   STATUS              RESTARTS   AGE\nweb-0   0/1     {status}   0          12m\n"
        );
        let said = told(&desk, &row);
        let said = crate::one_line(&said);
        assert!(said.contains(sentence), "{status}\n{said}");
    }
}

fn row(ready: &str, status: &str, restarts: &str, age: &str) -> String {
    format!(
        "$ kubectl get pods\nNAME    READY   STATUS   RESTARTS   AGE\nweb-0   {ready}   {status}   {restarts}   {age}\n"
    )
}

/// kubectl prints `Unknown` for a deleted pod of a lost node, whose containers are as its kubelet last reported them, and for a container
/// whose end containerd has not seen.
#[test]
fn an_unknown_that_may_be_a_containers_is_no_lost_node() {
    let desk = Desk::new();
    for (ready, status, lost) in [
        ("1/1", "Unknown", true),
        ("0/1", "NodeLost", true),
        ("0/1", "Unknown", false),
        ("2/3", "Unknown", false),
    ] {
        let said = told(&desk, &row(ready, status, "0", "18h"));
        assert_eq!(said.contains("KF902"), lost, "{ready} {status}\n{said}");
        assert!(lost || said.contains("web-0 (Unknown)"), "{said}");
    }
}

/// A container that ends for the first time is started again at once: later it has ended for good.
#[test]
fn a_container_that_ended_long_ago_and_was_never_started_again_has_failed() {
    let desk = Desk::new();
    for status in ["Error", "OOMKilled", "ExitCode:3"] {
        for (ready, restarts, age, failed) in [
            ("0/1", "0", "46d", true),
            ("0/1", "0", "4s", false),
            ("0/1", "5", "46d", false),
            ("1/2", "0", "46d", false),
        ] {
            let said = told(&desk, &row(ready, status, restarts, age));
            let head = said.lines().take(2).collect::<Vec<_>>().join(" ");
            assert!(head.contains("KF70"), "{status}\n{said}");
            let has = head.contains("failed in start");
            assert_eq!(has, failed, "{ready} {status} {restarts} {age}\n{said}");
        }
    }
}
