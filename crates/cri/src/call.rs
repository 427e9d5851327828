//! One call, from its headers to its end, and the observations that are made from it.

use std::hash::Hasher as _;

use rustc_hash::{FxHashMap, FxHasher};

use super::facts::{Facts, inventory};
use super::grpc::{Buffers, Messages, Unread, Want};
use super::headers::{Block, Status};
use super::hpack::Old;
use super::limits;
use super::method::{Answer, MethodRef};
use super::proto::Malformed;
use super::recognise;
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

/// The newest content of each list of a connection: a list is decoded only when its content has changed, and then only
/// the changed items.
#[derive(Debug, Default)]
pub(super) struct Lists {
    lists: FxHashMap<u64, (u64, usize)>,
    known: inventory::Known,
}

impl Lists {
    /// Returns the number of items of a list whose content is still the same; `None` when it has changed.
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

/// What the headers of a request say.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) key: CallKey,
    /// When the first byte of the request's HEADERS frame arrived.
    pub(super) at: Nanos,
    method: MethodRef,
    timeout_ns: Option<i64>,
    traceparent: Option<(kflow_model::TraceId, kflow_model::SpanId)>,
    /// Some of the headers are not known.
    partial: bool,
    /// The entry of the client's header table that holds the path, when the method is not known.
    path: Option<Old>,
}

/// What the messages of a call say.
#[derive(Debug, Default)]
struct Told {
    asked: Facts,
    answered: Facts,
    /// The request was read, so that a list without a filter is known to have none.
    request_read: bool,
    filtered: bool,
    /// Hash of method and request, which tells lists apart.
    question: u64,
    /// Items, their number and the fingerprint of a streamed list.
    streamed: Vec<InventoryItem>,
    streamed_items: usize,
    streamed_hash: u64,
    /// The request of an unknown method, kept until the answer can show which method it is.
    unnamed: Option<Box<[u8]>>,
    /// The method that the messages of a call with an unknown path have shown.
    recognised: Option<MethodRef>,
}

/// An open call.
#[derive(Debug)]
pub(super) struct Call {
    asked: Asked,
    request: Messages,
    answer: Messages,
    told: Told,
    started: bool,
    /// The request is complete, or cannot be completed any more.
    asked_all: bool,
    /// The answer has begun.
    answered: bool,
    /// The begin of the answer may have been missed; the answer's headers, when they come, show that it was not.
    may_miss: bool,
    /// How much of the call was seen.
    seen: Seen,
    http_status: Option<u32>,
}

/// How much of a call was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The whole call so far.
    Whole,
    /// Bytes were lost while the call was open, and its end was given out as not known.
    Lost,
    /// The call began before the connection was joined, so it has no [`CallStart`](kflow_model::cri::CallStart).
    NoBegin,
}

impl Call {
    /// A call from its request's headers. `may_miss` says that bytes from the server are not understood at the moment.
    /// `path` is the entry of the client's header table that holds the path, when the path is not known.
    pub(super) fn new(
        key: CallKey,
        at: Nanos,
        mut headers: Block,
        path: Option<Old>,
        may_miss: bool,
    ) -> Self {
        let method = headers.method();
        let path = path.filter(|_| matches!(method, MethodRef::Unknown));
        let request = match method.known() {
            Some(m) if m.request.is_some() => Want::First,
            None if path.is_some() => Want::First,
            _ => Want::Nothing,
        };
        let answer = wanted_answer(&method, path);
        Self {
            asked: Asked {
                key,
                at,
                method,
                timeout_ns: headers.timeout_ns,
                traceparent: headers.traceparent,
                partial: headers.partial,
                path,
            },
            request: Messages::new(request),
            answer: Messages::new(answer),
            told: Told::default(),
            started: false,
            asked_all: false,
            answered: false,
            may_miss,
            seen: Seen::Whole,
            http_status: None,
        }
    }

    /// A call whose answer is seen, and whose request was not.
    pub(super) fn unseen(key: CallKey, at: Nanos) -> Self {
        Self {
            started: true,
            asked_all: true,
            seen: Seen::NoBegin,
            ..Self::new(key, at, Block::unseen(), None, true)
        }
    }

