//! The tap's decoder on recorded bytes, checked against two independent sources: the counts of another decoder, and the
//! kubelet's own spans.
//!
//! `KFLOW_CRI_FIXTURES` points the tests at another folder of the same form (all recordings, for instance).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use kflow_convert::Capture;
use kflow_core::correlate::World;
use kflow_core::diagnose::{cause, why};
use kflow_model::cri::{
    CONFIG_SEEN, CallEnd, CallKey, CallOutcome, CallStart, Service, code_name, method,
};
use kflow_model::{Body, Nanos, Observation, Pairs, PodUid, SpanId, TraceId};

fn folder() -> PathBuf {
    std::env::var_os("KFLOW_CRI_FIXTURES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/cri"),
        PathBuf::from,
    )
}

fn unpacked(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    let packed = std::fs::read(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()));
    zstd::decode_all(packed.as_slice()).expect("zstd")
}

fn sessions() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("fixtures")
        .filter_map(|e| {
            let name = e.expect("entry").file_name().into_string().expect("name");
            name.strip_suffix(".jsonl.zst").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}

fn decoded(session: &str) -> Vec<Observation> {
    let path = folder().join(format!("{session}.jsonl.zst"));
    Capture::CriBytes.read(&path).expect("a byte log")
}

struct Call {
    start: CallStart,
    at: Nanos,
    ended: Nanos,
    end: Option<CallEnd>,
}

/// The calls in the order of their starts. Fails when an end has no start before it.
fn calls(observations: &[Observation]) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut open = HashMap::new();
    for o in observations {
        match &o.body {
            Body::CallStart(start) => {
                let was = open.insert(start.key, calls.len());
                assert!(was.is_none(), "{:?} started twice", start.key);
                assert!(o.stamp.seen >= o.stamp.at);
                calls.push(Call {
                    start: (**start).clone(),
                    at: o.stamp.at,
                    ended: o.stamp.at,
                    end: None,
                });
            }
            Body::CallEnd(end) => {
                let call = &mut calls[*open.get(&end.key).expect("an end has a start")];
                assert!(call.end.is_none(), "{:?} ended twice", end.key);
                assert!(o.stamp.at >= call.at);
                call.ended = o.stamp.at;
                call.end = Some((**end).clone());
            }
            _ => {}
        }
    }
    calls
}

fn path(start: &CallStart) -> String {
    let service = match start.service {
        Service::Runtime => "runtime.v1.RuntimeService",
        Service::Image => "runtime.v1.ImageService",
        other => panic!("not in the recordings: {other:?}"),
    };
    format!("/{service}/{}", start.method)
}

#[test]
fn methods_and_their_ends_are_counted_as_an_independent_decoder_counts_them() {
    let text = std::fs::read_to_string(folder().join("methods.tsv")).expect("methods.tsv");
    for session in sessions() {
        let want: BTreeMap<(String, String), usize> = text
            .lines()
            .filter_map(|line| {
                let mut cells = line.split('\t');
                (cells.next()? == session).then_some(())?;
                let (method, how) = (cells.next()?.to_owned(), cells.next()?.to_owned());
                Some(((method, how), cells.next()?.parse().ok()?))
            })
            .collect();
        assert!(want.len() > 10, "{session}");
        let mut got = BTreeMap::new();
        for call in calls(&decoded(&session)) {
            let how = match &call.end {
                Some(CallEnd {
                    outcome: CallOutcome::Status,
                    code: Some(code),
                    ..
                }) => format!("grpc {code}"),
                Some(end) if end.outcome == CallOutcome::ClientReset => {
                    assert_eq!(end.fields, [("reset".into(), "CANCEL".into())]);
                    "RST c2s 8".into()
                }
                // The other decoder leaves calls open when their connection closes.
                Some(end) if end.outcome == CallOutcome::ConnectionClosed => "open".into(),
                None => "open".into(),
                Some(end) => panic!("{session}: {end:?}"),
            };
            *got.entry((path(&call.start), how)).or_insert(0) += 1;
        }
        assert_eq!(got, want, "{session}");
    }
}

#[test]
fn nothing_in_the_recordings_is_nonsense() {
    for session in sessions() {
        for o in decoded(&session) {
            assert!(!matches!(o.body, Body::Gap(_)), "{session}: {o:?}");
        }
    }
}

