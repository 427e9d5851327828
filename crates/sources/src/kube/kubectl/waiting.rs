//! Sentences of programs that say how a pod is: the apiserver's refusal of a log, what `kubectl run` and gitlab-runner print while
//! they wait, alerts, and `oc status`.

use serde_json::{Map, Value, json};

use super::Moment;
use super::attribute::Named;
use super::pod::put;
use super::pods::{ROW_UID, WAITS, is_name};

/// What such a sentence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) pod: Named,
    /// The container that waits, and the reason for which it does.
    container: Option<(String, &'static str)>,
}

/// Reasons of waiting containers that the kubelet puts into words; it writes all others as they are (1.36:
/// pkg/kubelet/kubelet_pods.go, `validateContainerLogStatus`).
const IN_WORDS: [(&str, &str); 2] = [
    ("image can't be pulled", "ErrImagePull"),
    ("trying and failing to pull image", "ImagePullBackOff"),
];

impl Waiting {
    /// Reads a line; `None` for every other one.
    pub(super) fn of(line: &str) -> Option<Self> {
        let line = line.replace("\\\"", "\"");
        Self::of_log(&line)
            .or_else(|| Self::of_runner(&line))
            .or_else(|| Self::of_alert(&line))
            .or_else(|| Self::of_status(&line))
    }

    fn of_container(namespace: &str, pod: &str, container: &str, reason: &str) -> Option<Self> {
        let reason = WAITS.iter().find(|known| **known == reason)?;
        let is_one = is_name(pod) && is_name(container);
        is_one.then(|| Self {
            pod: Named {
                namespace: namespace.to_owned(),
                name: pod.to_owned(),
            },
            container: Some((container.to_owned(), reason)),
        })
    }

    /// `container "c" in pod "web-0" is waiting to start: ContainerCreating`
    fn of_log(line: &str) -> Option<Self> {
        let (front, said) = line.split_once("\" is waiting to start: ")?;
        let (front, pod) = front.rsplit_once("\" in pod \"")?;
        let (_, container) = front.rsplit_once("container \"")?;
        let as_they_are = WAITS.iter().map(|reason| (*reason, *reason));
        let mut reasons = IN_WORDS.into_iter().chain(as_they_are);
        let (_, reason) = reasons.find(|(words, _)| said.starts_with(words))?;
        Self::of_container("", pod, container, reason)
    }

    /// `Pod shop/web-0 (c) is in waiting state (reason: "CrashLoopBackOff")` or `pod/web-0 in namespace shop on container c has been in
    /// waiting state for longer than 1 hour. (reason: "ImagePullBackOff")`: `KubePodCrashLooping` and `KubeContainerWaiting`
    /// (kubernetes-mixin, alerts/apps_alerts.libsonnet).
    fn of_alert(line: &str) -> Option<Self> {
        let (front, said) = line.split_once(" in waiting state")?;
        let (_, reason) = said.split_once("(reason: \"")?;
        let (reason, _) = reason.split_once('"')?;
        if let Some(front) = front.strip_suffix(") is") {
            let (pod, container) = front.rsplit_once(" (")?;
            let (namespace, pod) = pod.rsplit(' ').next()?.split_once('/')?;
            let of_one = Self::of_container(namespace, pod, container, reason);
            return of_one.filter(|_| is_name(namespace));
        }
        let (front, container) = front
            .strip_suffix(" has been")?
            .rsplit_once(" on container ")?;
        let (front, namespace) = front.rsplit_once(" in namespace ")?;
        let (_, pod) = front.rsplit_once('/')?;
        Self::of_container(namespace, pod, container, reason).filter(|_| is_name(namespace))
    }

    /// `* container "c" in pod/web-0 is crash-looping` (openshift/oc, `oc status`).
    fn of_status(line: &str) -> Option<Self> {
        let (front, _) = line.split_once(" is crash-looping")?;
        let (front, pod) = front.rsplit_once("\" in pod/")?;
        let (_, container) = front.rsplit_once("container \"")?;
        Self::of_container("", pod, container, "CrashLoopBackOff")
    }

