use crate::correlate::derive::Build;
use crate::correlate::derive::span::edge;
use crate::flow::{Fact, Stage};
use crate::timeline::{Certainty, Span};
use kflow_model::fs::{FsAction, FsObject};
use kflow_model::{Evidence, Text};

/// Adds each volume's teardown, from the log, else from the removal of its directory.
pub(super) fn unmounts(b: &mut Build<'_>) {
    let f = b.seen;
    let mut begun: Vec<(Text, Evidence)> = Vec::new();
    let mut by_log = false;
    for (o, l) in f.lines(&[Fact::UnmountStarted, Fact::VolumeTornDown]) {
        let Some(name) = l.name("volume") else {
            continue;
        };
        // These lines have the unique name, `kubernetes.io/configmap/<uid>-cfg`; the pod's name of the volume follows
        // the UID. A driver's unique name does not have it; the inner name is then the PersistentVolume's.
        let name = name
            .split_once(b.input.uid.as_str())
            .and_then(|(_, rest)| rest.strip_prefix('-'))
            .or_else(|| l.name("outer"))
            .or_else(|| l.name("inner"))
            .unwrap_or(name);
        by_log = true;
        if l.fact() == Fact::UnmountStarted {
            if !begun.iter().any(|(n, _)| n == name) {
                begun.push((name.into(), o.clone()));
            }
            continue;
        }
        let start = begun
            .iter()
            .position(|(n, _)| n == name)
            .map(|i| begun.swap_remove(i).1);
        let mut evidence = vec![o.clone()];
        let from = start.as_ref().map_or_else(|| edge(o), edge);
        let certainty = if start.is_some() {
            Certainty::Measured
        } else {
            Certainty::Inferred
        };
        evidence.extend(start);
        let mut s = Span::new(
            Stage::Terminate,
            "UnmountVolume.TearDown",
            from.min(edge(o)),
            Some(edge(o)),
            certainty,
            evidence,
        );
        s.message = format!("volume {name}").into();
        b.add(s);
    }
    for (name, o) in begun {
        let mut s = Span::new(
            Stage::Terminate,
            "UnmountVolume.TearDown",
            edge(&o),
            None,
            Certainty::Inferred,
            vec![o.clone()],
        );
        s.message = format!("volume {name}").into();
        b.add(s);
    }
    if by_log {
        return;
    }
    for (o, a, x) in &f.fs {
        if *a == FsAction::Removed
            && let FsObject::Volume { volume, inner, .. } = x
            && !volume.is_empty()
            && inner.is_empty()
        {
            let mut s = Span::new(
                Stage::Terminate,
                "UnmountVolume.TearDown",
                edge(o),
                Some(edge(o)),
                Certainty::Inferred,
                vec![(*o).clone()],
            );
            s.message = format!("volume {volume}").into();
            b.add(s);
        }
    }
}
