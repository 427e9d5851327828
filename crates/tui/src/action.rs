//! Every command of the terminal, in one table: the palette, the key map, help, the footer and the documentation of
//! the configuration all read it.

use std::fmt;

use crate::pane::PaneId;

/// Where a key works. The focused pane's keys are looked up first, then those of [`KeyScope::List`], then of
/// [`KeyScope::Global`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyScope {
    /// Keys that work in every pane.
    Global,
    /// Keys that move the selection in the list of the focused pane.
    List,
    Pane(PaneId),
}

impl fmt::Display for KeyScope {
    /// Writes the scope as the configuration spells it: `global`, `list`, or a pane's name in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.pad("global"),
            Self::List => f.pad("list"),
            Self::Pane(pane) => f.pad(&pane.name().to_lowercase()),
        }
    }
}

macro_rules! key_scope {
    (Global) => {
        KeyScope::Global
    };
    (List) => {
        KeyScope::List
    };
    ($pane:ident) => {
        KeyScope::Pane(PaneId::$pane)
    };
}

macro_rules! actions {
    ($($id:ident $name:literal $scope:tt [$($key:literal),*] $help:literal;)*) => {
        /// A command.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action { $(#[doc = $help] $id,)* }

        impl Action {
            /// Every command, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$id),*];
            /// Returns the name that the palette and the configuration use.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }
            /// Returns a description of a few words.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$id => $help,)* }
            }
            /// Returns where the command's keys work.
            pub const fn scope(self) -> KeyScope {
                match self { $(Self::$id => key_scope!($scope),)* }
            }
            /// Returns the keys that run the command unless the configuration overrides them.
            pub const fn default_keys(self) -> &'static [&'static str] {
                match self { $(Self::$id => &[$($key),*],)* }
            }
        }
    };
}