/// The kubelet's client span of one call, and the runtime's span of it.
struct ClientSpan<'a> {
    ids: (TraceId, SpanId),
    method: &'a str,
    status: &'a str,
    start: Nanos,
    end: Nanos,
    /// The start of containerd's server span, if there is one.
    served: Option<Nanos>,
}

fn client_spans<'a>(tsv: &'a str, session: &str) -> Vec<ClientSpan<'a>> {
    tsv.lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let [of, trace, span, method, status, start, end, served] = cells[..] else {
                return None;
            };
            (of == session).then(|| ClientSpan {
                ids: (
                    TraceId::parse(trace).expect("trace"),
                    SpanId::parse(span).expect("span"),
                ),
                method,
                status,
                start: Nanos(start.parse().expect("ns")),
                end: Nanos(end.parse().expect("ns")),
                served: served.parse().ok().map(Nanos),
            })
        })
        .collect()
}

/// The kubelet's client span begins before the first byte passes the tap, usually less than 2 ms before. When it is
/// longer, the bytes were late (a busy machine, a connection that had to be made): containerd's span then begins after
/// the tapped byte.
#[test]
fn each_client_span_of_the_kubelet_has_its_call() {
    let tsv = String::from_utf8(unpacked("spans.tsv.zst")).expect("text");
    let (mut all, mut all_near) = (0, 0);
    for session in sessions() {
        let mut by_span: HashMap<(TraceId, SpanId), Vec<Call>> = HashMap::new();
        for call in calls(&decoded(&session)) {
            if let Some(ids) = call.start.traceparent {
                by_span.entry(ids).or_default().push(call);
            }
        }
        let (mut met, mut near, mut unsent) = (0, 0, 0);
        for span in client_spans(&tsv, &session) {
            let about = format!("{session}: {} {}", span.ids.1, span.method);
            let Some(found) = by_span.get(&span.ids) else {
                // A call that never reached the socket, because the kubelet could not connect, has only a span.
                assert_eq!(span.status, "Unavailable", "{about}: no call");
                unsent += 1;
                continue;
            };
            let [call] = &found[..] else {
                panic!("{about}: {} calls", found.len());
            };
            assert_eq!(path(&call.start), span.method, "{about}");
            let end = call.end.as_ref().expect("a finished span's call is over");
            let ended: &[&str] = match end.outcome {
                CallOutcome::Status => &[code_name(end.code.expect("code"))],
                CallOutcome::ClientReset => &["DeadlineExceeded", "Canceled"],
                CallOutcome::ConnectionClosed => &["Unavailable", "Canceled"],
                other => panic!("{about}: {other:?}"),
            };
            assert!(ended.contains(&span.status), "{about}: {ended:?}");
            let late = call.at.since(span.start);
            assert!(late >= 0 && call.at <= span.end, "{about}: {late} ns");
            if end.outcome == CallOutcome::Status {
                assert!(call.ended <= span.end, "{about}: the answer passed before");
            }
            if late <= 2_000_000 {
                near += 1;
            } else if let Some(served) = span.served {
                assert!(call.at <= served, "{about}: {late} ns late");
            }
            met += 1;
        }
        println!("{session}: {met} spans have their call, {near} within 2 ms; {unsent} never sent");
        assert!(met > 100, "{session}: only {met} spans");
        all += met;
        all_near += near;
    }
    assert!(all_near * 10 > all * 9, "{all_near} of {all} within 2 ms");
}

/// containerd lists in the order of a Go map: the bytes of two lists differ even when nothing changed.
#[test]
fn a_list_becomes_an_inventory_only_when_it_says_something_new() {
    for session in sessions() {
        let mut last = HashMap::new();
        let mut complete = 0;
        for o in decoded(&session) {
            if let Body::Inventory(inventory) = o.body
                && inventory.complete
            {
                let mut items = inventory.items;
                items.sort();
                let question = (inventory.key.conn, inventory.sandboxes);
                let before = last.insert(question, items.clone());
                assert_ne!(before.as_ref(), Some(&items), "{session}: {}", o.stamp.at);
                complete += 1;
            }
        }
        assert!(complete >= 4, "{session}: {complete}");
    }
}

