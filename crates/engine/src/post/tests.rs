use super::*;

fn at(url: &str) -> String {
    told(Place {
        url,
        ..Place::default()
    })
}

fn told(place: Place<'_>) -> String {
    match Store::at(place) {
        Ok(store) => store.uri().to_string(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn grpc_is_spoken_at_its_port_and_where_it_is_asked_for() {
    let method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    let with = |url, protocol| {
        told(Place {
            url,
            protocol,
            ..Place::default()
        })
    };
    assert_eq!(
        at("http://127.0.0.1:4317"),
        format!("http://127.0.0.1:4317{method}")
    );
    assert_eq!(
        with("https://store/", Some(Protocol::Grpc)),
        format!("https://store{method}")
    );
    assert_eq!(
        with("http://127.0.0.1:4317", Some(Protocol::Http)),
        "http://127.0.0.1:4317/v1/traces"
    );
    assert!(with("http://store/otlp", Some(Protocol::Grpc)).contains("it has a path"));
    let whole = |url| {
        told(Place {
            url,
            is_whole: true,
            ..Place::default()
        })
    };
    assert_eq!(whole("http://store/mine"), "http://store/mine");
    for (name, of_it) in [
        ("grpc", Some(Protocol::Grpc)),
        ("http/protobuf", Some(Protocol::Http)),
        ("http/json", None),
        ("", None),
    ] {
        assert_eq!(Protocol::parse(name), of_it, "{name}");
    }
}

#[test]
fn a_base_url_gets_the_path_of_traces_once() {
    for (url, whole) in [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
        ("http://store/otlp/", "http://store/otlp/v1/traces"),
        ("http://store/otlp/v1/traces", "http://store/otlp/v1/traces"),
        ("http://[::1]:4318", "http://[::1]:4318/v1/traces"),
    ] {
        assert_eq!(at(url), whole);
    }
    for (url, why) in [
        ("", "empty"),
        ("127.0.0.1:4318", "it looks like http://"),
        ("ftp://x", "ftp is not http"),
        ("http://x?token=t0ps3cret", "it has a query"),
    ] {
        let told = at(url);
        assert!(told.contains(why), "{url}: {told}");
        assert!(!told.contains("t0ps3cret"));
    }
    let told = at("http://me:t0ps3cret@x");
    assert!(
        told.contains("OTEL_EXPORTER_OTLP_HEADERS") && !told.contains("t0ps3cret"),
        "{told}"
    );
}

#[test]
fn headers_are_those_of_the_environment_and_their_values_are_in_no_message() {
    let all = parse(" authorization=Basic%20YTpi , x-scope = team%2Cone,,").expect("headers");
    assert_eq!(all["authorization"], "Basic YTpi");
    assert_eq!(all["x-scope"], "team,one");
    assert!(all.values().all(HeaderValue::is_sensitive));
    for bad in [
        "t0ps3cret",
        "a=b,t0ps3cret",
        "a b=t0ps3cret",
        "a=t0ps3cret%00",
    ] {
        let why = parse(bad).expect_err(bad).to_string();
        assert!(!why.contains("t0ps3cret"), "{why}");
    }
}

fn judged(code: u16, after: Option<&str>, body: &[u8]) -> Result<Taken, Refused> {
    let mut headers = HeaderMap::new();
    if let Some(after) = after {
        headers.insert(RETRY_AFTER, HeaderValue::from_str(after).expect("a value"));
    }
    judge(StatusCode::from_u16(code).expect("a code"), &headers, body)
}

#[test]
fn what_an_answer_means_is_what_the_protocol_says() {
    assert_eq!(judged(200, None, b""), Ok(Taken::default()));
    assert_eq!(
        judged(200, None, b"\xff\xff no protobuf"),
        Ok(Taken::default())
    );
    let partial = Answer {
        partial: Some(Partial {
            rejected: 3,
            message: "too\x1b[31m old".to_owned(),
        }),
    };
    let taken = judged(200, None, &partial.encode_to_vec()).expect("taken");
    assert_eq!((taken.rejected, taken.why.as_str()), (3, "too [31m old"));
    for code in [429, 502, 503, 504] {
        let refused = judged(code, Some("7"), b"busy").expect_err("refused");
        assert_eq!(refused.again, Some(Duration::from_secs(7)), "{code}");
        // A date or nonsense counts as no time given; a day is shortened.
        let refused =
            judged(code, Some("Wed, 21 Oct 2026 07:28:00 GMT"), b"").expect_err("refused");
        assert_eq!(refused.again, Some(Duration::ZERO), "{code}");
        let refused = judged(code, Some("86400"), b"").expect_err("refused");
        assert!(refused.again <= Some(Duration::from_secs(300)), "{code}");
    }
    for code in [301, 400, 401, 403, 404, 413, 500, 501] {
        let long = "x".repeat(10_000);
        let refused = judged(code, None, long.as_bytes()).expect_err("refused");
        assert_eq!(refused.again, None, "{code}");
        assert!(refused.why.len() < 300);
    }
    let status = Status {
        message: "quota is used up".to_owned(),
        details: Vec::new(),
    };
    let refused = judged(400, None, &status.encode_to_vec()).expect_err("refused");
    assert!(refused.why.ends_with(": quota is used up"), "{refused}");
}
