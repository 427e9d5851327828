//! What is stored: sessions, the store's index, files of the journal; and the world that follows from a session.

use std::cell::OnceCell;
use std::sync::Arc;

use kflow_core::correlate::World;
use kflow_model::session::{Reader, format};
use kflow_model::{Evidence, Nanos};
use kflow_sources::journal::file::JournalFile;
use kflow_store::index::Index;

use super::{fixture, headed, pieces, read, survive};

/// Reads a session, whole or cut, plain or compressed, and checks that each observation survives being
/// written and read again.
pub(super) fn session(data: &[u8]) {
    if let Ok(reader) = Reader::new("fuzz", Box::new(std::io::Cursor::new(data.to_vec())), 0) {
        reader.for_each(|_| true);
    }
    let lines = data.split(|b| *b == b'\n').map(format::decode);
    survive(lines.filter_map(|line| match line {
        format::Line::Observation(o) => Some(o),
        _ => None,
    }));
}

pub(super) fn sessions() -> Vec<Vec<u8>> {
    let name = "sessions/S13-crictl.kflow.zst";
    let all = fixture(name);
    let head: Vec<u8> = all
        .split_inclusive(|b| *b == b'\n')
        .take(1)
        .flatten()
        .copied()
        .collect();
    let with_head = |piece: Vec<u8>| [head.clone(), piece].concat();
    let mut seeds: Vec<_> = pieces(name, 60).into_iter().map(with_head).collect();
    seeds.extend(
        pieces("sessions/S2-stuck-early.kflow.zst", 60)
            .into_iter()
            .map(with_head),
    );
    let packed = zstd::encode_all(&seeds[0][..], 3).expect("a vector grows");
    seeds.push(packed);
    seeds
}

/// Reads an index object of the store, either from these bytes or from a compressed form of them; an index that could
/// be read must stay equal when written and read again.
pub(super) fn index(data: &[u8]) {
    let Some((packed, text)) = data.split_first() else {
        return;
    };
    let read = match packed & 1 {
        0 => Index::decode(text),
        _ => Index::decode(&zstd::bulk::compress(text, 1).expect("a vector grows")),
    };
    let Ok(mut index) = read else { return };
    index.damaged = 0;
    let (hash, bytes) = index.encode().expect("a vector grows");
    let again = Index::decode(&bytes).expect("it was just written");
    assert_eq!(again, index);
    let mut twice = again.clone();
    twice.merge(again);
    assert_eq!(
        twice.encode().expect("a vector grows").0,
        hash,
        "to merge what is there changes nothing"
    );
}

pub(super) fn indices() -> Vec<Vec<u8>> {
    let of = |permille: usize| {
        let all = real();
        let some = &all[..all.len() * permille / 1000];
        Index::of(some, "node1", (Nanos(1), Nanos(2)))
            .encode()
            .expect("a vector grows")
            .1
    };
    let packed: Vec<_> = [0, 10, 100, 1000].map(of).into_iter().collect();
    let texts = packed
        .iter()
        .map(|p| zstd::decode_all(&p[..]).expect("just packed"))
        .collect();
    headed(1, texts).chain(headed(0, packed.clone())).collect()
}

/// Reads a journal file with changed bytes: in each four bytes of input, three give the place and one the new value.
pub(super) fn journal(data: &[u8]) {
    thread_local! {
        static FILE: Vec<u8> = {
            let mut file = fixture("journal/before.journal.zst");
            let used = file.iter().rposition(|b| *b != 0).map_or(0, |n| n + 1);
            file.truncate(used);
            file
        };
    }
    let mut file = FILE.with(Clone::clone);
    for change in data.chunks_exact(4) {
        let [a, b, c, value] = *change else { continue };
        let at = u32::from_le_bytes([a, b, c, 0]) as usize % file.len();
        file[at] = value;
    }
    let Ok(mut journal) = JournalFile::open(file.as_slice()) else {
        return;
    };
    journal.units().ok();
    let Ok(Some(mut place)) = journal.of_unit("kubelet.service") else {
        return;
    };
    let entries = journal.left(&place).unwrap_or(0);
    let mut read = 0;
    while let Ok(Some(_)) = journal.next(&mut place) {
        read += 1;
        assert!(read <= entries, "more than there are");
    }
}

pub(super) fn damages() -> Vec<Vec<u8>> {
    // In the header, in the table of fields, and in objects.
    let at = |n: u32, value: u8| [&n.to_le_bytes()[..3], &[value]].concat();
    let mut all: Vec<Vec<u8>> = (0..208).map(|n| at(n, 0xff)).collect();
    all.extend((0..400).map(|n| at(n * 997, (n % 256) as u8)));
    all.push(Vec::new());
    all
}

thread_local! {
    static REAL: OnceCell<Vec<Evidence>> = const { OnceCell::new() };
}

fn real() -> Vec<Evidence> {
    let bytes = fixture("sessions/S13-crictl.kflow.zst");
    read(bytes)
}

fn timelines(of: impl Iterator<Item = Evidence>) -> String {
    let mut world = World::new();
    of.for_each(|o| world.observe(&o));
    world.refresh();
    let mut out = Vec::new();
    kflow_export::timeline::rows(&mut out, world.pods(), kflow_export::rows::Rows::Json)
        .expect("a vector grows");
    String::from_utf8_lossy(&out).into_owned()
}

/// Feeds real observations in any order, two bytes choosing each: every order of the same observations must give the
/// same timelines.
pub(super) fn correlate(data: &[u8]) {
    REAL.with(|all| {
        let all = all.get_or_init(real);
        let place = |b: &[u8]| usize::from(u16::from_le_bytes([b[0], b[1]])) % all.len();
        let chosen: Vec<Evidence> = data
            .chunks_exact(2)
            .map(|b| Arc::clone(&all[place(b)]))
            .collect();
        let mut sorted = chosen.clone();
        sorted.sort();
        assert_eq!(timelines(chosen.into_iter()), timelines(sorted.into_iter()));
    });
}

pub(super) fn orders() -> Vec<Vec<u8>> {
    let order = |n: u16| {
        (0..200_u16)
            .rev()
            .flat_map(|i| (i * 7 + n * 200).to_le_bytes())
            .collect()
    };
    (0..8).map(order).collect()
}
