//! Source `cri`.