    /// Takes that bytes of one direction were lost. The call may have been reset or answered meanwhile: it ends as not
    /// known, and is followed further, for what may still come.
    pub(super) fn lose(
        &mut self,
        from_client: bool,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        if from_client && !self.asked_all {
            self.request.miss(None, buffers);
            self.asked_all = true;
        }
        if !from_client {
            self.may_miss = true;
            if self.answered {
                self.answer.miss(None, buffers);
            }
        }
        if self.seen != Seen::Whole {
            return;
        }
        // The other direction may have gone on since the loss.
        let at = at.max(self.asked.at);
        self.start(at, out);
        self.seen = Seen::Lost;
        let end = CallEnd {
            subject: self.told.answered.subject.clone(),
            request_bytes: self.request.bytes,
            response_bytes: self.answer.bytes,
            messages: self.answer.count,
            ..CallEnd::new(self.asked.key, CallOutcome::Lost)
        };
        observe(out, Stamp::exact(at), Body::CallEnd(Box::new(end)));
    }

    /// Takes that `lost` bytes of a message, and nothing else, were lost.
    pub(super) fn lose_data(&mut self, from_client: bool, lost: usize, buffers: &mut Buffers) {
        let messages = if from_client {
            &mut self.request
        } else {
            &mut self.answer
        };
        messages.miss(Some(lost), buffers);
    }

    /// Gives back the buffers of the call's messages.
    pub(super) fn release(&mut self, buffers: &mut Buffers) {
        self.request.release(buffers);
        self.answer.release(buffers);
    }

    /// True when the call's end was already given out as not known.
    pub(super) fn is_lost(&self) -> bool {
        self.seen == Seen::Lost
    }

    /// When the call began; `None` when its start was already given out.
    pub(super) fn waiting_since(&self) -> Option<Nanos> {
        (!self.started).then_some(self.asked.at)
    }

    /// Takes a piece of the request's data.
    pub(super) fn request(
        &mut self,
        bytes: &[u8],
        frame: Option<u32>,
        end: bool,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        let (asked, told) = (&mut self.asked, &mut self.told);
        let (unnamed, answer) = (asked.path, &mut self.answer);
        self.request.feed(bytes, frame, buffers, |message| {
            if unnamed.is_some()
                && let Some(method) = told.unnamed_request(message)
            {
                *answer = Messages::new(wanted_answer(&method, None));
                asked.method = method;
            }
            told.request(asked, message)
        });
        self.asked_all |= end;
        if end || self.request.count > 0 {
            self.start(at, out);
        }
    }

    /// Takes a piece of the answer's data.
    pub(super) fn answer(
        &mut self,
        bytes: &[u8],
        frame: Option<u32>,
        at: Nanos,
        buffers: &mut Buffers,
        lists: &mut Lists,
        out: &mut Vec<Observation>,
    ) {
        self.start(at, out);
        if !std::mem::replace(&mut self.answered, true) && self.may_miss {
            self.answer.miss(None, buffers);
        }
        let (asked, told) = (&self.asked, &mut self.told);
        self.answer.feed(bytes, frame, buffers, |message| {
            told.answer(asked, message, at, lists, out)
        });
    }

    /// Returns the entry of the client's header table that holds the path, and the method in it, once: when the
    /// messages have shown the method.
    pub(super) fn recognised(&mut self) -> Option<(Old, MethodRef)> {
        let path = self.asked.path?;
        Some((path, self.told.recognised.take()?))
    }

    /// Takes the headers of the answer; trailers come with [`Call::end`].
    pub(super) fn answer_headers(
        &mut self,
        headers: &Block,
        at: Nanos,
        out: &mut Vec<Observation>,
    ) {
        self.start(at, out);
        self.answered = true;
        self.http_status = headers.http_status.or(self.http_status);
    }

    /// Takes that the request is complete.
    pub(super) fn asked_all(&mut self, at: Nanos, out: &mut Vec<Observation>) {
        self.asked_all = true;
        self.start(at, out);
    }

