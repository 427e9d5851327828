//! What kubectl printed, within a ticket: what ends it, and what does not.

use super::*;

const MOMENT: &str = "2026-11-27T00:34:11Z";
const PROMPTS: [&str; 16] = [
    "$ ",
    "# ",
    "## ",
    "root@n1:~# ",
    "[root@master-0 ~]# ",
    "me@mac ~ % ",
    "PS C:\\> ",
    "C:\\Users\\me>",
    "~/src main* ❯ ",
    "❯ ",
    "λ ",
    "➜  app git:(main) ✗ ",
    "me@host ~/s/app (main) [SIGINT]> ",
    "┌──(me㉿kali)-[~]\n└─$ ",
    "sh-4.4# ",
    "> ",
];

/// Decodes a ticket, of which lines may be of no use.
fn ticket(text: &str) -> Vec<Observation> {
    let mut decoder = KubeLines::new(TimeHint {
        not_after: Nanos::parse_rfc3339(MOMENT).map(|(t, _)| t),
        ..TimeHint::default()
    });
    let mut out = Vec::new();
    for line in text.lines() {
        decoder.line(line.as_bytes(), &mut out);
    }
    decoder.finish(&mut out);
    out
}

#[test]
fn a_prompt_ends_the_events_of_a_description_and_a_message_that_looks_like_one_does_not() {
    let bare = fixture("s2-image-missing-1.36.txt");
    let want = ticket(&bare);
    let (before, rows) = bare.split_at(bare.find("  Normal   BackOff").unwrap());
    let output = "dmesg | tail\nEXT4-fs (sdb): Structure needs cleaning\n/var/lib/kubelet/pods/11111111-2222-4333-8444-555555555555/volumes\n";
    for prompt in PROMPTS {
        for blank in ["", "\n"] {
            for text in [
                format!("{bare}{blank}{prompt}{output}"),
                format!("{bare}{blank}{prompt}kubectl cordon node1\nnode/node1 cordoned\n"),
                format!("{before}{blank}{prompt}{output}{rows}"),
            ] {
                assert_eq!(ticket(&text), want, "{text}");
            }
        }
    }
    // Indented, as in a list of Markdown.
    let text = format!("{bare}[root@master-0 ~]# {output}");
    let indented: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
    assert_eq!(ticket(&indented.join("\n")), want);
}

/// A message may have blank lines. Behind the last one nothing shows what is still a part of it.
#[test]
fn what_stands_behind_the_last_message_and_a_blank_line_is_no_part_of_it() {
    let bare = fixture("s2-image-missing-1.36.txt");
    let prose = "I can log in by hand, and dmesg says: Structure needs cleaning\n\n**What I tried**\nall of it\n";
    assert_eq!(ticket(&format!("{bare}\n{prose}")), ticket(&bare));
    let (before, rows) = bare.split_at(bare.find("  Normal   BackOff").unwrap());
    let within = ticket(&format!("{before}\n{prose}{rows}"));
    let is_whole = |o: &Observation| matches!(&o.body, Body::Event(e) if e.message.ends_with("Structure needs cleaning\n**What I tried**\nall of it"));
    assert!(within.iter().any(is_whole), "{within:?}");
    assert_eq!(within.len(), ticket(&bare).len());
}

/// Kyverno 1.11, as its site and tickets show it (pkg/webhooks/utils/block.go, `GetBlockedMessages`).
#[test]
fn a_message_of_paragraphs_is_read_to_its_end() {
    let message = "Error creating: admission webhook \"validate.kyverno.svc-fail\" denied the request: \n\n\
                   resource Pod/shop/web-6d5f8c7b9-x2x8k was blocked due to the following policies \n\n\
                   require-labels:\n  check-for-labels: 'validation error: The label team is required.'\n";
    let text = format!(
        "Name:           web-6d5f8c7b9\nNamespace:      shop\nReplicas:       0 current / 1 desired\n\
         Pods Status:    0 Running / 0 Waiting / 0 Succeeded / 0 Failed\nEvents:\n  \
         Type     Reason        Age                From                   Message\n  \
         Warning  FailedCreate  3s (x13 over 24s)  replicaset-controller  {message}"
    );
    for behind in ["", "\nWe have no such policy in staging\n"] {
        let all = ticket(&format!("{text}{behind}"));
        let [(_, e)] = &events(&all)[..] else {
            panic!("{all:?}");
        };
        let lines: Vec<&str> = e.message.lines().collect();
        let [_, blocked, policy, rule] = lines[..] else {
            panic!("{lines:?}");
        };
        assert!(blocked.ends_with("the following policies"), "{lines:?}");
        assert_eq!(policy, "require-labels:");
        assert!(rule.ends_with("label team is required.'"), "{lines:?}");
    }
}

