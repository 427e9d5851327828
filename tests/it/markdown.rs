//! Verdicts and incidents as Markdown, read by a parser of CommonMark and GitHub's tables: what recordings tell arrives as
//! text, and nothing in it becomes a link, a picture, a mark or HTML.

use kflow_core::diagnose::{Incident, NextStep, Verdict};
use kflow_export::text::clean;
use kflow_export::{incidents, why};
use kflow_model::ObjectRef;
use kflow_model::stamp::SECOND;
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::incidents::overview;

const SESSIONS: &[&str] = &[
    "S2-stuck-early",
    "S3-crashes",
    "S4-runtime",
    "S6-slowpull",
    "S8-node",
];

/// Texts that mean something to Markdown, and that whoever names a pod or answers a call can write.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "[a](https://example.test) ![b](https://example.test/b.png)",
    "a | b | c",
    "**bold** _it_ ~~no~~ `code` ``` # not a title",
    "&lt;b&gt; <https://example.test> \\",
    "line\n\n# a title\n| a | b |\n|---|---|",
];

/// What a reader of the page sees.
#[derive(Debug, Default)]
struct Page {
    titles: Vec<String>,
    /// All text in order, without code blocks.
    text: String,
    code: Vec<String>,
    links: Vec<String>,
    /// Cells of each row below a head.
    rows: Vec<Vec<String>>,
    /// What should not be there.
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

/// A verdict of a page is there with all that it says.
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
            let text = why::markdown([i.verdict.as_ref()], now);
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
            // Chosen: what a chat shows without folding it away.
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
        let text = why::markdown([&v], real.begin.plus(60 * SECOND));
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
    let text = why::markdown(&verdicts, now);
    let page = read(&text);
    assert_eq!(page.titles.len(), 1, "{text}");
    assert!(page.titles[0].contains("web-0 and 999 more"), "{text}");
    assert!(page.text.contains("web-20 and 979 others"), "{text}");
    // Of two owners, mixed, each is named once, with its first pods.
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
    let told = why::report(&owned, now, false);
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        told.contains(
            "same 999 more: 499 of shop/deployment/web (web-2, web-4, web-6, …), \
             500 of shop/deployment/api (web-1, web-3, web-5, …) (--each tells each)"
        ),
        "{told}"
    );
    // One by one only where it is asked for.
    let heads = |each| {
        let report = why::report(&verdicts, now, each);
        report
            .lines()
            .filter(|l| l.ends_with(real.verdict.cause_id()))
            .count()
    };
    assert_eq!((heads(false), heads(true)), (1, 1000));
}
