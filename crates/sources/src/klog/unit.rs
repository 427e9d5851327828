//! What the service manager says of the kubelet in the kubelet's journal: how its process ended, of which the kubelet's own log may say
//! nothing, or may not have been copied.

use super::header::LocalTime;
use crate::journal::Entry;
use kflow_model::log::Component;
use kflow_model::stamp::SECOND;

/// The service manager.
const MANAGER: &str = "systemd";

/// What stands between the name of a unit and what is said of it.
const UNIT: &str = ".service: ";

/// The part of a message that says how a process ended (systemd, src/core/unit.c, `unit_log_process_exit`).
const CODE: &str = " code=";

/// Precision of a time in the journal's short form, ns.
pub(super) const SHORT: u32 = 1_000_000_000;

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Returns the unit of which the service manager says that its process ended, and what it says: `kubelet`, and `Main process exited,
/// code=exited, status=1/FAILURE`.
fn ended<'m>(writer: &str, message: &'m str) -> Option<(&'m str, &'m str)> {
    let (unit, said) = message.split_once(UNIT)?;
    let is_name = unit.bytes().all(|c| c.is_ascii_graphic());
    (writer == MANAGER && is_name && said.contains(CODE)).then_some((unit, said))
}

/// Returns the unit of which a line of a journal says that its process ended.
pub fn ended_unit<'m>(writer: &str, message: &'m str) -> Option<&'m str> {
    ended(writer, message).map(|(unit, _)| unit)
}

/// Returns what an entry says of the end of the kubelet's process.
pub(super) fn ended_kubelet<'e>(entry: &'e Entry<'_>) -> Option<&'e str> {
    let writer = entry.origin.split('[').next()?;
    let (unit, said) = ended(writer, std::str::from_utf8(&entry.text).ok()?)?;
    (Component::of_program(unit) == Some(Component::Kubelet)).then_some(said)
}

/// Returns the time in front of a line of the journal's short form: `Nov 21 00:24:19`, also with a fraction.
pub(super) fn time(line: &[u8]) -> Option<LocalTime> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let month = words.next()?;
    let month = MONTHS.iter().zip(1..).find(|(name, _)| **name == month)?.1;
    let day = words.next()?.parse().ok()?;
    let clock = words.next()?;
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let mut parts = whole.split(':').map(|n| n.parse::<i64>().ok());
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next()??);
    let valid = (1..=31).contains(&day)
        && (0..24).contains(&hours)
        && (0..60).contains(&minutes)
        && (0..61).contains(&seconds);
    let micros: i64 = match fraction.get(..6) {
        Some(digits) => digits.parse().ok()?,
        None => 0,
    };
    let nanos = ((hours * 60 + minutes) * 60 + seconds) * SECOND + micros * 1_000;
    valid.then_some(LocalTime { month, day, nanos })
}
