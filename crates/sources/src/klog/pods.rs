//! Finds the logs of the control plane's static pods, by names below `/var/log/pods`.

use kflow_model::log::Component;

/// Namespaces of the control plane's pods: on OpenShift each component has its own.
const NAMESPACES: [&str; 4] = [
    "kube-system",
    "openshift-kube-apiserver",
    "openshift-kube-scheduler",
    "openshift-kube-controller-manager",
];

/// Returns the component whose static pod has this folder below `/var/log/pods`. The folder is `NAMESPACE_NAME_UID`,
/// where the name of a static pod ends with its node's (`pkg/kubelet/kuberuntime/helpers.go`, `BuildPodLogsDirectory`).
pub fn component_of(folder: &str) -> Option<Component> {
    let mut parts = folder.split('_');
    let (namespace, name) = (parts.next()?, parts.next()?);
    parts.next()?;
    if !NAMESPACES.contains(&namespace) {
        return None;
    }
    Component::CONTROL.into_iter().find(|component| {
        let rest = name.strip_prefix(component.program());
        rest.is_some_and(|r| r.starts_with('-'))
    })
}

/// Returns the log that a container of a pod writes now: of `0.log`, `1.log`, … in its folder the one with the
/// highest number (`pkg/kubelet/kuberuntime/helpers.go`, `buildContainerLogsPath`). A rotated log has a time behind
/// its name.
pub fn newest<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let numbered = names
        .into_iter()
        .filter_map(|n| Some((n.strip_suffix(".log")?.parse::<u32>().ok()?, n)));
    numbered.max().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_a_container_that_started_anew_is_the_one_with_the_highest_number() {
        let rotated = [
            "0.log",
            "2.log",
            "10.log",
            "10.log.20261121-002419",
            "10.log.gz",
        ];
        assert_eq!(newest(rotated), Some("10.log"));
        assert_eq!(newest(["x.log", "audit.log"]), None);
        assert_eq!(newest([]), None);
    }

    #[test]
    fn folders_of_others_are_no_control_plane() {
        for (folder, is) in [
            ("kube-system_kube-apiserver-cp1_aa", true),
            ("openshift-kube-apiserver_kube-apiserver-cp1_aa", true),
            ("kube-system_kube-apiserver_aa", false),
            ("kube-system_kube-apiserverx-cp1_aa", false),
            ("kube-system_kube-apiserver-cp1", false),
            ("shop_kube-apiserver-cp1_aa", false),
            ("", false),
        ] {
            assert_eq!(component_of(folder).is_some(), is, "{folder}");
        }
    }
}
