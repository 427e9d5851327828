//! The HTML page for a ticket: it needs no other file, and no text of a recording becomes markup.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kflow_core::correlate::Pod;
use kflow_core::diagnose::{Diagnoser, Incident, Verdict};
use kflow_export::html::{self, Entry};
use kflow_export::life::lines;
use kflow_model::Nanos;
use regex::Regex;

use crate::correlate::{session, world};

/// The page of a recording as of `percent` of its length, with its pods and their verdicts.
fn page(name: &str, percent: i64) -> (String, Vec<Pod>, Vec<Option<Arc<Verdict>>>) {
    let observations = session(name);
    let seen = || observations.iter().map(|o| o.stamp.seen);
    let (first, last) = (seen().min().unwrap(), seen().max().unwrap());
    let now = first.plus(last.since(first) / 100 * percent);
    let w = world(observations.iter().filter(|o| o.stamp.seen <= now));
    let said = Diagnoser::new().update(&w, now).0;
    let pods = w.pods().to_vec();
    let verdicts: Vec<_> = pods.iter().map(|p| said.get(&p.uid).cloned()).collect();
    let entries: Vec<Entry<'_>> = pods
        .iter()
        .zip(&verdicts)
        .map(|(p, v)| (p, v.as_deref()))
        .collect();
    (written(&entries, &[], now), pods, verdicts)
}

