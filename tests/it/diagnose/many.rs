//! A real node with 76 pods, most of them broken in one way each, as one look by the API alone finds them (fixtures/correlate/README.md,
//! `many-pods`). Whoever broke them wrote down what is wrong.

use std::collections::BTreeMap;

use serde_json::Value;

use super::owners::recording;
use crate::program::kflow;

/// What is told of the pods of each namespace. A pod that is not named is well.
const TOLD: [(&str, &str, &str); 63] = [
    ("cfg", "apparmor", "KF307"),
    ("cfg", "hostport2", "KF209"),
    ("cfg", "hp-sock", "KF412"),
    ("cfg", "hp-type", "KF412"),
    ("cfg", "key", "KF701"),
    ("cfg", "keyvol", "KF403"),
    ("cfg", "late-vol", "KF402"),
    ("cfg", "nonroot", "KF701"),
    ("cfg", "projected", "KF402"),
    ("cfg", "rofs", "KF708"),
    ("cfg", "seccomp", "KF703"),
    ("cfg", "subpath-dir", "KF716"),
    ("cfg", "sysctl", "KF315"),
    ("img", "auth", "KF602"),
    ("img", "closed", "KF604"),
    ("img", "digest", "KF610"),
    ("img", "dns", "KF610"),
    ("img", "hang", "KF610"),
    ("img", "html", "KF610"),
    ("img", "invalid", "KF608"),
    ("img", "never", "KF607"),
    ("img", "r403", "KF610"),
    ("img", "r429", "KF610"),
    ("img", "r503", "KF604b"),
    ("img", "repo", "KF601"),
    ("img", "slow", "KF610"),
    ("img", "tag", "KF601"),
    // The pull that the others wait for.
    ("img", "wait2", "KF609"),
    ("life", "deadjob", "KF810"),
    ("life", "exit0", "KF708"),
    ("life", "init-dns", "KF707"),
    ("life", "init-wait", "KF707"),
    ("life", "noexec", "KF704"),
    ("life", "notfound", "KF704"),
    ("life", "oom", "KF709"),
    ("life", "post", "KF705"),
    ("life", "segv", "KF708"),
    ("life", "side-crash", "KF610"),
    ("life", "side-nostart", "KF710"),
    ("life", "side-notready", "KF801"),
    ("life", "slowcrash", "KF708"),
    ("probe", "execmissing", "KF801"),
    ("probe", "gate", "KF804"),
    ("probe", "grpc", "KF801"),
    ("probe", "hang", "KF708"),
    ("probe", "hostwrong", "KF801"),
    ("probe", "http404", "KF610"),
    ("probe", "http500", "KF801"),
    ("probe", "https", "KF801"),
    ("probe", "live-404", "KF803"),
    ("probe", "live-early", "KF803"),
    ("probe", "portname", "KF801"),
    ("probe", "refused", "KF801"),
    ("probe", "startup", "KF802"),
    ("probe", "timeout", "KF801"),
    ("sched", "big", "KF201"),
    ("sched", "gates", "KF220"),
    ("sched", "gpu", "KF201"),
    ("sched", "nodename", "KF317"),
    ("sched", "other", "KF223"),
    ("sched", "rc", "KF508"),
    ("sched", "sel", "KF205"),
    ("sched", "spread", "KF208"),
];

#[test]
fn each_pod_of_a_node_with_many_broken_ones_has_its_own_cause() {
    let file = recording("many-pods");
    let said = kflow(["why", "--all", "--each", "-o", "json", "-s", &file]);
    let verdicts: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    let mut told: BTreeMap<(String, String), String> = BTreeMap::new();
    for v in &verdicts {
        let pod = (text(v, "namespace"), text(v, "pod"));
        told.insert(pod, text(v, "cause"));
        let sentence = text(v, "sentence");
        for wrong in [":,", ": ,", ": .", " ,", " .", ",,", "::"] {
            assert!(!sentence.contains(wrong), "{wrong:?}: {sentence}");
        }
    }
    let expected = TOLD.map(|(ns, pod, cause)| ((ns.to_owned(), pod.to_owned()), cause.to_owned()));
    assert_eq!(told, BTreeMap::from(expected));
}
