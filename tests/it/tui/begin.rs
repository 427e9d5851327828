//! A user's first five minutes: help that can be searched and that runs the chosen command, the legend of signs, the
//! palette, the mouse.

use std::sync::Arc;

use kflow_core::diagnose::{NextStep, Verdict};
use kflow_engine::Snapshot;
use kflow_engine::snapshot::Mode;
use kflow_tui::glyph::{ASCII, Glyphs, UNICODE};
use kflow_tui::help;
use kflow_tui::model::{Effect, Model, Overlay};
use kflow_tui::offscreen::{frame, model, press};
use kflow_tui::pane::PaneId;
use kflow_tui::update::Mouse;
use kflow_tui::{keys, strip, svg};

use super::session;

fn open(size: (u16, u16)) -> (Model, Snapshot) {
    let snap = session("S2-stuck-early", 450);
    let mut m = model(size, "dark").expect("theme");
    frame(&mut m, &snap);
    (m, snap)
}

fn screen(m: &mut Model, snap: &Snapshot) -> String {
    svg::plain(&frame(m, snap))
}

fn type_in(m: &mut Model, snap: &Snapshot, text: &str) {
    for c in text.chars() {
        let key = if c == ' ' {
            "space".to_owned()
        } else {
            c.to_string()
        };
        press(m, snap, &key);
    }
}

/// Returns the column and the row of a text's first character.
fn find(screen: &str, text: &str) -> (u16, u16) {
    let (y, line) = screen
        .lines()
        .enumerate()
        .find(|(_, l)| l.contains(text))
        .unwrap_or_else(|| panic!("{text}: {screen}"));
    let x = line.split(text).next().unwrap_or_default().chars().count();
    (x as u16, y as u16)
}

#[test]
fn help_is_searched_by_typing_and_runs_what_is_chosen() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let (mut m, snap) = open(size);
        press(&mut m, &snap, "?");
        assert!(screen(&mut m, &snap).contains("type to search"));
        type_in(&mut m, &snap, "critical path");
        let text = screen(&mut m, &snap);
        assert!(!text.contains("a page down"), "{text}");
        press(&mut m, &snap, "esc");
        type_in(&mut m, &snap, "sequence diagram");
        press(&mut m, &snap, "enter");
        assert_eq!((m.focus, m.overlays.len()), (PaneId::Sequence, 0));
        // The arrow keys choose too, and escape leaves.
        press(&mut m, &snap, "1 ? down down up enter");
        let menu = matches!(m.overlays.last(), Some(Overlay::Menu(_)));
        assert!(menu, "the first command of the pane asks what to sort by");
        press(&mut m, &snap, "esc ? esc");
        assert!(m.overlays.is_empty());
        // A search without matches says so, and enter does nothing.
        press(&mut m, &snap, "?");
        type_in(&mut m, &snap, "zebra");
        assert!(screen(&mut m, &snap).contains("no key, command or sign"));
        assert_eq!(press(&mut m, &snap, "enter"), []);
    }
}

#[test]
fn the_strip_of_the_demo_says_what_to_press_and_can_be_sent_away() {
    for size in [(80, 24), (120, 40), (200, 60)] {
        let (mut m, snap) = open(size);
        m.strip = true;
        for (keys, said) in [
            ("1", "why it hangs"),
            ("5", "its start"),
            ("2", "what it waited for"),
            ("7", "the same as bars"),
            ("0", "goes to the middle of one"),
        ] {
            press(&mut m, &snap, keys);
            let text = screen(&mut m, &snap);
            assert!(
                text.contains(said) && text.contains("sends this line away"),
                "{text}"
            );
        }
        press(&mut m, &snap, "esc esc esc esc esc esc");
        assert!(!screen(&mut m, &snap).contains("sends this line away"));
    }
    // Every key that the footer names has an effect in the pane that names it.
    let (m, _) = open((120, 40));
    for pane in PaneId::ALL {
        for (key, what) in strip::hints(pane, &m.keys) {
            let key = keys::Key::parse(&key).expect("a key");
            assert!(
                m.keys.action(pane, key).is_some(),
                "{}: {what}",
                pane.name()
            );
        }
    }
}

