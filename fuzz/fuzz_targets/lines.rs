//! What the sources without a target of their own read; the first byte chooses which.
#![no_main]

use kflow_model::Nanos;
use kflow_model::log::Component;
use kflow_sources::fs::{classify_mount, classify_path, parse_mountinfo_line};
use kflow_sources::kube::decode::KubeLines;
use kflow_sources::metrics::{Scrape, Scrapes};
use kflow_sources::runtime::RuntimeDecoder;
use kflow_sources::{LineDecoder, TimeHint};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((which, text)) = data.split_first() else {
        return;
    };
    let mut out = Vec::new();
    let mut decoder: Box<dyn LineDecoder> = match which % 4 {
        0 => Box::new(RuntimeDecoder::new(Component::Containerd)),
        1 => Box::new(KubeLines::new(TimeHint::default())),
        2 => {
            let body = &String::from_utf8_lossy(text);
            for what in ["kubelet-metrics", "kubelet-healthz", "kubelet-configz", "kubelet-pods"] {
                let scrape = Scrape { at: Nanos(1), took_ns: 1, what, code: 200, body };
                let _ = Scrapes::default().take(scrape, &mut out);
            }
            return;
        }
        _ => {
            for line in String::from_utf8_lossy(text).lines() {
                drop(classify_path(line));
                drop(parse_mountinfo_line(line).and_then(|m| classify_mount(&m)));
            }
            return;
        }
    };
    for line in text.split(|b| *b == b'\n') {
        decoder.line(line, &mut out);
    }
    decoder.finish(&mut out);
});
