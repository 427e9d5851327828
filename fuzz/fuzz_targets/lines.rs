//! Lines of the sources that have no target of their own; the first byte chooses which.
#![no_main]

use kflow_model::log::Component;
use kflow_sources::cri::bytes::ByteLog;
use kflow_sources::fs::FsDecoder;
use kflow_sources::kube::decode::KubeLines;
use kflow_sources::metrics::MetricsDecoder;
use kflow_sources::runtime::RuntimeDecoder;
use kflow_sources::{LineDecoder, TimeHint};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    let mut decoder: Box<dyn LineDecoder> = match which % 5 {
        0 => Box::new(RuntimeDecoder::new(Component::Containerd)),
        1 => Box::new(MetricsDecoder::new()),
        2 => Box::new(FsDecoder::new()),
        3 => Box::new(ByteLog::new()),
        _ => Box::new(KubeLines::new(TimeHint::default())),
    };
    let mut out = Vec::new();
    for line in text.split(|b| *b == b'\n') {
        decoder.line(line, &mut out);
    }
    decoder.finish(&mut out);
});
