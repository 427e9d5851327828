//! Claims without a known pod: by a row, a description or their Events alone. The lines are of public reports, whose addresses
//! are in `fixtures/reports.tsv`, or as the components cited print them.

use super::{Desk, run, text};

fn import(desk: &Desk, paste: &str) -> String {
    let file = desk.file("ticket.txt", paste);
    let out = desk.path("ticket.kflow");
    std::fs::remove_file(&out).ok();
    let o = run(&["import", &file, "-O", &out]);
    assert!(o.status.success(), "{paste}\n{}", text(&o.stderr));
    out
}

/// What `kflow why` says, and its exit code.
fn why(session: &str, what: &str) -> (String, Option<i32>) {
    let o = run(&["why", what, "-s", session]);
    (
        format!("{}{}", text(&o.stdout), text(&o.stderr)),
        o.status.code(),
    )
}

/// kubernetes/kubernetes 1.36 and before: `pkg/controller/volume/persistentvolume/pv_controller.go`; CSI drivers.
#[test]
fn a_claim_that_waits_is_told_by_name_without_a_pod() {
    let desk = Desk::new();
    let head = "Events:\n  Type     Reason                 Age                   From                         Message\n  ----     ------                 ----                  ----                         -------\n";
    let described = "Name:          data-0\nNamespace:     db\nStorageClass:  fast\nStatus:        Pending\nVolume:        \nLabels:        <none>\nAnnotations:   <none>\nFinalizers:    [kubernetes.io/pvc-protection]\nCapacity:      \nAccess Modes:  \nVolumeMode:    Filesystem\nUsed By:       <none>\n";
    let row = "$ kubectl get pvc -n db\nNAME     STATUS    VOLUME   CAPACITY   ACCESS MODES   STORAGECLASS   AGE\ndata-0   Pending                                      fast           5m\n\n";
    for (event, code, words) in [
        (
            "  Normal   FailedBinding          4m54s (x16624 over 2d21h)  persistentvolume-controller  no persistent volumes available for this claim and no storage class is set\n",
            "KF213",
            "no storage class is set",
        ),
        (
            "  Warning  VolumeMismatch         4s (x13 over 3m)      persistentvolume-controller  Cannot bind to requested volume \"pv-a\": requested PV is too small\n",
            "KF213",
            "requested PV is too small",
        ),
        (
            "  Warning  ProvisioningFailed     5s (x4 over 35s)      persistentvolume-controller  storageclass.storage.k8s.io \"fast\" not found\n",
            "KF214",
            "not found",
        ),
        (
            "  Warning  ProvisioningFailed     89s (x7 over 2m39s)   dobs.csi.digitalocean.com_master_c81a31c2-16c9-48de-8850-5a6b0d25705a  failed to provision volume with StorageClass \"fast\": rpc error: code = ResourceExhausted desc = volume limit (10) has been reached. Current number of volumes: 10. Please contact support.\n",
            "KF214",
            "volume limit (10) has been reached",
        ),
        (
            "  Normal   ExternalProvisioning   4s (x13 over 3m2s)    persistentvolume-controller  Waiting for a volume to be created either by the external provisioner 'nfs.csi.k8s.io' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.\n",
            "KF214",
            "nfs.csi.k8s.io",
        ),
        (
            "  Warning  ClaimLost              4s                    persistentvolume-controller  Bound claim has lost its PersistentVolume. Data on the volume is lost!\n",
            "KF212",
            "lost its PersistentVolume",
        ),
    ] {
        let listed = crate::one_line(event);
        let (object, told) = ("pvc/data-0 (db)", event.trim());
        for (paste, object) in [
            (format!("{described}{head}{event}"), object),
            (format!("{row}{head}{event}"), object),
            (format!("{head}{event}\n{row}"), object),
            (
                format!("$ kubectl describe pvc data-0 -n db\n{head}{event}"),
                object,
            ),
            (
                format!("$ kubectl describe pvc/data-0 -n db\n...\n{head}{event}"),
                object,
            ),
            (
                format!("It says `{told}`\n"),
                "pvc/PERSISTENTVOLUMECLAIM (NAMESPACE)",
            ),
            (
                format!("```\n{listed}\n```\n"),
                "pvc/PERSISTENTVOLUMECLAIM (NAMESPACE)",
            ),
        ] {
            let session = import(&desk, &paste);
            let o = run(&["why", "--all", "-s", &session]);
            let said = text(&o.stdout);
            assert!(said.starts_with(object), "{paste}\n{said}");
            assert!(said.contains(code), "{code}: {paste}\n{said}");
            let whole = crate::one_line(&said);
            assert!(whole.contains(words), "{words}: {paste}\n{said}");
            assert!(!said.contains("The pod waits"), "{said}");
            assert!(!said.contains('<'), "{said}");
            assert_eq!(o.status.code(), Some(1), "{paste}\n{said}");
            let (named, code) = why(
                &session,
                if object.contains("db") {
                    "pvc/data-0"
                } else {
                    "pvc/PERSISTENTVOLUMECLAIM"
                },
            );
            assert!(named.starts_with(object), "{named}");
            assert_eq!(code, Some(1));
        }
    }
}

