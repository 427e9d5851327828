use super::*;
use crate::correlate::PodView;
use kflow_model::event::EventSeen;
use kflow_model::stamp::SECOND;
use kflow_model::{Body, Nanos, Observation, Source, Stamp};
use proptest::prelude::*;

fn pod() -> PodView {
    PodView {
        namespace: "shop".into(),
        name: "web-1".into(),
        status: "ImagePullBackOff".into(),
        restarts: 4,
        created: Nanos(0),
        ..PodView::default()
    }
}

fn event() -> Observation {
    let mut e = EventSeen {
        reason: "FailedMount".into(),
        message: "MountVolume.SetUp failed: configmap \"nope\" not found".into(),
        warning: true,
        component: "kubelet".into(),
        ..EventSeen::default()
    };
    e.object.kind = "Pod".into();
    e.object.namespace = "shop".into();
    e.object.name = "web-1".into();
    Observation {
        stamp: Stamp::exact(Nanos(5)),
        source: Source::Kube,
        body: Body::Event(Box::new(e)),
    }
}

fn holds(q: &str, r: &dyn Record) -> bool {
    parse(q).expect(q).matches(r)
}

#[test]
fn pods_are_found_by_their_fields() {
    let mut p = pod();
    p.evidence = std::sync::Arc::new(crate::correlate::Observed::new(vec![std::sync::Arc::new(
        event(),
    )]))
    .into();
    let r = PodRecord {
        pod: &p,
        verdict: ("KF401", "image not found"),
        now: Nanos(600 * SECOND),
    };
    for yes in [
        "",
        "pod:web*",
        "pod:shop/web-1",
        "ns:SHOP",
        "status:*backoff restarts>3",
        "age>=10m age<1h",
        "!ready",
        "-ready",
        "not ready",
        "web",
        "(ns:x | ns:shop) restarts!=0",
        "pod:/web-\\d+/",
        "reason:kf401",
        "reason:failedmount",
        "kf401",
        "error",
        "ns:shop and !(pod:db* or pod:cache*)",
        "status~pull",
    ] {
        assert!(holds(yes, &r), "{yes}");
    }
    for no in [
        "pod:web",
        "ns:shop restarts>4",
        "ready",
        "gone",
        "msg:\"image\"",
        "reason:FailedAttachVolume",
        "failedmount",
        "dur>1s",
        "status!=ImagePullBackOff",
    ] {
        assert!(!holds(no, &r), "{no}");
    }
}

#[test]
fn observations_are_found_by_source_kind_and_words() {
    let o = event();
    for yes in [
        "kind:event",
        "source:kube",
        "warning",
        "reason:Failed*",
        "nope",
        "\"not found\"",
        "pod:web-1",
        "!noise",
    ] {
        assert!(holds(yes, &o), "{yes}");
    }
    for no in ["source:cri", "ok", "kind:log", "size>1"] {
        assert!(!holds(no, &o), "{no}");
    }
}

