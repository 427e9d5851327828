//! Fetches from a store the few segments about a time, a node or a pod, as one session.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::Path as FsPath;
use std::sync::Arc;

use kflow_model::session::{Reader, SessionError};
use kflow_model::units::size;
use kflow_model::{Nanos, Text};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

mod join;

use crate::cache::Cache;
use crate::compact::{hours_between, longest};
use crate::index::{Asked, Index, IndexError, Row};
use crate::layout::{
    BadName, Cluster, Hour, NO_NODE, Object, is_day, is_of_segments, is_rows, last, once,
};
use crate::merge::{Hole, Piece};
use crate::object::{Store, StoreError};

/// Most requests at a time.
const AT_ONCE: usize = 32;
/// Most bytes of segments that are fetched for one answer. A session of this size takes some gigabytes of memory.
pub const MOST: u64 = 1 << 30;
/// How often the index is listed at most, when objects of it are merged at the same time.
const LOOKS: u32 = 4;
/// Most names that a message lists.
const LISTED: usize = 10;

/// What to fetch from a store.
#[derive(Clone, Debug)]
pub struct Want {
    /// `None` for the only cluster in the store.
    pub cluster: Option<String>,
    pub node: Option<String>,
    /// Selects the nodes that the pod was on, if no node is named.
    pub pod: Option<Asked>,
    pub from: Nanos,
    pub to: Nanos,
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Name(#[from] BadName),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("the store {url} is empty: `kflow record --store {url}` fills it")]
    Empty { url: String },
    #[error(
        "{url} is the folder of the cluster {cluster}: name the store, {store}, with --cluster {cluster}"
    )]
    OfCluster {
        url: String,
        store: String,
        cluster: String,
    },
    #[error("the store {url} has several clusters: name one with --cluster: {}", listed(.clusters))]
    Clusters { url: String, clusters: Vec<String> },
    #[error("the store {url} has no cluster {cluster}: it has {}", listed(.clusters))]
    NoCluster {
        url: String,
        cluster: String,
        clusters: Vec<String>,
    },
    #[error("the store has nothing of {cluster} between {from} and {to}: name another time with --from and --to{}", reaching(*.kept))]
    NoTime {
        cluster: Text,
        from: Nanos,
        to: Nanos,
        /// Begin and end of what the store has of the cluster.
        kept: Option<(Nanos, Nanos)>,
    },
    #[error("the store has nothing of the node {node} between {from} and {to}: then it has {}", listed(.nodes))]
    NoNode {
        node: String,
        from: Nanos,
        to: Nanos,
        nodes: Vec<String>,
    },
    #[error("the store's index has no such pod between {from} and {to}: name another time with --from and --to, or the node that it was on with --node{}{}", reaching(*.kept), unread(.unreadable))]
    NoPod {
        from: Nanos,
        to: Nanos,
        /// Begin and end of what the store has of the cluster.
        kept: Option<(Nanos, Nanos)>,
        /// The pods that the index has, as `namespace/name`.
        pods: BTreeSet<String>,
        /// Index objects that could not be read: path and reason.
        unreadable: Vec<(String, String)>,
    },
    #[error("between {from} and {to} there are {segments} segments of {nodes} nodes, {}: more than is fetched for one answer ({}): name a node with --node, a pod, or a shorter time; kflow fleet answers of any number, from the tables that kflow store tables makes", size(*.bytes), size(MOST))]
    Much {
        from: Nanos,
        to: Nanos,
        segments: usize,
        nodes: usize,
        bytes: u64,
    },
}

