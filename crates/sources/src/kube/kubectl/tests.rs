//! What real kubectls printed of recorded objects (`fixtures/kubectl`), beside the same objects as JSON.

use super::super::super::LineDecoder as _;
use super::super::decode::KubeLines;
use super::*;
use kflow_model::PodUid;
use kflow_model::event::EventSeen;
use kflow_model::node::NodeSeen;
use kflow_model::pod::{Condition, ContainerState, PodSeen};

mod tickets;

fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kubectl");
    std::fs::read_to_string(format!("{folder}/{name}")).unwrap()
}

/// Decodes a text that was printed at this moment; every line has to be of use.
fn read(text: &str, at: &str) -> Vec<Observation> {
    let mut decoder = KubeLines::new(TimeHint {
        not_after: Nanos::parse_rfc3339(at).map(|(t, _)| t),
        ..TimeHint::default()
    });
    let mut out = Vec::new();
    for line in text.lines() {
        let fed = decoder.line(line.as_bytes(), &mut out);
        assert!(!matches!(fed, Fed::Malformed(_)), "{fed:?}: {line}");
    }
    let fed = decoder.finish(&mut out);
    assert!(!matches!(fed, Fed::Malformed(_)), "{fed:?}");
    out
}

fn pod(all: &[Observation]) -> PodSeen {
    let mut pods = all.iter().filter_map(|o| match &o.body {
        Body::Pod(p) => Some((**p).clone()),
        _ => None,
    });
    pods.next().unwrap()
}

fn events(all: &[Observation]) -> Vec<(Nanos, EventSeen)> {
    let event = |o: &Observation| match &o.body {
        Body::Event(e) => Some((o.stamp.at, (**e).clone())),
        _ => None,
    };
    all.iter().filter_map(event).collect()
}

/// Leaves out what kubectl does not print.
fn without_the_untold(mut p: PodSeen) -> PodSeen {
    p.uid = PodUid::default();
    p.resource_version = 0;
    p.generation = 0;
    p.created = Nanos::default();
    let spec = &mut p.spec;
    spec.restart_policy = "".into();
    spec.termination_grace_s = None;
    spec.image_pull_secrets.clear();
    for c in spec.init_containers.iter_mut().chain(&mut spec.containers) {
        c.pull_policy = "".into();
        c.sidecar = false;
        c.post_start = "".into();
        c.pre_stop = "".into();
        c.run_as_non_root = false;
    }
    let status = &mut p.status;
    status.observed_generation = 0;
    for c in &mut status.conditions {
        c.reason = "".into();
        c.message = "".into();
        c.transition = None;
    }
    for c in status
        .init_containers
        .iter_mut()
        .chain(&mut status.containers)
    {
        c.started = None;
        if let ContainerState::Waiting { message, .. } = &mut c.state {
            *message = "".into();
        }
        if let ContainerState::Terminated(t) = &mut c.state {
            t.id = "".into();
        }
    }
    p
}

#[test]
fn a_description_is_the_pod_but_for_what_it_does_not_say() {
    let json = pod(&read(&fixture("s1-healthy.json"), "2026-11-27T00:33:41Z"));
    for release in ["1.20", "1.36"] {
        let text = fixture(&format!("s1-healthy-{release}.txt"));
        let mut printed = pod(&read(&text, "2026-11-27T00:33:41Z"));
        assert_eq!(printed.uid.as_str(), "described:s01/healthy");
        if release == "1.20" {
            // Printed since 1.25, and probes of gRPC since 1.23.
            printed.spec.service_account = json.spec.service_account.clone();
        }
        assert_eq!(
            without_the_untold(printed),
            without_the_untold(json.clone()),
            "{release}"
        );
    }
}

#[test]
fn values_commands_and_annotations_are_not_read() {
    let text = "Name:  a\nNamespace:  b\nNode:  n/1\nAnnotations:  x: s3cret\nStatus:  Running\nContainers:\n  c:\n    Image:  i\n    Command:\n      s3cret\n    Args:\n      --password=s3cret\n    Liveness:  exec [sh -c s3cret delay=9s] delay=1s timeout=1s period=2s #success=1 #failure=3\n    Environment:\n      K:  s3cret\n      L:  <set to the key 'k' in secret 'named'>  Optional: false\nEvents:  <none>\n";
    let all = read(text, "2026-11-27T00:00:00Z");
    let seen = pod(&all);
    let c = seen.spec.containers.first().unwrap();
    assert_eq!(c.env_refs, ["secret/named"]);
    assert_eq!(c.probes.first().unwrap().initial_delay_s, 1);
    let session = format!("{all:?}");
    assert!(!session.contains("s3cret"), "{session}");
}

