//! Commands that read observations and print what follows from them.

use std::io::Write;

use super::args::{CallsArgs, Format, TimelineArgs};
use super::input::Source;
use super::{NO_SUCH_POD, OK, out};
use crate::correlate::{ObjectState, Pod, World};
use crate::export::{calls, owner, timeline};
use crate::model::PodUid;

/// `kflow timeline`
pub(super) fn timeline(args: &TimelineArgs) -> anyhow::Result<u8> {
    let source = Source::open(&args.input)?;
    let world = source.world();
    let pods = match &args.pod {
        Some(query) => find(&world, query),
        None => world.pods().to_vec(),
    };
    if let Some(query) = args.pod.as_deref().filter(|_| pods.is_empty()) {
        let owners = owner::find(&world, query);
        if owners.is_empty() {
            return Ok(no_such_pod(query, &world));
        }
        return self::owners(&world, &owners, args.output);
    }
    let mut out = out::stdout();
    match args.output {
        Format::Json => timeline::json(&mut out, &pods)?,
        Format::Text => timeline::text(&mut out, &pods, source.at, out::colour())?,
    }
    out.flush()?;
    Ok(OK)
}

/// The stories of what makes pods.
fn owners(world: &World, found: &[&ObjectState], format: Format) -> anyhow::Result<u8> {
    let stories: Vec<_> = found.iter().map(|o| owner::story(world, o)).collect();
    let mut out = out::stdout();
    match format {
        Format::Json => owner::json(&mut out, &stories)?,
        Format::Text => {
            for story in &stories {
                owner::text(&mut out, story, out::colour())?;
            }
        }
    }
    out.flush()?;
    Ok(OK)
}

/// `kflow calls`
pub(super) fn calls(args: &CallsArgs) -> anyhow::Result<u8> {
    let source = Source::open(&args.input)?;
    let world = source.world();
    let pods = match &args.filter.pod {
        Some(query) => {
            let pods = find(&world, query);
            if pods.is_empty() {
                return Ok(no_such_pod(query, &world));
            }
            Some(pods.iter().map(|p| p.uid.clone()).collect::<Vec<_>>())
        }
        None => None,
    };
    let filter = calls::Filter {
        pods,
        methods: args.filter.method.clone(),
        query: args.filter.filter.clone(),
        errors: args.filter.errors,
        slower_than_ns: args.filter.slower_than,
        no_noise: args.filter.no_noise,
    };
    let mut out = out::stdout();
    match args.output {
        Format::Json => calls::json(&mut out, world.calls(), &filter, source.at)?,
        Format::Text => calls::text(&mut out, world.calls(), &filter, source.at, out::colour())?,
    }
    out.flush()?;
    Ok(OK)
}

/// Pods by `ns/name`, `name` or UID (a mirror pod's UID leads to its static pod), oldest first.
pub(super) fn find(world: &World, query: &str) -> Vec<Pod> {
    let mut pods: Vec<Pod> = world.find(query).into_iter().cloned().collect();
    if pods.is_empty() {
        pods.extend(world.pod(&PodUid::from(query)).cloned());
    }
    pods.reverse();
    pods
}

/// Says so, and names what comes near.
#[expect(clippy::print_stderr, reason = "a notice instead of a result")]
pub(super) fn no_such_pod(query: &str, world: &World) -> u8 {
    let near = near(query, world.pods().iter().map(|p| p.key()));
    let hint = if near.is_empty() {
        format!("{} pods are known", world.pods().len())
    } else {
        format!("did you mean {}?", near.join(", "))
    };
    eprintln!(
        "kflow: no pod {}: {}",
        crate::export::text::clean(query),
        crate::export::text::clean(&hint)
    );
    NO_SUCH_POD
}

/// Names that may have been meant: those that contain the word, and those that are a slip or two away. Nearest first.
fn near(query: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted = name_of(query);
    let mut near: Vec<(usize, String)> = names
        .filter_map(|key| {
            let name = name_of(&key);
            let slips = distance(wanted, name);
            let contained = !wanted.is_empty() && name.contains(wanted);
            let close = slips <= 1 + wanted.len().min(name.len()) / 5;
            (contained || close).then_some((if contained { 0 } else { slips }, key))
        })
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().map(|(_, key)| key).take(5).collect()
}

fn name_of(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

/// How many characters have to be put in, taken out or replaced (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let (mut corner, mut left) = (i, i + 1);
        for (y, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let best = (corner + usize::from(x != *y)).min(left + 1).min(*cell + 1);
            corner = *cell;
            *cell = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_slips() {
        for (a, b, want) in [
            ("", "", 0),
            ("abc", "", 3),
            ("", "abc", 3),
            ("image-missing", "image-mising", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), want, "{a} {b}");
        }
    }

    #[test]
    fn a_slip_finds_the_name_that_was_meant() {
        let names = ["s02/image-missing", "s02/config-missing", "s02/healthy"];
        let all = || names.iter().map(ToString::to_string);
        assert_eq!(near("s02/image-mising", all()), ["s02/image-missing"]);
        assert_eq!(
            near("missing", all()),
            ["s02/config-missing", "s02/image-missing"]
        );
        assert!(near("s02/nothing-like-it", all()).is_empty());
    }
}
