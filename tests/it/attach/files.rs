//! Log files that rotate, and directories that come and go.

use std::fs;
use std::io::Write;
use std::path::Path;

use kflow_model::fs::{FsAction, FsObject};
use kflow_model::{Body, Observation, Source};
use kflow_sources::fs::Roots;
use kflow_sources::fs::live::{directories, mounts};
use kflow_sources::klog::live::file;
use kflow_sources::live::Board;
use tokio::sync::mpsc::Receiver;

use super::{PATIENCE, expect, lines};

fn append(path: &Path, text: &str) {
    let mut f = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    f.write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_log_is_followed_through_rotation_and_truncation() {
    let dir = tempfile::tempdir().unwrap();
    let (log, old) = (dir.path().join("kubelet.log"), dir.path().join("old"));
    append(&log, "one\ntwo\n");
    let (board, mut from) = Board::new(64);
    let out = board.out(Source::Kubelet, "log");
    let task = tokio::spawn(file(log.clone(), Source::Kubelet, lines(), out));
    expect(&mut from, &["one", "two"]).await;
    // A line is written in two pieces.
    append(&log, "thr");
    append(&log, "ee\n");
    expect(&mut from, &["three"]).await;
    // The log is renamed, written to for a moment longer, and created again: no line is lost and none comes twice.
    fs::rename(&log, &old).unwrap();
    append(&old, "last of the old\n");
    append(&log, "first of the new\n");
    expect(&mut from, &["last of the old", "first of the new"]).await;
    // copytruncate: what was written between copy and truncation may be lost, which is reported as a gap.
    fs::File::create(&log).unwrap();
    expect(&mut from, &["[the log was truncated]"]).await;
    append(&log, "after\n");
    expect(&mut from, &["after"]).await;
    assert!(board.statuses().iter().all(|s| s.is_on() && s.lost == 0));
    task.abort();
}

#[tokio::test]
async fn a_log_that_is_not_there_yet_is_waited_for_and_read_from_its_beginning() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("kubelet.log");
    let (board, mut from) = Board::new(64);
    let out = board.out(Source::Kubelet, "log");
    let task = tokio::spawn(file(log.clone(), Source::Kubelet, lines(), out));
    let off = async {
        while !board.statuses()[0].detail().contains("No such file") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, off).await.unwrap();
    append(&log, "begin\n");
    expect(&mut from, &["begin"]).await;
    task.abort();
}

const UID: &str = "7d5b7bb1-6e0c-4b57-a0ff-a5e0ad8a29e4";
const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

async fn change(from: &mut Receiver<Observation>) -> (FsAction, FsObject) {
    let o = tokio::time::timeout(PATIENCE, from.recv())
        .await
        .expect("it goes on")
        .expect("the source runs");
    match o.body {
        Body::Fs(f) => (f.action, f.object),
        other => panic!("{other:?}"),
    }
}

/// Takes changes until this one comes.
async fn until(from: &mut Receiver<Observation>, action: FsAction, object: &FsObject) {
    loop {
        let (a, o) = change(from).await;
        if (a, &o) == (action, object) {
            return;
        }
    }
}

#[tokio::test]
async fn cgroups_and_volumes_are_seen_as_they_come_and_go() {
    for cgroup in [
        // cgroupfs names (v1's memory tree looks the same from its root), and systemd's.
        format!("kubepods/burstable/pod{UID}"),
        format!(
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
            UID.replace('-', "_")
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots {
            cgroups: dir.path().join("cgroup"),
            pods: dir.path().join("kubelet/pods"),
            mountinfo: dir.path().join("mountinfo"),
        };
        let top = roots.cgroups.join(cgroup.rsplit_once('/').unwrap().0);
        fs::create_dir_all(&top).unwrap();
        fs::create_dir_all(&roots.pods).unwrap();
        let before = roots.pods.join("11111111-6e0c-4b57-a0ff-a5e0ad8a29e4");
        fs::create_dir(&before).unwrap();
        let (board, mut from) = Board::new(256);
        let task = tokio::spawn(directories(
            roots.clone(),
            board.out(Source::Fs, "directories"),
        ));
        // The pod's directory existed before.
        let (action, object) = change(&mut from).await;
        assert!(
            action == FsAction::Present && matches!(object, FsObject::PodDir { .. }),
            "{object:?}"
        );

        let pod = roots.cgroups.join(&cgroup);
        let container = if cgroup.contains(".slice") {
            pod.join(format!("cri-containerd-{ID}.scope"))
        } else {
            pod.join(ID)
        };
        // The directories are made in one go, faster than a watch can be set on each.
        fs::create_dir_all(&container).unwrap();
        let pod_cgroup = FsObject::PodCgroup {
            uid: UID.into(),
            qos: "burstable".into(),
        };
        let container_cgroup = FsObject::ContainerCgroup {
            uid: UID.into(),
            id: ID.into(),
        };
        until(&mut from, FsAction::Created, &pod_cgroup).await;
        until(&mut from, FsAction::Created, &container_cgroup).await;

        let volume = roots
            .pods
            .join(UID)
            .join("volumes/kubernetes.io~configmap/settings");
        fs::create_dir_all(&volume).unwrap();
        until(
            &mut from,
            FsAction::Created,
            &FsObject::PodDir { uid: UID.into() },
        )
        .await;
        let settings = |inner: &str| FsObject::Volume {
            uid: UID.into(),
            plugin: "kubernetes.io/configmap".into(),
            volume: "settings".into(),
            inner: inner.into(),
        };
        until(&mut from, FsAction::Created, &settings("")).await;
        // The kubelet's atomic writer: a link is renamed into place.
        let at = volume.join("..2026_11_21");
        fs::create_dir(&at).unwrap();
        std::os::unix::fs::symlink("..2026_11_21", volume.join("..data_tmp")).unwrap();
        fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
        until(&mut from, FsAction::Changed, &settings("..data")).await;

        fs::remove_dir(&container).unwrap();
        fs::remove_dir(&pod).unwrap();
        until(&mut from, FsAction::Removed, &container_cgroup).await;
        until(&mut from, FsAction::Removed, &pod_cgroup).await;
        fs::remove_dir_all(roots.pods.join(UID)).unwrap();
        until(
            &mut from,
            FsAction::Removed,
            &FsObject::PodDir { uid: UID.into() },
        )
        .await;
        let statuses = board.statuses();
        assert!(
            statuses.iter().all(|s| s.is_on() && s.lost == 0),
            "{statuses:?}"
        );
        task.abort();
    }
}

#[tokio::test]
async fn the_mount_table_is_read_and_what_cannot_be_read_says_so() {
    let (board, _from) = Board::new(256);
    let own = tokio::spawn(mounts(
        "/proc/self/mountinfo".into(),
        board.out(Source::Fs, "mounts"),
    ));
    let absent = tokio::spawn(mounts(
        "/nowhere/mountinfo".into(),
        board.out(Source::Fs, "absent"),
    ));
    let told = async {
        loop {
            let [own, absent] = &board.statuses()[..] else {
                panic!("two sources")
            };
            if own.is_on() && absent.detail().contains("/nowhere/mountinfo") {
                assert!(own.detail().ends_with(" mounts") && !absent.is_on());
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    own.abort();
    absent.abort();
}
