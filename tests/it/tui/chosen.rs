//! Columns and views that the configuration sets.

use kflow_tui::action::Command;
use kflow_tui::config::Config;
use kflow_tui::model::Model;
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;

use super::session;

fn with(config: &str, size: (u16, u16)) -> Model {
    let (config, warnings) = Config::parse(config, "config.toml");
    assert_eq!(warnings, [""; 0]);
    let mut m = model(size, "dark").expect("theme");
    m.configure(&config);
    m
}

#[test]
fn the_list_of_pods_has_the_columns_that_were_asked_for() {
    let snap = session("S1-basics", 600);
    let config =
        "columns = [\"age\", \"name\", \"label:app\", \"why\", \"namespace\", \"node\", \"ready\"]";
    let mut m = with(config, (160, 40));
    let text = svg::plain(&frame(&mut m, &snap));
    let head = text
        .lines()
        .find(|l| l.contains("NAME"))
        .expect("a heading");
    let words: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(
        words,
        ["AGE", "NAME", "app", "WHY", "NAMESPACE", "NODE", "READY"],
        "{text}"
    );
    let labelled = snap.world.pods().iter().find_map(|p| {
        let api = p.api.as_ref()?;
        let (_, v) = api.labels.iter().find(|(k, _)| k == "app")?;
        Some((p.name.clone(), v.clone()))
    });
    let (name, value) = labelled.expect("S1 has pods with the label");
    let row = text.lines().find(|l| l.contains(name.as_str()));
    let row = row.expect("its row");
    assert!(row.split_whitespace().any(|w| w == value), "{row}");
    // On a narrow screen the last column is dropped first, and the name stays.
    m.resize((60, 20), &snap);
    let text = svg::plain(&frame(&mut m, &snap));
    let head = text
        .lines()
        .find(|l| l.contains("NAME"))
        .expect("a heading");
    assert!(!head.contains("READY"), "{text}");
    // A column list without the name still shows the name.
    let mut m = with("columns = [\"why\"]", (80, 24));
    let text = svg::plain(&frame(&mut m, &snap));
    assert!(
        text.lines()
            .any(|l| l.contains("WHY") && l.contains("NAME")),
        "{text}"
    );
}

#[test]
fn a_view_runs_its_commands_and_is_chosen_by_key_or_by_name() {
    let snap = session("S6-slowpull", 600);
    let config = "[views]\npulls = [\"calls\", \"filter method:PullImage\", \"calls-sort time\"]\n\
                  old = [\"pods\", \"sort age\"]\n";
    let mut m = with(config, (120, 40));
    frame(&mut m, &snap);
    press(&mut m, &snap, "V");
    let text = svg::plain(&frame(&mut m, &snap));
    assert!(text.contains("old") && text.contains("pulls"), "{text}");
    press(&mut m, &snap, "j enter");
    let text = svg::plain(&frame(&mut m, &snap));
    assert_eq!(m.focus, PaneId::Calls, "{text}");
    assert!(text.contains("/method:PullImage"), "{text}");
    m.run(&Command::parse("view old").expect("a command"), &snap);
    let text = svg::plain(&frame(&mut m, &snap));
    assert_eq!(m.focus, PaneId::Pods);
    assert!(text.contains("AGE"), "{text}");
    m.run(&Command::parse("view none").expect("a command"), &snap);
    let text = svg::plain(&frame(&mut m, &snap));
    assert!(
        text.contains("the configuration has no view \"none\""),
        "{text}"
    );
}
