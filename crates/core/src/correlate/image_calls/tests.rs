use super::*;

/// A call of a line of a table: `pod kind image start-end`, where `-` for the pod says that the request names none, and
/// `(1)` that the trace tells it.
fn ordered(line: &str) -> Ordered<'_> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [pod, kind, image, at, ..] = words[..] else {
        panic!("{line}");
    };
    let (start, end) = at.split_once('-').expect("an interval");
    let (kind, conn) = match kind {
        "run" => (Kind::Sandbox, 1),
        "look" => (Kind::Look, 2),
        "pull" => (Kind::Pull, 2),
        "crictl" => (Kind::Look, 9),
        _ => (Kind::Create, 1),
    };
    let ms = |at: &str| Nanos(at.parse::<i64>().expect("ms") * 1_000_000);
    Ordered {
        key: CallKey { conn, stream: 1 },
        start: ms(start),
        end: (!end.is_empty()).then(|| ms(end)),
        in_vain: line.ends_with("in vain"),
        kind,
        pod: pod.trim_matches(['(', ')']).parse().ok(),
        names_pod: !pod.starts_with(['-', '(']),
        image: image.split('=').next().unwrap_or_default(),
        id: image.split_once('=').map_or("", |(_, id)| id),
    }
}

/// The pods of the lines without one.
fn told(lines: &str, losses: &[(Nanos, Nanos)]) -> String {
    let lines: Vec<&str> = (lines.lines().map(str::trim))
        .filter(|l| !l.is_empty())
        .collect();
    let mut calls: Vec<Ordered<'_>> = lines.iter().map(|l| ordered(l)).collect();
    calls.sort_by_key(|s| s.start);
    let found = pods_by_order(&calls, losses);
    let told = (calls.iter().zip(found)).filter(|(s, _)| s.pod.is_none());
    let told: Vec<String> = told
        .map(|(_, found)| found.map_or("-".to_owned(), |pod| pod.to_string()))
        .collect();
    told.join(" ")
}

#[test]
fn a_look_that_names_no_pod_is_that_of_the_pod_at_whose_turn_it_is() {
    let cases = [
        // The orders of kubelets 1.28 and 1.35 that were recorded.
        ("1 look a 0-1\n- look a 2-3\n1 create a 4-9", "1"),
        (
            "1 look a 0-1 in vain\n1 pull a 2-50\n- look a 51-52\n- look a 53-54\n1 create a 55-60",
            "1 1",
        ),
        // It hangs: the pod is told before a container is.
        ("1 look a 0-1\n- look a 2-", "1"),
        // A look of 2 ended, and its worker went no further: env from a ConfigMap that is missing.
        (
            "2 look a 0-1\n1 look a 5-6\n- look a 7-8\n1 create a 9-12\n2 look a 9000-9001",
            "1",
        ),
        // Both are at it, and each has as many as it needs.
        (
            "1 look a 0-1\n- look a 2-3\n2 look a 4-5\n1 create a 6-9\n- look a 7-8\n2 create a 9-12",
            "1 2",
        ),
        // Either may have made either.
        (
            "1 look a 0-1\n2 look a 2-3\n- look a 4-5\n- look a 5-6\n1 create a 7-9\n2 create a 8-9",
            "- -",
        ),
        // Of the two, one is known by its trace.
        (
            "1 look a 0-1\n2 look a 2-3\n(2) look a 4-5\n- look a 5-6\n1 create a 7-9\n2 create a 8-9",
            "1",
        ),
        // Another image, another client, and a look that ended after the next call began.
        ("1 look a 0-1\n- look b 2-3", "-"),
        ("1 look a 0-1\n- crictl a 2-3", "-"),
        ("1 look a 0-1\n- look a 2-6\n1 create a 4-9", "-"),
        // Nothing follows a failure.
        ("1 look a 0-1 in vain\n- look a 2-3", "-"),
        ("1 look a 0-1\n1 pull a 2-3 in vain\n- look a 4-5", "-"),
        // Long after the look before it.
        ("1 look a 0-1\n- look a 20000-20001", "-"),
        // The look of 2 came before the tap: its worker may have made this one.
        ("1 look a 0-1\n- look a 2-3\n2 create a 4-9", "-"),
        // A kubelet that sends no annotations: two looks before a container.
        (
            "1 run - 0-5\n- look a 6-7\n- look a 8-9\n1 create a 10-12",
            "1 1",
        ),
        (
            "1 run - 0-5\n- look a 6-7\n1 pull a 8-90\n- look a 91-92\n1 create a 93-95",
            "- 1",
        ),
        (
            "1 run - 0-5\n2 run - 0-5\n- look a 6-7\n- look a 7-8\n- look a 8-9\n1 create a 10-12",
            "- - -",
        ),
        // Kubelet 1.27 creates a container of the id that the look answered.
        (
            "1 run - 0-5\n- look a=sha256:0 6-7\n- look a=sha256:0 8-9\n1 create sha256:0 10-12",
            "1 1",
        ),
    ];
    for (lines, want) in cases {
        assert_eq!(told(lines, &[]), want, "{lines}");
    }
}

#[test]
fn nothing_is_concluded_across_what_was_lost() {
    let lines = "1 look a 0-1\n- look a 2-3\n1 create a 4-9";
    let at = |ms: i64| Nanos(ms * 1_000_000);
    assert_eq!(told(lines, &[(at(2), at(3))]), "-");
    assert_eq!(told(lines, &[(at(10), at(30))]), "1");
}
