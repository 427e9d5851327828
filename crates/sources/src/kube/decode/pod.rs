//! The fields of a Pod that kflow reads.

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

mod status;
mod volume;

use volume::RawVolume;

use super::super::super::Fed;
use super::json::{MESSAGE, Meta, N, Scalar, cut, pairs};
use kflow_model::{
    PodUid, Text,
    pod::{ContainerSpec, PodSeen, PodSpec, ProbeSpec, Toleration, VolumeSpec, WatchEvent},
};

/// Reason for what is malformed.
pub(super) const NO_UID: &str = "pod without name or uid";

pub(super) fn decode(json: &[u8], event: WatchEvent) -> Result<PodSeen, Fed> {
    let raw: RawPod = serde_json::from_slice(json)
        .map_err(|_| Fed::Malformed("not a pod as the API writes it"))?;
    let mut meta = raw.metadata.0;
    if meta.uid.0.is_empty() || meta.name.0.is_empty() {
        return Err(Fed::Malformed(NO_UID));
    }
    let annotations = std::mem::take(&mut meta.annotations.0);
    let mirror = annotations.mirror.0;
    let mut spec = raw.spec.0.into_model();
    for group in [annotations.group.0, annotations.volcano_group.0] {
        if spec.pod_group.is_empty() {
            spec.pod_group = group;
        }
    }
    Ok(PodSeen {
        event,
        resource_version: meta.version(),
        generation: meta.generation.0,
        created: meta.created(),
        deletion: meta.deletion_timestamp.at(),
        deletion_grace_s: meta.deletion_grace_period_seconds,
        labels: meta.labels(),
        owner: meta.controller(),
        mirror_of: (!mirror.is_empty()).then(|| PodUid(mirror)),
        uid: PodUid(meta.uid.0),
        namespace: meta.namespace.0,
        name: meta.name.0,
        finalizers: meta.finalizers.0,
        spec,
        status: raw.status.0.into_model(),
    })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawPod {
    metadata: N<Meta>,
    spec: N<RawSpec>,
    status: N<status::RawStatus>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec {
    node_name: N<Text>,
    scheduler_name: N<Text>,
    restart_policy: N<Text>,
    priority_class_name: N<Text>,
    priority: N<i32>,
    runtime_class_name: N<Text>,
    service_account_name: N<Text>,
    host_network: N<bool>,
    termination_grace_period_seconds: Option<i64>,
    active_deadline_seconds: Option<i64>,
    node_selector: N<BTreeMap<Text, N<Text>>>,
    affinity: Option<serde_json::Value>,
    topology_spread_constraints: Option<serde_json::Value>,
    tolerations: N<Vec<RawToleration>>,
    scheduling_gates: N<Vec<Named>>,
    scheduling_group: N<RawGroup>,
    workload_ref: N<RawGroup>,
    resource_claims: N<Vec<RawClaim>>,
    readiness_gates: N<Vec<Gate>>,
    image_pull_secrets: N<Vec<Named>>,
    volumes: N<Vec<RawVolume>>,
    init_containers: N<Vec<RawContainer>>,
    containers: N<Vec<RawContainer>>,
    ephemeral_containers: N<Vec<Named>>,
    resources: N<Resources>,
    security_context: N<SecurityContext>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Named {
    name: N<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawClaim {
    resource_claim_name: N<Text>,
    resource_claim_template_name: N<Text>,
}

impl RawClaim {
    fn refers(self) -> Text {
        if self.resource_claim_name.0.is_empty() {
            format!("template/{}", self.resource_claim_template_name.0).into()
        } else {
            self.resource_claim_name.0
        }
    }
}

/// `schedulingGroup` of 1.36 and `workloadRef` of 1.35.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawGroup {
    pod_group_name: N<Text>,
    name: N<Text>,
    pod_group: N<Text>,
}

impl RawGroup {
    fn named(self) -> Text {
        match (self.pod_group_name.0, self.name.0) {
            (group, _) if !group.is_empty() => group,
            (_, workload) if workload.is_empty() => workload,
            (_, workload) => format!("{workload}/{}", self.pod_group.0).into(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Gate {
    condition_type: N<Text>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct SecurityContext {
    run_as_non_root: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawToleration {
    key: N<Text>,
    operator: N<Text>,
    value: N<Text>,
    effect: N<Text>,
    toleration_seconds: Option<i64>,
}

impl RawToleration {
    /// Returns true for the two tolerations that the admission plugin DefaultTolerationSeconds adds to every pod.
    fn is_default(&self) -> bool {
        matches!(
            self.key.0.as_str(),
            "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"
        ) && self.operator.0 == "Exists"
            && self.effect.0 == "NoExecute"
            && self.toleration_seconds == Some(300)
    }
}

impl RawSpec {
    fn into_model(self) -> PodSpec {
        let non_root = self.security_context.0.run_as_non_root;
        let containers = |raw: Vec<RawContainer>| {
            raw.into_iter()
                .map(|c| c.into_model(non_root))
                .collect::<Vec<_>>()
        };
        PodSpec {
            node: self.node_name.0,
            scheduler: if self.scheduler_name.0 == "default-scheduler" {
                Text::default()
            } else {
                self.scheduler_name.0
            },
            restart_policy: self.restart_policy.0,
            priority_class: self.priority_class_name.0,
            priority: self.priority.0,
            runtime_class: self.runtime_class_name.0,
            service_account: self.service_account_name.0,
            host_network: self.host_network.0,
            termination_grace_s: self.termination_grace_period_seconds,
            active_deadline_s: self.active_deadline_seconds,
            node_selector: pairs(self.node_selector.0),
            affinity: compact(self.affinity.as_ref()),
            topology_spread: compact(self.topology_spread_constraints.as_ref()),
            tolerations: self
                .tolerations
                .0
                .into_iter()
                .filter(|t| !t.is_default())
                .map(|t| Toleration {
                    key: t.key.0,
                    operator: t.operator.0,
                    value: t.value.0,
                    effect: t.effect.0,
                })
                .collect(),
            scheduling_gates: names(self.scheduling_gates.0),
            pod_group: match self.scheduling_group.0.named() {
                group if group.is_empty() => self.workload_ref.0.named(),
                group => group,
            },
            resource_claims: self
                .resource_claims
                .0
                .into_iter()
                .map(RawClaim::refers)
                .collect(),
            requests: pairs(self.resources.0.requests.0),
            limits: pairs(self.resources.0.limits.0),
            readiness_gates: self
                .readiness_gates
                .0
                .into_iter()
                .map(|g| g.condition_type.0)
                .collect(),
            image_pull_secrets: names(self.image_pull_secrets.0),
            volumes: self.volumes.0.into_iter().map(|v| v.0).collect(),
            init_containers: containers(self.init_containers.0),
            containers: containers(self.containers.0),
            ephemeral_containers: names(self.ephemeral_containers.0),
        }
    }
}

fn names(raw: Vec<Named>) -> Vec<Text> {
    raw.into_iter().map(|n| n.name.0).collect()
}

/// Returns compact JSON with sorted keys, whatever the white space of the input; empty for an empty value.
fn compact(value: Option<&serde_json::Value>) -> Text {
    match value {
        Some(v @ serde_json::Value::Object(m)) if !m.is_empty() => cut(&v.to_string(), MESSAGE),
        Some(v @ serde_json::Value::Array(a)) if !a.is_empty() => cut(&v.to_string(), MESSAGE),
        _ => Text::default(),
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawContainer {
    name: N<Text>,
    image: N<Text>,
    image_pull_policy: N<Text>,
    restart_policy: N<Text>,
    resources: N<Resources>,
    startup_probe: Option<RawProbe>,
    liveness_probe: Option<RawProbe>,
    readiness_probe: Option<RawProbe>,
    lifecycle: N<Lifecycle>,
    ports: N<Vec<Port>>,
    env: N<Vec<Env>>,
    env_from: N<Vec<EnvFrom>>,
    security_context: N<SecurityContext>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Resources {
    requests: N<BTreeMap<Text, Scalar>>,
    limits: N<BTreeMap<Text, Scalar>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Port {
    host_port: N<i32>,
}

/// An environment variable: only where its value is taken from. This struct does not name the value itself.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Env {
    value_from: N<EnvSource>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct EnvSource {
    config_map_key_ref: Option<Named>,
    secret_key_ref: Option<Named>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct EnvFrom {
    config_map_ref: Option<Named>,
    secret_ref: Option<Named>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Lifecycle {
    post_start: Option<Handler>,
    pre_stop: Option<Handler>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Handler {
    exec: Option<IgnoredAny>,
    http_get: Option<Target>,
    tcp_socket: Option<Target>,
    grpc: Option<Target>,
    sleep: Option<IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Target {
    /// Empty, almost always: the pod's own address.
    host: N<Text>,
    port: Option<Scalar>,
    path: N<Text>,
}

impl Target {
    /// Returns `:8080/healthz` or `127.0.0.1:8080/healthz`, without the query, which may hold a token.
    fn text(&self) -> String {
        let port = self.port.as_ref().map_or("", |p| p.0.as_str());
        let path = self.path.0.split('?').next().unwrap_or_default();
        format!("{}:{port}{path}", self.host.0)
    }
}

impl Handler {
    fn kind(&self) -> &'static str {
        if self.exec.is_some() {
            "exec"
        } else if self.http_get.is_some() {
            "httpGet"
        } else if self.tcp_socket.is_some() {
            "tcpSocket"
        } else if self.grpc.is_some() {
            "grpc"
        } else if self.sleep.is_some() {
            "sleep"
        } else {
            ""
        }
    }
    fn text(&self) -> Text {
        match self
            .http_get
            .as_ref()
            .or(self.tcp_socket.as_ref())
            .or(self.grpc.as_ref())
        {
            Some(target) if self.exec.is_none() => {
                format!("{} {}", self.kind(), target.text()).into()
            }
            _ => self.kind().into(),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct RawProbe {
    #[serde(flatten)]
    handler: Handler,
    initial_delay_seconds: N<i32>,
    period_seconds: N<i32>,
    timeout_seconds: N<i32>,
    failure_threshold: N<i32>,
}

impl RawProbe {
    fn into_model(self, kind: &str) -> ProbeSpec {
        ProbeSpec {
            kind: kind.into(),
            handler: self.handler.text(),
            initial_delay_s: self.initial_delay_seconds.0,
            period_s: self.period_seconds.0,
            timeout_s: self.timeout_seconds.0,
            failure_threshold: self.failure_threshold.0,
        }
    }
}

impl RawContainer {
    fn into_model(self, pod_non_root: Option<bool>) -> ContainerSpec {
        let mut env_refs: Vec<Text> = Vec::new();
        let mut refer = |kind: &str, named: Option<Named>| {
            if let Some(n) = named {
                env_refs.push(format!("{kind}/{}", n.name.0).into());
            }
        };
        for e in self.env_from.0 {
            refer("configMap", e.config_map_ref);
            refer("secret", e.secret_ref);
        }
        for e in self.env.0 {
            refer("configMap", e.value_from.0.config_map_key_ref);
            refer("secret", e.value_from.0.secret_key_ref);
        }
        env_refs.sort();
        env_refs.dedup();
        let probes = [
            (self.startup_probe, "startup"),
            (self.liveness_probe, "liveness"),
            (self.readiness_probe, "readiness"),
        ];
        let hook = |h: Option<Handler>| h.map_or("", |h| h.kind()).into();
        ContainerSpec {
            name: self.name.0,
            image: self.image.0,
            pull_policy: self.image_pull_policy.0,
            sidecar: self.restart_policy.0 == "Always",
            requests: pairs(self.resources.0.requests.0),
            limits: pairs(self.resources.0.limits.0),
            probes: probes
                .into_iter()
                .filter_map(|(p, kind)| p.map(|p| p.into_model(kind)))
                .collect(),
            post_start: hook(self.lifecycle.0.post_start),
            pre_stop: hook(self.lifecycle.0.pre_stop),
            host_ports: self
                .ports
                .0
                .iter()
                .map(|p| p.host_port.0)
                .filter(|p| *p != 0)
                .collect(),
            env_refs,
            run_as_non_root: self
                .security_context
                .0
                .run_as_non_root
                .or(pod_non_root)
                .unwrap_or(false),
        }
    }
}
