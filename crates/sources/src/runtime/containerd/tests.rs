//! Pulls, from invented answers of containerd, because a real pull takes its time. A real one is in
//! `fixtures/causes/real/stall.kflow.zst`, made by `tests/real/run.sh pulls`.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use kflow_model::pull::PullSeen;
use kflow_model::{Body, Nanos, Observation, Text};

const CANARY: &str = "hunter2-never-to-be-seen";
const SECOND: i64 = 1_000_000_000;

fn at(ms: i64) -> Nanos {
    Nanos(1_000 * SECOND + ms * 1_000_000)
}

fn manifest() -> Manifest {
    let json = format!(
        r#"{{"schemaVersion":2,"config":{{"digest":"sha256:c","size":9,"data":"{CANARY}"}},
            "annotations":{{"token":"{CANARY}"}},
            "layers":[{{"digest":"sha256:a","size":100,"annotations":{{"x":"{CANARY}"}}}},{{"digest":"sha256:b","size":50}}]}}"#
    );
    let labels = [
        ("containerd.io/distribution.source.ghcr.io", "team/app"),
        (
            "containerd.io/distribution.source.docker.io",
            "team/app,library/app",
        ),
        ("containerd.io/gc.ref.content.config", "sha256:c"),
        ("password", CANARY),
    ];
    Manifest::read("sha256:m", json.as_bytes(), labels.into_iter(), at(0)).unwrap()
}

fn ingest(digest: &str, offset: u64, moved: Nanos) -> Ingest {
    Ingest {
        digest: digest.into(),
        offset,
        started: at(0),
        moved,
    }
}

fn there(digests: &[&str]) -> BTreeSet<Text> {
    digests.iter().map(|d| Text::from(*d)).collect()
}

fn seen(out: &[Observation]) -> Vec<&PullSeen> {
    let pull = |o: &Observation| matches!(o.body, Body::Pull(_));
    assert!(out.iter().all(pull));
    out.iter()
        .filter_map(|o| match &o.body {
            Body::Pull(p) => Some(&**p),
            _ => None,
        })
        .collect()
}

#[test]
fn layers_come_and_the_pull_ends() {
    let (mut pulls, mut out) = (Pulls::default(), Vec::new());
    let one = [ingest("sha256:a", 10, at(1))];
    assert!(pulls.wants_manifests(&one));
    pulls.learn("sha256:m".into(), manifest());
    assert!(!pulls.wants_manifests(&one));
    assert_eq!(pulls.wants_layers(&one), ["sha256:b"]);
    pulls.take(at(0), &one, &there(&[]), &mut out);
    assert!(pulls.is_pulling());
    // The same state is not observed again, until it is time to repeat it.
    pulls.take(at(500), &one, &there(&[]), &mut out);
    assert_eq!(out.len(), 1);
    pulls.take(at(5_000), &one, &there(&[]), &mut out);
    assert_eq!(out.len(), 2);
    // All bytes are written but not committed: the layer is not complete.
    let both = [ingest("sha256:a", 100, at(2)), ingest("sha256:b", 5, at(2))];
    pulls.take(at(5_500), &both, &there(&[]), &mut out);
    assert!(!seen(&out)[2].layers[0].is_complete());
    // Between the last byte of a layer and its commit, nothing is being written for a moment.
    pulls.take(at(6_000), &[], &there(&["sha256:a"]), &mut out);
    assert!(pulls.is_pulling());
    assert_eq!(pulls.wants_layers(&[]), ["sha256:b"]);
    pulls.take(at(6_500), &[], &there(&["sha256:b"]), &mut out);
    assert!(!pulls.is_pulling());
    let all = seen(&out);
    let last = all.last().unwrap();
    assert!(last.ended && last.is_complete(), "{last:?}");
    assert_eq!((last.fetched(), last.size()), (150, 150));
    let repositories = [
        "docker.io/library/app",
        "docker.io/team/app",
        "ghcr.io/team/app",
    ];
    assert_eq!(last.repositories, repositories);
    assert!(!format!("{out:?}").contains(CANARY));
}

