//! Failures that a text shows, and shows as over: what follows them, or the state of what they are about, says so. They are of
//! public reports, whose addresses are in `fixtures/reports.tsv`.

use super::Desk;
use super::fragments::{tells, told};

/// rook 6612: kubectl prints ages of minutes, so that the failure and the success after it are of the same time.
#[test]
fn a_volume_that_was_attached_since_is_not_waited_for() {
    let desk = Desk::new();
    let head = "Events:\n  Type     Reason                  Age                  From                     Message\n  ----     ------                  ----                 ----                     -------\n";
    let bound = "  Normal   Scheduled               31m                  default-scheduler        Successfully assigned rook-ceph/rook-ceph-osd-0-7989bc8b9-ndgzl to aks-npstorage-25228689-vmss000000\n";
    let failed = "  Warning  FailedAttachVolume      31m                  attachdetach-controller  Multi-Attach error for volume \"pvc-5b6acdb1-c524-4b55-ae60-549471369853\" Volume is already used by pod(s) rook-ceph-osd-prepare-set1-data-0-w6gf9-9phtm\n";
    let attached = "  Normal   SuccessfulAttachVolume  31m                  attachdetach-controller  AttachVolume.Attach succeeded for volume \"pvc-5b6acdb1-c524-4b55-ae60-549471369853\"\n";
    let mapped = "  Normal   SuccessfulMountVolume   30m                  kubelet                  MapVolume.MapPodDevice succeeded for volume \"pvc-5b6acdb1-c524-4b55-ae60-549471369853\" globalMapPath \"/var/lib/kubelet/plugins/kubernetes.io/azure-disk/volumeDevices/kubernetes-dynamic-pvc-5b6acdb1-c524-4b55-ae60-549471369853\"\n";
    let said = told(&desk, &format!("{head}{bound}{failed}{attached}{mapped}"));
    assert!(!said.contains("KF405"), "{said}");
    // Another volume's success, and one before the failure, say nothing.
    for before in [
        attached.replace("pvc-5b6acdb1", "pvc-00000000"),
        attached.replace("31m  ", "40m  "),
    ] {
        tells(
            &desk,
            &format!("{head}{bound}{before}{failed}"),
            "KF405",
            "Volume pvc-5b6acdb1",
        );
    }
    // A volume that was attached is not mounted yet. The message is one of documented.rs, of this volume.
    let unmounted = "  Warning  FailedMount             31m                  kubelet                  MountVolume.MountDevice failed for volume \"pvc-5b6acdb1-c524-4b55-ae60-549471369853\" : executable file not found in $PATH\n";
    tells(
        &desk,
        &format!("{head}{bound}{attached}{unmounted}"),
        "KF420",
        "cannot mount volume pvc-5b6acdb1",
    );
}

/// kubernetes 25096: whoever asks quotes the messages above the table that says when they were.
#[test]
fn a_message_in_prose_is_of_the_time_that_its_row_has() {
    let desk = Desk::new();
    let quoted = "The following errors are occurring despite the volume being mounted.\n * Warning     FailedMount Unable to mount volumes for pod \"nginx-ingress-controller-1626740531-88561_default(d125e230-1151-11e6-a2d1-0adbaa6061ff)\": configmaps \"nginx-template\" not found\n * Warning     FailedSync  Error syncing pod, skipping: configmaps \"nginx-template\" not found\n\n";
    let table = "```\nEvents:\n  FirstSeen\tLastSeen\tCount\tFrom\t\t\t\t\t\t\tSubobjectPath\t\t\t\tType\t\tReason\t\tMessage\n  ---------\t--------\t-----\t----\t\t\t\t\t\t\t-------------\t\t\t\t--------\t------\t\t-------\n  32m\t\t32m\t\t1\t{default-scheduler }\t\t\t\t\t\t\t\t\t\tNormal\t\tScheduled\tSuccessfully assigned nginx-ingress-controller-1626740531-88561 to ip-10-115-0-133.eu-west-1.compute.internal\n  32m\t\t32m\t\t1\t{kubelet ip-10-115-0-133.eu-west-1.compute.internal}\t\t\t\t\t\tWarning\t\tFailedMount\tUnable to mount volumes for pod \"nginx-ingress-controller-1626740531-88561_default(d125e230-1151-11e6-a2d1-0adbaa6061ff)\": configmaps \"nginx-template\" not found\n  32m\t\t32m\t\t1\t{kubelet ip-10-115-0-133.eu-west-1.compute.internal}\t\t\t\t\t\tWarning\t\tFailedSync\tError syncing pod, skipping: configmaps \"nginx-template\" not found\n  32m\t\t32m\t\t1\t{kubelet ip-10-115-0-133.eu-west-1.compute.internal}\tspec.containers{nginx-ingress-lb}\tNormal\t\tPulling\t\tpulling image \"aledbf/nginx-third-party:0.16\"\n  31m\t\t31m\t\t1\t{kubelet ip-10-115-0-133.eu-west-1.compute.internal}\tspec.containers{nginx-ingress-lb}\tNormal\t\tStarted\t\tStarted container with docker id 7c2ee4a3d9b6\n```\n";
    let said = told(&desk, &format!("{quoted}{table}"));
    assert!(!said.contains("stuck"), "{said}");
    // Without the table the messages are all that is known.
    let words =
        "The pod waits for configmap nginx-template, which does not exist in namespace default";
    tells(&desk, quoted, "KF402", words);
}

