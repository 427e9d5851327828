use super::*;
use kflow_model::gap::Gap;
use kflow_model::{Observation, Stamp};
use std::sync::Arc;

fn at(s: i64) -> Nanos {
    Nanos(s * SECOND)
}

fn note(
    s: i64,
    resource: &str,
    scope: &str,
    kind: WatchKind,
    failure: Option<Failure>,
) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(at(s)),
        source: Source::Kube,
        body: Body::Watch(Box::new(WatchNote {
            resource: resource.into(),
            kind,
            scope: scope.into(),
            detail: failure.map_or("", Failure::name).into(),
            failure,
        })),
    })
}

fn gap(s: i64) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::exact(at(s)),
        source: Source::Kflow,
        body: Body::Gap(Box::new(Gap {
            of: Source::Kflow,
            since: at(s - 1),
            lost: 3,
            conn: 0,
            resource: kflow_model::Text::default(),
            why: "lost".into(),
        })),
    })
}

/// A loss of objects of a kind.
fn unread(s: i64, resource: &str) -> Evidence {
    let mut o = Observation::clone(&gap(s));
    if let Body::Gap(g) = &mut o.body {
        g.of = Source::Kube;
        g.resource = resource.into();
    }
    Arc::new(o)
}

fn of(all: &[Evidence]) -> Coverage {
    let mut c = Coverage::default();
    for o in all {
        c.observe(o);
    }
    c
}

fn listed(scope: &str, from: i64) -> [Evidence; 2] {
    [
        note(from, "pods", scope, WatchKind::ListBegin, None),
        note(from + 1, "pods", scope, WatchKind::ListEnd, None),
    ]
}

fn broken(s: i64, scope: &str) -> Evidence {
    note(
        s,
        "pods",
        scope,
        WatchKind::Broken,
        Some(Failure::Unreachable),
    )
}

#[test]
fn what_was_never_listed_is_not_known() {
    let c = of(&[]);
    assert_eq!(
        c.incomplete("pods", None, at(9)),
        Some(Incomplete::NotAsked)
    );
    let [begin, _] = listed("", 1);
    let c = of(&[begin]);
    assert_eq!(c.incomplete("pods", None, at(9)), Some(Incomplete::NotYet));
    let c = of(&[broken(1, "")]);
    assert!(matches!(
        c.incomplete("pods", None, at(1)),
        Some(Incomplete::Failing(f)) if f.failure == Failure::Unreachable
    ));
    let c = of(&[note(1, "", "", WatchKind::Broken, Some(Failure::NoCluster))]);
    assert!(matches!(
        c.incomplete("pods", None, at(1)),
        Some(Incomplete::Failing(f)) if f.failure == Failure::NoCluster
    ));
}

#[test]
fn a_watch_that_fails_for_longer_than_a_blink_leaves_a_gap_until_it_is_followed_again() {
    let mut all = listed("", 1).to_vec();
    let complete = |all: &[Evidence], s| of(all).incomplete("pods", None, at(s)).is_none();
    assert!(complete(&all, 2));
    all.extend([broken(10, ""), broken(20, "")]);
    assert!(complete(&all, 12));
    assert!(!complete(&all, 14));
    let failing = of(&all);
    let (_, _, w) = failing.watches().next().unwrap();
    assert_eq!(
        w.failing().map(|f| (f.since, f.last)),
        Some((at(10), at(20)))
    );
    all.push(note(30, "pods", "", WatchKind::Bookmark, None));
    assert!(complete(&all, 40));
}

#[test]
fn a_loss_counts_until_the_next_list() {
    let mut all = listed("", 1).to_vec();
    all.push(gap(5));
    assert!(matches!(
        of(&all).incomplete("pods", None, at(6)),
        Some(Incomplete::Lost(l)) if l.count == 3
    ));
    all.extend(listed("", 8));
    assert_eq!(of(&all).incomplete("pods", None, at(9)), None);
}