actions! {
    Quit "quit" Global ["q", "ctrl-c"] "leave kflow";
    Help "help" Global ["?", "f1"] "keys of this pane and everywhere";
    Palette "palette" Global [":"] "type a command";
    Filter "filter" Global ["/"] "filter what this pane lists";
    ClearFilter "clear-filter" Global ["ctrl-x"] "show everything again";
    Back "back" Global ["esc"] "close, or go back";
    PanePods "pods" Global ["1"] "pods";
    PaneTimeline "timeline" Global ["2"] "timeline of the selected pod";
    PaneCalls "calls" Global ["3"] "CRI calls";
    PaneLog "log" Global ["4"] "observations of all sources, merged";
    PaneWhy "why" Global ["5", "w"] "why the selected pod is not well";
    PaneNode "node" Global ["6"] "the node and the sources";
    PaneSequence "sequence" Global ["7"] "sequence diagram of the selected pod";
    PaneFlow "flow" Global ["8"] "call flow of the selected pod; or a step of it: flow c22";
    PaneRequests "requests" Global ["9"] "requests to the apiserver";
    PaneIncidents "incidents" Global ["0"] "everything that was ever not well";
    WaitsFor "waits-for" Global ["W"] "to what the pod waits for: a pull, a pod; esc returns";
    Compare "compare" Global ["M"] "mark a pod, then compare another with it; compare median, compare NS/NAME";
    SideBySide "side-by-side" Global ["B"] "pods of the same owner on one axis, each by its node's clock; esc returns";
    NextPane "next-pane" Global ["tab"] "focus the next pane";
    PreviousPane "previous-pane" Global ["backtab"] "focus the pane before";
    Layout "layout" Global ["v"] "one pane, split, dashboard";
    NextPod "next-pod" Global ["}"] "select the next pod";
    PreviousPod "previous-pod" Global ["{"] "select the pod before";
    PlayPause "play-pause" Global ["space"] "play or pause; live: freeze or follow";
    Faster "faster" Global [")"] "twice as fast";
    Slower "slower" Global ["("] "half as fast";
    Speed "speed" Global [] "set the speed: speed 10, speed max";
    StepForward "step" Global ["."] "one observation further";
    StepBack "step-back" Global [","] "one observation back";
    StepPodForward "step-pod" Global [">"] "to the next change of the selected pod";
    StepPodBack "step-pod-back" Global ["<"] "to the change before of the selected pod";
    NextError "next-error" Global ["n"] "to the next error that something suffered from";
    PreviousError "previous-error" Global ["N"] "to the error before";
    NextIncident "next-incident" Global ["]"] "to the next incident: its middle, and whom it befell";
    PreviousIncident "previous-incident" Global ["["] "to the incident before";
    NextMark "next-mark" Global ["'"] "to the next note";
    Seek "seek" Global ["@"] "go to a time: 12:00:05, +3s, -1m, 40%, start, end";
    Follow "follow" Global ["end", "F"] "to the end, and follow";
    Note "note" Global ["m"] "leave a note at the cursor, saved into the session";
    Clock "clock" Global ["c"] "clock: absolute, relative, since the pod's creation";
    Utc "utc" Global ["u"] "UTC or local time";
    Copy "copy" Global ["y"] "copy to the clipboard (OSC 52)";
    Save "save" Global ["s"] "save this pane as SVG and text; save all: every pane";
    Export "export" Global ["e"] "export menu; export html all: perfetto, otlp, html, json, text; mermaid, plantuml";
    Record "record" Global ["R", "ctrl-r"] "start or stop a recording";
    View "view" Global ["V"] "choose a view of the configuration; or name it: view pulls";
    Theme "theme" Global [] "choose a theme: theme light";
    Tour "tour" Global [] "back to the tour, where it was left (kflow demo --tour)";
    Redraw "redraw" Global ["ctrl-l"] "draw everything again";
    Down "down" List ["j", "down"] "down";
    Up "up" List ["k", "up"] "up";
    Left "left" List ["h", "left"] "left, or close";
    Right "right" List ["l", "right"] "right, or open";
    PageDown "page-down" List ["ctrl-d", "pagedown", "ctrl-f"] "a page down";
    PageUp "page-up" List ["ctrl-u", "pageup", "ctrl-b"] "a page up";
    Top "top" List ["g", "home"] "to the top";
    Bottom "bottom" List ["G"] "to the bottom";
    Open "open" List ["enter"] "open";
    SortNext "sort" Pods ["o"] "choose what to sort by; or name it: sort age";
    SortReverse "sort-reverse" Pods ["r"] "turn the order round";
    SortName "sort-name" Pods ["I"] "sort by name";
    SortAge "sort-age" Pods ["A"] "sort by age";
    SortStatus "sort-status" Pods ["S"] "sort by status";
    SortRestarts "sort-restarts" Pods ["C"] "sort by restarts";
    SortStuck "sort-trouble" Pods ["T"] "sort by trouble: what is stuck first";
    PodLanes "pod-lanes" Pods ["t"] "pods as lanes: their stages on one axis of time";
    Group "group" Pods ["z"] "group by namespace, node, owner, cause, or not";
    ToggleGone "toggle-gone" Pods ["d"] "show or hide pods that are gone";
    ToggleDone "toggle-finished" Pods ["D"] "show or hide pods that are completed";
    ToggleOwners "toggle-owners" Pods ["O"] "show all owners that have a trouble of their own, or a few";
    ZoomIn "zoom-in" Timeline ["+", "="] "zoom in at the cursor";
    ZoomOut "zoom-out" Timeline ["-"] "zoom out";
    Fit "fit" Timeline ["f"] "show the start, or the whole life";
    FitSelection "fit-selection" Timeline ["i"] "zoom to the selected span";
    PanLeft "pan-left" Timeline ["H"] "pan left";
    PanRight "pan-right" Timeline ["L"] "pan right";
    MarkA "mark" Timeline ["x"] "set a mark: two make a delta, a third clears";
    Critical "critical-path" Timeline ["p"] "show the critical path";
    Slowest "slowest" Timeline ["S"] "to the next slowest step";
    SpanNextError "span-error" Timeline ["E"] "to the next failed span";
    Fold "fold" Timeline ["o"] "open or close";
    FoldAll "fold-all" Timeline ["O"] "open or close everything";
    Detail "detail" Timeline ["d"] "details of the selected span";
    CallsSort "calls-sort" Calls ["o"] "choose what to sort by; or name it: calls-sort time";
    CallsReverse "calls-reverse" Calls ["r"] "turn the order round";
    CallsNoise "calls-noise" Calls ["f"] "fold List and Status calls";
    CallsScope "calls-scope" Calls ["a"] "all calls, or those of the pod";
    CallsErrors "calls-errors" Calls ["E"] "only errors";
    CallsFlight "calls-in-flight" Calls ["i"] "only calls in flight";
    CallsDetail "calls-detail" Calls ["d"] "detail beside the list";
    CallsStats "calls-statistics" Calls ["p"] "percentiles per method";
    LogScope "log-scope" Log ["a"] "all observations, or those of the pod";
    LogSources "log-sources" Log ["f"] "choose sources";
    LogDetail "log-detail" Log ["d"] "all that the observation says";
    LogFold "log-fold" Log ["o"] "repeats of a line as one row, or each";
    LogRaw "log-raw" Log ["r"] "the observation as facts, or as a session holds it";
    LogFollow "log-follow" Log ["t"] "follow the end";
    WhyCopy "why-copy" Why ["Y"] "copy the verdict as Markdown";
    WhySave "why-save" Why [] "write the verdict as Markdown into a file";
    SequenceNoise "sequence-noise" Sequence ["f"] "fold repeats";
    FlowExplain "flow-detail" Flow ["d"] "what the step does, and what one sees if it hangs";
    FlowOnlyReached "flow-reached" Flow ["f"] "only steps that were reached";
    FlowFoldAll "flow-fold-all" Flow ["O"] "open or close everything";
    RequestsGroups "requests-groups" Requests ["p"] "groups with percentiles, or all requests";
    RequestsScope "requests-scope" Requests ["a"] "all requests, or those about the pod";
    RequestsErrors "requests-errors" Requests ["E"] "only errors";
    RequestsSlow "requests-slow" Requests ["S"] "only over 500 ms, the slowest first";
    RequestsDetail "requests-detail" Requests ["d"] "what the selected request spent its time on";
    NodeList "node-list" Node ["a"] "the nodes in a row each, or all that is known of what is open";
    NodeLeave "leave" Node ["x"] "leave the node that is open: its agent is listened to no more";
    NodeReconnect "reconnect" Node ["K"] "make clients of the runtime connect anew (eBPF tap; asks first)";
    IncidentsSort "incidents-sort" Incidents ["o"] "sort by begin, length, or what is worst";
    IncidentsSave "incidents-save" Incidents [] "write all incidents as text into a file";
}

