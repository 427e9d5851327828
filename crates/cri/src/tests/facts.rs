//! What answers say: inventories, container events, unknown methods.

use super::*;

#[test]
fn a_list_is_an_inventory_when_it_is_the_first_or_says_something_new() {
    let mut tap = Tap::new();
    let running = len(1, &container("a", 1));
    let exited = len(1, &container("a", 2));
    for (i, answer) in [&running, &running, &exited, &exited].iter().enumerate() {
        let stream = 2 * i as u32 + 1;
        tap.ask(stream, LIST, &[]).reply(stream, answer);
    }
    assert_eq!(tap.inventories().len(), 2);
    let first = tap.inventories()[0];
    assert!(first.complete && !first.sandboxes);
    assert_eq!(first.items[0].subject.pod.uid.as_str(), "uid-1");
    assert_eq!(first.items[0].subject.container, "main");
    for end in tap.ends() {
        assert_eq!(
            end.fields,
            [("items".into(), "1".into())],
            "counted when not decoded too"
        );
    }
    // containerd lists in any order, and Go writes maps in any order.
    let labels = |a: &str, b: &str| {
        let id = if a < b { "x" } else { "y" };
        let label = |k: &str| map(8, &format!("io.kubernetes.{k}"), k);
        [len(1, id.as_bytes()), label(a), label(b)].concat()
    };
    let (x, y) = (labels("pod.name", "pod.uid"), labels("pod.uid", "pod.name"));
    let (x2, y2) = (
        [len(1, b"x"), x[3..].to_vec()].concat(),
        [y[3..].to_vec(), len(1, b"y")].concat(),
    );
    tap.ask(11, LIST, &[])
        .reply(11, &[len(1, &x), len(1, &y)].concat())
        .ask(13, LIST, &[])
        .reply(13, &[len(1, &y2), len(1, &x2)].concat());
    assert_eq!(tap.inventories().len(), 3);
    tap.ask(15, LIST, &[]).reply(15, &exited);
    assert_eq!(tap.inventories().len(), 4);
    // A list with a filter is another list, and is not complete.
    let filter = len(1, &map(4, "io.kubernetes.pod.uid", "uid-1"));
    tap.ask(21, LIST, &filter).reply(21, &exited);
    assert_eq!(tap.inventories().len(), 5);
    assert!(!tap.inventories()[4].complete);
    let start = tap.starts()[7];
    assert!(start.filtered);
    assert_eq!(start.subject.pod.uid.as_str(), "uid-1");
    // A filter by a label that is not read bounds the list too.
    let filter = len(1, &map(4, "app", "web"));
    tap.ask(23, LIST, &filter).reply(23, &exited);
    assert!(!tap.inventories()[5].complete);
}

#[test]
fn a_streamed_list_is_one_inventory_when_it_ended_well() {
    const STREAM: &str = "/runtime.v1.RuntimeService/StreamContainers";
    let mut tap = Tap::new();
    for stream in [1, 3, 5] {
        tap.ask(stream, STREAM, &[]);
        for id in ["a", "b"] {
            let part = message(&len(1, &container(id, 1)));
            tap.s2c(&frame(DATA, 0, stream, &part));
        }
        tap.s2c(&trailers(stream, if stream == 1 { "13" } else { "0" }));
    }
    assert_eq!(tap.inventories().len(), 1, "broken, new, unchanged");
    assert_eq!(tap.inventories()[0].items.len(), 2);
    assert!(tap.inventories()[0].complete);
    assert_eq!(tap.ends()[2].messages, 2);
}

#[test]
fn container_events_carry_the_time_at_which_they_happened() {
    let mut tap = Tap::new();
    tap.ask(1, "/runtime.v1.RuntimeService/GetContainerEvents", &[]);
    let sandbox = [len(1, b"sb"), len(2, &metadata())].concat();
    let status = [
        len(1, b"c1"),
        len(2, &[len(1, b"main"), int(2, 4)].concat()),
        int(3, 2),
        int(6, 1_234_500),
        int(7, 137),
        len(10, b"OOMKilled"),
    ]
    .concat();
    for (id, kind) in [("sb", 0), ("c1", 2)] {
        let event = [
            len(1, id.as_bytes()),
            int(2, kind),
            int(3, 1_234_567),
            len(4, &sandbox),
            len(5, &status),
        ]
        .concat();
        tap.s2c(&frame(DATA, 0, 1, &message(&event)));
    }
    let mut ends = Vec::new();
    let events: Vec<_> = tap
        .out
        .iter()
        .filter_map(|o| match &o.body {
            Body::ContainerEvent(e) => {
                ends.push((e.exit_code, e.reason.to_string()));
                Some((o.stamp.at.0, e.kind, &e.subject))
            }
            _ => None,
        })
        .collect();
    assert_eq!(events.len(), 2);
    assert_eq!(
        (events[0].0, events[0].1),
        (1_234_567, ContainerEventKind::Created)
    );
    assert_eq!(events[0].2.attempt, Some(2), "the sandbox's own");
    assert_eq!(events[1].1, ContainerEventKind::Stopped);
    assert_eq!(events[1].0, 1_234_500, "the exit, not the event about it");
    assert_eq!(
        ends,
        [(None, String::new()), (Some(137), "OOMKilled".into())]
    );
    assert_eq!(events[1].2.container, "main");
    assert_eq!(events[1].2.attempt, Some(4));
    assert_eq!(events[1].2.pod.name, "web");
}

#[test]
fn the_old_package_and_unknown_services_and_methods_are_calls_too() {
    let mut tap = Tap::new();
    tap.ask(
        1,
        "/runtime.v1alpha2.RuntimeService/RunPodSandbox",
        &run_pod_sandbox(),
    )
    .ask(3, "/runtime.v1.RuntimeService/Later", b"whatever")
    .ask(5, "/grpc.health.v1.Health/Check", &[])
    .reply(1, &len(1, b"abc"))
    .reply(3, b"whatever")
    .reply(5, &[]);
    let starts: Vec<_> = tap
        .starts()
        .iter()
        .map(|s| (s.service, s.method.as_str(), s.subject.pod.name.as_str()))
        .collect();
    assert_eq!(
        starts,
        [
            (Service::RuntimeV1Alpha2, "RunPodSandbox", "web"),
            (Service::Runtime, "Later", ""),
            (Service::Other, "/grpc.health.v1.Health/Check", ""),
        ]
    );
    assert_eq!(tap.ends()[0].subject.sandbox_id.as_str(), "abc");
    assert_eq!(tap.ends()[1].response_bytes, 8);
}
