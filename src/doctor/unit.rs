//! The command line that systemd starts the kubelet with, from the unit's files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::files;
use super::kubelet::{Unknown, below, unreadable};

/// Folders of unit files, those that win first (`systemd.unit(5)`, "Unit File Load Path").
const FOLDERS: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// Files of kflow's own, which are left out: what is asked for is how the kubelet runs without it.
const OWN: [&str; 2] = ["50-kflow.conf", "/etc/kflow/kubelet.env"];

/// The words of the kubelet's command line, variables expanded; `None` when it has no unit.
pub(super) fn command_line(root: &Path) -> Result<Option<Vec<String>>, Unknown> {
    let text = |path: &Path| {
        files::text_if_any(path).map_err(|e| unreadable(&path.display().to_string(), &e))
    };
    let mut main = None;
    for dir in FOLDERS {
        if main.is_none() {
            main = text(&root.join(dir).join("kubelet.service"))?;
        }
    }
    let Some(main) = main else {
        return Ok(None);
    };
    // A drop-in of one name is taken from the folder that wins, and all are read by name.
    let mut drop_ins: BTreeMap<std::ffi::OsString, PathBuf> = BTreeMap::new();
    for dir in FOLDERS.iter().rev() {
        let dir = root.join(dir).join("kubelet.service.d");
        let entries =
            files::entries_if_any(&dir).map_err(|e| unreadable(&dir.display().to_string(), &e))?;
        for path in entries {
            if let Some(name) = path.file_name()
                && path.extension().is_some_and(|e| e == "conf")
                && name != OWN[0]
            {
                drop_ins.insert(name.to_owned(), path);
            }
        }
    }
    let mut unit = Unit::default();
    unit.read(&main);
    for path in drop_ins.values() {
        // One that is masked leads to /dev/null.
        unit.read(&text(path)?.unwrap_or_default());
    }
    let mut variables = unit.variables;
    // Settings from files win over those of the unit (`systemd.exec(5)`, EnvironmentFile=).
    for file in unit.files {
        let set = text(&below(root, &file))?.unwrap_or_default();
        for line in set.lines() {
            if let Some((name, value)) = line.trim().split_once('=')
                && !name.starts_with(['#', ';'])
            {
                variables.insert(name.to_owned(), words(value).join(" "));
            }
        }
    }
    let Some(mut line) = unit.start else {
        return Ok(None);
    };
    for (name, value) in &variables {
        line = line.replace(&format!("${{{name}}}"), value);
    }
    // Longer names first: $KUBELET_EXTRA_ARGS is not $KUBELET followed by letters.
    for (name, value) in variables.iter().rev() {
        line = line.replace(&format!("${name}"), value);
    }
    Ok(Some(words(&line)))
}

#[derive(Default)]
struct Unit {
    start: Option<String>,
    variables: BTreeMap<String, String>,
    files: Vec<String>,
}

impl Unit {
    fn read(&mut self, text: &str) {
        let joined = text.replace("\\\n", " ");
        for line in joined.lines().map(str::trim) {
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let value = value.trim();
            match key.trim() {
                // An empty setting takes back those before it.
                "ExecStart" => self.start = (!value.is_empty()).then(|| value.to_owned()),
                "Environment" if value.is_empty() => self.variables.clear(),
                "Environment" => {
                    for word in words(value) {
                        if let Some((name, value)) = word.split_once('=') {
                            self.variables.insert(name.to_owned(), value.to_owned());
                        }
                    }
                }
                "EnvironmentFile" if value.is_empty() => self.files.clear(),
                "EnvironmentFile" => {
                    let file = value.trim_start_matches('-');
                    if file != OWN[1] {
                        self.files.push(file.to_owned());
                    }
                }
                _ => {}
            }
        }
    }
}

/// Words of a line, quotes taken off.
pub(super) fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote, mut open) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), c) => word.push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                open = true;
            }
            (None, c) if c.is_whitespace() => {
                if open || !word.is_empty() {
                    all.push(std::mem::take(&mut word));
                }
                open = false;
            }
            (None, c) => word.push(c),
        }
    }
    if open || !word.is_empty() {
        all.push(word);
    }
    all
}