#[test]
fn a_description_is_read_as_a_mail_leaves_it() {
    let bare = fixture("s2-image-missing-1.36.txt");
    let want = ticket(&bare);
    let quoted = |mark: &str, text: &str| -> String {
        let lines: Vec<String> = text.lines().map(|l| format!("{mark}{l}")).collect();
        lines.join("\n") + "\n"
    };
    for text in [
        bare.replace('\n', "\r\n"),
        quoted("> ", &bare) + "On node3 dmesg says: Structure needs cleaning\n",
    ] {
        assert_eq!(ticket(&text), want, "{text}");
    }
}

/// The prompt of fish is the mark of a quotation.
#[test]
fn a_quotation_ends_what_stands_before_it() {
    let image = fixture("s2-image-missing-1.36.txt");
    let configmap = fixture("s2-cm-missing-1.36.txt");
    let quoted: Vec<String> = configmap.lines().map(|l| format!("> {l}")).collect();
    let want = [ticket(&image), ticket(&configmap)].concat();
    assert_eq!(ticket(&(image.clone() + &quoted.join("\n"))), want);
    let table = "> kubectl get pods -n shop\nNAME    READY   STATUS    RESTARTS   AGE\nweb-0   0/1     Pending   0          5m\n";
    let want = [ticket(&image), ticket(table)].concat();
    assert_eq!(want.len(), ticket(&image).len() + 2);
    assert_eq!(ticket(&format!("{image}{table}")), want);
}

/// kubectl writes the text of a termination message as it is.
#[test]
fn the_lines_of_a_containers_last_message_are_that_message() {
    let bare = fixture("s12-crash-1.36.txt");
    let want = read(&bare, MOMENT);
    for message in [
        "first\nsecond",
        "panic: cannot open config\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:7 +0x1d",
        "gone\n\n# Traceback of worker\nstack follows",
        "gone\n\n$ ./run.sh\nnot found",
        "gone\n$ kubectl get pods -n shop\nNAME    READY   STATUS    RESTARTS   AGE",
        "gone\n```\nsource\n```",
        "gone\nName:  other\nNamespace:  shop\nEvents:",
        "gone\nEvents:\n  Type     Reason     Age   From   Message",
        "gone\nState:  x\nExit Code:  0",
    ] {
        for (key, is_last) in [("    State: ", false), ("    Last State: ", true)] {
            let (before, after) = bare.split_once(key).unwrap();
            let after = after.replacen(
                "      Exit Code:",
                &format!("      Message:      {message}\n      Exit Code:"),
                1,
            );
            let mut all = read(&format!("{before}{key}{after}"), MOMENT);
            let told = all.iter_mut().find_map(|o| {
                let Body::Pod(p) = &mut o.body else {
                    return None;
                };
                let c = p.status.containers.first_mut()?;
                let ended = match &mut c.state {
                    ContainerState::Terminated(t) if !is_last => Some(t),
                    _ => c.last.as_mut(),
                };
                Some(std::mem::take(&mut ended?.message))
            });
            assert_eq!(told.as_deref(), Some(message), "{key}");
            assert_eq!(all, want, "{key}{message}");
        }
    }
}

/// The first message lacks its `Exit Code`, which was cut.
#[test]
fn lines_behind_a_message_that_does_not_end_are_read_as_they_are() {
    let text = fixture("s12-crash-1.36.txt").replacen(
        "      Exit Code:    3\n",
        "        Message:    cut\n",
        1,
    );
    let message = "      Message:      first\nsecond\n      Exit Code:";
    let all = read(&text.replace("      Exit Code:", message), MOMENT);
    let seen = pod(&all);
    let last = seen.status.containers.first().and_then(|c| c.last.as_ref());
    assert_eq!(last.map(|t| t.message.as_str()), Some("first\nsecond"));
}

/// The paste was cut between `Message:` and `Exit Code:`.
#[test]
fn a_description_that_was_cut_in_a_message_ends_before_the_next_one() {
    let text = fixture("s12-crash-1.36.txt");
    let (head, _) = text.split_once("      Exit Code:").unwrap();
    let next = text.replace("crash", "second");
    for between in ["", "\n", "[…]\n\n", "$ kubectl describe pod second\n"] {
        let all = ticket(&format!(
            "{head}      Message:      panic: no config\n{between}{next}"
        ));
        let names = all.iter().filter_map(|o| match &o.body {
            Body::Pod(p) => Some(p.name.as_str()),
            _ => None,
        });
        assert_eq!(names.collect::<Vec<_>>(), ["crash", "second"], "{between}");
        assert_eq!(all.split_first().unwrap().1, ticket(&next), "{between}");
    }
}

