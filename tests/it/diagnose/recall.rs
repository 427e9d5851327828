//! How often each cause is told where it is true, and that this does not become less.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Rows, Sources, causes};
use crate::in_repository;
use kflow_core::diagnose::Verdict;

/// By cause: how often it is true, and how often it is told with each of [`Sources::EACH`]. What holds of any failure of
/// the stage does not count.
pub(super) type Told = BTreeMap<String, [u32; 4]>;
/// By cause: how often the API alone tells it, and the node alone.
type Floor = BTreeMap<String, [u32; 2]>;

const FLOOR: &str = "fixtures/causes/recall.tsv";

pub(super) fn told(tables: &[Rows]) -> Told {
    let mut counts = Told::new();
    let mut add = |cause: &str, told: [bool; 3]| {
        let c = counts.entry(cause.to_owned()).or_default();
        c[0] += 1;
        for (n, told) in c[1..].iter_mut().zip(told) {
            *n += u32::from(told);
        }
    };
    for row in tables.iter().flat_map(BTreeMap::values) {
        let causes = &row.expected.causes;
        // When several causes are true, the one that is told with all sources counts.
        let said = |s| {
            let got = row.got.get(&s).map_or("", String::as_str);
            got.split(' ').next().unwrap_or_default()
        };
        let Some(cause) = causes.iter().find(|c| *c == said(Sources::All)) else {
            continue;
        };
        add(
            cause,
            Sources::EACH.map(|s| causes.iter().any(|c| c == said(s))),
        );
    }
    for s in causes::scenarios() {
        let is =
            |v: Verdict| v.cause_id() == s.cause || s.also_fine.contains(&v.cause_id().to_owned());
        add(
            &s.cause,
            Sources::EACH.map(|of| causes::told(&s, of).is_some_and(is)),
        );
    }
    counts
}

pub(super) fn table(told: &Told, out: &mut String) {
    out.push_str(
        "\n## Recall by cause\n\n\
         How often each cause is told where it is true, in the recordings below and in the scenarios of `fixtures/causes`. Part of the\n\
         sources may tell what holds of any failure of the stage instead, or nothing: why is in `tests/it/diagnose/silence.rs`. The counts\n\
         of a part stand in `fixtures/causes/recall.tsv` too, which no test writes.\n\n\
         | cause | true | all sources | API alone | node alone |\n|---|---|---|---|---|\n",
    );
    for (cause, [n, all, api, node]) in told {
        let _ = writeln!(out, "| {cause} | {n} | {all} | {api} | {node} |");
    }
}

pub(super) fn floor() -> Floor {
    let text = std::fs::read_to_string(in_repository(FLOOR)).expect("the floor");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("cause\tAPI alone\tnode alone"));
    let of = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let [cause, api, node] = cells[..] else {
            panic!("{line}");
        };
        let count = |cell: &str| cell.parse().expect("a count");
        (cause.to_owned(), [count(api), count(node)])
    };
    lines.map(of).collect()
}

/// Returns a sentence for each cause whose counts are not those of the floor.
pub(super) fn moved(told: &Told, floor: &Floor) -> Vec<String> {
    let causes = told.keys().chain(floor.keys());
    let causes: std::collections::BTreeSet<&String> = causes.collect();
    let of = |cause: &String| {
        let [_, _, api, node] = told.get(cause).copied().unwrap_or_default();
        let least = floor.get(cause).copied();
        let line = format!("{cause}\t{api}\t{node}");
        match least {
            Some(least) if least == [api, node] => None,
            Some([a, n]) if api < a || node < n => Some(format!(
                "{cause} is told less often: {api} of the API alone and {node} of the node alone, and it was {a} and {n}"
            )),
            _ => Some(format!("{FLOOR} can say now: {line}")),
        }
    };
    causes.into_iter().filter_map(of).collect()
}

#[test]
fn what_is_told_less_often_is_no_new_floor() {
    let floor: Floor = [("KF402".to_owned(), [18, 17])].into();
    let said = |counts: &[(&str, [u32; 4])]| {
        let told: Told = counts.iter().map(|(c, n)| ((*c).to_owned(), *n)).collect();
        moved(&told, &floor)
    };
    assert!(said(&[("KF402", [18, 18, 18, 17])]).is_empty());
    for less in [&[("KF402", [19, 19, 19, 16])][..], &[]] {
        let said = said(less);
        assert!(
            said.len() == 1 && said[0].contains("less often"),
            "{said:?}"
        );
    }
    let more = said(&[("KF402", [19, 19, 19, 18]), ("KF999", [1, 1, 0, 1])]);
    assert_eq!(
        more,
        [
            format!("{FLOOR} can say now: KF402\t19\t18"),
            format!("{FLOOR} can say now: KF999\t0\t1")
        ]
    );
}
