//! A model of one connection's relay and decoder: tests step them in every order, with a fault at any system call, over
//! sockets that are queues of bytes.
//!
//! A step is what other threads cannot see half done: one system call, or what happens under one lock.

use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown};

use super::pump::{End, Ended, Pump, Socket, Step, Wire, shutdown};
use crate::Counters;
use crate::tap::{Decode, Decoding, Queue, Queued, Tap};
use kflow_cri::{Direction, Lost};
use kflow_model::{Nanos, Observation};
use kflow_serve::Log;
use kflow_serve::ring::Ring;

use Direction::{ClientToServer as Up, ServerToClient as Down};

/// A fault of a system call: an error instead of its effect, or less than its full effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Error(Errno),
    /// The call moves one byte only.
    Short,
}

/// Temporary faults.
const PASSING: [Fault; 5] = [
    Fault::Error(Errno::INTR),
    Fault::Error(Errno::AGAIN),
    Fault::Error(Errno::NOBUFS),
    Fault::Error(Errno::NOMEM),
    Fault::Short,
];
/// Faults of a broken socket.
const FINAL: [Fault; 3] = [
    Fault::Error(Errno::PIPE),
    Fault::Error(Errno::CONNRESET),
    Fault::Error(Errno::IO),
];

/// One direction of a unix stream socket.
#[derive(Clone, Debug, Default)]
struct Half {
    bytes: VecDeque<u8>,
    /// The writer has shut down its sending side.
    ended: bool,
    /// The reader accepts no more bytes.
    refused: bool,
}

impl Half {
    fn write(&mut self, bytes: &[u8], room: usize) -> Result<usize, Errno> {
        if self.ended || self.refused {
            return Err(Errno::PIPE);
        }
        let n = bytes.len().min(room - self.bytes.len());
        if n == 0 && !bytes.is_empty() {
            return Err(Errno::AGAIN);
        }
        self.bytes.extend(&bytes[..n]);
        Ok(n)
    }
    fn read(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        if self.bytes.is_empty() && !self.ended && !self.refused {
            return Err(Errno::AGAIN);
        }
        let n = into.len().min(self.bytes.len());
        for (to, from) in into.iter_mut().zip(self.bytes.drain(..n)) {
            *to = from;
        }
        Ok(n)
    }
}

/// The two directions between an application and the relay.
#[derive(Clone, Debug, Default)]
struct Leg {
    to_relay: Half,
    from_relay: Half,
}

/// The relay's end of a leg.
struct RelayEnd {
    leg: Rc<RefCell<Leg>>,
    fault: Rc<Cell<Option<Fault>>>,
    room: usize,
}

impl RelayEnd {
    fn limit(&self, len: usize) -> Result<usize, Errno> {
        match self.fault.take() {
            Some(Fault::Error(e)) => Err(e),
            Some(Fault::Short) => Ok(len.min(1)),
            None => Ok(len),
        }
    }
}

impl Socket for RelayEnd {
    fn read(&self, into: &mut [u8]) -> rustix::io::Result<usize> {
        let n = self.limit(into.len())?;
        self.leg.borrow_mut().to_relay.read(&mut into[..n])
    }
    fn send(&self, bytes: &[u8], _: SendFlags) -> rustix::io::Result<usize> {
        let n = self.limit(bytes.len())?;
        let mut leg = self.leg.borrow_mut();
        leg.from_relay.write(&bytes[..n], self.room)
    }
    fn shutdown(&self, how: Shutdown) -> rustix::io::Result<()> {
        // The kernel refuses a shutdown only for a descriptor that is no connected socket; an interruption
        // is the worst case.
        if self.fault.get() == Some(Fault::Error(Errno::INTR)) {
            self.fault.take();
            return Err(Errno::INTR);
        }
        let mut leg = self.leg.borrow_mut();
        leg.to_relay.refused |= how != Shutdown::Write;
        leg.from_relay.ended |= how != Shutdown::Read;
        Ok(())
    }
}

/// A client or a server: it sends all its bytes, then closes its sending side, and reads all the while.
#[derive(Clone, Debug)]
struct App {
    all: Vec<u8>,
    said: usize,
    done: bool,
    got: Vec<u8>,
    heard_end: bool,
}

impl App {
    fn new(all: Vec<u8>) -> Self {
        Self {
            all,
            said: 0,
            done: false,
            got: Vec::new(),
            heard_end: false,
        }
    }
    fn says(&mut self, leg: &mut Leg, room: usize) {
        if self.done {
        } else if self.said == self.all.len() {
            leg.to_relay.ended = true;
            self.done = true;
        } else {
            match leg.to_relay.write(&self.all[self.said..], room) {
                Ok(n) => self.said += n,
                Err(e) => self.done = e == Errno::PIPE,
            }
        }
    }
    fn listens(&mut self, leg: &mut Leg) {
        let mut byte = [0];
        match leg.from_relay.read(&mut byte) {
            Ok(0) => self.heard_end = true,
            Ok(_) => self.got.push(byte[0]),
            Err(_) => {}
        }
    }
}

