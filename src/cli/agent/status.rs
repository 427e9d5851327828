//! `kflow agent status`

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use super::super::args::RowsFormat;
use super::super::args::agent::StatusArgs;
use super::super::out;
use super::install::{block_on, client};
use kflow_agent::nodes::{self, Agent, Node};
use kflow_export::rows;
use kflow_export::text::clean;
use kflow_model::units::{counted, duration, size};
use kflow_model::{Nanos, clock, patient};
use kflow_serve::wire::{InfoResponse, Store};
use kflow_sources::agent::{SOCKET, Way, reach};

/// A line about one finding, source or other part of an agent.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    state: &'static str,
    found: String,
    todo: String,
}

fn rows_of(info: &InfoResponse, now: Nanos) -> Vec<Row> {
    let row = |what: &str, state, found: String| Row {
        what: what.to_owned(),
        state,
        found,
        todo: String::new(),
    };
    let begun = Nanos(i64::try_from(info.epoch).unwrap_or(0));
    let up = duration(now.since(begun).max(0));
    let node = info.agent.as_ref().map_or("", |a| a.node.as_str());
    let mut all = vec![row(
        "agent",
        "on",
        format!(
            "kflow {} on {node}, for {up}; {} viewers",
            info.version, info.subscribers
        ),
    )];
    let Some(agent) = &info.agent else {
        return all;
    };
    for f in &agent.findings {
        all.push(Row {
            todo: f.todo.clone(),
            ..row(
                &f.what,
                if f.there { "found" } else { "missing" },
                f.found.clone(),
            )
        });
    }
    for s in &agent.sources {
        let state = match s.state {
            0 => "starting",
            1 => "on",
            _ => "off",
        };
        let mut found = format!("{}; {} observations", s.detail, s.observations);
        if s.lost > 0 {
            found.push_str(&format!(", {} lost", s.lost));
        }
        all.push(row(&format!("{} {}", s.kind, s.name), state, found));
    }
    all.push(match &agent.spool {
        None => row(
            "spool",
            "off",
            "nothing is kept on disk (--no-spool)".to_owned(),
        ),
        Some(s) if !s.failing.is_empty() => row("spool", "off", s.failing.clone()),
        Some(s) => {
            let since = Nanos(i64::try_from(s.since).unwrap_or(0));
            let back = if s.since == 0 {
                "what was seen since it began".to_owned()
            } else {
                format!("the last {}", duration(now.since(since).max(0)))
            };
            let mut found = format!("{back}, {}", size(s.bytes));
            if s.lost > 0 {
                found.push_str(&format!("; {} observations lost", s.lost));
            }
            row("spool", "on", found)
        }
    });
    all.extend(agent.store.as_ref().map(|s| store_row(s, now)));
    all
}

fn store_row(s: &Store, now: Nanos) -> Row {
    let mut found = format!(
        "{}: {} sent, {}",
        s.url,
        counted(s.sent, "segment"),
        size(s.bytes)
    );
    if s.last > 0 {
        let last = Nanos(i64::try_from(s.last).unwrap_or(0));
        found.push_str(&format!(
            ", the last {} ago",
            duration(now.since(last).max(0))
        ));
    }
    found.push_str(&format!("; {} wait", s.waiting));
    if s.dropped > 0 {
        found.push_str(&format!(
            "; {} with {} had to go unsent",
            counted(s.dropped, "segment"),
            counted(s.dropped_observations, "observation")
        ));
    }
    if s.unsendable > 0 {
        found.push_str(&format!("; {} cannot be sent", s.unsendable));
    }
    if s.removed > 0 {
        found.push_str(&format!("; {} removed that were too old", s.removed));
    }
    if !s.untidy.is_empty() {
        found.push_str(&format!("; not tidied: {}", s.untidy));
    }
    if !s.failing.is_empty() {
        found.push_str(&format!("; nothing is sent: {}", s.failing));
    }
    Row {
        what: "store".to_owned(),
        state: if s.failing.is_empty() { "on" } else { "off" },
        found,
        todo: String::new(),
    }
}

/// `kflow agent status`: of the agent on this machine, or of all agents of a cluster.
pub(super) fn status(args: &StatusArgs) -> anyhow::Result<u8> {
    let asks_cluster =
        args.node.is_some() || args.cluster.kubeconfig.is_some() || args.cluster.context.is_some();
    let here = || {
        let own = Path::new(SOCKET);
        patient::ask(own, move || own.try_exists()).is_ok_and(|e| e.unwrap_or(false))
    };
    match &args.socket {
        Some(socket) => of_socket(socket, args.output),
        None if !asks_cluster && here() => of_socket(Path::new(SOCKET), args.output),
        None => of_cluster(args),
    }
}