impl Action {
    /// Returns the command with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|a| a.name() == name)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A command together with the argument that was typed after it in the palette.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub action: Action,
    /// The argument; empty if none was typed.
    pub arg: String,
}

impl From<Action> for Command {
    fn from(action: Action) -> Self {
        Self {
            action,
            arg: String::new(),
        }
    }
}

impl Command {
    /// Parses a line of the palette, such as `seek 12:00:05`; `None` if its first word names no command.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        let (name, arg) = line
            .split_once(char::is_whitespace)
            .map_or((line, ""), |(n, a)| (n, a.trim()));
        let name = match name {
            "q" | "q!" | "qa" | "exit" => "quit",
            "po" | "pod" => "pods",
            "h" => "help",
            n => n,
        };
        Some(Self {
            action: Action::parse(name)?,
            arg: arg.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_lead_back() {
        for a in Action::ALL {
            assert_eq!(Action::parse(a.name()), Some(*a));
            assert!(!a.help().is_empty());
        }
    }
    #[test]
    fn a_palette_line_is_a_name_and_an_argument() {
        let c = Command::parse(" seek  +3s ").expect("seek");
        assert_eq!((c.action, c.arg.as_str()), (Action::Seek, "+3s"));
        assert_eq!(Command::parse("q"), Some(Action::Quit.into()));
        assert_eq!(Command::parse("nonsense"), None);
    }
}