#[test]
fn a_pull_that_is_broken_off_ends_incomplete() {
    let (mut pulls, mut out) = (Pulls::default(), Vec::new());
    pulls.learn("sha256:m".into(), manifest());
    pulls.take(
        at(0),
        &[ingest("sha256:a", 10, at(0))],
        &there(&[]),
        &mut out,
    );
    pulls.take(at(1_000), &[], &there(&[]), &mut out);
    assert!(pulls.is_pulling(), "another layer may begin");
    pulls.take(at(2_000), &[], &there(&[]), &mut out);
    assert!(!pulls.is_pulling());
    let all = seen(&out);
    let last = all.last().unwrap();
    assert!(last.ended && !last.is_complete(), "{last:?}");
}

#[test]
fn a_layer_of_no_manifest_is_asked_for_once() {
    let (mut pulls, mut out) = (Pulls::default(), Vec::new());
    let stranger = [ingest("sha256:x", 1, at(0))];
    assert!(pulls.wants_manifests(&stranger));
    pulls.learned(&stranger);
    assert!(!pulls.wants_manifests(&stranger));
    pulls.take(at(0), &stranger, &there(&[]), &mut out);
    assert!(out.is_empty());
    // The layer has gone and comes again: its manifest may exist by now.
    pulls.take(at(500), &[], &there(&[]), &mut out);
    assert!(pulls.wants_manifests(&stranger));
}

#[test]
fn of_two_images_with_one_layer_the_newer_is_the_one_that_is_pulled() {
    let (mut pulls, mut out) = (Pulls::default(), Vec::new());
    pulls.learn("sha256:m".into(), manifest());
    let newer = Manifest {
        created: at(9),
        ..manifest()
    };
    pulls.learn("sha256:n".into(), newer);
    pulls.take(
        at(10),
        &[ingest("sha256:a", 1, at(9))],
        &there(&[]),
        &mut out,
    );
    assert_eq!(seen(&out)[0].manifest, "sha256:n");
}

#[test]
fn what_is_no_manifest_of_layers_is_refused_by_name() {
    let read = |json: &str| Manifest::read("sha256:m", json.as_bytes(), [].into_iter(), at(0));
    assert!(matches!(read("{"), Err(ManifestError::Json { .. })));
    assert!(matches!(read("5"), Err(ManifestError::Json { .. })));
    let why = read(r#"{"layers":[]}"#).unwrap_err().to_string();
    assert_eq!(why, "manifest sha256:m has 0 layers: 1 to 256 are followed");
}

proptest! {
    #[test]
    fn whatever_containerd_says_a_pull_ends_once_and_never_has_more_than_there_is(
        steps in prop::collection::vec(
            (0_i64..4_000, prop::collection::vec((0_usize..3, any::<u64>(), any::<i64>()), 0..4), prop::collection::vec(0_usize..3, 0..3)),
            1..40,
        ),
    ) {
        const BLOBS: [&str; 3] = ["sha256:a", "sha256:b", "sha256:x"];
        let (mut pulls, mut out, mut now) = (Pulls::default(), Vec::new(), 0);
        pulls.learn("sha256:m".into(), manifest());
        for (pause, written, done) in steps {
            now += pause;
            let written: Vec<Ingest> = written.iter().map(|(b, n, t)| ingest(BLOBS[*b], *n, Nanos(*t))).collect();
            let done: Vec<&str> = done.iter().map(|b| BLOBS[*b]).collect();
            pulls.take(at(now), &written, &there(&done), &mut out);
        }
        pulls.take(at(now + 10_000), &[], &there(&[]), &mut out);
        prop_assert!(!pulls.is_pulling());
        let all = seen(&out);
        prop_assert!(all.last().is_none_or(|p| p.ended));
        prop_assert!(all.iter().all(|p| p.fetched() <= p.size() && p.size() == 150));
        prop_assert!(all.iter().flat_map(|p| &p.layers).all(|l| l.fetched <= l.size));
    }
}