fn of_socket(socket: &Path, form: RowsFormat) -> anyhow::Result<u8> {
    let info = block_on(async {
        let mut reached = reach(&Way::Socket(socket.to_owned())).await?;
        anyhow::Ok(reached.client.info().await?)
    })?;
    let all = [NodeRow {
        node: (info.agent.as_ref()).map_or_else(String::new, |a| a.node.clone()),
        state: "ready",
        pod: String::new(),
        version: info.version.clone(),
        why: String::new(),
        rows: rows_of(&info, clock::now()),
    }];
    write_as(&all, form, |out| {
        all.iter().try_for_each(|n| write_rows(out, &n.rows))
    })?;
    Ok(super::super::OK)
}

fn write_as(
    all: &[NodeRow],
    form: RowsFormat,
    text: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let mut out = out::stdout();
    match form.rows() {
        Some(form) => rows::values(&mut out, form, all.iter())?,
        None => text(&mut out)?,
    }
    out.flush()?;
    Ok(())
}

/// The agent of a node.
#[derive(Debug, Serialize)]
struct NodeRow {
    node: String,
    /// `ready`, `not ready` or `none`.
    state: &'static str,
    /// Empty for an agent that was asked by its socket.
    pod: String,
    version: String,
    why: String,
    /// What the agent reports about itself.
    rows: Vec<Row>,
}

fn node_row(node: Node, now: Nanos) -> NodeRow {
    let row = |state| NodeRow {
        node: node.name.clone(),
        state,
        pod: String::new(),
        version: String::new(),
        why: String::new(),
        rows: Vec::new(),
    };
    match node.agent {
        Agent::None => row("none"),
        Agent::Silent { pod, why } => NodeRow {
            pod,
            why,
            ..row("not ready")
        },
        Agent::Answers { pod, info } => NodeRow {
            pod,
            version: info.version.clone(),
            rows: rows_of(&info, now),
            ..row("ready")
        },
    }
}

/// Prints the agents of a cluster, and one on this machine that is no pod of the cluster. The exit code is an error
/// unless all are ready; a node that was named must have an agent.
fn of_cluster(args: &StatusArgs) -> anyhow::Result<u8> {
    let namespace = &args.cluster.agent_namespace;
    let found = block_on(async {
        let client = client(&args.cluster).await?;
        anyhow::Ok(nodes::nodes(&client, namespace, args.node.as_deref(), Path::new(SOCKET)).await?)
    })?;
    let now = clock::now();
    let all: Vec<NodeRow> = found.all.into_iter().map(|n| node_row(n, now)).collect();
    let whole = args.node.is_some();
    write_as(&all, args.output, |out| write_nodes(out, &all, whole))?;
    if let Some(e) = found.unlisted {
        out::tell(&format!("nodes without an agent are not among them: {e}"));
    }
    if let Some(note) = found.note {
        out::tell(&note);
    }
    if all.iter().all(|n| n.state == "none") {
        out::tell(&format!(
            "no agent in namespace {namespace}: kflow agent install --image IMAGE"
        ));
    }
    let well = all.iter().all(|n| n.state == "ready");
    Ok(if well {
        super::super::OK
    } else {
        super::super::ERROR
    })
}

/// Prints a line for each node, and below it what its agent lacks, or with `whole` all that the agent reports.
fn write_nodes(out: &mut dyn Write, all: &[NodeRow], whole: bool) -> std::io::Result<()> {
    let width = |of: fn(&NodeRow) -> &str| all.iter().map(|n| clean(of(n)).chars().count()).max();
    let (node, pod) = (
        width(|n| &n.node).unwrap_or(0),
        width(|n| &n.pod).unwrap_or(0),
    );
    for n in all {
        let name = clean(&n.node);
        if n.state == "none" {
            writeln!(out, "{name:<node$}  no agent")?;
            continue;
        }
        let pod_name = clean(&n.pod);
        write!(out, "{name:<node$}  {:<9}  {pod_name:<pod$}", n.state)?;
        if n.rows.is_empty() {
            writeln!(out, "  {}", clean(&n.why))?;
            continue;
        }
        let on = n.rows.iter().filter(|r| r.state == "on").count();
        let found = n.rows.iter().filter(|r| r.state == "found").count();
        writeln!(out, "  kflow {}, {on} on, {found} found", clean(&n.version))?;
        if whole {
            write_rows(out, &n.rows)?;
        } else {
            let lacks = n
                .rows
                .iter()
                .filter(|r| matches!(r.state, "off" | "missing"));
            for r in lacks {
                let what = format!("{}: {}", r.what, r.found);
                writeln!(out, "  {:<9}{}", r.state, clean(&what))?;
                for line in r.todo.lines() {
                    writeln!(out, "           → {}", clean(line))?;
                }
            }
        }
    }
    Ok(())
}

fn write_rows(out: &mut dyn Write, all: &[Row]) -> std::io::Result<()> {
    let width = all.iter().map(|r| clean(&r.what).chars().count()).max();
    let width = width.unwrap_or(0);
    for r in all {
        let what = clean(&r.what);
        writeln!(out, "{:<9}{what:<width$}  {}", r.state, clean(&r.found))?;
        for line in r.todo.lines() {
            writeln!(out, "         {:<width$}  → {}", "", clean(line))?;
        }
    }
    Ok(())
}
