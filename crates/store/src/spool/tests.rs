use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

use kflow_model::clock;
use kflow_model::gap::{ClockStep, Note};
use kflow_model::session::{Reader, format, load};
use kflow_model::stamp::SECOND;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::merge::{Merge, Piece};

const BEGIN: i64 = 1_795_000_000 * SECOND;

/// Both clocks `seconds` after the begin; the wall clock is `off` seconds away.
fn at(base: Instant, seconds: u64, off: i64) -> Reading {
    Reading {
        wall: Nanos(BEGIN + (seconds as i64 + off) * SECOND),
        monotonic: base + Duration::from_secs(seconds),
        apart: Duration::ZERO,
    }
}

fn note(seen: Nanos, text: &str) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(seen),
        source: Source::Kflow,
        body: Body::Note(Box::new(Note { text: text.into() })),
    })
}

fn everything(ring: &Ring) -> (Vec<Evidence>, Read) {
    let mut all = Vec::new();
    let read = ring.read(Nanos(i64::MIN), Nanos(i64::MAX), |batch| {
        all.extend(batch);
        true
    });
    (all, read.unwrap())
}

fn notes(all: &[Evidence]) -> Vec<&str> {
    all.iter()
        .filter_map(|o| match &o.body {
            Body::Note(n) => Some(n.text.as_str()),
            _ => None,
        })
        .collect()
}

fn gaps(all: &[Evidence]) -> Vec<(u64, &str)> {
    all.iter()
        .filter_map(|o| match &o.body {
            Body::Gap(g) => Some((g.lost, g.why.as_str())),
            _ => None,
        })
        .collect()
}

fn folder() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("spool");
    (dir, path)
}

/// Bounds without a limit on free space, so that a full disk does not stop these tests.
fn small(bytes: u64) -> Options {
    Options {
        node: "node1".into(),
        bounds: Bounds {
            bytes,
            free: 0,
            ..Bounds::default()
        },
        owed: true,
    }
}

