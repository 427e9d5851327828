//! A session, whole or cut, plain or compressed; and that what a line says survives being written again.
#![no_main]

use kflow_model::session::{Reader, format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(reader) = Reader::new("fuzz", Box::new(std::io::Cursor::new(data.to_vec())), 0) {
        reader.for_each(|_| true);
    }
    for line in data.split(|b| *b == b'\n') {
        if let format::Line::Observation(o) = format::decode(line) {
            let once = format::redacted(o);
            let mut written = Vec::new();
            format::encode(&once, &mut written);
            assert_eq!(format::decode(written.trim_ascii_end()), format::Line::Observation(once));
        }
    }
});
