//! Timelines, calls and verdicts in other people's formats: pure mappings onto an `impl Write`.