/// The pod of each ImageStatus call, after `change` was applied to the starts of the calls; empty where nothing
/// identifies the pod.
fn image_lookups(
    observations: &[Observation],
    change: impl Fn(&mut CallStart),
) -> BTreeMap<CallKey, PodUid> {
    let mut world = World::new();
    for o in observations {
        let mut o = o.clone();
        if let Body::CallStart(c) = &mut o.body {
            change(c);
        }
        world.observe(&Arc::new(o));
    }
    world.refresh();
    let lookups = world.calls().iter();
    lookups
        .filter(|c| c.method == method::IMAGE_STATUS)
        .map(|c| (c.key, c.pod_uid.clone()))
        .collect()
}

/// An ImageStatus request names no pod, but the kubelet sends the pod's annotations in it, and in the sandbox's
/// request. Without annotations the trace identifies the pod, where there is one, or the order of the calls.
#[test]
fn an_image_is_looked_up_for_the_pod_whose_annotations_the_request_bears() {
    let mut told = 0;
    for session in sessions() {
        let observations = decoded(&session);
        let annotated: BTreeSet<CallKey> = (calls(&observations).iter())
            .filter(|c| c.start.method == method::IMAGE_STATUS)
            .filter(|c| c.start.fields.value(CONFIG_SEEN).is_some())
            .map(|c| c.start.key)
            .collect();
        let by_trace = image_lookups(&observations, |c| c.fields = Pairs::default());
        let by_annotation = image_lookups(&observations, |c| c.traceparent = None);
        for (key, pod) in &by_annotation {
            assert!(
                !pod.is_empty() || !annotated.contains(key),
                "{session} {key:?}"
            );
            if !pod.is_empty() {
                assert_eq!(Some(pod), by_trace.get(key), "{session} {key:?}");
                told += 1;
            }
        }
    }
    assert!(told >= 70, "{told}");
}

/// Recorded bytes of a kubelet without tracing.
#[test]
fn without_tracing_every_first_look_at_an_image_has_its_pod() {
    let untraced = folder().join("untraced/S17-kubelet-1.34.jsonl.zst");
    let observations = Capture::CriBytes.read(&untraced).expect("a byte log");
    let calls = calls(&observations);
    assert!(calls.iter().all(|c| c.start.traceparent.is_none()));
    let lookups = image_lookups(&observations, |_| {});
    let mut first = 0;
    for call in &calls {
        if call.start.fields.value(CONFIG_SEEN).is_some()
            && let Some(pod) = lookups.get(&call.start.key)
        {
            assert!(!pod.is_empty(), "{:?}", call.start.key);
            first += 1;
        }
    }
    println!("{first} of {} lookups", lookups.len());
    assert!(first > 0 && first * 2 >= lookups.len(), "{first}");
}

/// The runtime's image store hangs: the kubelet's first ImageStatus call is all that is known of the container.
#[test]
fn a_look_at_an_image_that_hangs_is_what_its_pod_waits_for_by_the_tap_alone() {
    let untraced = folder().join("untraced/S17-kubelet-1.34.jsonl.zst");
    let observations = Capture::CriBytes.read(&untraced).expect("a byte log");
    let at = observations
        .iter()
        .position(|o| matches!(&o.body, Body::CallStart(c) if c.method == method::IMAGE_STATUS && c.fields.value(CONFIG_SEEN).is_some()))
        .expect("a look at an image");
    let mut world = World::new();
    for o in &observations[..=at] {
        world.observe(&Arc::new(o.clone()));
    }
    world.refresh();
    let hung = observations[at].stamp.at;
    let call = (world.calls().iter())
        .find(|c| c.start == hung)
        .expect("the call");
    let now = hung.plus(60_000_000_000);
    let pod = world.pod(&call.pod_uid).expect("its pod");
    let verdict = why(&world, pod, now).expect("it waits");
    assert_eq!(verdict.cause, Some(cause::KF615), "{}", verdict.sentence);
    let call = verdict.in_flight.as_ref().expect("a call in flight");
    assert_eq!(
        (call.method.as_str(), call.since),
        (method::IMAGE_STATUS, hung)
    );
}