/// `cat *.txt` and a loop of `kubectl describe` leave no blank line between two descriptions.
#[test]
fn each_of_several_descriptions_has_its_own_events() {
    let image = fixture("s2-image-missing-1.36.txt");
    let second = image
        .replace("image-missing", "second")
        .replace("nope:1", "good:1");
    let (front, _) = image.split_once("Events:").unwrap();
    let without_events = format!("{front}Events:  <none>\n");
    let configmap = fixture("s2-cm-missing-1.36.txt");
    let node = fixture("s4-node1-1.36.txt");
    for (first, second) in [
        (&image, &second),
        (&without_events, &configmap),
        (&node, &image),
    ] {
        let want = [read(first, MOMENT), read(second, MOMENT)].concat();
        for between in ["", "\n", "\n\n"] {
            assert_eq!(read(&format!("{first}{between}{second}"), MOMENT), want);
        }
    }
}

/// What a text tells: each pod with the reason of its first container, each Event with its object, age, reason and the end of its
/// message.
fn short(text: &str) -> Vec<String> {
    let (moment, _) = Nanos::parse_rfc3339(MOMENT).unwrap();
    let all = ticket(text);
    let one = |o: &Observation| match &o.body {
        Body::Pod(p) => {
            let container = p.status.containers.iter().chain(&p.status.init_containers);
            let reason = container.map(|c| match &c.state {
                ContainerState::Waiting { reason, .. } => format!("{} {reason}", c.name),
                _ => String::new(),
            });
            let reason: Vec<String> = reason.collect();
            Some(format!("{}/{} {}", p.namespace, p.name, reason.join(",")))
        }
        Body::Event(e) => {
            let ago = moment.since(o.stamp.at) / SECOND;
            let end: Vec<&str> = e.message.rsplit(' ').take(2).collect();
            let (kind, object) = (&e.object.kind, &e.object);
            Some(format!(
                "{kind} {}/{} {ago} {} … {} {}",
                object.namespace,
                object.name,
                e.reason,
                end.last().copied().unwrap_or_default(),
                end.first().copied().unwrap_or_default()
            ))
        }
        _ => None,
    };
    all.iter().filter_map(one).collect()
}

