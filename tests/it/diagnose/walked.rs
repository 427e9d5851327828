//! What was played on a real cluster and listed by `kubectl get -o json` (fixtures/causes/real, by who played it): what is so, and what is
//! said of it.

use super::owners::why;

/// Recording, query, cause, and words of the answer.
const TOLD: [(&str, &str, &str, &str); 21] = [
    // Its runtime was down for half a minute, five minutes before, and may not be asked of its node.
    (
        "unread",
        "team/deploy/img",
        "KF601",
        "nope:7 does not exist in its registry",
    ),
    (
        "hooks",
        "h-nosvc/deploy/web",
        "KF105",
        "its server is to be Service hooks/gone, which does not exist. It was refused last",
    ),
    (
        "hooks",
        "h-nosvc/deploy/web",
        "KF105",
        "kubectl -n hooks get services",
    ),
    (
        "hooks",
        "h-ca/deploy/web",
        "KF105",
        "has a caBundle of another authority than its server's certificate",
    ),
    (
        "hooks",
        "h-noep/deploy/web",
        "KF105",
        "has a certificate for other names",
    ),
    (
        "hooks",
        "h-deny/deploy/web",
        "KF105",
        "images must come from registry.corp.example",
    ),
    ("hooks", "h-hang/deploy/web", "KF105", "hang.lab.example"),
    (
        "limits",
        "lim/deploy/toolow",
        "KF103",
        "minimum cpu per Container is 50m, but the request is 10m; and cpu max limit to request ratio per Container is 2, but no limit is specified",
    ),
    ("limits", "lim/deploy/ratio", "KF103", "but the ratio is 10"),
    (
        "jobs",
        "own/job/dead",
        "KF115",
        "longer than specified deadline (activeDeadlineSeconds 20)",
    ),
    (
        "jobs",
        "own/cj/bad-image",
        "KF601",
        "cronjob/bad-image starts no other Job while this one runs (concurrencyPolicy Forbid)",
    ),
    // What is known of a node or a budget itself is told beside the trouble of its pods.
    (
        "drained",
        "node/node1",
        "KF801",
        "It is cordoned (spec.unschedulable): no new pod comes. A drain of it would wait",
    ),
    (
        "drained",
        "own/pdb/db",
        "KF801",
        "It lets no pod be evicted now: it needs 1 healthy pod and has 0",
    ),
    // Of these the API's Events alone tell the cause.
    ("everyday", "probe/startup", "KF802", "tcpSocket :8080"),
    ("everyday", "life/post", "KF705", "postStart hook"),
    ("everyday", "cfg/projected", "KF402", "missing-ca"),
    ("everyday", "cfg/hp-sock", "KF412", "/var/run/docker.sock"),
    ("everyday", "cfg/hp-type", "KF412", "/etc/hostname"),
    ("everyday", "cfg/keyvol", "KF403", "tls.crt"),
    ("everyday", "cfg/late-vol", "KF402", "late"),
    ("everyday", "sched/rc", "KF508", "runsc"),
];

#[test]
fn what_was_played_is_told() {
    for (recording, query, cause, words) in TOLD {
        let (said, status) = why(&format!("../causes/real/{recording}"), &[query]);
        assert_eq!(status, Some(1), "{recording} {query}\n{said}");
        assert!(
            said.contains(cause) && said.contains(words),
            "{recording} {query}\n{said}"
        );
    }
}
