//! Identifiers: newtypes so that a sandbox id is never taken for a container id.

use std::cell::RefCell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Text;
use super::remembered::Remembered;

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Text);

        impl $name {
            /// Returns the id as text.
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

/// W3C trace id: 16 bytes. Serialised as 32 lower-case hex digits. Packed to 8 bytes, so that its alignment does not
/// enlarge the types that contain it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(8))]
pub struct TraceId(pub u128);

/// W3C span id: 8 bytes. Serialised as 16 lower-case hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId(pub u64);

impl PodUid {
    /// Begin of a UID that is made of namespace and name, for a pod of which kubectl printed a description that does not show it.
    pub const DESCRIBED: &'static str = "described:";

    /// True for a pod that is known by a description.
    pub fn is_described(&self) -> bool {
        self.as_str().starts_with(Self::DESCRIBED)
    }

    /// True for a UID as the apiserver makes it. Static pods have UIDs of the kubelet.
    pub fn is_of_api(&self) -> bool {
        let uid = self.as_str();
        let is_uuid = |(n, b): (usize, u8)| match n {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        };
        uid.len() == 36 && uid.bytes().enumerate().all(is_uuid)
    }
}

macro_rules! hex_id {
    ($name:ident, $int:ty, $width:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!("{:0", $width, "x}"), { self.0 })
            }
        }
        impl $name {
            /// Parses hex digits; `None` for an empty text or any other character.
            pub fn parse(s: &str) -> Option<Self> {
                // `from_str_radix` accepts a sign as well.
                let digits = s.bytes().all(|b| b.is_ascii_hexdigit());
                let value = <$int>::from_str_radix(s, 16).ok();
                value.filter(|_| digits).map(Self)
            }
            /// True unless the id is all zeros, which W3C defines as invalid and which means "none".
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
                struct Hex;
                impl serde::de::Visitor<'_> for Hex {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a hex id")
                    }
                    // Parsed from the borrowed text, without a `String` for each id: a span has three of them.
                    fn visit_str<E: serde::de::Error>(self, s: &str) -> Result<$name, E> {
                        $name::parse(s).ok_or_else(|| E::custom("not a hex id"))
                    }
                }
                d.deserialize_str(Hex)
            }
        }
    };
}
hex_id!(TraceId, u128, "32");
hex_id!(SpanId, u64, "16");

/// A pod as a source names it. Any part may be empty: kubelet log lines have no UID, cgroups have only the UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodNames {
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

/// A reference to a pod: its [`PodNames`]. References of one thread to the same pod share them, as
/// equal [`Text`]s are shared.
#[derive(Clone, Default)]
pub struct PodRef(Option<Arc<PodNames>>);

/// How many references a thread remembers, a power of two.
const PODS: usize = 1 << 10;

thread_local! {
    static MADE: RefCell<Remembered<PodRef>> = const { RefCell::new(Remembered::new()) };
}

impl PodRef {
    /// Returns a reference by UID alone.
    pub fn by_uid(uid: impl Into<PodUid>) -> Self {
        Self::from(PodNames {
            uid: uid.into(),
            ..PodNames::default()
        })
    }
    /// Returns a reference by namespace and name.
    pub fn by_name(namespace: &str, name: &str) -> Self {
        Self::from(PodNames {
            namespace: namespace.into(),
            name: name.into(),
            ..PodNames::default()
        })
    }
    /// Parses `ns/name`; `None` when either is empty or there is another slash.
    pub fn parse(ns_name: &str) -> Option<Self> {
        let (ns, name) = ns_name.split_once('/')?;
        (!ns.is_empty() && !name.is_empty() && !name.contains('/')).then(|| Self::by_name(ns, name))
    }
    /// True when no part is known, not even the namespace: such a reference is left out of a session.
    pub fn says_nothing(&self) -> bool {
        self.is_empty() && self.namespace.is_empty()
    }
    /// True when it identifies no pod: it has neither a UID nor a name.
    pub fn is_empty(&self) -> bool {
        self.uid.is_empty() && self.name.is_empty()
    }
}

