//! Servers that send what no apiserver sends, by mistake or on purpose. Each command says "unknown" within its time-out
//! and within a memory limit that the operating system enforces, and sends its token to no other host.

use super::api::{Act, Api, TOKEN, odd};
use super::each;
use super::live::{COMMANDS, drawn, recorded, run};

/// How long each command may look.
const FOR: Option<&str> = Some("300ms");

#[test]
fn what_answers_does_not_play_by_the_rules() {
    let other = Api::start(|_| Act::Serve);
    let port: u16 = other.address.rsplit(':').next().unwrap().parse().unwrap();
    let acts = [
        Act::Drip,
        Act::Pages { same: false },
        Act::Pages { same: true },
        Act::Packed,
        Act::Declared(1 << 40),
        Act::Header(1 << 20),
        Act::WantsTls { in_http: true },
        Act::WantsTls { in_http: false },
        Act::Loop,
        Act::Elsewhere(port),
        Act::Later(3600),
        Act::Later(u64::MAX),
        Act::OddFields,
    ];
    let mut servers: Vec<(String, Api)> = acts
        .map(|act| (format!("{act:?}"), Api::start(move |_| act)))
        .into();
    let plain = Api::start(|_| Act::Serve);
    let tls = Api::at(&plain.address.replace("http:", "https:"));
    servers.push(("plain HTTP for TLS".to_owned(), tls));
    // All output formats are tried with one server of which something could be read and one of which nothing could; the
    // tests in `live` try them with other failures.
    let every_form = |way: &str| way == "OddFields" || way == "Drip";
    let one_of_each = |name: &str| !matches!(name, "why owner" | "flow step" | "flow of all");
    let mut all = Vec::new();
    for (way, api) in &servers {
        all.push((way, api, None));
        let commands = COMMANDS.iter().filter(|(name, args)| {
            every_form(way)
                || *args == ["export", "-o", "json"]
                || !name.contains("json") && one_of_each(name)
        });
        all.extend(commands.map(|c| (way, api, Some(c))));
    }
    each(&all, |(way, api, command)| match command {
        None if every_form(way) => {
            recorded(way, api);
            drawn(way, api);
        }
        None => recorded(way, api),
        Some((name, args)) => run(api, args, FOR).is_unknown(&format!("{way}, {name}")),
    });
    let asked = other.asked.lock().unwrap();
    assert_eq!(asked.len(), 0, "redirects are not followed: {asked:?}");
    for (way, api) in &servers {
        let asked = api.asked.lock().unwrap();
        let with_token = |a: &super::api::Asked| a.authorization == format!("Bearer {TOKEN}");
        assert!(asked.iter().all(with_token), "{way}: {asked:?}");
    }
}

/// A command reads only a limited part of a body without end; a few commands are enough to show it.
#[test]
fn a_body_without_an_end_is_not_read_to_it() {
    let api = Api::start(|a| {
        if a.resource == "pods" {
            Act::Endless
        } else {
            Act::Serve
        }
    });
    for args in [&["why", "--all"][..], &["timeline"]] {
        let said = run(&api, args, None);
        said.is_unknown(&format!("endless body, {args:?}"));
        let why = "more than 32Mi for one object";
        assert!(said.err.contains(why), "{}", said.err);
    }
    recorded("endless body", &api);
}

#[test]
fn a_watch_whose_line_has_no_end_is_a_loss() {
    drawn("long line", &Api::start(|_| Act::LongLine));
}

#[test]
fn objects_that_are_none_are_counted() {
    let api = Api::start(|a| {
        if a.resource == "pods" {
            Act::OddFields
        } else {
            Act::Serve
        }
    });
    let said = run(&api, &["why", "shop/nobody"], None);
    said.is_unknown("odd fields");
    let why = format!("the list of pods was not read whole ({} lost)", odd().len());
    assert!(said.err.contains(&why), "{}", said.err);
}

/// Unreadable objects of one kind leave unknown only what depends on them, and the command says so.
#[test]
fn objects_of_another_kind_that_are_none_leave_pods_known() {
    for (resource, path) in [
        ("leases", "leases"),
        ("persistentvolumeclaims", "persistentvolumeclaims"),
        ("volumeattachments", "volumeattachments"),
        ("workloads", "workloads"),
        ("nodes", "nodes"),
    ] {
        let api = Api::start(move |a| {
            if a.resource == path {
                Act::OddFields
            } else {
                Act::Serve
            }
        });
        let told = format!("the list of {resource} was not read whole");
        for args in [
            &["why", "--all"][..],
            &["timeline"],
            &["export", "-o", "json"],
        ] {
            let said = run(&api, args, None);
            let all = format!("{}{}", said.out, said.err);
            assert_eq!(said.code, Some(0), "{resource}, {args:?}: {all}");
            assert!(
                said.err.contains(&told),
                "{resource}, {args:?}: {}",
                said.err
            );
        }
        // The node may be among the unreadable ones.
        let said = run(&api, &["why", "--all", "--node", "nobody"], None);
        if resource == "nodes" {
            assert!(said.err.contains(&told), "{}", said.err);
            assert!(!said.err.contains("has no node"), "{}", said.err);
        } else {
            said.is_unknown(&format!("{resource}, a node that there is not"));
            assert!(
                said.err.contains("the cluster has no node nobody"),
                "{}",
                said.err
            );
        }
    }
}

/// What no apiserver says of an add-on's group leaves unknown only what the add-on has, and the command says so.
#[test]
fn a_group_that_is_none_leaves_pods_known() {
    for (act, told) in [
        (Act::OtherJson, "something that is no group of an API"),
        (Act::Login, "answers with text/html"),
        (Act::Endless, "more than 32Mi for one group"),
        (Act::Refuse(403), "needs list and watch on nodeclaims"),
    ] {
        // One group, so that a body without an end is read once: a busy machine takes seconds for each.
        let api = Api::start(move |a| {
            if a.resource == "karpenter.sh" {
                act
            } else {
                Act::Serve
            }
        });
        let said = run(&api, &["why", "--all"], None);
        let all = format!("{act:?}: {}{}", said.out, said.err);
        assert_eq!(said.code, Some(0), "{all}");
        assert!(said.err.contains(told), "{all}");
    }
}

#[test]
fn a_long_header_alone_is_no_harm() {
    let api = Api::start(|_| Act::Header(65 << 10));
    let said = run(&api, &["why", "shop/web-0"], None);
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
}

#[test]
fn who_wants_to_be_left_alone_for_an_hour_is_asked_before() {
    let api = Api::start(|_| Act::Later(3600));
    // Long enough for one answer on a busy machine.
    let said = run(&api, &["why", "--all"], Some("3s"));
    let why = "429 Too Many Requests and wants to be left alone for 1h00m";
    assert!(said.err.contains(why), "{}", said.err);
}
