//! Reads the kubelet's command line from the files of its systemd unit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::files;
use super::kubelet::{Unknown, below, unreadable};

/// Folders of unit files, by precedence (`systemd.unit(5)`, "Unit File Load Path").
const FOLDERS: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];

/// kflow's own files, which are ignored: the result is the command line without kflow.
const OWN: [&str; 2] = ["50-kflow.conf", "/etc/kflow/kubelet.env"];

/// True when the machine has a unit of this name.
pub(super) fn exists(root: &Path, name: &str) -> bool {
    let mut folders = FOLDERS.iter();
    folders.any(|dir| files::exists(&root.join(dir).join(name)).unwrap_or(false))
}

/// The words of the kubelet's command line, with variables expanded; `None` when it has no unit.
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
    // Of drop-ins with the same name, the folder of highest precedence wins; all are read by name.
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
        // A masked drop-in is a link to /dev/null.
        unit.read(&text(path)?.unwrap_or_default());
    }
    let mut variables = unit.variables;
    // Variables from files override those of the unit (`systemd.exec(5)`, EnvironmentFile=).
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
    // Longer names first, so that `$KUBELET` is not replaced within `$KUBELET_EXTRA_ARGS`.
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
                // An empty value clears the earlier ones.
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

/// Splits a line into words, and removes quotes.
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
