//! Which cause the words of an error are, whichever reason they come by.

use super::*;

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
            cause::KF518,
        ),
        // Ansible-role-kubernetes-worker 16 and AKS 4342: dockershim before 1.16 and Go before 1.14, and single quotation marks.
        (
            "FailedCreatePodSandBox",
            r#"Failed create pod sandbox: rpc error: code = Unknown desc = [failed to set up sandbox container "3b64" network for pod "my-nginx": NetworkPlugin cni failed to set up pod "my-nginx_default" network: error getting ClusterInformation: Get https://127.0.0.1:6443/apis/crd.projectcalico.org/v1/clusterinformations/default: dial tcp 127.0.0.1:6443: connect: connection refused, failed to clean up sandbox container "3b64" network for pod "my-nginx": NetworkPlugin cni failed to teardown pod "my-nginx_default" network: x]"#,
            cause::KF504,
        ),
        (
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox '3e16': plugin type='azure-vnet' failed (add): IPAM Invoker Add failed with error: Failed to get IP address from CNS with error: %w: http request failed: Post 'http://localhost:10090/network/requestipconfig': dial tcp 127.0.0.1:10090: connect: connection refused",
            cause::KF518,
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
            "FailedCreatePodSandBox",
            "Error reserving pod name k8s_p_ns_u_0 for id 5e1f: name is reserved",
            cause::KF507,
        ),
        // moby/moby daemon/names.go, `reserveName`.
        (
            "FailedCreatePodSandBox",
            r#"Failed create pod sandbox: rpc error: code = Unknown desc = failed to create a sandbox for pod "lomp-ext-d8c8b8c46-4v8tl": Error response from daemon: Conflict. The container name "/k8s_POD_lomp-ext-d8c8b8c46-4v8tl_default_65046a06-f795-11e9-9bb6-b67fb7a70bad_0" is already in use by container "30aa3f5847e0ce89e9d411e76783ba14accba7eb7743e605a10a9a862a72c1e2". You have to remove (or rename) that container to be able to reuse that name."#,
            cause::KF507,
        ),
        (
            "CreateContainerError",
            r#"Error response from daemon: Conflict. The container name "/k8s_c_p_ns_u_0" is already in use by container 30aa3f58. You have to remove (or rename) that container to be able to reuse that name."#,
            cause::KF702,
        ),
        (
            "FailedCreatePodSandBox",
            r#"failed to start sandbox container for pod "p": Error response from daemon: OCI runtime create failed: container_linux.go:348: starting container process caused "process_linux.go:301: running exec setns process for init caused \"signal: killed\"": unknown"#,
            cause::KF714,
        ),
        (
            "FailedCreatePodSandBox",
            r#"NetworkPlugin cni failed on the status hook for pod "zookeeper-1_default": Unexpected command output nsenter: failed to execute ip: No such file or directory"#,
            cause::KF501,
        ),
        (
            "NetworkNotReady",
            "runtime network not ready: NetworkPlugin kubenet does not ensure pod network",
            cause::KF310,
        ),
        (
            "FailedPrepareDynamicResources",
            "pod pod1(8221078e-5853-49ba-969c-04bb67c23c90) is not allowed to use resource claim pve-interfaces(6c61e511-d23c-411d-8774-1ab087ba807c)",
            cause::KF415,
        ),
        // 1.17 and older call the kubelet's checks by the names of the scheduler's predicates.
        ("MatchNodeSelector", "", cause::KF314),
        ("PodFitsHostPorts", "", cause::KF314),
        ("HostName", "Predicate HostName failed", cause::KF314),
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
    let not_of_ends = [cause::KF515, cause::KF523];
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
