//! `kflow agent install`, `upgrade`, `uninstall` and `clean`

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use kube::client::Client;

use super::super::args::Args;
use super::super::args::agent::{CleanArgs, ClusterArgs, InstallArgs, UninstallArgs};
use super::super::live::{stderr_log, wait};
use super::super::out;
use kflow_agent::install::{self, Did, Rollout};
use kflow_agent::{clean, manifest};
use kflow_engine::live::{Config, connect};
use kflow_export::text::clean as shown;
use kflow_model::units;

pub(super) async fn client(args: &ClusterArgs) -> anyhow::Result<Client> {
    client_of(args.kubeconfig.as_deref(), args.context.as_deref()).await
}

/// A client for a kubeconfig and a context; `None` stands for the default.
pub(in crate::cli) async fn client_of(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> anyhow::Result<Client> {
    let config = Config {
        kubeconfig: kubeconfig.map(Path::to_owned),
        context: context.map(str::to_owned),
        ..Config::nothing()
    };
    let (client, _) = connect(&config).await.map_err(anyhow::Error::msg)?;
    Ok(client)
}

pub(super) fn block_on<T>(what: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    super::super::runtime()?.block_on(what)
}

/// Prints a line about what was done. Errors are ignored: the work continues when stdout is closed.
fn tell(what: &str, did: &Did) {
    let why = match did {
        Did::Left(why) => format!(": {}", shown(why)),
        _ => String::new(),
    };
    let mut out = out::stdout();
    writeln!(out, "{:<10} {}{why}", did.name(), shown(what)).ok();
    out.flush().ok();
}

/// `kflow agent install`; with `only_there`, which requires existing agents, `kflow agent upgrade`.
pub(super) fn install(args: &InstallArgs, only_there: bool) -> anyhow::Result<u8> {
    let run = ["kflow", "agent", "run"].map(str::to_owned);
    // Checked here, because an agent in its pod would report a wrong argument only in its log.
    if let Err(e) = Args::try_parse_from(run.iter().chain(&args.args)) {
        let said = e.to_string();
        if !e.use_stderr() {
            let mut out = out::stdout();
            out.write_all(said.as_bytes())?;
            out.flush()?;
            return Ok(super::super::OK);
        }
        let first = said.lines().next().unwrap_or_default();
        let why = first.strip_prefix("error: ").unwrap_or(first);
        anyhow::bail!(
            "agents do not start with these arguments: {why}; kflow agent run --help lists them"
        );
    }
    let wanted = manifest::Wanted {
        namespace: args.cluster.agent_namespace.clone(),
        image: args.image.clone(),
        pull_secret: args.pull_secret.clone(),
        node_selector: args.node_selector.iter().cloned().collect(),
        env_secret: args.env_secret.clone(),
        args: args.args.clone(),
    };
    if args.dry_run {
        let text = manifest::yaml(&wanted)?;
        let mut out = out::stdout();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        return Ok(super::super::OK);
    }
    let done = block_on(async {
        let client = client(&args.cluster).await?;
        install::install(&client, &wanted, only_there, &mut tell).await?;
        let namespace = &wanted.namespace;
        let done = install::rolled_out(&client, namespace, args.wait, progress).await?;
        anyhow::Ok(done)
    })?;
    if done.is_over() {
        return Ok(super::super::OK);
    }
    let waiting = nodes(&done.waiting);
    let rest = done.wanted.saturating_sub(done.ready);
    out::tell(&format!(
        "{rest} of {} agents are not ready after {}{waiting}; kflow agent status says how they are doing",
        done.wanted,
        units::wait(args.wait)
    ));
    Ok(super::super::ERROR)
}

fn progress(state: &Rollout) {
    let mut out = out::stdout();
    writeln!(out, "ready      {} of {} agents", state.ready, state.wanted).ok();
    out.flush().ok();
}

/// The first few nodes whose agents are not ready, with the reasons.
fn nodes(all: &[(String, String)]) -> String {
    const SHOWN: usize = 5;
    let some: Vec<String> = all
        .iter()
        .take(SHOWN)
        .map(|(node, why)| format!("{node}: {why}"))
        .collect();
    match (some.is_empty(), all.len().saturating_sub(SHOWN)) {
        (true, _) => String::new(),
        (false, 0) => format!(" ({})", some.join("; ")),
        (false, more) => format!(" ({}; and {more} more)", some.join("; ")),
    }
}

/// `kflow agent uninstall`
pub(super) fn uninstall(args: &UninstallArgs) -> anyhow::Result<u8> {
    let namespace = &args.cluster.agent_namespace;
    let remains = block_on(async {
        let client = client(&args.cluster).await?;
        let done = if args.only_files {
            install::only_files(&client, namespace, args.wait, &mut tell).await?
        } else {
            install::uninstall(&client, namespace, args.wait, &mut tell).await?
        };
        anyhow::Ok(done)
    })?;
    if remains.nodes.is_empty() && remains.objects.is_empty() {
        return Ok(super::super::OK);
    }
    if !remains.nodes.is_empty() {
        out::tell(&format!(
            "files of the agent may be left on nodes that did not answer within {}{}: remove /run/kflow and /var/lib/kflow there, or install and uninstall again when they are back",
            units::wait(args.wait),
            nodes(&remains.nodes)
        ));
    }
    for object in &remains.objects {
        out::tell(&format!(
            "{object} is still there: kubectl describe says why"
        ));
    }
    Ok(super::super::ERROR)
}

/// `kflow agent clean`: runs in a pod on each node while the agents are uninstalled.
pub(super) fn clean(args: &CleanArgs) -> anyhow::Result<u8> {
    let log = stderr_log();
    let root = args.root.clone().unwrap_or_else(|| PathBuf::from("/"));
    let cleaned = clean::clean(&root)?;
    log(&format!(
        "{} files of the agent were removed",
        cleaned.files
    ));
    for path in cleaned.left {
        log(&format!(
            "{} stays: something else is in it",
            path.display()
        ));
    }
    if args.stay {
        wait(None, || true)?;
    }
    Ok(super::super::OK)
}
