//! One connection: frames in two directions, their header tables, the open calls.
//!
//! A connection that is joined in the middle, or of which bytes were lost, goes through the same code as any other: a
//! [`Lane`] that does not know where a frame begins searches for it, a header table knows that it lacks older entries,
//! and streams that may have been opened unseen are remembered.

mod session;

use session::{Piece, Session, Unseen, error_name};

use super::Direction;
use super::call::{End, observe};
use super::decoder::{Lost, Standing};
use super::grpc::Buffers;
use super::h2::{Event, Frames, Nonsense};
use super::search::{Found, Search, View};
use kflow_model::cri::{CallOutcome, ConnChange, Sight};
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};

/// Number of times that the bytes of a connection may turn out to be nonsense, each time after frames were found
/// again, before it is given up.
const FAULTS: u32 = 32;

/// A connection, from its opening to its close.
pub(super) struct Conn {
    id: u32,
    pid: u32,
    peer: Text,
    /// `None` when the connection was given up.
    state: Option<Box<State>>,
    /// The [`Sight`] that was given out last, when, and after how many requests.
    said: (Sight, Nanos, u64),
    faults: u32,
    /// Why the connection ends, if that was said before its end.
    why: Text,
}

/// The decoding state of a connection.
struct State {
    client: Lane,
    server: Lane,
    session: Session,
}

/// One direction.
struct Lane {
    frames: Frames,
    /// The search for the begin of a frame; `None` while frame borders are known.
    search: Option<Box<Search>>,
}

impl Lane {
    fn new(client: bool) -> Self {
        Self {
            frames: Frames::new(client),
            search: None,
        }
    }
}

/// A chunk that was held, or the rest of one, with the time when it came.
type Held = (Nanos, Vec<u8>);

/// Why bytes are nonsense, and what follows them in the same chunk.
struct Fault<'a>(Nonsense, &'a [u8]);

impl Conn {
    pub(super) fn open(
        id: u32,
        at: Nanos,
        pid: u32,
        peer: &str,
        out: &mut Vec<Observation>,
    ) -> Self {
        let mut conn = Self::new(id, at, pid, peer);
        conn.changed(true, at, Text::default(), out);
        conn
    }

    /// As [`open`](Self::open), for a connection that began earlier.
    pub(super) fn join(
        id: u32,
        at: Nanos,
        pid: u32,
        peer: &str,
        out: &mut Vec<Observation>,
    ) -> Self {
        let mut conn = Self::new(id, at, pid, peer);
        if let Some(state) = &mut conn.state {
            state.miss(true, Search::new(true));
            state.miss(false, Search::new(false));
        }
        conn.said.0 = Sight::Partial;
        conn.changed(true, at, "joined in the middle".into(), out);
        conn
    }

    /// Process id and program of the client, as far as they are known.
    pub(super) fn client(&self) -> (u32, Text) {
        (self.pid, self.peer.clone())
    }

    fn new(id: u32, at: Nanos, pid: u32, peer: &str) -> Self {
        Self {
            id,
            pid,
            peer: peer.into(),
            state: Some(Box::new(State {
                client: Lane::new(true),
                server: Lane::new(false),
                session: Session::new(id),
            })),
            said: (Sight::Whole, at, 0),
            faults: 0,
            why: Text::default(),
        }
    }

    fn changed(&mut self, open: bool, at: Nanos, why: Text, out: &mut Vec<Observation>) {
        let agent = || self.state.as_ref().and_then(|s| s.session.agent.clone());
        let change = ConnChange {
            conn: self.id,
            open,
            pid: self.pid,
            peer: if self.peer.is_empty() {
                agent().unwrap_or_default()
            } else {
                self.peer.clone()
            },
            sight: if open { self.said.0 } else { Sight::Whole },
            why,
        };
        observe(out, Stamp::exact(at), Body::Conn(Box::new(change)));
    }

    /// Gives out how much of the connection is understood, when that has changed.
    fn tell_sight(&mut self, at: Nanos, out: &mut Vec<Observation>) {
        let Some(state) = &self.state else { return };
        let (before, since, requests) = self.said;
        let now = state.sight();
        if now == before {
            return;
        }
        let all = state.session.requests;
        self.said = (now, at, all);
        let why = if now == Sight::Whole {
            self.faults = 0;
            format!(
                "every request is understood again, {} calls and {} after bytes were missed",
                all - requests,
                kflow_model::units::duration(at.since(since))
            )
            .into()
        } else {
            Text::new("bytes were missed")
        };
        self.changed(true, at, why, out);
    }