fn listed(names: &[String]) -> String {
    let mut text = names
        .iter()
        .take(LISTED)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if names.is_empty() {
        text.push_str("none");
    }
    if let Some(more) = names.len().checked_sub(LISTED).filter(|n| *n > 0) {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn reaching(range: Option<(Nanos, Nanos)>) -> String {
    range.map_or_else(String::new, |(begin, end)| {
        format!("; it has something from {begin} to {end}")
    })
}

fn unread(objects: &[(String, String)]) -> String {
    objects.first().map_or_else(String::new, |(path, why)| {
        format!(
            "; {} objects of the index could not be read: {path}: {why}",
            objects.len()
        )
    })
}

/// The segments to fetch.
#[derive(Clone, Debug)]
pub struct Plan {
    pub cluster: Cluster,
    pub from: Nanos,
    pub to: Nanos,
    /// Sorted by node and begin.
    pub segments: Vec<Object>,
    /// Bytes of the index that were read to find the segments.
    pub index_bytes: u64,
    /// Objects of the index that could not be read; they may name further nodes on which the pod was.
    pub unreadable: Unreadable,
    /// True when the segments of this time have no index, so that those of all nodes are fetched.
    pub unindexed: bool,
}

impl Plan {
    /// Total size of the segments, bytes.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|s| s.bytes).sum()
    }
    /// Begin of the first segment and end of the last; `None` without segments.
    pub fn reach(&self) -> Option<(Nanos, Nanos)> {
        let begin = self.segments.iter().map(|s| s.begin).min()?;
        Some((begin, self.segments.iter().map(|s| s.end).max()?))
    }
    /// The nodes of the segments.
    pub fn nodes(&self) -> BTreeSet<&str> {
        self.segments.iter().map(|s| s.node.as_str()).collect()
    }
}

/// Returns the names of the clusters in a store.
pub async fn clusters(store: &Store) -> Result<Vec<String>, FetchError> {
    let folders = store.folders(store.root()).await?;
    for folder in folders.iter().filter(|f| is_of_segments(f)) {
        // A cluster may have this name too.
        let inner = store.folders(folder).await?;
        if let Some((above, cluster)) = store.url().rsplit_once('/')
            && inner.iter().any(is_day)
        {
            return Err(FetchError::OfCluster {
                url: store.url().to_owned(),
                store: above.to_owned(),
                cluster: cluster.to_owned(),
            });
        }
    }
    Ok(folders.iter().map(|f| last(f).to_owned()).collect())
}

/// Returns the cluster of that name, or the only one.
pub async fn cluster(store: &Store, name: Option<&str>) -> Result<Cluster, FetchError> {
    let url = || store.url().to_owned();
    let mut all = clusters(store).await?;
    let name = match (name, all.as_slice()) {
        (_, []) => return Err(FetchError::Empty { url: url() }),
        (Some(name), _) if all.iter().any(|c| c == name) => name.to_owned(),
        (Some(name), _) => {
            return Err(FetchError::NoCluster {
                url: url(),
                cluster: name.to_owned(),
                clusters: all,
            });
        }
        (None, [_]) => all.remove(0),
        (None, _) => {
            return Err(FetchError::Clusters {
                url: url(),
                clusters: all,
            });
        }
    };
    Ok(Cluster::new(store.root(), &name)?)
}

/// Finds the segments to fetch, without reading any.
pub async fn plan(store: &Store, want: &Want) -> Result<Plan, FetchError> {
    let (from, to) = (want.from, want.to);
    let cluster = cluster(store, want.cluster.as_deref()).await?;
    // A segment of the greatest length may have begun this much earlier.
    let earliest = Nanos(from.0.saturating_sub(longest()));
    let hours = hours_between(store, &cluster, &cluster.segments(), earliest, to).await?;
    let mut plan = Plan {
        cluster,
        from,
        to,
        segments: Vec::new(),
        index_bytes: 0,
        unreadable: Vec::new(),
        unindexed: false,
    };
    let nodes = match (&want.node, &want.pod) {
        (Some(node), _) => Some(BTreeSet::from([node.clone()])),
        (None, Some(pod)) if !hours.is_empty() => nodes_of(store, &mut plan, pod).await?,
        (None, Some(_)) => None,
        (None, None) => None,
    };
    let mut folders = Vec::new();
    for hour in &hours {
        match &nodes {
            Some(nodes) => {
                folders.extend(nodes.iter().map(|n| plan.cluster.segments_of(*hour, n)));
            }
            None => folders.push(plan.cluster.segments_in(*hour)),
        }
    }
    let lists = at_once(folders, |folder| {
        let store = store.clone();
        async move { store.list(&folder).await }
    });
    for list in lists.await {
        let segments = list?
            .into_iter()
            .filter_map(|o| Object::parse(&o.location, o.size))
            .filter(|s| s.is_within(from, to));
        plan.segments.extend(segments);
    }
    if plan.segments.is_empty() {
        return Err(nothing(store, &plan, want, &hours).await?);
    }
    once(&mut plan.segments);
    plan.segments
        .sort_by(|a, b| (&a.node, a.begin).cmp(&(&b.node, b.begin)));
    if plan.bytes() > MOST {
        return Err(FetchError::Much {
            from,
            to,
            segments: plan.segments.len(),
            nodes: plan.nodes().len(),
            bytes: plan.bytes(),
        });
    }
    Ok(plan)
}

/// Returns why no segment was found.
async fn nothing(
    store: &Store,
    plan: &Plan,
    want: &Want,
    hours: &[Hour],
) -> Result<FetchError, StoreError> {
    let (from, to) = (want.from, want.to);
    let mut nodes = BTreeSet::new();
    for hour in hours {
        for folder in store.folders(&plan.cluster.segments_in(*hour)).await? {
            nodes.insert(last(&folder).to_owned());
        }
    }
    if let Some(node) = want.node.clone().filter(|_| !nodes.is_empty()) {
        return Ok(FetchError::NoNode {
            node,
            from,
            to,
            nodes: nodes.into_iter().collect(),
        });
    }
    Ok(FetchError::NoTime {
        cluster: plan.cluster.name.clone(),
        from,
        to,
        kept: kept(store, &plan.cluster).await?,
    })
}

/// Returns begin and end of what a store has of a cluster.
async fn kept(store: &Store, cluster: &Cluster) -> Result<Option<(Nanos, Nanos)>, StoreError> {
    let hours = crate::compact::hours(store, cluster, &cluster.segments()).await?;
    let (Some(first), Some(last)) = (hours.iter().min(), hours.iter().max()) else {
        return Ok(None);
    };
    let mut all = Vec::new();
    for hour in BTreeSet::from([first, last]) {
        all.extend(store.list(&cluster.segments_in(*hour)).await?);
    }
    let all = all
        .iter()
        .filter_map(|o| Object::parse(&o.location, o.size));
    let range = |(begin, end): (Nanos, Nanos), s: Object| (begin.min(s.begin), end.max(s.end));
    let (begin, end) = all.fold((Nanos(i64::MAX), Nanos(i64::MIN)), range);
    Ok((begin <= end).then_some((begin, end)))
}

/// Returns the nodes whose segments contain a pod; `None` for all, where the index cannot tell.
async fn nodes_of(
    store: &Store,
    plan: &mut Plan,
    pod: &Asked,
) -> Result<Option<BTreeSet<String>>, FetchError> {
    let (index, bytes, unreadable) = index(store, &plan.cluster, plan.from, plan.to).await?;
    plan.index_bytes = bytes;
    if index.is_empty() && unreadable.is_empty() {
        plan.unindexed = true;
        return Ok(None);
    }
    let is = |r: &&Row| r.begin <= plan.to && r.end >= plan.from && pod.is(r);
    let rows: Vec<&Row> = index.rows().filter(is).collect();
    // The pod's own node has most about it. While the pod has none, the watch of every node does: one is enough.
    let own = rows.iter().filter(|r| r.recorder == r.node);
    let mut nodes: BTreeSet<String> = own.map(|r| r.recorder.to_string()).collect();
    if nodes.is_empty() {
        let of_cluster = rows.iter().find(|r| r.recorder == *NO_NODE);
        let any = of_cluster.or(rows.first());
        nodes.extend(any.map(|r| r.recorder.to_string()));
    }
    // An owner may be there without a pod, which is what is wrong with it.
    if nodes.is_empty() && !pod.is_of_several() {
        let pods = index.rows().map(|r| format!("{}/{}", r.namespace, r.name));
        return Err(FetchError::NoPod {
            from: plan.from,
            to: plan.to,
            kept: kept(store, &plan.cluster).await?,
            pods: pods.collect(),
            unreadable,
        });
    }
    plan.unreadable = unreadable;
    Ok(Some(nodes).filter(|nodes| !nodes.is_empty()))
}

/// Objects that could not be read: path and reason.
pub type Unreadable = Vec<(String, String)>;

/// Returns the index of a time, its size in bytes, and the objects of it that could not be read.
pub async fn index(
    store: &Store,
    cluster: &Cluster,
    from: Nanos,
    to: Nanos,
) -> Result<(Index, u64, Unreadable), StoreError> {
    let earliest = Nanos(from.0.saturating_sub(longest()));
    let (mut index, mut total) = (Index::default(), 0);
    let mut seen = BTreeSet::new();
    let mut looks = 0;
    loop {
        looks += 1;
        let hours = hours_between(store, cluster, &cluster.pods(), earliest, to).await?;
        let folders = hours.into_iter().map(|h| cluster.pods_in(h)).collect();
        let lists = at_once(folders, |folder| {
            let store = store.clone();
            async move { store.list(&folder).await }
        });
        let mut paths = Vec::new();
        for list in lists.await {
            let objects = list?.into_iter().map(|o| o.location);
            paths.extend(objects.filter(|p| is_rows(p) && !seen.contains(p)));
        }
        let read = at_once(paths, |path| {
            let store = store.clone();
            async move {
                let bytes = store.get(&path).await;
                (path, bytes)
            }
        });
        let mut unreadable = Vec::new();
        let mut merged = false;
        for (path, bytes) in read.await {
            let bytes = match bytes {
                // The object was merged at this time: its rows are in an object that may not have been listed.
                Err(e) if e.is_absence() => {
                    merged = true;
                    unreadable.push((path.to_string(), "it went while the index was read".into()));
                    continue;
                }
                Err(e) if store.is_folder() => {
                    unreadable.push((path.to_string(), e.to_string()));
                    continue;
                }
                bytes => bytes?,
            };
            total += bytes.len() as u64;
            match Index::decode(&bytes) {
                Ok(rows) => index.merge(rows),
                Err(e @ (IndexError::Damaged(_) | IndexError::Newer(_))) => {
                    unreadable.push((path.to_string(), e.to_string()));
                    continue;
                }
            }
            seen.insert(path);
        }
        if !merged || looks == LOOKS {
            return Ok((index, total, unreadable));
        }
    }
}

/// Asks about all items, up to [`AT_ONCE`] at a time, and returns the answers in order.
async fn at_once<T, A, F>(all: Vec<T>, ask: impl Fn(T) -> F) -> Vec<A>
where
    A: Send + 'static,
    F: Future<Output = A> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for (n, one) in all.into_iter().enumerate() {
        let (places, asked) = (Arc::clone(&places), ask(one));
        tasks.spawn(async move {
            let _place = places.acquire().await;
            (n, asked.await)
        });
    }
    let mut answers = BTreeMap::new();
    while let Some(done) = tasks.join_next().await {
        match done {
            Ok((n, answer)) => drop(answers.insert(n, answer)),
            Err(e) => {
                // No task is ever cancelled.
                if let Ok(panic) = e.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    answers.into_values().collect()
}

/// The result of fetching.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes of the segments that were read from the store.
    pub bytes: u64,
    /// Bytes of the segments that were read from the cache.
    pub cached: u64,
    pub observations: u64,
    /// Times that no segment covers, by node.
    pub holes: Vec<(Text, Hole)>,
    /// Segments that could not be read: path and reason.
    pub unreadable: Unreadable,
    /// Segments of which only a part could be read: path, and what is left.
    pub damaged: Vec<(String, String)>,
}

/// Fetches a plan and writes it as one session at `to`. Calls `each` with the bytes of every segment as it arrives.
pub async fn fetch(
    store: &Store,
    plan: &Plan,
    cache: Option<&Cache>,
    to: &FsPath,
    mut each: impl FnMut(u64),
) -> Result<Fetched, FetchError> {
    let mut done = Fetched::default();
    let mut by_node: BTreeMap<Text, Vec<Piece>> = BTreeMap::new();
    let mut unread: Vec<Object> = Vec::new();
    // In groups, so that the memory of segments that wait to be parsed is bounded.
    for some in plan.segments.chunks(AT_ONCE) {
        let got = at_once(some.to_vec(), |object| {
            let (store, cache) = (store.clone(), cache.cloned());
            async move {
                let here = cache.as_ref().and_then(|c| c.get(store.url(), &object));
                let cached = here.is_some();
                let bytes = match here {
                    Some(bytes) => Ok(bytes),
                    None => store.get(&object.path).await,
                };
                if let (Some(cache), Ok(bytes), false) = (&cache, &bytes, cached) {
                    cache.put(store.url(), &object, bytes);
                }
                (object, bytes, cached)
            }
        });
        for (object, bytes, cached) in got.await {
            let bytes = match bytes {
                Err(e) if e.is_absence() || store.is_folder() => {
                    // A segment that was listed is removed by retention only.
                    let why = if e.is_absence() {
                        "it is no longer there".to_owned()
                    } else {
                        e.to_string()
                    };
                    done.unreadable.push((object.path.to_string(), why));
                    unread.push(object);
                    continue;
                }
                bytes => bytes?,
            };
            let len = bytes.len() as u64;
            *if cached {
                &mut done.cached
            } else {
                &mut done.bytes
            } += len;
            each(len);
            match Reader::new(last(&object.path), Box::new(Cursor::new(bytes)), len) {
                Ok(reader) => {
                    let mut piece = Piece::read(reader);
                    if let Some(left) = piece.lacks(object.observations) {
                        done.damaged.push((object.path.to_string(), left));
                    }
                    by_node.entry(object.node).or_default().push(piece);
                }
                Err(e) => {
                    done.unreadable
                        .push((object.path.to_string(), e.to_string()));
                    unread.push(object);
                }
            }
        }
    }
    if let Some(cache) = cache {
        cache.shrink();
    }
    join::write(by_node, &unread, plan.to, to, &mut done)?;
    Ok(done)
}
