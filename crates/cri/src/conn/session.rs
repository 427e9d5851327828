//! The calls of one connection, from the events of its frames: headers and data of each call, and the ends of calls
//! whose connection ends or loses bytes.

use rustc_hash::{FxHashMap, FxHashSet};

use super::gap;
use crate::call::{Call, End, Lists, observe};
use crate::grpc::Buffers;
use crate::h2::{self, Nonsense};
use crate::headers::{Block, Field, Grpc, PathOrder};
use crate::hpack::Table;
use crate::{limits, text};
use kflow_model::cri::{CallKey, CallOutcome};
use kflow_model::{Nanos, Observation, Stamp, Text};

/// The state of a connection above its frames.
pub(super) struct Session {
    conn: u32,
    pub(super) client: Table<Grpc>,
    pub(super) server: Table<Grpc>,
    pub(super) calls: FxHashMap<u32, Call>,
    order: PathOrder,
    lists: Lists,
    pub(super) last_stream: u32,
    pub(super) unseen: Unseen,
    /// Number of requests so far.
    pub(super) requests: u64,
    pub(super) agent: Option<Text>,
    /// The last GOAWAY in either direction.
    pub(super) goaway: Text,
    /// More calls were open than are followed, and a gap has said so.
    overflowed: bool,
    /// Bytes from the server are not understood at the moment.
    pub(super) deaf: bool,
}

/// Streams whose HEADERS may have passed before the join, or in lost bytes.
#[derive(Default)]
pub(super) struct Unseen {
    /// First and last stream of each range.
    pub(super) ranges: Vec<(u32, u32)>,
    /// First stream of a range that lasts until the next request is seen.
    pub(super) since: Option<u32>,
    /// Streams of these ranges that have ended.
    pub(super) over: FxHashSet<u32>,
}

impl Unseen {
    /// Number of ranges that are kept: there is one for each time that requests were lost.
    const RANGES: usize = 64;

    pub(super) fn begin(&mut self, last_stream: u32) {
        self.since.get_or_insert(last_stream.saturating_add(1));
    }

    /// Takes that a request is seen, which ends an open range.
    pub(super) fn request(&mut self, stream: u32) {
        if let Some(since) = self.since.take()
            && since < stream
        {
            if self.ranges.len() >= Self::RANGES {
                self.ranges.remove(0);
            }
            self.ranges.push((since, stream - 1));
        }
    }

    pub(super) fn has(&self, stream: u32) -> bool {
        let inside = |(from, to): &(u32, u32)| (*from..=*to).contains(&stream);
        stream % 2 == 1
            && (self.since.is_some_and(|since| stream >= since) || self.ranges.iter().any(inside))
            && !self.over.contains(&stream)
    }

    pub(super) fn end(&mut self, stream: u32) {
        if self.over.len() >= limits::OPEN_CALLS {
            // Forgetting all ranges is better than showing a call twice.
            *self = Self {
                since: self.since,
                ..Self::default()
            };
        }
        self.over.insert(stream);
    }
}

/// A piece of DATA.
pub(super) struct Piece<'a> {
    pub(super) bytes: &'a [u8],
    /// See [`Event::Data`].
    pub(super) frame: Option<u32>,
    pub(super) end: bool,
}

impl Session {
    pub(super) fn new(conn: u32) -> Self {
        Self {
            conn,
            client: Table::new(),
            server: Table::new(),
            calls: FxHashMap::default(),
            order: PathOrder::default(),
            lists: Lists::default(),
            last_stream: 0,
            unseen: Unseen::default(),
            requests: 0,
            agent: None,
            goaway: Text::default(),
            overflowed: false,
            deaf: false,
        }
    }

    pub(super) fn table(&mut self, client: bool) -> &mut Table<Grpc> {
        if client {
            &mut self.client
        } else {
            &mut self.server
        }
    }

    pub(super) fn request(
        &mut self,
        stream: u32,
        end: bool,
        began: Nanos,
        at: Nanos,
        block: &[u8],
        out: &mut Vec<Observation>,
    ) -> Result<(), Nonsense> {
        let want_agent = self.agent.is_none();
        let mut headers = Block::default();
        self.client
            .decode(block, |field| headers.take(field, want_agent))?;
        if stream.is_multiple_of(2) {
            return Err(Nonsense::Stream(stream));
        }
        if stream <= self.last_stream {
            // These are trailers of a request, which gRPC does not have, or belong to a call that has ended.
            if let Some(call) = self.calls.get_mut(&stream)
                && end
            {
                call.asked_all(at, out);
            }
            return Ok(());
        }
        self.last_stream = stream;
        self.requests += 1;
        let answered = self.unseen.since.is_some()
            && (self.calls.contains_key(&stream) || self.unseen.over.contains(&stream));
        self.unseen.request(stream);
        if answered {
            // The answer was seen before this request was understood, and the call has no start: a start
            // now would be wrong.
            return Ok(());
        }
        if let Some(agent) = headers.user_agent.take() {
            self.agent = Some(agent);
        }
        if self.calls.len() >= limits::OPEN_CALLS {
            if !std::mem::replace(&mut self.overflowed, true) {
                let why = format!("more than {} calls open", limits::OPEN_CALLS);
                observe(out, Stamp::exact(at), gap(self.conn, at, 0, &why));
            }
            return Ok(());
        }
        let key = CallKey {
            conn: self.conn,
            stream,
        };
        let path = self.order.entry(&headers);
        let mut call = Call::new(key, began, headers, path, self.deaf);
        if end {
            call.asked_all(at, out);
        }
        self.calls.insert(stream, call);
        Ok(())
    }

