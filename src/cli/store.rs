//! `kflow store`, and fetching from a store for commands that read.

mod command;

use std::io::IsTerminal as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use super::args::live::ScopeArgs;
use super::args::store::StoreArgs;
use super::args::{Command, Input};
use super::out::tell;
use kflow_core::correlate::owners::makes_pods;
use kflow_core::diagnose::unknown::Reason;
use kflow_core::diagnose::{Unknown, namespace_of, node_asked, owner_asked};
use kflow_core::query::Moment;
use kflow_core::suggest::suggest;
use kflow_model::kind::NAMESPACE;
use kflow_model::units::{DAY, HOUR, MINUTE, counted, size};
use kflow_model::{Nanos, clock};
use kflow_store::cache::Cache;
use kflow_store::fetch::{FetchError, Fetched, Plan, Want, fetch, plan};
use kflow_store::index::Asked;
use kflow_store::scratch::Scratch;
use kflow_store::{Store, Use};

pub(super) use command::store;

/// Size limit of the cache of fetched segments, bytes.
const CACHE: u64 = 1 << 30;
/// Number of holes in the data that are reported one by one.
const MOST_HOLES: usize = 10;
/// What is fetched of the time after `--at`, ns: some of what was seen of a moment arrived later.
const AFTER: i64 = 15 * MINUTE;
/// Length of the requested time without `--from`, ns.
const USUAL: i64 = HOUR;

/// Opens a store to write to it. Says so when it is a folder that others may read: it may be shared on purpose.
pub(super) fn for_writing(url: &str) -> anyhow::Result<Store> {
    let store = Store::open(url, Use::Write)?;
    if let Some(mode) = store.open_to_all() {
        tell(&format!(
            "every user of this machine may read what is put into {url} (mode {mode:o}): chmod o= its folder, unless that is meant"
        ));
    }
    Ok(store)
}

/// Fetches the requested segments from a store and sets them as the command's recording. Dropping the returned value
/// deletes them.
pub(super) fn fetch_into(command: &mut Command) -> anyhow::Result<Option<Scratch>> {
    match command {
        Command::Why(a) => of_input(&mut a.input, a.pod.as_deref()),
        Command::Timeline(a) => of_input(&mut a.input, a.pod.as_deref()),
        Command::Export(a) => of_input(&mut a.input, a.pod.as_deref()),
        Command::Calls(a) => of_input(&mut a.input, a.filter.pod.as_deref()),
        Command::Requests(a) => of_input(&mut a.input, a.pod.as_deref()),
        Command::Flow(a) => of_input(&mut a.input, a.pod.as_deref()),
        Command::Stats(a) => of_input(&mut a.input, None),
        Command::Tui(a) => {
            let at = a.at.as_deref();
            session(&mut a.session, &a.store, &a.live.scope, None, at)
        }
        Command::Replay(a) => {
            let at = a.at.as_deref();
            session(&mut a.session, &a.store, &a.scope, None, at)
        }
        _ => Ok(None),
    }
}

fn of_input(input: &mut Input, pod: Option<&str>) -> anyhow::Result<Option<Scratch>> {
    let at = input.at.as_deref();
    session(&mut input.session, &input.store, &input.live.scope, pod, at)
}

fn session(
    session: &mut Option<PathBuf>,
    args: &StoreArgs,
    scope: &ScopeArgs,
    pod: Option<&str>,
    at: Option<&str>,
) -> anyhow::Result<Option<Scratch>> {
    let Some(url) = &args.store else {
        return Ok(None);
    };
    if let Some(file) = session {
        bail!(
            "--store and {} (--session, or KFLOW_SESSION) are two recordings: leave one of them out",
            file.display()
        );
    }
    let want = want(args, scope, pod, at, clock::now())?;
    let (scratch, file) = fetched(url, &want, args.verbose).map_err(|e| unknown(e, pod))?;
    *session = Some(file);
    Ok(Some(scratch))
}

