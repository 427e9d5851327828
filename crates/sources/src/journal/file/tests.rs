use super::*;
use crate::journal::{Step, Unwrap};

/// Returns a file that journald wrote: see `fixtures/README.md`.
fn fixture(name: &str) -> Vec<u8> {
    let path = format!(
        "{}/../../fixtures/journal/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    let bytes = std::fs::read(path).unwrap();
    match name.strip_suffix(".zst") {
        Some(_) => zstd::decode_all(bytes.as_slice()).unwrap(),
        None => bytes,
    }
}

fn all(file: &[u8], unit: &str) -> Result<Vec<Record>, Error> {
    let mut file = JournalFile::open(file)?;
    let Some(mut place) = file.of_unit(unit)? else {
        return Ok(Vec::new());
    };
    let mut records = Vec::new();
    while let Some(record) = file.next(&mut place)? {
        records.push(record);
    }
    Ok(records)
}

/// Reads what `journalctl -o export` wrote of the same file.
fn exported(text: &[u8]) -> Vec<Record> {
    let mut unwrap = Unwrap::default();
    let mut records = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        if let Step::Entry(entry) = unwrap.line(line) {
            let origin = entry.origin.into_owned();
            let Some((ident, pid)) = origin.split_once('[') else {
                // After the last record.
                assert_eq!(entry.text.len(), 0);
                continue;
            };
            records.push(Record {
                received: entry.received.unwrap(),
                text: Text::Is(entry.text.into_owned()),
                ident: ident.to_owned(),
                pid: pid.trim_end_matches(']').to_owned(),
            });
        }
    }
    records
}

#[test]
fn a_units_records_are_those_that_journalctl_prints() {
    for (name, entries) in [("before", 180), ("now", 100)] {
        let file = fixture(&format!("{name}.journal.zst"));
        let told = all(&file, "kubelet.service").unwrap();
        let wanted = exported(&fixture(&format!("{name}.export.zst")));
        assert_eq!(told.len(), entries, "{name}");
        assert_eq!(told, wanted, "{name}");
        let journal = JournalFile::open(file.as_slice()).unwrap();
        let mut units = vec!["kubelet.service"];
        if name == "before" {
            units.insert(0, "containerd.service");
        }
        assert_eq!(journal.units().unwrap(), units);
        assert!(journal.of_unit("kubelet").unwrap().is_none());
    }
}

/// Reads on past damaged entries, as a follower of a journal does; returns how many entries were read, and how many
/// were damaged.
fn lenient(file: &[u8], unit: &str) -> Result<(usize, usize), Error> {
    let mut file = JournalFile::open(file)?;
    let Some(mut place) = file.of_unit(unit)? else {
        return Ok((0, 0));
    };
    let (mut read, mut damaged) = (0, 0);
    loop {
        match file.next(&mut place) {
            Ok(None) => return Ok((read, damaged)),
            Ok(Some(_)) => read += 1,
            Err(Error::Damaged { .. }) => damaged += 1,
            Err(e) => return Err(e),
        }
        assert!(read + damaged < 100_000, "it goes on for ever");
    }
}

#[test]
fn behind_a_damaged_array_of_entries_nothing_is_read_and_that_is_told_once() {
    let mut file = fixture("before.journal.zst");
    let place = JournalFile::open(file.as_slice()).unwrap();
    let place = place.of_unit("kubelet.service").unwrap().unwrap();
    let data = usize::try_from(place.data).unwrap();
    let array = usize::try_from(u64_at(&file, data + 48)).unwrap();
    file[array] = 0xff;
    assert_eq!(lenient(&file, "kubelet.service").unwrap(), (1, 1));
}

#[test]
fn reading_begins_after_any_number_of_entries() {
    let file = fixture("before.journal.zst");
    let wanted = all(&file, "kubelet.service").unwrap();
    for skipped in 0..=wanted.len() + 3 {
        let mut journal = JournalFile::open(file.as_slice()).unwrap();
        let mut place = journal.of_unit("kubelet.service").unwrap().unwrap();
        journal.skip(&mut place, skipped as u64).unwrap();
        let rest = wanted.get(skipped..).unwrap_or_default();
        assert_eq!(journal.left(&place).unwrap(), rest.len() as u64);
        assert_eq!(journal.next(&mut place).unwrap().as_ref(), rest.first());
    }
}

#[test]
fn what_is_damaged_is_told_and_never_read_for_ever() {
    let whole = fixture("before.journal.zst");
    let used = whole.iter().rposition(|b| *b != 0).unwrap() + 1;
    let mut random = fastrand::Rng::with_seed(16);
    let most = all(&whole, "kubelet.service").unwrap().len();
    for _ in 0..300 {
        let mut file = whole.clone();
        for _ in 0..random.usize(1..20) {
            // The header is hit as often as all the rest.
            let below = if random.bool() { 300 } else { used };
            let at = random.usize(..below);
            file[at] = random.u8(..);
        }
        file.truncate(if random.u8(..4) == 0 {
            random.usize(..used)
        } else {
            used
        });
        if let Ok(records) = all(&file, "kubelet.service") {
            assert!(records.len() <= most * 2, "{}", records.len());
        }
        if let Ok((read, _)) = lenient(&file, "kubelet.service") {
            assert!(read <= most * 2, "{read}");
        }
    }
    assert!(matches!(all(b"", "u"), Err(Error::Foreign)));
    assert!(matches!(all(&[b'x'; 300], "u"), Err(Error::Foreign)));
    let mut newer = whole;
    newer[12] |= 128;
    assert!(matches!(all(&newer, "u"), Err(Error::Newer(_))));
}

/// The block is another program's (python-lz4): no journald that was at hand compresses by it.
#[test]
fn a_text_that_an_older_journald_compressed_is_read() {
    let text = unpacked(LZ4, &fixture("message.lz4")).unwrap();
    assert!(text.starts_with(b"MESSAGE=I1121 00:24:19.373304"));
    assert_eq!(text.len(), 1652);
    assert!(unpacked(LZ4, &[0xff; 40]).is_err());
    assert!(unpacked(ZSTD, &[0xff; 40]).is_err());
    assert!(unpacked(XZ, &[]).is_err());
}

/// Marks every value of other fields that come with a record as compressed by xz, which is not read.
#[test]
fn another_value_that_cannot_be_read_does_not_hide_the_text() {
    let mut file = fixture("before.journal.zst");
    let wanted = all(&file, "kubelet.service").unwrap();
    // Behind an object's header of 16 bytes a value has five or, in the compact form, six more words of 8 bytes.
    let payload = if JournalFile::open(file.as_slice()).unwrap().compact {
        72
    } else {
        64
    };
    let mut marked = 0;
    for at in 0..file.len().saturating_sub(payload + 9) {
        let is_value = file[at] == 1 && file[at + 1] == 0 && file[at + 2..at + 8] == [0; 6];
        if is_value && at % 8 == 0 && file[at + payload..].starts_with(b"PRIORITY=") {
            file[at + 1] = XZ;
            marked += 1;
        }
    }
    assert!(marked > 0);
    assert_eq!(all(&file, "kubelet.service").unwrap(), wanted);
}
