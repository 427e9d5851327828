//! The pictures that the README shows are what the terminal draws.

use std::path::Path;
use std::process::Command;

#[test]
fn the_pictures_are_current() {
    let out = Command::new(env!("CARGO_BIN_EXE_kflow"))
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
    made.sort_unstable();
    assert_eq!(files, made);
    for f in files {
        assert!(
            readme.contains(&format!("screenshots/{f}")),
            "the README does not show {f}"
        );
    }
}
