//! Finding things: steps of the call flow, commands of the palette, incidents, rows of help.

use kflow_tui::backend::Drive;
use kflow_tui::help::{everywhere, signs};
use kflow_tui::model::{Effect, Model, Overlay};
use kflow_tui::offscreen::{frame, model, press, select};
use kflow_tui::pane::PaneId;
use kflow_tui::svg;

use super::session;
use kflow_engine::snapshot::{Mode, Snapshot};

fn screen(m: &mut Model, snap: &Snapshot) -> String {
    svg::plain(&frame(m, snap))
}

fn selected(text: &str) -> &str {
    let row = text.lines().find(|l| l.starts_with('▌'));
    row.unwrap_or_default()
}

#[test]
fn a_step_is_found_by_its_id_its_name_and_its_words() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((80, 24), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s03/cm-missing");
    press(&mut m, &snap, "8");
    frame(&mut m, &snap);
    press(&mut m, &snap, "g");
    let whole = screen(&mut m, &snap);
    assert!(whole.contains("(k) Controllers and scheduler"), "{whole}");
    for (typed, found) in [
        ("c22", "c22 WaitForAttachAndMount"),
        ("waitforattachand", "c22 WaitForAttachAndMount"),
        // A step that was not reached, in a branch that is closed.
        ("RunPodSandbox", "e10 RunPodSandbox"),
        ("interface routes", "f04 setupPodNetwork"),
    ] {
        press(&mut m, &snap, "/");
        for c in typed.chars() {
            let key = if c == ' ' {
                "space".to_owned()
            } else {
                c.to_string()
            };
            assert_eq!(press(&mut m, &snap, &key), [], "{typed}");
        }
        let text = screen(&mut m, &snap);
        assert!(selected(&text).contains(found), "{typed}: {text}");
        press(&mut m, &snap, "enter esc");
        // Escape shows everything again.
        let text = screen(&mut m, &snap);
        let rule = text.lines().nth(2).unwrap_or_default();
        assert!(!rule.contains(" /") && rule.contains(" more "), "{text}");
    }
    press(&mut m, &snap, "/ zzz enter");
    let text = screen(&mut m, &snap);
    assert!(text.contains("No step has this."), "{text}");
    // A step that another pane leads to is shown, whatever the filter and wherever it is.
    press(&mut m, &snap, ": e10 enter");
    let text = screen(&mut m, &snap);
    assert!(selected(&text).contains("e10 RunPodSandbox"), "{text}");
    // What was opened on the way does not hide what is searched for.
    press(&mut m, &snap, "/ f 0 4 enter");
    let text = screen(&mut m, &snap);
    assert!(text.contains("f04 setupPodNetwork"), "{text}");
}

#[test]
fn what_is_typed_after_a_slash_runs_no_command() {
    let snap = session("S2-stuck-early", 450);
    for (pane, keys) in [
        ("Timeline", "2"),
        ("Why", "5"),
        ("Node", "6"),
        ("Sequence", "7"),
    ] {
        let mut m = model((120, 40), "dark").expect("theme");
        press(&mut m, &snap, keys);
        let before = screen(&mut m, &snap);
        // s would save the pane, R begin a recording, q leave.
        assert_eq!(press(&mut m, &snap, "/ c r a s h e r R q"), [], "{pane}");
        let text = screen(&mut m, &snap);
        assert!(text.contains(&format!("{pane} has no filter")), "{text}");
        assert_eq!(press(&mut m, &snap, "enter"), []);
        assert_eq!(screen(&mut m, &snap), before);
    }
}

#[test]
fn the_palette_finds_commands_by_what_they_do_and_steps_by_id() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    for (typed, label) in [
        ("perc", "calls-statistics"),
        ("clipboard", "copy"),
        ("c22", "c22"),
        ("incid", "incidents"),
    ] {
        press(&mut m, &snap, ":");
        press(&mut m, &snap, typed);
        let Some(Overlay::Prompt(p)) = m.overlays.last() else {
            panic!("no palette");
        };
        assert!(
            p.candidates.iter().any(|c| c.label == label),
            "{typed}: {:?}",
            p.candidates
        );
        press(&mut m, &snap, "esc");
    }
    select(&mut m, &snap, "s03/cm-missing");
    press(&mut m, &snap, ": c22 enter");
    assert_eq!(m.focus, PaneId::Flow);
    let text = screen(&mut m, &snap);
    assert!(
        selected(&text).contains("c22 WaitForAttachAndMount"),
        "{text}"
    );
    press(&mut m, &snap, ": flow space nowhere enter");
    assert!(screen(&mut m, &snap).contains("no step has the id"));
}

