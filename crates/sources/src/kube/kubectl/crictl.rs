//! Tables of `crictl ps` and `crictl pods`: what exists in the runtime of a node.
//!
//! They are printed by kubernetes-sigs/cri-tools (1.33: cmd/crictl/container.go, `OutputContainers` and cmd/crictl/sandbox.go,
//! `OutputPodSandboxes`). Ids are cut to 13 characters, a container's pod is named without its UID, before 1.32 without its
//! namespace too, and releases before 1.22 have only the id of its sandbox.

use super::Moment;
use super::age::Age;
use super::pods::{Taken, is_name};
use super::table::cells;
use kflow_model::cri::{CallKey, Inventory, InventoryItem, RuntimeState, Subject};
use kflow_model::{Body, Nanos, Observation, PodNames, PodRef, Source};

/// Least length of an id: crictl's `getTruncatedID` leaves 13, docker 12.
const ID: usize = 12;

/// A table while it is read.
#[derive(Debug)]
pub(super) struct Table {
    titles: Vec<String>,
    is_of_pods: bool,
    rows: Vec<InventoryItem>,
}

impl Table {
    /// Begins the table of which this is the line of titles; `None` for every other line.
    pub(super) fn of_titles(line: &str) -> Option<Self> {
        // `minikube logs` of 2020 to 2022 put a star before it.
        let line = line.trim();
        let line = line.strip_prefix("* ").unwrap_or(line);
        let titles = cells(line).into_iter().map(|(_, title)| title.to_owned());
        let titles: Vec<String> = titles.collect();
        let has = |title: &str| titles.iter().any(|t| t == title);
        let is_of_pods = match titles.first()?.as_str() {
            "POD ID" => true,
            "CONTAINER" | "CONTAINER ID" => false,
            _ => return None,
        };
        let is_it = ["CREATED", "STATE", "NAME", "ATTEMPT"]
            .iter()
            .all(|t| has(t));
        is_it.then_some(Self {
            titles,
            is_of_pods,
            rows: Vec::new(),
        })
    }

    pub(super) fn line(&mut self, line: &str, moment: Moment) -> Taken {
        let cells = cells(line.trim());
        let is_id = |id: &str| id.len() >= ID && id.bytes().all(|b| b.is_ascii_hexdigit());
        if !cells.first().is_some_and(|(_, id)| is_id(id)) {
            return Taken::No;
        }
        let cell = |title: &str| {
            let at = self.titles.iter().position(|t| t == title)?;
            cells.get(at).map(|(_, cell)| *cell)
        };
        let read = || {
            let id = cells.first()?.1;
            let state = match cell("STATE")? {
                "Ready" | "SANDBOX_READY" => RuntimeState::Ready,
                "NotReady" | "SANDBOX_NOTREADY" => RuntimeState::NotReady,
                "Created" | "CONTAINER_CREATED" => RuntimeState::Created,
                "Running" | "CONTAINER_RUNNING" => RuntimeState::Running,
                "Exited" | "CONTAINER_EXITED" => RuntimeState::Exited,
                "Unknown" | "CONTAINER_UNKNOWN" => RuntimeState::Unknown,
                _ => return None,
            };
            let attempt = cell("ATTEMPT")?.parse().ok()?;
            let name = cell("NAME")?;
            let pod = if self.is_of_pods {
                Some(name)
            } else {
                cell("POD").filter(|pod| is_name(pod) && *pod != "unknown")
            };
            let pod = PodRef::from(PodNames {
                namespace: cell("NAMESPACE").unwrap_or_default().into(),
                name: pod.unwrap_or_default().into(),
                ..PodNames::default()
            });
            let sandbox = if self.is_of_pods {
                Some(id)
            } else {
                cell("POD ID")
            };
            let created = cell("CREATED").and_then(ago);
            let subject = Subject {
                pod,
                attempt: Some(attempt),
                container: (if self.is_of_pods { "" } else { name }).into(),
                sandbox_id: sandbox.unwrap_or_default().into(),
                container_id: (if self.is_of_pods { "" } else { id }).into(),
                image: cell("IMAGE").unwrap_or_default().into(),
            };
            Some(InventoryItem {
                subject,
                state,
                created: created.map(|age| moment.before(age)).unwrap_or_default(),
                started: Nanos::default(),
                finished: Nanos::default(),
                exit_code: None,
                reason: kflow_model::Text::default(),
                ips: Vec::new(),
            })
        };
        let Some(item) = read() else {
            return Taken::Unread;
        };
        self.rows.push(item);
        Taken::Row
    }

    /// Returns what it tells; `None` where it has no row. Rows may have been cut out, and `crictl ps` shows what runs only.
    pub(super) fn end(self, moment: Moment) -> Option<Observation> {
        let inventory = Inventory {
            key: CallKey::default(),
            complete: false,
            sandboxes: self.is_of_pods,
            items: self.rows,
        };
        let has_rows = !inventory.items.is_empty();
        has_rows.then(|| Observation {
            stamp: moment.stamp(),
            source: Source::Runtime,
            body: Body::Inventory(Box::new(inventory)),
        })
    }
}

/// Reads `4 minutes ago`: the least that it can be (docker/go-units: duration.go, `HumanDuration`).
fn ago(text: &str) -> Option<Age> {
    let text = text.strip_suffix(" ago")?;
    let (number, unit) = match text {
        "Less than a second" => (0, "seconds"),
        "About a minute" => (1, "minutes"),
        "About an hour" => (1, "hours"),
        _ => {
            let (number, unit) = text.split_once(' ')?;
            (number.parse::<i64>().ok()?, unit)
        }
    };
    let (unit, rounded) = match unit {
        "second" | "seconds" => (1, 0),
        "minutes" => (60, 0),
        // To the next whole hour.
        "hours" => (3600, 1800),
        "days" => (86_400, 1800),
        "weeks" => (7 * 86_400, 1800),
        "months" => (30 * 86_400, 1800),
        "years" => (365 * 86_400, 1800),
        _ => return None,
    };
    let seconds = number.checked_mul(unit)?.saturating_sub(rounded).max(0);
    Some(Age { seconds, unit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_the_least_that_they_can_be() {
        for (text, want) in [
            ("Less than a second ago", Some(0)),
            ("1 second ago", Some(1)),
            ("49 seconds ago", Some(49)),
            ("About a minute ago", Some(60)),
            ("4 minutes ago", Some(240)),
            ("About an hour ago", Some(1800)),
            ("2 hours ago", Some(5400)),
            ("3 days ago", Some(3 * 86_400 - 1800)),
            ("2 weeks ago", Some(14 * 86_400 - 1800)),
            ("4 minutes", None),
            ("x minutes ago", None),
            ("9223372036854775807 years ago", None),
        ] {
            assert_eq!(ago(text).map(|a| a.seconds), want, "{text}");
        }
    }
}
