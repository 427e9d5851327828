//! Tables of nodes and of claims: `kubectl get nodes`, also `-o wide`, and `kubectl get pvc`, of every release.
//!
//! A row is the object as far as kube-apiserver's printer shows it (1.36: pkg/printers/internalversion/printers.go,
//! `printNode`, `printPersistentVolumeClaim`). Of a node that is not Ready it does not say whether the condition is False or
//! Unknown, nor why, nor since when.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use serde_json::{Map, Value, json};

use super::Moment;
use super::age::{age, word};
use super::fragment::NAMESPACE;
use super::object::long_mode;
use super::passed::Shown;
use super::pod::put;
use super::pods::{ROW_UID, Taken, is_name};
use super::table::{below, cells};

/// Status of the condition Ready of a node that a table shows as `NotReady`.
const NOT_TRUE: &str = "False or Unknown";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Node,
    Claim,
}

/// What `kubectl get` of several kinds writes before the name of a claim.
const OF_CLAIM: &str = "persistentvolumeclaim/";

/// Titles by which a table is known. No cell of a node's has several words or none. Before 1.8 there was no column ROLES.
const OF_NODES: [&str; 4] = ["NAME", "STATUS", "AGE", "VERSION"];
/// Before 1.6 claims and volumes had no column STORAGECLASS.
const OF_CLAIMS: [&str; 5] = ["NAME", "STATUS", "VOLUME", "CAPACITY", "AGE"];
/// Columns that are empty where a claim has no volume.
const OF_VOLUME: [&str; 3] = ["VOLUME", "CAPACITY", "ACCESS-MODES"];

/// What a row shows of its object, beside another of the same object. These live long, so their ages are too coarse.
pub(super) fn shown(object: &Value) -> Shown {
    let of = |at: &str| {
        object
            .pointer(at)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let mut hasher = FxHasher::default();
    let status = object.get("status").map(Value::to_string);
    status.hash(&mut hasher);
    Shown {
        key: format!(
            "{} {}/{}",
            of("/kind"),
            of("/metadata/namespace"),
            of("/metadata/name")
        ),
        age: None,
        state: hasher.finish(),
    }
}

/// A table while it is read.
#[derive(Debug)]
pub(super) struct Table {
    kind: Kind,
    /// Each with the character at which its title begins, from the first title on; 0 where blanks were lost.
    columns: Vec<(usize, String)>,
    /// Number of characters before the first title.
    indent: usize,
    rows: Vec<Value>,
}

impl Table {
    /// Begins the table of which this is the line of titles; `None` for every other line.
    pub(super) fn of_titles(line: &str) -> Option<Self> {
        let apart = cells(line.trim()).into_iter();
        // In one word before 1.10.
        let apart = apart.map(|(at, title)| match title {
            "ACCESSMODES" => (at, "ACCESS-MODES".to_owned()),
            title => (at, title.replace(' ', "-")),
        });
        let joined = line
            .replace("ACCESS MODES", "ACCESS-MODES")
            .replace("ACCESSMODES", "ACCESS-MODES");
        let words = joined.split_whitespace().map(|t| (0, t.to_owned()));
        let (kind, columns) = [apart.collect(), words.collect()]
            .into_iter()
            .find_map(|columns: Vec<_>| Some((kind(&columns)?, columns)))?;
        Some(Self {
            kind,
            columns,
            indent: line.chars().take_while(|c| c.is_whitespace()).count(),
            rows: Vec::new(),
        })
    }

    /// Begins a table without titles, as it is behind `| grep`, at its first row; `None` for every other line. `of_claims`: the
    /// command before it lists claims.
    pub(super) fn of_row(
        line: &str,
        of_claims: bool,
        namespace: &str,
        moment: Moment,
    ) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kind = if of_claims || words.first()?.starts_with(OF_CLAIM) {
            Kind::Claim
        } else {
            Kind::Node
        };
        let mut table = Self {
            kind,
            columns: Vec::new(),
            indent: 0,
            rows: Vec::new(),
        };
        let taken = table.line(line, namespace, moment);
        matches!(taken, Taken::Row).then_some(table)
    }

    /// Takes a row. `namespace`: that of the command, for claims in a table that has no column for it.
    pub(super) fn line(&mut self, line: &str, namespace: &str, moment: Moment) -> Taken {
        let (first, _) = word(line);
        // `kubectl get nodes,pvc` writes the kind before the name.
        if !is_name(first.split_once('/').map_or(first, |(_, name)| name)) {
            return Taken::No;
        }
        let Some(cells) = self.cells(line) else {
            return Taken::Unread;
        };
        let object = match self.kind {
            Kind::Node => node(&cells, moment),
            Kind::Claim => {
                let of_row = cells.get("NAMESPACE").unwrap_or(namespace);
                let of_row = Some(of_row).filter(|n| !n.is_empty());
                claim(&cells, of_row.unwrap_or(NAMESPACE), moment)
            }
        };
        let Some(object) = object else {
            return Taken::Unread;
        };
        self.rows.push(object);
        Taken::Row
    }

    /// Returns the objects.
    pub(super) fn end(self) -> Vec<Value> {
        self.rows
    }

    /// Returns the cell of each column. Where blanks were lost, each word is a cell; kubectl leaves `VOLUME`, `CAPACITY` and
    /// `ACCESS MODES` of an unbound claim empty, so a row may have three words fewer. Of a node the first words are read.
    fn cells(&self, line: &str) -> Option<Cells<'_>> {
        if self.columns.is_empty() {
            let words: Vec<&str> = line.split_whitespace().collect();
            return match self.kind {
                Kind::Node => of_node(&words),
                Kind::Claim => of_claim(&words),
            };
        }
        let begins: Vec<usize> = self.columns.iter().map(|(at, _)| *at).collect();
        let titles: Vec<&str> = self.columns.iter().map(|(_, t)| t.as_str()).collect();
        if let Some(cells) = below(&begins, self.indent, line) {
            return Some(Cells(titles.into_iter().zip(cells).collect()));
        }
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let titles: Vec<&str> = match self.kind {
            _ if words.len() == titles.len() => titles,
            Kind::Node => {
                let version = titles.iter().position(|t| *t == "VERSION")?;
                titles.into_iter().take(version + 1).collect()
            }
            Kind::Claim => {
                let told = titles.into_iter().filter(|t| !OF_VOLUME.contains(t));
                let told: Vec<&str> = told.collect();
                (words.len() == told.len()).then_some(told)?
            }
        };
        (words.len() >= titles.len()).then(|| Cells(titles.into_iter().zip(words).collect()))
    }
}