fn written(entries: &[Entry<'_>], others: &[&Verdict], now: Nanos) -> String {
    let mut out = Vec::new();
    html::write("a title", entries, others, &[], now, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The tags of a page, in order, without its style and script. Fails on a `<` or `>` outside of a tag.
fn tags(page: &str) -> Vec<String> {
    let raw = Regex::new(r"(?s)<(style|script)>.*?</(?:style|script)>").unwrap();
    let page = raw.replace_all(page, "");
    let tag = Regex::new(r#"<(!doctype|/?[a-z][a-z0-9]*)((?: [a-z-]+(?:="[^"<>]*")?)*)>"#).unwrap();
    let rest = tag.replace_all(&page, "");
    assert!(!rest.contains(['<', '>']), "not a tag: {rest:.300}");
    tag.find_iter(&page)
        .map(|m| m.as_str().to_owned())
        .collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

#[test]
fn the_policy_of_a_page_lets_its_own_script_run_and_nothing_else() {
    let page = written(&[], &[], Nanos(0));
    let (_, script) = page.split_once("<script>").unwrap();
    let (script, _) = script.split_once("</script>").unwrap();
    let hash = ring::digest::digest(&ring::digest::SHA256, script.as_bytes());
    let hash = STANDARD.encode(hash.as_ref());
    let policy = format!(
        "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{hash}'\""
    );
    assert!(page.contains(&policy), "SCRIPT_HASH is {hash}");
    assert_eq!(page.matches("<script").count(), 1);
}

#[test]
fn an_owner_that_can_create_no_pod_is_told_of() {
    let observations = session("S2-stuck-early");
    let now = observations[observations.len() / 2].stamp.seen;
    let w = world(observations.iter().filter(|o| o.stamp.seen <= now));
    let others = Diagnoser::new().update(&w, now).1;
    let others: Vec<&Verdict> = others.iter().map(AsRef::as_ref).collect();
    assert!(!others.is_empty());
    let page = written(&[], &others, now);
    for v in others {
        let name = escaped(&kflow_export::why::subject(v));
        assert!(page.contains(&format!("<p>{name}</p>")), "{name}: {page}");
        assert!(page.contains(&escaped(&v.sentence)), "{page}");
    }
}

#[test]
fn a_page_is_whole_in_itself_and_its_tags_close() {
    let attribute = Regex::new(r#" ([a-z-]+)="[^"]*""#).unwrap();
    let (mut all, mut behind) = (0, 0);
    for (name, at) in [
        ("S2-stuck-early", 50),
        ("S3-crashes", 60),
        ("S5-burst", 100),
        ("S6-slowpull", 30),
    ] {
        let (page, pods, verdicts) = page(name, at);
        let mut open: Vec<String> = Vec::new();
        for tag in tags(&page) {
            for a in attribute.captures_iter(&tag) {
                assert!(!a[1].starts_with("on") && &a[1] != "src", "{tag}");
            }
            for (_, to) in tag
                .match_indices("href=\"")
                .map(|(i, m)| tag.split_at(i + m.len()))
            {
                assert!(to.starts_with('#') || to.starts_with("data:,"), "{tag}");
                let place = to.trim_start_matches('#').split('"').next().unwrap();
                let id = format!(" id=\"{place}\"");
                assert!(
                    place == "data:," || page.contains(&id),
                    "{tag} leads nowhere"
                );
            }
            let element = tag.trim_matches(['<', '/', '>']).split(' ').next().unwrap();
            if ["!doctype", "meta", "link"].contains(&element) {
                continue;
            }
            if tag.starts_with("</") {
                assert_eq!(open.pop().as_deref(), Some(element), "{name}");
            } else {
                open.push(element.to_owned());
            }
        }
        assert!(open.is_empty(), "{name}: {open:?}");
        for word in ["http:", "https:", "url(", "@import"] {
            let (style, _) = page.split_once("</style>").unwrap();
            assert!(!style.contains(word), "{word}");
        }

        // Verdicts come before the timelines, bad ones first, each once.
        let (said, drawn) = page.split_once("<h2 id=\"timelines\">").unwrap();
        let told: Vec<&Arc<Verdict>> = verdicts.iter().flatten().collect();
        all += told.len();
        for (n, v) in verdicts.iter().enumerate() {
            let link = format!("<a href=\"#p{n}\">{}</a>", escaped(&pods[n].key()));
            assert_eq!(
                said.matches(&link).count(),
                usize::from(v.is_some()),
                "{name} {link}"
            );
        }
        let mut same: Vec<_> = told
            .iter()
            .map(|v| (v.cause_id(), v.stage, v.state.name(), &v.same))
            .collect();
        same.sort_unstable();
        same.dedup();
        // A verdict that follows from another one is below it.
        let below = said.matches("<li class=\"behind\">").count();
        assert_eq!(
            said.matches("<article").count() + below,
            same.len(),
            "{name}"
        );
        behind += below;
        let last_ill = said.rfind("<article class=\"ill\"").unwrap_or(0);
        let first_well = said.find("<article class=\"well\"").unwrap_or(said.len());
        assert!(last_ill < first_well, "{name}");

        // One row for each step with a bar for each of its spans, one sign for each mark.
        let rows: usize = pods.iter().map(|p| lines(&p.timeline).len()).sum();
        let spans: usize = pods.iter().map(|p| p.timeline.spans.len()).sum();
        let marks: usize = pods.iter().map(|p| p.timeline.marks.len()).sum();
        let with_marks = pods.iter().filter(|p| !p.timeline.marks.is_empty()).count();
        assert!(spans > 10 && marks > 10, "{name}: {spans} {marks}");
        assert_eq!(
            drawn.matches("<div class=\"row ").count(),
            rows + with_marks
        );
        let bars = ["measured", "inferred", "bounded"].map(|c| format!("<i class=\"{c} "));
        let bars: usize = bars.iter().map(|b| drawn.matches(b.as_str()).count()).sum();
        assert!(
            bars >= spans && rows < spans,
            "{name}: {bars} {rows} {spans}"
        );
        assert_eq!(
            drawn.matches("<i class=\"mark").count(),
            marks + 2,
            "two are the legend's"
        );
    }
    assert!(all > 20 && behind > 0, "{all} {behind}");
}

/// A recording that is exported at its end, when nothing is wrong any more, shows its past incidents.
#[test]
fn what_is_over_is_told_of() {
    let found = super::incidents::overview("S2-stuck-early");
    let incidents: Vec<&Incident> = found.incidents.iter().collect();
    let over: Vec<_> = incidents.iter().filter(|i| i.end.is_some()).collect();
    assert!(over.len() > 10, "{}", over.len());
    let observations = session("S2-stuck-early");
    let w = world(&observations);
    let pods = w.pods().to_vec();
    let entries: Vec<Entry<'_>> = pods.iter().map(|p| (p, None)).collect();
    let mut out = Vec::new();
    html::write("t", &entries, &[], &incidents, Nanos(0), &mut out).unwrap();
    let page = String::from_utf8(out).unwrap();
    let (said, _) = page.split_once("<h2 id=\"timelines\">").unwrap();
    let (_, before) = said.split_once("<h2 id=\"before\">").unwrap();
    assert_eq!(
        before.matches("<article class=\"past\">").count(),
        over.len()
    );
    for i in over {
        assert!(before.contains(&escaped(&i.verdict.sentence)), "{i:?}");
        for (n, pod) in pods.iter().enumerate() {
            let of_it = i.parts.iter().any(|p| p.verdict.uid == pod.uid);
            let link = format!("<a href=\"#p{n}\">");
            assert!(!of_it || before.contains(&link), "{}", pod.key());
        }
    }
    // With many pods each timeline is folded behind the pod's name.
    assert_eq!(page.matches("<details class=\"fold\"").count(), pods.len());
    assert!(!page.contains("<details class=\"fold\" open>"));
}
