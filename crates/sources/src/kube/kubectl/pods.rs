//! Tables of pods: `kubectl get pods`, with and without `-o wide`, of every release.
//!
//! A row is the pod as far as kube-apiserver's printer shows it (1.36: pkg/printers/internalversion/printers.go,
//! `printPod`). `STATUS` is one word for all of a pod's status: the first of these that there is, the reason of a
//! container that waits or has ended, the pod's own reason, its phase. It does not say of which container.

use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashSet, FxHasher};
use serde_json::{Map, Value, json};

use super::Moment;
use super::age::{Age, age};
use super::attribute::Named;
use super::fragment::NAMESPACE;
use super::passed::Shown;
use super::pod::put;
use kflow_model::Text;

mod status;

use status::{Told, is_status};
pub(super) use status::{WAITS, exit_code};

/// Begin of the UIDs of pods that only a row shows. kflow's import gives them the UID that another capture tells, or
/// that of a description ([`super::MADE_UID`]).
pub const ROW_UID: &str = "row:";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Namespace,
    Name,
    Ready,
    Status,
    Restarts,
    Age,
    Ip,
    Node,
    Nominated,
    Gates,
    /// Labels, and columns that were asked for.
    Other,
}

/// Titles of columns. Those of two words are written as one.
const TITLES: [(&str, Column); 10] = [
    ("NAMESPACE", Column::Namespace),
    ("NAME", Column::Name),
    ("READY", Column::Ready),
    ("STATUS", Column::Status),
    ("RESTARTS", Column::Restarts),
    ("AGE", Column::Age),
    ("IP", Column::Ip),
    ("NODE", Column::Node),
    ("NOMINATED-NODE", Column::Nominated),
    ("READINESS-GATES", Column::Gates),
];

/// The columns of a table, from its line of titles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Columns(Vec<Column>);

/// A row, as it stands there. A cell that has no column, or `<none>` in it, is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Row {
    namespace: String,
    pub(super) name: String,
    /// Containers that are ready, and all that count (no init containers but sidecars).
    ready: (u32, u32),
    pub(super) status: String,
    pub(super) restarts: i32,
    age: Option<Age>,
    ip: String,
    node: String,
    nominated: String,
    /// Readiness gates that are met, and all.
    gates: Option<(u32, u32)>,
}

/// A table while it is read.
#[derive(Debug, Default)]
pub(super) struct Table {
    columns: Option<Columns>,
    rows: Vec<Row>,
    /// The namespace of rows without one.
    namespace: String,
    /// The bounds of the list that it is, if it lacks no pod of them.
    scope: Option<Text>,
    /// True when a row cannot be read, or the line right behind its rows is neither blank, a code fence, titles, a command nor
    /// a prompt: rows may have been cut out.
    pub(super) is_cut: bool,
    /// True for rows without titles.
    is_bare: bool,
}

/// What a table makes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Row,
    /// A row that cannot be read.
    Unread,
    No,
}

impl Table {
    pub(super) fn is_open(&self) -> bool {
        self.columns.is_some()
    }

    /// Begins a table; the one before has ended. `namespace`: that of the command before it. `scope`: the bounds of the list, if
    /// that command prints every pod of them.
    pub(super) fn begin(&mut self, columns: Columns, namespace: &str, scope: Option<Text>) {
        let of_all = columns.0.contains(&Column::Namespace);
        self.scope = scope.filter(|s| s.is_empty() == of_all);
        self.columns = Some(columns);
        namespace.clone_into(&mut self.namespace);
    }

    /// Begins rows without titles. They may be a part of the list, so a pod that they lack may be there.
    pub(super) fn begin_bare(&mut self, columns: Columns, namespace: &str) {
        self.begin(columns, namespace, None);
        self.is_bare = true;
    }

    /// Ends it, and returns its rows, and the bounds of the list that it is if it lacks no pod of them.
    pub(super) fn end(&mut self) -> (Vec<Row>, Option<Text>) {
        let Self {
            rows,
            scope,
            is_cut,
            ..
        } = std::mem::take(self);
        (rows, scope.filter(|_| !is_cut))
    }

