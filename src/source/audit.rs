//! Source `audit`.
