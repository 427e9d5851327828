//! Of which container the Events of a description are: releases before 1.35 do not print it, and only `Created` and `Started`
//! name theirs.
//!
//! The kubelet takes one container after the other: it pulls the image, creates the container and starts it
//! (1.36: pkg/kubelet/kuberuntime/kuberuntime_container.go, `startContainer`).

use std::collections::BTreeMap;

use super::super::events::begun;
use super::super::table::Row;

/// What is known of an image: the container that has it, or that several have it.
type Names = BTreeMap<String, Option<String>>;

pub(super) fn of_containers(rows: &mut [Row]) {
    let of_pod = |row: &&mut Row| row.is_described && row.kind == "Pod";
    let mut rows: Vec<&mut Row> = rows.iter_mut().filter(of_pod).collect();
    let mut names = Names::new();
    // The image that is there and whose container is not made yet; the container that is made and not started yet.
    let (mut pulled, mut made): (Option<String>, Option<String>) = (None, None);
    let mut images = Vec::new();
    for row in &mut rows {
        let mut of = image(row);
        match row.reason.as_str() {
            "Pulling" | "Pulled" => (pulled, made) = (of.clone(), None),
            "Created" | "Started" => {
                if let Some(name) = begun(&row.reason, &row.message).map(str::to_owned) {
                    if let Some(image) = pulled.take() {
                        let known = names.entry(image).or_insert_with(|| Some(name.clone()));
                        known.take_if(|known| *known != name);
                    }
                    set(row, &name);
                    made = Some(name).filter(|_| row.reason == "Created");
                } else if let Some(name) = made.take().filter(|_| row.reason == "Started") {
                    // A row that was cut before its message.
                    set(row, &name);
                }
            }
            "Failed" if of.is_none() => match made.take() {
                Some(name) => set(row, &name),
                None => of.clone_from(&pulled),
            },
            _ => {}
        }
        images.push(of);
    }
    for (row, image) in rows.iter_mut().zip(&images) {
        if let Some(Some(name)) = image.as_ref().and_then(|image| names.get(image)) {
            set(row, name);
        }
    }
    if let Some(name) = only(&rows) {
        let is_other = |image: &Option<String>| image.is_some() && !names.is_empty();
        let left = rows.into_iter().zip(&images);
        let left = left.filter(|(_, image)| !is_other(image));
        of_one(left.map(|(row, _)| row).collect(), &name);
    }
}

/// Returns the container that the rows name, where they name one alone.
fn only(rows: &[&mut Row]) -> Option<String> {
    let mut begun = rows
        .iter()
        .filter_map(|row| begun(&row.reason, &row.message));
    let name = begun.next()?;
    begun.all(|other| other == name).then(|| name.to_owned())
}

/// Says that rows are of the only container that is named, unless an error is newer than its start: that is of another container,
/// which was never made.
fn of_one(mut rows: Vec<&mut Row>, name: &str) {
    let age = |row: &Row| row.ages.last.map(|age| age.seconds);
    let start = rows
        .iter()
        .filter(|row| begun(&row.reason, &row.message).is_some());
    let start = start.filter_map(|row| age(row)).min();
    let is_newer = |row: &Row| {
        let ages = age(row).zip(start).filter(|_| row.reason == "Failed");
        ages.is_some_and(|(age, start)| age < start)
    };
    let has_other = rows.iter().any(|row| is_newer(row));
    for row in &mut rows {
        let is_of_it = match row.reason.as_str() {
            "BackOff" => image(row).is_none(),
            "Unhealthy" | "ProbeWarning" => true,
            "Pulling" | "Pulled" | "Failed" => !has_other,
            _ => false,
        };
        if is_of_it {
            set(row, name);
        }
    }
}

fn set(row: &mut Row, name: &str) {
    if row.subobject.is_empty() {
        row.subobject = format!("spec.containers{{{name}}}");
    }
}

/// Returns the image that an Event is about: `Pulling image "x"`, `Container image "x" already present on machine`,
/// `Failed to pull image "x": …`, `Back-off pulling image "x"`.
fn image(row: &Row) -> Option<String> {
    if !matches!(
        row.reason.as_str(),
        "Pulling" | "Pulled" | "Failed" | "BackOff"
    ) {
        return None;
    }
    let (front, rest) = row.message.split_once(" image \"")?;
    let (image, _) = rest.split_once('"')?;
    // Not in the middle of another error.
    (!front.contains(':')).then(|| image.to_owned())
}