/// The replay plays while the user reads an incident.
#[test]
fn the_next_incident_is_the_one_after_the_opened_one_however_long_it_played() {
    let mut snap = session("S2-stuck-early", 0);
    snap.mode = Mode::paused("S2-stuck-early");
    let later = Snapshot {
        mode: Mode::paused("S2-stuck-early"),
        ..session("S2-stuck-early", 990)
    };
    let mut m = model((120, 40), "dark").expect("theme");
    press(&mut m, &snap, "0 enter");
    assert_eq!(press(&mut m, &later, "]").len(), 1);
    let text = screen(&mut m, &later);
    assert!(text.contains("incident 2 of 20"), "{text}");
    // Who goes to another moment counts from there.
    let effects = press(&mut m, &later, "@ 99% enter");
    assert!(matches!(
        effects.as_slice(),
        [Effect::Drive(Drive::Seek(_))]
    ));
    assert_eq!(press(&mut m, &later, "[").len(), 1);
    let text = screen(&mut m, &later);
    assert!(!text.contains("incident 1 of 20"), "{text}");
}

#[test]
fn the_last_row_of_help_can_be_reached_on_a_small_screen() {
    let snap = session("S2-stuck-early", 450);
    for pane in PaneId::ALL {
        let mut m = model((80, 24), "dark").expect("theme");
        m.show(pane);
        let g = m.look.glyphs;
        let rows: Vec<String> = (signs(pane, g).into_iter().chain(everywhere(g)))
            .map(|(_, what)| what.to_owned())
            .collect();
        press(&mut m, &snap, "?");
        let mut seen = String::new();
        for _ in 0..120 {
            press(&mut m, &snap, "down");
            seen.push_str(&screen(&mut m, &snap));
        }
        for what in rows {
            let begin: String = what.chars().take(30).collect();
            assert!(seen.contains(&begin), "{pane:?}: {what}");
        }
        // A symbol leads nowhere.
        assert_eq!(press(&mut m, &snap, "enter"), []);
        assert_eq!(m.overlays.len(), 1);
    }
}

/// A marker among the lines would hide the end of what one copies.
#[test]
fn how_much_more_there_is_stands_in_the_rule_and_covers_no_text() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((80, 14), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s03/cm-missing");
    press(&mut m, &snap, "5 G");
    let text = screen(&mut m, &snap);
    let marked: Vec<&str> = text.lines().filter(|l| l.contains(" more ")).collect();
    assert!(
        marked.len() == 1 && marked[0].starts_with("─ Why"),
        "{marked:?}: {text}"
    );
}

#[test]
fn a_wait_that_is_over_is_told_as_one_and_who_blocks_names_whom() {
    // The pull of s24a/slow ended 15 s before: s24a/queued pulls itself.
    let until = |snap: &Snapshot, second: i64| {
        let day = 86_400 * kflow_model::stamp::SECOND;
        let midnight = snap.range.0.0.div_euclid(day) * day;
        kflow_model::Nanos(midnight + second * kflow_model::stamp::SECOND)
    };
    for (pod, second, said) in [
        ("s24a/queued", 44 * 60 + 27, "waits for s24a/slow PullImage"),
        ("s24a/queued", 45 * 60 + 3, "waited for s24a/slow PullImage"),
        ("s24a/slow", 44 * 60 + 27, "holds up s24a/queued"),
    ] {
        let whole = session("S6-slowpull", 1000);
        let snap = super::at("S6-slowpull", until(&whole, second));
        let mut m = model((120, 40), "dark").expect("theme");
        frame(&mut m, &snap);
        select(&mut m, &snap, pod);
        press(&mut m, &snap, "5");
        let text = screen(&mut m, &snap);
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[test]
fn a_filter_that_cannot_match_says_what_may_be_meant() {
    let snap = session("S2-stuck-early", 450);
    for (keys, typed, hint) in [
        ("1", "namespace=s03", "did you mean ns?"),
        ("3", "method:RunPodSandbx", "did you mean RunPodSandbox?"),
    ] {
        let mut m = model((140, 40), "dark").expect("theme");
        press(&mut m, &snap, keys);
        frame(&mut m, &snap);
        press(&mut m, &snap, "/");
        for c in typed.chars() {
            press(&mut m, &snap, &c.to_string());
        }
        let text = screen(&mut m, &snap);
        assert!(text.contains(hint), "{typed}: {text}");
    }
}

/// Without its error the empty list would look as if there were no pods.
#[test]
fn a_filter_on_a_field_that_there_is_not_stays_open_with_its_error() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((140, 40), "dark").expect("theme");
    press(&mut m, &snap, "1");
    frame(&mut m, &snap);
    press(&mut m, &snap, "/");
    for c in "cause:KF402".chars() {
        press(&mut m, &snap, &c.to_string());
    }
    for key in ["enter", "enter"] {
        press(&mut m, &snap, key);
        let text = screen(&mut m, &snap);
        assert!(text.contains("there is no field \"cause\""), "{text}");
    }
    press(&mut m, &snap, "esc");
    assert!(screen(&mut m, &snap).contains("cm-missing"));
    press(&mut m, &snap, "/");
    for c in "s03".chars() {
        press(&mut m, &snap, &c.to_string());
    }
    press(&mut m, &snap, "enter");
    assert!(m.overlays.is_empty(), "the filter is taken");
}

#[test]
fn the_demo_begins_with_a_pod_that_hangs_and_trouble_first_is_not_turned_round() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((80, 24), "dark").expect("theme");
    let text = screen(&mut m, &snap);
    // The owner without pods is in the first row.
    assert!(
        text.lines().nth(4).is_some_and(|l| l.contains("quota")),
        "{text}"
    );
    let uid = m.shared.pod.clone().expect("a pod");
    assert!(!snap.verdicts.get(&uid).expect("a verdict").state.is_well());
    press(&mut m, &snap, "T");
    let again = screen(&mut m, &snap);
    assert_eq!(again.lines().nth(4), text.lines().nth(4));
    assert!(
        again.contains("what is in trouble is first already"),
        "{again}"
    );
}