/// calico 8929: the last row is cut before its message.
#[test]
fn a_container_that_was_started_in_a_row_that_is_cut_was_started() {
    let desk = Desk::new();
    let paste = "```bash\nEvents:\n  Type     Reason     Age                From               Message\n  ----     ------     ----               ----               -------\n  Normal   Scheduled  24m                default-scheduler  Successfully assigned kube-system/calico-node-9vpng to master3\n  Normal   Pulled     24m                kubelet            Container image \"docker.io/calico/cni:v3.28.0\" already present on machine\n  Normal   Created    24m                kubelet            Created container upgrade-ipam\n  Normal   Started    24m                kubelet            Started container upgrade-ipam\n  Normal   Pulled     24m                kubelet            Container image \"docker.io/calico/cni:v3.28.0\" already present on machine\n  Normal   Created    24m                kubelet            Created container install-cni\n  Normal   Started    24m";
    let said = told(&desk, paste);
    assert!(!said.contains("has not started"), "{said}");
}

/// minishift 461: the table says what the kubelet does, of whose Events only the first row is left.
#[test]
fn a_kubelet_that_pulls_has_picked_up_the_pod() {
    let desk = Desk::new();
    let paste = "3. Rerun minishift start, the status of pod is ImagePullBackOff:\n\n> NAME                READY     STATUS             RESTARTS   AGE       IP           NODE\n> nodejs-ex-1-b8txq   0/1       ImagePullBackOff   0          56m       172.17.0.3   192.168.99.100\n> nodejs-ex-1-build   0/1       Completed          0          1h        172.17.0.2   192.168.99.100\n\n4. describe pod Events:\n\n>   FirstSeen     LastSeen        Count   From                            SubObjectPath                   Type            Reason          Message\n>   ---------     --------        -----   ----                            -------------                   --------        ------          -------\n>   55m           55m             1       {default-scheduler }                                            Normal          Scheduled       Successfully assigned nodejs-ex-1-b8txq to 192.168.99.100\n>   55m           55m             1";
    let said = told(&desk, paste);
    assert!(!said.contains("KF301"), "{said}");
    assert!(said.contains("nodejs-ex-1-b8txq"), "{said}");
    assert!(said.contains("KF613"), "{said}");
}

/// core-ng-project 27: a status without a word of when it was read tells no crash loop of a container that runs and is ready.
#[test]
fn a_container_that_runs_since_the_newest_time_of_a_paste_does_not_crash() {
    let desk = Desk::new();
    let paste = "here is the pod json i tested with OOMKilled, you can see it's ready/running now with previous state\n```\n      \"containerStatuses\": [\n        {\n          \"name\": \"cache\",\n          \"state\": {\"running\": {\"startedAt\": \"2020-11-12T16:21:21Z\"}},\n          \"lastState\": {\"terminated\": {\"exitCode\": 137, \"reason\": \"OOMKilled\", \"startedAt\": \"2020-11-12T16:13:11Z\", \"finishedAt\": \"2020-11-12T16:21:10Z\", \"containerID\": \"docker://03f0f2e8402ebd0b8811a2256db456a008a73c5d171884358b4b02a9ff3ea686\"}},\n          \"ready\": true,\n          \"restartCount\": 2,\n          \"image\": \"redis:6\",\n          \"conta";
    let said = told(&desk, paste);
    assert!(!said.contains("crash-looping"), "{said}");
    assert!(!said.contains("running for 1s"), "{said}");
}

/// calico 7958: while a probe fails, the kubelet tells so again. The newest row is of 25 minutes ago, when the container had just started.
#[test]
fn a_probe_that_failed_long_ago_does_not_fail() {
    let desk = Desk::new();
    let row = |kind: &str, ago: &str, reason: &str, said: &str| {
        format!(
            "{ago:11} {kind:9} {reason:24} pod/calico-node-xmx82                           {said}\n"
        )
    };
    let started = row("Normal", "25m", "Created", "Created container calico-node")
        + &row("Normal", "25m", "Started", "Started container calico-node");
    let said = "Readiness probe failed: calico/node is not ready: BIRD is not ready: Error querying BIRD: unable to connect to BIRDv4 socket: dial unix /var/run/bird/bird.ctl: connect: no such file or directory...";
    let paste = |ago: &str| {
        let failed = row("Warning", ago, "Unhealthy", said);
        told(&desk, &format!("{started}{failed}"))
    };
    let long_ago = paste("25m");
    assert!(!long_ago.contains("KF801"), "{long_ago}");
    let now = paste("20s");
    assert!(now.contains("KF801"), "{now}");
}
