//! Identifiers: newtypes so that a sandbox id is never taken for a container id.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::Text;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Text);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
            /// True when the source gave no id.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
        impl From<&str> for $name {
            fn from(s: &str) -> Self {
                Self(s.into())
            }
        }
        impl From<String> for $name {
            fn from(s: String) -> Self {
                Self(s.into())
            }
        }
        impl From<Text> for $name {
            fn from(s: Text) -> Self {
                Self(s)
            }
        }
    };
}

text_id! {
    /// UID of a pod: a UUID from the API, or the 32 hex digits of the config hash for a static pod.
    PodUid
}
text_id! {
    /// Id of a pod sandbox, as the container runtime gives it (64 hex digits with containerd).
    SandboxId
}
text_id! {
    /// Id of a container, bare: without the `containerd://` that the API puts before it.
    ContainerId
}

/// W3C trace id: 16 bytes. Serialised as 32 lower-case hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(pub u128);

/// W3C span id: 8 bytes. Serialised as 16 lower-case hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u64);

macro_rules! hex_id {
    ($name:ident, $int:ty, $width:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:0", $width, "x}"), self.0)
            }
        }
        impl $name {
            /// Parses hex digits; `None` when there is anything else, or nothing.
            pub fn parse(s: &str) -> Option<Self> {
                if s.is_empty() || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return None;
                }
                <$int>::from_str_radix(s, 16).ok().map(Self)
            }
            /// W3C: an id of zeros is invalid and means "none".
            pub fn is_valid(self) -> bool {
                self.0 != 0
            }
        }
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let s = <std::borrow::Cow<'de, str>>::deserialize(d)?;
                Self::parse(&s).ok_or_else(|| serde::de::Error::custom("not a hex id"))
            }
        }
    };
}
hex_id!(TraceId, u128, "32");
hex_id!(SpanId, u64, "16");

/// A pod as a source names it. Any part may be empty: kubelet log lines have no UID, cgroups have only the UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodRef {
    /// UID, empty when the source does not tell.
    #[serde(rename = "u", default, skip_serializing_if = "PodUid::is_empty")]
    pub uid: PodUid,
    /// Namespace, empty when the source does not tell.
    #[serde(rename = "ns", default, skip_serializing_if = "Text::is_empty")]
    pub namespace: Text,
    /// Name, empty when the source does not tell.
    #[serde(rename = "n", default, skip_serializing_if = "Text::is_empty")]
    pub name: Text,
}

impl PodRef {
    /// A reference by UID alone.
    pub fn by_uid(uid: impl Into<PodUid>) -> Self {
        Self {
            uid: uid.into(),
            ..Self::default()
        }
    }
    /// A reference by namespace and name.
    pub fn by_name(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            ..Self::default()
        }
    }
    /// Parses `ns/name`.
    pub fn parse(ns_name: &str) -> Option<Self> {
        let (ns, name) = ns_name.split_once('/')?;
        (!ns.is_empty() && !name.is_empty() && !name.contains('/')).then(|| Self::by_name(ns, name))
    }
    /// True when not even the namespace is known: then it is left out of a session.
    pub fn says_nothing(&self) -> bool {
        self.is_empty() && self.namespace.is_empty()
    }
    /// True when it leads to no pod.
    pub fn is_empty(&self) -> bool {
        self.uid.is_empty() && self.name.is_empty()
    }
}

/// A Kubernetes object as an Event, an audit record or an owner reference names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Kind in the singular, as in the API (`Pod`, `ReplicaSet`); for audit records the plural resource (`pods`).
    #[serde(rename = "k", default, skip_serializing_if = "Text::is_empty")]
    pub kind: Text,
    /// Namespace, empty for cluster-scoped objects.
    #[serde(rename = "ns", default, skip_serializing_if = "Text::is_empty")]
    pub namespace: Text,
    /// Name; empty in audit records of `generateName` creates.
    #[serde(rename = "n", default, skip_serializing_if = "Text::is_empty")]
    pub name: Text,
    /// UID, often empty.
    #[serde(rename = "u", default, skip_serializing_if = "Text::is_empty")]
    pub uid: Text,
}