#[test]
fn a_scope_needs_lists_that_show_all_of_it() {
    let shop = Scope {
        namespace: Some("shop".into()),
        ..Scope::default()
    };
    let node = Scope {
        node: Some("n1".into()),
        ..Scope::default()
    };
    let whole = of(&listed("", 1));
    for scope in [&shop, &node, &Scope::default()] {
        assert_eq!(whole.incomplete("pods", Some(scope), at(3)), None);
    }
    let one = of(&listed("shop", 1));
    assert_eq!(one.incomplete("pods", Some(&shop), at(3)), None);
    assert_eq!(one.incomplete("pods", None, at(3)), None);
    assert_eq!(
        one.incomplete("pods", Some(&Scope::default()), at(3)),
        Some(Incomplete::Narrower(vec!["shop".into()]))
    );
    let mut both = listed("spec.nodeName=n1", 1).to_vec();
    assert_eq!(
        of(&both).incomplete("pods", Some(&node), at(3)),
        Some(Incomplete::NotYet)
    );
    both.push(broken(1, "spec.nodeName="));
    assert!(of(&both).incomplete("pods", Some(&node), at(3)).is_some());
    both.extend(listed("spec.nodeName=", 2));
    assert_eq!(of(&both).incomplete("pods", Some(&node), at(3)), None);
    assert!(of(&both).incomplete("pods", Some(&shop), at(3)).is_some());
}

#[test]
fn a_loss_of_one_kind_leaves_the_others_known() {
    let [begin, end] = listed("", 1);
    let lists = [begin, end].into_iter().chain([
        note(1, "leases", "", WatchKind::ListBegin, None),
        note(2, "leases", "", WatchKind::ListEnd, None),
    ]);
    let mut all: Vec<Evidence> = lists.collect();
    all.push(unread(3, "leases"));
    let c = of(&all);
    assert_eq!(c.incomplete("pods", None, at(9)), None);
    assert_eq!(c.lost(&["pods", "events"]), None);
    assert!(
        matches!(c.unread("leases", at(9)), Some(Incomplete::Lost(l)) if l.resource == "leases")
    );
    assert!(c.lost_since_list("leases").is_some() && c.lost_since_list("pods").is_none());
    let kinds = |c: &Coverage| {
        c.losses_by_kind()
            .map(|(r, _)| r.to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&c), ["leases"]);
    // Listed again.
    all.push(note(4, "leases", "", WatchKind::ListBegin, None));
    all.push(note(5, "leases", "", WatchKind::ListEnd, None));
    let c = of(&all);
    assert_eq!((c.unread("leases", at(9)), kinds(&c)), (None, Vec::new()));
    // A loss of unknown kind concerns every kind.
    all.push(gap(6));
    let c = of(&all);
    for kind in ["pods", "leases"] {
        assert!(
            matches!(c.unread(kind, at(9)), Some(Incomplete::Lost(_))),
            "{kind}"
        );
    }
    assert_eq!(kinds(&c), Vec::<String>::new());
    // A list of pods clears losses of pods only.
    all.push(unread(7, "pods"));
    all.extend(listed("", 8));
    let c = of(&all);
    assert_eq!(c.incomplete("pods", None, at(10)), None);
    assert!(c.lost_since_list("leases").is_some());
}

/// A recorder that was restarted lists again: changes in between are not part of the recording, and are no loss.
#[test]
fn a_time_in_which_nobody_recorded_ends_with_the_next_list_and_is_no_loss() {
    let mut all: Vec<Evidence> = listed("", 1).to_vec();
    all.push(unread(5, Gap::UNRECORDED));
    let c = of(&all);
    assert!(matches!(
        c.incomplete("pods", None, at(6)),
        Some(Incomplete::Lost(_))
    ));
    assert_eq!(c.lost(&["pods", "events"]), None);
    assert!(c.lost(&[Gap::UNRECORDED]).is_some());
    assert_eq!(c.losses_by_kind().count(), 0);
    // At a moment within the interval, with hindsight, objects of every kind may be missing.
    let mut then = of(&listed("", 1));
    then.look_back(&Hindsight::of(&all), at(4));
    assert!(then.incomplete("pods", None, at(4)).is_some());
    assert!(then.lost(&["pods"]).is_some());
    let gone = [unread(5, Gap::SEGMENTS)];
    let mut then = of(&listed("", 1));
    then.look_back(&Hindsight::of(&gone), at(4));
    assert!(then.incomplete("pods", None, at(4)).is_some());
    assert_eq!(of(&gone).lost(&["pods"]), None);
    all.extend(listed("", 7));
    let c = of(&all);
    assert_eq!(c.incomplete("pods", None, at(9)), None);
    assert_eq!(c.lost(&["pods", "events"]), None);
}
