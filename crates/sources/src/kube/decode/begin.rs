//! What the begin of a file tells about the objects in it, without decoding them.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lines::kind_by_fields;

/// The kind of an object, and the group of its API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub kind: String,
    pub group: String,
}

/// Returns the kind of the first object in JSON; an empty one where nothing tells it, `None` where that object's end is not there.
pub fn first_kind(begin: &[u8]) -> Option<Named> {
    let text = begin.trim_ascii_start();
    let text = text.strip_prefix(b"[").unwrap_or(text);
    let mut documents = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    let object = documents.next()?.ok()?.get();
    let told: Envelope<'_> = serde_json::from_str(object).unwrap_or_default();
    let kind = told.kind.as_deref().unwrap_or_default();
    let of_list = kind.strip_suffix("List");
    if let (Some(item), true) = (told.items.first(), of_list.is_some() || kind.is_empty()) {
        let of_item = first_kind(item.get().as_bytes())?;
        if !of_item.kind.is_empty() {
            return Some(of_item);
        }
    }
    let kind = of_list.unwrap_or(kind);
    let kind = match kind {
        "" => kind_by_fields(object).unwrap_or_default(),
        kind => kind,
    };
    let version = told.api_version.as_deref().unwrap_or_default();
    Some(Named {
        kind: kind.to_owned(),
        group: group_of(version).to_owned(),
    })
}

/// `apps` of `apps/v1`.
pub fn group_of(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Envelope<'a> {
    #[serde(borrow)]
    kind: Option<Cow<'a, str>>,
    api_version: Option<Cow<'a, str>>,
    items: Vec<&'a RawValue>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last three are of Troubleshoot, Sonobuoy 0.10 and OpenShift's Insights archive, shortened.
    #[test]
    fn the_first_object_tells_the_kind() {
        for (json, want) in [
            (
                r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#,
                Some(("Deployment", "apps")),
            ),
            (
                r#"{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVersion":"config.openshift.io/v1"}]}"#,
                Some(("Node", "config.openshift.io")),
            ),
            (
                r#"{"kind":"PodList","apiVersion":"v1","items":[]}"#,
                Some(("Pod", "")),
            ),
            (r#"{"kind":"Pod","spec":{"containers":["#, None),
            (r#"{"Command":"kubectl get pods"}"#, Some(("", ""))),
            (
                r#"{"metadata":{"ownerReferences":[{"kind":"Node"}]},"data":{}}"#,
                Some(("", "")),
            ),
            (
                r#"{"metadata":{"name":"rqlite-status"},"spec":{"containers":[{"name":"rqlite-status"}]}}"#,
                Some(("Pod", "")),
            ),
            (
                r#"[{"metadata":{"name":"calico-etcd"},"spec":{"template":{}},"status":{"desiredNumberScheduled":1}},{"metadata":"#,
                Some(("DaemonSet", "")),
            ),
            (
                r#"{"metadata":{"ownerReferences":[{"kind":"ReplicaSet"}]},"spec":{"containers":[]}}"#,
                Some(("Pod", "")),
            ),
        ] {
            let want = want.map(|(kind, group)| Named {
                kind: kind.to_owned(),
                group: group.to_owned(),
            });
            assert_eq!(first_kind(json.as_bytes()), want, "{json}");
        }
    }
}
