//! Local time, by the rules of the system's time zone database.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use kflow_model::Nanos;

/// A time zone. The default is UTC.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// Returns the zone of `TZ`, or else of `/etc/localtime`; UTC if neither can be read.
    pub fn of_the_system() -> Self {
        TimeZone::try_system().map_or_else(|_| Self::default(), Self)
    }
    /// Returns the offset from UTC at a moment, in seconds, positive to the east. It changes with daylight saving time.
    pub fn east(&self, at: Nanos) -> i32 {
        Timestamp::from_nanosecond(at.0.into()).map_or(0, |t| self.0.to_offset(t).seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// New York, by the rule in the footer of its TZif file.
    fn new_york() -> Zone {
        Zone(TimeZone::posix("EST5EDT,M3.2.0,M11.1.0").unwrap())
    }
    fn at(s: &str) -> Nanos {
        Nanos::parse_rfc3339(s).unwrap().0
    }

    #[test]
    fn the_offset_is_the_one_of_the_moment() {
        for (moment, hours) in [
            ("2026-01-15T12:00:00Z", -5),
            ("2026-03-08T06:59:59Z", -5),
            ("2026-03-08T07:00:00Z", -4),
            ("2026-07-01T12:00:00Z", -4),
            ("2026-11-21T12:00:00Z", -5),
            ("2099-01-15T12:00:00Z", -5),
            ("2099-07-15T12:00:00Z", -4),
        ] {
            assert_eq!(new_york().east(at(moment)), hours * 3600, "{moment}");
        }
        assert_eq!(Zone::default().east(at("2026-07-01T12:00:00Z")), 0);
    }

    /// A TZif file whose last transition is long past. Its footer has the rule for later times (RFC 8536, 3.3).
    #[test]
    fn the_footer_of_a_zone_file_counts() {
        let mut file = Vec::new();
        for width in [4, 8_usize] {
            file.extend(b"TZif2");
            file.extend([0; 15]);
            for n in [0_u32, 0, 0, 1, 2, 8] {
                file.extend(n.to_be_bytes());
            }
            let at = 1_000_000_000_i64.to_be_bytes();
            file.extend(at.iter().skip(8 - width));
            file.push(1);
            for (east, summer, name) in [(-18_000_i32, 0_u8, 0_u8), (-14_400, 1, 4)] {
                file.extend(east.to_be_bytes());
                file.extend([summer, name]);
            }
            file.extend(b"EST\0EDT\0");
        }
        file.extend(b"\nEST5EDT,M3.2.0,M11.1.0\n");
        let zone = Zone(TimeZone::tzif("America/New_York", &file).unwrap());
        assert_eq!(zone.east(at("2026-01-15T12:00:00Z")), -5 * 3600);
        assert_eq!(zone.east(at("2026-07-15T12:00:00Z")), -4 * 3600);
    }

    proptest! {
        #[test]
        fn every_moment_has_an_offset(n in any::<i64>()) {
            prop_assert!([-4 * 3600, -5 * 3600].contains(&new_york().east(Nanos(n))));
        }
    }
}