#[test]
fn nothing_leaves_kflow_by_accident() {
    let (mut m, snap) = open((120, 40));
    for keys in [
        "? enter",
        "? l e a v e enter",
        ": enter",
        ": l e a v e enter",
    ] {
        let effects = press(&mut m, &snap, keys);
        assert!(!effects.contains(&Effect::Quit), "{keys}");
        m.overlays.clear();
    }
    assert_eq!(press(&mut m, &snap, "? q u i t enter"), [Effect::Quit]);
}

/// Glyphs that draw frames and trees, and have no meaning of their own.
const DRAWN: [&str; 13] = [
    "rule",
    "wall",
    "grid",
    "branch",
    "last",
    "top_left",
    "top_right",
    "bottom_left",
    "bottom_right",
    "track",
    "dot",
    "shaft",
    "right",
];

#[test]
fn help_says_what_every_sign_means() {
    for g in [&UNICODE, &ASCII] as [&'static Glyphs; 2] {
        let told: String = PaneId::ALL
            .into_iter()
            .flat_map(|p| help::signs(p, g))
            .chain(help::everywhere(g))
            .map(|(sign, _)| sign)
            .collect();
        let untold: Vec<&str> = g
            .all()
            .into_iter()
            .filter(|(name, sign)| !DRAWN.contains(name) && !told.contains(sign))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(untold, Vec::<&str>::new());
    }
}

#[test]
fn the_palette_begins_with_what_the_pane_does_and_ends_with_leaving() {
    let (mut m, snap) = open((120, 40));
    press(&mut m, &snap, "2 :");
    let Some(Overlay::Prompt(p)) = m.overlays.last() else {
        panic!("the palette is open");
    };
    let names: Vec<&str> = p.candidates.iter().map(|c| c.text.as_str()).collect();
    assert_eq!(names.first(), Some(&"zoom-in"));
    assert_eq!(names.last(), Some(&"quit"));
}

#[test]
fn the_mouse_reaches_headings_footer_menus_and_help() {
    let (mut m, snap) = open((120, 40));
    press(&mut m, &snap, "1");
    // A click on a heading sorts, and a second click reverses the order.
    let at = find(&screen(&mut m, &snap), "NAME ");
    m.mouse(Mouse::Down(at.0 + 1, at.1), &snap);
    let up = screen(&mut m, &snap);
    m.mouse(Mouse::Down(at.0 + 1, at.1), &snap);
    let down = screen(&mut m, &snap);
    assert_ne!(up, down);
    assert!(up.contains("s02") || down.contains("s02"));
    // A click on a key in the footer runs its command.
    let at = find(&down, "o sort");
    m.mouse(Mouse::Down(at.0 + 2, at.1), &snap);
    let Some(Overlay::Menu(menu)) = m.overlays.last() else {
        panic!("the footer opened the menu");
    };
    let label = menu.items.get(2).map(|i| i.label.clone()).expect("items");
    // A click on an item of a menu chooses it, and a click outside closes the menu.
    let text = screen(&mut m, &snap);
    let boxed = text
        .lines()
        .position(|l| l.contains("Sort"))
        .expect("its title");
    let row = text
        .lines()
        .skip(boxed)
        .position(|l| l.contains(&label))
        .expect("the item");
    let x = text
        .lines()
        .nth(boxed + row)
        .and_then(|l| l.find(&label))
        .expect("its place");
    let x = text
        .lines()
        .nth(boxed + row)
        .map(|l| l[..x].chars().count())
        .expect("its column");
    m.mouse(Mouse::Down(x as u16, (boxed + row) as u16), &snap);
    assert!(m.overlays.is_empty());
    press(&mut m, &snap, "o");
    m.mouse(Mouse::Down(0, 3), &snap);
    assert!(m.overlays.is_empty());
    // A click on a command in help runs it.
    press(&mut m, &snap, "?");
    let at = find(&screen(&mut m, &snap), "group by namespace");
    m.mouse(Mouse::Down(at.0, at.1), &snap);
    let text = screen(&mut m, &snap);
    assert!(
        m.overlays.is_empty() && text.contains("by namespace"),
        "{text}"
    );
    // The wheel scrolls help.
    press(&mut m, &snap, "?");
    m.mouse(Mouse::Wheel(10, 10, true), &snap);
    assert!(matches!(m.overlays.last(), Some(Overlay::Help(h)) if h.top > 0));
}

