//! Recorded changes in, [`FsChange`] observations out.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::borrow::Cow;

use super::path::{classify_mount, classify_path, parse_mountinfo_line};
use crate::{Fed, LineDecoder};
use kflow_model::fs::{FsAction, FsChange, FsObject};
use kflow_model::gap::Gap;
use kflow_model::{Body, Nanos, Observation, Source, Stamp};

/// Objects whose last action is remembered. A node has 110 pods and some thousands of paths; when there are more,
/// the memory starts anew and a doubled change may be given out twice.
const KNOWN_MAX: usize = 65_536;

/// Gives each change out once, however many watches saw it. Shared by the decoder and the live watcher.
///
/// cgroup v1 shows one cgroup in every controller's hierarchy, a directory may be found by a scan and by its event,
/// and a mount may be propagated to a second place. What exists already is not made again, what is gone is not
/// removed again; a directory that a scan found (`Present`) and whose creation is seen after that is both.
#[derive(Debug, Default)]
pub struct Changes {
    last: FxHashMap<FsObject, FsAction>,
}

impl Changes {
    /// The change as an observation, exact to the nanosecond, or why there is none.
    pub fn change(
        &mut self,
        at: Nanos,
        action: FsAction,
        object: FsObject,
    ) -> Result<Observation, &'static str> {
        if let FsObject::Volume { inner, volume, .. } = &object {
            // Names and content of files inside volumes are the workload's own. `..data` says that an atomic writer
            // (secret, configMap, projected, downwardAPI) is done; `mount` and `vol_data.json` belong to CSI.
            if !volume.is_empty()
                && !matches!(inner.as_str(), "" | "..data" | "mount" | "vol_data.json")
            {
                return Err("content of a volume");
            }
        }
        if action != FsAction::Changed {
            let known = self.last.get(&object).copied();
            let repeated = match (known, action) {
                (Some(FsAction::Created), FsAction::Created | FsAction::Present) => true,
                (Some(k), a) => k == a,
                (None, _) => false,
            };
            if repeated {
                return Err("seen already in another place");
            }
            if self.last.len() >= KNOWN_MAX {
                self.last.clear();
            }
            self.last.insert(object.clone(), action);
        }
        Ok(Observation {
            stamp: Stamp::exact(at),
            source: Source::Fs,
            body: Body::Fs(Box::new(FsChange { action, object })),
        })
    }
}

/// Decodes `fs.jsonl`: `{"t":ns,"src":"cgroup:memory","ev":["CREATE"],"path":"/…","dir":true}` for inotify events and
/// scans, `{"t":ns,"src":"mount","ev":"add","line":"<mountinfo>"}` for mounts.
#[derive(Debug, Default)]
pub struct FsDecoder {
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

impl FsDecoder {
    /// A decoder that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn give(
        &mut self,
        at: i64,
        action: FsAction,
        object: FsObject,
        out: &mut Vec<Observation>,
    ) -> Fed {
        match self.changes.change(Nanos(at), action, object) {
            Ok(o) => {
                out.push(o);
                Fed::Observed(1)
            }
            Err(reason) => Fed::Ignored(reason),
        }
    }

    fn mount(&mut self, t: i64, ev: &str, line: &str, out: &mut Vec<Observation>) -> Fed {
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
            Some(object) => self.give(t, action, object, out),
            None => Fed::Ignored("mount that is no pod's"),
        }
    }

    fn event(&mut self, t: i64, ev: &str, path: &str, out: &mut Vec<Observation>) -> Fed {
        let action = match ev {
            "CREATE" => FsAction::Created,
            "DELETE" | "MOVED_FROM" => FsAction::Removed,
            "CLOSE_WRITE" | "MODIFY" | "MOVED_TO" => FsAction::Changed,
            "ROOT" | "SCAN" => FsAction::Present,
            "Q_OVERFLOW" => {
                out.push(Observation {
                    stamp: Stamp::exact(Nanos(t)),
                    source: Source::Fs,
                    body: Body::Gap(Box::new(Gap {
                        of: Source::Fs,
                        since: Nanos(t),
                        lost: 0,
                        conn: 0,
                        why: "inotify queue overflow".into(),
                    })),
                });
                return Fed::Observed(1);
            }
            "UNMOUNT" => return Fed::Ignored("watch ended by an unmount"),
            _ => return Fed::Ignored("inotify event of no interest"),
        };
        match classify_path(path) {
            Some(object) => self.give(t, action, object, out),
            None => Fed::Ignored("path that is no pod's"),
        }
    }
}

