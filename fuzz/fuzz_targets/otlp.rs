//! A request to export spans.
#![no_main]

use kflow_model::Nanos;
use kflow_sources::otlp::decode::decode_request;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(decode_request(data, Nanos(1)));
});
