//! What an installation is made of: one text, of which what is applied and what is printed are made. Pure.

use serde_json::Value;

use crate::objects::Object;

/// Name of the DaemonSet.
pub(crate) const DAEMON_SET: &str = "kflow-agent";
/// Label of all that an installation makes; its value is `kflow`.
pub(crate) const PART_OF: &str = "app.kubernetes.io/part-of";

/// What may differ between installations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub namespace: String,
    pub image: String,
}

/// What cannot be written into a manifest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `metav1.ObjectMeta` takes none of this name.
    #[error("{0:?} is no name of a namespace: lower-case letters, digits and -")]
    Namespace(String),
    /// A reference has no blanks, quotes or line ends.
    #[error("{0:?} is no image: name one like registry.example/kflow:0.1.0")]
    Image(String),
    /// What is embedded is not what it is taken for, which only a bug makes so.
    #[error("the embedded manifest cannot be read (a bug): {0}")]
    Embedded(String),
}

/// The manifest as YAML, with the reason for each right as a comment.
pub fn yaml(wanted: &Wanted) -> Result<String, Error> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let namespace = &wanted.namespace;
    if namespace.is_empty()
        || namespace.len() > 63
        || !namespace.chars().all(is_name)
        || namespace.starts_with('-')
        || namespace.ends_with('-')
    {
        return Err(Error::Namespace(namespace.clone()));
    }
    let text = include_str!("agent.yaml")
        .replace("@NAMESPACE@", namespace)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    with_image(&text, &wanted.image)
}

/// `distribution/reference`: path, tag and digest.
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

/// The same as objects, in the order in which they are made.
pub(crate) fn objects(wanted: &Wanted) -> Result<Vec<Object>, Error> {
    let text = yaml(wanted)?;
    let object = |text| {
        let value = embedded(text)?;
        Object::of(value).ok_or_else(|| Error::Embedded("an object has no name".to_owned()))
    };
    text.split("\n---\n").map(object).collect()
}

/// The DaemonSet by its name.
pub(crate) fn daemon_set(namespace: &str) -> Result<Object, Error> {
    let value = serde_json::json!({
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": DAEMON_SET, "namespace": namespace},
    });
    Object::of(value).ok_or_else(|| Error::Embedded("an object has no name".to_owned()))
}

/// A node by its name.
pub(crate) fn node(name: &str) -> Result<Object, Error> {
    let value = serde_json::json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
    Object::of(value).ok_or_else(|| Error::Embedded("an object has no name".to_owned()))
}

/// The pod of an agent as the DaemonSet makes it.
pub(crate) fn pod_template(image: &str) -> Result<Value, Error> {
    let wanted = Wanted {
        namespace: "kflow".to_owned(),
        image: image.to_owned(),
    };
    let mut all = objects(&wanted)?.into_iter();
    let set = all.find(|o| o.kind == "DaemonSet");
    let template = set.and_then(|s| s.value.pointer("/spec/template").cloned());
    template.ok_or_else(|| Error::Embedded("there is no DaemonSet".to_owned()))
}

/// Template and update strategy of a DaemonSet whose pods remove the agent's files from their nodes.
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
    }
}
