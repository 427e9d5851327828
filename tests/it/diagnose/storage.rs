//! Claims, volumes and what pods mount: what the objects that are known beside a message say of it. Lists of a real cluster
//! (fixtures/README.md, `causes/real`).

use super::owners::why;

const LISTS: &str = "../causes/real/claims";
/// 48 s later, when claim noclass was deleted.
const LATER: &str = "../causes/real/claims-later";

/// Recording, pod, what is said of it, and what is not.
const TOLD: [(&str, &str, &[&str], &[&str]); 13] = [
    // The class is only a name of volumes that were made by hand.
    (
        LISTS,
        "vol/toobig",
        &[
            "volume hp-small of that class does not fit: it has 1Gi and the claim wants 5Gi.",
            "volumes of class small are made by hand",
        ],
        &["there are extprov", "also"],
    ),
    (
        LISTS,
        "vol/rwx",
        &[
            "volume hp-mode of that class does not fit: it is ReadWriteOnce and the claim wants ReadWriteMany.",
        ],
        &["there are extprov", "also"],
    ),
    (
        LISTS,
        "vol/noclass",
        &["its storage class is modes and the claim names none."],
        &[],
    ),
    (
        LISTS,
        "vol/locwrong",
        &[
            "volume loc-wrong can only be used from nodes with kubernetes.io/hostname=node9, and no node has that.",
            "kubectl get nodes --show-labels",
        ],
        &["also"],
    ),
    (
        LISTS,
        "vol/rwop-b",
        &[
            "The pod's volume of claim rwop is in use by pod rwop-a on node node1: ",
            "kubectl -n vol get pod rwop-a -o wide",
        ],
        &["also"],
    ),
    // Waiting for the pod to be scheduled is no reason why it is not.
    (
        LISTS,
        "vol/wffc-nopv",
        &[
            "nothing makes volumes of class wffc (its provisioner is kubernetes.io/no-provisioner), so they have to be made by hand; of 8 known volumes none has this class.",
            "make a PersistentVolume of class wffc",
        ],
        &["csistoragecapacities", "KF215", "also"],
    ),
    (
        LISTS,
        "vol/extw",
        &["has not been made yet by provisioner ebs.csi.example.com."],
        &["KF215", "also"],
    ),
    // Nothing that a pod says makes a socket, and a volume's path is not in the pod.
    (
        LISTS,
        "vol/hpsock",
        &[
            "it is missing or not a socket file; the runtime of the node is containerd, which makes another one.",
            "does it run on node node1, and is this its path: ss -xlp | grep /var/run/docker.sock",
        ],
        &["OrCreate"],
    ),
    (
        LISTS,
        "vol/locnopath",
        &[
            "Path /mnt/disks/ssd1 of volume loc-nopath of claim locnopath on node node1 cannot be used: it does not exist.",
            "kubectl get pv loc-nopath -o yaml",
        ],
        &["OrCreate"],
    ),
    // The message has no more than the kind of the object that the key is missing from.
    (
        LISTS,
        "vol/cmkey",
        &[
            "Volume data wants key nope.yaml, which configmap conf does not have.",
            "kubectl -n vol describe configmap conf",
        ],
        &["secrets"],
    ),
    (
        LISTS,
        "vol/projkey",
        &[
            "Volume data wants key missing.yaml, which configmap conf does not have.",
            "kubectl -n vol describe configmap conf",
        ],
        &["secrets"],
    ),
    (
        LISTS,
        "vol/subpathexpr",
        &[
            "a subPathExpr of its volume mounts has the environment variable POD_ID in it, which the container does not define.",
            "jsonpath='{.spec..volumeMounts}{.spec..env}{.spec..envFrom}'",
        ],
        &["journalctl"],
    ),
    // What was said of the claim before it was deleted is over.
    (
        LATER,
        "vol/noclass",
        &["Persistent volume claim noclass is not found in namespace vol."],
        &["KF213", "also"],
    ),
];

#[test]
fn what_is_known_beside_a_message_is_said() {
    for (name, asked, expected, never) in TOLD {
        let (said, status) = why(name, &[asked]);
        for words in expected {
            assert!(said.contains(words), "{asked}: {words}: {said}");
        }
        // What stands beside the verdict begins its line.
        let (said, _) = said.split_once("kflow: ").unwrap_or((&said, ""));
        for words in never {
            assert!(!said.contains(words), "{asked}: {words}: {said}");
        }
        assert_eq!(status, Some(1), "{asked}");
    }
}
