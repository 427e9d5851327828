//! Turns changes of cgroups, pod directories and mounts into observations, each reported once.

use rustc_hash::FxHashMap;

use kflow_model::fs::{FsAction, FsChange, FsObject};
use kflow_model::{Body, Nanos, Observation, Source, Stamp};

/// Most objects whose last action is remembered. A node has 110 pods and some thousands of paths; beyond the limit
/// the memory is cleared, and a change may be reported twice.
const KNOWN_MAX: usize = 65_536;

/// Reports each change once, however many watches saw it.
///
/// cgroup v1 shows one cgroup in every controller's hierarchy, a directory may be found by a scan and by its event,
/// and a mount may be propagated to a second place. The creation of what exists and the removal of what is gone are
/// not reported again. A directory that a scan found (`Present`) and whose creation event follows is reported as both.
#[derive(Debug, Default)]
pub struct Changes {
    last: FxHashMap<FsObject, FsAction>,
}

impl Changes {
    /// Returns the change as an observation, exact to the nanosecond; the error is the reason why the
    /// change is not reported.
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

#[cfg(test)]
mod tests {
    use super::super::classify_path;
    use super::*;

    const PODS: &str = "/var/lib/kubelet/pods/4ac3c3e9-1ad8-496b-869a-7687fcb13acf";

    /// Returns the actions that are reported, and the reasons why others are not.
    fn take(changes: &[(FsAction, &str)]) -> (Vec<FsAction>, Vec<&'static str>) {
        let (mut known, mut given, mut left) = (Changes::default(), Vec::new(), Vec::new());
        for (n, (action, path)) in (1..).zip(changes) {
            let object = classify_path(path).expect("a pod's path");
            match known.change(Nanos(n), *action, object) {
                Ok(o) => {
                    assert_eq!(o.stamp, Stamp::exact(Nanos(n)));
                    given.extend(match &o.body {
                        Body::Fs(c) => Some(c.action),
                        _ => None,
                    });
                }
                Err(why) => left.push(why),
            }
        }
        (given, left)
    }

    #[test]
    fn a_cgroup_in_two_controllers_is_one_change() {
        let of = |controller: &str| {
            format!(
                "/sys/fs/cgroup/{controller}/kubepods/burstable/pod4ac3c3e9-1ad8-496b-869a-7687fcb13acf"
            )
        };
        let (memory, cpu) = (of("memory"), of("cpu"));
        let (given, left) = take(&[
            (FsAction::Created, &memory),
            (FsAction::Created, &cpu),
            (FsAction::Removed, &cpu),
            (FsAction::Removed, &memory),
        ]);
        assert_eq!(given, [FsAction::Created, FsAction::Removed]);
        assert_eq!(left, ["seen already in another place"; 2]);
    }

    #[test]
    fn a_directory_found_by_a_scan_and_created_after_that_is_both() {
        let volumes = format!("{PODS}/volumes");
        let (given, _) = take(&[
            (FsAction::Present, &volumes),
            (FsAction::Created, &volumes),
            (FsAction::Present, &volumes),
        ]);
        assert_eq!(given, [FsAction::Present, FsAction::Created]);
    }

    #[test]
    fn names_of_files_inside_volumes_are_dropped_but_for_the_atomic_writers_mark() {
        let of = |inner: &str| format!("{PODS}/volumes/{inner}");
        let (given, left) = take(&[
            (
                FsAction::Removed,
                &of("kubernetes.io~configmap/cfg/..data_tmp"),
            ),
            (FsAction::Changed, &of("kubernetes.io~configmap/cfg/..data")),
            (
                FsAction::Created,
                &of("kubernetes.io~empty-dir/mem/secret.txt"),
            ),
        ]);
        assert_eq!(given, [FsAction::Changed]);
        assert_eq!(left, ["content of a volume"; 2]);
    }
}
