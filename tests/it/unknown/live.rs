//! An apiserver that cannot be read.

use super::api::{Act, Api, Asked};
use super::{Said, WELL, banners, each, kflow};
use crate::proxy::rig::eventually;
use kflow_engine::live::{Config, Live};
use kflow_model::Scope;
use kflow_tui::banner::{Reason, Weight, reasons};

/// The commands to try on each server. The output of those with `json` in their name is for programs.
pub(super) const COMMANDS: [(&str, &[&str]); 20] = [
    ("why", &["why", "shop/web-0"]),
    ("why json", &["why", "shop/web-0", "-o", "json"]),
    ("why nobody", &["why", "shop/nobody"]),
    ("why owner", &["why", "deploy/web", "-n", "shop"]),
    ("why --all", &["why", "--all"]),
    ("why --all json", &["why", "--all", "-o", "json"]),
    ("timeline", &["timeline"]),
    ("timeline json", &["timeline", "shop/web-0", "-o", "json"]),
    ("calls", &["calls"]),
    (
        "calls json",
        &["calls", "--pod", "shop/web-0", "-o", "json"],
    ),
    ("requests", &["requests"]),
    (
        "requests json",
        &["requests", "--pod", "shop/web-0", "-o", "json"],
    ),
    ("flow", &["flow", "shop/web-0"]),
    (
        "flow step",
        &["flow", "volume-manager", "shop/web-0", "--all"],
    ),
    ("flow json", &["flow", "shop/web-0", "-o", "json"]),
    ("flow of all", &["flow", "-A"]),
    ("export json", &["export", "-o", "json"]),
    ("stats", &["stats"]),
    ("stats json", &["stats", "--by", "node", "-o", "json"]),
    ("doctor", &["doctor"]),
];

pub(super) fn run(api: &Api, args: &[&str], wait: Option<&str>) -> Said {
    let kubeconfig = api.kubeconfig();
    let mut all = args.to_vec();
    all.extend(["--kubeconfig", kubeconfig.to_str().unwrap()]);
    if let Some(time) = wait.filter(|_| !matches!(args[0], "doctor" | "record")) {
        all.extend(["--for", time]);
    }
    kflow(&all)
}

/// Runs every command, `record` and the terminal on a server.
fn table(way: &str, api: &Api, wait: Option<&str>) {
    std::thread::scope(|scope| {
        scope.spawn(|| recorded(way, api));
        scope.spawn(|| drawn(way, api));
        each(&COMMANDS, |(name, args)| {
            run(api, args, wait).is_unknown(&format!("{way}, {name}"));
        });
    });
}

/// A recording reports the problem while it is made, and leaves the same unknown when it is read.
pub(super) fn recorded(way: &str, api: &Api) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.kflow").display().to_string();
    let said = run(api, &["record", "-O", &file, "--for", "1s"], None);
    said.is_unknown(&format!("{way}, record"));
    let read = kflow(&["why", "--all", "-s", &file]);
    read.is_unknown(&format!("{way}, why of the recording"));
}

/// The terminal reports the problem above every pane.
pub(super) fn drawn(way: &str, api: &Api) {
    drawn_of(way, api, Scope::default());
}

fn drawn_of(way: &str, api: &Api, scope: Scope) {
    let live = Live::start(Config {
        scope: Some(scope),
        kubeconfig: Some(api.kubeconfig()),
        ..Config::nothing()
    })
    .unwrap();
    let snap = eventually("the terminal says that something is not known", || {
        let snap = live.snapshot();
        let unknown = |r: &Reason| r.weight == Weight::Unknown;
        reasons(&snap).iter().any(unknown).then_some(snap)
    });
    // When owners cannot be read, what panes say about existing pods still holds.
    let claims = if way == "no jobs" { &WELL[..2] } else { &WELL };
    // A loss has a moment; every other reason lasts.
    let lasts = reasons(&snap).first().is_some_and(|r| r.since.is_some());
    for (pane, banner) in banners(way, &snap, claims) {
        let told = if lasts { " for " } else { " lost" };
        assert!(banner.contains(told), "{way}, {pane:?}: {banner}");
    }
}

#[test]
fn an_apiserver_that_is_not_there() {
    table("refused", &Api::nobody(), None);
    table("no such host", &Api::at("http://kflow.invalid:6443"), None);
}