/// What the decoder received of a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Bytes(Direction, Vec<u8>),
    Lost(Option<Direction>, u64),
}

/// A decoder that records what it receives, and panics after each chunk if asked to.
struct Tape {
    told: Arc<Mutex<Vec<Told>>>,
    panics: bool,
}

impl Decode for Tape {
    fn open(&mut self, _: u32, _: Nanos, _: u32, _: &str, _: &mut Vec<Observation>) {}
    fn feed(&mut self, _: u32, to: Direction, _: Nanos, b: &[u8], _: &mut Vec<Observation>) {
        self.told.lock().unwrap().push(Told::Bytes(to, b.to_vec()));
        if self.panics {
            // `panic!` would print thousands of stack traces.
            resume_unwind(Box::new("as asked"));
        }
    }
    fn lose(
        &mut self,
        _: u32,
        of: Option<Direction>,
        _: Nanos,
        lost: Lost,
        _: &str,
        _: &mut Vec<Observation>,
    ) {
        let bytes = lost.bytes.unwrap_or_default();
        self.told.lock().unwrap().push(Told::Lost(of, bytes));
    }
    fn restart(&mut self, _: u32, _: Nanos, _: &str, _: &mut Vec<Observation>) {}
    fn close(&mut self, _: u32, _: Nanos, _: &str, _: &mut Vec<Observation>) {}
    fn advance(&mut self, _: Nanos, _: &mut Vec<Observation>) {}
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    ClientSays,
    ClientListens,
    ServerSays,
    ServerListens,
    Pump(Direction),
    /// Handles the end of a pump.
    Control,
    /// Takes the queued items, or decodes one of those taken.
    Decoder,
}

const EVERYBODY: [Who; 8] = [
    Who::ClientSays,
    Who::ClientListens,
    Who::ServerSays,
    Who::ServerListens,
    Who::Pump(Up),
    Who::Pump(Down),
    Who::Control,
    Who::Decoder,
];

/// The sizes of a case, bytes.
#[derive(Clone, Debug)]
struct Case {
    question: Vec<u8>,
    answer: Vec<u8>,
    /// Room in a socket's buffer.
    room: usize,
    /// Most bytes that a pump reads at once.
    piece: usize,
    /// Limit of the queue to the decoder.
    queue: usize,
    panics: bool,
}

/// One connection with its applications and the decoder.
struct World {
    client: Rc<RefCell<Leg>>,
    server: Rc<RefCell<Leg>>,
    fault: Rc<Cell<Option<Fault>>>,
    wire: Wire<RelayEnd>,
    up: Option<Pump>,
    down: Option<Pump>,
    ends: VecDeque<(Direction, End)>,
    ended: Ended,
    closed: bool,
    asks: App,
    answers: App,
    case: Case,
    queue: Arc<Queue>,
    taken: VecDeque<Queued>,
    decoding: Decoding,
    told: Arc<Mutex<Vec<Told>>>,
    ring: Ring,
    log: Log,
}

impl World {
    fn new(case: &Case) -> Self {
        let (client, server) = (Rc::default(), Rc::default());
        let fault = Rc::default();
        let counters = Arc::new(Counters::default());
        let queue = Arc::new(Queue::new(case.queue, Arc::clone(&counters)));
        let told = Arc::default();
        let end = |leg: &Rc<RefCell<Leg>>| RelayEnd {
            leg: Rc::clone(leg),
            fault: Rc::clone(&fault),
            room: case.room,
        };
        let tape = Tape {
            told: Arc::clone(&told),
            panics: case.panics,
        };
        Self {
            wire: Wire {
                client: end(&client),
                upstream: end(&server),
                tap: Mutex::new(Some(Tap::open(&queue, 1, Nanos(0), 0, ""))),
                counters,
            },
            client,
            server,
            up: Some(Pump::of(Up, case.piece)),
            down: Some(Pump::of(Down, case.piece)),
            ends: VecDeque::new(),
            ended: Ended::default(),
            closed: false,
            asks: App::new(case.question.clone()),
            answers: App::new(case.answer.clone()),
            case: case.clone(),
            queue,
            taken: VecDeque::new(),
            decoding: Decoding::new(Box::new(tape)),
            told,
            ring: Ring::new(1 << 16, Duration::from_secs(60)),
            log: Arc::new(|_| {}),
            fault,
        }
    }

