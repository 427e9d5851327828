use proptest::strategy::{Just, Strategy as _};

use super::*;
use kflow_model::{Observation, Source, Stamp, audit};

fn at(us: i64) -> Nanos {
    Nanos(1_795_220_667_504_984_993 + us * 1000)
}

fn audit(id: &str, stage: AuditStage, us: i64) -> Evidence {
    Arc::new(Observation {
        stamp: Stamp::new(at(us), 1000, at(us)),
        source: Source::Audit,
        body: Body::Audit(Box::new(audit::AuditRecord {
            audit_id: id.into(),
            stage,
            verb: "create".into(),
            resource: "pods".into(),
            object: ObjectRef {
                namespace: "s01".into(),
                name: "healthy".into(),
                ..ObjectRef::default()
            },
            user: "kubernetes-admin".into(),
            agent: "kubectl/v1.36.4".into(),
            received: at(0),
            code: if stage == AuditStage::ResponseComplete {
                201
            } else {
                0
            },
            message: Text::default(),
            query: Text::default(),
            annotations: vec![
                (
                    "apiserver.latency.k8s.io/validating-webhook".into(),
                    "4.001s".into(),
                ),
                (
                    "failed-open.validating.webhook.admission.k8s.io/round_0_index_1".into(),
                    "nobody.lab".into(),
                ),
            ]
            .into(),
            facts: kflow_model::Pairs::default(),
        })),
    })
}

fn span(name: &str, id: u64, parent: Option<u64>, from_us: i64, to_us: i64) -> Evidence {
    let server = name.starts_with("POST");
    Arc::new(Observation {
        stamp: Stamp::new(at(from_us), 1, at(5_000_000)),
        source: Source::Otlp,
        body: Body::Span(Box::new(SpanRecord {
            service: "apiserver".into(),
            name: name.into(),
            kind: if server {
                SpanKind::Server
            } else {
                SpanKind::Internal
            },
            trace: TraceId(7),
            span: SpanId(id),
            parent: parent.map(SpanId),
            end: at(to_us),
            attributes: if server {
                vec![("audit-id".into(), "cc27".into())].into()
            } else {
                kflow_model::Pairs::default()
            },
            ..SpanRecord::default()
        })),
    })
}

fn all() -> Vec<Evidence> {
    vec![
        audit("cc27", AuditStage::RequestReceived, 6),
        audit("cc27", AuditStage::ResponseComplete, 7600),
        span(
            "POST /api/v1/namespaces/{:namespace}/pods",
            1,
            Some(99),
            0,
            7685,
        ),
        span("audit", 2, Some(1), 6, 7676),
        span("authorization", 3, Some(2), 98, 7495),
        span("Create", 4, Some(3), 189, 6529),
        span("Create etcd3", 5, Some(4), 5146, 6238),
    ]
}

#[test]
fn audit_and_spans_of_one_request_are_one_request_in_any_order() {
    let mut forward = RequestLog::default();
    let mut backward = RequestLog::default();
    for o in &all() {
        forward.observe(o);
    }
    for o in all().iter().rev() {
        backward.observe(o);
    }
    for o in &all() {
        backward.observe(o);
    }
    assert_eq!((forward.len(), backward.len()), (1, 1));
    assert_eq!(forward.get("cc27"), backward.get("cc27"));
    let r = forward.get("cc27").unwrap();
    assert_eq!((r.code, r.received, r.ended), (201, at(0), Some(at(7600))));
    assert_eq!(r.latency, [("validating-webhook".into(), 4_001_000_000)]);
    assert!(
        r.webhooks
            .iter()
            .any(|w| w.name == "nobody.lab" && w.failed_open && !w.mutating)
    );
}