/// Parses an absolute time, or one before now.
pub(super) fn moment(flag: &str, text: &str, now: Nanos) -> anyhow::Result<Nanos> {
    match Moment::parse(text) {
        Some(m @ (Moment::At(_) | Moment::Local(_) | Moment::Earlier(_) | Moment::End)) => {
            Ok(m.within((now, now), None, |_| 0))
        }
        // The most recent time at which a clock showed it.
        Some(m @ Moment::Clock(_)) => {
            let today = m.within((now, now), None, |_| 0);
            Ok(if today > now { today.plus(-DAY) } else { today })
        }
        _ => bail!(
            "{flag} {text:?} is not a time: write RFC 3339 (2026-11-21T00:27:47Z), a date and time (2026-11-21 00:27), a date or a time of day (00:27:47, UTC), the time since \
             the epoch, or -26h (before now)"
        ),
    }
}

/// A store that has no answer, as what is not known. Similar names are those of the index, or of the nodes.
fn unknown(e: anyhow::Error, pod: Option<&str>) -> anyhow::Error {
    let near = match e.downcast_ref::<FetchError>() {
        Some(FetchError::NoNode { node, nodes, .. }) => suggest(node, nodes.clone(), |n| n),
        Some(FetchError::NoPod { pods, .. }) => {
            let asked = pod.unwrap_or_default();
            suggest(asked, pods.clone(), |key| {
                key.rsplit('/').next().unwrap_or(key)
            })
        }
        Some(FetchError::NoTime { .. }) => Vec::new(),
        _ => return e,
    };
    let text = e.to_string();
    let (why, help) = text.split_once(": ").unwrap_or((&text, ""));
    let mut help = help.to_owned();
    if !near.is_empty() {
        help = format!("did you mean {}? Or {help}", near.join(", "));
    }
    let what = pod.map_or_else(
        || "what was recorded".to_owned(),
        |pod| format!("how {pod} is"),
    );
    let why = why.to_owned();
    let reason = Reason::NotRecorded;
    Unknown {
        what,
        reason,
        why,
        help,
    }
    .into()
}

/// The times from `--from` and `--to`; `--to` defaults to now, `--from` to an hour earlier.
pub(super) fn times(args: &StoreArgs, now: Nanos) -> anyhow::Result<(Nanos, Nanos)> {
    let given = |flag, text: &Option<String>| {
        let text = text.as_deref();
        text.map(|t| moment(flag, t, now)).transpose()
    };
    let to = given("--to", &args.to)?.unwrap_or(now);
    let from = given("--from", &args.from)?.unwrap_or(to.plus(-USUAL));
    ensure!(
        from < to,
        "--from ({from}) is not before --to ({to}): name an earlier one"
    );
    Ok((from, to))
}

/// The request that the arguments describe.
fn want(
    args: &StoreArgs,
    scope: &ScopeArgs,
    pod: Option<&str>,
    at: Option<&str>,
    now: Nanos,
) -> anyhow::Result<Want> {
    let (mut from, mut to) = times(args, now)?;
    if (&args.from, &args.to) == (&None, &None)
        && let Some(Moment::At(at)) = at.and_then(Moment::parse)
    {
        (from, to) = (at.plus(-USUAL), at.plus(AFTER).min(now.max(at)));
    }
    let node = scope.node.clone();
    let node = node.or_else(|| pod.and_then(node_asked).map(str::to_owned));
    let namespace = scope.namespace.as_deref();
    let pod = match pod.map(|p| (p, owner_asked(p))) {
        None => None,
        Some((_, Some((_, NAMESPACE, name)))) => Some(Asked::within(name)),
        Some((_, Some((of, kind, name)))) if makes_pods(kind) => {
            Some(Asked::made_by(name, of.or(namespace)))
        }
        // The index does not contain which pods mount a claim, are scaled by an autoscaler or selected by a budget.
        Some((_, Some((of, _, _)))) => of.or(namespace).map(Asked::within),
        Some((pod, None)) => Some(Asked::pod(pod, namespace_of(pod).or(namespace))),
    };
    Ok(Want {
        cluster: args.cluster.clone(),
        node,
        pod,
        from,
        to,
    })
}