    pub(super) fn line(&mut self, line: &str) -> Taken {
        if self.is_bare {
            let has_namespace = |c: &Columns| c.0.contains(&Column::Namespace);
            let alike =
                |c: &Columns| self.columns.as_ref().map(has_namespace) == Some(has_namespace(c));
            match Columns::of_row(line).filter(alike) {
                Some(columns) => self.columns = Some(columns),
                None => return Taken::No,
            }
        }
        let Some(columns) = &self.columns else {
            return Taken::No;
        };
        let Some(mut row) = columns.row(line) else {
            let is_row = columns.has_ready(line);
            self.is_cut |= is_row;
            return if is_row { Taken::Unread } else { Taken::No };
        };
        if row.namespace.is_empty() {
            row.namespace.clone_from(&self.namespace);
        }
        if row.namespace.is_empty() {
            NAMESPACE.clone_into(&mut row.namespace);
        }
        self.rows.push(row);
        Taken::Row
    }
}

impl Columns {
    /// Reads a line of titles; `None` for every other line.
    pub(super) fn of_titles(line: &str) -> Option<Self> {
        let line = line
            .replace("NOMINATED NODE", "NOMINATED-NODE")
            .replace("READINESS GATES", "READINESS-GATES");
        let column = |title: &str| TITLES.iter().find(|(t, _)| *t == title).map(|(_, c)| *c);
        let all = line.split_whitespace();
        let all: Vec<Column> = all.map(|t| column(t).unwrap_or(Column::Other)).collect();
        let has = |c| all.contains(&c);
        let is_pods =
            has(Column::Name) && has(Column::Ready) && has(Column::Status) && has(Column::Restarts);
        is_pods.then_some(Self(all))
    }

    /// The columns of a row that stands without titles, as it does behind `| grep`. `None` for a line that is no row: it has a name,
    /// containers that are ready, a status, a number and an age, and nothing else but the columns of `-o wide` and labels.
    pub(super) fn of_row(line: &str) -> Option<Self> {
        use Column::{Age, Gates, Ip, Name, Namespace, Node, Nominated, Ready, Restarts, Status};
        let namespace = line.split_whitespace().nth(2).and_then(fraction);
        let front = [Name, Ready, Status, Restarts, Age];
        let front = namespace.map(|_| Namespace).into_iter().chain(front);
        let wide = [Ip, Node, Nominated, Gates];
        let mut columns = Vec::new();
        let mut row = Row::default();
        let mut rest = line.trim();
        for column in front.chain(wide) {
            let (cell, after) = super::age::word(rest);
            match column {
                Ip if !is_ip(cell) => break,
                Node | Nominated if cell.is_empty() => break,
                Gates if cell != "<none>" && fraction(cell).is_none() => break,
                _ => {}
            }
            rest = row.take(column, cell, after)?;
            columns.push(column);
        }
        let rest = rest.trim();
        let is_label = |word: &str| word == "<none>" || word.contains('=');
        let is_all = rest.split([' ', ',']).all(|w| w.is_empty() || is_label(w))
            || rest.starts_with(['<', '#', '←']);
        (is_all && row.age.is_some() && is_status(&row.status)).then_some(Self(columns))
    }

    /// True for a line with a pod's ready containers at their place.
    fn has_ready(&self, line: &str) -> bool {
        let at = self.0.iter().position(|c| *c == Column::Ready);
        let cell = at.and_then(|at| line.split_whitespace().nth(at));
        cell.is_some_and(|cell| fraction(cell).is_some())
    }

    /// Reads a row. `None` for a line that is none, and for a row that cannot be read.
    pub(super) fn row(&self, line: &str) -> Option<Row> {
        let mut row = Row::default();
        let mut rest = line.trim();
        for column in &self.0 {
            if *column == Column::Other {
                break;
            }
            let (cell, after) = super::age::word(rest);
            rest = row.take(*column, cell, after)?;
        }
        (!row.name.is_empty()).then_some(row)
    }
}

/// Returns the row of the pod of this name.
pub(super) fn row_of<'r>(rows: &'r [Row], name: &str) -> Option<&'r Row> {
    rows.iter().find(|row| row.name == name)
}

impl Row {
    /// The pod, if it is not well: neither has it ended, nor are all of its containers ready.
    pub(super) fn sick(&self) -> Option<Named> {
        let is_ready = self.ready.0 == self.ready.1;
        let is_well = match self.status.as_str() {
            "Running" => is_ready,
            status => matches!(status, "Completed" | "Succeeded"),
        };
        (!is_well).then(|| Named {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        })
    }

    /// True for a pod of one container.
    pub(super) const fn is_of_one(&self) -> bool {
        self.ready.1 == 1
    }

    pub(super) const fn age(&self) -> Option<Age> {
        self.age
    }