#[test]
fn what_is_taken_is_read_back_across_segments_and_while_it_is_written() {
    let (_dir, path) = folder();
    let base = clock::monotonic();
    let mut spool = Spool::open(&path, small(u64::MAX)).unwrap();
    let mut given = Vec::new();
    // 25 minutes, a note every ten seconds: five segments of five minutes.
    for n in 0..150 {
        let now = at(base, n * 10, 0);
        let o = note(now.wall, &n.to_string());
        spool.take(&o, now);
        given.push(o);
    }
    spool.tick(at(base, 1500, 0));
    let ring = spool.ring();
    let (all, read) = everything(&ring);
    assert_eq!(all, given);
    // The last tick closes the fifth, and begins one.
    assert_eq!((read.segments, read.holes.len()), (6, 0));
    let segments = ring.segments();
    assert_eq!(segments.len(), 5);
    assert!(segments.windows(2).all(|w| w[0].end == w[1].begin));
    assert_eq!(segments.iter().map(|s| s.observations).sum::<u64>(), 150);
    for s in &segments {
        let mode = fs::metadata(&s.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(load(&s.path).unwrap().header.node, "node1");
    }
    // A range reads only the segments that it needs.
    let mut some = Vec::new();
    let from = Nanos(BEGIN + 650 * SECOND);
    let read = ring
        .read(from, from.plus(100 * SECOND), |batch| {
            some.extend(batch);
            true
        })
        .unwrap();
    assert_eq!(read.segments, 1);
    assert!(notes(&some).contains(&"65") && notes(&some).contains(&"75"));
    assert!(!notes(&some).contains(&"76"));
}

/// A process that serves from a spool has little memory, and a segment of a busy node is many times as large.
#[test]
fn a_segment_is_given_in_parts() {
    let (_dir, path) = folder();
    let base = clock::monotonic();
    let mut spool = Spool::open(&path, small(u64::MAX)).unwrap();
    let text = "x".repeat(400);
    for n in 0..5_000 {
        let now = at(base, n / 100, 0);
        // Observations of two threads, one of which is a second late.
        let seen = now.wall.plus(-(n as i64 % 2) * SECOND);
        spool.take(&note(seen, &format!("{n} {text}")), now);
    }
    spool.close(at(base, 60, 0));
    let ring = spool.ring();
    let (mut parts, mut arrivals) = (Vec::new(), Vec::new());
    let read = ring.read(Nanos(i64::MIN), Nanos(i64::MAX), |batch| {
        parts.push(batch.len());
        arrivals.extend(batch.iter().map(|o| o.stamp.seen));
        true
    });
    assert!(arrivals.is_sorted());
    assert_eq!(read.unwrap().segments, 1);
    assert_eq!(parts.iter().sum::<usize>(), 5_000);
    assert!(parts.iter().all(|n| *n < 1_000), "{parts:?}");
    // A caller that wants no more is given no more.
    let mut given = 0;
    let read = ring.read(Nanos(i64::MIN), Nanos(i64::MAX), |batch| {
        given += batch.len();
        false
    });
    assert_eq!(read.unwrap().observations, given as u64);
    assert!(given < 1_000);
}

#[test]
fn one_process_writes_a_spool_and_only_its_owner_reads_it() {
    let (_dir, path) = folder();
    let spool = Spool::open(&path, small(1 << 20)).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let second = Spool::open(&path, small(1 << 20)).unwrap_err();
    assert!(matches!(second, SpoolError::Busy { .. }), "{second}");
    drop(spool);
    Spool::open(&path, small(1 << 20)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let shared = Spool::open(&path, small(1 << 20)).unwrap_err();
    assert!(shared.to_string().contains("chmod 700"), "{shared}");
}

#[test]
fn what_has_to_go_before_the_store_has_it_is_counted_and_told() {
    let (_dir, path) = folder();
    let base = clock::monotonic();
    let mut options = small(20_000);
    options.bounds.segment_bytes = 4_000;
    let mut spool = Spool::open(&path, options).unwrap();
    let mut seconds = 0;
    while spool.ring().status().dropped.0 < 3 {
        seconds += 1;
        assert!(seconds < 10_000);
        let now = at(base, seconds, 0);
        // Text that does not compress.
        let text: String = (0..400).map(|_| fastrand::alphanumeric()).collect();
        spool.take(&note(now.wall, &text), now);
    }
    spool.close(at(base, seconds + 1, 0));
    let ring = spool.ring();
    let (segments, observations) = ring.status().dropped;
    let (all, read) = everything(&ring);
    assert_eq!(notes(&all).len() as u64 + observations, seconds);
    let told: u64 = gaps(&all).iter().map(|(lost, _)| lost).sum();
    assert_eq!((segments, told), (3, observations));
    assert_eq!(read.holes, []);
    let bytes: u64 = ring.segments().iter().map(|s| s.bytes).sum();
    assert!(bytes <= 24_000, "{bytes}");
    // A segment that the store has is dropped first.
    let newest = ring.segments().last().cloned().unwrap();
    assert!(ring.sent(&newest).unwrap());
    assert!(ring.segments().last().unwrap().sent);
    drop(spool);
    let mut options = small(1);
    options.bounds.bytes = bytes - 1;
    let spool = Spool::open(&path, options).unwrap();
    assert!(
        !spool
            .ring()
            .segments()
            .iter()
            .any(|s| s.part == newest.part)
    );
    assert_eq!(spool.ring().status().dropped, (0, 0));
}

#[test]
fn ages_are_of_recorded_time_so_that_a_clock_which_jumps_drops_nothing() {
    let (_dir, path) = folder();
    let base = clock::monotonic();
    let mut options = small(u64::MAX);
    options.owed = false;
    options.bounds.age = Duration::from_secs(3600);
    let mut spool = Spool::open(&path, options).unwrap();
    let mut given = Vec::new();
    // The clock jumps a year forward after ten minutes, and an hour back after twenty.
    for n in 0..180_u64 {
        let off = match n {
            0..60 => 0,
            60..120 => 365 * 24 * 3600,
            _ => -3600,
        };
        let now = at(base, n * 10, off);
        if n == 60 || n == 120 {
            let by = (off - if n == 60 { 0 } else { 365 * 24 * 3600 }) * SECOND;
            let step = Arc::new(Observation {
                stamp: Stamp::exact(now.wall),
                source: Source::Kflow,
                body: Body::ClockStep(Box::new(ClockStep { by })),
            });
            spool.take(&step, now);
            given.push(step);
        }
        let o = note(now.wall, &n.to_string());
        spool.take(&o, now);
        given.push(o);
    }
    let (all, read) = everything(&spool.ring());
    // An open segment is read up to half a second ago.
    spool.close(at(base, 1800, -3600));
    assert!(all.len() <= given.len());
    let (all, holes) = everything(&spool.ring());
    assert_eq!(all, given);
    assert_eq!((holes.holes.len(), read.holes.len()), (0, 0));
    // With more than an hour recorded, the oldest segments are dropped.
    for n in 180..800_u64 {
        let now = at(base, n * 10, -3600);
        spool.take(&note(now.wall, "later"), now);
    }
    let (all, _) = everything(&spool.ring());
    assert!(!notes(&all).contains(&"0"));
    assert_eq!(spool.ring().status().dropped, (0, 0));
}

#[test]
fn without_room_for_others_nothing_is_written_and_everything_is_counted() {
    let (_dir, path) = folder();
    let base = clock::monotonic();
    let mut options = small(1 << 30);
    options.bounds.free = u64::MAX;
    let mut spool = Spool::open(&path, options).unwrap();
    for n in 0..20 {
        let now = at(base, n, 0);
        spool.take(&note(now.wall, "x"), now);
    }
    spool.close(at(base, 20, 0));
    let status = spool.ring().status();
    assert_eq!((status.lost, status.segments), (20, 0));
    assert!(status.failing.unwrap().contains("leaves"));
}

/// Every state that `kill -9` can leave: what was flushed is there, the rest is reported, the next run goes on.
#[test]
fn what_a_kill_leaves_is_read_however_the_file_was_cut() {
    let (_dir, path) = folder();
    let base = clock::monotonic();
    let mut spool = Spool::open(&path, small(u64::MAX)).unwrap();
    for n in 0..20 {
        let now = at(base, n, 0);
        spool.take(&note(now.wall, &n.to_string()), now);
        if n == 9 {
            spool.close(now);
        }
    }
    let (open, _) = spool.ring().lock().open.clone().unwrap();
    let whole = fs::read(&open).unwrap();
    let name = open.file_name().unwrap().to_owned();
    let mut most = 0;
    for cut in 0..=whole.len() {
        let (_dir, copy) = folder();
        DirBuilder::new().mode(0o700).create(&copy).unwrap();
        let closed = spool.ring().segments();
        for s in &closed {
            fs::copy(&s.path, copy.join(s.path.file_name().unwrap())).unwrap();
        }
        fs::write(copy.join(&name), &whole[..cut]).unwrap();
        let mut next = Spool::open(&copy, small(u64::MAX)).unwrap();
        let now = at(base, 60, 0);
        next.take(&note(now.wall, "next"), now);
        next.close(now);
        let (all, read) = everything(&next.ring());
        let found = notes(&all);
        // In order, without a hole up to where it is cut.
        let expected: Vec<String> = (0..found.len() - 1).map(|n| n.to_string()).collect();
        assert_eq!(found[..found.len() - 1], expected, "{cut}");
        assert!(found.len() > 10, "{cut}");
        assert_eq!(found.last(), Some(&"next"));
        assert_eq!(read.unreadable, []);
        // The time between the two runs is reported, and is not a loss.
        assert_eq!(read.holes.len(), 1, "{cut}");
        assert!(!read.holes[0].lost, "{cut}");
        most = most.max(found.len());
        let left = fs::read_dir(&copy).unwrap().count();
        assert_eq!(left, next.ring().segments().len() + 1, "{cut}");
    }
    // The last half second was not flushed.
    assert!(most >= 20, "{most}");
}

/// Readers ask at any moment, so also while a segment is closed, which takes as long as its disk does.
#[test]
fn what_is_with_the_kernel_is_read_also_while_its_segment_is_closed() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    const ALL: usize = 100;
    let (_dir, path) = folder();
    let base = clock::monotonic();
    let mut spool = Spool::open(&path, small(u64::MAX)).unwrap();
    let ring = spool.ring();
    let safe = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while safe.load(Ordering::SeqCst) < ALL {
                let known = safe.load(Ordering::SeqCst);
                let (all, read) = everything(&ring);
                assert_eq!((read.unreadable, read.holes), (vec![], vec![]));
                assert!(notes(&all).len() >= known, "{known}: {:?}", notes(&all));
            }
        });
        for n in 0..ALL {
            let now = at(base, n as u64 * 2, 0);
            spool.take(&note(now.wall, &n.to_string()), now);
            spool.tick(at(base, n as u64 * 2 + 1, 0));
            safe.store(n + 1, Ordering::SeqCst);
            spool.close(at(base, n as u64 * 2 + 1, 0));
        }
    });
}

