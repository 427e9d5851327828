//! The Huffman code of RFC 7541, appendix B.
//!
//! The code is canonical (codes of one length are consecutive, in the order of their symbols, and a shorter code is
//! numerically below every longer one), so the lengths alone define it: all tables here are computed from them at
//! compile time.

/// Code length of each symbol, bits. The end-of-string symbol (30 ones) is left out, because it never
/// occurs in valid text.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
];

const SHORTEST: usize = 5;
const LONGEST: usize = 30;
/// Codes of at most this many bits are decoded with one look-up.
const FAST_BITS: usize = 8;

struct Tables {
    /// Symbol and code length by the next eight bits; length 0 when the code is longer.
    fast: [(u8, u8); 1 << FAST_BITS],
    /// For each length, the first code beyond the codes of that length, left-aligned in 32 bits.
    beyond: [u64; LONGEST + 1],
    /// For each length, the first code of that length, left-aligned in 32 bits.
    first: [u64; LONGEST + 1],
    /// For each length, the index of its first symbol in `symbols`.
    offset: [usize; LONGEST + 1],
    /// Symbols in the order of their codes.
    symbols: [u8; 256],
}

#[expect(
    clippy::indexing_slicing,
    reason = "runs at compile time: a wrong index does not compile"
)]
const fn tables() -> Tables {
    let mut t = Tables {
        fast: [(0, 0); 1 << FAST_BITS],
        beyond: [0; LONGEST + 1],
        first: [0; LONGEST + 1],
        offset: [0; LONGEST + 1],
        symbols: [0; 256],
    };
    let mut code: u64 = 0;
    let mut at = 0;
    let mut len = SHORTEST;
    while len <= LONGEST {
        t.first[len] = code << (32 - len);
        t.offset[len] = at;
        let mut symbol = 0;
        while symbol < 256 {
            if LENGTHS[symbol] as usize == len {
                t.symbols[at] = symbol as u8;
                if len <= FAST_BITS {
                    let spread = 1 << (FAST_BITS - len);
                    let base = (code as usize) << (FAST_BITS - len);
                    let mut i = 0;
                    while i < spread {
                        t.fast[base + i] = (symbol as u8, len as u8);
                        i += 1;
                    }
                }
                at += 1;
                code += 1;
            }
            symbol += 1;
        }
        t.beyond[len] = code << (32 - len);
        code <<= 1;
        len += 1;
    }
    t
}

static TABLES: Tables = tables();

/// Decodes text, and calls `put` with each byte. Returns `None` for what no encoder writes: a code that is not in the
/// table, the end-of-string symbol, padding of eight bits or more, or padding that is not all ones.
pub(super) fn decode(src: &[u8], mut put: impl FnMut(u8)) -> Option<()> {
    let mut rest = src.iter();
    // `bits` holds the next bits, left-aligned; `have` is their number.
    let mut bits: u64 = 0;
    let mut have: usize = 0;
    loop {
        while have <= 56 {
            let Some(&b) = rest.next() else { break };
            bits |= u64::from(b) << (56 - have);
            have += 8;
        }
        if have == 0 {
            return Some(());
        }
        let (symbol, len) = TABLES
            .fast
            .get((bits >> (64 - FAST_BITS)) as usize)
            .copied()
            .unwrap_or((0, 0));
        let (symbol, len) = if len == 0 {
            match long(bits >> 32) {
                Some((symbol, len)) if len <= have => (symbol, len),
                _ => return padding(bits, have),
            }
        } else if usize::from(len) <= have {
            (symbol, usize::from(len))
        } else {
            return padding(bits, have);
        };
        put(symbol);
        bits <<= len;
        have -= len;
    }
}

/// Decodes a code of more than [`FAST_BITS`] bits at the top of a 32-bit window, to symbol and length.
fn long(window: u64) -> Option<(u8, usize)> {
    for len in FAST_BITS + 1..=LONGEST {
        if window < *TABLES.beyond.get(len)? {
            let nth = (window - TABLES.first.get(len)?) >> (32 - len);
            let at = TABLES.offset.get(len)? + nth as usize;
            return Some((*TABLES.symbols.get(at)?, len));
        }
    }
    None
}

/// Checks that the remaining bits are the first bits, at most seven, of the end-of-string symbol.
fn padding(bits: u64, have: usize) -> Option<()> {
    (have < 8 && bits >> (64 - have) == (1 << have) - 1).then_some(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A straightforward encoder for tests: it writes bit by bit, from the same code lengths.
    pub(crate) fn encode(text: &[u8]) -> Vec<u8> {
        let mut codes = [0u64; 256];
        let mut code = 0u64;
        for len in 1..=LONGEST {
            for (symbol, slot) in codes.iter_mut().enumerate() {
                if usize::from(LENGTHS[symbol]) == len {
                    *slot = code;
                    code += 1;
                }
            }
            code <<= 1;
        }
        let mut out: Vec<bool> = Vec::new();
        for &b in text {
            let len = LENGTHS[usize::from(b)];
            out.extend((0..len).rev().map(|i| codes[usize::from(b)] >> i & 1 == 1));
        }
        while !out.len().is_multiple_of(8) {
            out.push(true);
        }
        out.chunks(8)
            .map(|c| c.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit)))
            .collect()
    }

    fn text(src: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        decode(src, |b| out.push(b)).map(|()| out)
    }

    #[test]
    fn codes_that_the_rfc_prints_are_these() {
        // Appendix B: symbol, code, length.
        for (symbol, code, len) in [
            (0u8, 0x1ff8u32, 13),
            (10, 0x3fff_fffc, 30),
            (22, 0x3fff_fffe, 30),
            (b' ', 0x14, 6),
            (b'0', 0, 5),
            (b'X', 0xfc, 8),
            (b'\\', 0x7fff0, 19),
            (b'~', 0x1ffd, 13),
            (127, 0x0fff_fffc, 28),
            (128, 0xfffe6, 20),
            (249, 0x0fff_fffe, 28),
            (255, 0x03ff_ffee, 26),
        ] {
            let pad = u32::MAX >> len;
            let word = (code << (32 - len) | pad).to_be_bytes();
            let bytes = &word[..(len as usize).div_ceil(8)];
            assert_eq!(text(bytes), Some(vec![symbol]), "symbol {symbol}");
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(text(&encode(&all)), Some(all));
    }

    #[test]
    fn padding_that_is_no_prefix_of_end_of_string_is_refused() {
        // "0" is 00000, then three bits of padding.
        assert_eq!(text(&[0b0000_0111]), Some(b"0".to_vec()));
        assert_eq!(text(&[0b0000_0110]), None);
        assert_eq!(text(&[0b0000_0111, 0xff]), None, "eight bits of padding");
        assert_eq!(text(&[0xff; 4]), None, "end of string itself");
        assert_eq!(text(&[]), Some(Vec::new()));
    }
}