#[test]
fn a_verdict_and_all_incidents_can_be_written_into_files() {
    let snap = session("S2-stuck-early", 450);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s03/cm-missing");
    for (command, about, ending, has) in [
        ("why-save", "s03/cm-missing", "md", "KF"),
        ("incidents-save", "incidents", "txt", "s29/deployment/quota"),
    ] {
        let effects = press(&mut m, &snap, &format!(": {command} enter"));
        let [Effect::Write(w)] = effects.as_slice() else {
            panic!("{command}: {effects:?}");
        };
        assert_eq!((w.about.as_str(), w.ending), (about, ending));
        assert!(w.text.contains(has), "{}", w.text);
        select(&mut m, &snap, "s03/cm-missing");
    }
}

/// The API truncates the creation to a second; the request to create the pod tells it exactly.
#[test]
fn a_pods_age_counts_from_where_its_timeline_begins() {
    let whole = session("S1-basics", 1000);
    let pod = whole.world.find("s01/healthy")[0];
    let now = pod.zero().plus(700_000_000);
    let age = |from| kflow_model::units::age(now.since(from));
    assert_ne!(age(pod.zero()), age(pod.created));
    let mut m = model((120, 40), "dark").expect("theme");
    let text = screen(&mut m, &super::at("S1-basics", now));
    let row = text
        .lines()
        .skip(3)
        .find(|l| l.contains("healthy"))
        .expect("a row");
    assert!(row.contains(&format!(" {} ", age(pod.zero()))), "{row}");
}

/// An `@` in the terminal is what `--at` is on a command line.
#[test]
fn no_pane_gives_the_advice_of_a_command_line() {
    let snap = super::at("S2-stuck-early", session("S2-stuck-early", 0).range.0);
    for pane in PaneId::ALL {
        let mut m = model((200, 60), "dark").expect("theme");
        m.show(pane);
        let text = screen(&mut m, &snap);
        assert!(!text.contains("--at"), "{pane:?}: {text}");
    }
    let early = kflow_core::diagnose::Unknown {
        help: "ask as of a later moment (--at)".to_owned(),
        what: String::new(),
        why: String::new(),
        reason: kflow_core::diagnose::unknown::Reason::NotRecorded,
    };
    assert_eq!(
        kflow_tui::banner::advice(&early),
        "ask as of a later moment (@)"
    );
}

#[test]
fn the_percentiles_are_lengths_that_were_measured() {
    let snap = session("S4-runtime", 1000);
    let mut m = model((140, 40), "dark").expect("theme");
    press(&mut m, &snap, "3 p");
    let text = screen(&mut m, &snap);
    let mut lengths: Vec<i64> = (snap.world.calls().iter())
        .filter(|c| c.method == "RunPodSandbox")
        .filter_map(|c| Some(c.end?.since(c.start)))
        .collect();
    lengths.sort_unstable();
    let row = text
        .lines()
        .find(|l| l.contains("RunPodSandbox"))
        .expect("a row");
    for permille in [500, 990] {
        let ns = kflow_core::stats::percentile(&lengths, permille);
        let shown = kflow_model::units::duration(ns);
        assert!(row.contains(&shown), "{permille}: {shown}: {row}");
    }
}

/// What is not seen is told with the words that would show it, which say what to switch on.
#[test]
fn a_step_that_was_not_seen_names_what_would_show_it() {
    let snap = session("S1-basics", 900);
    let mut m = model((120, 40), "dark").expect("theme");
    frame(&mut m, &snap);
    select(&mut m, &snap, "s01/healthy");
    press(&mut m, &snap, ": f l o w space f 0 4 enter d");
    let text = screen(&mut m, &snap);
    assert!(text.contains("No source showed it."), "{text}");
    assert!(text.contains("cni.setup_pod_network"), "{text}");
}