    /// `Waiting for pod ci/runner-0 to be running, status is Pending`
    fn of_runner(line: &str) -> Option<Self> {
        let (_, rest) = line.split_once("Waiting for pod ")?;
        let (pod, said) = rest.split_once(" to be running, status is ")?;
        let (namespace, name) = pod.split_once('/')?;
        let is_one = said.starts_with("Pending") && is_name(namespace) && is_name(name);
        is_one.then(|| Self {
            pod: Named {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            },
            container: None,
        })
    }

    /// Returns the pod as the API would have written it. It was there at `moment`; since when is not told.
    pub(super) fn object(&self, moment: Moment) -> Value {
        let Named { namespace, name } = &self.pod;
        let mut metadata = Map::new();
        put(&mut metadata, "name", Some(name));
        put(&mut metadata, "namespace", Some(namespace));
        put(
            &mut metadata,
            "uid",
            Some(&format!("{ROW_UID}{namespace}/{name}")),
        );
        let there = moment.0.to_rfc3339_seconds();
        put(&mut metadata, "creationTimestamp", Some(&there));
        let (mut spec, mut status) = (Map::new(), Map::new());
        put(&mut status, "phase", Some("Pending"));
        // The kubelet answers for the pods of its node alone.
        let bound = if self.container.is_some() {
            "True"
        } else {
            "Unknown"
        };
        status.insert(
            "conditions".into(),
            json!([{"type": "PodScheduled", "status": bound}, {"type": "Ready", "status": "False"}]),
        );
        if let Some((container, reason)) = &self.container {
            spec.insert("containers".into(), json!([{"name": container}]));
            let state = json!({"waiting": {"reason": reason}});
            status.insert(
                "containerStatuses".into(),
                json!([{"name": container, "ready": false, "restartCount": 0, "state": state}]),
            );
        }
        json!({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of public reports, whose addresses are in `fixtures/reports.tsv`.
    #[test]
    fn a_sentence_says_how_a_pod_is() {
        for (line, want) in [
            (
                "Error from server (BadRequest): container \"prefect-agent\" in pod \"prefect-agent-768c7844b4-b2frc\" is waiting to start: CreateContainerConfigError",
                Some("/prefect-agent-768c7844b4-b2frc prefect-agent CreateContainerConfigError"),
            ),
            (
                "it says container \\\"c\\\" in pod \\\"web-0\\\" is waiting to start: trying and failing to pull image.",
                Some("/web-0 c ImagePullBackOff"),
            ),
            (
                "Waiting for pod gitlab-runner-namespace/runner-eebxo6ax-project-12739762-concurrent-3zzpmw to be running, status is Pending",
                Some(
                    "gitlab-runner-namespace/runner-eebxo6ax-project-12739762-concurrent-3zzpmw  ",
                ),
            ),
            (
                "Pod umami/umami-96556c76f-9qw2x (umami) is in waiting state (reason: \"CrashLoopBackOff\") on cluster .</td>",
                Some("umami/umami-96556c76f-9qw2x umami CrashLoopBackOff"),
            ),
            // Made from the alert's template.
            (
                "pod/pod-0 in namespace ns1 on container container1 has been in waiting state for longer than 1 hour. (reason: \"CreateContainerConfigError\") on cluster kubernetes.",
                Some("ns1/pod-0 container1 CreateContainerConfigError"),
            ),
            (
                "Pod ns1/pod-0 (container1) is in waiting state (reason: \"Soon\").",
                None,
            ),
            (
                "  * container \"gitlab-ce\" in pod/gitlab-ce-2-3nb01 is crash-looping",
                Some("/gitlab-ce-2-3nb01 gitlab-ce CrashLoopBackOff"),
            ),
            (
                "container \"C\" in pod \"web-0\" is waiting to start: ContainerCreating",
                None,
            ),
            (
                "container \"c\" in pod \"web-0\" is waiting to start: soon",
                None,
            ),
            (
                "Waiting for pod ci/web-0 to be running, status is Running",
                None,
            ),
            (
                "previous terminated container \"c\" in pod \"web-0\" not found",
                None,
            ),
        ] {
            let got = Waiting::of(line).map(|w| {
                let (container, reason) = w.container.unwrap_or_default();
                format!("{}/{} {container} {reason}", w.pod.namespace, w.pod.name)
            });
            assert_eq!(got.as_deref(), want, "{line}");
        }
    }
}
