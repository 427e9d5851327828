//! The objects of an installation. Both the objects that are applied and the YAML that is printed are made from one
//! text. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::Object;

/// Name of the DaemonSet.
pub(crate) const DAEMON_SET: &str = "kflow-agent";
/// Label of every object of an installation; its value is `kflow`.
pub(crate) const PART_OF: &str = "app.kubernetes.io/part-of";

/// What may differ between installations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub namespace: String,
    pub image: String,
    /// Secret with which the nodes pull the image.
    pub pull_secret: Option<String>,
    /// Labels that a node has to have, besides `kubernetes.io/os`.
    pub node_selector: BTreeMap<String, String>,
    /// Secret whose keys become the agents' environment variables.
    pub env_secret: Option<String>,
    /// Arguments of `kflow agent run`.
    pub args: Vec<String>,
}

/// Why a manifest cannot be made.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `metav1.ObjectMeta` does not accept this name.
    #[error("{0:?} is no name of a namespace: lower-case letters, digits and -")]
    Namespace(String),
    /// An image reference has no blanks, quotes or line ends.
    #[error("{0:?} is no image: name one like registry.example/kflow:0.1.0")]
    Image(String),
    #[error("{0:?} is no name of a secret: lower-case letters, digits, - and .")]
    Secret(String),
    /// `metav1.LabelSelector` does not accept the label, or it is the manifest's own label.
    #[error(
        "{key:?}={value:?} is no label to choose nodes by: name one like example.com/pool=blue; kubernetes.io/os is linux"
    )]
    Label { key: String, value: String },
    #[error("the argument {0:?} has characters that nobody types")]
    Argument(String),
    /// The embedded text does not have the expected form, which is a bug.
    #[error("the embedded manifest cannot be read (a bug): {0}")]
    Embedded(String),
}

/// The label by which the manifest itself selects nodes.
const SYSTEM: &str = "kubernetes.io/os";
/// The agents' command before its arguments.
const COMMAND: [&str; 3] = ["/kflow", "agent", "run"];

/// Returns the arguments of the agents of a DaemonSet; `None` when its pods are no agents, but remove what agents left
/// ([`cleaning`]).
pub(crate) fn arguments(set: &Value) -> Option<Vec<String>> {
    let command = set.pointer("/spec/template/spec/containers/0/command")?;
    let mut words = command
        .as_array()?
        .iter()
        .map(|w| w.as_str().unwrap_or_default());
    let is_run = COMMAND.iter().all(|word| words.next() == Some(word));
    is_run.then(|| words.map(str::to_owned).collect())
}

impl Wanted {
    /// Returns a copy in which everything left open is as in the DaemonSet that exists.
    #[must_use]
    pub(crate) fn or_as_there(&self, set: &Value) -> Self {
        let mut wanted = self.clone();
        let Some(pod) = set.pointer("/spec/template/spec") else {
            return wanted;
        };
        let text = |path: &str| Some(pod.pointer(path)?.as_str()?.to_owned());
        let strings = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        if wanted.pull_secret.is_none() {
            wanted.pull_secret = text("/imagePullSecrets/0/name");
        }
        if wanted.env_secret.is_none() {
            wanted.env_secret = text("/containers/0/envFrom/0/secretRef/name");
        }
        if wanted.args.is_empty() {
            wanted.args = arguments(set).unwrap_or_default();
        }
        if wanted.node_selector.is_empty() {
            let all = pod.get("nodeSelector").and_then(Value::as_object);
            let labels = all.into_iter().flatten().filter(|(key, _)| *key != SYSTEM);
            wanted.node_selector = labels.map(|(k, v)| (k.clone(), strings(v))).collect();
        }
        wanted
    }
}

