//! Shell completion asks the cluster, but waits for it only briefly.

use super::api::{Act, Api};
use crate::complete::{SOON, quickest, quiet, told};

const KFLOW: &str = env!("CARGO_BIN_EXE_kflow");

fn asked(api: &Api, words: &[&str]) -> Vec<String> {
    let mut command = quiet(KFLOW);
    command.env("KUBECONFIG", api.kubeconfig());
    told(&mut command, words).0
}

#[test]
fn names_come_from_the_cluster() {
    let api = Api::start(|_| Act::Serve);
    let kubeconfig = api.kubeconfig().display().to_string();
    // The context sets a namespace.
    assert_eq!(asked(&api, &["why", "w"]), ["web-0"]);
    assert_eq!(asked(&api, &["why", "-A", "s"]), ["shop/web-0"]);
    assert_eq!(
        asked(&api, &["why", "--context", "bare", "s"]),
        ["shop/web-0"]
    );
    assert_eq!(asked(&api, &["why", "-n", "else", ""]), [""; 0]);
    assert_eq!(asked(&api, &["calls", "--filter", "pod:w"]), ["pod:web-0"]);
    assert_eq!(asked(&api, &["tui", "--context", ""]), ["test", "bare"]);
    let named = &["why", "--kubeconfig", &kubeconfig, "w"];
    assert_eq!(told(&mut quiet(KFLOW), named).0, ["web-0"]);
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
