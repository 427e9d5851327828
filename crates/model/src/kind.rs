//! Kinds of objects that queries and kubectl's commands name, and the words for them.

pub const POD: &str = "Pod";
pub const NODE: &str = "Node";
pub const NAMESPACE: &str = "Namespace";
pub const CRON_JOB: &str = "CronJob";
pub const CLAIM: &str = "PersistentVolumeClaim";
pub const AUTOSCALER: &str = "HorizontalPodAutoscaler";
pub const BUDGET: &str = "PodDisruptionBudget";

/// Each kind with its words, as `kubectl api-resources` lists them: the shortest, the singular and the plural.
pub const WORDS: [(&str, &[&str]); 13] = [
    (POD, &["po", "pod", "pods"]),
    (NODE, &["no", "node", "nodes"]),
    ("Deployment", &["deploy", "deployment", "deployments"]),
    ("ReplicaSet", &["rs", "replicaset", "replicasets"]),
    ("StatefulSet", &["sts", "statefulset", "statefulsets"]),
    ("DaemonSet", &["ds", "daemonset", "daemonsets"]),
    ("Job", &["job", "jobs"]),
    (CRON_JOB, &["cj", "cronjob", "cronjobs"]),
    (
        "ReplicationController",
        &["rc", "replicationcontroller", "replicationcontrollers"],
    ),
    (
        CLAIM,
        &["pvc", "persistentvolumeclaim", "persistentvolumeclaims"],
    ),
    (NAMESPACE, &["ns", "namespace", "namespaces"]),
    (
        AUTOSCALER,
        &["hpa", "horizontalpodautoscaler", "horizontalpodautoscalers"],
    ),
    (
        BUDGET,
        &["pdb", "poddisruptionbudget", "poddisruptionbudgets"],
    ),
];

/// Returns the kind of [`WORDS`] that a word stands for, in any case of its letters; its group may follow (`deployments.apps`), as
/// `kubectl get -o name` has it.
#[must_use]
pub fn of_word(word: &str) -> Option<&'static str> {
    let word = word.split('.').next().unwrap_or(word);
    let mut all = WORDS.iter();
    let (kind, _) = all.find(|(_, words)| words.iter().any(|w| w.eq_ignore_ascii_case(word)))?;
    Some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_stands_for_one_kind_and_the_kind_for_itself() {
        for (kind, words) in WORDS {
            assert_eq!(of_word(kind), Some(kind));
            for word in words {
                assert_eq!(of_word(word), Some(kind), "{word}");
                let of_group = format!("{word}.apps");
                assert_eq!(of_word(&of_group), Some(kind), "{of_group}");
            }
        }
        assert_eq!(of_word("all"), None);
    }
}
