//! Each volume's teardown.

use crate::correlate::derive::Build;
use crate::correlate::derive::span::{edge, step};
use crate::correlate::derive::volumes::{Said, said, volume_of};
use crate::flow::Stage;
use crate::timeline::Certainty;
use kflow_model::fs::{FsAction, FsObject};
use kflow_model::{Evidence, Text};

/// Each volume's teardown.
pub(super) fn unmounts(b: &mut Build<'_>) {
    let f = b.facts;
    let mut begun: Vec<(Text, Evidence)> = Vec::new();
    let mut by_log = false;
    for (o, l) in &f.logs {
        let Some(what) = said(l) else { continue };
        let name = match what {
            Said::UnmountStarted => volume_of(&l.message),
            Said::TornDown => volume_of(&l.message),
            _ => None,
        };
        let Some(name) = name else { continue };
        // These lines bear the unique name, `kubernetes.io/configmap/<uid>-cfg`; the pod's own follows the UID.
        let name = name
            .split_once(b.input.uid.as_str())
            .and_then(|(_, rest)| rest.strip_prefix('-'))
            .or_else(|| inner_name(&l.message))
            .unwrap_or(name);
        by_log = true;
        if what == Said::UnmountStarted {
            if !begun.iter().any(|(n, _)| n == name) {
                begun.push((name.into(), (*o).clone()));
            }
            continue;
        }
        let start = begun
            .iter()
            .position(|(n, _)| n == name)
            .map(|i| begun.swap_remove(i).1);
        let mut evidence = vec![(*o).clone()];
        let from = start.as_ref().map_or_else(|| edge(o), edge);
        let certainty = if start.is_some() {
            Certainty::Measured
        } else {
            Certainty::Inferred
        };
        evidence.extend(start);
        let mut s = step(
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
        let mut s = step(
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
            let mut s = step(
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

fn inner_name(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("InnerVolumeSpecName \"")?;
    rest.split_once('"').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inner_name_of_a_torn_down_volume_is_the_pods() {
        assert_eq!(
            inner_name(
                "UnmountVolume.TearDown succeeded for volume \"kubernetes.io/empty-dir/4ac3c3e9-1ad8-496b-869a-7687fcb13acf-mem\" pod \"4ac3c3e9-1ad8-496b-869a-7687fcb13acf\" (UID: \"4ac3c3e9-1ad8-496b-869a-7687fcb13acf\"). InnerVolumeSpecName \"mem\". PluginName \"kubernetes.io/empty-dir\", VolumeGIDValue \"\""
            ),
            Some("mem")
        );
    }
}
