//! Finds steps by the names that people know: today's names, those of other versions, and misspelt ones.

use super::map::Map;
use super::step::{StepId, bare};
use crate::suggest::suggest;
use kflow_model::Text;

impl Map {
    /// Returns every step with this name: by id, by a function of today, by a name of another version; best match
    /// first. Without an exact match, case is ignored and a method is found without its receiver.
    pub fn named(&self, name: &str) -> Vec<StepId> {
        if let Some((id, _)) = self.step(&name.to_ascii_lowercase()) {
            return vec![id];
        }
        let by = |same: &dyn Fn(&str) -> bool| {
            let mut found: Vec<(u8, StepId)> = Vec::new();
            for (n, s) in self.steps().iter().enumerate() {
                let rank = if same(&s.function) {
                    0
                } else if s.also.iter().chain(&s.timeline).any(|f| same(f)) {
                    1
                } else if s.was.iter().any(|w| same(bare(w))) {
                    2
                } else {
                    continue;
                };
                found.push((rank, StepId(n as u16)));
            }
            found.sort_unstable();
            found.into_iter().map(|(_, id)| id).collect::<Vec<_>>()
        };
        let exact = by(&|f| f == name);
        if exact.is_empty() {
            by(&|f| f.eq_ignore_ascii_case(name) || f.rsplit('.').next() == Some(name))
        } else {
            exact
        }
    }

    /// Returns the steps whose labels contain these words, in order.
    pub fn labelled(&self, words: &str) -> Vec<StepId> {
        let words = words.to_lowercase();
        let steps = self.steps().iter().enumerate();
        let found = steps.filter(|(_, s)| {
            let label = s.label.to_lowercase();
            let mut parts = label.match_indices(&words).map(|(at, m)| {
                let before = label.get(..at).and_then(|l| l.chars().next_back());
                let after = label.get(at + m.len()..).and_then(|l| l.chars().next());
                before.is_none_or(|c| !c.is_alphanumeric())
                    && after.is_none_or(|c| !c.is_alphanumeric())
            });
            !words.is_empty() && parts.any(|whole| whole)
        });
        found.map(|(n, _)| StepId(n as u16)).collect()
    }

    /// Returns names of flows, steps and functions, and words of the glossary, that are spelt nearly like `name`, the
    /// nearest first.
    pub fn near(&self, name: &str) -> Vec<&str> {
        let names = self.flows().iter().map(|f| f.name.as_str()).chain(
            self.steps()
                .iter()
                .flat_map(|s| {
                    std::iter::once(&s.function)
                        .chain(&s.also)
                        .chain(&s.timeline)
                })
                .map(Text::as_str),
        );
        let words = super::glossary::words().iter().map(|w| w.name.as_str());
        suggest(name, names.chain(words), |n| n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(name: &str) -> Vec<&'static str> {
        let map = Map::embedded();
        let all = map.named(name);
        all.iter()
            .filter_map(|id| Some(map.get(*id)?.id.as_str()))
            .collect()
    }

    #[test]
    fn whole_words_of_labels_lead_to_steps() {
        let map = Map::embedded();
        for (words, want) in [
            ("cni add", vec!["f04", "m07"]),
            ("cni ad", vec![]),
            ("", vec![]),
        ] {
            let ids = map.labelled(words);
            let ids: Vec<&str> = ids
                .iter()
                .filter_map(|i| Some(map.get(*i)?.id.as_str()))
                .collect();
            assert_eq!(ids, want, "{words}");
        }
    }

    #[test]
    fn a_name_leads_to_every_step_that_bears_or_bore_it() {
        for (name, want) in [
            ("e10", vec!["e10"]),
            ("E10", vec!["e10"]),
            // Today's function of the status manager, and the former name of SyncPod.
            ("syncPod", vec!["g06", "c09"]),
            ("dispatchWork", vec!["c06"]),
            ("canAdmitPod", vec!["c03"]),
            ("managePodLoop", vec!["c07"]),
            ("podKiller", vec!["h05"]),
            ("InstallLegacyAPI", vec!["i07"]),
            ("PodResourcesAreReclaimed", vec!["h18"]),
            ("scheduleone", vec!["k05"]),
            ("noSuchFunction", vec![]),
        ] {
            assert_eq!(ids(name), want, "{name}");
        }
    }

    #[test]
    fn what_is_misspelt_is_nearly_found() {
        let map = Map::embedded();
        for (name, want) in [
            ("HandlePodAditions", "HandlePodAdditions"),
            ("RunPodSanbox", "RunPodSandbox"),
            ("kubelet-start", "kubelet-startup"),
            ("Sandbox", "RunPodSandbox"),
        ] {
            assert!(
                map.near(name).contains(&want),
                "{name}: {:?}",
                map.near(name)
            );
        }
        assert!(map.near("x").is_empty() && map.near("").is_empty());
    }
}
