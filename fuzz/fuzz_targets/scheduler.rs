//! The scheduler's sentence, clause by clause.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|message: &str| {
    drop(kflow_core::diagnose::scheduler::parse(message));
});