/// The claim is well: it is told where it is asked for, or where nothing else is.
#[test]
fn a_claim_that_waits_for_its_first_pod_is_well() {
    let desk = Desk::new();
    let event = "Normal  WaitForFirstConsumer  2s (x17 over 3m49s)  persistentvolume-controller  waiting for first consumer to be created before binding";
    let row = "k get pvc -n test | grep Pending\nsentry-vroom-pvc                             Pending                                                                        yc-network-hdd   <unset>                 3m12s";
    let session = import(&desk, &format!("```\n{event}\n```\n\n```\n{row}\n```\n"));
    let (said, code) = why(&session, "--all");
    assert!(
        said.starts_with(
            "kflow: claim test/sentry-vroom-pvc waits for a pod that uses it, which is normal"
        ),
        "{said}"
    );
    assert_eq!(code, Some(2), "{said}");
    // The next command asks the same recording.
    let next = format!("kflow why test/pvc/sentry-vroom-pvc -s {session}");
    assert!(said.contains(&next), "{said}");
    let (said, code) = why(&session, "test/pvc/sentry-vroom-pvc");
    assert!(said.contains("KF215") && said.contains("  well"), "{said}");
    assert_eq!(code, Some(0), "{said}");
    // What is wrong elsewhere is told alone.
    let other = "Events:\n  Type     Reason       Age  From     Message\n  ----     ------       ---- ----     -------\n  Warning  FailedMount  28s  kubelet  MountVolume.SetUp failed for volume \"a\" : secret \"s\" not found\n";
    let session = import(
        &desk,
        &format!("```\n{row}\n```\n```\n{event}\n```\n```\n{other}```\n"),
    );
    let (said, code) = why(&session, "--all");
    assert!(!said.contains("vroom") && said.contains("KF402"), "{said}");
    assert_eq!(code, Some(1), "{said}");
}

