use super::*;
use crate::live::Board;
use crate::live::silent::{Answer, client};

fn leaver(name: &str) -> Leaver {
    let text = format!(
        r#"{{"kind":"Pod","metadata":{{"namespace":"shop","name":"{name}","uid":"u-{name}"}}}}"#
    );
    let stamp = Stamp::exact(clock::now());
    Leaver {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: format!("u-{name}"),
        deleted: decode_object(text.as_bytes(), "Pod", WatchEvent::Deleted, stamp).unwrap(),
    }
}

#[tokio::test]
async fn an_object_of_which_the_apiserver_says_no_more_makes_a_list_due() {
    let client = client(|path| match path.rsplit('/').next() {
        Some("mute") => Answer::Nothing,
        Some("cut") => Answer::Head,
        _ => Answer::NotFound,
    });
    let (board, mut from) = Board::new(8);
    let (to, leavers) = mpsc::channel(8);
    let (_, pods) = watches(&Scope::default()).swap_remove(0);
    let unclear = Arc::<Notify>::default();
    let asking = tokio::spawn(ask(
        client,
        pods,
        Duration::from_millis(20),
        leavers,
        Arc::clone(&unclear),
        board.out(Source::Kube, "pods"),
    ));
    for name in ["mute", "cut", "gone"] {
        to.send(leaver(name)).await.unwrap();
        let told = from.recv().await.unwrap();
        match told.body {
            Body::Gap(gap) => {
                assert_eq!((gap.resource.as_str(), gap.lost), ("pods", 1));
                assert_ne!(name, "gone");
                unclear.notified().await;
            }
            Body::Pod(pod) => {
                assert_eq!((&*pod.name, pod.event), (name, WatchEvent::Deleted));
                assert_eq!(name, "gone");
            }
            other => panic!("{other:?}"),
        }
    }
    // What waits behind one that is not answered is left to the list.
    for name in ["mute", "gone", "gone"] {
        to.try_send(leaver(name)).unwrap();
    }
    let Body::Gap(gap) = from.recv().await.unwrap().body else {
        panic!("a gap")
    };
    assert_eq!(gap.lost, 3);
    asking.abort();
}

#[tokio::test]
async fn what_an_apiserver_says_of_its_failure_is_told() {
    let status =
        |message: &str| format!(r#"{{"kind":"Status","status":"Failure","message":"{message}"}}"#);
    let nobody = "the context prod names the user u, whom the kubeconfig does not have";
    for (code, body, anonymous, wanted, failure) in [
        (
            500,
            status("etcdserver: request timed out"),
            "",
            "answers 500 Internal Server Error: etcdserver: request timed out",
            Failure::Refused,
        ),
        (
            502,
            "<html>".to_owned(),
            "",
            "answers 502 Bad Gateway",
            Failure::Refused,
        ),
        (
            429,
            status("too many requests, please try again later"),
            "",
            "answers 429 Too Many Requests: too many requests, please try again later",
            Failure::Throttled,
        ),
        (403, String::new(), nobody, nobody, Failure::Unauthorized),
        (
            403,
            String::new(),
            "",
            "forbidden: needs list on pods in the whole cluster",
            Failure::Forbidden,
        ),
    ] {
        let answer = move |_: &Request<HttpBody>| {
            let answer = Response::builder().status(code);
            answer.body(body.clone()).unwrap()
        };
        let server = Server {
            anonymous: anonymous.into(),
            ..Server::from(crate::live::silent::answers(answer))
        };
        let (board, mut from) = Board::new(8);
        let watch = Watch::all("api/v1", "pods", "Pod");
        let out = board.out(Source::Kube, "pods");
        let watching = tokio::spawn(run(server, watch, Pace::default(), out));
        let Body::Watch(note) = from.recv().await.unwrap().body else {
            panic!("a note")
        };
        watching.abort();
        assert!(note.detail.ends_with(wanted), "{code}: {}", note.detail);
        assert_eq!(note.failure, Some(failure), "{code}");
    }
}

#[tokio::test]
async fn pods_are_listed_again_when_it_is_not_known_whether_one_was_deleted() {
    let lists = Arc::new(std::sync::Mutex::new(0));
    let counted = Arc::clone(&lists);
    let client = crate::live::silent::answers(move |request| {
        let answer = Response::builder();
        let pod = r#"{"kind":"Pod","metadata":{"namespace":"shop","name":"web","uid":"u","resourceVersion":"2"}}"#;
        let text = match request.uri().to_string() {
            uri if uri.contains("watch=1") => {
                format!("{{\"type\":\"DELETED\",\"object\":{pod}}}\n")
            }
            uri if uri.ends_with("/web") => {
                return answer.status(500).body(String::new()).unwrap();
            }
            _ => {
                let mut lists = counted.lock().unwrap();
                *lists += 1;
                let items = if *lists == 1 { pod } else { "" };
                format!(
                    r#"{{"kind":"PodList","metadata":{{"resourceVersion":"1"}},"items":[{items}]}}"#
                )
            }
        };
        answer.body(text).unwrap()
    });
    let (board, mut from) = Board::new(64);
    let mut watch = Watch::all("api/v1", "pods", "Pod");
    watch.labels = "app=web".to_owned();
    let pace = Pace {
        backoff: (Duration::from_millis(1), Duration::from_millis(1)),
        answer: Duration::from_millis(50),
        ..Pace::default()
    };
    let out = board.out(Source::Kube, "pods");
    let watching = tokio::spawn(run(client, watch, pace, out));
    let mut unclear = false;
    let listed_again = async {
        loop {
            match from.recv().await.unwrap().body {
                Body::Gap(gap) => unclear |= gap.resource == "pods" && gap.why == LEFT,
                Body::Watch(n) if unclear && n.kind == WatchKind::ListEnd => return,
                _ => {}
            }
        }
    };
    timeout(Duration::from_secs(30), listed_again)
        .await
        .unwrap();
    watching.abort();
    assert!(*lists.lock().unwrap() > 1);
}
