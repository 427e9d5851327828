//! One call: from its headers to its end, and the observations that it becomes.

use std::hash::Hasher as _;

use rustc_hash::{FxHashMap, FxHasher};

use super::facts::{Facts, inventory};
use super::grpc::{Buffers, Messages, Unread, Want};
use super::headers::Block;
use super::limits;
use super::method::{Answer, MethodRef};
use super::proto::Malformed;
use kflow_model::cri::{
    CallEnd, CallKey, CallOutcome, CallStart, ContainerEvent, Inventory, InventoryItem,
};
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

/// Appends an observation of the tap.
pub(super) fn observe(out: &mut Vec<Observation>, stamp: Stamp, body: Body) {
    out.push(Observation {
        stamp,
        source: Source::Cri,
        body,
    });
}

/// What lists of a connection said last: a list is decoded only when it says something else, and of such a list only
/// the items that do.
#[derive(Debug, Default)]
pub(super) struct Lists {
    lists: FxHashMap<u64, (u64, usize)>,
    known: inventory::Known,
}

impl Lists {
    /// How many items the list had when it said exactly this the last time.
    fn unchanged(&self, question: u64, content: u64) -> Option<usize> {
        self.lists
            .get(&question)
            .filter(|(known, _)| *known == content)
            .map(|(_, items)| *items)
    }

    fn remember(&mut self, question: u64, content: u64, items: usize) {
        if self.lists.len() >= limits::REMEMBERED_LISTS {
            self.lists.clear();
        }
        self.lists.insert(question, (content, items));
    }
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = FxHasher::default();
    for part in parts {
        hasher.write(part);
    }
    hasher.finish()
}

/// What the request's headers say.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) key: CallKey,
    /// First byte of the request's HEADERS frame.
    pub(super) at: Nanos,
    method: MethodRef,
    timeout_ns: Option<i64>,
    traceparent: Option<(kflow_model::TraceId, kflow_model::SpanId)>,
}

/// What the messages say.
#[derive(Debug, Default)]
struct Told {
    asked: Facts,
    answered: Facts,
    /// The request was read: an unfiltered list is known to be unfiltered.
    request_read: bool,
    filtered: bool,
    /// Which list it is: method and request.
    question: u64,
    /// Items and fingerprint of a list that is streamed.
    streamed: Vec<InventoryItem>,
    streamed_items: usize,
    streamed_hash: u64,
}

/// A call that is open.
#[derive(Debug)]
pub(super) struct Call {
    asked: Asked,
    request: Messages,
    answer: Messages,
    told: Told,
    started: bool,
    http_status: Option<u32>,
}

impl Call {
    pub(super) fn new(key: CallKey, at: Nanos, headers: Block) -> Self {
        let method = headers
            .path
            .unwrap_or_else(|| MethodRef::Other(Text::default()));
        let known = method.known();
        let request = match known {
            Some(m) if m.request.is_some() => Want::First,
            _ => Want::Nothing,
        };
        let answer = match known {
            None => Want::Nothing,
            Some(m) => match (m.answer, m.streams) {
                (Answer::Skip, _) => Want::Nothing,
                (_, true) => Want::Each,
                (_, false) => Want::First,
            },
        };
        Self {
            asked: Asked {
                key,
                at,
                method,
                timeout_ns: headers.timeout_ns,
                traceparent: headers.traceparent,
            },
            request: Messages::new(request),
            answer: Messages::new(answer),
            told: Told::default(),
            started: false,
            http_status: None,
        }
    }

    /// When the call began, when its start was not given out yet.
    pub(super) fn waiting_since(&self) -> Option<Nanos> {
        (!self.started).then_some(self.asked.at)
    }

    /// A piece of the request.
    pub(super) fn request(
        &mut self,
        bytes: &[u8],
        end: bool,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        let (asked, told) = (&self.asked, &mut self.told);
        self.request
            .feed(bytes, buffers, |message| told.request(asked, message));
        if end || self.request.count > 0 {
            self.start(at, out);
        }
    }

