//! Kubernetes resource quantities: `100m`, `1.5`, `24581696Ki`, `2Gi`, `1e3`.

/// A quantity in thousandths of its unit; exact for what Kubernetes writes, saturating beyond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub i128);

impl Quantity {
    /// Parses a quantity; `None` when the text is none.
    pub fn parse(s: &str) -> Option<Self> {
        let s = s.trim();
        let end = s
            .char_indices()
            .find(|(i, c)| {
                !(c.is_ascii_digit() || *c == '.' || (*i == 0 && (*c == '-' || *c == '+')))
            })
            .map_or(s.len(), |(i, _)| i);
        let (number, suffix) = (s.get(..end)?, s.get(end..)?);
        if !number.bytes().any(|b| b.is_ascii_digit()) {
            return None;
        }
        let (num, den): (i128, i128) = match suffix {
            "n" => (1, 1_000_000_000),
            "u" => (1, 1_000_000),
            "m" => (1, 1000),
            "" => (1, 1),
            "k" => (1000, 1),
            "M" => (1_000_000, 1),
            "G" => (1_000_000_000, 1),
            "T" => (1_000_000_000_000, 1),
            "P" => (1_000_000_000_000_000, 1),
            "E" => (1_000_000_000_000_000_000, 1),
            "Ki" => (1 << 10, 1),
            "Mi" => (1 << 20, 1),
            "Gi" => (1 << 30, 1),
            "Ti" => (1 << 40, 1),
            "Pi" => (1 << 50, 1),
            "Ei" => (1 << 60, 1),
            e => {
                let exp: i32 = e.strip_prefix(['e', 'E'])?.parse().ok()?;
                let p = 10_i128.checked_pow(exp.unsigned_abs())?;
                if exp < 0 { (1, p) } else { (p, 1) }
            }
        };
        let (whole, frac) = number.split_once('.').unwrap_or((number, ""));
        let negative = whole.starts_with('-');
        let digits: String = whole
            .trim_start_matches(['-', '+'])
            .chars()
            .chain(frac.chars())
            .collect();
        let value: i128 = digits.parse().ok()?;
        let scale = 10_i128.checked_pow(u32::try_from(frac.len()).ok()?)?;
        let milli = value
            .checked_mul(1000)?
            .checked_mul(num)?
            .checked_div(scale.checked_mul(den)?)?;
        Some(Self(if negative { -milli } else { milli }))
    }

    /// Formats a quantity as people write it: CPU in cores or `m`, bytes in `Mi` or `Gi`, others as a number.
    pub fn show(self, resource: &str) -> String {
        let milli = self.0;
        if resource == "cpu" {
            return if milli % 1000 == 0 {
                format!("{}", milli / 1000)
            } else {
                format!("{milli}m")
            };
        }
        let units = milli / 1000;
        if resource.contains("memory")
            || resource.contains("storage")
            || resource.starts_with("hugepages")
        {
            for (name, size) in [
                ("Ti", 1_i128 << 40),
                ("Gi", 1 << 30),
                ("Mi", 1 << 20),
                ("Ki", 1 << 10),
            ] {
                if units.abs() >= size {
                    let tenths = units * 10 / size;
                    return if tenths % 10 == 0 || tenths.abs() >= 1000 {
                        format!("{}{name}", tenths / 10)
                    } else {
                        format!("{}.{}{name}", tenths / 10, (tenths % 10).abs())
                    };
                }
            }
        }
        units.to_string()
    }
}

impl std::ops::Add for Quantity {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self(self.0.saturating_add(o.0))
    }
}
impl std::ops::Sub for Quantity {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        Self(self.0.saturating_sub(o.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_every_form_are_read() {
        for (s, milli) in [
            ("100m", 100),
            ("64", 64_000),
            ("1.5", 1500),
            ("0.1", 100),
            ("24581696Ki", 24_581_696 * 1024 * 1000),
            ("2Gi", (2 << 30) * 1000),
            ("1e3", 1_000_000),
            ("500u", 0),
            ("-1", -1000),
        ] {
            assert_eq!(Quantity::parse(s), Some(Quantity(milli)), "{s}");
        }
        for s in ["", "x", "1x", "Ki", "."] {
            assert_eq!(Quantity::parse(s), None, "{s}");
        }
    }

    #[test]
    fn quantities_are_shown_in_the_unit_of_the_resource() {
        let show = |s, r| Quantity::parse(s).map(|q| q.show(r)).unwrap_or_default();
        assert_eq!(show("1500m", "cpu"), "1500m");
        assert_eq!(show("64", "cpu"), "64");
        assert_eq!(show("24581696Ki", "memory"), "23.4Gi");
        assert_eq!(show("48Mi", "memory"), "48Mi");
        assert_eq!(show("3", "nvidia.com/gpu"), "3");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(s in ".{0,24}") {
            if let Some(q) = Quantity::parse(&s) {
                proptest::prop_assert!(!q.show("memory").is_empty());
            }
        }
    }
}