#[test]
fn a_table_of_events_is_the_events() {
    // `kubectl get events` has no counts, and `kubectl events` no containers.
    for (name, counts, parts) in [
        ("s2-events-get-1.36.txt", false, false),
        ("s2-events-wide-1.36.txt", true, true),
        ("s2-events-events-1.36.txt", true, false),
    ] {
        let key = |(at, e): &(Nanos, EventSeen)| {
            (
                at.0 / SECOND,
                e.reason.clone(),
                e.message.trim().to_owned(),
                e.warning,
                if counts { e.count } else { 1 },
                if parts {
                    e.container.clone()
                } else {
                    "".into()
                },
                e.object.kind.clone(),
                e.object.name.clone(),
            )
        };
        let moment = "2026-11-27T00:34:10.720Z";
        let mut want: Vec<_> = events(&read(&fixture("s2-events.json"), moment))
            .iter()
            .map(key)
            .collect();
        let mut got: Vec<_> = events(&read(&fixture(name), moment))
            .iter()
            .map(key)
            .collect();
        want.sort();
        got.sort();
        // Ages are whole seconds, counted from a moment within one.
        let shape = |v: &[(i64, _, _, _, _, _, _, _)]| v.iter().map(|e| e.0).collect::<Vec<_>>();
        for (a, b) in shape(&want).iter().zip(shape(&got)) {
            assert!((a - b).abs() <= 1, "{name}");
        }
        for v in [&mut want, &mut got] {
            for e in v.iter_mut() {
                e.0 = 0;
            }
            v.sort();
        }
        assert_eq!(got, want, "{name}");
    }
}

#[test]
fn a_node_is_the_node() {
    let node = |all: &[Observation]| -> NodeSeen {
        let mut nodes = all.iter().filter_map(|o| match &o.body {
            Body::Node(n) => Some((**n).clone()),
            _ => None,
        });
        let mut n = nodes.next().unwrap();
        n.resource_version = 0;
        n.volumes_attached.clear();
        n.conditions.sort();
        n
    };
    let moment = "2026-11-27T00:37:30Z";
    let json = node(&read(&fixture("s4-node1.json"), moment));
    assert_eq!(node(&read(&fixture("s4-node1-1.36.txt"), moment)), json);
}

/// As a chat leaves it: one blank of several, and nothing where a cell is empty.
fn without_blanks(text: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = text.lines().map(|l| words(l) + "\n");
    lines.collect()
}

#[test]
fn a_table_of_nodes_says_which_are_not_ready_or_cordoned() {
    let wide = fixture("s4-nodes-wide-1.36.txt");
    let cordoned = fixture("s8-nodes-1.20.txt");
    for (text, ready, cordoned, runtime) in [
        (&wide, false, false, "containerd://Unknown"),
        (&cordoned, true, true, ""),
        (&without_blanks(&cordoned), true, true, ""),
        (&without_blanks(&wide), false, false, ""),
    ] {
        let all = read(text, "2026-11-27T00:37:30Z");
        let [Body::Node(n)] = all.iter().map(|o| &o.body).collect::<Vec<_>>()[..] else {
            panic!("{text}: {all:?}");
        };
        assert_eq!(n.name, "node1", "{text}");
        let is_ready = n.condition("Ready").is_some_and(Condition::is_true);
        assert_eq!((is_ready, n.unschedulable), (ready, cordoned), "{text}");
        assert_eq!(n.runtime_version.as_str(), runtime, "{text}");
    }
}

