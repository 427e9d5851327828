//! Verdicts and incidents as Markdown, parsed as CommonMark with GitHub's tables: text from a recording stays text, and
//! never becomes a link, an image, formatting or HTML.

use kflow_core::diagnose::{Diagnoser, Incident, NextStep, Verdict};
use kflow_export::text::clean;
use kflow_export::{incidents, why};
use kflow_model::stamp::SECOND;
use kflow_model::{ObjectRef, PodUid};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::incidents::overview;
use crate::correlate::{session, world};

const SESSIONS: &[&str] = &[
    "S2-stuck-early",
    "S3-crashes",
    "S4-runtime",
    "S6-slowpull",
    "S8-node",
];

/// Texts with a meaning in Markdown that anyone who names a pod or answers a call can put into a recording.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "[a](https://example.test) ![b](https://example.test/b.png)",
    "a | b | c",
    "**bold** _it_ ~~no~~ `code` ``` # not a title",
    "&lt;b&gt; <https://example.test> \\",
    "line\n\n# a title\n| a | b |\n|---|---|",
];

/// A parsed page: what its reader sees.
#[derive(Debug, Default)]
struct Page {
    titles: Vec<String>,
    /// All text in order, without code blocks.
    text: String,
    code: Vec<String>,
    links: Vec<String>,
    /// The cells of each table row below the header.
    rows: Vec<Vec<String>>,
    /// Elements that must not occur, such as HTML and images.
    odd: Vec<String>,
}

fn read(markdown: &str) -> Page {
    let mut page = Page::default();
    let (mut title, mut code, mut cell) = (None, None, None);
    for event in Parser::new_ext(
        markdown,
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH,
    ) {
        match event {
            Event::Start(Tag::Heading { .. }) => title = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => page.titles.extend(title.take()),
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => code = Some(String::new()),
            Event::End(TagEnd::CodeBlock) => page.code.extend(code.take()),
            Event::Start(Tag::Link { dest_url, .. }) => page.links.push(dest_url.into_string()),
            Event::Start(Tag::TableRow) => page.rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => cell = Some(String::new()),
            Event::End(TagEnd::TableCell) => {
                let cell = cell.take().unwrap_or_default();
                if let Some(row) = page.rows.last_mut() {
                    row.push(cell);
                }
            }
            Event::Text(t) => {
                for to in [&mut title, &mut code, &mut cell].into_iter().flatten() {
                    to.push_str(&t);
                }
                if code.is_none() {
                    page.text.push_str(&t);
                }
            }
            Event::Start(
                Tag::Paragraph
                | Tag::List(_)
                | Tag::Item
                | Tag::Strong
                | Tag::Table(_)
                | Tag::TableHead,
            )
            | Event::End(_)
            | Event::SoftBreak => {}
            other => page.odd.push(format!("{other:?}")),
        }
    }
    page
}

/// Asserts that the page holds the verdict's sentence and each of its commands.
fn tells(page: &Page, v: &Verdict) {
    let sentence = clean(&v.sentence);
    assert!(page.text.contains(&*sentence), "{sentence:?} in {page:#?}");
    for n in v.next.iter().filter(|n| !n.command.is_empty()) {
        let command = clean(&n.command);
        assert!(
            page.code.iter().any(|c| c.trim_end() == command),
            "{command:?} in {page:#?}"
        );
    }
}

#[test]
fn what_recordings_tell_is_whole_in_a_page_of_markdown() {
    let mut seen = 0;
    for name in SESSIONS {
        let found = overview(name);
        let now = found.range.1;
        for i in found.incidents.iter() {
            let text = why::markdown(&why::groups([i.verdict.as_ref()]), now);
            let page = read(&text);
            assert_eq!(page.odd, [""; 0], "{text}");
            assert_eq!(page.titles.len(), 1, "{text}");
            let docs = page.links.iter().filter(|l| !l.starts_with("https://"));
            assert_eq!(docs.count(), 0, "{text}");
            assert!(page.rows.iter().all(|r| r.len() == 3), "{text}");
            assert_eq!(
                page.rows.is_empty(),
                i.verdict.evidence.is_empty(),
                "{text}"
            );
            // 4,000 characters is a limit of our own: chat programs show that much without folding.
            assert!(text.chars().count() < 4000, "{text}");
            tells(&page, &i.verdict);
            seen += 1;
        }
        let all: Vec<&Incident> = found.incidents.iter().collect();
        let page = read(&incidents::markdown(&all, now));
        assert_eq!(page.odd, [""; 0]);
        assert_eq!(page.rows.len(), all.len());
        for (row, i) in page.rows.iter().zip(&all) {
            let [_, _, cause, subject, what] = row.as_slice() else {
                panic!("five cells: {row:?}")
            };
            assert_eq!(cause, i.verdict.cause_id());
            assert_eq!(*subject, clean(&incidents::subject(i)));
            assert_eq!(*what, clean(&i.verdict.sentence));
        }
    }
    assert!(seen > 50, "{seen}");
}

