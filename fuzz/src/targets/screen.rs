//! The terminal: what a user types, and what is drawn from a session.

use std::cell::OnceCell;
use std::sync::Arc;

use kflow_engine::Pipeline;
use kflow_engine::snapshot::{Mode, Snapshot};
use kflow_model::Evidence;
use kflow_tui::filter::Filter;
use kflow_tui::keys::Key;
use kflow_tui::offscreen;

use super::{fixture, read};

/// Parses a filter that a user types.
pub(super) fn filter(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(filter) = Filter::parse(text) {
        assert!(Filter::parse(filter.text()).is_ok());
    }
}

pub(super) fn filters() -> Vec<Vec<u8>> {
    let known = [
        "method:RunPodSandbox dur>2s !ok pod:web*",
        "stage:image (code:NotFound or code:Unavailable)",
        "source:kubelet \"Error syncing pod\"",
        "!(ns:kube-system) bytes>10MB",
        "cause:KF505",
    ];
    known.map(|f| f.as_bytes().to_vec()).to_vec()
}

/// Returns a picture of a session at a moment, in thousandths of its length.
fn picture(all: &[Evidence], name: &str, permille: i64) -> Option<Snapshot> {
    let begin = all.iter().map(|o| o.stamp.seen).min()?;
    let end = all.iter().map(|o| o.stamp.seen).max()?;
    let now = begin.plus(end.since(begin) / 1000 * permille);
    let mut pipeline = Pipeline::selecting(Arc::default());
    for o in all
        .iter()
        .filter(|o| o.stamp.seen <= now || permille == 1000)
    {
        pipeline.observe(Arc::clone(o));
    }
    Some(pipeline.snapshot(now, Mode::paused(name), (begin, end), Vec::new()))
}

const NAMED: [&str; 16] = [
    "enter",
    "esc",
    "tab",
    "space",
    "up",
    "down",
    "left",
    "right",
    "home",
    "end",
    "pgup",
    "pgdn",
    "backspace",
    "delete",
    "backtab",
    "f1",
];

/// Returns the key for a byte: printable characters are themselves, and bytes above 127 are named keys.
fn key(byte: u8) -> Option<Key> {
    match byte {
        0..=31 => Key::parse(&format!("ctrl-{}", char::from(b'a' + byte % 26))),
        32 => Key::parse("space"),
        33..=126 => Key::parse(char::from(byte).encode_utf8(&mut [0; 4])),
        _ => Key::parse(NAMED[usize::from(byte) % NAMED.len()]),
    }
}

thread_local! {
    static PICTURES: OnceCell<Vec<Snapshot>> = const { OnceCell::new() };
}

/// Presses any keys in a terminal of any size on a recorded session at a moment; 255 followed by two
/// bytes changes the size.
pub(super) fn terminal(data: &[u8]) {
    let [which, width, height, keys @ ..] = data else {
        return;
    };
    PICTURES.with(|all| {
        let all = all.get_or_init(|| {
            ["S13-crictl", "S2-stuck-early", "S4-runtime"]
                .iter()
                .flat_map(|name| {
                    let all = read(fixture(&format!("sessions/{name}.kflow.zst")));
                    [100, 500, 1000].map(|permille| picture(&all, name, permille))
                })
                .flatten()
                .collect()
        });
        type_at(
            &all[usize::from(*which) % all.len()],
            (*width, *height),
            keys,
        );
    });
}

fn type_at(snapshot: &Snapshot, (width, height): (u8, u8), keys: &[u8]) {
    let Some(mut model) = offscreen::model((width.into(), height.into()), "dark") else {
        return;
    };
    offscreen::frame(&mut model, snapshot);
    let mut keys = keys.iter().take(80);
    while let Some(byte) = keys.next() {
        if *byte == 255 {
            let mut side = || u16::from(keys.next().copied().unwrap_or(80));
            model.size = (side(), side());
        } else if let Some(key) = key(*byte) {
            model.key(key, snapshot);
        }
        offscreen::frame(&mut model, snapshot);
    }
}

pub(super) fn keys() -> Vec<Vec<u8>> {
    let typed = [
        "1jjj\r2d?q",
        "3/method:*Sandbox* !ok",
        "8jjj",
        "6K",
        "9Sp",
        "vv1t",
        "0gjjjj",
        "4d/",
        ":",
        "nNpcM",
    ];
    let at = |n: usize, t: &str| [&[n as u8, 140, 40], t.as_bytes()].concat();
    typed.iter().enumerate().map(|(n, t)| at(n, t)).collect()
}

/// Draws any session in every pane.
pub(super) fn drawn(data: &[u8]) {
    let all = read(data.to_vec());
    for permille in [500, 1000] {
        if let Some(snapshot) = picture(&all, "fuzz", permille) {
            type_at(&snapshot, (120, 40), b"1j2d3d4d5d6789p0j");
        }
    }
}
