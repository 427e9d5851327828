//! Adding a recording to a store.

use std::fs;

use kflow_model::gap::Note;
use kflow_model::session::format::Bound;
use kflow_model::session::{Writer, reader::sort_arrivals};
use kflow_model::units::{DAY, HOUR, MINUTE};
use kflow_model::{Body, Evidence, Nanos, Observation, Source, Stamp};

use super::{Rig, shifted};
use crate::add::{AddError, add};
use crate::fetch::Want;
use crate::layout::Object;

#[test]
fn a_recording_that_is_added_is_there_once_and_comes_back_as_it_was() {
    let rig = Rig::new();
    let recording = rig.path("recording.kflow.zst");
    let (begin, end) = rig.session.range().unwrap();
    let write = |observations: &[Evidence]| {
        let header = rig.session.header.clone();
        let mut w = Writer::replace(&recording, 3, &header).unwrap();
        for o in observations {
            w.write(o).unwrap();
        }
        w.bound(Bound::Until, end);
        w.finish().unwrap();
    };
    let add = |node: Option<&str>| {
        let (store, cluster) = (rig.store(), rig.cluster());
        let scratch = rig.path("scratch");
        let done = rig.run(add(&store, &cluster, &recording, node, &scratch));
        fs::remove_dir_all(&scratch).ok();
        done
    };
    // The recording grows: the first half, the whole, and the whole again.
    let all = &rig.session.observations;
    write(&all[..all.len() / 2]);
    add(None).unwrap();
    write(all);
    let done = add(None).unwrap();
    let objects = rig.objects();
    assert_eq!(add(None).unwrap(), done);
    assert_eq!(rig.objects(), objects);
    assert_eq!((done.segments, done.observations), (1, all.len() as u64));
    assert_eq!((done.begin, done.end, &*done.node), (begin, end, "node1"));
    let (mut back, told) = rig.fetched(&rig.want(), None);
    assert_eq!((told.holes, told.unreadable), (vec![], vec![]));
    sort_arrivals(&mut back.observations);
    assert_eq!(&back.observations, all);
    // Under another node's name, its pods would be on no node that has segments.
    assert!(matches!(
        add(Some("node2")),
        Err(AddError::OtherNode { .. })
    ));
    assert_eq!(rig.objects(), objects);
    // A recording that names no node gets the node that is given.
    let mut header = rig.session.header.clone();
    header.node = "".into();
    let mut w = Writer::replace(&recording, 3, &header).unwrap();
    w.write(&all[0]).unwrap();
    w.finish().unwrap();
    assert_eq!(&*add(Some("node2")).unwrap().node, "node2");
    assert!(matches!(add(Some("a/b")), Err(AddError::Name(_))));
    fs::write(&recording, "nothing").unwrap();
    assert!(matches!(add(None), Err(AddError::Session(_))));
}

/// Segments are cut by the recording's own time, state from before its begin is not part of that time, and a quiet
/// hour is covered.
#[test]
fn a_recording_that_is_added_is_cut_as_it_would_have_been() {
    let rig = Rig::new();
    let recording = rig.path("recording.kflow.zst");
    let (first, _) = rig.session.range().unwrap();
    let mut w = Writer::replace(&recording, 3, &rig.session.header).unwrap();
    let note = |seen: Nanos| Observation {
        stamp: Stamp::exact(seen),
        source: Source::Kflow,
        body: Body::Note(Box::new(Note { text: "x".into() })),
    };
    // A pod from ten hours before, then five minutes, an hour and a half of nothing, and a week of nothing.
    let pod = |o: &&Evidence| matches!(&o.body, Body::Pod(_));
    let pod = rig.session.observations.iter().find(pod).unwrap();
    w.write(&shifted(pod, -10)).unwrap();
    let begin = first.plus(HOUR);
    w.bound(Bound::From, begin);
    let seen = [0, MINUTE, 6 * MINUTE, 96 * MINUTE, 7 * DAY].map(|ns| begin.plus(ns));
    for at in seen {
        w.write(&note(at)).unwrap();
    }
    w.finish().unwrap();
    let (store, cluster) = (rig.store(), rig.cluster());
    let done = rig.run(add(
        &store,
        &cluster,
        &recording,
        None,
        &rig.path("scratch"),
    ));
    let done = done.unwrap();
    assert_eq!((done.begin, done.observations), (begin, 5));
    let all = rig.run(store.list(&cluster.segments())).unwrap();
    let all = all
        .iter()
        .filter_map(|o| Object::parse(&o.location, o.size));
    let mut all: Vec<Object> = all.collect();
    all.sort_by_key(|o| o.part.n);
    let told: Vec<_> = all
        .iter()
        .map(|o| {
            (
                o.begin.since(begin) / MINUTE,
                o.end.since(begin) / MINUTE,
                o.observations,
            )
        })
        .collect();
    let week = 7 * DAY / MINUTE;
    let want = [
        (0, 5, 2),
        (5, 10, 1),
        (10, 70, 0),
        (70, 100, 1),
        (week, week, 1),
    ];
    assert_eq!(told, want);
    // A request for the quiet time gets the state at that time.
    let quiet = Want {
        from: begin.plus(60 * MINUTE),
        to: begin.plus(65 * MINUTE),
        ..rig.want()
    };
    let (back, told) = rig.fetched(&quiet, None);
    assert_eq!(told.holes, []);
    assert!(
        back.observations
            .iter()
            .any(|o| matches!(o.body, Body::Pod(_)))
    );
}
