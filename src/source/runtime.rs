//! Source `runtime`.