/// What is wrong with a filter is read at 80 columns too: it used to be cut before it said what was meant.
#[test]
fn what_is_wrong_with_a_filter_is_told_in_full() {
    for size in [(80, 24), (200, 60)] {
        let (mut m, snap) = open(size);
        press(&mut m, &snap, "1 /");
        type_in(&mut m, &snap, "namespace=s03");
        let text = screen(&mut m, &snap);
        assert!(text.contains("did you mean ns?"), "{text}");
        // The end of a line that is longer than the screen is in sight.
        type_in(&mut m, &snap, &" ready".repeat(40));
        let text = screen(&mut m, &snap);
        let last = text.lines().last().unwrap_or_default();
        assert!(
            last.starts_with(" /…") && last.contains("ready ready"),
            "{text}"
        );
    }
}

#[test]
fn help_lists_what_the_view_takes() {
    let (mut m, snap) = open((120, 40));
    press(&mut m, &snap, "2 ?");
    let text = screen(&mut m, &snap);
    assert!(text.contains("zoom in at the cursor"), "{text}");
    press(&mut m, &snap, "esc 1 M j M ?");
    let text = screen(&mut m, &snap);
    assert!(
        text.contains("a stage: A to the left, B to the right"),
        "{text}"
    );
    assert!(
        text.contains("open or close") && !text.contains("zoom in"),
        "{text}"
    );
}

/// While another pane is shown, a pod is selected for the user: the list of pods begins with what is in trouble all the
/// same, and what the user has looked at stays.
#[test]
fn the_list_of_pods_begins_with_what_is_in_trouble_after_another_pane() {
    let early = session("S2-stuck-early", 20);
    let later = session("S2-stuck-early", 450);
    let first = |keys: &str| {
        let mut m = model((80, 24), "dark").expect("theme");
        m.show(PaneId::Incidents);
        // Nothing is wrong yet.
        frame(&mut m, &early);
        frame(&mut m, &later);
        press(&mut m, &later, keys);
        frame(&mut m, &later);
        m.shared.pod
    };
    let (mut m, snap) = open((80, 24));
    frame(&mut m, &snap);
    assert!(m.shared.pod.is_some());
    assert_eq!(first("1"), m.shared.pod);
    assert_eq!(first("2 1"), first("2"));
}

#[test]
fn the_footer_of_a_live_view_offers_to_hold_it() {
    let (mut m, mut snap) = open((200, 60));
    assert!(screen(&mut m, &snap).contains("space play"));
    snap.mode = Mode::Live {
        scope: "all".into(),
        following: true,
        recording: "".into(),
    };
    assert!(screen(&mut m, &snap).contains("space hold"));
}

#[test]
fn the_order_of_a_list_is_seen() {
    let (mut m, snap) = open((80, 24));
    press(&mut m, &snap, "1");
    assert!(!screen(&mut m, &snap).contains("trouble last"));
    press(&mut m, &snap, "r");
    assert!(screen(&mut m, &snap).contains("trouble last"));
    for (pane, chosen, next) in [("1", "trouble", "name"), ("0", "begin", "length")] {
        press(&mut m, &snap, pane);
        press(&mut m, &snap, "o");
        let text = screen(&mut m, &snap);
        assert!(text.contains(&format!("☑ {chosen}")), "{text}");
        assert!(text.contains(&format!("☐ {next}")), "{text}");
        press(&mut m, &snap, "down enter o");
        let text = screen(&mut m, &snap);
        assert!(text.contains(&format!("☑ {next}")), "{text}");
        press(&mut m, &snap, "enter");
        press(&mut m, &snap, "o");
        let text = screen(&mut m, &snap);
        assert!(text.contains(&format!("☑ {chosen}")), "{text}");
        press(&mut m, &snap, "esc");
    }
}

