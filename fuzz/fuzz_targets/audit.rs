//! A batch of the audit webhook.
#![no_main]

use kflow::model::Nanos;
use kflow::source::audit::decode::decode_batch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    decode_batch(data, Nanos(1), &mut Vec::new());
});