/// Returns the cells of a row of nodes without titles: `node1   NotReady   worker   5d   v1.27.3`.
fn of_node(words: &[&str]) -> Option<Cells<'static>> {
    let (name, status, more) = match words {
        [name, status, more @ ..] => (*name, *status, more),
        _ => return None,
    };
    let (age, version) = match more {
        [age, version, ..] if is_age(age) => (*age, *version),
        [_, age, version, ..] if is_age(age) => (*age, *version),
        _ => return None,
    };
    let digits = version.strip_prefix('v')?;
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let cells = [
        ("NAME", name),
        ("STATUS", status),
        ("AGE", age),
        ("VERSION", version),
    ];
    Some(Cells(cells.map(|(t, c)| (t, c.to_owned())).into()))
}

/// Returns the cells of a row of claims without titles. Of a claim that is not bound only class and age are told; behind the
/// class stands one of attributes since 1.29.
fn of_claim(words: &[&str]) -> Option<Cells<'static>> {
    let at = words
        .iter()
        .take(3)
        .position(|w| matches!(*w, "Pending" | "Bound" | "Lost" | "Terminating"))?;
    let (front, rest) = words.split_at_checked(at)?;
    let (namespace, name) = match front {
        [name] => ("", *name),
        [namespace, name] => (*namespace, *name),
        _ => return None,
    };
    let (status, rest) = rest.split_first()?;
    // `-o wide` has the mode behind the age.
    let rest = match rest {
        [front @ .., "Filesystem" | "Block"] => front,
        rest => rest,
    };
    let (age, rest) = rest.split_last().filter(|(age, _)| is_age(age))?;
    // A claim that names its volume has a capacity of 0 until it is bound.
    let (volume, capacity, modes, rest) = match rest {
        [volume, capacity, modes, rest @ ..] if is_modes(modes) => {
            (*volume, *capacity, *modes, rest)
        }
        [volume, "0", rest @ ..] => (*volume, "0", "", rest),
        rest if *status == "Pending" => ("", "", "", rest),
        _ => return None,
    };
    if rest.len() > 2 {
        return None;
    }
    let class = rest.first().copied().unwrap_or_default();
    let cells = [
        ("NAMESPACE", namespace),
        ("NAME", name),
        ("STATUS", *status),
        ("VOLUME", volume),
        ("CAPACITY", capacity),
        ("ACCESS-MODES", modes),
        ("STORAGECLASS", class),
        ("AGE", *age),
    ];
    Some(Cells(cells.map(|(t, c)| (t, c.to_owned())).into()))
}

