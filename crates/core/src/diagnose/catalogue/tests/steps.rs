//! Next steps: those that the words of an error choose, and the names in their commands.

use super::*;

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
            &["{.spec..securityContext}"],
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
        (cause::KF418, "FailedAttachVolume", "AttachVolume.Attach failed for volume \"v\" : rpc error: code = Internal desc = Could not attach volume \"vol-1\" to node \"i-1\": operation error EC2: AttachVolume, https response error StatusCode: 403, api error UnauthorizedOperation: You are not authorized to perform this operation.".to_owned(), "driver's own controller", "secretproviderclasses"),
        (cause::KF420, "FailedMount", mount("lustre", "mount.lustre: mount a@tcp:/b at /c failed: No such device\nAre the lustre modules loaded?"), "modprobe lustre", "?"),
        (cause::KF501, "FailedCreatePodSandBox", cni("vendor", "something that nobody knows"), "logs of the CNI pods", "/etc/cni/net.d"),
        (cause::KF501, "FailedCreatePodSandBox", "networkPlugin cni failed to set up pod \"p_ns\" network: request ip return 500 route is not ready, please see kube-ovn-controller logs to find errors".to_owned(), "deployment/kube-ovn-controller", "if cni was"),
        (cause::KF501, "BranchAllocationFailed", "failed to allocate branch ENI to pod: cannot create new eni entry already exist".to_owned(), "security groups", "host-local"),
        (cause::KF502, "FailedCreatePodSandBox", cni("aws-cni", "add cmd: failed to assign an IP address to container"), "aws-routed-eni", "host-local"),
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

/// Names that code sets together with another: the step that uses the second has the first in its text.
const TOGETHER: [(&str, &str); 5] = [
    ("by_hand", "claim"),
    ("gone", "service_ns"),
    ("made", "all_made"),
    ("remover", "remover_pods"),
    ("others", "other"),
];

/// Returns the names of a template.
fn names_of(template: &str) -> Vec<&str> {
    let tails = template.split('{').skip(1);
    let names = tails.filter_map(|tail| Some(tail.split_once('}')?.0));
    names
        .filter(|n| crate::diagnose::text::is_name(n))
        .collect()
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
        names.extend(["image", "registry", "scheme"]);
    }
    if stage >= Stage::Create {
        names.push("container");
    }
    names
}

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
