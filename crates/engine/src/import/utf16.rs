//! Text in UTF-16, as Windows PowerShell writes what a program prints (`kubectl get pods > pods.txt`; about_Redirection: up to
//! release 5.1 `>` is `Out-File` with the encoding `Unicode`).

use std::io::{self, Read};

/// First bytes of UTF-16, the lower byte of each unit first, and the other way round.
pub(super) const LITTLE: [u8; 2] = [0xff, 0xfe];
pub(super) const BIG: [u8; 2] = [0xfe, 0xff];
/// Most bytes that are read at once.
const PIECE: usize = 1 << 13;

/// Reads UTF-16 as UTF-8, without the mark at its begin.
pub(super) struct Utf16<R> {
    inner: R,
    unit: fn([u8; 2]) -> u16,
    /// Bytes of units that are not complete.
    raw: Vec<u8>,
    /// What is decoded and not taken.
    text: io::Cursor<Vec<u8>>,
}

impl<R: Read> Utf16<R> {
    pub(super) fn little(inner: R) -> Self {
        Self::new(inner, u16::from_le_bytes)
    }
    pub(super) fn big(inner: R) -> Self {
        Self::new(inner, u16::from_be_bytes)
    }
    fn new(inner: R, unit: fn([u8; 2]) -> u16) -> Self {
        Self {
            inner,
            unit,
            raw: Vec::new(),
            text: io::Cursor::default(),
        }
    }

    /// Decodes the next piece. False at the end.
    fn decode(&mut self) -> io::Result<bool> {
        let mut piece = [0; PIECE];
        let n = self.inner.read(&mut piece)?;
        self.raw.extend(piece.iter().take(n));
        let (pairs, _) = self.raw.as_chunks();
        let mut units: Vec<u16> = pairs.iter().map(|pair| (self.unit)(*pair)).collect();
        // Half of a character: the other half follows.
        if n > 0 {
            units.pop_if(|last| (0xd800..0xdc00).contains(last));
        }
        self.raw.drain(..2 * units.len());
        let mut text: String = char::decode_utf16(units)
            .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
            .filter(|c| *c != '\u{feff}')
            .collect();
        if n == 0 && !std::mem::take(&mut self.raw).is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        self.text = io::Cursor::new(text.into_bytes());
        Ok(n > 0)
    }
}

impl<R: Read> Read for Utf16<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let taken = self.text.read(buf)?;
            if taken > 0 || buf.is_empty() {
                return Ok(taken);
            }
            let is_more = self.decode()?;
            if !is_more && self.text.get_ref().is_empty() {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads one byte after the other.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf.get_mut(..1).unwrap_or_default())
        }
    }

    #[test]
    fn a_text_is_the_same_in_both_orders_however_it_arrives() {
        let text = "\u{feff}pod é 漢 😀\r\n".repeat(PIECE / 16);
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let want = text.replace('\u{feff}', "");
        let mut readers: [Box<dyn Read>; 3] = [
            Box::new(Utf16::little(little.as_slice())),
            Box::new(Utf16::big(big.as_slice())),
            Box::new(Utf16::little(Slow(&little))),
        ];
        for reader in &mut readers {
            let mut read = String::new();
            reader.read_to_string(&mut read).unwrap();
            assert_eq!(read, want);
        }
        let mut cut = String::new();
        let mut reader = Utf16::little(little.get(..9).unwrap());
        reader.read_to_string(&mut cut).unwrap();
        assert_eq!(cut, "pod\u{fffd}");
    }
}
