//! The only place that asks the system what time it is.

use crate::model::Nanos;

/// Now, by the system's clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock")]
pub fn now() -> Nanos {
    let d = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    Nanos(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}