#[test]
fn what_is_asked_for_and_not_there_is_found_in_every_part() {
    for (q, foreign) in [
        ("method:X !ok pod:web dur>1s", None),
        ("method:X | !(pod:web & stage:image)", Some("stage")),
        ("age>1m node:a", Some("age")),
        ("word \"another\" ready", None),
    ] {
        let found = parse(q).expect(q);
        assert_eq!(
            found.foreign(CallRecord::FIELDS, CallRecord::NUMBERS),
            foreign,
            "{q}"
        );
    }
    let q = parse("method:A | !method:B method:C* method~D method:/E/ pod:F").expect("filter");
    assert_eq!(q.exact(Field::Method), ["A", "B"]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (q, column, part) in [
        ("pod:", 5, "value is missing"),
        ("(ok", 4, "')' is missing"),
        ("dur>fast", 5, "250ms"),
        ("dur>2", 5, "is not a duration"),
        ("size>2Mb", 6, "2GB"),
        ("namespace:x", 1, "did you mean ns?"),
        ("metohd:x", 1, "did you mean method?"),
        ("bogus:x", 1, "fields are method"),
        ("ok )", 4, "counterpart"),
        ("msg:/(/", 5, "regular expression"),
        ("\"open", 1, "closing"),
        ("pod>3", 4, "is text"),
        ("dur~3", 4, "is a number"),
        ("ok |", 5, "missing"),
        ("stage:imgae", 7, "did you mean image?"),
        ("!stage!=imgae", 9, "did you mean image?"),
        ("stage:x*", 7, "there are api, schedule"),
        ("stage:/^z/", 7, "there are api, schedule"),
        ("source:kubelt", 8, "did you mean kubelet?"),
        ("kind:evnt", 6, "did you mean event?"),
        ("reason:KF4011", 8, "there is no reason"),
    ] {
        let e = parse(q).expect_err(q);
        assert_eq!(e.column, column, "{q}: {e}");
        assert!(e.why.contains(part), "{q}: {e}");
    }
    for known in [
        "stage:IMAGE",
        "stage~im",
        "stage:im*",
        "kind:container-event",
        "kind:Job",
        "reason:KFoo",
        "reason:FailedMount",
        "reason:kf401",
        "reason:KF4*",
    ] {
        assert!(parse(known).is_ok(), "{known}");
    }
    assert!(parse(&"(".repeat(100_000)).is_err());
    assert!(parse(&"!".repeat(100_000)).is_err());
}

#[test]
fn numbers_have_the_units_of_the_command_line() {
    for (text, read) in [
        ("size>4K", "size>4096"),
        ("size>4kB", "size>4000"),
        ("size>10MB", "size>10000000"),
        ("size>10MiB", "size>10485760"),
        ("restarts>3", "restarts>3"),
        ("dur>1m30s", "dur>90000000000ns"),
        ("age<1.5h", "age<5400000000000ns"),
    ] {
        assert_eq!(parse(text).map(|q| q.to_string()), Ok(read.to_owned()));
    }
}

#[test]
fn completion_proposes_fields_then_values() {
    let known = |f: Field| {
        if f == Field::Namespace {
            vec!["kube-system".into(), "shop".into()]
        } else {
            vec![]
        }
    };
    let c = complete("ok !n", &known);
    assert_eq!(
        c.iter().map(|c| c.text.as_str()).collect::<Vec<_>>(),
        ["ok !ns:", "ok !node:", "ok !noise"]
    );
    assert_eq!(
        complete("ns:s", &known).first().map(|c| c.text.clone()),
        Some("ns:shop".into())
    );
    assert!(
        complete("source:", &known)
            .iter()
            .any(|c| c.label == "source:cri")
    );
    assert!(explain("dur>2s").is_ok_and(|h| h.starts_with("dur: length")));
    assert!(explain("dur>").is_err());
}

fn any_query() -> impl Strategy<Value = Query> {
    let text = "[a-zA-Z0-9 *?\"\\\\/|():-]{1,8}";
    let leaf = prop_oneof![
        (
            0..FIELDS.len(),
            text,
            prop_oneof![Just(Op::Is), Just(Op::Contains)]
        )
            .prop_map(|(i, t, op)| {
                let field = FIELDS[i].0;
                // Where a field has known values, use one of them.
                let known = field.values().map(|all| all[t.len() % all.len()]);
                let text = known.unwrap_or(&t);
                Query::Text(field, Pattern::new(text, op).expect("plain"))
            }),
        (0..NUMBERS.len(), 0..i64::from(i32::MAX)).prop_map(|(i, v)| Query::Number(
            NUMBERS[i].0,
            Cmp::Ge,
            v
        )),
        (0..FLAGS.len()).prop_map(|i| Query::Flag(FLAGS[i].0)),
        "[a-z0-9 \"|]{1,8}"
            .prop_map(|t| Query::Word(Pattern::new(&t, Op::Contains).expect("plain"))),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|q| Query::Not(Box::new(q))),
            prop::collection::vec(inner.clone(), 2..4).prop_map(Query::And),
            prop::collection::vec(inner, 2..4).prop_map(Query::Or),
        ]
    })
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        if let Ok(q) = parse(&text) {
            q.matches(&event());
        }
        let _ = (explain(&text).is_ok(), complete(&text, &|_| vec!["x".into()]));
    }
    #[test]
    fn an_expression_is_written_as_it_is_read(q in any_query()) {
        let written = q.to_string();
        let read = parse(&written).map_err(|e| TestCaseError::fail(format!("{written}: {e}")))?;
        prop_assert_eq!(read.to_string(), written);
        prop_assert_eq!(read.matches(&event()), q.matches(&event()));
    }
    #[test]
    fn not_turns_every_answer_round(q in any_query()) {
        let e = event();
        prop_assert_ne!(Query::Not(Box::new(q.clone())).matches(&e), q.matches(&e));
    }
}
