//! Tables of nodes and of claims: `kubectl get nodes`, also `-o wide`, and `kubectl get pvc`, of every release.
//!
//! A row is the object as far as kube-apiserver's printer shows it (1.36: pkg/printers/internalversion/printers.go,
//! `printNode`, `printPersistentVolumeClaim`). Of a node that is not Ready it does not say whether the condition is False or
//! Unknown, nor why, nor since when.

use serde_json::{Map, Value, json};

use super::age::{age, word};
use super::object::long_mode;
use super::pod::put;
use super::pods::{ROW_UID, is_name};
use super::{Moment, Taken, seconds};

/// Status of the condition Ready of a node that a table shows as `NotReady`.
const NOT_TRUE: &str = "False or Unknown";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Node,
    Claim,
}

/// A table while it is read.
#[derive(Debug)]
pub(super) struct Table {
    kind: Kind,
    /// Titles of the columns, and where each begins.
    columns: Vec<(usize, String)>,
    rows: Vec<Map<String, Value>>,
}

impl Table {
    /// Begins the table of which this is the line of titles; `None` for every other line.
    pub(super) fn of_titles(line: &str) -> Option<Self> {
        let line = line.replace("ACCESS MODES", "ACCESS-MODES");
        let mut columns = Vec::new();
        let mut rest = line.as_str();
        loop {
            let (title, after) = word(rest);
            if title.is_empty() {
                break;
            }
            columns.push((line.len() - after.len() - title.len(), title.to_owned()));
            rest = after;
        }
        let has = |title: &&str| columns.iter().any(|(_, t)| t == title);
        let kind = [
            (
                Kind::Node,
                &["NAME", "STATUS", "ROLES", "AGE", "VERSION"][..],
            ),
            (
                Kind::Claim,
                &[
                    "NAME",
                    "STATUS",
                    "VOLUME",
                    "CAPACITY",
                    "STORAGECLASS",
                    "AGE",
                ][..],
            ),
        ];
        let (kind, _) = kind
            .into_iter()
            .find(|(_, titles)| titles.iter().all(has))?;
        Some(Self {
            kind,
            columns,
            rows: Vec::new(),
        })
    }

    /// Takes a row. `namespace`: that of the command, for claims in a table that has no column for it.
    pub(super) fn line(&mut self, line: &str, namespace: &str, moment: Moment) -> Taken {
        let Some(cells) = self.cells(line) else {
            return Taken::No;
        };
        let cells = Cells(cells);
        let object = match self.kind {
            Kind::Node => node(&cells, moment),
            Kind::Claim => {
                let of_row = cells.get("NAMESPACE").unwrap_or(namespace);
                let object = claim(&cells, of_row, moment);
                if object.is_some() && of_row.is_empty() {
                    return Taken::Nowhere;
                }
                object
            }
        };
        let Some(object) = object else {
            return Taken::No;
        };
        self.rows.push(object);
        Taken::Row
    }

    /// Returns the objects.
    pub(super) fn end(self) -> impl Iterator<Item = Value> {
        self.rows.into_iter().map(Value::Object)
    }

    /// Returns the cell of each column. Where blanks were lost, words are cells: those that are missing are a claim's
    /// without a volume.
    fn cells<'a>(&'a self, line: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
        const OF_VOLUME: [&str; 3] = ["VOLUME", "CAPACITY", "ACCESS-MODES"];
        let titles = self.columns.iter().map(|(_, t)| t.as_str());
        let begins = self.columns.iter().map(|(at, _)| *at);
        let ends = begins.clone().skip(1).chain([line.len()]);
        let aligned = begins.zip(ends).map(|(from, to)| {
            let to = to.min(line.len());
            let is_edge = from == 0 || line.get(..from).is_none_or(|l| l.ends_with(' '));
            let cell = line.get(from.min(to)..to).filter(|_| is_edge)?;
            Some(cell.trim())
        });
        if let Some(cells) = aligned.collect::<Option<Vec<_>>>() {
            return Some(titles.zip(cells).collect());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() == self.columns.len() {
            return Some(titles.zip(words).collect());
        }
        let left: Vec<&str> = titles.filter(|t| !OF_VOLUME.contains(t)).collect();
        (words.len() == left.len()).then(|| left.into_iter().zip(words).collect())
    }
}

/// The cells of a row by their titles.
struct Cells<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Cells<'a> {
    /// Returns what a cell says; `None` for `<none>` and the like.
    fn get(&self, title: &str) -> Option<&'a str> {
        let (_, cell) = self.0.iter().find(|(t, _)| *t == title)?;
        Some(*cell).filter(|c| !c.is_empty() && !c.starts_with('<'))
    }

    /// Returns the object's metadata; `None` where name or age is none.
    fn metadata(&self, kind: &str, moment: Moment) -> Option<Map<String, Value>> {
        // `kubectl get nodes,pvc` writes the kind before it.
        let name = self.get("NAME")?;
        let name = name.strip_prefix(kind).unwrap_or(name);
        let mut metadata = Map::new();
        put(&mut metadata, "name", Some(name).filter(|n| is_name(n)));
        if let Some(cell) = self.get("AGE") {
            let created = seconds(moment.before(age(cell)?));
            put(&mut metadata, "creationTimestamp", Some(&created));
        }
        metadata.contains_key("name").then_some(metadata)
    }
}

/// Returns a Node. Its taints are not told, but for the one that is the cordon itself.
fn node(cells: &Cells<'_>, moment: Moment) -> Option<Map<String, Value>> {
    let metadata = cells.metadata("node/", moment)?;
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
    Some(object("Node", metadata, spec, status))
}

/// Returns a PersistentVolumeClaim.
fn claim(cells: &Cells<'_>, namespace: &str, moment: Moment) -> Option<Map<String, Value>> {
    let mut metadata = cells.metadata("persistentvolumeclaim/", moment)?;
    put(&mut metadata, "namespace", Some(namespace));
    let name = metadata.get("name").and_then(Value::as_str)?;
    let uid = format!("{ROW_UID}{namespace}/{name}");
    put(&mut metadata, "uid", Some(&uid));
    let (mut spec, mut status) = (Map::new(), Map::new());
    match cells.get("STATUS")? {
        phase @ ("Pending" | "Bound" | "Lost") => put(&mut status, "phase", Some(phase)),
        "Terminating" => put(&mut metadata, "deletionTimestamp", Some(&seconds(moment.0))),
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
    status.insert("capacity".into(), json!({"storage": cells.get("CAPACITY")}));
    Some(object(
        "PersistentVolumeClaim",
        metadata,
        spec,
        json!(status),
    ))
}

fn object(
    kind: &str,
    metadata: Map<String, Value>,
    spec: Map<String, Value>,
    status: Value,
) -> Map<String, Value> {
    let fields = [
        ("kind", json!(kind)),
        ("metadata", json!(metadata)),
        ("spec", json!(spec)),
        ("status", status),
    ];
    fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()
}