#[test]
fn a_table_of_claims_says_their_phase_class_and_volume() {
    let volume = "pvc-0a8f5f0b-3c63-4b3e-b6f5-2f2b8d5a9d11";
    let wanted = [
        ("s05/data", Some("Pending"), Some("nosuch"), None),
        ("s05/logs", Some("Bound"), Some("standard"), Some(volume)),
        ("s05/old", Some("Lost"), None, Some("pv-gone")),
        (
            "shop/cache",
            None,
            Some("fast"),
            Some("pvc-77a3c1de-1b7a-4a53-8c5b-5c1f6bb7b0aa"),
        ),
    ];
    let ticket = format!(
        "$ kubectl -n s05 get pvc\n{}",
        fixture("synthetic-claims-1.36.txt")
    );
    let all = fixture("synthetic-claims-all-1.20.txt");
    let head: Vec<&str> = all.lines().take(3).collect();
    let all_collapsed = without_blanks(&head.join("\n"));
    for (text, rows) in [(ticket, 0..3), (all, 0..4), (all_collapsed, 0..2)] {
        let out = read(&text, "2026-11-27T00:37:30Z");
        let claims = out.iter().filter_map(|o| match &o.body {
            Body::Object(x) => Some(x),
            _ => None,
        });
        let told: Vec<_> = claims
            .map(|x| {
                let key = format!("{}/{}", x.object.namespace, x.object.name);
                (
                    key,
                    x.fact("phase"),
                    x.fact("storageClass"),
                    x.fact("volumeName"),
                )
            })
            .collect();
        let wanted = wanted[rows]
            .iter()
            .map(|(k, p, c, v)| ((*k).to_owned(), *p, *c, *v));
        assert_eq!(told, wanted.collect::<Vec<_>>(), "{text}");
    }
}

/// Without blanks a claim that lacks its class cannot be told from one that lacks its volume. A row of a pod that is not read may be
/// of any pod.
#[test]
fn a_row_that_cannot_be_read_does_not_end_its_table() {
    let claims = without_blanks(&fixture("synthetic-claims-all-1.20.txt"));
    let pods = "$ kubectl get pods -n shop\nNAME    READY   STATUS    RESTARTS   AGE\nweb-0   0/1     Pending   0          5m\n\
                web-1   0/1     Pend\nweb-2   0/1     Pending   0          5m\n";
    for (table, wanted) in [
        (claims.as_str(), ["data", "logs", "cache"].as_slice()),
        (pods, &["web-0", "web-2"]),
    ] {
        let mut decoder = KubeLines::new(TimeHint::default());
        let (mut out, mut unread) = (Vec::new(), 0);
        for line in table.lines().chain(["", "they hang"]) {
            let fed = decoder.line(line.as_bytes(), &mut out);
            unread += usize::from(fed == Fed::Malformed("row whose cells cannot be told apart"));
        }
        decoder.finish(&mut out);
        let name = |o: &Observation| match &o.body {
            Body::Object(x) => x.object.name.clone(),
            Body::Pod(p) => p.name.clone(),
            other => panic!("{other:?}"),
        };
        let names: Vec<Text> = out.iter().map(name).collect();
        assert_eq!(names, wanted);
        assert_eq!(unread, 1, "{table}");
    }
}

#[test]
fn a_command_ends_a_description_also_in_a_code_block_that_is_indented() {
    let description = fixture("s1-healthy-1.36.txt");
    let table = "$ kubectl get pods -n shop\nNAME    READY   STATUS    RESTARTS   AGE\nweb-0   0/1     Pending   0          5m\n";
    let ticket = format!("{description}\n{table}");
    let indented: Vec<String> = ticket.lines().map(|l| format!("    {l}")).collect();
    for text in [ticket, indented.join("\n")] {
        let all = read(&text, "2026-11-27T00:33:41Z");
        let notes = all.iter().filter_map(|o| match &o.body {
            Body::Watch(n) => Some(n.detail.as_str()),
            _ => None,
        });
        assert_eq!(notes.collect::<Vec<_>>(), ["shop/web-0"], "{text}");
    }
}

#[test]
fn the_command_of_a_list_of_events_says_nothing_of_what_stands_behind_other_text() {
    let events = "$ kubectl get events -n shop\nLAST SEEN   TYPE      REASON   OBJECT      MESSAGE\n\
                  4m          Warning   Failed   pod/web-0   not found\n";
    let table =
        "NAME    READY   STATUS    RESTARTS   AGE\nweb-1   0/1     Pending   0          5m\n";
    for (between, wanted) in [
        ("", Some("shop")),
        ("\n", Some("shop")),
        ("\nAnd of db:\n", Some(NAMESPACE)),
        ("kubectl get pods -n $NS\n", Some(NAMESPACE)),
        ("$ kubectl get pods -n db\n", Some("db")),
    ] {
        let all = read(&format!("{events}{between}{table}"), "2026-11-27T00:33:41Z");
        let pod = all.iter().find_map(|o| match &o.body {
            Body::Pod(p) => Some(p.namespace.as_str()),
            _ => None,
        });
        assert_eq!(pod, wanted, "{between}");
        let event = all.iter().find_map(|o| match &o.body {
            Body::Event(e) => Some(e.object.namespace.as_str()),
            _ => None,
        });
        assert_eq!(event, Some("shop"), "{between}");
    }
}

