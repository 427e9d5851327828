//! Runs the fuzz targets without a fuzzer: on their seeds, which come from recordings, and on the inputs in
//! `fuzz/corpus` (one per line, base64): mutated recordings, and inputs that failed once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

fn kept(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let text = std::fs::read_to_string(folder.join(name)).expect("each target has a corpus");
    text.lines()
        .map(|line| STANDARD.decode(line).expect("base64"))
        .collect()
}

fn holds(name: &str) {
    let target = targets::ALL.iter().find(|t| t.name == name);
    let target = target.expect("a target of this name");
    let (seeds, kept) = ((target.seeds)(), kept(name));
    assert!(!seeds.is_empty() && !kept.is_empty(), "nothing to try");
    // A fuzzer cannot work from a seed that is cut to its first bytes.
    let whole = seeds.iter().filter(|s| s.len() > 2).count();
    assert!(
        whole * 10 >= seeds.len() * 9,
        "{whole} of {} seeds",
        seeds.len()
    );
    for input in seeds.iter().chain(&kept) {
        let tried = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
        assert!(tried.is_ok(), "{name} fails on {}", STANDARD.encode(input));
    }
}

/// The first byte of an input of `text` selects the form.
#[test]
fn each_form_that_is_read_line_by_line_has_a_seed() {
    let target = targets::ALL.iter().find(|t| t.name == "text");
    let seeds = (target.expect("it is there").seeds)();
    let heads: std::collections::BTreeSet<u8> = seeds.iter().map(|s| s[0]).collect();
    let all = kflow_engine::import::Kind::ALL.len();
    assert!((0..all).eq(heads.into_iter().map(usize::from)));
}

macro_rules! targets {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            holds(stringify!($name));
        })*

        #[test]
        fn all_of_them_are_tried() {
            let tried = [$(stringify!($name)),*];
            let all: Vec<_> = targets::ALL.iter().map(|t| t.name).collect();
            assert_eq!(tried, all[..]);
        }
    };
}

targets! {
    text lines cri cri_joined kube audit otlp bundle session index journal correlate filter scheduler terminal drawn
}