/// Lines of public reports, whose addresses are in `fixtures/reports.tsv`.
#[test]
fn pasted_lines_tell_what_they_say() {
    for (text, want) in [
        // Rows of pods without titles, also behind rows of Events.
        (
            "```\nnvidia-whr6m   0/1   Init:CrashLoopBackOff   5 (2m18s ago)   5m25s\nweb-0   0/1   Pending   0   5m\n```\n",
            &[
                "NAMESPACE/nvidia-whr6m  CrashLoopBackOff",
                "NAMESPACE/web-0 ",
            ][..],
        ),
        (
            "$ kubectl get po -n shop | grep -v Running\nweb-0   0/1   ErrImagePull   0   5m\nIt hangs.\nweb-1   0/1   Pending   0   5m\n",
            &["shop/web-0  ErrImagePull", "NAMESPACE/web-1 "],
        ),
        (
            "```\nWarning  Failed  8s  kubelet  Error: secret \"db\" not found\nshop   web-0   0/1   ErrImagePull   0   5m\n```\n",
            &[
                "Pod NAMESPACE/POD 8 Failed … not found",
                "shop/web-0  ErrImagePull",
            ],
        ),
        // Messages that name their pods, behind captions.
        (
            "```\nkafka\nUnable to mount volumes for pod \"kafka-0_default(kafkapod-guid-xxxx)\": list of unmounted volumes=[a]\n\n             zookeeper\nAttachVolume.Attach failed for volume \"pvc-1\" : the disk is currently being detached\n             Unable to mount volumes for pod \"zoo-0_default(zoopod-guid-xxxx)\": list of unmounted volumes=[b]\n```\n",
            &[
                "Pod default/kafka-0 0 FailedMount … unmounted volumes=[a]",
                "Pod default/zoo-0 0 FailedAttachVolume … being detached",
                "Pod default/zoo-0 0 FailedMount … unmounted volumes=[b]",
            ],
        ),
        (
            "Unable to mount volumes for pod \"a_shop(x-1)\": timed out\nError: secret \"db\" not found\nUnable to mount volumes for pod \"b_shop(x-2)\": timed out\n",
            &[
                "Pod shop/a 0 FailedMount … timed out",
                "Pod NAMESPACE/POD 0 Failed … not found",
                "Pod shop/b 0 FailedMount … timed out",
            ],
        ),
        // The same message of a pod that nothing names, in two places.
        (
            "Error: secret \"a\" not found\n\nand then\nError: secret \"b\" not found\n",
            &[
                "Pod NAMESPACE/POD 0 Failed … not found",
                "Pod NAMESPACE/POD 0 Failed … not found",
            ],
        ),
        // Names in messages.
        (
            "1h   1m   37   api-01pq7   Pod      Warning   FailedMount   {kubelet gke-4}   Unable to mount volumes for pod \"api-01pq7_default(afc5ae68-5b5e-11e6-afbb-42010a800105)\": timeout expired\n",
            &["Pod default/api-01pq7 3600 FailedMount … timeout expired"],
        ),
        (
            "Failed create pod sandbox: rpc error: rewrite failed for pod \"router-1-deploy\": \"a\" does not exist\n",
            &["Pod NAMESPACE/router-1-deploy 0 FailedCreatePodSandBox … not exist"],
        ),
        (
            "Successfully assigned prod/job-driver to n1\n\nNew events:\nMountVolume.SetUp failed for volume \"c\" : object \"prod\"/\"map\" not registered\n",
            &[
                "Pod prod/job-driver 0 Scheduled … to n1",
                "Pod prod/job-driver 0 FailedMount … not registered",
            ],
        ),
        (
            "MountVolume.SetUp failed for volume \"c\" : object \"prod\"/\"map\" not registered\n",
            &["Pod prod/POD 0 FailedMount … not registered"],
        ),
        // A row of old that was cut, and the age of what worked before.
        (
            "  FirstSeen\tLastSeen\tCount\tFrom\tSubObjectPath\tType\tReason\tMessage\n  ---------\t--------\t-----\t----\t-------------\t----\t------\t-------\n             \x20 5m\t4m\t1\tstatefulset\t\tNormal\tSuccessfulCreate\tcreate Pod etcd-1 in StatefulSet etcd successful\n             \x20 4m\t4m\t1\tstatefulset\t\tWarning\tFailedCreate\tcreate Pod etcd-1 in StatefulSet etcd failed error: please try again.\n  4m\t4m\t1\n",
            &[
                "StatefulSet NAMESPACE/etcd 241 SuccessfulCreate … etcd successful",
                "StatefulSet NAMESPACE/etcd 240 FailedCreate … try again.",
            ],
        ),
        // A row that was broken behind its source.
        (
            "```\n  Warning  FailedCreate  42s (x17 over 6m10s)  replicaset-controller  \nError creating: pods \"kcp-75d5778b7d-\" is forbidden: \nunable to validate: [\n```\n",
            &["ReplicaSet NAMESPACE/kcp-75d5778b7d 42 FailedCreate … validate: ["],
        ),
        ("Warning  Failed  42s  kubelet\n\nIt hangs.\n", &[]),
        // Times before lines.
        (
            "2026-11-27T00:30:30.901696Z [Normal] Successfully assigned hub/jupyter-a to n1\n2026-11-27T00:30:30Z [Warning] Multi-Attach error for volume \"pvc-b\" Volume is already attached\n2026-11-27T00:34:10Z [Warning] Unable to attach or mount volumes: unmounted volumes=[a]: timed out\n",
            &[
                "Pod hub/jupyter-a 220 Scheduled … to n1",
                "Pod hub/jupyter-a 221 FailedAttachVolume … already attached",
                "Pod hub/jupyter-a 1 FailedMount … timed out",
            ],
        ),
        // Messages of several lines outside of a code block (MicrosoftDocs/SupportArticles-docs, longhorn/website), and prose behind.
        (
            "AttachVolume.Attach failed for volume \"pv-azuredisk\": \nrpc error: code = NotFound \ndesc = Volume not found, failed with error: Retriable: false, \nRawError: \n{\n\"error\":\n{\"code\":\"AuthorizationFailed\",\n\"message\":\"The client has no authorization\"\n}\n}\nWe gave it the role.\n",
            &["Pod NAMESPACE/POD 0 FailedAttachVolume … no authorization\"\n}\n}"],
        ),
        (
            "  Warning  FailedMount  30s (x7 over 63s)  kubelet  MountVolume.SetUp failed for volume \"a\" : 'fsck' found errors on device /dev/longhorn/a but could not correct them: fsck from util-linux 2.31.1\next2fs_check_if_mount: Can't check\n/dev/longhorn/a contains a file system with errors\n\n/dev/longhorn/a: UNEXPECTED INCONSISTENCY; RUN fsck MANUALLY.\n  (i.e., without -a or -p options)\n/dev/longhorn/b is another one\n",
            &["Pod NAMESPACE/POD 30 FailedMount … -p options)"],
        ),
        (
            "MountVolume.MountDevice failed for volume \"a\" : mount failed: exit status 32\nMounting command: systemd-run\nOutput: Running scope as unit run-r.scope.\nmount: wrong fs type, bad option, bad superblock on /dev/sde,\n       missing codepage or helper program, or other error\nmount says it\n",
            &["Pod NAMESPACE/POD 0 FailedMount … other error"],
        ),
        (
            "GRPC error: rpc error: code = Aborted desc = an operation with the given Volume ID\n0001-0009-rook-ceph already exists.\n",
            &["Pod NAMESPACE/POD 0 FailedMount … already exists."],
        ),
        (
            "Oct 11 07:42:23 dev-worker-1 k3s[1294]: Mounting command: /usr/local/sbin/nsmounter\nOct 11 07:42:23 dev-worker-1 k3s[1294]: Mounting arguments: mount -t nfs\nOct 11 07:42:23 dev-worker-1-b k3s[1294]: Output: mount.nfs: Protocol not supported\n",
            &["Pod NAMESPACE/POD 0 FailedMount … not supported"],
        ),
        (
            "MountVolume.SetUp failed for volume \"a\" : timed out\n/dev/sdb is its disk\n\"a\" is the claim\ncode is here\n",
            &["Pod NAMESPACE/POD 0 FailedMount … timed out"],
        ),
        // Fields of an Event, out of its JSON.
        (
            "It says\n\"message\": \"Error: secret \\\"db\\\" not found\",\n\"reason\": \"Failed\",\n",
            &["Pod NAMESPACE/POD 0 Failed … not found"],
        ),
        // Words of programs count at the begin of a line.
        (
            "plugin type=\"portmap\" failed (add): failed to open iptables: exec: \"iptables\": executable file not found\n",
            &["Pod NAMESPACE/POD 0 FailedCreatePodSandBox … not found"],
        ),
        (
            "It is the line plugin type=\"portmap\" failed (add) that I do not understand\n",
            &[],
        ),
        // Within a sentence.
        (
            "创建的pod状态是ContainerCreating，提示unable to pull sandbox image \\\"registry.access.redhat.com/rhel7/pod-infrastr，请问楼主\n",
            &[
                "Pod NAMESPACE/POD 0 FailedCreatePodSandBox … image \"registry.access.redhat.com/rhel7/pod-infrastr",
            ],
        ),
        (
            "イベントログには「0/1 nodes are available: 1 Too many pods.」や「node(s) had taint」といった、\n",
            &["Pod NAMESPACE/POD 0 FailedScheduling … many pods."],
        ),
        (
            "It says \"Failed to pull image \"x\": not found\" and I do not know why\n",
            &["Pod NAMESPACE/POD 0 Failed … not found"],
        ),
        (
            "pods are stuck with the event message: Failed to create pod sandbox: loading seccomp filter: errno 524: unknown. We traced it back to a bug. As such\n",
            &["Pod NAMESPACE/POD 0 FailedCreatePodSandBox … 524: unknown"],
        ),
        // What the apiserver says of a log.
        (
            "```\nkubectl logs --namespace=hm-prefect agent-b2frc\n```\n\nIt shows\n\n> Error from server (BadRequest): container \"agent\" in pod \"agent-b2frc\" is waiting to start: CreateContainerConfigError\n\nI found\n\n> Error: secret \"key\" not found\n",
            &[
                "hm-prefect/agent-b2frc agent CreateContainerConfigError",
                "Pod hm-prefect/agent-b2frc 0 Failed … not found",
            ],
        ),
        (
            "NAME    READY   STATUS                  RESTARTS   AGE\nweb-0   0/1     Init:CrashLoopBackOff   4          5m\n$ kubectl logs web-0\nError from server (BadRequest): container \"c\" in pod \"web-0\" is waiting to start: PodInitializing\n",
            &["NAMESPACE/web-0  CrashLoopBackOff"],
        ),
        // A description that begins at the status; of a claim it says nothing of a pod.
        (
            "```\nStatus:                    Terminating (lasts 8d)\nTermination Grace Period:  30s\n```\n",
            &["NAMESPACE/POD "],
        ),
        (
            "```\nStatus:        Terminating (lasts 8d)\nVolume:        pvc-b\nCapacity:      5Gi\n```\n",
            &[],
        ),
    ] {
        assert_eq!(short(text), want, "{text}");
    }
}