    /// Takes a chunk. Returns false when the connection was given up.
    pub(super) fn feed(
        &mut self,
        direction: Direction,
        at: Nanos,
        bytes: &[u8],
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) -> bool {
        let from_client = direction == Direction::ClientToServer;
        let Some(state) = &mut self.state else {
            return false;
        };
        let lane = state.lane(from_client);
        if let Some(search) = &mut lane.search {
            search.push(at, bytes);
        } else if let Err(Fault(nonsense, rest)) = state.run(from_client, at, bytes, buffers, out) {
            let mut search = Search::new(false);
            search.push(at, rest);
            self.fault(from_client, at, nonsense, search, buffers, out);
        }
        self.resume(from_client, at, buffers, out);
        self.tell_sight(at, out);
        self.state.is_some()
    }

    /// Takes that the bytes of one direction are nonsense: the begin of a frame has to be searched again.
    fn fault(
        &mut self,
        from_client: bool,
        at: Nanos,
        nonsense: Nonsense,
        search: Search,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        self.faults += 1;
        let why = nonsense.to_string();
        self.missed(&[from_client], search, at, 0, &why, buffers, out);
        if self.faults > FAULTS
            && let Some(mut state) = self.state.take()
        {
            state.session.release(buffers);
            if self.peer.is_empty() {
                self.peer = state.session.agent.take().unwrap_or_default();
            }
            self.said.0 = Sight::Blind;
            let why = format!("given up after {FAULTS} faults: {why}");
            self.changed(true, at, why.into(), out);
        }
    }

    /// Searches for the begin of a frame in one direction, and decodes from there.
    fn resume(
        &mut self,
        from_client: bool,
        at: Nanos,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        while let Some(state) = &mut self.state {
            let Some(pieces) = state.found(from_client) else {
                return;
            };
            let mut pieces = pieces.into_iter();
            let fault = pieces.find_map(|(at, piece)| {
                let ran = state.run(from_client, at, &piece, buffers, out);
                ran.err()
                    .map(|Fault(nonsense, rest)| (nonsense, at, rest.to_vec()))
            });
            let Some((nonsense, began, rest)) = fault else {
                return;
            };
            let mut search = Search::new(false);
            search.push(began, &rest);
            for (at, piece) in pieces {
                search.push(at, &piece);
            }
            self.fault(from_client, at, nonsense, search, buffers, out);
        }
    }

    /// Takes that bytes of one direction, or of both, were lost.
    pub(super) fn lose(
        &mut self,
        direction: Option<Direction>,
        at: Nanos,
        lost: Lost,
        why: &str,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        let Some(state) = &mut self.state else { return };
        if let (Some(direction), Some(bytes)) = (direction, lost.bytes)
            && state.step_over(direction == Direction::ClientToServer, bytes, buffers)
        {
            observe(out, Stamp::exact(at), gap(self.id, at, lost.chunks, why));
            return;
        }
        let ways: &[bool] = match direction {
            None => &[true, false],
            Some(Direction::ClientToServer) => &[true],
            Some(Direction::ServerToClient) => &[false],
        };
        let search = Search::new(false);
        self.missed(ways, search, at, lost.chunks, why, buffers, out);
        self.tell_sight(at, out);
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "what is known of a loss, and where it is told"
    )]
    fn missed(
        &mut self,
        ways: &[bool],
        search: Search,
        at: Nanos,
        lost: u64,
        why: &str,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        let Some(state) = &mut self.state else { return };
        let mut search = Some(search);
        for from_client in ways {
            let search = search.take().unwrap_or_else(|| Search::new(false));
            state.miss(*from_client, search);
            state.session.lose(*from_client, at, buffers, out);
        }
        observe(out, Stamp::exact(at), gap(self.id, at, lost, why));
    }

    /// Takes that one half closed: a gRPC peer that closes its half is gone, which ends the open calls.
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
        if let Some(state) = &mut self.state {
            let outcome = CallOutcome::ConnectionClosed;
            state.session.end_all(outcome, at, buffers, out);
        }
    }

    pub(super) fn close(
        mut self,
        at: Nanos,
        why: &str,
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) {
        if let Some(state) = &mut self.state {
            let outcome = CallOutcome::ConnectionClosed;
            state.session.end_all(outcome, at, buffers, out);
        }
        let goaway = self.state.as_ref().map(|s| s.session.goaway.as_str());
        let parts = [self.why.as_str(), why, goaway.unwrap_or_default()];
        let said: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        self.changed(false, at, said.join("; ").into(), out);
    }

    /// Gives out the starts of calls that began at or before `until` and whose request is still not complete.
    pub(super) fn advance(&mut self, until: Nanos, at: Nanos, out: &mut Vec<Observation>) {
        let Some(state) = &mut self.state else { return };
        let calls = &mut state.session.calls;
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

    pub(super) fn standing(&self) -> Standing {
        let idle = |s: &State| s.is_found() && s.session.calls.is_empty();
        Standing {
            sight: self.said.0,
            idle: self.state.as_deref().is_some_and(idle),
        }
    }

    /// Number of frames so far, and of those that were skipped without reading them.
    pub(super) fn frames(&self) -> (u64, u64) {
        self.state.as_ref().map_or((0, 0), |s| {
            let (client, server) = (&s.client.frames, &s.server.frames);
            (client.seen + server.seen, client.skipped + server.skipped)
        })
    }
}

