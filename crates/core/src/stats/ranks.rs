//! Compares two sets of lengths: the two-sided rank-sum test of Mann and Whitney. The test assumes no shape of the
//! distributions, which suits the lengths of starts and calls.
//!
//! While one set is small and no two lengths are equal, the probability is exact; otherwise it is the normal
//! approximation, corrected for ties and for continuity.

/// A set smaller than this is compared exactly. Mann and Whitney give tables up to 8 and approximate from there on ("On
/// a test of whether one of two random variables is stochastically larger than the other", 1947).
const SMALL: usize = 8;
/// Largest product of the two sizes for which the counts of the exact distribution fit in `i128`.
const EXACT: usize = 70_000;

/// The result of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranks {
    /// Probability of rank sums at least as far apart if both sets were drawn from one distribution.
    pub chance: f64,
    /// The smallest probability that sets of these sizes can give: that of two sets that do not overlap.
    pub least: f64,
    /// The second set has the higher ranks.
    pub second_is_longer: bool,
}

/// Compares two sets, which need not be sorted; `None` when one is empty.
pub fn compare(first: &[i64], second: &[i64]) -> Option<Ranks> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let mut all: Vec<(i64, bool)> = first.iter().map(|v| (*v, false)).collect();
    all.extend(second.iter().map(|v| (*v, true)));
    all.sort_unstable();
    let (mut sum, mut ties, mut before) = (0.0, 0.0, 0.0);
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let n = equal.len() as f64;
        // Equal values share the mean of their ranks.
        let rank = before + n.midpoint(1.0);
        let of_second = equal.iter().filter(|(_, second)| *second).count();
        sum += rank * of_second as f64;
        ties += n * n * n - n;
        before += n;
    }
    let (n1, n2) = (first.len() as f64, second.len() as f64);
    let u = sum - n2 * (n2 + 1.0) / 2.0;
    let (few, many) = (first.len().min(second.len()), first.len().max(second.len()));
    let exact = few < SMALL && ties == 0.0 && few * many <= EXACT;
    let chance = if exact {
        exactly(few, many, u as usize)
    } else {
        approximately(n1, n2, u, ties)
    };
    // Two sets that do not overlap: one of the ways to choose `few` places among all, for either side.
    let ways = (1..=few).fold(1.0, |w, i| w * (many + i) as f64 / i as f64);
    Some(Ranks {
        chance,
        least: (2.0 / ways).min(1.0),
        second_is_longer: u > n1 * n2 / 2.0,
    })
}

/// Returns the probability by the normal approximation.
fn approximately(n1: f64, n2: f64, u: f64, ties: f64) -> f64 {
    let n = n1 + n2;
    let variance = n1 * n2 / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - n1 * n2 / 2.0).abs() - 0.5).max(0.0);
    libm::erfc(distance / variance.sqrt() / std::f64::consts::SQRT_2)
}

/// Returns the exact probability: twice the share of orders whose statistic is at least as far from the middle. The
/// number of orders for each value of the statistic is a coefficient of the Gaussian binomial, the product of
/// `(1 - q^(many+i)) / (1 - q^i)` for `i` from 1 to `few`.
fn exactly(few: usize, many: usize, u: usize) -> f64 {
    let mut counts = vec![0_i128; few * many + 1];
    if let Some(first) = counts.first_mut() {
        *first = 1;
    }
    for i in 1..=few {
        let shift = many + i;
        for k in (shift..counts.len()).rev() {
            let low = counts.get(k - shift).copied().unwrap_or(0);
            if let Some(c) = counts.get_mut(k) {
                *c -= low;
            }
        }
        for k in i..counts.len() {
            let low = counts.get(k - i).copied().unwrap_or(0);
            if let Some(c) = counts.get_mut(k) {
                *c += low;
            }
        }
    }
    let all: i128 = counts.iter().sum();
    let extreme = u.min((few * many).saturating_sub(u));
    let tail: i128 = counts.iter().take(extreme + 1).sum();
    (2.0 * tail as f64 / all as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEN: [i64; 10] = [12, 15, 11, 18, 14, 13, 17, 16, 19, 10];
    const SEVEN: [i64; 7] = [3, 9, 14, 22, 27, 31, 40];

    /// Expected values from scipy 1.17: `mannwhitneyu(a, b, method="asymptotic")`, and `"exact"` for sets smaller than
    /// [`SMALL`].
    #[test]
    fn the_probabilities_are_those_of_scipy() {
        for (a, b, chance) in TABLE {
            let got = compare(a, b).unwrap();
            assert!((got.chance - chance).abs() < 1e-9, "{b:?}: {got:?}");
        }
    }

    const TABLE: &[(&[i64], &[i64], f64)] = &[
        (
            &TEN,
            &[22, 25, 21, 28, 24, 23, 27, 26, 29, 20],
            0.000_182_671_791_109_550_02,
        ),
        (&TEN, &[12, 15, 11, 18, 14, 13, 17, 16, 19, 10], 1.0),
        (
            &TEN,
            &[13, 16, 12, 19, 15, 14, 18, 17, 20, 11, 15],
            0.501_843_753_826_233,
        ),
        (
            &TEN,
            &[10, 10, 10, 11, 11, 12, 12, 13],
            0.017_406_066_368_306_918,
        ),
        (
            &TEN,
            &[1000, 14, 15, 15, 15, 18, 22, 9],
            0.421_010_726_192_502,
        ),
        (
            &SEVEN,
            &[1, 2, 4, 5, 6, 7, 8, 10, 11, 12],
            0.018_510_900_863_842_04,
        ),
        (&SEVEN, &[50, 51, 52, 53], 0.006_060_606_060_606_06),
        (
            &SEVEN,
            &[5, 15, 25, 35, 45, 55, 65, 75, 85, 95, 105, 115],
            0.017_067_555_767_246_17,
        ),
        (&SEVEN, &[13, 23, 33], 0.833_333_333_333_333_3),
    ];

    #[test]
    fn what_so_many_can_show_at_most_is_told() {
        assert_eq!(compare(&[], &[1]), None);
        // There are 252 ways to choose five places of ten.
        let five = compare(&[1, 2, 3, 4, 5], &[6, 7, 8, 9, 10]).unwrap();
        assert!((five.least - 2.0 / 252.0).abs() < 1e-12 && five.second_is_longer);
        assert!((five.chance - five.least).abs() < 1e-12);
        assert!(compare(&[5; 9], &[5; 9]).unwrap().chance > 0.999_999);
    }

    proptest! {
        #[test]
        fn exchanged_sets_have_one_probability(
            a in prop::collection::vec(0..50_i64, 1..40),
            b in prop::collection::vec(0..50_i64, 1..40),
        ) {
            let (one, other) = (compare(&a, &b).unwrap(), compare(&b, &a).unwrap());
            prop_assert!((one.chance - other.chance).abs() < 1e-12);
            prop_assert!((0.0..=1.0).contains(&one.chance));
        }
    }
}