    /// A piece of the answer.
    pub(super) fn answer(
        &mut self,
        bytes: &[u8],
        at: Nanos,
        buffers: &mut Buffers,
        lists: &mut Lists,
        out: &mut Vec<Observation>,
    ) {
        self.start(at, out);
        let (asked, told) = (&self.asked, &mut self.told);
        self.answer.feed(bytes, buffers, |message| {
            told.answer(asked, message, at, lists, out)
        });
    }

    /// Headers of the answer; trailers come with [`Call::end`].
    pub(super) fn answer_headers(
        &mut self,
        headers: &Block,
        at: Nanos,
        out: &mut Vec<Observation>,
    ) {
        self.start(at, out);
        self.http_status = headers.http_status.or(self.http_status);
    }

    /// Gives out the start, once.
    pub(super) fn start(&mut self, at: Nanos, out: &mut Vec<Observation>) {
        if std::mem::replace(&mut self.started, true) {
            return;
        }
        let (asked, facts) = (&self.asked, std::mem::take(&mut self.told.asked));
        let mut fields = facts.fields;
        not_decoded(self.request.unread, &mut fields);
        let start = CallStart {
            key: asked.key,
            service: asked.method.service(),
            method: asked.method.name(),
            subject: facts.subject,
            timeout_ns: asked.timeout_ns,
            traceparent: asked.traceparent,
            request_bytes: self.request.bytes,
            filtered: facts.filtered,
            fields,
        };
        observe(
            out,
            Stamp::new(asked.at, 1, at),
            Body::CallStart(Box::new(start)),
        );
    }

    /// The call is over.
    pub(super) fn end(
        mut self,
        end: End,
        at: Nanos,
        buffers: &mut Buffers,
        lists: &mut Lists,
        out: &mut Vec<Observation>,
    ) {
        self.start(at, out);
        self.request.release(buffers);
        self.answer.release(buffers);
        let (outcome, code, message, note) = match end {
            End::Trailers(trailers) => {
                let http = trailers.http_status.or(self.http_status);
                let (code, message) = match trailers.grpc_status {
                    Some(code) => (code, trailers.grpc_message.unwrap_or_default()),
                    None => without_status(http),
                };
                (CallOutcome::Status, Some(code), message, None)
            }
            End::Broken(outcome, note) => (outcome, None, Text::default(), note),
        };
        if code == Some(0) {
            self.told.streamed_list(&self.asked, at, lists, out);
        }
        let answered = self.told.answered;
        let mut fields = answered.fields;
        not_decoded(self.answer.unread, &mut fields);
        fields.extend(note);
        let end = CallEnd {
            key: self.asked.key,
            outcome,
            code,
            message,
            subject: answered.subject,
            request_bytes: self.request.bytes,
            response_bytes: self.answer.bytes,
            messages: self.answer.count,
            fields,
        };
        observe(out, Stamp::exact(at), Body::CallEnd(Box::new(end)));
    }
}

/// How a call ends.
pub(super) enum End {
    /// With the answer's last headers (empty when the stream ended without).
    Trailers(Block),
    /// Otherwise, with a field that says more.
    Broken(CallOutcome, Option<(Text, Text)>),
}

fn not_decoded(unread: Option<Unread>, fields: &mut Vec<(Text, Text)>) {
    if let Some(why) = unread {
        fields.push((Text::new("not_decoded"), Text::new(why.text())));
    }
}

/// An answer that ends without `grpc-status`: the code that gRPC clients derive from the HTTP status
/// (grpc/doc/http-grpc-status-mapping.md).
fn without_status(http: Option<u32>) -> (u32, Text) {
    let http = http.unwrap_or(0);
    let code = match http {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502..=504 => 14,
        _ => 2,
    };
    let text = format!("the answer ended without grpc-status (HTTP status {http})");
    (code, text.into())
}

impl Told {
    fn request(&mut self, asked: &Asked, message: &[u8]) -> Result<(), Unread> {
        let Some(method) = asked.method.known() else {
            return Ok(());
        };
        if let Some(read) = method.request
            && read(message, &mut self.asked) == Err(Malformed)
        {
            // Half of a message may be anybody's.
            self.asked = Facts::default();
            return Err(Unread::Malformed);
        }
        self.request_read = true;
        self.filtered = self.asked.filtered;
        // An empty filter and none ask the same.
        let filter = if self.filtered { message } else { &[] };
        self.question = hash(&[method.name.as_bytes(), filter]);
        Ok(())
    }