/// Fetches segments into a new folder, under a name that the terminal can show.
fn fetched(url: &str, want: &Want, verbose: bool) -> anyhow::Result<(Scratch, PathBuf)> {
    let store = Store::open(url, Use::Read)?;
    let runtime = super::runtime()?;
    let plan = runtime.block_on(shown("looking where it lies", plan(&store, want)))?;
    let (cache, folder) = match cache() {
        Ok((cache, folder)) => (Some(cache), folder),
        Err(why) => {
            tell(&format!(
                "what is fetched is not kept for the next time: {why}"
            ));
            (None, std::env::temp_dir())
        }
    };
    let scratch = Scratch::new(&folder);
    let scratch =
        scratch.with_context(|| format!("cannot make a folder in {}", folder.display()))?;
    let file = scratch.path().join(name(&plan));
    if verbose {
        for s in &plan.segments {
            tell(&format!("{} ({})", s.path, size(s.bytes)));
        }
    }
    let bar = std::io::stderr().is_terminal().then(|| bar(plan.bytes()));
    let done = runtime.block_on(fetch(&store, &plan, cache.as_ref(), &file, |bytes| {
        if let Some(bar) = &bar {
            bar.inc(bytes);
        }
    }));
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    // A read from a file system that hangs is abandoned.
    runtime.shutdown_background();
    let done = match done {
        Err(e @ FetchError::Session(_)) => {
            let folder = folder.display();
            let todo = format!(
                "cannot write what was fetched to {folder} (XDG_CACHE_HOME names another folder for it)"
            );
            return Err(anyhow::Error::new(e).context(todo));
        }
        done => done?,
    };
    told(&plan, &done, verbose);
    ensure!(
        done.observations > 0,
        "of {} between {} and {} none can be read",
        counted(plan.segments.len() as u64, "segment"),
        plan.from,
        plan.to
    );
    Ok((scratch, file))
}

fn name(plan: &Plan) -> String {
    let nodes = plan.nodes();
    let of = match nodes.first() {
        Some(node) if nodes.len() == 1 => (*node).to_owned(),
        _ => format!("{}-nodes", nodes.len()),
    };
    // The names in a store are untrusted.
    let plain = |c: &char| c.is_ascii_alphanumeric() || ['.', '-', '_'].contains(c);
    let name = format!("{}.{of}", plan.cluster.name);
    let name: String = name.chars().filter(plain).take(100).collect();
    name + ".kflow.zst"
}

fn told(plan: &Plan, done: &Fetched, verbose: bool) {
    if verbose {
        let nodes: Vec<&str> = plan.nodes().into_iter().collect();
        tell(&format!(
            "{} of {}: {} bytes fetched, {} bytes of earlier times used, {} bytes of the index read",
            counted(plan.segments.len() as u64, "segment"),
            nodes.join(", "),
            done.bytes,
            done.cached,
            plan.index_bytes
        ));
    }
    if plan.unindexed {
        tell(
            "the store has no index of pods of this time: the segments of all nodes are looked into",
        );
    }
    for (path, why) in &plan.unreadable {
        tell(&format!(
            "{path} of the index cannot be read, and may name other nodes: {why}"
        ));
    }
    for (path, why) in &done.unreadable {
        tell(&format!("{path} is left out: {why}"));
    }
    for (path, left) in &done.damaged {
        tell(&format!("{path} is damaged: {left}"));
    }
    for (node, hole) in done.holes.iter().take(MOST_HOLES) {
        let why = if hole.lost {
            "a segment is missing"
        } else {
            "nobody recorded"
        };
        tell(&format!(
            "nothing is kept of {node} between {} and {}: {why}",
            hole.from, hole.to
        ));
    }
    if let Some(more) = done.holes.len().checked_sub(MOST_HOLES).filter(|n| *n > 0) {
        tell(&format!("nor in {more} other times"));
    }
    if let [node] = plan.nodes().into_iter().collect::<Vec<_>>()[..]
        && let Some((begin, end)) = plan.reach()
    {
        if plan.from < begin {
            tell(&format!("nothing is kept of {node} before {begin}"));
        }
        if end < plan.to {
            tell(&format!("nothing is kept of {node} after {end}, so far"));
        }
    }
}

/// Waits for a store; on a terminal, a spinner shows the reason and the time elapsed.
pub(super) async fn shown<T>(what: &str, answer: impl Future<Output = T>) -> T {
    let bar = spinner(what);
    let answer = answer.await;
    bar.finish_and_clear();
    answer
}