/// longhorn/website, docsy/content/kb; rook/rook, Documentation/Troubleshooting.
#[test]
fn words_of_mount_are_those_of_the_event() {
    for (line, want) in [
        (
            "Mounting arguments: mount -t nfs 10.43.207.185:/pvc-13538170-4278-4467-b2b0-1f1ba6f54a4c /var/lib/kubelet/plugins/kubernetes.io/csi/driver.longhorn.io/185c/globalmount",
            "MountVolume.MountDevice failed for volume \"pvc-13538170-4278-4467-b2b0-1f1ba6f54a4c\" : Mounting arguments: ",
        ),
        (
            "Output: mount: /var/lib/kubelet/pods/cf0a0b5b-106e-4793-a74a-28bfae21be1a/volumes/kubernetes.io~csi/data/mount: already mounted or mount point busy.",
            "MountVolume.SetUp failed for volume \"data\" : Output: mount: ",
        ),
        (
            "wrong fs type, bad option, bad superblock on /dev/longhorn/<volume> missing codepage",
            "MountVolume.SetUp failed for volume \"VOLUME\" : wrong fs type",
        ),
        (
            "Error: calico/node is not ready: BIRD is not ready",
            "Readiness probe failed: calico/node is not ready: BIRD",
        ),
    ] {
        let all = ticket(line);
        let [(_, e)] = &events(&all)[..] else {
            panic!("{line}: {all:?}");
        };
        assert!(e.message.starts_with(want), "{line}\n{}", e.message);
    }
}