/// Returns the manifest as YAML, with the reason for each right as a comment.
pub fn yaml(wanted: &Wanted) -> Result<String, Error> {
    if !is_name(&wanted.namespace, 63, "") {
        return Err(Error::Namespace(wanted.namespace.clone()));
    }
    let secret = |name: &Option<String>, before: &str| match name {
        Some(name) if !is_name(name, 253, ".") => Err(Error::Secret(name.clone())),
        Some(name) => Ok(format!("{before}{name}")),
        None => Ok(String::new()),
    };
    let mut labels = String::new();
    for (key, value) in &wanted.node_selector {
        if key == SYSTEM || !is_label(key, value) {
            let (key, value) = (key.clone(), value.clone());
            return Err(Error::Label { key, value });
        }
        labels.push_str(&format!("\n        {key}: {}", Value::from(value.as_str())));
    }
    let mut args = String::new();
    for arg in &wanted.args {
        if arg.chars().any(char::is_control) {
            return Err(Error::Argument(arg.clone()));
        }
        args.push_str(&format!(", {}", Value::from(arg.as_str())));
    }
    let text = include_str!("agent.yaml")
        .replace("@NAMESPACE@", &wanted.namespace)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@PULL_SECRET@", &secret(&wanted.pull_secret, PULL_SECRET)?)
        .replace("@ENV_SECRET@", &secret(&wanted.env_secret, ENV_SECRET)?)
        .replace("@NODE_SELECTOR@", &labels)
        .replace("@ARGS@", &args);
    with_image(&text, &wanted.image)
}

const PULL_SECRET: &str = "\n      imagePullSecrets:\n        - name: ";
const ENV_SECRET: &str = "\n          envFrom:\n            - secretRef:\n                name: ";

/// Returns the manifest as a template of a Helm chart, without the Namespace: it is the release's, and exists before
/// any object of the release.
pub fn chart() -> Result<String, Error> {
    let text = include_str!("agent.yaml");
    let (_, rest) = text
        .split_once("\n---\n")
        .ok_or_else(|| Error::Embedded("it is one object".to_owned()))?;
    let with = |value: &str, before: &str| {
        format!("{{{{ with .Values.{value} }}}}{before}{{{{ toJson . }}}}{{{{ end }}}}")
    };
    let fills = [
        ("@NAMESPACE@", "{{ .Release.Namespace }}".to_owned()),
        ("@VERSION@", "{{ .Chart.AppVersion }}".to_owned()),
        ("@IMAGE@", "{{ required \"image: name one like registry.example/kflow:0.1.0\" .Values.image | toJson }}".to_owned()),
        ("@PULL_SECRET@", with("pullSecret", PULL_SECRET)),
        ("@ENV_SECRET@", with("envSecret", ENV_SECRET)),
        ("@NODE_SELECTOR@", "{{ range $key, $value := .Values.nodeSelector }}\n        {{ toJson $key }}: {{ toJson $value }}{{ end }}".to_owned()),
        ("@ARGS@", "{{ range .Values.args }}, {{ toJson . }}{{ end }}".to_owned()),
    ];
    let filled = fills.iter().fold(rest.to_owned(), |text, (mark, with)| {
        text.replace(mark, with)
    });
    Ok(format!(
        "# Made of the manifest that `kflow agent install --dry-run` prints; a test compares them.\n{filled}"
    ))
}

fn is_name(name: &str, longest: usize, more: &str) -> bool {
    let inner =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || more.contains(c);
    let outer = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= longest
        && name.chars().all(inner)
        && name.starts_with(outer)
        && name.ends_with(outer)
}

/// As in `apimachinery/pkg/util/validation`, `IsQualifiedName` and `IsValidLabelValue`.
fn is_label(key: &str, value: &str) -> bool {
    let part = |text: &str| {
        let outer = |c: char| c.is_ascii_alphanumeric();
        let inner = |c: char| outer(c) || "-_.".contains(c);
        text.len() <= 63
            && text.chars().all(inner)
            && text.starts_with(outer)
            && text.ends_with(outer)
    };
    let key = match key.split_once('/') {
        Some((prefix, name)) => is_name(prefix, 253, ".") && part(name),
        None => part(key),
    };
    key && (value.is_empty() || part(value))
}

