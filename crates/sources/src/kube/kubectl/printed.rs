//! When kubectl printed a text, as the text itself tells it.

use super::age::age;
use super::ticket::unquoted;
use kflow_model::Nanos;
use kflow_model::stamp::SECOND;

/// Returns the latest moment at which the newest description of a pod in a text can have been printed: a pod's Event `Scheduled` is
/// as old as its start. `None` where no description has both.
pub fn printed_at(text: &str) -> Option<Nanos> {
    let mut start = None;
    let mut newest = None;
    for line in text.lines().map(|line| unquoted(line).trim()) {
        if line.starts_with("Name:") {
            start = None;
        } else if let Some(time) = line.strip_prefix("Start Time:") {
            start = Nanos::parse_rfc2822(time.trim());
        } else if let Some((start, age)) = start.zip(scheduled(line)) {
            newest = newest.max(Some(start.plus(age.saturating_mul(SECOND))));
        }
    }
    newest
}

/// Returns the greatest age, in seconds, that a row of the Event `Scheduled` can mean.
fn scheduled(row: &str) -> Option<i64> {
    let words: Vec<&str> = row.split_whitespace().collect();
    let reason = words
        .windows(2)
        .position(|w| w == ["Normal", "Scheduled"])?
        + 1;
    // Before 1.10: first seen, last seen, count, and the type further behind.
    let own = words.get(reason + 1).and_then(|w| age(w));
    let age = own.or_else(|| words.get(1).and_then(|w| age(w)))?;
    Some(age.seconds + age.unit + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_age_of_its_event_tell_the_moment() {
        let head = "Name:           nginx\nStart Time:     Tue, 04 Sep 2018 10:00:00 +0000\n";
        let at = |text: &str| printed_at(text).map(Nanos::to_rfc3339_seconds);
        for (row, want) in [
            (
                "  Normal  Scheduled  7s    default-scheduler  Successfully assigned default/nginx to node1",
                "2018-09-04T10:00:09Z",
            ),
            (
                "  7s  7s  1  default-scheduler    Normal  Scheduled  Successfully assigned nginx to node1",
                "2018-09-04T10:00:09Z",
            ),
            (
                "  Normal  Scheduled  2d    default-scheduler  Successfully assigned default/nginx to node1",
                "2018-09-07T10:00:01Z",
            ),
        ] {
            assert_eq!(
                at(&format!("{head}Events:\n{row}\n")).as_deref(),
                Some(want)
            );
            assert_eq!(at(&format!("{row}\n")), None);
            // Another pod's.
            assert_eq!(at(&format!("{head}Name:  other\n{row}\n")), None);
        }
    }
}