impl From<PodNames> for PodRef {
    fn from(names: PodNames) -> Self {
        if names == *NOBODY {
            return Self::default();
        }
        let is = |have: &Self, names: &PodNames| **have == *names;
        let made = |names| Self(Some(Arc::new(names)));
        MADE.with_borrow_mut(|all| all.get(PODS, names, is, made))
    }
}

/// The names of a reference in which no part is known.
static NOBODY: &PodNames = &PodNames {
    uid: PodUid(Text::EMPTY),
    namespace: Text::EMPTY,
    name: Text::EMPTY,
};

impl Deref for PodRef {
    type Target = PodNames;
    fn deref(&self) -> &PodNames {
        self.0.as_deref().unwrap_or(NOBODY)
    }
}
impl DerefMut for PodRef {
    fn deref_mut(&mut self) -> &mut PodNames {
        Arc::make_mut(self.0.get_or_insert_default())
    }
}
impl fmt::Debug for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        PodNames::fmt(self, f)
    }
}
impl PartialEq for PodRef {
    fn eq(&self, other: &Self) -> bool {
        let (a, b): (&PodNames, &PodNames) = (self, other);
        std::ptr::eq(a, b) || a == b
    }
}
impl Eq for PodRef {}
impl PartialOrd for PodRef {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for PodRef {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        PodNames::cmp(self, other)
    }
}
impl Hash for PodRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        PodNames::hash(self, state);
    }
}
impl Serialize for PodRef {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        PodNames::serialize(self, s)
    }
}
impl<'de> Deserialize<'de> for PodRef {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        PodNames::deserialize(d).map(Self::from)
    }
}

/// A Kubernetes object as an Event, an audit record or an owner reference names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Kind in the singular, as in the API (`Pod`, `ReplicaSet`); in audit records the plural resource (`pods`).
    #[serde(rename = "k", default, skip_serializing_if = "Text::is_empty")]
    pub kind: Text,
    /// Namespace, empty for cluster-scoped objects.
    #[serde(rename = "ns", default, skip_serializing_if = "Text::is_empty")]
    pub namespace: Text,
    /// Name; empty in audit records of creates with `generateName`.
    #[serde(rename = "n", default, skip_serializing_if = "Text::is_empty")]
    pub name: Text,
    /// UID, often empty.
    #[serde(rename = "u", default, skip_serializing_if = "Text::is_empty")]
    pub uid: Text,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_to_one_pod_share_memory_and_one_that_is_changed_is_another() {
        assert_eq!(size_of::<PodRef>(), 8);
        let (one, same) = (
            PodRef::by_name("shop", "web-0"),
            PodRef::by_name("shop", "web-0"),
        );
        let at = |p: &PodRef| p.0.as_ref().map(Arc::as_ptr);
        assert_eq!(at(&one), at(&same));
        let mut other = same.clone();
        other.name = "web-1".into();
        assert_eq!(one, same);
        assert_ne!(one, other);
        assert_eq!(one.name, "web-0");
    }

    #[test]
    fn a_reference_to_nobody_is_one_however_it_was_made() {
        let mut emptied = PodRef::by_uid("a");
        emptied.uid = PodUid::default();
        let read: PodRef = serde_json::from_str("{}").unwrap();
        for nobody in [emptied, read, PodNames::default().into()] {
            assert_eq!(nobody, PodRef::default());
            assert!(nobody.says_nothing());
        }
    }

    #[test]
    fn more_pods_than_are_remembered_stay_what_they_are() {
        let names: Vec<String> = (0..3 * PODS).map(|n| format!("web-{n}")).collect();
        let made: Vec<PodRef> = names.iter().map(|n| PodRef::by_name("shop", n)).collect();
        assert!(names.iter().zip(&made).all(|(n, p)| p.name == *n));
    }
}
