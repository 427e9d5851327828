//! Lists, watches and what kubectl prints.

use super::*;

#[test]
fn a_watch_tells_how_far_it_is_and_why_it_ended() {
    assert_eq!(notes(&recorded()), [("pods", WatchKind::Bookmark, "573")]);
    let error = r#"{"type":"ERROR","object":{"kind":"Status","status":"Failure","message":"too old resource version: 5 (9)","reason":"Expired","code":410}}"#;
    let pod = watch_events().swap_remove(0);
    let (out, _) = feed(&format!("{pod}\n{error}"));
    assert_eq!(
        notes(&out),
        [(
            "pods",
            WatchKind::Broken,
            "too old resource version: 5 (9) (410 Expired)"
        )]
    );
}

#[test]
fn kubectl_get_is_history_as_of_the_newest_moment_it_tells() {
    let (out, fed) = feed(GET);
    assert!(
        fed.iter()
            .all(|f| matches!(f, Fed::Observed(_) | Fed::Partial))
    );
    assert_eq!((pods(&out).len(), events(&out).len()), (1, 3));
    let newest = newest_time(GET.as_bytes()).unwrap();
    assert_eq!(newest.1, 1_000_000_000);
    let (stamp, pod) = pods(&out)[0];
    assert_eq!((stamp.at, stamp.precision), newest);
    assert_eq!(pod.event, WatchEvent::Listed);
    assert!(
        events(&out)
            .iter()
            .all(|(s, e)| e.listed && s.seen == stamp.until() && s.at <= s.seen)
    );
    assert_eq!(notes(&out), [], "what bounds the list is not known");
    let (compact, _) = feed(
        &serde_json::from_str::<serde_json::Value>(GET)
            .unwrap()
            .to_string(),
    );
    assert_eq!(out, compact, "white space says nothing");
}

#[test]
fn a_stream_of_watch_events_may_be_printed_prettily_or_a_line_each() {
    let each = watch_events();
    let pretty: String = each
        .iter()
        .map(|v| {
            let v: serde_json::Value = serde_json::from_str(v).unwrap();
            serde_json::to_string_pretty(&v).unwrap() + "\n"
        })
        .collect();
    let lines = each.join("\n");
    let joined = each.concat();
    let (a, _) = feed(&pretty);
    let (b, _) = feed(&lines);
    let (c, _) = feed(&joined);
    assert_eq!(a, b);
    assert_eq!(a, c);
    assert_eq!(pods(&a).len(), pods(&recorded()).len());
    let seen: Vec<Nanos> = a.iter().map(|o| o.stamp.seen).collect();
    assert!(seen.is_sorted(), "guessed arrivals never go back");
}

#[test]
fn deletion_is_in_the_future_and_does_not_count_as_a_moment_that_passed() {
    let json = br#"{"metadata":{"creationTimestamp":"2026-01-01T00:00:00Z","deletionTimestamp":"2027-01-01T00:00:00Z",
        "annotations":{"creationTimestamp":"2028-01-01T00:00:00Z"},"managedFields":[{"time":"2026-01-02T00:00:00Z"}]}}"#;
    assert_eq!(
        newest_time(json).unwrap().0,
        Nanos::parse_rfc3339("2026-01-02T00:00:00Z").unwrap().0
    );
    assert_eq!(newest_time(b"{}"), None);
}

#[test]
fn a_cut_off_document_costs_itself_only() {
    let good = &watch_events()[0];
    let half = good.get(..good.len() / 2).unwrap();
    let (out, fed) = feed(&format!("{half}\n{good}\nnot json\n\n{half}"));
    assert_eq!(
        fed,
        [
            Fed::Partial,
            Fed::Malformed("document was cut off"),
            Fed::Malformed("not a JSON object"),
            Fed::Ignored("blank line"),
            Fed::Partial,
            Fed::Malformed("document was cut off"),
        ]
    );
    assert_eq!(pods(&out).len(), 1);
}

/// A text around objects costs none of them, and they cost nothing of what kubectl prints beside them.
#[test]
fn objects_within_a_text_are_read() {
    let object: serde_json::Value = serde_json::from_str(&watch_events()[0]).unwrap();
    let pretty = serde_json::to_string_pretty(&object["object"]).unwrap();
    let table = "NAMESPACE   NAME    READY   STATUS    RESTARTS   AGE\nshop        web-0   0/1     Pending   0          5m\n";
    let config = "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n";
    for (text, want) in [
        (format!("# a comment\n\n{pretty}\n"), 1),
        (format!("a\n{pretty}\nb\n{pretty}\n\nc\n"), 2),
        (format!("It hangs:\n{table}\n{pretty}\n"), 2),
        (format!("It hangs:\n{config}{pretty}\n\n{table}"), 2),
        (format!("a\n{{ we do not know\n{pretty}\n{table}"), 2),
        (format!("a\n{{\n\"it ends\n{pretty}\n{{\n{table}"), 2),
        (
            format!(
                "==== START logs for container a of pod b/c ====\n{pretty}\n==== END logs for container a of pod b/c ====\n{table}{pretty}\n"
            ),
            2,
        ),
    ] {
        let (out, fed) = feed(&text);
        assert_eq!(pods(&out).len(), want, "{text}\n{fed:?}");
    }
}