#[test]
fn an_apiserver_that_does_not_answer() {
    table("hangs", &Api::start(|_| Act::Hang), Some("1s"));
    table("stalls", &Api::start(|_| Act::Stall), Some("1s"));
}

#[test]
fn an_apiserver_that_refuses() {
    for code in [401, 403, 404, 500, 503] {
        table(
            &code.to_string(),
            &Api::start(move |_| Act::Refuse(code)),
            None,
        );
    }
    // These status codes make the client try again.
    for code in [410, 429] {
        table(
            &code.to_string(),
            &Api::start(move |_| Act::Refuse(code)),
            Some("1s"),
        );
    }
}

#[test]
fn what_is_no_apiserver() {
    table("login page", &Api::start(|_| Act::Login), None);
    table("redirect", &Api::start(|_| Act::Redirect), None);
    table("other JSON", &Api::start(|_| Act::OtherJson), None);
    // A connection that breaks off may hold the next time.
    table("half a body", &Api::start(|_| Act::Half), Some("1s"));
    table("closed", &Api::start(|_| Act::Close), Some("1s"));
}

/// A list with an object that cannot be read is no evidence that another object does not exist.
#[test]
fn a_list_that_is_not_read_whole() {
    let api = Api::start(|a| {
        if a.resource == "pods" {
            Act::OddItem
        } else {
            Act::Serve
        }
    });
    let why = "the list of pods was not read whole (1 lost)";
    let said = run(&api, &["why", "shop/nobody"], Some("1s"));
    assert!(said.err.contains(why), "{}", said.err);
    table("odd item", &api, Some("1s"));
}

#[test]
fn a_right_that_is_missing() {
    table(
        "no pods",
        &Api::start(|a| {
            if a.resource == "pods" {
                Act::Refuse(403)
            } else {
                Act::Serve
            }
        }),
        None,
    );
    // Without Events it is unknown whether anything failed, and without owners whether one of them cannot create pods.
    let no_events = Api::start(|a| {
        if a.resource == "events" {
            Act::Refuse(403)
        } else {
            Act::Serve
        }
    });
    for args in [&["why", "shop/web-0"][..], &["why", "--all"]] {
        run(&no_events, args, None).is_unknown("no events");
    }
    drawn("no events", &no_events);
    let no_owners = Api::start(|a| {
        if a.resource == "jobs" {
            Act::Refuse(403)
        } else {
            Act::Serve
        }
    });
    run(&no_owners, &["why", "--all"], None).is_unknown("no jobs");
    drawn("no jobs", &no_owners);
    // More kinds than fit on a narrow line.
    let no_owner_at_all = Api::start(|a| {
        if matches!(a.resource.as_str(), "daemonsets" | "jobs" | "statefulsets") {
            Act::Refuse(403)
        } else {
            Act::Serve
        }
    });
    drawn("no jobs", &no_owner_at_all);
    let elsewhere = Api::start(|a| {
        if a.namespace.as_deref() == Some("shop") {
            Act::Serve
        } else {
            Act::Refuse(403)
        }
    });
    run(&elsewhere, &["why", "bank/web-0"], None).is_unknown("no right in bank");
    run(&elsewhere, &["why", "--all", "-A"], None).is_unknown("no right in the cluster");
    drawn("no right in the cluster", &elsewhere);
    let bank = Scope {
        namespace: Some("bank".to_owned()),
        ..Scope::default()
    };
    drawn_of("no right in bank", &elsewhere, bank);
}

#[test]
fn one_apiserver_that_is_away_is_one_sentence() {
    let api = Api::nobody();
    let said = run(&api, &["why", "--all"], None);
    let times = said.err.matches(api.address.as_str()).count();
    assert!(said.err.lines().count() <= 2 && times <= 2, "{}", said.err);
    let forbidden = Api::start(|_| Act::Refuse(403));
    let said = run(&forbidden, &["why", "-A"], None);
    // What is missing in the cluster and in the namespaces of leases shares one line; the other line is the answer.
    assert!(said.err.lines().count() <= 2, "{}", said.err);
    assert!(
        said.err
            .contains("in the whole cluster, and leases in namespace kube-"),
        "{}",
        said.err
    );
    assert!(
        said.err.contains("needs list and watch on pods, events"),
        "{}",
        said.err
    );
}