/// The spinner; hidden when standard error is no terminal.
pub(super) fn spinner(what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

fn bar(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::new(bytes);
    if let Ok(style) = ProgressStyle::with_template("{bytes:>10} of {total_bytes} {wide_bar} {eta}")
    {
        bar.set_style(style);
    }
    bar
}

fn var(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|v| !v.is_empty())
        .map(PathBuf::from)
}

/// A user folder by the XDG base directory specification: `variable`, else `rest` in the home
/// directory; with `kflow` appended.
pub(super) fn folder(variable: &str, rest: &str) -> anyhow::Result<PathBuf> {
    let home = || var("HOME").map(|h| h.join(rest));
    let folder = var(variable).filter(|p| p.is_absolute()).or_else(home);
    let folder = folder.with_context(|| format!("neither {variable} nor HOME is set"))?;
    Ok(folder.join("kflow"))
}

/// The cache of segments, and kflow's cache folder. An error when they cannot be created.
fn cache() -> anyhow::Result<(Cache, PathBuf)> {
    let mine = folder("XDG_CACHE_HOME", ".cache")?;
    let folder = mine.join("segments");
    let failed = |path: &Path| format!("cannot use {}", path.display());
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&mine)
        .with_context(|| failed(&mine))?;
    let cache = Cache::open(&folder, CACHE).with_context(|| failed(&folder))?;
    Ok((cache, mine))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_before_now_or_as_the_clock_showed_them_last() {
        let now = Nanos(1_795_508_400_000_000_000); // 2026-11-24T08:20:00Z
        let at = |text: &str| moment("--from", text, now).map(Nanos::to_rfc3339);
        for (text, want) in [
            ("-26h", "2026-11-23T06:20:00.000000000Z"),
            ("08:00", "2026-11-24T08:00:00.000000000Z"),
            ("09:00:00", "2026-11-23T09:00:00.000000000Z"),
            ("end", "2026-11-24T08:20:00.000000000Z"),
            ("2026-11-20T00:00:00Z", "2026-11-20T00:00:00.000000000Z"),
        ] {
            assert_eq!(at(text).unwrap(), want, "{text}");
        }
        for text in ["+90s", "40%", "start", "yesterday"] {
            assert!(at(text).unwrap_err().to_string().contains("-26h"), "{text}");
        }
    }

    #[test]
    fn a_pod_an_owner_or_a_node_says_where_to_look() {
        let now = Nanos(1_795_508_400_000_000_000);
        let scope = ScopeArgs::default();
        let want = |pod: &str| want(&StoreArgs::default(), &scope, Some(pod), None, now).unwrap();
        assert_eq!(want("node/n1").node.as_deref(), Some("n1"));
        assert_eq!(
            want("shop/web-0").pod,
            Some(Asked::pod("web-0", Some("shop")))
        );
        assert_eq!(
            want("shop/deploy/web").pod,
            Some(Asked::made_by("web", Some("shop")))
        );
        assert_eq!(want("pvc/data").pod, None);
        assert_eq!(want("shop/pvc/data").pod, Some(Asked::within("shop")));
        assert_eq!(want("ns/shop").pod, Some(Asked::within("shop")));
        for others in ["hpa/web", "pdb/web"] {
            assert_eq!(want(others).pod, None);
            let of_shop = want(&format!("shop/{others}")).pod;
            assert_eq!(of_shop, Some(Asked::within("shop")));
        }
        let w = want("web-0");
        assert_eq!((w.from, w.to), (now.plus(-HOUR), now));
        let args = StoreArgs {
            from: Some("-1h".into()),
            to: Some("-2h".into()),
            ..StoreArgs::default()
        };
        assert!(super::want(&args, &scope, None, None, now).is_err());
        let at = |args: &StoreArgs| {
            let at = Some("2026-11-20T00:00:00Z");
            let want = super::want(args, &scope, None, at, now).unwrap();
            (want.from.to_rfc3339(), want.to.to_rfc3339())
        };
        let (from, to) = at(&StoreArgs::default());
        assert!(from.starts_with("2026-11-19T23:00:00") && to.starts_with("2026-11-20T00:15:00"));
        let named = StoreArgs {
            from: Some("2026-11-18T00:00:00Z".into()),
            ..StoreArgs::default()
        };
        assert!(at(&named).1.starts_with("2026-11-24T08:20:00"));
    }
}