    /// Makes one step. The fault meets its first system call, if it makes any.
    fn step(&mut self, who: Who, fault: Option<Fault>) {
        self.fault.set(fault);
        let room = self.case.room;
        match who {
            Who::ClientSays => self.asks.says(&mut self.client.borrow_mut(), room),
            Who::ClientListens => self.asks.listens(&mut self.client.borrow_mut()),
            Who::ServerSays => self.answers.says(&mut self.server.borrow_mut(), room),
            Who::ServerListens => self.answers.listens(&mut self.server.borrow_mut()),
            Who::Pump(direction) => {
                let pump = match direction {
                    Up => &mut self.up,
                    Down => &mut self.down,
                };
                if let Some(running) = pump
                    && let Step::End(end) = running.step(&self.wire)
                {
                    *pump = None;
                    self.ends.push_back((direction, end));
                }
            }
            Who::Control => self.control(),
            Who::Decoder => match self.taken.pop_front() {
                Some(item) => {
                    self.decoding.item(item, &self.queue, &self.ring, &self.log);
                }
                None => self.taken = self.queue.take_now(),
            },
        }
        self.fault.set(None);
        let most = self.case.queue + 2 * 96;
        let queued = Counters::get(&self.wire.counters.queued_bytes);
        assert!(queued <= most as u64, "{queued} bytes wait");
    }

    /// Does what `Connection::carry` and `Closing` do.
    fn control(&mut self) {
        if self.closed {
            return;
        }
        if let Some((direction, how)) = self.ends.pop_front() {
            self.ended.pass(&self.wire, direction, how);
        }
        if self.ended.over(&self.wire) {
            shutdown(&self.wire.client, Shutdown::Both);
            shutdown(&self.wire.upstream, Shutdown::Both);
            if let Some(tap) = self.wire.tap().take() {
                tap.close(Nanos(0), "over");
            }
            self.closed = true;
        }
    }

    /// Returns everything that later steps depend on.
    fn state(&self) -> String {
        let tap = self.wire.tap().as_ref().map(Tap::losing);
        let taken: Vec<_> = self.taken.iter().map(|(_, _, i)| i.untimed()).collect();
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {} {:?} {:?} {tap:?} {taken:?} {:?} {:?} {}",
            self.client.borrow(),
            self.server.borrow(),
            self.up,
            self.down,
            self.ends,
            self.ended,
            self.closed,
            self.asks,
            self.answers,
            self.queue.waits(),
            self.told.lock().unwrap(),
            Counters::get(&self.wire.counters.queued_bytes),
        )
    }

    /// Asserts what holds after every step.
    fn nothing_is_wrong_so_far(&self) {
        let (asks, answers) = (&self.asks, &self.answers);
        assert!(answers.all.starts_with(&asks.got), "the answer differs");
        assert!(asks.all.starts_with(&answers.got), "the question differs");
    }

    /// Asserts what holds once only the decoder has steps left.
    fn the_relay_is_done(&self, cut: bool) {
        let (asks, answers) = (&self.asks, &self.answers);
        assert!(self.closed, "the connection hangs");
        assert!(asks.heard_end && answers.heard_end, "an end was not told");
        if !cut {
            assert_eq!(asks.got, answers.all, "some of the answer is missing");
            assert_eq!(answers.got, asks.all, "some of the question is missing");
        }
    }

    /// Asserts what holds once no step changes anything: all bytes that passed were decoded in their place, or are
    /// counted as lost.
    fn the_decoder_is_done(&self) {
        let counters = &self.wire.counters;
        assert_eq!(Counters::get(&counters.queued_bytes), 0);
        let mut at = [0, 0];
        let (mut decoded, mut lost) = (0, 0);
        for told in &*self.told.lock().unwrap() {
            match told {
                Told::Bytes(direction, bytes) => {
                    let (all, at) = match direction {
                        Up => (&self.asks.all, &mut at[0]),
                        Down => (&self.answers.all, &mut at[1]),
                    };
                    assert_eq!(&all[*at..*at + bytes.len()], bytes, "{direction:?}");
                    *at += bytes.len();
                    decoded += bytes.len() as u64;
                }
                Told::Lost(of, bytes) => {
                    at[usize::from(*of == Some(Down))] += *bytes as usize;
                    lost += bytes;
                }
            }
        }
        // Bytes lost after a direction's last chunk are reported as a gap when the connection ends.
        assert!(lost <= Counters::get(&counters.lost_bytes));
        let passed = Counters::get(&counters.bytes);
        assert_eq!(decoded + Counters::get(&counters.lost_bytes), passed);
    }
}