/// longhorn/website, docsy/content/kb: since kubectl 1.20 rows of the kubelet have no node.
#[test]
fn the_kubelet_that_tells_of_a_pod_is_that_of_its_node() {
    let row = |age: &str, rest: &str| format!("  Normal   {rest:<26}  {age}  ");
    let table = |node: &str| {
        format!(
            "Events:\n  Type     Reason                      Age  From               Message\n  ----     ------                      ---  ----               -------\n{}default-scheduler  Successfully assigned default/web-state-rwx-0 to ip-10-0-2-142\n{}attachdetach-controller  AttachVolume.Attach succeeded for volume \"a\"\n{}kubelet            MountVolume.MountDevice failed for volume \"a\" : x\n{node}",
            row("10m", "Scheduled"),
            row("10m", "SuccessfulAttachVolume"),
            row("13s", "FailedMount"),
        )
    };
    let hosts = |text: &str| {
        let all = events(&ticket(text));
        let hosts = all.iter().map(|(_, e)| e.host.to_string());
        hosts.collect::<Vec<_>>()
    };
    assert_eq!(hosts(&table("")), ["", "", "ip-10-0-2-142"]);
    // A pod of the same name on another node.
    let other = format!(
        "{}default-scheduler  Successfully assigned default/web-state-rwx-0 to ip-10-0-2-7\n",
        row("9m", "Scheduled")
    );
    assert_eq!(hosts(&table(&other)), ["", "", "", ""]);
}

/// kubernetes/kubernetes pkg/kubelet/runtime.go, as awsdocs/amazon-eks-user-guide and aws/karpenter-provider-aws show it.
#[test]
fn a_node_without_a_network_is_not_ready() {
    const SAID: &str = "untime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";
    let nodes = |text: &str| {
        let all = ticket(text);
        let node = |o: &Observation| match &o.body {
            Body::Node(n) => {
                let ready = n.conditions.iter().find(|c| c.kind == "Ready")?;
                Some(format!("{} {} {}", n.name, ready.status, ready.message))
            }
            _ => None,
        };
        all.iter().filter_map(node).collect::<Vec<_>>()
    };
    for (text, node, begin) in [
        (format!("KubeletNotReady r{SAID}\n"), "NODE", "r"),
        (
            format!("4191 kubelet.go:2130] Container r{SAID}\n"),
            "NODE",
            "Container r",
        ),
        (
            format!("$ kubectl describe node n1 | grep Ready\nKubeletNotReady container r{SAID}\n"),
            "n1",
            "container r",
        ),
        (
            format!("NAME   STATUS\naks-1   container r{SAID}\n"),
            "aks-1",
            "container r",
        ),
    ] {
        assert_eq!(
            nodes(&text),
            [format!("{node} False {begin}{SAID}")],
            "{text}"
        );
    }
    // An Event of a pod.
    let of_pod = format!("NetworkNotReady  network is not ready: container r{SAID}\n");
    assert!(nodes(&of_pod).is_empty());
    assert_eq!(events(&ticket(&of_pod)).len(), 1);
}

