//! Source `metrics`.
