//! "Did you mean …?": the known names closest to an unknown one.

/// Most suggestions for one name.
const MOST: usize = 5;

/// Fewest characters that find a name by a part of it: shorter texts are part of nearly every name.
const PART: usize = 3;

/// Returns the names that contain `wanted` and those that differ from it by few letters (one, and one more per five
/// letters; two swapped letters count as one), closest first. `key` returns the part of a name that is compared,
/// without regard to case.
pub fn suggest<N: AsRef<str> + Ord>(
    wanted: &str,
    names: impl IntoIterator<Item = N>,
    key: impl Fn(&str) -> &str,
) -> Vec<N> {
    let wanted = key(wanted).to_lowercase();
    let mut near: Vec<(usize, N)> = names
        .into_iter()
        .filter_map(|name| {
            let compared = key(name.as_ref()).to_lowercase();
            if wanted.len() >= PART && compared.contains(&wanted) {
                return Some((0, name));
            }
            let distance = strsim::osa_distance(&wanted, &compared);
            let few = 1 + wanted.len().min(compared.len()) / 5;
            (distance <= few && distance < wanted.len()).then_some((distance, name))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().map(|(_, name)| name).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name_of(key: &str) -> &str {
        key.rsplit('/').next().unwrap_or(key)
    }

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let names = ["s02/image-missing", "s02/config-missing", "s02/healthy"];
        for (wanted, want) in [
            ("s02/image-mising", vec!["s02/image-missing"]),
            ("missing", vec!["s02/config-missing", "s02/image-missing"]),
            ("HEALTHY", vec!["s02/healthy"]),
            ("ehatlhy", vec!["s02/healthy"]),
            ("s02/nothing-like-it", vec![]),
            ("", vec![]),
            ("x", vec![]),
        ] {
            assert_eq!(suggest(wanted, names, name_of), want, "{wanted}");
        }
    }

    #[test]
    fn there_are_never_more_than_can_be_read() {
        let names: Vec<String> = (0..100).map(|i| format!("web-{i}")).collect();
        assert_eq!(suggest("web", &names, |n| n).len(), MOST);
    }
}
