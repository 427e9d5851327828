//! Shell completion asks the cluster, but waits for it only briefly.

use super::api::{Act, Api};
use crate::complete::{SOON, quickest, quiet, told};

const KFLOW: &str = env!("CARGO_BIN_EXE_kflow");

fn asked(api: &Api, words: &[&str]) -> Vec<String> {
    let mut command = quiet(KFLOW);
    command.env("KUBECONFIG", api.kubeconfig());
    told(&mut command, words).0
}

/// Asks up to four times: a completion gives up after a fraction of a second, which a busy machine may need.
fn named(ask: impl Fn() -> Vec<String>) -> Vec<String> {
    let mut answers = std::iter::repeat_with(ask).take(4);
    let some = |names: &Vec<String>| !names.is_empty();
    answers.find(some).unwrap_or_default()
}

#[test]
fn names_come_from_the_cluster() {
    let api = Api::start(|_| Act::Serve);
    let kubeconfig = api.kubeconfig().display().to_string();
    // The context sets a namespace.
    let of = |words: &[&str]| named(|| asked(&api, words));
    assert_eq!(of(&["why", "w"]), ["web-0"]);
    assert_eq!(of(&["why", "-A", "s"]), ["shop/web-0"]);
    assert_eq!(of(&["why", "--context", "bare", "s"]), ["shop/web-0"]);
    assert_eq!(of(&["why", "-n", "else", ""]), [""; 0]);
    assert_eq!(of(&["calls", "--filter", "pod:w"]), ["pod:web-0"]);
    assert_eq!(of(&["tui", "--context", ""]), ["test", "bare"]);
    let by_flag = &["why", "--kubeconfig", &kubeconfig, "w"];
    let names = named(|| told(&mut quiet(KFLOW), by_flag).0);
    assert_eq!(names, ["web-0"]);
    let all = api.asked.lock().unwrap();
    assert!(
        all.iter()
            .all(|a| !a.watch && a.query == "resourceVersion=0"),
        "{all:?}"
    );
}

#[test]
fn a_cluster_that_does_not_answer_completes_nothing_in_time() {
    for act in [
        Act::Hang,
        Act::Drip,
        Act::Stall,
        Act::Endless,
        Act::Close,
        Act::OtherJson,
        Act::Login,
        Act::Refuse(403),
        Act::Later(3600),
    ] {
        let api = Api::start(move |_| act);
        let took = quickest(|| assert_eq!(asked(&api, &["why", "w"]), [""; 0], "{act:?}"));
        assert!(took < SOON, "{act:?}: {took:?}");
    }
    assert_eq!(asked(&Api::nobody(), &["why", "w"]), [""; 0]);
}
