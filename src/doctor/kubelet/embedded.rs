//! k3s, RKE2 and microk8s: the kubelet runs inside another process.

use std::path::Path;

use serde_json::Value;

use super::{FLAG, Found, Unknown, below, files, flags, socket, unit, unit_words, unreadable};

/// The endpoint on distributions that run the kubelet inside their own process; `None` on others. A value that `wanted`
/// refuses is skipped in favour of those that it overrides, down to the distribution's default.
pub(super) fn embedded(
    root: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Option<Found>, Unknown> {
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
        given.insert(0, root.join(&path));
        let mut texts = Vec::new();
        for f in &given {
            let text = files::text_if_any(f).map_err(known(f))?.unwrap_or_default();
            let place = format!("/{}", f.strip_prefix(root).unwrap_or(f).display());
            texts.push((place, text));
        }
        let mut set = set(&texts)?.into_iter();
        let (place, endpoint) = set.find(|(_, e)| wanted(e)).unwrap_or_else(|| {
            let own = "/run/k3s/containerd/containerd.sock";
            (format!("the default of {name}"), own.to_owned())
        });
        return Ok(Some(Found {
            place,
            endpoint: socket(&endpoint),
            change,
        }));
    }
    let microk8s = "var/snap/microk8s/current/args/kubelet";
    let path = root.join(microk8s);
    let Some(text) = files::text_if_any(&path).map_err(known(&path))? else {
        return Ok(None);
    };
    let lines = text.lines().filter(|l| !l.trim_start().starts_with('#'));
    let words: Vec<String> = lines.flat_map(unit_words).collect();
    // When a flag is repeated, the last one counts.
    let set = flags(&words, FLAG).into_iter().rev().find(|e| wanted(e));
    let set = set.unwrap_or_else(|| "${SNAP_COMMON}/run/containerd.sock".into());
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

/// Returns what the YAML files of k3s or RKE2 set as the kubelet's endpoint, each with its place, the one that counts
/// first. A later file replaces a list of an earlier one, and adds to it where its key ends with `+`
/// (`k3s-io/k3s`, `pkg/configfilearg/parser.go`). The kubelet's own arguments come after those that the distribution makes.
fn set(files: &[(String, String)]) -> Result<Vec<(String, String)>, Unknown> {
    let mut args: Vec<(String, String)> = Vec::new();
    let mut own: Vec<(String, String)> = Vec::new();
    for (place, text) in files {
        if text.trim().is_empty() {
            continue;
        }
        let read = serde_saphyr::from_str::<Value>(text);
        let read = read.map_err(|e| unreadable(place, &e))?;
        let strings = |key: &str| -> Option<Vec<String>> {
            match read.get(key)? {
                Value::String(one) => Some(vec![one.clone()]),
                Value::Array(all) => {
                    let all = all.iter().filter_map(Value::as_str);
                    Some(all.map(str::to_owned).collect())
                }
                _ => None,
            }
        };
        let with_place = |all: Vec<String>| all.into_iter().map(|v| (place.clone(), v));
        if let Some(all) = strings("kubelet-arg") {
            args = with_place(all).collect();
        }
        args.extend(strings("kubelet-arg+").into_iter().flat_map(with_place));
        own.extend(
            strings("container-runtime-endpoint")
                .into_iter()
                .flat_map(with_place),
        );
    }
    let endpoint = |(place, arg): (String, String)| {
        let flag = arg.trim_start_matches("--");
        let value = flag.strip_prefix("container-runtime-endpoint=")?;
        Some((place, value.to_owned()))
    };
    let args = args.into_iter().rev().filter_map(endpoint);
    let all = args.chain(own.into_iter().rev());
    Ok(all.filter(|(_, endpoint)| !endpoint.is_empty()).collect())
}