/// rook/rook, Documentation/Troubleshooting/ceph-common-issues.md.
#[test]
fn a_piece_of_a_description_has_what_the_row_of_its_pod_tells() {
    let table = |ready: &str| {
        format!(
            "$ kubectl -n rook-ceph get pod -l app=rook-ceph-mon\nNAME                                READY     STATUS               RESTARTS   AGE\nrook-ceph-mon-a-69fb9c78cd-58szd    {ready}       CrashLoopBackOff     2          47s\n\n"
        )
    };
    let piece = "$ kubectl -n rook-ceph describe pod -l mon=rook-ceph-mon0\n...\n    Last State:    Terminated\n      Reason:    Error\n      Message:    The keyring does not match\n...\n";
    for (ready, want) in [("0/1", (2, "CrashLoopBackOff")), ("1/2", (0, ""))] {
        let all = ticket(&format!("{}{piece}", table(ready)));
        let mut pods = all.iter().filter_map(|o| match &o.body {
            Body::Pod(p) => Some(p),
            _ => None,
        });
        let last = pods.next_back().unwrap();
        assert_eq!(last.name, "rook-ceph-mon-a-69fb9c78cd-58szd");
        let c = last.status.containers.first().unwrap();
        let reason = match &c.state {
            ContainerState::Waiting { reason, .. } => reason.as_str(),
            _ => "",
        };
        assert_eq!((c.restarts, reason), want, "{ready}");
        assert!(
            c.last
                .as_ref()
                .is_some_and(|t| t.message.contains("keyring"))
        );
    }
}

/// Of each pod in a text, its name, the number of its UID where it is an earlier one, and whether it is gone at the end.
fn at_the_end(text: &str) -> Vec<String> {
    let mut all = std::collections::BTreeMap::new();
    let mut states: Vec<(Nanos, String, String, WatchEvent)> = Vec::new();
    for o in ticket(text) {
        if let Body::Pod(p) = o.body {
            states.push((
                o.stamp.seen,
                p.uid.as_str().to_owned(),
                p.name.to_string(),
                p.event,
            ));
        }
    }
    states.sort_by_key(|(seen, ..)| *seen);
    for (_, uid, name, event) in states {
        let number = uid.split_once(super::super::EARLIER);
        let key = number.map_or(name.clone(), |(_, n)| format!("{name} {n}"));
        all.insert(
            key,
            if event == WatchEvent::Deleted {
                "gone"
            } else {
                "there"
            },
        );
    }
    all.into_iter()
        .map(|(pod, is)| format!("{pod} {is}"))
        .collect()
}

/// The answers are of github.com/rddevry/devops2_volodymyr (log_aws_EKS-HWork25.md).
#[test]
fn what_stands_above_the_end_of_a_pod_is_of_an_earlier_one() {
    const DELETED: &str = "$ kubectl delete pod web-0\npod \"web-0\" deleted\n";
    const NONE: &str =
        "$ kubectl describe pod web-0\nError from server (NotFound): pods \"web-0\" not found\n";
    let row = |status: &str, age: &str| {
        format!(
            "$ kubectl get pods -n shop\nNAME    READY   STATUS    RESTARTS   AGE\nweb-0   0/1     {status}   0          {age}\nweb-1   1/1     Running   0          5h\n"
        )
    };
    let bare = fixture("s2-image-missing-1.36.txt");
    let bare = bare
        .replace("image-missing", "web-0")
        .replace("s02", "shop");
    let described = format!("$ kubectl describe pod web-0\n{bare}");
    let pending = |age: &str| row("Pending", age);
    for (text, want) in [
        (format!("{described}{DELETED}"), &["web-0 1 gone"][..]),
        (format!("{described}{NONE}"), &["web-0 1 gone"]),
        (
            format!("{described}{DELETED}{NONE}{NONE}"),
            &["web-0 1 gone"],
        ),
        (
            format!("{}{DELETED}", pending("5m")),
            &["web-0 1 gone", "web-1 there"],
        ),
        // Made again.
        (
            format!("{described}{DELETED}{}", pending("15s")),
            &["web-0 there", "web-0 1 gone", "web-1 there"],
        ),
        (
            format!("{described}{}", pending("15s")),
            &["web-0 there", "web-0 1 gone", "web-1 there"],
        ),
        (
            format!(
                "{described}{DELETED}{NONE}{}{DELETED}{NONE}",
                pending("15s")
            ),
            &["web-0 1 gone", "web-0 2 gone", "web-1 there"],
        ),
        // It is asked to go, and is still there.
        (
            format!("{described}{DELETED}{}", row("Terminating", "33m")),
            &["web-0 there", "web-1 there"],
        ),
        // Not of this pod.
        (
            format!("{described}{}", DELETED.replace("web-0", "web-2")),
            &["web-0 there"],
        ),
        (
            format!(
                "{described}{}",
                DELETED.replace("deleted\n", "deleted from other namespace\n")
            ),
            &["web-0 there"],
        ),
        (
            format!(
                "{described}{}",
                DELETED.replace("pod \"", "persistentvolumeclaim \"")
            ),
            &["web-0 there"],
        ),
        (format!("{NONE}{described}"), &["web-0 there"]),
        (
            format!("{described}$ kubectl delete namespace shop\nnamespace \"shop\" deleted\n"),
            &["web-0 1 gone"],
        ),
        // No pod has the name of another; who pastes may turn the order round.
        (
            format!("{described}{}", pending("15s")).replace("web-0", "web-6d5f8c7b9-x2x8k"),
            &["web-1 there", "web-6d5f8c7b9-x2x8k there"],
        ),
    ] {
        assert_eq!(at_the_end(&text), want, "{text}");
    }
}

