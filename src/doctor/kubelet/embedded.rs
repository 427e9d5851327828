//! k3s, RKE2 and microk8s: the kubelet runs inside another process.

use std::path::Path;

use super::{Found, Unknown, below, files, socket, unit, unreadable};

/// The endpoint on distributions that run the kubelet inside their own process; `None` on others.
pub(super) fn embedded(root: &Path) -> Result<Option<Found>, Unknown> {
    let known = |path: &Path| {
        let shown = format!("/{}", path.strip_prefix(root).unwrap_or(path).display());
        move |e| unreadable(&shown, &e)
    };
    let exists = |path: &str| {
        let path = root.join(path);
        files::exists(&path).map_err(known(&path))
    };
    for name in ["k3s", "rke2"] {
        let path = format!("etc/rancher/{name}/config.yaml");
        if !exists(&format!("var/lib/rancher/{name}"))? && !exists(&path)? {
            continue;
        }
        // The distribution's own setting `container-runtime-endpoint` would disable its containerd. A kubelet
        // argument overrides the one that the distribution generates.
        let dir = format!("/etc/rancher/{name}/config.yaml.d");
        let change = format!(
            "mkdir -p {dir}; echo 'kubelet-arg+: [container-runtime-endpoint=unix:///run/kflow/cri.sock]' > {dir}/50-kflow.yaml\nsystemctl restart {}",
            unit(root)
        );
        let dir = below(root, &dir);
        let mut given = files::entries_if_any(&dir).map_err(known(&dir))?;
        given.reverse();
        given.push(root.join(&path));
        let mut set = None;
        for f in &given {
            let text = files::text_if_any(f).map_err(known(f))?.unwrap_or_default();
            let value = flag(&text, "container-runtime-endpoint")
                .or_else(|| yaml_value(&text, "container-runtime-endpoint"));
            let place = || format!("/{}", f.strip_prefix(root).unwrap_or(f).display());
            set = set.or_else(|| Some((place(), value?)));
        }
        let (place, endpoint) = set.unwrap_or_else(|| {
            let own = "/run/k3s/containerd/containerd.sock";
            (format!("the default of {name}"), own.to_owned())
        });
        return Ok(Some(Found {
            place,
            endpoint: socket(endpoint.trim_end_matches([']', ','])),
            change,
        }));
    }
    let microk8s = "var/snap/microk8s/current/args/kubelet";
    let path = root.join(microk8s);
    let Some(text) = files::text_if_any(&path).map_err(known(&path))? else {
        return Ok(None);
    };
    let set = flag(&text, "--container-runtime-endpoint")
        .unwrap_or_else(|| "${SNAP_COMMON}/run/containerd.sock".into());
    Ok(Some(Found {
        place: format!("/{microk8s}"),
        // The start script's shell expands these variables.
        endpoint: socket(
            &set.replace("${SNAP_COMMON}", "/var/snap/microk8s/common")
                .replace("${SNAP_DATA}", "/var/snap/microk8s/current"),
        ),
        change: format!(
            "in /{microk8s}: --container-runtime-endpoint=unix:///run/kflow/cri.sock\nsnap restart microk8s.daemon-kubelite"
        ),
    }))
}

/// Value of `--name=value` or `--name value` in a command line, an environment file or a list of arguments.
fn flag(text: &str, name: &str) -> Option<String> {
    let mut words = text.split(|c: char| c.is_whitespace() || c == '"' || c == '\'');
    while let Some(word) = words.next() {
        // The first flag may follow `KUBELET_KUBEADM_ARGS=`.
        let Some((_, after)) = word.split_once(name) else {
            continue;
        };
        match after.strip_prefix('=') {
            Some(value) if !value.is_empty() => return Some(value.to_owned()),
            None if after.is_empty() => return words.find(|w| !w.is_empty()).map(str::to_owned),
            _ => {}
        }
    }
    None
}

/// Value of a top-level key in a YAML mapping or a JSON object, without a full parser.
fn yaml_value(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let line = line.trim_end().trim_end_matches(',');
        // A top-level key is not indented in YAML; in JSON it is quoted.
        let line = if line.starts_with(' ') {
            line.trim_start().strip_prefix('"').map(|l| (l, true))
        } else {
            Some((line.trim_start_matches(['"', '{', ' ']), false))
        };
        let (line, quoted) = line?;
        let rest = line.strip_prefix(key)?;
        let rest = if quoted {
            rest.strip_prefix('"')?
        } else {
            rest.strip_prefix('"').unwrap_or(rest)
        };
        let value = rest.trim_start().strip_prefix(':')?;
        let value = value.split(" #").next().unwrap_or_default().trim();
        let value = value.trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    })
}
