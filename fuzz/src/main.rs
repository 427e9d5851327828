//! libFuzzer with the one of [`targets`] that `KFLOW_FUZZ` names. If `KFLOW_FUZZ_SEEDS` names a folder, the target's
//! seeds are written into it before libFuzzer reads it. See README.md.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

mod targets;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

fn begin() {
    let name = std::env::var("KFLOW_FUZZ").unwrap_or_default();
    let Some(target) = targets::ALL.iter().find(|t| t.name == name) else {
        let names: Vec<_> = targets::ALL.iter().map(|t| t.name).collect();
        eprintln!("KFLOW_FUZZ names the target, one of: {}", names.join(" "));
        std::process::exit(2);
    };
    if let Some(dir) = std::env::var_os("KFLOW_FUZZ_SEEDS") {
        for (n, seed) in (target.seeds)().iter().enumerate() {
            let path = std::path::Path::new(&dir).join(format!("seed-{n:04}"));
            std::fs::write(&path, seed).expect("seeds are written");
        }
    }
    TARGET.get_or_init(|| target.run);
}

fuzz_target!(init: begin(), |data: &[u8]| {
    if let Some(run) = TARGET.get() {
        run(data);
    }
});