impl LineDecoder for FsDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        if line.trim_ascii().is_empty() {
            return Fed::Ignored("empty line");
        }
        let Ok(l) = serde_json::from_slice::<Line<'_>>(line) else {
            return Fed::Malformed("not a line of fs.jsonl");
        };
        match (l.ev, l.path, l.line) {
            (Events::One(ev), _, Some(mount)) => self.mount(l.t, &ev, &mount, out),
            (Events::One(ev), Some(path), _) => self.event(l.t, &ev, &path, out),
            (Events::Many(evs), Some(path), _) => {
                let before = out.len();
                let mut fed = Fed::Ignored("no event");
                for ev in evs.iter().take(16) {
                    fed = self.event(l.t, ev, &path, out);
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(text: &str) -> (Vec<Observation>, Vec<Fed>) {
        let mut d = FsDecoder::new();
        let mut out = Vec::new();
        let fed = text
            .lines()
            .map(|l| d.line(l.as_bytes(), &mut out))
            .collect();
        (out, fed)
    }

    fn body(o: &Observation) -> &FsChange {
        match &o.body {
            Body::Fs(c) => c,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cgroup_in_two_controllers_is_one_change() {
        let (out, fed) = feed(
            r#"{"t":1795220667536596586,"src":"cgroup:memory","ev":["CREATE"],"path":"/sys/fs/cgroup/memory/kubepods/burstable/pod4ac3c3e9-1ad8-496b-869a-7687fcb13acf","dir":true}
{"t":1795220667537901615,"src":"cgroup:cpu","ev":["CREATE"],"path":"/sys/fs/cgroup/cpu/kubepods/burstable/pod4ac3c3e9-1ad8-496b-869a-7687fcb13acf","dir":true}
{"t":1795220767537901615,"src":"cgroup:cpu","ev":["DELETE"],"path":"/sys/fs/cgroup/cpu/kubepods/burstable/pod4ac3c3e9-1ad8-496b-869a-7687fcb13acf","dir":true}
{"t":1795220767537901620,"src":"cgroup:memory","ev":["DELETE"],"path":"/sys/fs/cgroup/memory/kubepods/burstable/pod4ac3c3e9-1ad8-496b-869a-7687fcb13acf","dir":true}"#,
        );
        assert_eq!(
            fed,
            [
                Fed::Observed(1),
                Fed::Ignored("seen already in another place"),
                Fed::Observed(1),
                Fed::Ignored("seen already in another place"),
            ]
        );
        assert_eq!(out[0].stamp, Stamp::exact(Nanos(1_795_220_667_536_596_586)));
        assert_eq!(body(&out[0]).action, FsAction::Created);
        assert_eq!(body(&out[1]).action, FsAction::Removed);
    }

    #[test]
    fn a_directory_found_by_a_scan_and_created_after_that_is_both() {
        let (out, _) = feed(
            r#"{"t":1,"src":"pods","ev":["SCAN"],"path":"/var/lib/kubelet/pods/4ac3c3e9-1ad8-496b-869a-7687fcb13acf/volumes","dir":true}
{"t":2,"src":"pods","ev":["CREATE"],"path":"/var/lib/kubelet/pods/4ac3c3e9-1ad8-496b-869a-7687fcb13acf/volumes","dir":true}
{"t":3,"src":"pods","ev":["SCAN"],"path":"/var/lib/kubelet/pods/4ac3c3e9-1ad8-496b-869a-7687fcb13acf/volumes","dir":true}"#,
        );
        let actions: Vec<_> = out.iter().map(|o| body(o).action).collect();
        assert_eq!(actions, [FsAction::Present, FsAction::Created]);
    }

    #[test]
    fn names_of_files_inside_volumes_are_dropped_but_for_the_atomic_writers_mark() {
        let (out, fed) = feed(
            r#"{"t":1,"src":"pods","ev":["MOVED_FROM"],"path":"/var/lib/kubelet/pods/a220de63-1127-4975-ae7b-92eb29d81280/volumes/kubernetes.io~configmap/cfg/..data_tmp","dir":false}
{"t":1,"src":"pods","ev":["MOVED_TO"],"path":"/var/lib/kubelet/pods/a220de63-1127-4975-ae7b-92eb29d81280/volumes/kubernetes.io~configmap/cfg/..data","dir":false}
{"t":1,"src":"pods","ev":["CREATE"],"path":"/var/lib/kubelet/pods/a220de63-1127-4975-ae7b-92eb29d81280/volumes/kubernetes.io~empty-dir/mem/secret.txt","dir":false}"#,
        );
        assert_eq!(fed[0], Fed::Ignored("content of a volume"));
        assert_eq!(fed[2], Fed::Ignored("content of a volume"));
        assert_eq!(out.len(), 1);
        assert_eq!(body(&out[0]).action, FsAction::Changed);
    }

    #[test]
    fn mounts_and_lost_events_are_observed() {
        let (out, _) = feed(
            r#"{"t":5,"src":"mount","ev":"add","line":"45 27 0:40 / /run/containerd/io.containerd.grpc.v1.cri/sandboxes/444be44c138186e3abb2e950b65de9623ca784063b755c37f0a9f3dd8fd11dde/shm rw,nosuid,nodev,noexec,relatime - tmpfs shm rw,size=65536k"}
{"t":6,"src":"mount","ev":"initial","line":"42 27 254:0 /var/lib/kubelet /var/lib/kubelet rw,relatime shared:1 - ext4 /dev/vda rw,discard"}
{"t":7,"src":"pods","ev":["Q_OVERFLOW"],"path":"/var/lib/kubelet/pods"}"#,
        );
        assert_eq!(out.len(), 2);
        assert!(
            matches!(&body(&out[0]).object, FsObject::RuntimeMount { what, .. } if what == "shm")
        );
        assert!(matches!(&out[1].body, Body::Gap(g) if g.of == Source::Fs));
    }

    #[test]
    fn nonsense_is_malformed() {
        for text in [
            "x",
            "{}",
            r#"{"t":1,"ev":["CREATE"]}"#,
            r#"{"t":1,"ev":"add","line":"x"}"#,
        ] {
            assert!(matches!(feed(text).1[0], Fed::Malformed(_)), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            FsDecoder::new().line(&bytes, &mut Vec::new());
        }
    }
}
