//! One object of a list, and one event of a watch.
#![no_main]

use kflow_model::pod::WatchEvent;
use kflow_model::{Nanos, Stamp};
use kflow_sources::kube::decode::{decode_object, decode_watch_event};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let stamp = Stamp::exact(Nanos(1));
    for kind in ["", "Pod", "Event", "Node", "ReplicaSet"] {
        drop(decode_object(data, kind, WatchEvent::Listed, stamp));
    }
    drop(decode_watch_event(data, "pods", stamp));
});
