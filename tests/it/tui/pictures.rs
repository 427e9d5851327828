//! The images in the README are what the terminal draws.

use std::path::Path;

#[test]
fn the_pictures_are_current() {
    let out = crate::program::command()
        .args(["screenshots", "--check"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("kflow runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// Reads an asciicast independently of kflow: a header, then events with times that never decrease, kinds and texts.
#[test]
fn the_cast_of_the_first_minute_is_an_asciicast_that_lasts_a_minute() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("screenshots/first-minute.cast");
    let text = std::fs::read_to_string(path).expect("the cast");
    let mut lines = text.lines();
    let head: serde_json::Value =
        serde_json::from_str(lines.next().expect("a header")).expect("JSON");
    assert_eq!(
        (&head["version"], &head["width"], &head["height"]),
        (&2.into(), &100.into(), &30.into())
    );
    let events: Vec<(f64, String, String)> = lines
        .map(|l| serde_json::from_str(l).expect("an event"))
        .collect();
    assert!(events.windows(2).all(|w| w[0].0 <= w[1].0));
    assert!(events.iter().all(|e| e.1 == "o"));
    let last = events.last().expect("events").0;
    assert!((45.0..=75.0).contains(&last), "{last} s");
    let all: String = events.iter().map(|e| e.2.as_str()).collect();
    for part in ["Pods", "Why", "WAITED FOR", "Incidents", "Keys with wait"] {
        assert!(all.contains(part), "{part}");
    }
}

#[test]
fn every_picture_is_in_the_readme_and_none_is_left_over() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("README.md")).expect("README");
    let mut files: Vec<String> = std::fs::read_dir(root.join("screenshots"))
        .expect("screenshots")
        .filter_map(|e| e.ok()?.file_name().into_string().ok())
        .collect();
    files.sort_unstable();
    let mut made: Vec<String> = kflow_tui::offscreen::SHOTS
        .iter()
        .map(|s| format!("{}.svg", s.name))
        .collect();
    made.push("first-minute.cast".to_owned());
    made.sort_unstable();
    assert_eq!(files, made);
    for f in files {
        assert!(
            readme.contains(&format!("screenshots/{f}")),
            "the README does not show {f}"
        );
    }
}
