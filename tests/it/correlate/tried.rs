//! The critical path of a pod that is tried again and again: it names the wait and what is missing.

use kflow_core::timeline::critical::{self, Blocker};

use super::{session, world};

#[test]
fn a_back_off_names_what_failed_and_why() {
    let all = session("S2-stuck-early");
    let world = world(&all);
    let end = all.last().unwrap().stamp.seen;
    for (pod, wait, why) in [
        (
            "cm-missing",
            "back-off of the volume manager after MountVolume.SetUp failed: ",
            r#"configmap "not-there" not found"#,
        ),
        (
            "secret-missing",
            "back-off of the pod worker after create failed [c]: ",
            r#"secret "not-there" not found"#,
        ),
        (
            "image-missing",
            "ImagePullBackOff [c]: ",
            "127.0.0.1:5000/nope:1: not found",
        ),
        (
            "rc",
            "back-off of the pod worker after sandbox failed: ",
            r#"no runtime for "nosuch" is configured"#,
        ),
    ] {
        let pod = world.pods().iter().find(|p| p.name == pod).unwrap();
        let path = critical::path(pod, end).unwrap();
        let shares = path.shares(&pod.timeline);
        let longest = shares.first().unwrap();
        assert_eq!(longest.blocker, Blocker::BackOff, "{}", longest.words());
        assert_eq!(longest.words(), format!("{wait}{why}"));
        assert!(path.share(longest.ns) > 0.8, "{}", path.share(longest.ns));
        assert!(path.headline(&pod.timeline).contains(why));
    }
}
