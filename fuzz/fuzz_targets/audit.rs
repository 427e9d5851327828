//! A batch of the audit webhook.
#![no_main]

use kflow_model::Nanos;
use kflow_sources::audit::decode::decode_batch;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    decode_batch(data, Nanos(1), &mut Vec::new());
});