#[test]
fn a_command_in_a_description_is_a_part_of_it() {
    let args = "    Args:\n      set -e\n\n      kubectl get pods -n shop\n";
    let text = fixture("s1-healthy-1.36.txt");
    let at = "2026-11-27T00:33:41Z";
    let (before, after) = text.split_once("    State: ").unwrap();
    let all = read(&format!("{before}{args}    State: {after}"), at);
    assert_eq!(pod(&all), pod(&read(&text, at)));
}

#[test]
fn claims_and_volumes_are_read() {
    let text = "Name:          data\nNamespace:     shop\nStorageClass:  fast\nStatus:        Pending\nVolume:        \nLabels:        <none>\nAnnotations:   <none>\nFinalizers:    [kubernetes.io/pvc-protection]\nCapacity:      \nAccess Modes:  \nVolumeMode:    Filesystem\nUsed By:       web-0\nEvents:\n  Type     Reason              Age                 From                         Message\n  ----     ------              ----                ----                         -------\n  Warning  ProvisioningFailed  2s (x26 over 6m2s)  persistentvolume-controller  storageclass.storage.k8s.io \"fast\" not found\n";
    let all = read(text, "2026-11-27T00:10:00Z");
    let claim = all.iter().find_map(|o| match &o.body {
        Body::Object(x) => Some(x),
        _ => None,
    });
    let claim = claim.unwrap();
    assert_eq!(claim.object.kind, "PersistentVolumeClaim");
    assert_eq!(claim.fact("phase"), Some("Pending"));
    assert_eq!(claim.fact("storageClass"), Some("fast"));
    let (_, e) = events(&all).remove(0);
    assert_eq!(
        (e.count, e.object.kind.as_str()),
        (26, "PersistentVolumeClaim")
    );
    assert_eq!(e.object.name, "data");
}

/// The form is that of k8s.io/kubectl 1.36, pkg/describe/describe.go, `describePersistentVolume`.
#[test]
fn a_volume_says_from_which_nodes_it_can_be_used() {
    let text = "Name:              ssd\nLabels:            <none>\nAnnotations:       <none>\nFinalizers:        [kubernetes.io/pv-protection]\nStorageClass:      local\nStatus:            Bound\nClaim:             shop/data\nReclaim Policy:    Retain\nAccess Modes:      RWO\nVolumeMode:        Filesystem\nCapacity:          1Gi\nNode Affinity:     \n  Required Terms:  \n    Term 0:        kubernetes.io/hostname in [node9]\n    Term 1:        zone in [a, b]\n                   disk exists\nMessage:           \nSource:\n    Type:  LocalVolume (a persistent volume backed by local storage on a node)\n    Path:  /mnt/ssd\nEvents:    <none>\n";
    let all = read(text, "2026-11-27T00:10:00Z");
    let volume = all.iter().find_map(|o| match &o.body {
        Body::Object(x) => Some(x),
        _ => None,
    });
    let volume = volume.unwrap();
    let facts = |key| volume.fact(key).unwrap_or_default();
    let terms = "kubernetes.io/hostname=node9 or zone in (a,b),disk";
    assert_eq!(facts("nodeAffinity"), terms);
    let others = ["capacity", "volumeMode", "claimName", "accessModes"].map(facts);
    assert_eq!(others, ["1Gi", "Filesystem", "data", "ReadWriteOnce"]);
}

/// The moment at which kubectl ran is in the text, when its `Scheduled` is, and a file that was copied later says another.
#[test]
fn ages_count_from_the_moment_that_the_text_tells() {
    let text = fixture("s2-image-missing-1.36.txt");
    let (told, copied) = ("2026-11-27T00:34:10.376Z", "2027-01-03T10:00:00Z");
    let at = |moment: &str| read(&text, moment).first().unwrap().stamp.seen;
    assert_eq!(at(told), Nanos::parse_rfc3339(told).unwrap().0);
    let off = at(copied).since(at(told));
    assert!((-2 * SECOND..=2 * SECOND).contains(&off), "{off}");
}