/// Inserts the image, whose characters have to be those of `distribution/reference`: path, tag and digest.
fn with_image(text: &str, image: &str) -> Result<String, Error> {
    let is_reference = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    if !image.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !image.chars().all(is_reference)
        || image.ends_with(':')
    {
        return Err(Error::Image(image.to_owned()));
    }
    Ok(text.replace("@IMAGE@", image))
}

fn embedded(text: &str) -> Result<Value, Error> {
    serde_saphyr::from_str(text).map_err(|e| Error::Embedded(e.to_string()))
}

/// Returns the manifest as objects, in the order in which they are created.
pub(crate) fn objects(wanted: &Wanted) -> Result<Vec<Object>, Error> {
    let text = yaml(wanted)?;
    let object = |text| {
        let value = embedded(text)?;
        Object::of(value).ok_or_else(|| Error::Embedded("an object has no name".to_owned()))
    };
    text.split("\n---\n").map(object).collect()
}

/// Returns the DaemonSet with only its name and namespace.
pub(crate) fn daemon_set(namespace: &str) -> Result<Object, Error> {
    let value = serde_json::json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": DAEMON_SET, "namespace": namespace},
    });
    Object::of(value).ok_or_else(|| Error::Embedded("an object has no name".to_owned()))
}

/// Returns a Node with only its name.
pub(crate) fn node(name: &str) -> Result<Object, Error> {
    let value = serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    Object::of(value).ok_or_else(|| Error::Embedded("an object has no name".to_owned()))
}

/// Returns the pod template of the agents' DaemonSet.
pub(crate) fn pod_template(image: &str) -> Result<Value, Error> {
    let wanted = Wanted {
        namespace: "kflow".to_owned(),
        image: image.to_owned(),
        ..Wanted::default()
    };
    let mut all = objects(&wanted)?.into_iter();
    let set = all.find(|o| o.kind == "DaemonSet");
    let template = set.and_then(|s| s.value.pointer("/spec/template").cloned());
    template.ok_or_else(|| Error::Embedded("there is no DaemonSet".to_owned()))
}