#[test]
fn what_means_something_to_markdown_stays_text() {
    let found = overview("S2-stuck-early");
    let real = found.incidents.first().expect("S2 has incidents");
    for hostile in HOSTILE {
        let mut v = Verdict::clone(&real.verdict);
        v.pod = (*hostile).into();
        v.owner = None;
        v.title = (*hostile).into();
        v.sentence = (*hostile).to_owned();
        v.not_reached = vec![(*hostile).into()];
        for p in &mut v.evidence {
            p.words = Some((*hostile).into());
        }
        v.next = vec![NextStep {
            text: (*hostile).to_owned(),
            command: format!("echo '{hostile}'"),
        }];
        let text = why::markdown(&why::groups([&v]), real.begin.plus(60 * SECOND));
        let page = read(&text);
        assert_eq!(page.odd, [""; 0], "{text}");
        assert_eq!(page.titles.len(), 1, "{text}");
        assert!(page.titles[0].contains(&*clean(hostile)), "{text}");
        assert!(
            page.links.iter().all(|l| !l.contains("example.test")),
            "{text}"
        );
        assert!(page.rows.iter().all(|r| r.len() == 3), "{text}");
        tells(&page, &v);
    }
}

#[test]
fn many_pods_with_one_trouble_are_one_section() {
    let found = overview("S2-stuck-early");
    let real = found.incidents.first().expect("S2 has incidents");
    let verdicts: Vec<Verdict> = (0..1000)
        .map(|n| Verdict {
            pod: format!("web-{n}").into(),
            ..Verdict::clone(&real.verdict)
        })
        .collect();
    let now = real.begin.plus(60 * SECOND);
    let text = why::markdown(&why::groups(&verdicts), now);
    let page = read(&text);
    assert_eq!(page.titles.len(), 1, "{text}");
    assert!(page.titles[0].contains("web-0 and 999 more"), "{text}");
    assert!(page.text.contains("web-20 and 979 others"), "{text}");
    // Verdicts of two owners, interleaved: each owner is named once, with its first pods.
    let owned: Vec<Verdict> = verdicts
        .iter()
        .zip(0..)
        .map(|(v, n)| Verdict {
            root: Some(ObjectRef {
                kind: "Deployment".into(),
                namespace: "".into(),
                name: if n % 2 == 0 { "web" } else { "api" }.into(),
                uid: "".into(),
            }),
            namespace: "shop".into(),
            ..v.clone()
        })
        .collect();
    let told = why::report(&why::groups(&owned), now, false);
    let told = crate::one_line(&told);
    assert!(
        told.contains(
            "same 999 more: 499 of shop/deployment/web (web-2, web-4, web-6, …), \
             500 of shop/deployment/api (web-1, web-3, web-5, …) (--each tells each)"
        ),
        "{told}"
    );
    // The report lists verdicts one by one only when asked to.
    let heads = |each| {
        let report = why::report(&why::groups(&verdicts), now, each);
        report
            .lines()
            .filter(|l| l.ends_with(real.verdict.cause_id()))
            .count()
    };
    assert_eq!((heads(false), heads(true)), (1, 1000));
}

/// Checks ten moments of every recording: each verdict waits for an object that is known, is reported once, and stands
/// below the verdict that it follows from.
#[test]
fn what_follows_from_another_trouble_is_told_below_it() {
    let mut below: Vec<(&str, String)> = Vec::new();
    for name in crate::correlate::SESSIONS {
        let observations = session(name);
        let seen = || observations.iter().map(|o| o.stamp.seen);
        let (first, last) = (seen().min().unwrap(), seen().max().unwrap());
        for tenth in 1..=10 {
            let now = first.plus(last.since(first) / 10 * tenth);
            let w = world(observations.iter().filter(|o| o.stamp.seen <= now));
            let (pods, others) = Diagnoser::new().update(&w, now);
            let all: Vec<&Verdict> = pods.values().chain(&*others).map(AsRef::as_ref).collect();
            for v in &all {
                let Some(b) = &v.behind else { continue };
                assert_ne!(b.uid, v.uid.as_str(), "{name}: {}", v.sentence);
                let known = match b.kind.as_str() {
                    "Node" => v.sentence.contains(b.name.as_str()) || w.node(&b.name).is_some(),
                    _ => w.pod(&PodUid::from(b.uid.as_str())).is_some(),
                };
                assert!(known, "{name}: {b:?}: {}", v.sentence);
            }
            let groups = why::groups(all.iter().copied());
            let told = groups
                .iter()
                .flat_map(|g| g.told.iter().chain(g.behind.iter().flatten()));
            let mut told: Vec<*const Verdict> = told.map(|v| std::ptr::from_ref(*v)).collect();
            told.sort_unstable();
            told.dedup();
            assert_eq!(told.len(), all.len(), "{name} at {now}");
            let report = why::report(&why::groups(all.iter().copied()), now, false);
            let report = crate::one_line(&report);
            for group in &groups {
                for v in group.behind.iter().filter_map(|b| b.first()) {
                    let sentence = crate::one_line(&v.sentence);
                    assert_eq!(report.matches(&*sentence).count(), 1, "{report}");
                    let head = group.told.first().map_or("", |v| v.cause_id());
                    below.push((name, format!("{} {}", head, v.cause_id())));
                }
            }
        }
    }
    below.sort();
    below.dedup();
    let is_told = |of: &str, what: &str| below.iter().any(|(s, w)| s.starts_with(of) && w == what);
    // A pull that waits for another pull, a runtime that is down, and a pod that waits for another one to make room.
    assert!(is_told("S6", "KF609 KF610"), "{below:?}");
    assert!(is_told("S4", "KF302 KF515"), "{below:?}");
    assert!(is_told("S8", "KF903 KF222"), "{below:?}");
}