/// The stand-in when it answers correctly. Without this the tests above would also pass for a program
/// that never knows anything.
#[test]
fn an_apiserver_that_can_be_read_is_believed() {
    let api = Api::start(|_| Act::Serve);
    let live = Live::start(Config {
        scope: Some(Scope::default()),
        kubeconfig: Some(api.kubeconfig()),
        ..Config::nothing()
    })
    .unwrap();
    let snap = eventually("the pods are listed", || {
        let snap = live.snapshot();
        kflow_core::diagnose::unknown::every(snap.asked())
            .is_none()
            .then_some(snap)
    });
    assert_eq!(reasons(&snap), []);
    drop(live);
    let said = run(&api, &["why", "shop/web-0"], None);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("well"), "{}", said.out);
    let said = run(&api, &["why", "--all", "-n", "shop"], None);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(said.out.contains("1 pod in namespace shop"), "{}", said.out);
    let said = run(&api, &["why", "shop/nobody"], None);
    assert_eq!(said.code, Some(3), "{}{}", said.out, said.err);
    for args in [
        &["timeline", "shop/web-0"][..],
        &["flow", "shop/web-0", "--all"],
        &["flow", "volume-manager", "shop/web-0"],
        &["flow", "-n", "shop"],
    ] {
        let said = run(&api, args, None);
        assert_eq!(said.code, Some(0), "{args:?} {}{}", said.out, said.err);
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("run.kflow").display().to_string();
    let said = run(&api, &["record", "-O", &file, "--for", "1s"], None);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    let said = kflow(&["why", "shop/web-0", "-s", &file]);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert!(
        api.asked
            .lock()
            .unwrap()
            .iter()
            .all(|a| a.agent == concat!("kflow/", env!("CARGO_PKG_VERSION")))
    );
}

/// Returns the lists of pods that were requested, without those of kflow's agents: namespace, and
/// the selectors as sent.
fn lists(api: &Api) -> Vec<(Option<String>, String)> {
    let asked = api.asked.lock().unwrap();
    asked
        .iter()
        .filter(|a| a.resource == "pods" && !a.watch && !a.query.contains("kflow-agent"))
        .map(|a| {
            let selectors = a.query.split('&').filter(|q| q.contains("Selector="));
            (a.namespace.clone(), selectors.collect::<Vec<_>>().join("&"))
        })
        .collect()
}

#[test]
fn no_more_is_asked_for_than_is_looked_at() {
    let shop = Some("shop".to_owned());
    for (args, namespace, selectors) in [
        // The kubeconfig's context sets the namespace.
        (&["why", "--all"][..], shop.clone(), ""),
        (&["why", "web-0"], shop.clone(), ""),
        (&["timeline"], shop.clone(), ""),
        (&["why", "-A"], None, ""),
        (&["why", "--all", "--context", "bare"], None, ""),
        // The pod's name sets the namespace.
        (
            &["why", "shop/web-0", "--context", "bare"],
            shop.clone(),
            "",
        ),
        // What holds the pod up may be of another namespace.
        (&["timeline", "shop/web-0", "-A"], None, ""),
        (&["why", "shop/web-0", "-A"], None, ""),
        (
            &["calls", "--pod", "shop/web-0", "--context", "bare"],
            shop.clone(),
            "",
        ),
        (
            &["requests", "--pod", "shop/web-0", "--context", "bare"],
            shop.clone(),
            "",
        ),
        (
            &["export", "-o", "json", "shop/web-0", "--context", "bare"],
            shop,
            "",
        ),
        (&["why", "--all", "-n", "bank"], Some("bank".to_owned()), ""),
        (
            &[
                "why",
                "-A",
                "-l",
                "app=web,!canary",
                "--field-selector",
                "status.phase!=Failed",
            ],
            None,
            "fieldSelector=status.phase%21%3DFailed&labelSelector=app%3Dweb%2C%21canary",
        ),
    ] {
        let api = Api::start(|_| Act::Serve);
        let said = run(&api, args, None);
        let asked = lists(&api);
        assert!(!asked.is_empty(), "{args:?}: {}", said.err);
        for got in asked {
            assert_eq!(got, (namespace.clone(), selectors.to_owned()), "{args:?}");
        }
    }
}

/// True for the question whether a cluster has an add-on, which each user may ask (the role `system:discovery`).
fn is_discovery(a: &Asked) -> bool {
    a.resource.contains('.')
}

