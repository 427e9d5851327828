use super::*;

#[test]
fn the_embedded_catalogue_is_complete_and_correct() {
    let all = Catalogue::parse(DATA).unwrap_or_else(|e| panic!("{e}"));
    all.compile().unwrap_or_else(|e| panic!("{e}"));
    for u in all.by_reason.values() {
        let patterns = u.patterns.iter().map(|&(c, p)| &all.causes[c].patterns[p]);
        assert!(RegexSet::new(patterns).is_ok());
    }
    assert!(all.iter().count() >= 128);
    assert!(all.iter().map(|c| c.id).eq(CauseId::ALL.iter().copied()));
    for c in all.iter() {
        assert_eq!(all.cause(c.id).id, c.id);
        for (text, _) in c.all_steps() {
            assert!(!text.is_empty(), "{}", c.id);
        }
        assert_eq!(
            c.say.matches('[').count(),
            c.say.matches(']').count(),
            "{}",
            c.id
        );
    }
}

#[test]
fn the_words_of_cri_o_of_docker_and_of_older_kubelets_are_known_too() {
    for (reason, text, id) in [
        (
            "FailedCreatePodSandBox",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create pod network sandbox k8s_p_ns_u_0(5e1f): error adding pod ns_p to CNI network "multus-cni-network": plugin type="multus-shim" name="multus-cni-network" failed (add): CmdAdd (shim): timed out"#,
            cause::KF501,
        ),
        (
            "FailedCreatePodSandBox",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = [failed to set up sandbox container "5e1f" network for pod "p": networkPlugin cni failed to set up pod "p_ns" network: open /run/flannel/subnet.env: no such file or directory]"#,
            cause::KF501,
        ),
        (
            "FailedCreatePodSandBox",
            "rpc error: code = Unknown desc = error reserving pod name k8s_p_ns_u_0 for id 5e1f: name is reserved",
            cause::KF507,
        ),
        (
            "FailedCreatePodSandBox",
            "rpc error: code = Unknown desc = failed to find runtime handler kata from runtime list map[runc:0xc0]",
            cause::KF508,
        ),
        (
            "FailedCreatePodSandBox",
            "rpc error: code = Unknown desc = failed to mount container k8s_POD_p in pod sandbox: mkdir x: no space left on device",
            cause::KF512,
        ),
        (
            "ErrImagePull",
            "rpc error: code = Unknown desc = reading manifest 9 in docker.io/library/nope: manifest unknown",
            cause::KF601,
        ),
        (
            "ErrImagePull",
            "rpc error: code = Unknown desc = Error response from daemon: manifest for nginx:nope not found: manifest unknown: manifest unknown",
            cause::KF601,
        ),
        (
            "ErrImagePull",
            "unable to pull image or OCI artifact: pull image err: initializing source docker://quay.io/x/y:1: reading manifest 1 in quay.io/x/y: unauthorized: access to the requested resource is not authorized",
            cause::KF602,
        ),
        (
            "ErrImagePull",
            "rpc error: code = Unknown desc = Error response from daemon: pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
            cause::KF602,
        ),
        (
            "ErrImagePull",
            "initializing source docker://nginx:1: reading manifest 1 in docker.io/library/nginx: toomanyrequests: You have reached your pull rate limit",
            cause::KF603,
        ),
        (
            "ErrImagePull",
            r#"initializing source docker://reg.example/x:1: pinging container registry reg.example: Get "https://reg.example/v2/": dial tcp: lookup reg.example on 10.0.0.2:53: no such host"#,
            cause::KF604,
        ),
        (
            "ErrImagePull",
            "rpc error: code = Unknown desc = Error response from daemon: Get https://reg.example/v2/: x509: certificate signed by unknown authority",
            cause::KF604b,
        ),
        (
            "ErrImagePull",
            r#"choosing image instance: no image found in image index for architecture "amd64", variant "", OS "linux""#,
            cause::KF606,
        ),
        (
            "CreateContainerError",
            "container create failed: executable file `ngnix` not found in $PATH: No such file or directory",
            cause::KF704,
        ),
        (
            "CreateContainerError",
            r#"container create failed: time="2026-01-01T00:00:00Z" level=error msg="runc create failed: unable to start container process: exec: \"ngnix\": executable file not found in $PATH""#,
            cause::KF704,
        ),
        (
            "FailedCreatePodSandBox",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = creating pod sandbox with name "k8s_web_shop_0f_0": unable to pull image: initializing source docker://registry.example/pause:3.10: pinging container registry registry.example: Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host"#,
            cause::KF505,
        ),
        (
            "FailedCreatePodSandBox",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = error creating pod sandbox with name "k8s_web_shop_0f_0": Error initializing source docker://k8s.gcr.io/pause:3.1: error pinging docker registry k8s.gcr.io"#,
            cause::KF505,
        ),
        (
            "RunContainerError",
            r#"OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "ngnix": executable file not found in $PATH: unknown"#,
            cause::KF704,
        ),
        (
            "CreateContainerError",
            "error reserving ctr name k8s_c_p_ns_u_0 for id 5e1f: name is reserved",
            cause::KF702,
        ),
        (
            "FailedMount",
            r#"Unable to mount volumes for pod "p_ns(u)": timeout expired waiting for volumes to attach or mount for pod "ns"/"p". list of unmounted volumes=[data]. list of unattached volumes=[data token]"#,
            cause::KF401,
        ),
        (
            "@clause",
            "node(s) had taint {dedicated: db}, that the pod didn't tolerate",
            cause::KF203,
        ),
        (
            "@clause",
            "node(s) didn't match node selector",
            cause::KF205,
        ),
        (
            "@clause",
            "node(s) had volume node affinity conflict",
            cause::KF216,
        ),
        (
            "FailedKillPod",
            r#"error killing pod: failed to "KillContainer" for "c" with KillContainerError: "rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused"""#,
            cause::KF515,
        ),
        (
            "InspectFailed",
            r#"Failed to inspect image "x:1": rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused""#,
            cause::KF515,
        ),
        (
            "ErrImagePull",
            r#"initializing source docker://reg.example/x:1: pinging container registry reg.example: StatusCode: 410, "Gone""#,
            cause::KF604b,
        ),
        (
            "ErrImagePull",
            r#"failed to resolve reference "reg.example/x:1": unexpected status from HEAD request to https://reg.example/v2/x/manifests/1: 520 "#,
            cause::KF604b,
        ),
        (
            "ErrImagePull",
            r#"failed to resolve reference "reg.example/x:1": unexpected status from HEAD request to https://reg.example/v2/x/manifests/1: 401"#,
            cause::KF602,
        ),
        (
            "ErrImagePull",
            r#"failed to resolve reference "reg.example/x:1": unexpected status from HEAD request to https://reg.example/v2/x/manifests/1: 429 "#,
            cause::KF603,
        ),
        (
            "ErrImagePull",
            "reading manifest 1 in reg.example/x: too many requests to registry",
            cause::KF603,
        ),
        (
            "ErrImagePull",
            "short-name resolution enforced but cannot prompt without a TTY",
            cause::KF608,
        ),
        (
            "ImageInspectError",
            r#"Failed to inspect image "": rpc error: code = Unknown desc = short-name "kong:3.9" did not resolve to an alias and no unqualified-search registries are defined in "/etc/containers/registries.conf""#,
            cause::KF608,
        ),
        (
            "ImageInspectError",
            r#"Failed to inspect image "x@sha256:1": rpc error: code = InvalidArgument desc = invalid checksum digest length"#,
            cause::KF608,
        ),
        (
            "ImageInspectError",
            r#"Failed to inspect image "x:1": rpc error: code = Unknown desc = readlink /var/lib/containers/storage/overlay: invalid argument"#,
            cause::KF615,
        ),
        ("InvalidImageName", "", cause::KF608),
        (
            "UnexpectedAdmissionError",
            "Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available, which is unexpected",
            cause::KF303,
        ),
        (
            "SMTAlignmentError",
            "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
            cause::KF305,
        ),
        (
            "FailedCreatePodSandBox",
            r#"failed to setup network for sandbox "5e1f": plugin type="azure-vnet" failed (add): Failed to get IP address from CNS: http request failed: Post "http://localhost:10090/network/requestipconfigs": dial tcp 127.0.0.1:10090: connect: connection refused"#,
            cause::KF518,
        ),
        (
            "FailedCreatePodSandBox",
            r#"failed to setup network for sandbox "5e1f": plugin type="calico" failed (add): error getting ClusterInformation: Get "https://127.0.0.1:7445/apis/crd.projectcalico.org/v1/clusterinformations/default": dial tcp 127.0.0.1:7445: connect: connection refused"#,
            cause::KF504,
        ),
        (
            "ContainerError",
            r#"Error: error creating read-write layer with ID "9a9a": write /var/lib/containers/storage/overlay/x: no space left on device"#,
            cause::KF612,
        ),
        (
            "ContainerError",
            r#"Error: sandbox container "5e1f" is not running"#,
            cause::KF715,
        ),
        (
            "RunContainerError",
            "container create failed: error executing hook `/usr/bin/nvidia-container-toolkit` (exit code: 1)",
            cause::KF715,
        ),
        (
            "RunContainerError",
            r#"failed to start container "c": Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running createRuntime hook #0: exit status 1, stdout: , stderr: nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1"#,
            cause::KF715,
        ),
        (
            "RunContainerError",
            "container create failed: mount `/var/lib/kubelet/pods/u/volumes/kubernetes.io~configmap/conf` to `etc/app.conf`: Not a directory",
            cause::KF716,
        ),
        (
            "FailedMount",
            r#"MountVolume.SetUp failed for volume "s3" : rpc error: code = Internal desc = stat /var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/s3/mount: transport endpoint is not connected"#,
            cause::KF421,
        ),
        (
            "FailedMount",
            "MountVolume.SetUp failed for volume \"v\" : mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t nfs 10.0.0.9:/x /var/lib/kubelet/pods/u/volumes/kubernetes.io~nfs/v\nOutput: mount.nfs: Stale file handle",
            cause::KF409,
        ),
        (
            "ContainerError",
            r#"Error: failed to prepare subPath for volumeMount "data" of container "c": error: stale NFS file handle"#,
            cause::KF421,
        ),
        (
            "ContainerError",
            r#"Error: failed to create subPath directory for volumeMount "data" of container "c": mkdir /x: no space left on device"#,
            cause::KF414,
        ),
        (
            "ContainerError",
            "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: error running prestart hook #0: exit status 1, stdout: , stderr: my-hook: write /var/lib/containerd/x: no space left on device",
            cause::KF715,
        ),
        (
            "CreateContainerError",
            "failed to extract layer sha256:5e1f: write /var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/x: no space left on device",
            cause::KF612,
        ),
        (
            "RunContainerError",
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: fork/exec /app: resource temporarily unavailable",
            cause::KF704,
        ),
        (
            "RunContainerError",
            "runc create failed: unable to start container process: error during container init: unable to create session key: disk quota exceeded",
            cause::KF715,
        ),
        (
            "FailedCreatePodSandBox",
            "failed to start sandbox container: fork/exec /proc/self/exe: resource temporarily unavailable",
            cause::KF512,
        ),
        (
            "FailedMount",
            "MountVolume.MountDevice failed for volume \"v\" : rpc error: code = Internal desc = rbd: map failed with error an error (exit status 13) occurred while running rbd args: [], rbd error output: rbd: sysfs write failed\nrbd: map failed: (13) Permission denied",
            cause::KF418,
        ),
        (
            "FailedCreatePodSandBox",
            "networkPlugin cni failed to set up pod \"p_ns\" network: error getting ClusterInformation: Get \"https://[10.43.0.1]:443/apis/crd.projectcalico.org/v1/clusterinformations/default\": dial tcp 10.43.0.1:443: i/o timeout",
            cause::KF504,
        ),
        (
            "ErrImagePull",
            "failed to pull and unpack image \"r.example/a:1\": failed to copy: httpReadSeeker: failed open: failed to do request: Get \"https://r.example/v2/a/blobs/sha256:35\": read tcp 192.0.2.1:48112->203.0.113.80:443: read: connection reset by peer",
            cause::KF617,
        ),
    ] {
        let best = Catalogue::get().best(reason, text, |_| true);
        assert_eq!(best.map(|(c, _)| c.id), Some(id), "{text}");
    }
}

