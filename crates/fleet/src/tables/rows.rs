//! Makes rows of a world.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_arrow::ArrayBuilder;

use super::versions::Versions;
use super::{Seen, Table, TableError, stage_columns};
use kflow_core::correlate::{Call, PodView, World};
use kflow_core::diagnose::{Incident, Subject};
use kflow_core::flow::Stage;
use kflow_core::stats::{self, Measure};
use kflow_engine::{Overview, world_at};
use kflow_export::{calls, incidents, requests};
use kflow_model::session::Session;
use kflow_model::units::DAY;
use kflow_model::{Nanos, Text};

/// The input of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) world: &'a World,
    pub(crate) versions: &'a Versions,
    /// All incidents, past ones too.
    pub(crate) incidents: &'a [Incident],
    /// How precisely the ends of incidents are known, ns.
    pub(crate) within: i64,
    /// The time as of which rows are made: the last that is known.
    pub(crate) at: Nanos,
    pub(crate) cluster: &'a str,
    /// The node that was recorded; empty if it was not exactly one.
    pub(crate) node: &'a str,
    /// Limits rows to times at or after the first moment and before the second.
    pub(crate) range: Option<(Nanos, Nanos)>,
}

/// Rows by table and day; a day is its number since the epoch.
pub type Made = BTreeMap<(Table, i64), RecordBatch>;

/// Returns the begin of a day of [`Made`].
pub const fn begin_of(day: i64) -> Nanos {
    Nanos(day.saturating_mul(DAY))
}

/// Returns all rows of one session, as of its end; none for a session without observations. `cluster` and `node` fill
/// the columns of these names; `node` is empty for a session of several nodes.
pub fn of_session(
    session: &Session,
    cluster: &str,
    node: &str,
    range: Option<(Nanos, Nanos)>,
    seen: &mut Seen,
) -> Result<Made, TableError> {
    let Some(known) = session.range() else {
        return Ok(Made::default());
    };
    let world = world_at(session, known.1, Arc::default());
    let overview = Overview::of(&session.observations, Arc::default(), None, known);
    let of = Of {
        world: &world,
        versions: &Versions::of(&session.observations),
        incidents: &overview.incidents,
        within: overview.within,
        at: known.1,
        cluster,
        node,
        range,
    };
    make(of, seen)
}

/// Makes the rows of every table, sorted by the table's time, without those that other recordings gave already.
pub(crate) fn make(of: Of<'_>, seen: &mut Seen) -> Result<Made, TableError> {
    let mut sink = Sink {
        of,
        builders: BTreeMap::new(),
    };
    let world = of.world;
    let mut pods: Vec<_> = world.pods().iter().filter(|p| !p.past).collect();
    pods.sort_by_key(|p| (p.zero(), p.uid.clone()));
    pods.retain(|p| seen.pod(of.node, &p.node, p.uid.as_str()));
    let watched = world.nodes_from();
    for p in pods {
        sink.push(Table::Pods, p.zero(), &PodRow::of(of, watched, p))?;
    }
    let mut found: Vec<&Incident> = of.incidents.iter().collect();
    found.sort_by_key(|i| i.begin);
    found.retain(|i| seen.subject(of.node, world, &i.subject));
    for i in found {
        let node = match &i.subject {
            Subject::Pod { uid, .. } => world.pod(uid).map(|p| p.node.clone()),
            Subject::Node(name) => Some(name.clone()),
            Subject::Owner(_) => None,
        };
        let row = Placed {
            place: Place::of(of, node.unwrap_or_default(), i.begin),
            row: incidents::row(i, of.at, of.within),
        };
        sink.push(Table::Verdicts, i.begin, &row)?;
    }
    for c in world.calls().iter().filter(|c| world.selects_call(c)) {
        let node = node_of(of, c);
        if !seen.call(of.node, &node) {
            continue;
        }
        let row = Placed {
            place: Place::of(of, node, c.start),
            row: CallRow {
                length_ns: c.end.map(|_| c.duration(of.at)),
                failed: c.is_error(),
                row: calls::row(c),
            },
        };
        sink.push(Table::Calls, c.start, &row)?;
    }
    let mut asked: Vec<_> = world.requests().list();
    asked.retain(|r| world.selects_request(r) && seen.request(of.node, &r.audit_id));
    asked.sort_by_key(|r| r.received);
    for r in asked {
        let row = RequestRow {
            cluster: of.cluster,
            failed: r.is_error(),
            row: requests::row(r, of.at),
        };
        sink.push(Table::Requests, r.received, &row)?;
    }
    sink.made()
}

struct Sink<'a> {
    of: Of<'a>,
    builders: BTreeMap<(Table, i64), ArrayBuilder>,
}

impl Sink<'_> {
    fn push(&mut self, table: Table, at: Nanos, row: &impl Serialize) -> Result<(), TableError> {
        if self
            .of
            .range
            .is_some_and(|(from, to)| at < from || to <= at)
        {
            return Ok(());
        }
        let failed = |source| TableError::Rows {
            table: table.name(),
            source: Box::new(source),
        };
        let day = at.0.div_euclid(DAY);
        let builder = match self.builders.entry((table, day)) {
            std::collections::btree_map::Entry::Occupied(e) => e.into_mut(),
            std::collections::btree_map::Entry::Vacant(e) => {
                e.insert(ArrayBuilder::from_arrow(table.schema().fields()).map_err(failed)?)
            }
        };
        builder.push(row).map_err(failed)
    }

    fn made(self) -> Result<Made, TableError> {
        let batch = |((table, day), builder): ((Table, i64), ArrayBuilder)| {
            let batch = builder.into_record_batch();
            let batch = batch.map_err(|source| TableError::Rows {
                table: table.name(),
                source: Box::new(source),
            })?;
            Ok(((table, day), batch))
        };
        self.builders.into_iter().map(batch).collect()
    }
}