#[test]
fn a_cluster_without_add_ons_is_known_at_once() {
    let api = Api::start(|a| {
        if is_discovery(a) {
            Act::Refuse(404)
        } else {
            Act::Serve
        }
    });
    let begun = kflow_model::clock::monotonic();
    let said = run(&api, &["why", "--all"], None);
    let took = begun.elapsed();
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    assert_eq!(said.err, "");
    assert!(took < MOST, "{took:?}");
    let asked = api.asked.lock().unwrap();
    let mut groups: Vec<&str> = asked
        .iter()
        .filter(|a| is_discovery(a))
        .map(|a| a.resource.as_str())
        .collect();
    groups.sort_unstable();
    let each = [
        "jobset.x-k8s.io",
        "karpenter.sh",
        "kueue.x-k8s.io",
        "scheduling.volcano.sh",
        "scheduling.x-k8s.io",
    ];
    assert_eq!(groups, each, "each is asked for once");
}

/// How long a look waits for lists that do not come (`MOST` in `src/cli/collect.rs`).
const MOST: std::time::Duration = std::time::Duration::from_secs(15);

#[test]
fn the_doctor_asks_for_rights_on_the_add_ons_that_there_are() {
    for there in [false, true] {
        let api = Api::start(move |a| {
            if is_discovery(a) && !there {
                Act::Refuse(404)
            } else if matches!(a.resource.as_str(), "workloads" | "volumeattachments") {
                Act::Refuse(403)
            } else {
                Act::Serve
            }
        });
        let said = run(&api, &["doctor"], None);
        assert!(
            said.out.contains("volumeattachments: may not list, watch"),
            "{}",
            said.out
        );
        for (resource, group) in [
            ("workloads: may not list, watch", "workloads.kueue.x-k8s.io"),
            ("nodeclaims: ", ""),
            ("podgroups: ", ""),
        ] {
            let told = said.out.contains(resource) && said.out.contains(group);
            assert_eq!(told, there, "{resource}: {}", said.out);
        }
    }
    let silent = Api::start(|a| {
        if is_discovery(a) {
            Act::Refuse(403)
        } else {
            Act::Serve
        }
    });
    let said = run(&silent, &["doctor"], None);
    for words in [
        "nodeclaims: may not get /apis/karpenter.sh",
        "--clusterrole=system:discovery",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
}

#[test]
fn who_may_read_one_namespace_can_use_kflow_in_it() {
    let api = Api::start(|a| {
        if a.namespace.as_deref() == Some("shop") || is_discovery(a) {
            Act::Serve
        } else {
            Act::Refuse(403)
        }
    });
    for args in [
        &["why", "shop/web-0"][..],
        &["why", "web-0"],
        &["why", "--all"],
        &["why", "-n", "shop"],
        &["timeline"],
        &["export", "-o", "json", "web-0"],
    ] {
        let said = run(&api, args, None);
        assert_eq!(said.code, Some(0), "{args:?}: {}{}", said.out, said.err);
        // What has no namespace is not read, in one sentence.
        let told = "forbidden: needs list and watch on nodes, namespaces and 4 more in the whole cluster, and leases in namespace kube-";
        let lines: Vec<&str> = said
            .err
            .lines()
            .filter(|l| l.contains("list and watch"))
            .collect();
        assert!(
            matches!(lines[..], [one] if one.contains(told)),
            "{args:?}: {}",
            said.err
        );
    }
    // Of a node the pods of all namespaces are asked for, which is refused; the namespace is known.
    let said = |args: &[&str]| run(&api, &[args, &["--node", "played"]].concat(), None);
    for args in [
        &["why", "shop/web-0"][..],
        &["why", "web-0"],
        &["timeline", "shop/web-0"],
    ] {
        let said = said(args);
        assert_eq!(said.code, Some(0), "{args:?}: {}{}", said.out, said.err);
        let told = "shop is the namespace that is looked at, as with -n shop: the pods of all namespaces may not be listed";
        assert_eq!(said.err.matches(told).count(), 1, "{args:?}: {}", said.err);
        assert!(
            !said.err.contains("watch on pods"),
            "{args:?}: {}",
            said.err
        );
    }
    // Who asks for all of them is told what is missing.
    let said = said(&["why", "web-0", "-A"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("list and watch on pods"), "{}", said.err);
}