    /// Gives out the start of the call, once.
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
            partial: asked.partial,
            timeout_ns: asked.timeout_ns,
            traceparent: asked.traceparent,
            request_bytes: self.request.bytes,
            filtered: facts.filtered,
            fields: fields.into(),
        };
        observe(
            out,
            Stamp::new(asked.at, 1, at),
            Body::CallStart(Box::new(start)),
        );
    }

    /// Ends the call, and gives out its end.
    pub(super) fn end(
        mut self,
        end: End,
        at: Nanos,
        buffers: &mut Buffers,
        lists: &mut Lists,
        out: &mut Vec<Observation>,
    ) {
        self.start(at, out);
        // An answer of trailers alone has an HTTP status in them. These have none, so data of this answer was missed.
        if let End::Trailers(trailers) = &end
            && self.may_miss
            && !self.answered
            && trailers.http_status.is_none()
        {
            self.answer.miss(None, buffers);
        }
        self.release(buffers);
        let (outcome, status, note) = match end {
            End::Trailers(trailers) => {
                let http = trailers.http_status.or(self.http_status);
                let status = trailers
                    .status(self.answer.is_one())
                    .unwrap_or_else(|| without_status(http));
                (CallOutcome::Status, status, None)
            }
            // The end of the connection says nothing about a call whose end or begin was not seen.
            End::Broken(CallOutcome::ConnectionClosed | CallOutcome::Lost, _)
                if self.seen != Seen::Whole =>
            {
                return;
            }
            End::Broken(outcome, note) => (outcome, Status::default(), note),
        };
        if status.code == Some(0) && !status.inferred {
            self.told.streamed_list(&self.asked, at, lists, out);
        }
        let answered = self.told.answered;
        let mut fields = answered.fields;
        not_decoded(self.answer.unread, &mut fields);
        fields.extend(note);
        let end = CallEnd {
            key: self.asked.key,
            outcome,
            code: status.code,
            inferred: status.inferred,
            began_unseen: self.seen == Seen::NoBegin,
            message: status.message,
            subject: answered.subject,
            request_bytes: self.request.bytes,
            response_bytes: self.answer.bytes,
            messages: self.answer.count,
            fields: fields.into(),
        };
        observe(out, Stamp::exact(at), Body::CallEnd(Box::new(end)));
    }
}

/// Returns which messages of an answer are read.
fn wanted_answer(method: &MethodRef, path: Option<Old>) -> Want {
    match method.known() {
        None if path.is_some() => Want::First,
        None => Want::Nothing,
        Some(m) => match (m.answer, m.streams) {
            (Answer::Skip, _) => Want::Nothing,
            (_, true) => Want::Each,
            (_, false) => Want::First,
        },
    }
}

/// How a call ends.
pub(super) enum End {
    /// With the trailers of the answer (empty when the stream ended without them).
    Trailers(Block),
    /// In another way, with a field that says more.
    Broken(CallOutcome, Option<(Text, Text)>),
}

fn not_decoded(unread: Option<Unread>, fields: &mut Vec<(Text, Text)>) {
    if let Some(why) = unread {
        fields.push((Text::new("not_decoded"), Text::new(why.text())));
    }
}

/// Returns the status of an answer that ends without `grpc-status`: the code that gRPC clients derive from the HTTP
/// status (grpc/doc/http-grpc-status-mapping.md).
fn without_status(http: Option<u32>) -> Status {
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
    Status {
        code: Some(code),
        message: text.into(),
        inferred: false,
    }
}

impl Told {
    /// Takes the request of an unknown method. Returns the method when the request shows it; else the request is kept
    /// for the answer.
    fn unnamed_request(&mut self, message: &[u8]) -> Option<MethodRef> {
        self.recognised = recognise::by_request(message);
        if self.recognised.is_none() && message.len() <= recognise::REQUEST {
            self.unnamed = Some(message.into());
        }
        self.recognised.clone()
    }

    fn request(&mut self, asked: &Asked, message: &[u8]) -> Result<(), Unread> {
        let Some(method) = asked.method.known() else {
            return Ok(());
        };
        if let Some(read) = method.request
            && read(message, &mut self.asked) == Err(Malformed)
        {
            // The subject of a message that is malformed further on cannot be trusted.
            self.asked = Facts::default();
            return Err(Unread::Malformed);
        }
        self.request_read = true;
        self.filtered = self.asked.filtered;
        // A request with an empty filter and one without a filter are the same question.
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
            // The start of this call was given out without a method; later calls get one.
            if let Some(request) = self.unnamed.take() {
                self.recognised = recognise::by_answer(&request, message);
            }
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
            Answer::Events => inventory::container_event(message).map(|(event, told)| {
                let happened = if told == Nanos(0) { at } else { told };
                let event = ContainerEvent {
                    key: asked.key,
                    ..event
                };
                let stamp = Stamp::new(happened, 1, at);
                observe(out, stamp, Body::ContainerEvent(Box::new(event)));
            }),
        };
        read.map_err(|Malformed| {
            self.answered = Facts::default();
            Unread::Malformed
        })
    }

    /// Takes a list in one message, which is decoded only when its content has changed.
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

    /// Takes one message of a streamed list.
    fn streamed_part(&mut self, sandboxes: bool, message: &[u8]) -> Result<(), Malformed> {
        let mut known = inventory::Known::default();
        let content = known.fingerprint(sandboxes, message)?;
        self.streamed_hash = self.streamed_hash.wrapping_add(content);
        self.streamed_items += known.read(sandboxes, message, &mut self.streamed)?;
        Ok(())
    }

    /// Takes that a streamed list has ended with success.
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
