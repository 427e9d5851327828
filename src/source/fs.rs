//! Source `fs`.
