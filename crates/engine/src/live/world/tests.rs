use super::*;
use kflow_model::stamp::MILLI;

fn note(seen: Nanos) -> Observation {
    Observation {
        stamp: Stamp::exact(seen),
        source: Source::Fs,
        body: Body::Note(Box::new(Note {
            text: Text::default(),
        })),
    }
}

fn world() -> WorldThread {
    let (board, _) = Board::new(1);
    let mode = Mode::Live {
        scope: Text::default(),
        following: true,
        recording: Text::default(),
    };
    let shared = Published {
        snapshot: std::sync::Mutex::new((
            clock::monotonic(),
            Arc::new(Pipeline::new().snapshot(
                Nanos(0),
                mode.clone(),
                (Nanos(0), Nanos(0)),
                Vec::new(),
            )),
        )),
        stop: std::sync::atomic::AtomicBool::new(false),
    };
    WorldThread::new(
        board,
        Nanos(0),
        mode,
        Arc::new(shared),
        None,
        &Config::nothing(),
    )
}

/// A world thread whose clocks are given, in milliseconds.
struct Clocks {
    world: WorldThread,
    origin: Instant,
}

impl Clocks {
    fn new() -> Self {
        Self {
            world: world(),
            origin: clock::monotonic(),
        }
    }
    fn wall(ms: i64) -> Nanos {
        Nanos::from_secs(1_000_000).plus(ms * MILLI)
    }
    fn take(&mut self, monotonic_ms: u64, wall_ms: i64, seen_ms: &[i64]) {
        let mut got = seen_ms.iter().map(|ms| note(Self::wall(*ms))).collect();
        let now = Reading {
            wall: Self::wall(wall_ms),
            monotonic: self.origin + Duration::from_millis(monotonic_ms),
            apart: Duration::ZERO,
        };
        self.world.take_all(&mut got, now);
    }
    /// The log: arrivals, and the sizes of clock steps, in milliseconds.
    fn log(&self) -> Vec<(i64, Option<i64>)> {
        self.world
            .pipeline
            .log()
            .iter()
            .map(|o| {
                let by = match &o.body {
                    Body::ClockStep(c) => Some(c.by / MILLI),
                    _ => None,
                };
                (o.stamp.seen.since(Self::wall(0)) / MILLI, by)
            })
            .collect()
    }
}

#[test]
fn a_step_of_the_clock_is_told_between_what_came_before_and_after_it() {
    for by in [-3_600_000, 3_600_000] {
        let mut c = Clocks::new();
        c.take(0, 0, &[0]);
        c.take(100, 100, &[50]);
        // One turn takes an observation from after the step, and then one from before it.
        c.take(200, 200 + by, &[180 + by, 120]);
        // A later turn takes one that was stamped before the step.
        c.take(300, 300 + by, &[150, 290 + by]);
        assert_eq!(
            c.log(),
            [
                (0, None),
                (50, None),
                (120, None),
                (200 + by, Some(by)),
                (180 + by, None),
                (150 + by, None),
                (290 + by, None)
            ]
        );
        assert_eq!(c.world.pipeline.world().clock_steps().len(), 1);
    }
}

#[test]
fn what_had_arrived_by_a_moment_is_known_whichever_way_the_clock_was_set() {
    const FORTH: &[(i64, usize)] = &[
        (49, 0),
        (50, 1),
        (150, 2),
        (3_600_199, 2),
        (3_600_200, 3),
        (3_600_290, 4),
    ];
    // A time that the clock showed twice counts as the later one, after the step.
    const BACK: &[(i64, usize)] = &[
        (-3_599_801, 0),
        (-3_599_800, 3),
        (-3_599_711, 3),
        (-3_599_710, 4),
        (50, 4),
    ];
    for (by, table) in [(3_600_000, FORTH), (-3_600_000, BACK)] {
        let mut c = Clocks::new();
        c.take(0, 0, &[]);
        c.take(100, 100, &[50]);
        c.take(200, 200 + by, &[150]);
        c.take(300, 300 + by, &[290 + by]);
        let all = c.world.pipeline.log();
        for (at, n) in table {
            assert_eq!(all.arrived_by(Clocks::wall(*at)), *n, "{by}: at {at}");
        }
        let first = all.iter().map(|o| o.stamp.seen).min();
        assert_eq!(all.earliest(), first);
    }
}

#[test]
fn a_step_forward_makes_no_pod_leave_early() {
    let mut c = Clocks::new();
    c.take(0, 0, &[]);
    let at = |c: &Clocks, monotonic_s: u64, wall_s: i64| {
        let end = c.world.ages_end(Reading {
            wall: Clocks::wall(wall_s * 1000),
            monotonic: c.origin + Duration::from_secs(monotonic_s),
            apart: Duration::ZERO,
        });
        end.since(Clocks::wall(0)) / 1_000_000_000
    };
    assert_eq!(at(&c, 1, 1), 1);
    c.take(1000, 1000 + 7_200_000, &[]);
    assert_eq!(at(&c, 2, 7202), 2);
    assert_eq!(at(&c, 3602, 10_802), 10_802, "what went before has left");
}

#[test]
fn pictures_are_paced_by_the_monotonic_clock_alone() {
    let origin = clock::monotonic();
    let at = |ms| origin + Duration::from_millis(ms);
    let mut pace = Pace::default();
    assert!(pace.due(at(0)), "the first");
    pace.drawn(at(0), at(5));
    // Nothing new: one picture per second.
    assert!(!pace.due(at(1004)));
    assert!(pace.due(at(1005)));
    // Something new: a picture is due one frame after the last one, even if the change came right after that.
    pace.changed = true;
    assert!(!pace.due(at(104)));
    assert!(pace.due(at(105)));
    pace.drawn(at(105), at(505));
    // A picture that took 400 ms is followed by a pause as long.
    pace.changed = true;
    assert!(!pace.due(at(904)));
    assert!(pace.due(at(905)));
}