fn is_age(word: &str) -> bool {
    age(word).is_some()
}

/// `RWO,ROX`
fn is_modes(word: &str) -> bool {
    word.split(',')
        .all(|m| matches!(m, "RWO" | "ROX" | "RWX" | "RWOP"))
}

fn kind(columns: &[(usize, String)]) -> Option<Kind> {
    let has = |title: &&str| columns.iter().any(|(_, t)| t == title);
    let all = [(Kind::Node, &OF_NODES[..]), (Kind::Claim, &OF_CLAIMS)];
    let mut all = all.into_iter();
    let found = all.find(|(_, titles)| titles.iter().all(has));
    found.map(|(kind, _)| kind)
}

/// The cells of a row by their titles.
struct Cells<'a>(Vec<(&'a str, String)>);

impl Cells<'_> {
    /// Returns what a cell says; `None` for `<none>` and the like.
    fn get(&self, title: &str) -> Option<&str> {
        let (_, cell) = self.0.iter().find(|(t, _)| *t == title)?;
        Some(cell.as_str()).filter(|c| !c.is_empty() && !c.starts_with('<'))
    }

    /// Returns the object's metadata; `None` where name or age cannot be read.
    fn metadata(&self, kind: &str, moment: Moment) -> Option<Map<String, Value>> {
        let name = self.get("NAME")?;
        let name = name.strip_prefix(kind).unwrap_or(name);
        let mut metadata = Map::new();
        put(&mut metadata, "name", Some(name).filter(|n| is_name(n)));
        if let Some(cell) = self.get("AGE") {
            let created = moment.before(age(cell)?).to_rfc3339_seconds();
            put(&mut metadata, "creationTimestamp", Some(&created));
        }
        metadata.contains_key("name").then_some(metadata)
    }
}

/// Returns a Node. Its taints are not told, but for the one that is the cordon itself.
fn node(cells: &Cells<'_>, moment: Moment) -> Option<Value> {
    let mut metadata = cells.metadata("node/", moment)?;
    put(&mut metadata, "uid", Some(ROW_UID));
    let mut conditions = Vec::new();
    let (mut spec, mut info) = (Map::new(), Map::new());
    for word in cells.get("STATUS")?.split(',') {
        match word {
            "Ready" => conditions.push(json!({"type": "Ready", "status": "True"})),
            "NotReady" => conditions.push(json!({"type": "Ready", "status": NOT_TRUE})),
            "SchedulingDisabled" => {
                spec.insert("unschedulable".into(), json!(true));
            }
            "Unknown" => {}
            _ => return None,
        }
    }
    put(&mut info, "kubeletVersion", cells.get("VERSION"));
    let runtime = cells.get("CONTAINER-RUNTIME");
    put(&mut info, "containerRuntimeVersion", runtime);
    let status = json!({"conditions": conditions, "nodeInfo": info});
    Some(json!({"kind": "Node", "metadata": metadata, "spec": spec, "status": status}))
}

/// Returns a PersistentVolumeClaim.
fn claim(cells: &Cells<'_>, namespace: &str, moment: Moment) -> Option<Value> {
    let mut metadata = cells.metadata(OF_CLAIM, moment)?;
    put(&mut metadata, "namespace", Some(namespace));
    let name = metadata.get("name").and_then(Value::as_str)?;
    let uid = format!("{ROW_UID}{namespace}/{name}");
    put(&mut metadata, "uid", Some(&uid));
    let (mut spec, mut status) = (Map::new(), Map::new());
    match cells.get("STATUS")? {
        phase @ ("Pending" | "Bound" | "Lost") => put(&mut status, "phase", Some(phase)),
        "Terminating" => put(
            &mut metadata,
            "deletionTimestamp",
            Some(&moment.0.to_rfc3339_seconds()),
        ),
        _ => return None,
    }
    put(&mut spec, "storageClassName", cells.get("STORAGECLASS"));
    put(&mut spec, "volumeName", cells.get("VOLUME"));
    put(&mut spec, "volumeMode", cells.get("VOLUMEMODE"));
    if let Some(modes) = cells.get("ACCESS-MODES") {
        spec.insert(
            "accessModes".into(),
            modes.split(',').map(long_mode).collect(),
        );
    }
    let mut capacity = Map::new();
    put(&mut capacity, "storage", cells.get("CAPACITY"));
    status.insert("capacity".into(), json!(capacity));
    Some(
        json!({"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}),
    )
}
