//! Every command that takes a pod also takes an owner of pods, in the same way, and reports an owner without pods in
//! the same words.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::fixture;
use crate::program::{Said, commands, kflow};

/// Placeholder in [`Ask::args`] for the pod or owner.
pub(crate) const WHO: &str = "WHO";

/// A command line that asks for pods.
pub(crate) struct Ask {
    pub(crate) args: &'static [&'static str],
    /// Returns the pods that one row of the output is about; unused with `-o name`.
    pods: fn(&Value) -> Vec<String>,
    /// Whether the command also answers for the owner itself: it then succeeds for an owner that has no pods.
    pub(crate) of_owner: bool,
}

fn key(row: &Value) -> Vec<String> {
    let text = |k: &str| row[k].as_str().unwrap().to_owned();
    vec![format!("{}/{}", text("namespace"), text("name"))]
}

fn listed(story: &Value) -> Vec<String> {
    let pods = story["pods"].as_array().unwrap().iter();
    pods.map(|p| p.as_str().unwrap().to_owned()).collect()
}

pub(crate) fn pod(row: &Value) -> Vec<String> {
    vec![row["pod"].as_str().unwrap().to_owned()]
}

fn whose(row: &Value) -> Vec<String> {
    let text = |k: &str| row[k].as_str().unwrap().to_owned();
    vec![format!("{}/{}", text("namespace"), text("pod"))]
}

pub(crate) const fn ask(args: &'static [&'static str], pods: fn(&Value) -> Vec<String>) -> Ask {
    Ask {
        args,
        pods,
        of_owner: false,
    }
}

pub(crate) const ASKS: [Ask; 8] = [
    Ask {
        of_owner: true,
        ..ask(&["why", WHO, "-o", "json"], whose)
    },
    Ask {
        of_owner: true,
        ..ask(&["timeline", WHO, "-o", "json"], listed)
    },
    ask(&["timeline", "--critical", WHO, "-o", "json"], key),
    ask(&["calls", "--pod", WHO, "-o", "name"], pod),
    ask(&["requests", "--pod", WHO, "-o", "name"], pod),
    ask(&["flow", WHO, "-o", "json"], pod),
    ask(&["flow", "runtime-sync", WHO, "-o", "json"], pod),
    ask(&["export", WHO, "-o", "json"], key),
];

impl Ask {
    pub(crate) fn of<'a>(&self, who: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let args = self.args.iter().map(|a| if *a == WHO { who } else { a });
        args.chain(more.iter().copied()).collect()
    }
    /// Returns the pods in the command's output, as `namespace/name`.
    fn pods(&self, out: &str) -> BTreeSet<String> {
        if self.args.contains(&"name") {
            let lines = out.lines().map(|l| l.trim_start_matches("pod/"));
            return lines.map(str::to_owned).collect();
        }
        let rows: Vec<Value> = serde_json::from_str(out).expect(out);
        rows.iter().flat_map(self.pods).collect()
    }
}

pub(crate) fn says_no_more_than(said: &Said, sentence: &str, case: &str) {
    assert_eq!(said.err, format!("kflow: {sentence}\n"), "{case}");
}

/// The commands whose help says that they take a pod are those of [`ASKS`], and all say it in the same words. `record`
/// is left out: it takes pods that do not exist yet.
#[test]
fn every_command_that_takes_a_pod_is_asked() {
    let mut takes = BTreeSet::new();
    for command in commands() {
        let help = kflow([command.as_str(), "--help"]).out;
        let is_asked = ["[POD]", "--pod <POD>"].iter().any(|w| help.contains(w));
        if is_asked {
            let text = crate::one_line(&help);
            let named = "ns/name, name or UID; or of what has pods: KIND/name, ns/KIND/name (deploy, rs, sts, ds, job, cj, rc, pvc), node/name";
            assert!(text.contains(named), "{command}: {text}");
            takes.insert(command);
        }
    }
    let mut asked: BTreeSet<String> = ASKS.iter().map(|a| a.args[0].to_owned()).collect();
    asked.insert("record".to_owned());
    assert_eq!(takes, asked);
}

