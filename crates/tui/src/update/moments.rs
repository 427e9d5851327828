//! Moves to other moments: to a time or an incident, and at what speed a replay plays.

use crate::backend::Drive;
use crate::model::{Effect, Model};
use kflow_core::query::Moment;
use kflow_engine::Snapshot;

/// The steps of the commands for faster and slower, in thousandths of real time; 0 is as fast as possible.
pub(super) const SPEEDS: [u32; 11] = [
    100, 250, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, 300_000, 0,
];

impl Model {
    /// Goes to the next or previous incident, by begin: from the incident that was opened last, however far the replay
    /// has played since, or else from the shown moment.
    pub(super) fn incident(&mut self, forward: bool, snap: &Snapshot) -> Vec<Effect> {
        let all = &snap.overview.incidents;
        let last = self.shared.incident.as_ref();
        let here = last.and_then(|(id, _)| all.iter().position(|i| id.is_of(i)));
        let to = match (here, forward) {
            (Some(n), true) => Some(n + 1),
            (Some(n), false) => n.checked_sub(1),
            (None, true) => all.iter().position(|i| i.begin > snap.now),
            (None, false) => all.iter().rposition(|i| i.begin < snap.now),
        };
        let Some((n, i)) = to.and_then(|n| Some((n, all.get(n)?))) else {
            let side = if forward { "after" } else { "before" };
            let so_far = match snap.overview.upto {
                Some(u) if !snap.overview.whole => {
                    format!(
                        " (looked up to {} so far)",
                        self.shared.time(snap).dated(u, 0)
                    )
                }
                None if !snap.overview.whole => " (the session is being read)".to_owned(),
                _ => String::new(),
            };
            self.say(format!("there is no incident {side} this{so_far}"));
            return Vec::new();
        };
        let v = &i.verdict;
        let text = format!(
            "incident {} of {}: {} {}: {}",
            n + 1,
            all.len(),
            v.cause_id(),
            i.subject,
            v.sentence
        );
        let at = self
            .shared
            .visit(i, snap.overview.upto.unwrap_or(snap.range.1));
        self.say(text);
        vec![Effect::Drive(Drive::Seek(at))]
    }
    /// Forgets which incident was opened when the user goes to another moment than the incident's.
    pub(super) fn depart(&mut self, effects: &[Effect]) {
        let at = self.shared.incident.as_ref().map(|(_, at)| *at);
        let leaves = |e: &Effect| match e {
            Effect::Drive(Drive::Seek(to)) => Some(*to) != at,
            Effect::Drive(d) => matches!(
                d,
                Drive::Step { .. }
                    | Drive::StepPod { .. }
                    | Drive::Error { .. }
                    | Drive::Mark
                    | Drive::Follow
                    | Drive::Stop { .. }
            ),
            _ => false,
        };
        if effects.iter().any(leaves) {
            self.shared.incident = None;
        }
    }
    /// Goes to a time: the cursor follows the snapshot again, and the engine shows that moment.
    pub(super) fn seek(&mut self, text: &str, snap: &Snapshot) -> Vec<Effect> {
        let zone = self.shared.zone();
        match Moment::parse(text) {
            Some(moment) => {
                let at = moment.within(snap.range, Some(snap.now), |at| zone.east(at));
                self.shared.cursor = None;
                vec![Effect::Drive(Drive::Seek(at))]
            }
            None => {
                self.complain(format!(
                    "\"{text}\" is no time: 12:00:05, +3s, -1m, 40%, start, end"
                ));
                Vec::new()
            }
        }
    }
}

/// Parses a speed such as `10`, `0.5x` or `max` into thousandths of real time; 0 is as fast as possible.
pub fn parse_speed(text: &str) -> Option<u32> {
    let t = text.trim().trim_end_matches(['x', '×']);
    if text.trim() == "max" {
        return Some(0);
    }
    let f: f64 = t.parse().ok()?;
    let permille = f * 1000.0;
    (1.0..=1e9).contains(&permille).then_some(permille as u32)
}

#[cfg(test)]
mod tests {
    use super::parse_speed;

    #[test]
    fn speeds_are_factors() {
        assert_eq!(parse_speed("10x"), Some(10_000));
        assert_eq!(parse_speed("0.5"), Some(500));
        assert_eq!(parse_speed("max"), Some(0));
        for bad in ["", "fast", "-1", "0", "nan"] {
            assert_eq!(parse_speed(bad), None, "{bad}");
        }
    }
}