#[test]
fn a_segment_that_cannot_be_read_is_a_gap_wherever_it_is() {
    for bad in 0..4 {
        let (_dir, path) = folder();
        let base = clock::monotonic();
        let mut spool = Spool::open(&path, small(u64::MAX)).unwrap();
        for n in 0..4 {
            let now = at(base, n * 100, 0);
            spool.take(&note(now.wall, &n.to_string()), now);
            spool.close(at(base, n * 100 + 50, 0));
        }
        let ring = spool.ring();
        fs::write(&ring.segments()[bad].path, "no session").unwrap();
        let (all, read) = everything(&ring);
        assert_eq!((read.unreadable.len(), read.holes.len()), (1, 1), "{bad}");
        assert!(read.holes[0].lost, "{bad}");
        assert_eq!(gaps(&all), [(0, "no segment tells of this time")], "{bad}");
        assert_eq!(notes(&all).len(), 3, "{bad}");
    }
}

#[test]
fn one_file_that_cannot_be_read_does_not_keep_a_spool_from_being_written() {
    let (_dir, path) = folder();
    drop(Spool::open(&path, small(u64::MAX)).unwrap());
    let begin = Nanos(BEGIN);
    let part = Part {
        run: "ab".into(),
        n: 0,
    };
    let left = path.join(File::Open { begin, part }.to_string());
    // A later format, whose header is invented.
    let header = r#"{"kflow":99,"tool":"9.0.0","created":0}"#;
    fs::write(&left, format!("{header}\n")).unwrap();
    let base = clock::monotonic();
    let mut spool = Spool::open(&path, small(u64::MAX)).unwrap();
    assert_eq!(spool.ring().status().unreadable, 1);
    spool.take(&note(begin, "new"), at(base, 0, 0));
    spool.close(at(base, 1, 0));
    assert_eq!(notes(&everything(&spool.ring()).0), ["new"]);
    assert!(left.exists());
}

