//! Source `otlp`.