#[test]
fn an_id_that_occurs_twice_is_refused() {
    let twice = "[KF101]\ntitle='a'\n[KF101]\ntitle='b'\n";
    assert!(matches!(
        Catalogue::parse(twice),
        Err(CatalogueError::Form(_))
    ));
}

#[test]
fn a_cause_is_found_by_id_in_any_form() {
    let all = Catalogue::get();
    assert!(all.find("601").is_some() && all.find("kf601").is_some());
    assert!(all.find("KF702b").is_some() && all.find("KF000").is_none());
}

#[test]
fn what_to_do_is_of_what_is_missing_and_not_of_what_else_the_cause_may_be() {
    let all = Catalogue::parse(DATA).unwrap();
    let cause = all.cause(cause::KF701);
    for (text, commands) in [
        (
            r#"secret "db" not found"#,
            &["get pod <POD> -o", "describe secret db"][..],
        ),
        (
            "couldn't find key password in Secret shop/db",
            &["get pod <POD> -o", "describe Secret db"],
        ),
        (
            "container has runAsNonRoot and image will run as root",
            &["{.spec.securityContext}"],
        ),
    ] {
        let names = cause.matches("CreateContainerConfigError", text).unwrap();
        let steps = crate::diagnose::finding::steps(cause, &names);
        assert_eq!(steps.len(), commands.len(), "{text}: {steps:?}");
        for (step, command) in steps.iter().zip(commands) {
            assert!(step.command.contains(command), "{text}: {steps:?}");
            assert!(!step.text.contains(['[', '?']), "{text}: {steps:?}");
        }
    }
}

