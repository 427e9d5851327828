#![expect(
    clippy::unwrap_used,
    reason = "a recording that cannot be read fails the test"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::super::format::Wire;
use super::super::{Reader, format};
use super::*;
use crate::{Nanos, Pairs, PodRef, Text};

/// What the general reader reads.
fn ordinary(line: &str) -> Option<Wire> {
    serde_json::from_str(line).ok()
}

fn each_line_of_a_recording(mut take: impl FnMut(&str)) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/sessions");
    let files = std::fs::read_dir(folder).unwrap();
    let names = files.map(|f| f.unwrap().path());
    let mut sessions: Vec<_> = names
        .filter(|p| p.extension().is_some_and(|e| e == "zst"))
        .collect();
    sessions.sort();
    assert!(sessions.len() > 10);
    for session in sessions {
        Reader::open(Path::new(&session)).unwrap().blocks(|block| {
            std::str::from_utf8(block)
                .unwrap()
                .lines()
                .for_each(&mut take);
        });
    }
}

/// Lines of every kind, of which no two have the same length.
static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut kinds = BTreeMap::<_, BTreeMap<usize, String>>::new();
    each_line_of_a_recording(|line| {
        let format::Line::Observation(o) = format::decode(line.as_bytes()) else {
            return;
        };
        let kind = kinds.entry(format::kind(&o.body)).or_default();
        if line.len() < 2_000 && kind.len() < 30 {
            kind.entry(line.len()).or_insert_with(|| line.to_owned());
        }
    });
    assert!(kinds.len() > 12, "{:?}", kinds.keys());
    kinds
        .into_values()
        .flat_map(BTreeMap::into_values)
        .collect()
});

#[test]
fn every_recorded_line_is_read_as_the_general_reader_reads_it() {
    let (mut all, mut quick) = (0, 0);
    each_line_of_a_recording(|line| {
        all += 1;
        if let Some(read) = read::<Wire>(line) {
            quick += 1;
            assert_eq!(Some(read), ordinary(line), "{line}");
        }
    });
    // Samples have numbers with a point; a bound is no observation.
    assert!(all - quick < all / 100, "{quick} of {all}");
}

/// Signs that mean something in JSON, and some that do not.
const SIGNS: &str = "\"\\{}[]:,0123456789-+.eEtrufalsn/b \t\u{0}\u{7f}é\u{1f600}";

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]
    #[test]
    fn a_changed_line_is_left_alone_or_read_as_the_general_reader_reads_it(
        which in any::<prop::sample::Index>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..4_usize, prop::sample::select(SIGNS.chars().collect::<Vec<_>>())),
            1..4,
        ),
    ) {
        let mut signs: Vec<char> = which.get(&LINES).chars().collect();
        for (at, change, sign) in changes {
            let at = at.index(signs.len());
            match change {
                0 => signs.insert(at, sign),
                1 => signs[at] = sign,
                2 => drop(signs.remove(at)),
                // Something is said twice.
                _ => signs.extend_from_within(at..),
            }
        }
        let line: String = signs.into_iter().collect();
        if let Some(read) = read::<Wire>(&line) {
            prop_assert_eq!(Some(read), ordinary(&line));
        }
    }
}

#[test]
fn what_no_line_is_written_with_is_left_to_the_general_reader() {
    for text in [
        "1 ",
        " 1",
        "-1",
        "1.0",
        "1e3",
        "01",
        "",
        "\"1\"",
        "9999999999999999999",
    ] {
        assert_eq!(read::<Nanos>(text), None, "{text:?}");
    }
    assert_eq!(read::<Nanos>("0"), Some(Nanos(0)));
    assert_eq!(
        read::<u64>("9999999999999999999"),
        Some(9_999_999_999_999_999_999)
    );
    for text in [
        "\"a", "a\"", "\"\n\"", "\"\\x\"", "\"a\"\"", "\"\\", "[\"a\"]",
    ] {
        assert_eq!(read::<Text>(text), None, "{text:?}");
    }
    assert_eq!(read("\"\\u00e9\\n\""), Some(Text::from("é\n")));
    for text in ["[1,]", "[,1]", "[1 ,2]", "[1", "1]", "[1]]", "[[1]]"] {
        assert_eq!(read::<Vec<u32>>(text), None, "{text:?}");
    }
    assert_eq!(read("[1,2]"), Some(vec![1, 2]));
    for text in ["[[1,2,3]]", "[[1]]", "[[1,2],]", "[[1,2]]]"] {
        assert_eq!(read::<Vec<(u32, u32)>>(text), None, "{text:?}");
    }
}

#[test]
fn nothing_is_read_deeper_than_the_types_are() {
    let deep = "[".repeat(1 << 20);
    let start = r#"{"t":1,"s":1,"src":"cri","b":{"call_start":{"c":1,"s":1,"svc":"image","m":"#;
    for line in [
        deep.clone(),
        format!("{start}{deep}"),
        format!("{start}\"x\",\"new\":{deep}"),
    ] {
        assert!(read::<Wire>(&line).is_none());
        assert_eq!(format::decode(line.as_bytes()), format::Line::Malformed);
    }
}

#[test]
fn what_is_spelled_alike_shares_memory_and_what_is_damaged_is_not_remembered() {
    let text = r#"[["node","n1"],["why","because \"so\""]]"#;
    let (one, same) = (read::<Pairs>(text).unwrap(), read::<Pairs>(text).unwrap());
    assert_eq!(one.as_ptr(), same.as_ptr());
    assert_eq!(one.value("why"), Some("because \"so\""));
    for _ in 0..2 {
        for damaged in [
            r#"[["node","n1"],["why"]]"#,
            "[[\"node\",\"n1\"]",
            "[}",
            "[[\"a\",\"\\q\"]]",
        ] {
            assert_eq!(read::<Pairs>(damaged), None);
            assert!(serde_json::from_str::<Pairs>(damaged).is_err());
        }
    }
    assert_eq!(read::<Pairs>("[]"), Some(Pairs::default()));
    assert_eq!(read::<PodRef>("{}"), Some(PodRef::default()));
    let pod = read::<PodRef>(r#"{"ns":"shop","n":"web-0"}"#);
    assert_eq!(pod, Some(PodRef::by_name("shop", "web-0")));
}

#[test]
fn more_spellings_than_are_remembered_stay_what_they_are() {
    for n in 0..3 * PodRef::REMEMBERED {
        let name = format!("web-{n}");
        let pod = read::<PodRef>(&format!(r#"{{"ns":"shop","n":"{name}"}}"#));
        assert_eq!(pod, Some(PodRef::by_name("shop", &name)));
    }
}