/// A cluster whose clock is ahead of the one that told when the text was printed, with Events and without.
#[test]
fn nothing_in_a_description_is_later_than_the_description() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/kubectl");
    let mut read_of = (0, 0);
    for file in std::fs::read_dir(folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.strip_suffix(".txt").is_none() {
            continue;
        }
        let text = fixture(&name);
        let without = text.split("\nEvents:").next().unwrap();
        for text in [text.as_str(), without] {
            let words = text.lines().flat_map(|l| l.split("  ")).map(str::trim);
            let times = words.filter_map(Nanos::parse_rfc2822);
            let Some(newest) = times.max() else { continue };
            let all = read(text, "2026-11-20T00:00:00Z");
            let object = |o: &&Observation| matches!(o.body, Body::Pod(_) | Body::Node(_));
            for o in all.iter().filter(object) {
                assert!(o.stamp.seen >= newest, "{name}: {newest:?} {o:?}");
                match o.body {
                    Body::Pod(_) => read_of.0 += 1,
                    _ => read_of.1 += 1,
                }
            }
        }
    }
    assert!(read_of.0 > 40 && read_of.1 > 1, "{read_of:?}");
}

#[test]
fn several_descriptions_and_what_stands_around_them() {
    let text = format!(
        "{}\n\n{}",
        fixture("s2-image-missing-1.36.txt"),
        fixture("s2-cm-missing-1.36.txt")
    );
    let all = read(&text, "2026-11-27T00:34:15Z");
    let names: Vec<&str> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::Pod(p) => Some(p.name.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["image-missing", "cm-missing"]);
    // A last message of the container of several lines, one of which looks like the begin of another description.
    let forged = fixture("s1-healthy-1.36.txt").replace(
        "      Reason:       Completed\n",
        "      Reason:       Completed\n      Message:      gone\nName:  other\nEvents:\n",
    );
    let all = read(&forged, "2026-11-27T00:33:41Z");
    assert_eq!(pod(&all).name, "healthy");
    // Lines before it are no part of it.
    let mut decoder = KubeLines::new(TimeHint::default());
    let mut out = Vec::new();
    for line in [
        "$ kubectl describe pod a",
        "Name:  a",
        "Namespace:  b",
        "Node:  n/1",
        "Status:  Pending",
    ] {
        decoder.line(line.as_bytes(), &mut out);
    }
    decoder.finish(&mut out);
    assert_eq!(pod(&out).name, "a");
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_odd(text in "(Name:  [a-z]{1,3}\n|Namespace:  x\n|Node: \t?[a-z/<>]{0,4}\n|Status:  [A-Za-z ()<>0-9]{0,20}\n|Containers:\n|  c:\n|    [A-Z][a-z]{1,9}:? {0,3}[ -~é]{0,12}\n|Events:[ <none>]{0,8}\n|  Type  Reason  Age  From  Message\n|  (Normal|Warning)  [A-Z][a-z]{1,5}  [0-9smhd<>()x ]{0,12}  [a-z,]{0,9}  [ -~\u{7f}-\u{ff}]{0,20}\n|[ -~]{0,30}\n|\n){0,40}") {
        let mut decoder = KubectlText::new(TimeHint::default());
        let mut out = Vec::new();
        for line in text.split('\n') {
            decoder.line(line.as_bytes(), &mut out);
        }
        decoder.finish(&mut out);
    }
}

#[test]
fn a_description_tells_when_it_was_printed() {
    let head = "Name:           nginx\nNamespace:      default\nNode:           node1/10.0.0.1\nStart Time:     Tue, 04 Sep 2018 10:00:00 +0000\nStatus:         Pending\nEvents:\n";
    let new = "  Type    Reason     Age   From               Message\n  ----    ------     ----  ----               -------\n";
    let old = "  FirstSeen\tLastSeen\tCount\tFrom\t\t\tSubObjectPath\tType\tReason\tMessage\n  ---------\t--------\t-----\t----\t\t\t-------------\t----\t------\t-------\n";
    let at = |text: &str| super::printed_at(text).map(kflow_model::Nanos::to_rfc3339_seconds);
    for (rows, want) in [
        (
            format!(
                "{new}  Normal  Scheduled  7s    default-scheduler  Successfully assigned default/nginx to node1\n"
            ),
            "2018-09-04T10:00:09Z",
        ),
        (
            format!(
                "{old}  7s\t7s\t1\tdefault-scheduler\t\t\tNormal\tScheduled\tSuccessfully assigned nginx to node1\n"
            ),
            "2018-09-04T10:00:09Z",
        ),
        // Anywhere within that day.
        (
            format!(
                "{new}  Normal  Scheduled  2d    default-scheduler  Successfully assigned default/nginx to node1\n"
            ),
            "2018-09-07T10:00:01Z",
        ),
    ] {
        assert_eq!(
            at(&format!("{head}{rows}")).as_deref(),
            Some(want),
            "{rows}"
        );
        assert_eq!(at(&rows), None, "{rows}");
    }
}