/// Where one cause has several origins, the words of the error say which of them it is, and so what to do.
#[test]
fn what_to_do_follows_from_the_words_of_the_error() {
    let all = Catalogue::parse(DATA).unwrap();
    let of_mount = |said: &str| {
        format!(
            "MountVolume.MountDevice failed for volume \"v\" : rpc error: code = Internal desc = {said}"
        )
    };
    let mount = |kind: &str, output: &str| {
        of_mount(&format!(
            "mount failed: exit status 32 Mounting command: mount Mounting arguments: -t {kind} -o defaults /dev/vde /mnt Output: {output}"
        ))
    };
    let cni = |plugin: &str, said: &str| {
        format!(
            "failed to setup network for sandbox \"5e1f\": plugin type=\"{plugin}\" failed (add): {said}"
        )
    };
    let cluster = "error getting ClusterInformation: Get \"https://10.96.0.1:443/apis/crd.projectcalico.org/v1/clusterinformations/default\": Forbidden";
    for (id, reason, text, has, lacks) in [
        (cause::KF504, "FailedCreatePodSandBox", cni("calico", cluster), "NO_PROXY", "token"),
        (cause::KF504, "FailedCreatePodSandBox", cni("calico", "connection is unauthorized: Unauthorized"), "token", "NO_PROXY"),
        (cause::KF501, "FailedCreatePodSandBox", cni("multus", "[ns/p/u:left]: error adding container to network \"left\": SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is required"), "resourceName", "eth0"),
        (cause::KF501, "FailedCreatePodSandBox", cni("kube-ovn", "RPC failed; request ip return 500 no address allocated to pod ns/p provider ovn, please see kube-ovn-controller logs to find errors"), "deployment/kube-ovn-controller", "resourceName"),
        (cause::KF501, "FailedCreatePodSandBox", "failed to setup network for sandbox \"5e1f\": failed to find network info for sandbox \"5e1f\"".to_owned(), "eth0", "resourceName"),
        (cause::KF502, "FailedCreatePodSandBox", cni("azure-vnet", "AllocateIPConfig failed: not enough IPs available of type IPv4 for nc, waiting on Azure CNS to allocate more with NC Status: x"), "azure-cns", "cilium"),
        (cause::KF409, "FailedMount", mount("ext4", "mount: /mnt: /dev/vde already mounted or mount point busy."), "multipath", "nouuid"),
        (cause::KF409, "FailedMount", mount("xfs", "mount: /mnt: wrong fs type, bad option, bad superblock on /dev/vde, missing codepage or helper program, or other error."), "nouuid", "multipath"),
        (cause::KF409, "FailedMount", of_mount("failed to mount secrets store objects for pod ns/p, err: error connecting to provider \"azure\": provider not found: provider \"azure\""), "provider azure", "nouuid"),
        (cause::KF409, "FailedMount", mount("nfs", "mount.nfs: access denied by server while mounting 10.0.0.9:/x"), "showmount -e 10.0.0.9", "nouuid"),
        (cause::KF409, "FailedMount", mount("nfs4", "mount.nfs: Stale file handle").replace("/dev/vde", "10.0.0.9:/x"), "on 10.0.0.9", "showmount"),
        // containerd pkg/oci/utils_unix.go, DeviceFromPath; CRI-O internal/config/seccomp/seccomp_supported_linux.go, setupFromField.
        (cause::KF703, "CreateContainerError", "failed to generate container \"5e\" spec: failed to generate spec: not a device node".to_owned(), "volumeDevices", "securityContext"),
        (cause::KF703, "CreateContainerError", "setup seccomp: unable to load local profile \"/var/lib/kubelet/seccomp/x.json\": open /var/lib/kubelet/seccomp/x.json: no such file or directory".to_owned(), "securityContext", "volumeDevices"),
        (cause::KF421, "ContainerError", "error mounting \"/mnt/x\" to rootfs at \"/data\": stat /mnt/x: transport endpoint is not connected".to_owned(), "findmnt /mnt/x", "umount -l <"),
        (cause::KF615, "ImageInspectError", "Failed to inspect image \"x:1\": Id or size of image \"x:1\" is not set".to_owned(), "cri-dockerd", "?"),
        (cause::KF715, "RunContainerError", "namespace path: lstat /proc/0/ns/ipc: no such file or directory".to_owned(), "delete pod", "nvidia-smi"),
        (cause::KF715, "RunContainerError", "error setting cgroup config for procHooks process: unable to freeze".to_owned(), "drain and restart", "cgroup.type"),
        (cause::KF715, "RunContainerError", "unable to apply cgroup configuration: cannot enter cgroupv2 \"/sys/fs/cgroup/kubepods.slice/x\" with domain controllers -- it is in threaded mode".to_owned(), "cgroup.type", "drain and restart"),
        (cause::KF715, "RunContainerError", "error running createContainer hook #0: exit status 1, stdout: , stderr: my-hook: boom".to_owned(), "which hooks", "nvidia"),
        (cause::KF715, "CreateContainerError", "CDI device injection failed: unresolvable CDI devices vendor.example/card=0".to_owned(), "/etc/cdi", "nvidia"),
        (cause::KF421, "ContainerError", "failed to prepare subPath for volumeMount \"data\" of container \"c\": error: stale NFS file handle".to_owned(), "volume data of the pod", "umount -l <"),
        (cause::KF421, "ContainerError", "stat /var/lib/kubelet/pods/u/volume-subpaths/data/c/0: stale NFS file handle".to_owned(), "umount -l /var/lib/kubelet/pods/u/volume-subpaths/data/c/0", "?"),
        (cause::KF409, "FailedMount", of_mount("the webhook failed to inject the sidecar container into the Pod spec"), "delete pod", "dmesg"),
        (cause::KF409, "FailedMount", "MountVolume.SetUp failed for volume \"v\" : container reader not found".to_owned(), "no container reader", "dmesg"),
        (cause::KF409, "FailedMount", of_mount("Error starting systemd unit x.service on host: Cannot set property CollectMode, or unknown property."), "systemctl --version", "dmesg"),
        (cause::KF409, "FailedMount", of_mount("Could not mount \"b\" at \"/x\": Failed to find corresponding MountpointS3PodAttachment custom resource: context deadline exceeded. You can see the controller logs by running `kubectl logs -n kube-system -lapp=s3-csi-controller`."), "kubectl -n kube-system logs -l app=s3-csi-controller", "dmesg"),
        (cause::KF409, "FailedMount", of_mount("something that nobody knows"), "describe pod", "dmesg"),
        (cause::KF420, "FailedMount", mount("lustre", "mount.lustre: mount a@tcp:/b at /c failed: No such device\nAre the lustre modules loaded?"), "modprobe lustre", "?"),
        (cause::KF501, "FailedCreatePodSandBox", cni("vendor", "something that nobody knows"), "logs of the CNI pods", "/etc/cni/net.d"),
        (cause::KF501, "FailedCreatePodSandBox", "networkPlugin cni failed to set up pod \"p_ns\" network: request ip return 500 route is not ready, please see kube-ovn-controller logs to find errors".to_owned(), "deployment/kube-ovn-controller", "if cni was"),
        (cause::KF501, "BranchAllocationFailed", "failed to allocate branch ENI to pod: cannot create new eni entry already exist".to_owned(), "security groups", "host-local"),
        (cause::KF502, "FailedCreatePodSandBox", cni("aws-cni", "add cmd: failed to assign an IP address to container"), "aws-node", "host-local"),
        (cause::KF703, "CreateContainerError", "something that nobody knows".to_owned(), "describe pod", "securityContext"),
        (cause::KF703, "CreateContainerError", "cannot load seccomp profile \"/x\": boom".to_owned(), "securityContext", "passwd"),
        (cause::KF704, "StartError", "something that nobody knows".to_owned(), "describe pod", "look into the image"),
        (cause::KF704, "StartError", "exec: \"/run.sh\": permission denied".to_owned(), "look into the image", "?"),
        (cause::KF701, "CreateContainerConfigError", "something that nobody knows".to_owned(), "describe pod", "make "),
        (cause::KF908, "@unmount", "UnmountVolume.TearDown failed for volume \"v\" (UniqueName: \"x\") pod \"u\" (UID: \"u\") : unmount failed: exit status 32\nUnmounting arguments: /x\nOutput: umount: /x: target is busy.".to_owned(), "fuser", "vol_data"),
        (cause::KF908, "@unmount", "UnmountVolume.NewUnmounter failed for volume \"v\" (UniqueName: \"x\") pod \"u\" (UID: \"u\") : kubernetes.io/csi: unmounter failed to load volume data file [/k/v/mount]: kubernetes.io/csi: failed to open volume data file [/k/v/vol_data.json]: open /k/v/vol_data.json: no such file or directory".to_owned(), "rmdir /k/v/mount /k/v", "fuser"),
        (cause::KF225, "NotTriggerScaleUp", "pod didn't trigger scale-up: 2 max node group size reached, 1 Insufficient cpu".to_owned(), "raise their maximum", "nodepools"),
        (cause::KF225, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 node(s) didn't match Pod's node affinity/selector".to_owned(), "limits of the node groups", "nodepools"),
        (cause::KF225, "@autoscaler", "Failed to schedule pod, incompatible with nodepool \"default\", daemonset overhead={}, did not tolerate x".to_owned(), "describe nodepools default", "node groups"),
    ] {
        let (cause, names) = all.best(reason, &text, |_| true).unwrap();
        assert_eq!(cause.id, id, "{text}");
        let steps = crate::diagnose::finding::steps(cause, &names);
        let said: Vec<String> = steps.iter().map(|s| format!("{}: {}", s.text, s.command)).collect();
        let said = said.join("\n");
        assert!(said.contains(has) && !said.contains(lacks), "{text}: {said}");
    }
}

/// The kubelet and the runtime say the same error under several reasons: of a container's state, of the Event `Failed` and
/// of a start that failed for good (`StartError`, older `ContainerCannotRun`).
#[test]
fn a_cause_is_looked_for_under_every_reason_that_its_words_come_by() {
    let follows: [(&str, &[&str]); 5] = [
        ("CreateContainerConfigError", &["ContainerError"]),
        ("CreateContainerError", &["ContainerError"]),
        (
            "RunContainerError",
            &["ContainerError", "StartError", "ContainerCannotRun"],
        ),
        ("StartError", &["RunContainerError", "ContainerCannotRun"]),
        ("ContainerCannotRun", &["StartError"]),
    ];
    // A call that did not reach the runtime has made no container, whose end could tell of it.
    let not_of_ends = [cause::KF515];
    for cause in Catalogue::get()
        .iter()
        .filter(|c| !not_of_ends.contains(&c.id))
    {
        for (reason, others) in follows {
            let is_on = |r: &str| cause.on.iter().any(|on| on == r);
            if is_on(reason) {
                let missing: Vec<_> = others.iter().filter(|r| !is_on(r)).collect();
                assert!(
                    missing.is_empty(),
                    "{} is on {reason} and not on {missing:?}",
                    cause.id
                );
            }
        }
    }
}

#[test]
fn an_error_has_one_cause_whichever_way_it_comes() {
    const CREATE: &[&str] = &["CreateContainerError", "ContainerError"];
    const CONFIG: &[&str] = &["CreateContainerConfigError", "ContainerError"];
    const START: &[&str] = &[
        "RunContainerError",
        "StartError",
        "ContainerCannotRun",
        "ContainerError",
    ];
    const MOUNT: &[&str] = &["FailedMount", "FailedMapVolume"];
    let kill = "failed to \"KillContainer\" for \"web\" with KillContainerError: \"rpc error: code = Unknown desc = failed to kill container \"9a\": unknown error after kill: runc did not terminate sucessfully: container does not exist";
    for (reasons, text, id) in [
        (
            CONFIG,
            "services have not yet been read at least once, cannot construct envvars",
            cause::KF404,
        ),
        (
            CONFIG,
            "failed to sync secret cache: timed out waiting for the condition",
            cause::KF404,
        ),
        (
            CONFIG,
            "stat /data/kubelet/pods/u/volumes/kubernetes.io~csi/tls/mount: no such file or directory",
            cause::KF414,
        ),
        (
            CONFIG,
            "stat /srv/data: no such file or directory",
            cause::KF701,
        ),
        (
            CREATE,
            "failed to generate container \"9a\" spec: failed to generate spec: failed to mkdir \"/home/keys\": mkdir /home/keys: read-only file system",
            cause::KF412,
        ),
        (
            CREATE,
            "error while creating mount source path '/srv/x': mkdir /srv/x: read-only file system",
            cause::KF412,
        ),
        (
            CREATE,
            "failed to resolve symlink \"/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv/mount\": lstat /var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv/mount: permission denied",
            cause::KF421,
        ),
        (
            CREATE,
            "failed to create containerd container: mounts: snapshot 12 is not ready, err: no instance 12: not found",
            cause::KF616,
        ),
        (
            CREATE,
            "failed to create containerd container: create snapshot: missing parent \"k8s.io/2/sha256:59\" bucket: not found",
            cause::KF616,
        ),
        (
            &["FailedCreatePodSandBox"],
            "failed to create containerd container: create snapshot: missing parent \"k8s.io/2/sha256:59\" bucket: not found",
            cause::KF616,
        ),
        (
            CREATE,
            "failed to create containerd container: mount callback failed on /var/lib/containerd/tmpmounts/containerd-mount1: openat etc/passwd: path escapes from parent",
            cause::KF703,
        ),
        (
            START,
            "container 9a is not in created state: running",
            cause::KF715,
        ),
        (
            START,
            "failed to create containerd task: failed to create shim task: hcs::CreateComputeSystem 9a: The requested operation for attach namespace failed.: unknown",
            cause::KF715,
        ),
        (START, "NRI container start failed: boom", cause::KF510),
        (
            &["RunContainerError", "StartError"],
            "something that nobody knows",
            cause::KF704,
        ),
        (
            MOUNT,
            "MountVolume.SetUp failed for volume \"pv\" : kubernetes.io/csi: mounter.SetUpAt failed to check for STAGE_UNSTAGE_VOLUME capability: rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing dial unix /var/lib/kubelet/plugins/x.csi.example/csi.sock: connect: connection refused\"",
            cause::KF408,
        ),
        (
            MOUNT,
            "MountVolume.MountDevice failed for volume \"pv\" : rpc error: code = Unavailable desc = Failed to stage volume 17: device attach timeout",
            cause::KF417,
        ),
        (
            &["@stop", "FailedKillPod"],
            "rpc error: code = DeadlineExceeded desc = an error occurs during waiting for container \"9a\" to be killed: wait container \"9a\": context deadline exceeded",
            cause::KF905,
        ),
        (&["@stop", "FailedKillPod"], kill, cause::KF905),
        (
            &["@stop", "FailedKillPod"],
            "failed to stop sandbox \"5e\": failed to stop sandbox container \"5e\" in \"SANDBOX_READY\" state: context deadline exceeded",
            cause::KF907,
        ),
        (
            &["FailedCreatePodContainer"],
            "failed to ensure that the pod: u cgroups exist and are correctly applied: failed to create container for [kubepods burstable podu] : Unit kubepods-burstable-podu.slice already exists.",
            cause::KF311,
        ),
        (
            &["FailedCreatePodSandBox"],
            "plugin type=\"istio-cni\" name=\"istio-cni\" failed (add): istio-cni cmdAdd failed to contact node Istio CNI agent: unable to push CNI event (status code 500): no ztunnel connection",
            cause::KF518,
        ),
        (
            &["ErrImagePull"],
            "rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused\"",
            cause::KF515,
        ),
    ] {
        for reason in reasons {
            let told = Catalogue::get().best(reason, text, |_| true);
            assert_eq!(told.map(|(c, _)| c.id), Some(id), "{reason}: {text}");
        }
    }
}

/// True when a group takes part in every match of a pattern.
fn is_certain(pattern: &str, group: &str) -> bool {
    let groups = Regex::new(r"\(\?P<(\w+)>").unwrap();
    let alone = groups.replace_all(
        pattern,
        |found: &regex::Captures<'_>| {
            if &found[1] == group { "(" } else { "(?:" }
        },
    );
    Regex::new(&alone).unwrap().static_captures_len() == Some(2)
}