/// Returns the node of a call: its pod's, else the recorded one, else the only one in the world.
fn node_of(of: Of<'_>, call: &Call) -> Text {
    let pod = of.world.pod(&call.pod_uid).map(|p| p.node.clone());
    pod.filter(|node| !node.is_empty()).unwrap_or_else(|| {
        if !of.node.is_empty() {
            return of.node.into();
        }
        match of.world.nodes().as_slice() {
            [only] => only.name.clone(),
            _ => Text::default(),
        }
    })
}

#[derive(Serialize)]
struct Place<'a> {
    cluster: &'a str,
    node: Text,
    kubelet_version: &'a str,
    runtime_version: &'a str,
}

impl<'a> Place<'a> {
    /// The place of a row whose time is `at`.
    fn of(of: Of<'a>, node: Text, at: Nanos) -> Self {
        let (kubelet_version, runtime_version) = of.versions.at(&node, at);
        Self {
            cluster: of.cluster,
            kubelet_version,
            runtime_version,
            node,
        }
    }
}

#[derive(Serialize)]
struct Placed<'a, R> {
    #[serde(flatten)]
    place: Place<'a>,
    #[serde(flatten)]
    row: R,
}

#[derive(Serialize)]
struct CallRow<R> {
    length_ns: Option<i64>,
    failed: bool,
    #[serde(flatten)]
    row: R,
}

#[derive(Serialize)]
struct RequestRow<'a, R> {
    cluster: &'a str,
    failed: bool,
    #[serde(flatten)]
    row: R,
}

#[derive(Serialize)]
struct PodRow<'a> {
    #[serde(flatten)]
    place: Place<'a>,
    uid: &'a str,
    namespace: &'a str,
    name: &'a str,
    owner: String,
    images: Vec<Text>,
    phase: &'a str,
    status: &'a str,
    known_ns: Nanos,
    containers: u32,
    restarts: u32,
    created_ns: Nanos,
    create_requested_ns: Option<Nanos>,
    zero_ns: Nanos,
    became_ready_ns: Option<Nanos>,
    deletion_requested_ns: Option<Nanos>,
    gone_ns: Option<Nanos>,
    start_total_ns: Option<i64>,
    start_sli_ns: Option<i64>,
    start_open: bool,
    ready_total_ns: Option<i64>,
    ready_open: bool,
    #[serde(flatten)]
    stages: Stages<'a>,
}

impl<'a> PodRow<'a> {
    fn of(of: Of<'a>, watched: Option<Nanos>, p: &'a PodView) -> Self {
        let measured = stats::measured(p, watched);
        let length = |measure: &Measure| {
            let found = measured.iter().find(|(m, _)| m == measure);
            (
                found.and_then(|(_, ns)| *ns),
                matches!(found, Some((_, None))),
            )
        };
        let (start_total_ns, start_open) = length(&Measure::Start);
        let (ready_total_ns, ready_open) = length(&Measure::Ready);
        let owner = p.owners.last().map(|o| format!("{}/{}", o.kind, o.name));
        Self {
            place: Place::of(of, p.node.clone(), p.zero()),
            uid: p.uid.as_str(),
            namespace: &p.namespace,
            name: &p.name,
            owner: owner.unwrap_or_default(),
            images: stats::images(p),
            phase: p.phase.as_str(),
            status: &p.status,
            known_ns: of.at,
            containers: p.ready.1,
            restarts: p.restarts,
            created_ns: p.created,
            create_requested_ns: p.create_requested,
            zero_ns: p.zero(),
            became_ready_ns: p.became_ready.map(|e| e.at),
            deletion_requested_ns: p.deletion_requested,
            gone_ns: p.gone,
            start_total_ns,
            start_sli_ns: length(&Measure::StartSli).0,
            start_open,
            ready_total_ns,
            ready_open,
            stages: Stages(p, watched),
        }
    }
}

/// The columns of a pod's stages, without those of which a part may have been missed: see [`stats::is_seen_whole`].
struct Stages<'a>(&'a PodView, Option<Nanos>);

impl Serialize for Stages<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let pod = self.0;
        let mut map = s.serialize_map(None)?;
        for (stage, names) in Stage::ALL.into_iter().zip(stage_columns()) {
            let Some(whole) = pod.timeline.stage(stage) else {
                continue;
            };
            if !stats::is_seen_whole(pod, stage, self.1) {
                continue;
            }
            let [begin, ns, precision, certainty, attempts, outcome] = names.as_slice() else {
                continue;
            };
            let steps = pod.timeline.spans.iter().filter(|x| x.stage == stage);
            let last = steps.map(|x| x.attempt).max().unwrap_or(0);
            // The uncertainty of a duration is the sum of both edges'.
            let exact =
                i64::from(whole.start.precision) + whole.end.map_or(0, |e| i64::from(e.precision));
            map.serialize_entry(begin, &whole.start.at)?;
            map.serialize_entry(ns, &whole.end.map(|_| pod.took(stage)))?;
            map.serialize_entry(precision, &exact)?;
            map.serialize_entry(certainty, &whole.certainty)?;
            map.serialize_entry(attempts, &(i64::from(last) + 1))?;
            map.serialize_entry(outcome, &whole.outcome)?;
        }
        map.end()
    }
}