/// Visits each state that can be reached with at most so many faults once. Returns the number of states.
fn explore(case: &Case, faults: usize, kinds: &[Fault]) -> usize {
    let cut = kinds.iter().any(|k| FINAL.contains(k));
    let mut seen = HashSet::new();
    let mut paths: Vec<Vec<(Who, Option<Fault>)>> = vec![Vec::new()];
    seen.insert((World::new(case).state(), faults));
    let replay = |path: &[(Who, Option<Fault>)]| {
        let mut world = World::new(case);
        for (who, fault) in path {
            world.step(*who, *fault);
        }
        world
    };
    while let Some(path) = paths.pop() {
        let left = faults - path.iter().filter(|(_, fault)| fault.is_some()).count();
        let mut world = replay(&path);
        let before = world.state();
        let (mut relay_moves, mut decoder_moves) = (false, false);
        for who in EVERYBODY {
            let calls = matches!(who, Who::Pump(_) | Who::Control);
            let mut choices = vec![None];
            if calls && left > 0 {
                choices.extend(kinds.iter().copied().map(Some));
            }
            for fault in choices {
                world.step(who, fault);
                let after = world.state();
                world.nothing_is_wrong_so_far();
                if after == before {
                    continue;
                }
                match (who, fault) {
                    (Who::Decoder, _) => decoder_moves = true,
                    (_, None) => relay_moves = true,
                    _ => {}
                }
                if seen.insert((after, left - usize::from(fault.is_some()))) {
                    let mut next = path.clone();
                    next.push((who, fault));
                    paths.push(next);
                }
                world = replay(&path);
            }
        }
        if !relay_moves {
            world.the_relay_is_done(cut);
            if !decoder_moves {
                world.the_decoder_is_done();
            }
        }
    }
    seen.len()
}

fn small(panics: bool, queue: usize) -> Case {
    Case {
        question: vec![1, 2],
        answer: vec![3, 4],
        room: 1,
        piece: 2,
        queue,
        panics,
    }
}

#[test]
fn in_every_order_all_bytes_and_ends_arrive_whatever_the_decoder_does() {
    // A queue with room for everything, for one chunk at a time, and for nothing.
    for queue in [4096, 3 * 97, 0] {
        let states = explore(&small(queue == 0, queue), 0, &[]);
        println!("{states} states, queue of {queue}");
    }
}

#[test]
fn a_fault_that_passes_at_any_call_in_any_order_costs_no_byte() {
    let case = Case {
        answer: vec![3],
        ..small(true, 3 * 97)
    };
    let states = explore(&case, 1, &PASSING);
    println!("{states} states");
}

#[test]
fn a_fault_that_ends_a_direction_at_any_call_is_told_to_both_sides() {
    let case = Case {
        answer: vec![3],
        ..small(false, 4096)
    };
    let states = explore(&case, 1, &FINAL);
    println!("{states} states");
}

/// Random steps, some with a fault.
fn turns(kinds: &'static [Fault]) -> impl Strategy<Value = Vec<(Who, Option<Fault>)>> {
    let who = prop::sample::select(&EVERYBODY[..]);
    let fault = prop::option::weighted(0.3, prop::sample::select(kinds));
    prop::collection::vec((who, fault), 0..600)
}

fn large() -> impl Strategy<Value = Case> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    (
        bytes(),
        bytes(),
        1_usize..40,
        1_usize..40,
        0_usize..4000,
        any::<bool>(),
    )
        .prop_map(|(question, answer, room, piece, queue, panics)| Case {
            question,
            answer,
            room,
            piece,
            queue,
            panics,
        })
}

/// Plays these turns, then all steps in rounds until nothing changes.
fn play(case: &Case, turns: &[(Who, Option<Fault>)], cut: bool) {
    let mut world = World::new(case);
    for (who, fault) in turns {
        world.step(*who, *fault);
        world.nothing_is_wrong_so_far();
    }
    for but in [Some(Who::Decoder), None] {
        let mut before = String::new();
        while before != world.state() {
            before = world.state();
            for who in EVERYBODY.into_iter().filter(|who| Some(*who) != but) {
                world.step(who, None);
                world.nothing_is_wrong_so_far();
            }
        }
        world.the_relay_is_done(cut);
    }
    world.the_decoder_is_done();
}

proptest! {
    #[test]
    fn any_number_of_faults_that_pass_costs_no_byte(case in large(), turns in turns(&PASSING)) {
        play(&case, &turns, false);
    }

    #[test]
    fn any_number_of_faults_is_told_to_both_sides(case in large(), turns in turns(&FINAL)) {
        play(&case, &turns, true);
    }
}
