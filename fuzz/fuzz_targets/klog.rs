//! Lines of a component's log.
#![no_main]

use kflow_model::log::Component;
use kflow_sources::klog::KlogDecoder;
use kflow_sources::{LineDecoder, TimeHint};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut decoder = KlogDecoder::new(Component::Kubelet, TimeHint::default());
    let mut out = Vec::new();
    for line in data.split(|b| *b == b'\n') {
        decoder.line(line, &mut out);
    }
    decoder.finish(&mut out);
});
