//! What a user types as a filter.
#![no_main]

use kflow_tui::filter::Filter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(filter) = Filter::parse(text) {
        assert!(Filter::parse(filter.text()).is_ok());
    }
});
