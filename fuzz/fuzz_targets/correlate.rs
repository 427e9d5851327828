//! Real observations in any order: whatever it is, the same timelines follow. Two bytes choose the next one.
#![no_main]

use std::sync::LazyLock;

use kflow_core::correlate::World;
use kflow_model::session::Reader;
use kflow_model::Evidence;
use libfuzzer_sys::fuzz_target;

static SESSION: &[u8] = include_bytes!("../../fixtures/sessions/S13-crictl.kflow.zst");

static REAL: LazyLock<Vec<Evidence>> = LazyLock::new(|| {
    let mut all = Vec::new();
    if let Ok(reader) = Reader::new("fixture", Box::new(SESSION), SESSION.len() as u64) {
        reader.for_each(|batch| {
            all.extend(batch.observations);
            true
        });
    }
    all
});

fn timelines(of: impl Iterator<Item = Evidence>) -> String {
    let mut world = World::new();
    of.for_each(|o| world.observe(&o));
    world.refresh();
    let mut out = Vec::new();
    kflow_export::timeline::rows(&mut out, world.pods(), kflow_export::rows::Rows::Json).expect("a vector grows");
    String::from_utf8_lossy(&out).into_owned()
}

fuzz_target!(|data: &[u8]| {
    let chosen: Vec<Evidence> = data
        .chunks_exact(2)
        .filter_map(|b| REAL.get(usize::from(u16::from_le_bytes([b[0], b[1]])) % REAL.len().max(1)))
        .cloned()
        .collect();
    let mut sorted = chosen.clone();
    sorted.sort();
    assert_eq!(timelines(chosen.into_iter()), timelines(sorted.into_iter()));
});
