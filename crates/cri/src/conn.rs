//! One connection: two directions of frames, their header tables, the calls that are open.

use rustc_hash::FxHashMap;

use super::call::{Call, End, Lists, observe};
use super::grpc::Buffers;
use super::h2::{Event, Frames, Nonsense};
use super::headers::{Block, Grpc};
use super::hpack::Table;
use super::{Direction, limits};
use kflow_model::cri::{CallKey, CallOutcome, ConnChange};
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

/// A connection, from its opening to its close.
pub(super) struct Conn {
    id: u32,
    pid: u32,
    peer: Text,
    /// `None` when it went blind.
    sight: Option<Box<Sight>>,
    /// What was said about its end before the end.
    why: Text,
}

/// What it takes to follow a connection.
struct Sight {
    client: Frames,
    server: Frames,
    session: Session,
}

/// Everything above frames.
struct Session {
    conn: u32,
    client: Table<Grpc>,
    server: Table<Grpc>,
    calls: FxHashMap<u32, Call>,
    lists: Lists,
    last_stream: u32,
    agent: Option<Text>,
    /// The last GOAWAY, either way.
    goaway: Text,
    /// More calls were open than are followed, and it was said.
    overflowed: bool,
}

impl Conn {
    pub(super) fn open(
        id: u32,
        at: Nanos,
        pid: u32,
        peer: &str,
        out: &mut Vec<Observation>,
    ) -> Self {
        let conn = Self {
            id,
            pid,
            peer: peer.into(),
            sight: Some(Box::new(Sight {
                client: Frames::new(true),
                server: Frames::new(false),
                session: Session {
                    conn: id,
                    client: Table::new(),
                    server: Table::new(),
                    calls: FxHashMap::default(),
                    lists: Lists::default(),
                    last_stream: 0,
                    agent: None,
                    goaway: Text::default(),
                    overflowed: false,
                },
            })),
            why: Text::default(),
        };
        conn.changed(true, at, Text::default(), out);
        conn
    }

    fn changed(&self, open: bool, at: Nanos, why: Text, out: &mut Vec<Observation>) {
        let agent = || self.sight.as_ref().and_then(|s| s.session.agent.clone());
        let change = ConnChange {
            conn: self.id,
            open,
            pid: self.pid,
            peer: if self.peer.is_empty() {
                agent().unwrap_or_default()
            } else {
                self.peer.clone()
            },
            why,
        };
        observe(out, Stamp::exact(at), Body::Conn(Box::new(change)));
    }

    /// Takes a chunk. False when the connection is blind: the chunk was not looked at, or only to its first nonsense.
    pub(super) fn feed(
        &mut self,
        direction: Direction,
        at: Nanos,
        bytes: &[u8],
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) -> bool {
        let Some(sight) = &mut self.sight else {
            return false;
        };
        match sight.feed(direction, at, bytes, buffers, out) {
            Ok(()) => true,
            Err(nonsense) => {
                self.blind(at, 0, &nonsense.to_string(), buffers, out);
                false
            }
        }
    }

    /// Stops following the connection, and says so.
    pub(super) fn blind(
        &mut self,
        at: Nanos,
        lost: u64,
        why: &str,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        let Some(mut sight) = self.sight.take() else {
            return;
        };
        sight.session.end_all(CallOutcome::Lost, at, buffers, out);
        if self.peer.is_empty() {
            self.peer = sight.session.agent.take().unwrap_or_default();
        }
        let gap = Gap {
            of: Source::Cri,
            since: at,
            lost,
            conn: self.id,
            why: why.into(),
        };
        observe(out, Stamp::exact(at), Body::Gap(Box::new(gap)));
    }

    /// One half closed: a gRPC peer that closes its half is gone, and its calls with it.
    pub(super) fn close_half(
        &mut self,
        direction: Direction,
        at: Nanos,
        why: &str,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        if self.why.is_empty() {
            let who = match direction {
                Direction::ClientToServer => "the client closed",
                Direction::ServerToClient => "the runtime closed",
            };
            self.why = match why {
                "" | "eof" => who.into(),
                why => format!("{who}: {why}").into(),
            };
        }
        if let Some(sight) = &mut self.sight {
            sight
                .session
                .end_all(CallOutcome::ConnectionClosed, at, buffers, out);
        }
    }

    pub(super) fn close(
        mut self,
        at: Nanos,
        why: &str,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        if let Some(sight) = &mut self.sight {
            sight
                .session
                .end_all(CallOutcome::ConnectionClosed, at, buffers, out);
        }
        let goaway = self.sight.as_ref().map(|s| s.session.goaway.as_str());
        let parts = [self.why.as_str(), why, goaway.unwrap_or_default()];
        let said: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        self.changed(false, at, said.join("; ").into(), out);
    }

    /// Gives out the starts of calls that began at or before `until` and whose request is still not complete.
    pub(super) fn settle(&mut self, until: Nanos, at: Nanos, out: &mut Vec<Observation>) {
        let Some(sight) = &mut self.sight else { return };
        let calls = &mut sight.session.calls;
        let mut waiting: Vec<u32> = calls
            .iter()
            .filter(|(_, c)| c.waiting_since().is_some_and(|since| since <= until))
            .map(|(stream, _)| *stream)
            .collect();
        waiting.sort_unstable();
        for stream in waiting {
            if let Some(call) = calls.get_mut(&stream) {
                call.start(at, out);
            }
        }
    }

