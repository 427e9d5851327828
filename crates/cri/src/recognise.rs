//! Recognises a call's method by its messages, for calls whose `:path` was sent before the connection was joined.
//!
//! Such a path is an entry of the client's header table, and every later call of the method refers to the same entry.
//! On an idle node the client inserts no new entries, so the unknown ones stay. But one call whose method is
//! recognised shows what the entry holds, and so names every later call ([`crate::hpack::Table::learn`]).
//!
//! A method is recognised by fields that no other method has (`k8s.io/cri-api/pkg/apis/runtime/v1/api.proto`).
//! Protobuf field numbers are never reused, so that a newer CRI changes nothing. Methods with the same messages as
//! others (StartContainer and RemoveContainer: an identifier, and an empty answer) stay unknown. A streamed list
//! (`StreamContainers`, alpha in Kubernetes 1.36) in a single message would be taken for the plain list.

use super::method::MethodRef;
use super::proto::{Reader, Value};
use kflow_model::cri::method;

/// Largest request that is kept until its answer comes, bytes: enough for an identifier or a filter.
pub(super) const REQUEST: usize = 1024;

/// A message whose definition is not known.
#[derive(Clone, Copy)]
struct Shape<'a>(&'a [u8]);

impl<'a> Shape<'a> {
    /// Takes bytes as a message; `None` when they are none.
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = Reader::new(bytes);
        while fields.next().ok()?.is_some() {}
        Some(Self(bytes))
    }

    /// The fields of the message. [`Shape::of`] has read them, so none is malformed.
    fn fields(self) -> impl Iterator<Item = (u32, Value<'a>)> {
        let mut fields = Reader::new(self.0);
        std::iter::from_fn(move || fields.next().ok().flatten())
    }

    fn all(self, number: u32) -> impl Iterator<Item = Value<'a>> {
        self.fields()
            .filter_map(move |(n, value)| (n == number).then_some(value))
    }

    fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// True when the message has no fields of other numbers.
    fn has_only(self, numbers: &[u32]) -> bool {
        self.fields().all(|(n, _)| numbers.contains(&n))
    }

    fn number(self, number: u32) -> Option<u64> {
        match self.all(number).next()? {
            Value::Varint(n) => Some(n),
            _ => None,
        }
    }

    /// A text field; `None` when it is missing or empty.
    fn text(self, number: u32) -> Option<&'a str> {
        match self.all(number).next()? {
            Value::Bytes(b) => std::str::from_utf8(b).ok().filter(|t| !t.is_empty()),
            _ => None,
        }
    }

    fn message(self, number: u32) -> Option<Shape<'a>> {
        match self.all(number).next()? {
            Value::Bytes(b) => Shape::of(b),
            _ => None,
        }
    }

    /// The identifier of a sandbox or container: containerd, CRI-O and cri-dockerd write 32 bytes in hexadecimal.
    fn id(self, number: u32) -> Option<&'a str> {
        self.text(number).filter(|t| is_id(t))
    }

    /// A field with the form of a `PodSandboxMetadata`: name, uid, namespace.
    fn sandbox_metadata(self, number: u32) -> Option<()> {
        let m = self.message(number)?;
        m.text(1).and(m.text(2)).and(m.text(3)).map(|_| ())
    }

    /// A field with the form of a `ContainerMetadata`: name, attempt.
    fn container_metadata(self, number: u32) -> Option<()> {
        let m = self.message(number)?;
        (m.text(1).is_some() && m.has_only(&[1, 2]) && m.text(2).is_none()).then_some(())
    }
}

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// True for an image's identifier: `sha256:` and a digest, as containerd writes it, or a digest alone, as CRI-O does.
fn is_image_id(text: &str) -> bool {
    is_id(text.strip_prefix("sha256:").unwrap_or(text))
}