    fn answer(
        &mut self,
        asked: &Asked,
        message: &[u8],
        at: Nanos,
        lists: &mut Lists,
        out: &mut Vec<Observation>,
    ) -> Result<(), Unread> {
        let Some(method) = asked.method.known() else {
            return Ok(());
        };
        let read = match method.answer {
            Answer::Skip => Ok(()),
            Answer::Facts(read) => read(message, &mut self.answered),
            Answer::SandboxStatus => inventory::sandbox_status_answer(message, &mut self.answered)
                .map(|(sandbox, containers)| {
                    self.inventory(asked, true, false, vec![sandbox], at, out);
                    if !containers.is_empty() {
                        self.inventory(asked, false, false, containers, at, out);
                    }
                }),
            Answer::ContainerStatus => {
                inventory::container_status_answer(message, &mut self.answered)
                    .map(|item| self.inventory(asked, false, false, vec![item], at, out))
            }
            Answer::List { sandboxes } if method.streams => self.streamed_part(sandboxes, message),
            Answer::List { sandboxes } => self.list(asked, sandboxes, message, at, lists, out),
            Answer::Events => {
                inventory::container_event(message).map(|(kind, subject, created)| {
                    let happened = if created == Nanos(0) { at } else { created };
                    observe(
                        out,
                        Stamp::new(happened, 1, at),
                        Body::ContainerEvent(Box::new(ContainerEvent {
                            key: asked.key,
                            kind,
                            subject,
                        })),
                    );
                })
            }
        };
        read.map_err(|Malformed| {
            self.answered = Facts::default();
            Unread::Malformed
        })
    }

    /// A list in one message: decoded when it is not what it was.
    fn list(
        &mut self,
        asked: &Asked,
        sandboxes: bool,
        message: &[u8],
        at: Nanos,
        lists: &mut Lists,
        out: &mut Vec<Observation>,
    ) -> Result<(), Malformed> {
        let content = lists.known.fingerprint(sandboxes, message)?;
        let items = if let Some(items) = lists.unchanged(self.question, content) {
            items
        } else {
            let mut found = Vec::new();
            let items = lists.known.read(sandboxes, message, &mut found)?;
            lists.remember(self.question, content, items);
            let whole = found.len() == items;
            self.inventory(asked, sandboxes, whole, found, at, out);
            items
        };
        self.count(items);
        Ok(())
    }

    /// A message of a list that comes in a stream of them.
    fn streamed_part(&mut self, sandboxes: bool, message: &[u8]) -> Result<(), Malformed> {
        let mut known = inventory::Known::default();
        let content = known.fingerprint(sandboxes, message)?;
        self.streamed_hash = self.streamed_hash.wrapping_add(content);
        self.streamed_items += known.read(sandboxes, message, &mut self.streamed)?;
        Ok(())
    }

    /// A list in a stream of messages has ended well.
    fn streamed_list(
        &mut self,
        asked: &Asked,
        at: Nanos,
        lists: &mut Lists,
        out: &mut Vec<Observation>,
    ) {
        let Some(method) = asked.method.known() else {
            return;
        };
        let Answer::List { sandboxes } = method.answer else {
            return;
        };
        if !method.streams {
            return;
        }
        let (items, content) = (self.streamed_items, self.streamed_hash);
        if lists.unchanged(self.question, content).is_none() {
            lists.remember(self.question, content, items);
            let found = std::mem::take(&mut self.streamed);
            let whole = found.len() == items;
            self.inventory(asked, sandboxes, whole, found, at, out);
        }
        self.count(items);
    }

    fn count(&mut self, items: usize) {
        self.answered
            .fields
            .push((Text::new("items"), items.to_string().into()));
    }

    fn inventory(
        &self,
        asked: &Asked,
        sandboxes: bool,
        whole: bool,
        items: Vec<InventoryItem>,
        at: Nanos,
        out: &mut Vec<Observation>,
    ) {
        let inventory = Inventory {
            key: asked.key,
            complete: whole && self.request_read && !self.filtered,
            sandboxes,
            items,
        };
        observe(out, Stamp::exact(at), Body::Inventory(Box::new(inventory)));
    }
}