/// What a message tells to do often stands at its end.
#[test]
fn long_messages_and_the_words_of_help_can_be_read_to_their_end() {
    let (mut m, snap) = open((80, 24));
    press(&mut m, &snap, "V");
    let (message, _) = m.message.clone().expect("a message");
    assert!(message.chars().count() > 80, "{message}");
    let last = message.split_whitespace().next_back().expect("words");
    let text = screen(&mut m, &snap);
    assert!(text.contains(last), "{last}: {text}");
    press(&mut m, &snap, "?");
    let mut seen = String::new();
    for _ in 0..160 {
        press(&mut m, &snap, "down");
        seen.push_str(&screen(&mut m, &snap));
    }
    // Wrapped or not, its last words are there.
    let seen = crate::one_line(&seen);
    for a in kflow_tui::action::Action::ALL {
        if a.scope() == kflow_tui::action::KeyScope::Global {
            let help = crate::one_line(a.help());
            let end: String = help
                .chars()
                .rev()
                .take(20)
                .collect::<Vec<_>>()
                .iter()
                .rev()
                .collect();
            assert!(seen.contains(end.trim()), "{help}");
        }
    }
}

#[test]
fn a_command_that_is_copied_names_the_recording_and_the_moment_that_is_shown() {
    let (mut m, mut snap) = open((120, 40));
    m.shared.recording = " -s incident.kflow.zst".to_owned();
    let verdicts = Arc::make_mut(&mut snap.verdicts).values_mut();
    let stuck = Arc::make_mut(verdicts.into_iter().next().expect("a verdict"));
    stuck.next.push(NextStep {
        text: "which calls hang".to_owned(),
        command: "kflow timeline a/b".to_owned(),
    });
    let pod = format!("{}/{}", stuck.namespace, stuck.pod);
    kflow_tui::offscreen::select(&mut m, &snap, &pod);
    press(&mut m, &snap, "5");
    let mut shown = |snap: &Snapshot| {
        press(&mut m, snap, "g");
        let mut text = screen(&mut m, snap);
        press(&mut m, snap, "G");
        text.push_str(&screen(&mut m, snap));
        text
    };
    let command = "kflow timeline a/b -s incident.kflow.zst";
    let text = shown(&snap);
    let whole = format!("{command} --at {}", snap.now.to_rfc3339());
    assert!(snap.now < snap.range.1 && text.contains(&whole), "{text}");
    // A command looks at the end by itself.
    snap.range.1 = snap.now;
    let text = shown(&snap);
    assert!(text.contains(command) && !text.contains("--at"), "{text}");
}

/// What stands in a column is found by typing it.
#[test]
fn a_word_of_any_column_finds_the_pod() {
    let (mut m, snap) = open((120, 40));
    let on_node = |v: &&Arc<Verdict>| snap.world.pod(&v.uid).is_some_and(|p| p.node == "node1");
    let stuck = snap.verdicts.values().find(on_node);
    let stuck = stuck.expect("a verdict on a pod");
    for word in [stuck.cause_id(), "node1", stuck.namespace.as_str()] {
        press(&mut m, &snap, "1 /");
        type_in(&mut m, &snap, word);
        press(&mut m, &snap, "enter");
        let text = screen(&mut m, &snap);
        assert!(text.contains(stuck.pod.as_str()), "{word}: {text}");
        press(&mut m, &snap, "esc");
    }
    press(&mut m, &snap, "1 /");
    type_in(&mut m, &snap, "node9");
    press(&mut m, &snap, "enter");
    assert!(screen(&mut m, &snap).contains("No pod matches"));
}