/// Returns the method of a request, when no other method can have such a request.
pub(super) fn by_request(request: &[u8]) -> Option<MethodRef> {
    let r = Shape::of(request)?;
    if r.id(1).is_some() {
        return MethodRef::named(about_one(r)?);
    }
    let first = r.message(1)?;
    if first.sandbox_metadata(1).is_some() && r.has_only(&[1, 2]) {
        return MethodRef::named(method::RUN_POD_SANDBOX);
    }
    // PullImage: an image, and the sandbox that it is for.
    first.text(1)?;
    r.message(3)?.sandbox_metadata(1)?;
    MethodRef::named(method::PULL_IMAGE)
}

/// Returns the method of a request that begins with an identifier, when no other method can have it.
fn about_one(r: Shape<'_>) -> Option<&'static str> {
    if let Some(config) = r.message(3) {
        config.sandbox_metadata(1)?;
        r.message(2)?.container_metadata(1)?;
        return Some(method::CREATE_CONTAINER);
    }
    let words = r.all(2).filter(|v| matches!(v, Value::Bytes(_))).count();
    if words > 1 && r.has_only(&[1, 2, 3]) {
        // CheckpointContainer has one text and a number. Exec has further fields, of which at least one says which
        // streams are wanted.
        return r.number(3).map(|_| method::EXEC_SYNC);
    }
    // In ContainerStatus and PodSandboxStatus, field 2 is a boolean, so 1 at most.
    let timeout = r.number(2)? > 1 && r.has_only(&[1, 2]);
    timeout.then_some(method::STOP_CONTAINER)
}

/// Returns the method of a request and its answer, when no other method can have both.
pub(super) fn by_answer(request: &[u8], answer: &[u8]) -> Option<MethodRef> {
    let (r, a) = (Shape::of(request)?, Shape::of(answer)?);
    if a.text(4).is_some_and(|version| version == "v1") && a.text(2).and(a.text(3)).is_some() {
        return MethodRef::named(method::VERSION);
    }
    let first = a.message(1)?;
    MethodRef::named(runtime_answer(r, first).or_else(|| image_answer(r, first))?)
}

/// Methods of the runtime service. `first` is the answer's first field.
fn runtime_answer(r: Shape<'_>, first: Shape<'_>) -> Option<&'static str> {
    if first.message(1).and_then(|c| c.text(1)) == Some("RuntimeReady") {
        return Some(method::STATUS);
    }
    if let Some(about) = r.id(1) {
        first.id(1).filter(|id| *id == about)?;
        // Field 4 is the time of creation.
        first.number(4)?;
        return if first.sandbox_metadata(2).is_some() {
            Some(method::POD_SANDBOX_STATUS)
        } else {
            first
                .container_metadata(2)
                .map(|()| method::CONTAINER_STATUS)
        };
    }
    // The request of a list has a filter, or nothing.
    if !r.is_empty() {
        r.message(1).filter(|_| r.has_only(&[1]))?;
    }
    if let Some(attributes) = first.message(1) {
        attributes.id(1)?;
        return attributes
            .container_metadata(2)
            .map(|()| method::LIST_CONTAINER_STATS);
    }
    first.id(1)?;
    if first.id(2).is_some() {
        first.container_metadata(3)?;
        return first.number(7).map(|_| method::LIST_CONTAINERS);
    }
    first.sandbox_metadata(2)?;
    first.number(4).map(|_| method::LIST_POD_SANDBOX)
}

fn image_answer(r: Shape<'_>, first: Shape<'_>) -> Option<&'static str> {
    if r.is_empty() {
        let filesystem = first.message(2).and_then(|f| f.text(1));
        if filesystem.is_some_and(|f| f.starts_with('/')) && first.number(1).is_some() {
            return Some(method::IMAGE_FS_INFO);
        }
    }
    first.text(1).filter(|id| is_image_id(id))?;
    // Field 4 is the image's size.
    first.number(4)?;
    if r.is_empty() {
        return Some(method::LIST_IMAGES);
    }
    r.message(1)?.text(1)?;
    r.has_only(&[1, 2]).then_some(method::IMAGE_STATUS)
}

#[cfg(test)]
mod tests;
