//! `kflow export -o svg`: the picture is complete, no taller than its content, and in the colours of its theme.

use kflow_core::correlate::{Pod, PodView};
use kflow_core::flow::Stage;
use kflow_core::timeline::{Certainty, Edge, Outcome, RUN, Span, Timeline};
use kflow_model::Nanos;
use kflow_tui::picture::timeline;

use crate::program;

fn svg(pod: &str, session: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let file = crate::recording(session);
    let mut command = program::command();
    command
        .args(["export", pod, "-o", "svg", "-s"])
        .arg(file)
        .args(more);
    program::run(&mut command).parts()
}

/// Returns the height of the picture, and of the lowest text in it; px.
fn heights(svg: &str) -> (f64, f64) {
    let number = |pattern: &str| -> Vec<f64> {
        let all = regex::Regex::new(pattern).unwrap();
        let all = all.captures_iter(svg);
        all.map(|c| c[1].parse().unwrap()).collect()
    };
    let whole = number(r#"<svg [^>]*height="([0-9.]+)""#);
    let texts = number(r#"<text [^>]*y="([0-9.]+)""#);
    (whole[0], texts.into_iter().fold(0.0, f64::max))
}

#[test]
fn a_picture_is_whole_and_cut_to_what_is_in_it() {
    let mut seen = Vec::new();
    for (pod, session) in [
        ("s01/healthy", "S1-basics"),
        ("s02/image-missing", "S2-stuck-early"),
        ("s22/gated", "S2-stuck-early"),
    ] {
        let (code, picture, said) = svg(pod, session, &[]);
        assert_eq!(code, Some(0), "{pod}: {said}");
        let (whole, lowest) = heights(&picture);
        assert!(
            lowest <= whole && whole - lowest < 60.0,
            "{pod}: {whole} {lowest}"
        );
        assert!(!picture.contains('↓'), "{pod}: more below");
        seen.push(whole);
    }
    // A pod with more steps has a taller picture.
    assert!(seen[0] > seen[2], "{seen:?}");
}

/// A ticket has the picture alone, so it says itself what is wrong, as of when, and how often it was tried.
#[test]
fn a_picture_of_a_crash_loop_shows_its_verdict_and_every_back_off() {
    let (code, picture, said) = svg("s11/crash", "S3-crashes", &["--at", "90%"]);
    assert_eq!(code, Some(0), "{said}");
    let words: Vec<&str> = picture.split(['<', '>', ' ']).collect();
    // The words of a text are placed one by one.
    for told in [
        "as of 2026-11-21 00:34:23 UTC",
        "KF708 Container ends, once or in a crash loop",
        "Container c ends with exit code 1 after 998ms, 5 times so far.",
        "11.8s 24.9s 59.8s 1m06s",
    ] {
        for word in told.split(' ') {
            assert!(words.contains(&word), "{word}");
        }
    }
    // One row for all attempts.
    assert_eq!(picture.matches(">run<").count(), 1);
    assert_eq!(picture.matches(">×5<").count(), 9, "{words:?}");
}

/// Invented, because no recording lasts for a day: the restarts of a container that runs for a second.
fn restarts(times: u32) -> Pod {
    let edge = |at: i64| Edge {
        at: Nanos(at * 1_000_000_000),
        precision: 1,
    };
    let span = |stage, step: &str, attempt, from: i64, to: i64| Span {
        attempt,
        container: "c".into(),
        outcome: if step == RUN {
            Outcome::Error
        } else {
            Outcome::Ok
        },
        ..Span::new(
            stage,
            step,
            edge(from),
            Some(edge(to)),
            Certainty::Measured,
            Vec::new(),
        )
    };
    let mut spans = vec![span(Stage::Ready, "ready", 0, 0, 2)];
    let mut at = 2;
    for n in 0..times {
        let wait = (10 << n.min(5)).min(300);
        spans.push(span(Stage::Start, RUN, n, at, at + 1));
        spans.push(span(
            Stage::Start,
            "CrashLoopBackOff",
            n,
            at + 1,
            at + 1 + wait,
        ));
        at += 1 + wait;
    }
    let timeline = Timeline {
        spans,
        ..Timeline::default()
    };
    let view = PodView {
        namespace: "shop".into(),
        name: "web".into(),
        timeline: std::sync::Arc::new(timeline).into(),
        ..PodView::default()
    };
    std::sync::Arc::new(view.into())
}

#[test]
fn a_picture_of_hundreds_of_restarts_is_no_taller_and_shows_the_first_and_the_last() {
    let draw = |times| timeline(&crate::tui::empty(), &restarts(times), "dark").expect("theme");
    let (few, many) = (draw(4), draw(400));
    let height = |svg: &str| heights(svg).0 as u32;
    assert_eq!(height(&few), height(&many));
    assert!(many.contains(">×400<"));
    // The last three back-offs: on the axis, and in their bars.
    assert!(many.matches(">5m00s<").count() >= 4, "{many}");
    assert!(many.len() < 4 * few.len(), "{} {}", many.len(), few.len());
}

#[test]
fn a_picture_has_the_colours_of_its_theme() {
    let of = |more: &[&str]| svg("s02/image-missing", "S2-stuck-early", more);
    let (_, dark, _) = of(&[]);
    let (_, named, _) = of(&["--theme", "dark"]);
    let (_, light, _) = of(&["--theme", "light"]);
    assert_eq!(dark, named);
    let colours = |svg: &str| {
        let all = regex::Regex::new(r#"fill="(#[0-9a-f]{6})""#).unwrap();
        let all = all.captures_iter(svg).map(|c| c[1].to_owned());
        all.collect::<std::collections::BTreeSet<_>>()
    };
    assert!(colours(&dark).len() > 5 && colours(&light).len() > 5);
    assert_ne!(colours(&dark), colours(&light));
    let (code, _, said) = of(&["--theme", "ligt"]);
    assert!(
        code == Some(2) && said.contains("did you mean light?"),
        "{said}"
    );
}
