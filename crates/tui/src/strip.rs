//! The line below the panes of the demo that says what to press next. It disappears for good when the user goes back
//! with nothing left to go back from.

use super::action::Action;
use super::keys::Keymap;
use super::pane::PaneId;

/// Returns the commands that lead on from a pane, and what each shows.
const fn next(pane: PaneId) -> &'static [(Action, &'static str)] {
    match pane {
        PaneId::Pods => &[
            (Action::Down, "another pod"),
            (Action::PaneWhy, "why it hangs"),
            (Action::PaneTimeline, "its start"),
            (Action::PaneIncidents, "all that was ever wrong"),
            (Action::PlayPause, "plays"),
        ],
        PaneId::Why => &[
            (Action::PaneTimeline, "its start"),
            (Action::PaneSequence, "who called whom"),
            (Action::NextPod, "the next pod"),
            (Action::PanePods, "all pods"),
        ],
        PaneId::Timeline => &[
            (Action::Critical, "what it waited for"),
            (Action::WaitsFor, "whom it waits for"),
            (Action::PaneSequence, "who called whom"),
            (Action::PaneFlow, "which steps it took"),
        ],
        PaneId::Sequence | PaneId::Flow => &[
            (Action::PaneTimeline, "the same as bars"),
            (Action::PaneCalls, "the calls themselves"),
            (Action::PaneWhy, "why it hangs"),
            (Action::PanePods, "all pods"),
        ],
        PaneId::Incidents => &[
            (Action::Open, "goes to the middle of one"),
            (Action::NextIncident, "to the next"),
            (Action::PaneNode, "the node"),
            (Action::PanePods, "all pods"),
        ],
        PaneId::Calls | PaneId::Log | PaneId::Node | PaneId::Requests => &[
            (Action::Filter, "filters"),
            (Action::PaneWhy, "why the pod hangs"),
            (Action::PanePods, "all pods"),
            (Action::Help, "all keys"),
        ],
    }
}

/// Returns keys and what each shows, most useful first; the last one removes the line. Commands without a key are
/// left out.
pub fn hints(pane: PaneId, keys: &Keymap) -> Vec<(String, &'static str)> {
    let away = (Action::Back, "sends this line away");
    let all = next(pane).iter().chain([&away]);
    all.map(|(a, what)| (keys.first(*a), *what))
        .filter(|(key, _)| !key.is_empty())
        .collect()
}