/// github.com/userbradley/documentation.breadnet.co.uk/issues/618: the text ends within a row. A row that is cut anywhere is no part of the
/// message above it.
#[test]
fn a_cut_row_without_titles_is_no_part_of_the_message_before_it() {
    const ROWS: [&str; 3] = [
        "3m18s (x201 over 46m)    Warning   FailedCreatePodSandBox    Pod/kustomize-controller-7bcf986f97-h5c4g                 (combined from similar events): Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox: plugin type=\"flannel\" failed (add): loadFlannelSubnetEnv failed: open /run/flannel/subnet.env: no such file or directory",
        "  Warning  Failed     73s (x4 over 2m33s)  kubelet            Failed to pull image \"docker.io/library/web:9.9\": not found",
        "shop   3m   Warning   FailedMount   pod/web-0   MountVolume.SetUp failed for volume \"v\" : secret \"a\" not found",
    ];
    for row in ROWS {
        let message = |text: &str| {
            let of = |o: Observation| match o.body {
                Body::Event(e) => Some(e.message.to_string()),
                _ => None,
            };
            ticket(text).into_iter().filter_map(of).collect::<Vec<_>>()
        };
        let want = message(row);
        assert_eq!(want.len(), 1, "{row}");
        let reason = row.find("Failed").unwrap();
        for length in reason + 1..reason + 6 {
            // Of another age: a log begins each line alike.
            let cut = row
                .get(..length)
                .unwrap()
                .replacen("3m", "5m", 1)
                .replacen("73s", "75s", 1);
            for text in [
                format!("{row}\n{cut}\n"),
                format!("```\n{row}\n{cut}\n```\n"),
            ] {
                assert_eq!(message(&text), want, "{text}");
            }
        }
    }
}

/// cnych/qikqiak.com, on policies of pods: of a description only the name and the Events are left. So may those of any owner be.
#[test]
fn who_cannot_create_pods_is_told_by_the_events_alone() {
    const ROW: &str = "  Warning  FailedCreate  80s (x15 over 2m42s)  replicaset-controller  Error creating: pods \"nginx-hostnetwork-deploy-74c8fbd687-\" is forbidden: unable to validate against any pod security policy: []\n";
    const TITLES: &str = "Events:\n  Type     Reason        Age                   From                   Message\n  ----     ------        ----                  ----                   -------\n";
    let name = "Name:           nginx-hostnetwork-deploy-74c8fbd687\n";
    for before in [
        format!(
            "$ kubectl describe rs nginx-hostnetwork-deploy-74c8fbd687\n{name}......\n{TITLES}"
        ),
        format!("{name}......\n{TITLES}"),
        format!("{name}...\n{TITLES}"),
        format!("{name}Namespace:      default\nSelector:       app=nginx\n{TITLES}"),
        String::new(),
    ] {
        let text = format!("{before}{ROW}");
        let out = ticket(&text);
        let of: Vec<String> = out
            .iter()
            .filter_map(|o| match &o.body {
                Body::Event(e) => Some(format!("{}/{}", e.object.kind, e.object.name)),
                _ => None,
            })
            .collect();
        assert_eq!(
            of,
            ["ReplicaSet/nginx-hostnetwork-deploy-74c8fbd687"],
            "{text}"
        );
    }
}

/// Azure/aks-engine 2064: whoever copied it began behind the blank of the first line.
#[test]
fn a_description_whose_first_line_lost_its_blanks_is_read() {
    for fixed in ["s2-image-missing-1.36.txt", "s4-node1-1.36.txt"] {
        let bare = fixture(fixed);
        let want = ticket(&bare);
        for blanks in ["  ", " ", "      "] {
            let lines: Vec<String> = bare.lines().map(|line| format!("{blanks}{line}")).collect();
            let text = lines.join("\n");
            assert_eq!(ticket(text.trim_start()), want, "{fixed} {}", blanks.len());
        }
    }
}
