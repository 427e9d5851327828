//! Local time: the offset from UTC that a TZif file gives for a moment (RFC 8536). Bytes in, offset out.

use kflow_model::Nanos;
use kflow_model::stamp::SECOND;

fn be(bytes: &[u8], at: usize, n: usize) -> Option<i64> {
    let b = bytes.get(at..at.checked_add(n)?)?;
    let first = if b.first()? & 0x80 == 0 { 0 } else { -1 };
    Some(b.iter().fold(first, |v, x| (v << 8) | i64::from(*x)))
}

/// Offset in seconds east at a moment. `None` for bytes that are not TZif.
pub fn offset(tzif: &[u8], at: Nanos) -> Option<i32> {
    const HEADER: usize = 44;
    if tzif.get(..4)? != b"TZif" {
        return None;
    }
    let counts = |base: usize| -> Option<[usize; 6]> {
        let mut c = [0; 6];
        for (i, slot) in c.iter_mut().enumerate() {
            *slot = usize::try_from(be(tzif, base + 20 + i * 4, 4)?).ok()?;
        }
        Some(c)
    };
    let [isut, isstd, leap, time, kind, chars] = counts(0)?;
    let (base, width) = if *tzif.get(4)? >= b'2' {
        // The first block has 32-bit times; the second one is complete.
        (
            HEADER + time * 5 + kind * 6 + chars + leap * 8 + isstd + isut,
            8,
        )
    } else {
        (0, 4)
    };
    let [_, _, _, time, kind, _] = counts(base)?;
    let times = base + HEADER;
    let seconds = at.0.div_euclid(SECOND);
    let mut index = 0;
    for i in 0..time {
        if be(tzif, times + i * width, width)? > seconds {
            break;
        }
        index = i + 1;
    }
    let which = match index.checked_sub(1) {
        Some(i) => usize::from(*tzif.get(times + time * width + i)?),
        None => 0,
    };
    if which >= kind {
        return None;
    }
    i32::try_from(be(tzif, times + time * (width + 1) + which * 6, 4)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Version 1: one hour east from the start, two from second 1000 on.
    fn file() -> Vec<u8> {
        let mut f = b"TZif".to_vec();
        f.extend([0; 16]);
        for n in [0_u32, 0, 0, 1, 2, 4] {
            f.extend(n.to_be_bytes());
        }
        f.extend(1000_i32.to_be_bytes());
        f.push(1);
        for (o, d) in [(3600_i32, 0_u8), (7200, 1)] {
            f.extend(o.to_be_bytes());
            f.extend([d, 0]);
        }
        f.extend(*b"CET\0");
        f
    }

    #[test]
    fn the_offset_changes_at_a_transition() {
        assert_eq!(offset(&file(), Nanos(999 * SECOND)), Some(3600));
        assert_eq!(offset(&file(), Nanos(1000 * SECOND)), Some(7200));
        assert_eq!(offset(b"nonsense", Nanos(0)), None);
    }
    proptest! {
        #[test]
        fn no_bytes_panic(cut in 0_usize..80, at in any::<i64>(), junk in prop::collection::vec(any::<u8>(), 0..120)) {
            let f = file();
            let _ = offset(f.get(..cut).unwrap_or(&f), Nanos(at));
            let mut j = b"TZif2".to_vec();
            j.extend(junk);
            let _ = offset(&j, Nanos(at));
        }
    }
}