    /// Frames so far, and those of them that were skipped without a look.
    pub(super) fn frames(&self) -> (u64, u64) {
        self.sight.as_ref().map_or((0, 0), |s| {
            (
                s.client.seen + s.server.seen,
                s.client.skipped + s.server.skipped,
            )
        })
    }
}

impl Sight {
    fn feed(
        &mut self,
        direction: Direction,
        at: Nanos,
        mut bytes: &[u8],
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) -> Result<(), Nonsense> {
        let from_client = direction == Direction::ClientToServer;
        let (frames, other) = if from_client {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        let session = &mut self.session;
        while let Some(event) = frames.next(&mut bytes, at)? {
            match event {
                Event::Settings {
                    table_size,
                    max_frame,
                } => {
                    if let Some(size) = table_size {
                        session.table(!from_client).allow(size);
                    }
                    if let Some(size) = max_frame {
                        other.allow_frames_of(size);
                    }
                }
                Event::Promise { block } => {
                    session.table(from_client).decode(block, |_| ())?;
                }
                Event::GoAway { last, code, debug } => {
                    session.goaway(from_client, last, code, debug, at, buffers, out);
                }
                Event::Headers {
                    stream,
                    end,
                    at: began,
                    block,
                } if from_client => {
                    session.request(stream, end, began, at, block, out)?;
                }
                Event::Headers {
                    stream, end, block, ..
                } => session.answer(stream, end, at, block, buffers, out)?,
                Event::Data { stream, end, bytes } => {
                    session.data(from_client, stream, end, bytes, at, buffers, out);
                }
                Event::Reset { stream, code } => {
                    let outcome = if from_client {
                        CallOutcome::ClientReset
                    } else {
                        CallOutcome::ServerReset
                    };
                    let note = (Text::new("reset"), error_name(code));
                    session.end(stream, End::Broken(outcome, Some(note)), at, buffers, out);
                }
            }
        }
        Ok(())
    }
}

impl Session {
    fn table(&mut self, client: bool) -> &mut Table<Grpc> {
        if client {
            &mut self.client
        } else {
            &mut self.server
        }
    }

    fn request(
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
            // Trailers of a request, which gRPC does not have, or the rest of a call that is over.
            if let Some(call) = self.calls.get_mut(&stream)
                && end
            {
                call.start(at, out);
            }
            return Ok(());
        }
        self.last_stream = stream;
        if let Some(agent) = headers.user_agent.take() {
            self.agent = Some(agent);
        }
        if self.calls.len() >= limits::OPEN_CALLS {
            if !std::mem::replace(&mut self.overflowed, true) {
                let gap = Gap {
                    of: Source::Cri,
                    since: at,
                    lost: 0,
                    conn: self.conn,
                    why: format!("more than {} calls open", limits::OPEN_CALLS).into(),
                };
                observe(out, Stamp::exact(at), Body::Gap(Box::new(gap)));
            }
            return Ok(());
        }
        let key = CallKey {
            conn: self.conn,
            stream,
        };
        let mut call = Call::new(key, began, headers);
        if end {
            call.start(at, out);
        }
        self.calls.insert(stream, call);
        Ok(())
    }

    fn answer(
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
        if stream % 2 == 1 && stream > self.last_stream {
            return Err(Nonsense::Unopened(stream));
        }
        if end {
            self.end(stream, End::Trailers(headers), at, buffers, out);
        } else if let Some(call) = self.calls.get_mut(&stream) {
            call.answer_headers(&headers, at, out);
        }
        Ok(())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the hot path: everything is borrowed from a different owner"
    )]
    fn data(
        &mut self,
        from_client: bool,
        stream: u32,
        end: bool,
        bytes: &[u8],
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        let Some(call) = self.calls.get_mut(&stream) else {
            return;
        };
        if from_client {
            call.request(bytes, end, at, buffers, out);
        } else {
            call.answer(bytes, at, buffers, &mut self.lists, out);
            if end {
                self.end(stream, End::Trailers(Block::default()), at, buffers, out);
            }
        }
    }

    fn end(
        &mut self,
        stream: u32,
        end: End,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        if let Some(call) = self.calls.remove(&stream) {
            call.end(end, at, buffers, &mut self.lists, out);
        }
    }

    /// Ends all open calls, in the order of their streams.
    fn end_all(
        &mut self,
        outcome: CallOutcome,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        self.end_above(0, outcome, None, at, buffers, out);
    }

    fn end_above(
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
    fn goaway(
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
        let debug = super::text::text(debug, limits::TEXT);
        let name = error_name(code);
        self.goaway = format!("{who} said GOAWAY {name} {debug}")
            .trim_end()
            .into();
        if !from_client {
            // Streams above the last one were not and will not be taken.
            let note = (Text::new("goaway"), name);
            let outcome = CallOutcome::ServerReset;
            self.end_above(last, outcome, Some(&note), at, buffers, out);
        }
    }
}

/// RFC 9113 section 7.
fn error_name(code: u32) -> Text {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    match NAMES.get(code as usize) {
        Some(name) => Text::new(name),
        None => code.to_string().into(),
    }
}
