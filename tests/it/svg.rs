//! `kflow export -o svg`: the picture is complete, no taller than its content, and in the colours of its theme.

use crate::fixture;
use crate::program;

fn svg(pod: &str, session: &str, more: &[&str]) -> (Option<i32>, String, String) {
    let file = fixture(&format!("sessions/{session}.kflow.zst"));
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
    // The last row is complete too: the sandbox's, below those of the containers.
    let healthy = svg("s01/healthy", "S1-basics", &[]).1;
    assert_eq!(healthy.matches(">container.Delete<").count(), 4);
    // A pod with more steps has a taller picture, which is not cut at a screen's 60 rows.
    assert!(seen[0] > seen[2] && seen[0] > 60.0 * 18.0, "{seen:?}");
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