/// Returns the names of a template.
fn names_of(template: &str) -> Vec<&str> {
    let tails = template.split('{').skip(1);
    let names = tails.filter_map(|tail| Some(tail.split_once('}')?.0));
    names.filter(|n| super::super::text::is_name(n)).collect()
}

/// The names that every verdict of a stage has, because they belong to the pod or its owner: `base_names` and
/// `rules/owner.rs` set them.
fn always(stage: Stage) -> Vec<&'static str> {
    let mut names = vec!["ns", "pod", "uid", "logs"];
    if stage == Stage::Api {
        names.push("owner");
    }
    if stage >= Stage::Admit {
        names.push("node");
    }
    if stage >= Stage::Image {
        names.extend(["image", "registry"]);
    }
    if stage >= Stage::Create {
        names.push("container");
    }
    names
}

/// Names that code sets together with another: the step that uses the second has the first in its text.
const TOGETHER: [(&str, &str); 1] = [("remover", "remover_pods")];

/// A command with a name that is not known cannot be run.
#[test]
fn every_name_of_a_command_is_known_wherever_its_step_is_told() {
    let mut wrong = Vec::new();
    for cause in Catalogue::get().iter() {
        let groups: Vec<Vec<&str>> = cause
            .compiled
            .iter()
            .enumerate()
            .map(|(i, once)| {
                cause.names(i, "");
                let re = once.get().and_then(Option::as_ref).unwrap();
                re.capture_names().flatten().collect()
            })
            .collect();
        // A reason alone, or code, tells the cause without any of its patterns.
        let none = cause.rule || cause.any || !cause.any_on.is_empty();
        let none = none.then_some(("", [].as_slice()));
        let patterns = cause.patterns.iter().map(String::as_str);
        let origins = patterns.zip(groups.iter().map(Vec::as_slice)).chain(none);
        for (pattern, of_it) in origins {
            for (text, command) in cause.all_steps() {
                let whole = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
                let parts = whole.filter(|t| !t.contains(['[', ']']));
                for part in parts.map_or(vec![""], |t| t.split('|').collect()) {
                    let told = names_of(part);
                    // A name that another pattern captures is not known here, and the step is left out.
                    let of_another = |n: &&str| groups.concat().contains(n) && !of_it.contains(n);
                    if told.iter().any(of_another) {
                        continue;
                    }
                    let known = |n: &str| {
                        told.contains(&n)
                            || always(cause.stage).contains(&n)
                            || (of_it.contains(&n) && is_certain(pattern, n))
                            || TOGETHER.iter().any(|(a, b)| *b == n && told.contains(a))
                    };
                    let unknown = names_of(command).into_iter().find(|n| !known(n));
                    if let Some(name) = unknown {
                        wrong.push(format!(
                            "{}: {name}: {text}: {command}: {pattern}",
                            cause.id
                        ));
                    }
                }
            }
        }
    }
    wrong.dedup();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Findings of one cause are joined, each with its names, so that any of a sentence's names may be known together.
#[test]
fn a_sentence_joins_no_words_whichever_of_its_names_are_known() {
    let edge = |c: char| c.is_ascii_punctuation() && !"{}_".contains(c);
    let words = |text: &str, breaks: &[char]| -> Vec<String> {
        let breaks = |c: char| c == ' ' || breaks.contains(&c);
        let words = text.split(breaks).map(|w| w.trim_matches(edge).to_owned());
        words.filter(|w| !w.is_empty()).collect()
    };
    let mut wrong = Vec::new();
    for cause in Catalogue::get().iter() {
        let texts = cause.all_steps().map(|(text, _)| text);
        for template in texts.chain([&cause.say]) {
            let known = words(template, &['[', ']', '|']);
            let tails = template.split('{').skip(1);
            let mut keys: Vec<&str> = tails.map(|k| k.split('}').next().unwrap()).collect();
            keys.sort_unstable();
            keys.dedup();
            for chosen in 0..1_u32 << keys.len() {
                let mut names = Names::default();
                for (i, key) in keys.iter().enumerate() {
                    if chosen & (1 << i) != 0 {
                        // A name's value is its own placeholder, which is a word of the template.
                        names.set(key, &format!("{{{key}}}"));
                    }
                }
                let said = names.sentence(template).replace('?', "");
                let joined = words(&said, &[]);
                let joined = joined
                    .iter()
                    .find(|w| !known.contains(w) && w.contains(char::is_alphabetic));
                if let Some(word) = joined {
                    wrong.push(format!("{}: {word}: {said}", cause.id));
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