impl State {
    fn lane(&mut self, from_client: bool) -> &mut Lane {
        if from_client {
            &mut self.client
        } else {
            &mut self.server
        }
    }

    /// True when frame borders are known in both directions.
    fn is_found(&self) -> bool {
        self.client.search.is_none() && self.server.search.is_none()
    }

    /// How much of the connection is understood: all of it, when frame borders are known in both directions and the
    /// client's header table is known.
    fn sight(&self) -> Sight {
        if self.is_found() && self.session.client.is_whole() {
            Sight::Whole
        } else {
            Sight::Partial
        }
    }

    /// Takes that bytes of one direction were missed, or decoded wrongly: a search for the begin of a frame starts.
    fn miss(&mut self, from_client: bool, search: Search) {
        let lane = self.lane(from_client);
        lane.frames.resume();
        lane.search = Some(Box::new(search));
        let session = &mut self.session;
        session.table(from_client).forget();
        if from_client {
            session.unseen.begin(session.last_stream);
        } else {
            session.deaf = true;
        }
    }

    /// Steps over lost bytes if all of them were data of one message. Returns false if they were not.
    fn step_over(&mut self, from_client: bool, lost: u64, buffers: &mut Buffers) -> bool {
        let lane = self.lane(from_client);
        if lane.search.is_some() {
            return false;
        }
        let Some(stream) = lane.frames.step_over(lost) else {
            return false;
        };
        if let Some(call) = self.session.calls.get_mut(&stream) {
            let lost = usize::try_from(lost).unwrap_or(usize::MAX);
            call.lose_data(from_client, lost, buffers);
        }
        true
    }

    /// Returns the held chunks from the begin of a frame on; `None` while no begin is found.
    fn found(&mut self, from_client: bool) -> Option<Vec<Held>> {
        let view = View {
            client: from_client,
            max_frame: self.lane(from_client).frames.max_frame(),
            last_stream: self.session.last_stream,
            open_end: self.session.unseen.since.is_some(),
        };
        let lane = self.lane(from_client);
        let found = lane.search.as_mut()?.find(view)?;
        let search = lane.search.take()?;
        let place = match found {
            Found::Frame(place) => place,
            Found::Beginning => {
                lane.frames = Frames::new(true);
                self.session.client.begin();
                self.session.server.begin();
                self.session.unseen = Unseen::default();
                0
            }
        };
        if !from_client {
            self.session.deaf = false;
        }
        Some(search.pieces(place).collect())
    }

    fn run<'i>(
        &mut self,
        from_client: bool,
        at: Nanos,
        mut bytes: &'i [u8],
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) -> Result<(), Fault<'i>> {
        let done = self.each(from_client, at, &mut bytes, buffers, out);
        done.map_err(|nonsense| Fault(nonsense, bytes))
    }

    fn each(
        &mut self,
        from_client: bool,
        at: Nanos,
        bytes: &mut &[u8],
        buffers: &mut Buffers,
        out: &mut Vec<Observation>,
    ) -> Result<(), Nonsense> {
        let (lane, other) = if from_client {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        let (frames, other) = (&mut lane.frames, &mut other.frames);
        let session = &mut self.session;
        while let Some(event) = frames.next(bytes, at)? {
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
                Event::Data {
                    stream,
                    end,
                    frame,
                    bytes,
                } => {
                    let piece = Piece { bytes, frame, end };
                    session.data(from_client, stream, &piece, at, buffers, out);
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

fn gap(conn: u32, since: Nanos, lost: u64, why: &str) -> Body {
    Body::Gap(Box::new(Gap {
        of: Source::Cri,
        since,
        lost,
        conn,
        resource: Text::default(),
        why: why.into(),
    }))
}