/// Runs on a recording that has other pods as well.
#[test]
fn an_owner_is_its_pods_to_every_command() {
    let session = fixture("sessions/S1-basics.kflow.zst");
    let session = session.to_str().unwrap();
    let of_it: BTreeSet<String> = {
        let said = kflow(["timeline", "-o", "json", "-s", session]);
        let rows: Vec<Value> = serde_json::from_str(&said.out).unwrap();
        assert!(rows.len() > 5, "{}", rows.len());
        let its = |r: &&Value| {
            let owners = r["owners"].as_array().unwrap();
            r["namespace"] == "s36" && owners.iter().any(|o| o["kind"] == "Job")
        };
        rows.iter().filter(its).flat_map(key).collect()
    };
    assert_eq!(of_it.len(), 2);
    // At a moment when both pods existed and one of them was not healthy yet.
    for ask in &ASKS {
        for (who, more) in [("s36/job/job", &[][..]), ("job/job", &["-n", "s36"])] {
            let args = ask.of(who, &[more, &["-s", session]].concat());
            let said = kflow(&args);
            if ask.args[0] == "why" {
                // The pods are gone by the end of the recording: nothing is wrong with the Job.
                assert_eq!(said.code, Some(0), "{args:?} {}", said.err);
                continue;
            }
            assert_eq!(said.code, Some(0), "{args:?} {}", said.err);
            let pods = ask.pods(&said.out);
            let names: BTreeSet<&str> = of_it.iter().map(|k| &k[4..]).collect();
            let got: BTreeSet<&str> = pods.iter().map(|k| k.trim_start_matches("s36/")).collect();
            assert_eq!(got, names, "{args:?}");
        }
    }
    // A node stands for its pods in the same way.
    let said = kflow(["calls", "--pod", "node/node1", "-o", "name", "-s", session]);
    assert!(said.out.lines().count() > of_it.len(), "{}", said.err);
}

/// Asks for a Deployment that cannot create pods, and for one that may not exist.
#[test]
fn of_an_owner_without_pods_every_command_says_the_same() {
    let session = fixture("sessions/S2-stuck-early.kflow.zst");
    let session = session.to_str().unwrap();
    for ask in &ASKS {
        let args = ask.of("deploy/quota", &["-n", "s29", "-s", session]);
        let said = kflow(&args);
        let case = format!("{args:?}");
        if ask.args[0] == "why" {
            // The Deployment was deleted before the recording ends, so its trouble is over.
            assert_eq!((said.code, said.out.trim()), (Some(0), "[]"), "{case}");
            continue;
        }
        says_no_more_than(&said, "deploy/quota in namespace s29 has no pods", &case);
        let code = if ask.of_owner { 0 } else { 3 };
        assert_eq!(said.code, Some(code), "{case}");
        assert_eq!(said.out.is_empty(), !ask.of_owner, "{case}");
        // Whether this Deployment exists is unknown: the recording has no list of Deployments.
        let args = ask.of("deploy/quotas", &["-n", "s29", "-s", session]);
        let said = kflow(&args);
        assert_eq!(said.code, Some(2), "{args:?} {}", said.err);
        let begin = "kflow: whether there is deploy/quotas";
        assert!(said.err.contains(&begin[7..]), "{args:?} {}", said.err);
    }
}

#[test]
fn a_picture_of_an_owner_names_its_pods() {
    let session = fixture("sessions/S5-burst.kflow.zst");
    let session = session.to_str().unwrap();
    for form in ["svg", "mermaid", "plantuml"] {
        let said = kflow(["export", "s19/deploy/burst", "-o", form, "-s", session]);
        assert_eq!(said.code, Some(2), "{}", said.err);
        let (_, names) = said
            .err
            .split_once("s19/deploy/burst has 40: name one, as ")
            .unwrap();
        let (first, _) = names.split_once(',').unwrap();
        assert!(names.trim_end().ends_with(" and 35 more"), "{names}");
        let one = kflow(["export", first, "-o", form, "-s", session]);
        assert_eq!(one.code, Some(0), "{}", one.err);
        assert!(!one.out.is_empty());
    }
}