    /// `namespace/name`
    pub(super) fn key(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// What the row shows of the pod, beside another of the same pod.
    pub(super) fn shown(&self) -> Shown {
        let mut hasher = FxHasher::default();
        (self.ready, &self.status, self.restarts, &self.node).hash(&mut hasher);
        Shown {
            key: self.key(),
            age: self.age,
            state: hasher.finish(),
        }
    }

    /// Takes a cell, and returns what follows it. `None` where it cannot be of that column.
    fn take<'a>(&mut self, column: Column, cell: &str, after: &'a str) -> Option<&'a str> {
        let told = || match cell {
            "<none>" | "<unset>" => String::new(),
            cell => cell.to_owned(),
        };
        match column {
            Column::Namespace if is_name(cell) => self.namespace = told(),
            Column::Name => {
                // `kubectl get all` writes the kind before it.
                let name = cell.strip_prefix("pod/").unwrap_or(cell);
                if !is_name(name) {
                    return None;
                }
                name.clone_into(&mut self.name);
            }
            Column::Ready => self.ready = fraction(cell)?,
            Column::Status if !cell.is_empty() => self.status = told(),
            Column::Restarts => {
                self.restarts = cell.parse().ok()?;
                // `4 (72s ago)`, since 1.22.
                if let Some((ago, after)) = after
                    .trim_start()
                    .strip_prefix('(')
                    .and_then(|a| a.split_once(" ago)"))
                {
                    age(ago)?;
                    return Some(after);
                }
            }
            Column::Age => {
                self.age = age(cell);
                if self.age.is_none() && !cell.starts_with('<') {
                    return None;
                }
            }
            Column::Ip => self.ip = told(),
            Column::Node => self.node = told(),
            Column::Nominated => self.nominated = told(),
            Column::Gates => self.gates = fraction(cell),
            Column::Namespace | Column::Status | Column::Other => return None,
        }
        Some(after)
    }

    /// Returns the object, as the API would have written it. kubectl ran at `moment`.
    pub(super) fn object(&self, moment: Moment) -> Value {
        let mut metadata = Map::new();
        let mut spec = Map::new();
        let mut status = Map::new();
        put(&mut metadata, "name", Some(&self.name));
        put(&mut metadata, "namespace", Some(&self.namespace));
        let uid = format!("{ROW_UID}{}/{}", self.namespace, self.name);
        put(&mut metadata, "uid", Some(&uid));
        let created = self.age.map_or(moment.0, |a| moment.before(a));
        put(
            &mut metadata,
            "creationTimestamp",
            Some(&created.to_rfc3339_seconds()),
        );
        put(&mut spec, "nodeName", some(&self.node));
        let (ready, all) = self.ready;
        let all_ready = ready == all && all > 0;
        let told = Told::of_row(self, all_ready);
        put(&mut status, "phase", Some(told.phase));
        if told.is_deleted || told.is_lost {
            // Since when is not told: now, at the latest.
            put(
                &mut metadata,
                "deletionTimestamp",
                Some(&moment.0.to_rfc3339_seconds()),
            );
        }
        if told.of_pod {
            put(&mut status, "reason", Some(&self.status));
        }
        if told.is_lost {
            put(&mut status, "reason", Some("NodeLost"));
        }
        put(&mut status, "podIP", some(&self.ip));
        put(&mut status, "nominatedNodeName", some(&self.nominated));

        let mut conditions = Vec::new();
        // The kubelet has taken on a pod with containers that wait, run, are ready or have ended.
        let taken_on = told.container.is_some() || told.init.is_some() || ready > 0;
        let is_bound = !self.node.is_empty() || taken_on;
        conditions.push(match self.status.as_str() {
            "SchedulingGated" => {
                json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"})
            }
            _ if is_bound => json!({"type": "PodScheduled", "status": "True"}),
            _ => json!({"type": "PodScheduled", "status": "Unknown"}),
        });
        let of_gates = self.gates.is_none_or(|(met, gates)| met == gates);
        let is_ready = all_ready && of_gates && told.phase == "Running";
        let is_ready = if is_ready { "True" } else { "False" };
        conditions.push(json!({"type": "Ready", "status": is_ready}));
        status.insert("conditions".into(), Value::Array(conditions));

        // The one that the status is about; its name is not told.
        let one = |state: Value| json!([{"name": "", "ready": all_ready, "restartCount": self.restarts, "state": state}]);
        for (state, of_spec, of_status) in [
            (told.init, "initContainers", "initContainerStatuses"),
            (told.container, "containers", "containerStatuses"),
        ] {
            let Some(state) = state else { continue };
            spec.insert(of_spec.into(), json!([{"name": ""}]));
            status.insert(of_status.into(), one(state));
        }
        json!({"kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    }
}

/// Splits the rows of a table where a pod is there again: a watch (`-w`) prints a row for each change.
pub(super) fn outputs(rows: &[Row]) -> Vec<&[Row]> {
    let mut outputs = Vec::new();
    let mut shown: FxHashSet<String> = FxHashSet::default();
    let mut begin = 0;
    for (n, row) in rows.iter().enumerate() {
        if !shown.insert(row.key()) {
            outputs.extend(rows.get(begin..n));
            begin = n;
            shown.clear();
            shown.insert(row.key());
        }
    }
    outputs.extend(rows.get(begin..));
    outputs
}

fn some(cell: &str) -> Option<&str> {
    Some(cell).filter(|c| !c.is_empty())
}

/// `10.42.0.7`, `fd00::7`, `<none>`
fn is_ip(cell: &str) -> bool {
    cell == "<none>" || cell.parse::<std::net::IpAddr>().is_ok()
}

/// `1/2`
fn fraction(cell: &str) -> Option<(u32, u32)> {
    let (some, all) = cell.split_once('/')?;
    Some((some.parse().ok()?, all.parse().ok()?))
}

/// True for what can be a name of the API.
pub(super) fn is_name(cell: &str) -> bool {
    let of_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    !cell.is_empty() && cell.bytes().all(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::Nanos;

    fn rows(text: &str) -> Vec<Option<Row>> {
        let mut lines = text.lines();
        let columns = Columns::of_titles(lines.next().unwrap()).unwrap();
        lines.map(|l| columns.row(l)).collect()
    }

    #[test]
    fn rows_of_every_form_are_read() {
        let wide = "NAMESPACE   NAME    READY   STATUS    RESTARTS      AGE    IP            NODE    NOMINATED NODE   READINESS GATES   LABELS\n\
                    s42         gate    1/1     Running   4 (72s ago)   92s    10.244.2.31   node1   <none>           0/1               app=gate,x=y";
        // Before 1.22 restarts had no time; a chat makes one blank of several.
        let old = "NAMESPACE NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES\n\
                   s42 gate 1/1 Running 4 92s 10.244.2.31 node1 <none> 0/1";
        for text in [wide, old] {
            let row = rows(text).pop().flatten().unwrap();
            assert_eq!((row.namespace.as_str(), row.name.as_str()), ("s42", "gate"));
            assert_eq!(
                (row.ready, row.status.as_str(), row.restarts),
                ((1, 1), "Running", 4)
            );
            assert_eq!(row.age.map(|a| a.seconds), Some(92));
            assert_eq!(
                (row.ip.as_str(), row.node.as_str()),
                ("10.244.2.31", "node1")
            );
            assert_eq!((row.nominated.as_str(), row.gates), ("", Some((0, 1))));
        }
        // Titles alone, other tables, and the lines between.
        for line in [
            "NAME STATUS ROLES AGE VERSION",
            "NAME  READY  STATUS",
            "",
            "Thanks!",
        ] {
            assert_eq!(Columns::of_titles(line), None, "{line}");
        }
        let others = "NAME   READY   STATUS    RESTARTS   AGE\n\
                      No resources found\nweb-0 of Running 0 5s\nweb-0  1/1  Running  many  5s\nweb-0  1/1  Running  0  soon";
        assert!(rows(others).iter().all(Option::is_none));
    }

    /// Reasons that are not known are the pod's own, with which it has failed; nothing is made up for a container.
    #[test]
    fn a_status_is_the_state_that_it_stands_for() {
        let moment = Moment(Nanos::from_secs(1_000_000));
        let aged = |status: &str, ready: &str, age: &str| {
            let text =
                format!("NAMESPACE NAME READY STATUS RESTARTS AGE\na b {ready} {status} 0 {age}");
            let row = rows(&text).remove(0).unwrap();
            row.object(moment)
        };
        let of = |status: &str, ready: &str| aged(status, ready, "60s");
        // It may be started again, in ten seconds at most.
        assert_eq!(aged("Error", "0/1", "5s")["status"]["phase"], "Running");
        for (status, phase, pointer, want) in [
            (
                "Pending",
                "Pending",
                "/status/containerStatuses",
                json!(null),
            ),
            (
                "ErrImagePull",
                "Pending",
                "/status/containerStatuses/0/state",
                json!({"waiting": {"reason": "ErrImagePull"}}),
            ),
            (
                "OOMKilled",
                "Failed",
                "/status/containerStatuses/0/state",
                json!({"terminated": {"reason": "OOMKilled", "exitCode": 137}}),
            ),
            (
                "ExitCode:3",
                "Failed",
                "/status/containerStatuses/0/state",
                json!({"terminated": {"exitCode": 3}}),
            ),
            (
                "Signal:9",
                "Failed",
                "/status/containerStatuses/0/state",
                json!({"terminated": {"exitCode": 137, "signal": 9}}),
            ),
            (
                "Init:1/2",
                "Pending",
                "/status/initContainerStatuses/0/state",
                json!({"running": {}}),
            ),
            (
                "Init:CrashLoopBackOff",
                "Pending",
                "/status/initContainerStatuses/0/state",
                json!({"waiting": {"reason": "CrashLoopBackOff"}}),
            ),
            (
                "Init:Error",
                "Pending",
                "/status/initContainerStatuses/0/state",
                json!({"terminated": {"reason": "Error"}}),
            ),
            (
                "Error",
                "Failed",
                "/status/containerStatuses/0/state",
                json!({"terminated": {"reason": "Error"}}),
            ),
            ("NotReady", "Running", "/status/reason", json!("NotReady")),
            ("Evicted", "Failed", "/status/reason", json!("Evicted")),
            (
                "Terminating",
                "Running",
                "/metadata/deletionGracePeriodSeconds",
                json!(null),
            ),
            (
                "SchedulingGated",
                "Pending",
                "/status/conditions/0/reason",
                json!("SchedulingGated"),
            ),
        ] {
            let object = of(status, "0/1");
            assert_eq!(object["status"]["phase"], phase, "{status}");
            assert_eq!(
                object.pointer(pointer).cloned().unwrap_or_default(),
                want,
                "{status}"
            );
            assert_eq!(
                object["status"]["conditions"][1]["status"], "False",
                "{status}"
            );
        }
        let well = of("Running", "2/2");
        assert_eq!(well["status"]["conditions"][1]["status"], "True");
        assert_eq!(
            well["metadata"]["creationTimestamp"],
            "1970-01-12T13:45:40Z"
        );
    }

    /// Lines of public reports, whose addresses are in `fixtures/reports.tsv`, and what only resembles them.
    #[test]
    fn a_row_is_known_without_titles() {
        let short = |line: &str| {
            let row = Columns::of_row(line)?.row(line)?;
            let of_all = [&row.namespace, &row.name, &row.status, &row.ip, &row.node];
            let of_all = of_all.map(String::as_str).join(",");
            let age = row.age.map(|a| a.seconds);
            Some(format!("{of_all} {} {age:?}", row.restarts))
        };
        for (line, want) in [
            (
                "nvidia-device-plugin-validator-whr6m             0/1     Init:CrashLoopBackOff   5 (2m18s ago)   5m25s",
                Some(",nvidia-device-plugin-validator-whr6m,Init:CrashLoopBackOff,, 5 Some(325)"),
            ),
            (
                "  kube-system   coredns-7f9c 0/1 Running 0 17m",
                Some("kube-system,coredns-7f9c,Running,, 0 Some(1020)"),
            ),
            (
                "shop web-0 0/1 Pending 0 17m <none> <none> <none> <none>",
                Some("shop,web-0,Pending,, 0 Some(1020)"),
            ),
            (
                "pod/web-0 0/1 ErrImagePull 0 17m 10.42.0.7 node-1 <none> 0/1 app=web,x=y",
                Some(",web-0,ErrImagePull,10.42.0.7,node-1 0 Some(1020)"),
            ),
            (
                "web-0 0/1 Evicted 0 17m fd00::7 node-1",
                Some(",web-0,Evicted,fd00::7,node-1 0 Some(1020)"),
            ),
            (
                "web-0 0/1 Init:0/2 0 17m app=web",
                Some(",web-0,Init:0/2,, 0 Some(1020)"),
            ),
            (
                "web-0 0/1 CrashLoopBackOff 7 17m  <-- here",
                Some(",web-0,CrashLoopBackOff,, 7 Some(1020)"),
            ),
            // A Deployment, a StatefulSet, a Job, an object of another kind, a container, prose.
            ("web   0/1   1   0   5m", None),
            ("web   0/1   5m", None),
            ("pi-1   0/1   5m   5m", None),
            ("main   1/3   Healthy   0   5m", None),
            ("web-0   0/1   Pending   5m", None),
            ("web-0 0/1 Running 0 17m and that is all", None),
            ("so web-0 is at 0/1 Running 0 17m", None),
            ("Step 1/2 Running 3 5m", None),
            ("web-0   0/1   Running   0   5", None),
            ("", None),
        ] {
            assert_eq!(short(line).as_deref(), want, "{line}");
        }
    }
}