#[test]
fn a_filters_own_time_leaves_out_what_it_wraps() {
    let mut log = RequestLog::default();
    for o in &all() {
        log.observe(o);
    }
    let steps = log.get("cc27").unwrap().steps();
    let own = |name: &str| {
        steps
            .iter()
            .find(|s| s.name == name)
            .map(|s| s.own_ns / 1000)
    };
    assert_eq!(
        steps.iter().map(|s| s.depth).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(own("authorization"), Some(7397 - 6340));
    assert_eq!(own("Create"), Some(6340 - 1092));
    assert_eq!(own("Create etcd3"), Some(1092));
    assert_eq!(steps.iter().map(|s| s.own_ns).sum::<i64>(), 7_685_000);
}

#[test]
fn spans_whose_parent_never_comes_are_no_request() {
    let mut log = RequestLog::default();
    log.observe(&span("authorization", 3, Some(2), 98, 7495));
    assert!(log.is_empty());
}

#[test]
fn a_span_that_is_its_own_ancestor_ends() {
    let mut log = RequestLog::default();
    log.observe(&span("POST x", 1, Some(2), 0, 10));
    log.observe(&span("audit", 2, Some(1), 0, 10));
    assert_eq!(log.get("cc27").unwrap().steps().len(), 2);
}

#[test]
fn groups_count_and_rank() {
    let mut log = RequestLog::default();
    for n in 0..100 {
        let id = format!("id{n}");
        log.observe(&audit(&id, AuditStage::RequestReceived, 0));
        if n > 0 {
            log.observe(&audit(&id, AuditStage::ResponseComplete, n * 1000));
        }
    }
    let g = log.groups();
    assert_eq!(g.len(), 1);
    assert_eq!((g[0].count, g[0].open, g[0].errors), (100, 1, 0));
    assert_eq!((g[0].p50_ns, g[0].max_ns), (50_000_000, 99_000_000));
}

/// Another server span of the same trace, as a trusted client's requests have, and a span below it.
fn sibling() -> Vec<Evidence> {
    let of = |e: Evidence| {
        let mut o = (*e).clone();
        if let Body::Span(s) = &mut o.body
            && s.kind == SpanKind::Server
        {
            s.attributes = vec![("audit-id".into(), "dd38".into())].into();
        }
        Arc::new(o)
    };
    vec![
        of(span(
            "POST /api/v1/namespaces/{:namespace}/pods/{:name}/binding",
            11,
            Some(99),
            8000,
            9000,
        )),
        of(span("authorization", 12, Some(11), 8100, 8900)),
    ]
}

fn told(order: &[Evidence]) -> Vec<Arc<Request>> {
    let mut log = RequestLog::default();
    for o in order {
        log.observe(o);
    }
    assert_eq!(log.forgotten(), (0, 0));
    log.list().into_iter().cloned().collect()
}

fn both() -> Vec<Evidence> {
    all().into_iter().chain(sibling()).collect()
}

proptest::proptest! {
    #[test]
    fn two_requests_of_one_trace_are_the_same_whatever_comes_first(order in Just(both()).prop_shuffle()) {
        proptest::prop_assert_eq!(told(&order), told(&both()));
    }
}

#[test]
fn each_request_of_a_trace_shows_what_lies_below_its_own_span() {
    let steps: Vec<usize> = told(&both()).iter().map(|r| r.steps().len()).collect();
    assert_eq!(steps, [5, 2]);
}

#[test]
fn asking_in_between_changes_nothing() {
    let mut asked = RequestLog::default();
    let mut unasked = RequestLog::default();
    let kept: Vec<RequestLog> = (all().iter())
        .map(|o| {
            asked.observe(o);
            unasked.observe(o);
            assert_eq!(asked.list().len(), asked.len());
            asked.clone()
        })
        .collect();
    assert_eq!(asked.get("cc27"), unasked.get("cc27"));
    // The clones made in between did not change.
    let seen: Vec<usize> = (kept.iter())
        .map(|log| log.get("cc27").map_or(0, |r| r.evidence.len()))
        .collect();
    assert_eq!(seen, [1, 2, 3, 4, 5, 6, 7]);
}

/// A list whose handler has more spans than are kept, of 1 µs to 400 µs, and its audit records.
fn many() -> Vec<Evidence> {
    let short = |n: i64| span("decode", 100 + n as u64, Some(1), n, n + n % 400 + 1);
    (0..800).map(short).chain(all()).collect()
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(16))]
    #[test]
    fn of_too_many_spans_the_longest_stay_whatever_comes_first(order in Just(many()).prop_shuffle()) {
        let told = |order: &[Evidence]| {
            let mut log = RequestLog::default();
            for o in order {
                log.observe(o);
            }
            log
        };
        let log = told(&order);
        let straight = told(&many());
        proptest::prop_assert_eq!(log.get("cc27"), straight.get("cc27"));
        let r = log.get("cc27").unwrap();
        proptest::prop_assert_eq!((r.code, r.ended, r.evidence.len()), (201, Some(at(7600)), SPANS));
        proptest::prop_assert!(r.evidence.iter().any(|o| matches!(&o.body, Body::Span(s) if s.kind == SpanKind::Server)));
        proptest::prop_assert_eq!(log.forgotten(), (0, 807 - SPANS as u64));
    }
}

#[test]
fn a_log_and_spans_that_are_read_again_later_add_nothing() {
    let mut once = RequestLog::default();
    let mut twice = RequestLog::default();
    for o in &all() {
        once.observe(o);
        twice.observe(o);
        let mut again = (**o).clone();
        again.stamp.seen = at(60_000_000);
        twice.observe(&Arc::new(again));
    }
    assert_eq!(once.get("cc27"), twice.get("cc27"));
}