    pub(super) fn answer(
        &mut self,
        stream: u32,
        end: bool,
        at: Nanos,
        block: &[u8],
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) -> Result<(), Nonsense> {
        let mut headers = Block::default();
        self.server
            .decode(block, |field| headers.take(field, false))?;
        if stream % 2 == 1 && stream > self.last_stream && self.unseen.since.is_none() {
            return Err(Nonsense::Unopened(stream));
        }
        self.meet(stream, at);
        if end {
            self.end(stream, End::Trailers(headers), at, buffers, out);
        } else if let Some(call) = self.calls.get_mut(&stream) {
            call.answer_headers(&headers, at, out);
        }
        Ok(())
    }

    pub(super) fn data(
        &mut self,
        from_client: bool,
        stream: u32,
        piece: &Piece<'_>,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        if !from_client {
            self.meet(stream, at);
        }
        let Some(call) = self.calls.get_mut(&stream) else {
            return;
        };
        let Piece { bytes, frame, end } = *piece;
        if from_client {
            call.request(bytes, frame, end, at, buffers, out);
        } else {
            call.answer(bytes, frame, at, buffers, &mut self.lists, out);
        }
        if let Some((path, method)) = call.recognised() {
            self.client.learn(path, Field::Path(method));
        }
        if end && !from_client {
            self.end(stream, End::Trailers(Block::default()), at, buffers, out);
        }
    }

    /// Takes that a frame of a stream came: a call that may have begun unseen is followed from here on.
    pub(super) fn meet(&mut self, stream: u32, at: Nanos) {
        if self.unseen.has(stream)
            && !self.calls.contains_key(&stream)
            && self.calls.len() < limits::OPEN_CALLS
        {
            let key = CallKey {
                conn: self.conn,
                stream,
            };
            self.calls.insert(stream, Call::unseen(key, at));
        }
    }

    /// Takes that bytes of one direction were lost: open calls may have ended, and it is not known how.
    pub(super) fn lose(
        &mut self,
        from_client: bool,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        if self.calls.len() > limits::OPEN_CALLS / 2 {
            // Calls that were lost earlier may never have another frame.
            self.calls.retain(|_, call| {
                let kept = !call.is_lost();
                if !kept {
                    call.release(buffers);
                }
                kept
            });
        }
        let mut open: Vec<u32> = self.calls.keys().copied().collect();
        open.sort_unstable();
        for stream in open {
            if let Some(call) = self.calls.get_mut(&stream) {
                call.lose(from_client, at, buffers, out);
            }
        }
    }

    /// Gives back the buffers of all open calls, of which nothing more will be read.
    pub(super) fn release(&mut self, buffers: &mut Buffers) {
        for call in self.calls.values_mut() {
            call.release(buffers);
        }
    }

    pub(super) fn end(
        &mut self,
        stream: u32,
        end: End,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        self.meet(stream, at);
        if let Some(call) = self.calls.remove(&stream) {
            if self.unseen.has(stream) {
                self.unseen.end(stream);
            }
            call.end(end, at, buffers, &mut self.lists, out);
        }
    }

    /// Ends all open calls, in the order of their streams.
    pub(super) fn end_all(
        &mut self,
        outcome: CallOutcome,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        self.end_above(0, outcome, None, at, buffers, out);
    }

    pub(super) fn end_above(
        &mut self,
        above: u32,
        outcome: CallOutcome,
        note: Option<&(Text, Text)>,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        let mut open: Vec<u32> = self.calls.keys().copied().filter(|s| *s > above).collect();
        open.sort_unstable();
        for stream in open {
            let end = End::Broken(outcome, note.cloned());
            self.end(stream, end, at, buffers, out);
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the frame's three fields, and what every handler takes"
    )]
    pub(super) fn goaway(
        &mut self,
        from_client: bool,
        last: u32,
        code: u32,
        debug: &[u8],
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        let who = if from_client { "client" } else { "runtime" };
        let debug = text::text(debug, limits::TEXT);
        let name = error_name(code);
        self.goaway = format!("{who} said GOAWAY {name} {debug}")
            .trim_end()
            .into();
        if !from_client {
            // The server did not and will not process streams above `last`.
            let note = (Text::new("goaway"), name);
            let outcome = CallOutcome::ServerReset;
            self.end_above(last, outcome, Some(&note), at, buffers, out);
        }
    }
}

/// Returns the name of an error code of RFC 9113 section 7, else its number.
pub(super) fn error_name(code: u32) -> Text {
    match h2::ERRORS.get(code as usize) {
        Some(name) => Text::new(name),
        None => code.to_string().into(),
    }
}
