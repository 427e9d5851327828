//! `kflow doctor`

use std::io::Write;

use super::args::Format;
use super::args::live::{DoctorArgs, Tap};
use super::live::{config, is_this_machine, stderr_log};
use super::{out, tap};
use crate::doctor::{self, Check, Health};
use kflow_engine::live::Config;
use kflow_export::rows::{self, Rows};
use kflow_export::text::clean;

/// `kflow doctor`
pub(super) fn doctor(args: &DoctorArgs) -> anyhow::Result<u8> {
    if args.upstream {
        let found = doctor::kubelet::upstream(&args.root)?;
        let mut out = out::stdout();
        writeln!(out, "{}", found.endpoint.display())?;
        out.flush()?;
        return Ok(super::OK);
    }
    // Checks the tap of a run on this node, whether or not the arguments name this machine.
    let found = doctor::runtime_socket(&args.root);
    let tap = tap::choose(&tap::Asked {
        how: args.live.tap.or(Some(Tap::Auto)),
        proxy: args.live.proxy.as_deref(),
        runtime: match (&args.live.runtime, &found) {
            (Some(named), _) => Ok(named),
            (None, found) => found.as_deref().map_err(String::as_str),
        },
        here: true,
    })?;
    let mut config = Config {
        proxy: tap.proxy,
        ebpf: tap.ebpf,
        untapped: tap.untapped,
        ..config(&args.live, None)?
    };
    let node = args.live.scope.node.as_deref();
    let elsewhere = node.filter(|n| !args.live.local && !is_this_machine(n));
    if config.agent.is_none() && !args.live.no_agent && elsewhere.is_none() {
        config.agent = doctor::own_agent(&args.root);
    }
    let runtime = super::runtime()?;
    let checks = runtime.block_on(doctor::examine(&args.root, &config, elsewhere));
    let mut out = out::stdout();
    match args.output {
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &checks)?;
            writeln!(out)?;
        }
        Format::Yaml => rows::values(&mut out, Rows::Yaml, checks.iter())?,
        Format::Text => write_checks(&mut out, &checks)?,
    }
    out.flush()?;
    let mut needed = checks
        .iter()
        .filter(|c| c.needed && c.health == Health::Off);
    let Some(check) = needed.next() else {
        return Ok(super::OK);
    };
    stderr_log()(&format!(
        "the pods cannot be read: {}: {}",
        check.what, check.found
    ));
    Ok(super::ERROR)
}

fn write_checks(out: &mut impl Write, checks: &[Check]) -> std::io::Result<()> {
    let width = checks.iter().map(|c| c.what.len()).max().unwrap_or(0);
    for c in checks {
        let mark = match c.health {
            Health::Works => "ok",
            Health::Warning => "!",
            Health::Off => "off",
        };
        writeln!(out, "{mark:<4}{:<width$}  {}", c.what, clean(&c.found))?;
        for line in c.todo.lines() {
            writeln!(out, "    {:<width$}  → {}", "", clean(line))?;
        }
    }
    Ok(())
}