/// Returns the template and update strategy of a DaemonSet whose pods remove the agent's files from their nodes.
pub(crate) fn cleaning(image: &str) -> Result<(Value, Value), Error> {
    let mut all = embedded(&with_image(include_str!("clean.yaml"), image)?)?;
    let mut part = |name: &str| all.get_mut(name).map_or(Value::Null, Value::take);
    Ok((part("template"), part("updateStrategy")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(namespace: &str, image: &str) -> Wanted {
        Wanted {
            namespace: namespace.to_owned(),
            image: image.to_owned(),
            ..Wanted::default()
        }
    }

    #[test]
    fn names_are_put_in_everywhere() {
        let text = yaml(&wanted("tools", "127.0.0.1:5000/kflow@sha256:00")).unwrap();
        assert!(text.contains("image: 127.0.0.1:5000/kflow@sha256:00\n"));
        assert_eq!(text.matches("namespace: tools\n").count(), 4);
        assert!(
            !text.contains('@') || text.matches('@').count() == 1,
            "{text}"
        );
    }

    #[test]
    fn it_is_a_list_of_objects_that_are_labelled_as_kflows() {
        let all = objects(&wanted("tools", "kflow:1")).unwrap();
        let names: Vec<_> = all.iter().map(Object::what).collect();
        assert_eq!(
            names,
            [
                "Namespace tools",
                "ServiceAccount tools/kflow-agent",
                "ClusterRole kflow-agent",
                "ClusterRoleBinding kflow-agent",
                "Role tools/kflow-viewer",
                "DaemonSet tools/kflow-agent",
            ]
        );
        for o in &all {
            assert_eq!(
                o.value["metadata"]["labels"][PART_OF],
                "kflow",
                "{}",
                o.what()
            );
        }
        assert_eq!(daemon_set("tools").unwrap().what(), names[5]);
    }

    #[test]
    fn what_cleans_is_chosen_by_the_daemon_sets_selector() {
        let all = objects(&wanted("tools", "kflow:1")).unwrap();
        let (template, strategy) = cleaning("kflow:1").unwrap();
        let wants = &all[5].value["spec"]["selector"]["matchLabels"];
        for (label, value) in wants.as_object().unwrap() {
            assert_eq!(&template["metadata"]["labels"][label], value);
        }
        assert_eq!(template["spec"]["initContainers"][0]["image"], "kflow:1");
        assert_eq!(strategy["rollingUpdate"]["maxUnavailable"], "100%");
    }

    #[test]
    fn nothing_else_can_be_written_into_it() {
        for bad in ["", "-", "a b", "A", "a\nkind: x", &"a".repeat(64)] {
            assert!(yaml(&wanted(bad, "kflow:1")).is_err(), "{bad}");
        }
        for bad in ["", "a b", "a\nx", ":1", "kflow:", "\"x\""] {
            assert!(yaml(&wanted("kflow", bad)).is_err(), "{bad}");
        }
        let all = wanted("kflow", "kflow:1");
        for bad in ["", "A", "a\nx", ".a", "a: b"] {
            let (pull_secret, env_secret) = (Some(bad.to_owned()), None);
            let secret = Wanted {
                pull_secret,
                env_secret,
                ..all.clone()
            };
            assert!(yaml(&secret).is_err(), "{bad}");
            let (env_secret, pull_secret) = (Some(bad.to_owned()), None);
            let secret = Wanted {
                pull_secret,
                env_secret,
                ..all.clone()
            };
            assert!(yaml(&secret).is_err(), "{bad}");
        }
        for (key, value) in [
            ("", "a"),
            ("a b", "a"),
            ("A/a", "a"),
            ("a", "a\nb: c"),
            (SYSTEM, "windows"),
        ] {
            let node_selector = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            assert!(
                yaml(&Wanted {
                    node_selector,
                    ..all.clone()
                })
                .is_err(),
                "{key}={value}"
            );
        }
        let args = vec!["a\nb".to_owned()];
        assert!(yaml(&Wanted { args, ..all }).is_err());
    }

    #[test]
    fn what_an_upgrade_does_not_name_is_as_it_was() {
        let full = Wanted {
            pull_secret: Some("pull".to_owned()),
            env_secret: Some("store.credentials".to_owned()),
            node_selector: BTreeMap::from([
                ("example.com/pool".to_owned(), "true".to_owned()),
                ("zone".to_owned(), String::new()),
            ]),
            args: ["--store", "s3://b/a \"c\": {{ x }}", "--no-api"]
                .map(str::to_owned)
                .to_vec(),
            ..wanted("tools", "kflow:1")
        };
        let set = |w: &Wanted| objects(w).unwrap().pop().unwrap().value;
        let there = set(&full);
        let pod = &there["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"]["example.com/pool"], "true");
        assert_eq!(pod["containers"][0]["command"][4], full.args[1].as_str());
        let image = || wanted("tools", "kflow:2");
        let upgraded = image().or_as_there(&there);
        assert_eq!(
            upgraded,
            Wanted {
                image: "kflow:2".to_owned(),
                ..full.clone()
            }
        );
        assert_eq!(full.or_as_there(&set(&image())), full);
        assert_eq!(image().or_as_there(&set(&image())), image());
    }

    #[test]
    fn a_chart_has_a_value_for_all_that_may_differ() {
        let text = chart().unwrap();
        assert!(!text.contains("kind: Namespace\n") && text.contains("kind: DaemonSet\n"));
        let mark = text.split('@').nth(1);
        assert_eq!(mark, None, "a mark is left");
    }
}
