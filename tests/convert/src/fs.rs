//! Recorded changes: `{"t":ns,"src":"cgroup:memory","ev":["CREATE"],"path":"/…","dir":true}` a line for inotify events and
//! scans, `{"t":ns,"src":"mount","ev":"add","line":"<mountinfo>"}` for mounts.

use serde::Deserialize;
use std::borrow::Cow;

use kflow_model::fs::{FsAction, FsObject};
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp};
use kflow_sources::fs::{Changes, classify_mount, classify_path, parse_mountinfo_line};
use kflow_sources::{Fed, LineDecoder};

/// Reads recorded changes.
#[derive(Debug, Default)]
pub(crate) struct FsLines {
    changes: Changes,
}

#[derive(Deserialize)]
struct Line<'a> {
    t: i64,
    #[serde(borrow)]
    ev: Events<'a>,
    #[serde(borrow, default)]
    path: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    line: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Events<'a> {
    One(#[serde(borrow)] Cow<'a, str>),
    Many(#[serde(borrow)] Vec<Cow<'a, str>>),
}

impl FsLines {
    fn give(
        &mut self,
        at: Nanos,
        action: FsAction,
        object: FsObject,
        out: &mut Vec<Observation>,
    ) -> Fed {
        match self.changes.change(at, action, object) {
            Ok(o) => {
                out.push(o);
                Fed::Observed(1)
            }
            Err(reason) => Fed::Ignored(reason),
        }
    }

    fn mount(&mut self, at: Nanos, ev: &str, line: &str, out: &mut Vec<Observation>) -> Fed {
        let action = match ev {
            "add" => FsAction::Created,
            "del" => FsAction::Removed,
            "initial" => FsAction::Present,
            _ => return Fed::Malformed("unknown mount event"),
        };
        let Some(mount) = parse_mountinfo_line(line) else {
            return Fed::Malformed("not a line of mountinfo");
        };
        match classify_mount(&mount) {
            Some(object) => self.give(at, action, object, out),
            None => Fed::Ignored("mount that is no pod's"),
        }
    }

    fn event(&mut self, at: Nanos, ev: &str, path: &str, out: &mut Vec<Observation>) -> Fed {
        let action = match ev {
            "CREATE" => FsAction::Created,
            "DELETE" | "MOVED_FROM" => FsAction::Removed,
            "CLOSE_WRITE" | "MODIFY" | "MOVED_TO" => FsAction::Changed,
            "ROOT" | "SCAN" => FsAction::Present,
            "Q_OVERFLOW" => {
                out.push(Observation {
                    stamp: Stamp::exact(at),
                    source: Source::Fs,
                    body: Body::Gap(Box::new(Gap {
                        of: Source::Fs,
                        since: at,
                        lost: 0,
                        conn: 0,
                        resource: kflow_model::Text::default(),
                        why: "inotify queue overflow".into(),
                    })),
                });
                return Fed::Observed(1);
            }
            _ => return Fed::Ignored("inotify event of no interest"),
        };
        match classify_path(path) {
            Some(object) => self.give(at, action, object, out),
            None => Fed::Ignored("path that is no pod's"),
        }
    }
}

impl LineDecoder for FsLines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let Ok(l) = serde_json::from_slice::<Line<'_>>(line) else {
            return Fed::Malformed("not a line of fs.jsonl");
        };
        let at = Nanos(l.t);
        match (l.ev, l.path, l.line) {
            (Events::One(ev), _, Some(mount)) => self.mount(at, &ev, &mount, out),
            (Events::One(ev), Some(path), _) => self.event(at, &ev, &path, out),
            (Events::Many(evs), Some(path), _) => {
                let before = out.len();
                let mut fed = Fed::Ignored("no event");
                for ev in &evs {
                    fed = self.event(at, ev, &path, out);
                }
                match out.len() - before {
                    0 => fed,
                    n => Fed::Observed(n),
                }
            }
            _ => Fed::Malformed("neither path nor mount"),
        }
    }
}