fn recordings() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/sessions");
    let all = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    let mut all: Vec<PathBuf> = all
        .filter(|p| p.to_string_lossy().ends_with(crate::name::ENDING))
        .collect();
    // The smallest are enough for a property; tests/it/store.rs has all.
    all.sort_by_key(|p| fs::metadata(p).unwrap().len());
    all.truncate(3);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// What is read back is what was recorded, however it was cut.
    #[test]
    fn a_recording_that_was_cut_anywhere_is_whole_again(which in 0_usize..3, cuts in prop::collection::vec(0_usize..60_000, 0..8)) {
        let mut session = load(&recordings()[which]).unwrap();
        // Recordings of an earlier kflow may hold what this one redacts.
        for o in &mut session.observations {
            *o = Arc::new(format::redacted(Observation::clone(o)));
        }
        let (_dir, path) = folder();
        let base = clock::monotonic();
        let mut spool = Spool::open(&path, small(u64::MAX)).unwrap();
        let len = session.observations.len();
        let cuts: Vec<usize> = cuts.iter().map(|c| c % len).collect();
        for (n, o) in session.observations.iter().enumerate() {
            let now = Reading { wall: o.stamp.seen, monotonic: base, apart: Duration::ZERO };
            if cuts.contains(&n) {
                spool.close(now);
            }
            spool.take(o, now);
        }
        let end = session.observations.last().unwrap().stamp.seen;
        spool.close(Reading { wall: end, monotonic: base, apart: Duration::ZERO });
        let (mut all, read) = everything(&spool.ring());
        kflow_model::session::reader::sort_arrivals(&mut all);
        prop_assert!(all == session.observations);
        prop_assert_eq!(read.holes.len(), 0);
        // Pieces that come in any order, and twice, are arranged as they were recorded.
        let mut pieces: Vec<Piece> = spool.ring().segments().iter().map(|s| Piece::read(Reader::open(&s.path).unwrap())).collect();
        pieces.extend(pieces.clone());
        fastrand::shuffle(&mut pieces);
        let mut merge = Merge::default();
        let mut all: Vec<Evidence> = crate::merge::arrange(pieces).into_iter().flat_map(|p| merge.next(p)).collect();
        kflow_model::session::reader::sort_arrivals(&mut all);
        prop_assert!(all == session.observations);
    }
}