/// Nothing tells what it waits for.
#[test]
fn a_claim_of_which_nothing_is_told_is_named() {
    let desk = Desk::new();
    for (paste, name) in [
        (
            "$ kubectl get pvc -n db\nNAME     STATUS    VOLUME   CAPACITY   ACCESS MODES   STORAGECLASS   AGE\ndata-0   Pending                                      fast           5m\n",
            "db/data-0",
        ),
        (
            "$ kubectl get pvc -A | grep Pend\ndb   data-0   Pending   fast   5m\n",
            "db/data-0",
        ),
        (
            "$ kubectl get pvc | grep data\ndata-0   Pending   pv-1   0   5m\n",
            "NAMESPACE/data-0",
        ),
        (
            "persistentvolumeclaim/data-0   Pending   5m\n",
            "NAMESPACE/data-0",
        ),
    ] {
        let session = import(&desk, paste);
        let (said, code) = why(&session, "--all");
        let want = format!("unknown what claim {name} waits for");
        assert!(said.contains(&want), "{paste}\n{said}");
        assert_eq!(code, Some(2), "{said}");
        let (said, code) = why(&session, "pvc/data-0");
        assert!(said.contains(&want), "{paste}\n{said}");
        assert_eq!(code, Some(2), "{said}");
    }
    let bound =
        "$ kubectl get pvc -n db | grep data\ndata-0   Bound   pvc-1   8Gi   RWO   fast   5m\n";
    let (said, _) = why(&import(&desk, bound), "--all");
    assert!(!said.contains("claim"), "{said}");
}

/// The controller names the provisioner on the claim when it asks it for a volume (1.36: pv_controller.go, `setClaimProvisioner`).
#[test]
fn the_provisioner_that_a_claim_names_was_asked_for_a_volume() {
    let desk = Desk::new();
    for annotation in [
        "volume.beta.kubernetes.io/storage-provisioner=kubernetes.io/rbd",
        "volume.kubernetes.io/storage-provisioner: kubernetes.io/rbd",
    ] {
        let paste = format!(
            "Name:          claim1\nNamespace:     default\nStorageClass:  fast\nStatus:        Pending\nVolume:        \nLabels:        <none>\nAnnotations:   {annotation}\nCapacity:      \nAccess Modes:  \nEvents:        <none>\n"
        );
        let (said, code) = why(&import(&desk, &paste), "--all");
        assert!(said.starts_with("pvc/claim1 (default)"), "{said}");
        assert!(
            said.contains("KF214") && said.contains("kubernetes.io/rbd"),
            "{said}"
        );
        assert_eq!(code, Some(1), "{said}");
    }
}

/// kubernetes-sigs/sig-storage-lib-external-provisioner `controller/controller.go`: its Event names the claim.
#[test]
fn a_provisioner_names_the_claim() {
    let desk = Desk::new();
    let paste = "$ kubectl describe pods/my-csi-app\n...\n  Normal   Provisioning          24s (x4 over 44s)  pmem-csi.intel.com_x_cc2984e6  External provisioner is provisioning volume for claim \"default/late\"\n  Warning  ProvisioningFailed    24s (x4 over 44s)  pmem-csi.intel.com_x_cc2984e6  failed to provision volume with StorageClass \"sc\": rpc error: code = ResourceExhausted desc = Node CreateVolume: device creation failed: not enough space\n";
    let (said, _) = why(&import(&desk, paste), "--all");
    assert!(said.starts_with("pvc/late (default)"), "{said}");
    assert!(said.contains("KF214"), "{said}");
}

/// The pod that mounts the claim tells what it waits for.
#[test]
fn a_claim_of_a_known_pod_is_told_once() {
    let desk = Desk::new();
    let paste = "$ kubectl get pods,pvc -n db\nNAME       READY   STATUS    RESTARTS   AGE\npod/web-0  0/1     Pending   0          5m\n\nEvents:\n  Type     Reason            Age   From               Message\n  ----     ------            ----  ----               -------\n  Warning  FailedScheduling  4m    default-scheduler  0/3 nodes are available: 3 Insufficient cpu.\n\n$ kubectl describe pvc data-0 -n db\nEvents:\n  Type     Reason               Age   From               Message\n  ----     ------               ----  ----               -------\n  Normal   WaitForPodScheduled  4m    persistentvolume-controller  waiting for pod web-0 to be scheduled\n";
    let (said, _) = why(&import(&desk, paste), "--all");
    assert!(
        said.contains("KF201") && said.matches("KF215").count() < 2,
        "{said}"
    );
    assert!(!said.contains("pvc/"), "{said}");
}
