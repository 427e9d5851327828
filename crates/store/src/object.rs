//! A store, given by its URL: a folder, or object storage.
//!
//! Each request has a time limit, and errors name the request and the object. Retries are left to the caller.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt as _};
use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kflow_model::Nanos;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, ObjectStore, ObjectStoreExt as _, ObjectStoreScheme};
use tokio_stream::StreamExt as _;

mod advice;
#[cfg(feature = "cloud")]
mod cloud;
#[cfg(feature = "cloud")]
mod environment;
mod folder;

/// Time limit of one request. A segment is some megabytes: a link of 1 Mbit/s carries 7 MB in that time.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "{url} is no URL of a store: {why}; it looks like file:///var/lib/kflow/store or s3://bucket/prefix"
    )]
    Url { url: String, why: String },
    /// All users who may see the list of processes could read it.
    #[error(
        "the URL of a store holds a user or password, which every user of this machine can read in the list of processes: give credentials in the environment, as each cloud's tools take them"
    )]
    Credentials,
    #[error(
        "{url} is a store that this kflow was built without: use a released kflow, or build it with --features cloud; file:///… needs neither"
    )]
    NotBuilt { url: String },
    /// The value is not shown: it may be a key.
    #[error("{variable}, with which the store {url} is to be reached, {why}")]
    Variable {
        url: String,
        variable: &'static str,
        why: &'static str,
    },
    #[error("cannot reach the store {url} by what the environment says: {source}; {todo}")]
    Environment {
        url: String,
        source: Box<object_store::Error>,
        todo: &'static str,
    },
    #[error("cannot make the folder of the store {url}: {source}")]
    Folder { url: String, source: std::io::Error },
    #[error(
        "the store {url} is not there: its folder does not exist; `kflow record --store {url}` makes it"
    )]
    NoFolder { url: String },
    #[error("cannot {op} {what} in the store {url}: {}", because(.source, *.todo))]
    Ask {
        /// The operation: `write`, `read`, `list`, `remove`, `clean`.
        op: &'static str,
        /// The object, or folder of objects.
        what: String,
        url: String,
        source: Box<object_store::Error>,
        /// What happened in plain words and what to do, if the answer tells.
        todo: Option<&'static str>,
    },
    #[error("cannot write the index {what}: {source}")]
    Encode {
        what: String,
        source: std::io::Error,
    },
    #[error(
        "the store {url} has not answered for {}: it was to {op} {what}",
        kflow_model::units::wait(PATIENCE)
    )]
    Late {
        op: &'static str,
        what: String,
        url: String,
    },
}

impl StoreError {
    /// True when the object does not exist.
    pub fn is_absence(&self) -> bool {
        let Self::Ask { source, .. } = self else {
            return false;
        };
        matches!(**source, object_store::Error::NotFound { .. }) && !advice::lacks_bucket(source)
    }
}

fn because(source: &object_store::Error, todo: Option<&str>) -> String {
    todo.map_or_else(|| source.to_string(), |todo| format!("{todo} ({source})"))
}

/// A store. Cheap to clone; its requests need a tokio runtime with time and I/O.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<dyn ObjectStore>,
    /// Path of the store, if it is a folder.
    folder: Option<Arc<FsPath>>,
    root: Path,
    url: Arc<str>,
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// For reading: a folder that does not exist is an error.
    Read,
    /// For writing: a folder that does not exist is created, for its owner only.
    Write,
}

impl Store {
    /// Opens the store at a URL: `file:///path`, and with the feature `cloud` `s3://bucket/prefix`, `gs://…`,
    /// `az://…`. Credentials come from the environment.
    pub fn open(url: &str, how: Use) -> Result<Self, StoreError> {
        let bad = |why: String| StoreError::Url {
            url: kflow_model::redact::text(url).into_owned(),
            why,
        };
        let parsed = url::Url::parse(url).map_err(|e| bad(e.to_string()))?;
        let azure = matches!(parsed.scheme(), "abfs" | "abfss");
        if parsed.password().is_some() || (!parsed.username().is_empty() && !azure) {
            return Err(StoreError::Credentials);
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(bad("it has a query or a fragment".to_owned()));
        }
        let (scheme, path) = ObjectStoreScheme::parse(&parsed).map_err(|e| bad(e.to_string()))?;
        let url: Arc<str> = url.trim_end_matches('/').into();
        if scheme != ObjectStoreScheme::Local {
            return Self::of_cloud(scheme, &parsed, path, url);
        }
        let folder = parsed.to_file_path().map_err(|()| {
            bad("it names no absolute path: file:///path has three slashes".to_owned())
        })?;
        if !folder.is_dir() {
            let shown = url.to_string();
            if how == Use::Read {
                return Err(StoreError::NoFolder { url: shown });
            }
            let mut builder = DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(&folder);
            made.map_err(|source| StoreError::Folder { url: shown, source })?;
        }
        let inner = LocalFileSystem::new_with_prefix(&folder).map_err(|e| bad(e.to_string()))?;
        Ok(Self {
            folder: Some(folder.into()),
            // With fsync, as a spool drops what the store has. Empty folders of hours are removed
            // with their last object.
            inner: Arc::new(inner.with_fsync(true).with_automatic_cleanup(true)),
            root: Path::ROOT,
            url,
        })
    }

    #[cfg(not(feature = "cloud"))]
    fn of_cloud(
        _scheme: ObjectStoreScheme,
        _url: &url::Url,
        _path: Path,
        shown: Arc<str>,
    ) -> Result<Self, StoreError> {
        let url = shown.to_string();
        Err(StoreError::NotBuilt { url })
    }

    #[cfg(feature = "cloud")]
    fn of_cloud(
        scheme: ObjectStoreScheme,
        url: &url::Url,
        root: Path,
        shown: Arc<str>,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            folder: None,
            inner: cloud::open(&scheme, url, &shown)?,
            root,
            url: shown,
        })
    }

    /// The URL that the store was opened with.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the mode of a folder in which every user of this machine may read.
    pub fn open_to_all(&self) -> Option<u32> {
        let meta = std::fs::metadata(self.folder.as_deref()?).ok()?;
        let mode = meta.permissions().mode() & 0o777;
        (mode & 0o007 != 0).then_some(mode)
    }

    /// True for a folder of this machine, of which a file may not be readable while others are.
    pub const fn is_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// The folder of the clusters.
    pub const fn root(&self) -> &Path {
        &self.root
    }

    async fn ask<T>(
        &self,
        op: &'static str,
        what: &Path,
        answer: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, StoreError> {
        let all = what.as_ref().is_empty();
        let what = if all {
            "what lies".to_owned()
        } else {
            what.to_string()
        };
        let url = self.url.to_string();
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(source)) => Err(StoreError::Ask {
                op,
                what,
                todo: advice::of(&url, &source),
                url,
                source: Box::new(source),
            }),
            Err(_) => Err(StoreError::Late { op, what, url }),
        }
    }

    /// Writes an object, completely or not at all. Replaces an existing one, which has the same bytes by the way
    /// names are made.
    pub async fn put(&self, path: &Path, bytes: Vec<u8>) -> Result<(), StoreError> {
        let put = self.inner.put(path, bytes.into());
        self.ask("write", path, put).await.map(drop)
    }

    /// Reads an object.
    pub async fn get(&self, path: &Path) -> Result<Vec<u8>, StoreError> {
        let get = async { self.inner.get(path).await?.bytes().await };
        self.ask("read", path, get).await.map(Into::into)
    }

    /// Removes an object; succeeds if it does not exist.
    pub async fn remove(&self, path: &Path) -> Result<(), StoreError> {
        match self.ask("remove", path, self.inner.delete(path)).await {
            Err(e) if e.is_absence() => Ok(()),
            done => done,
        }
    }

    /// Returns the folders right below a folder, sorted by name.
    pub async fn folders(&self, folder: &Path) -> Result<Vec<Path>, StoreError> {
        let mut all = match self.folder.clone() {
            Some(root) => {
                let of = folder.clone();
                let listed = blocking(move || folder::folders(&root, &of));
                self.ask("list", folder, listed).await?
            }
            None => {
                let list = self.inner.list_with_delimiter(Some(folder));
                let found: ListResult = self.ask("list", folder, list).await?;
                found.common_prefixes
            }
        };
        all.sort();
        Ok(all)
    }

    /// Returns all objects below a folder, sorted by name.
    pub async fn list(&self, folder: &Path) -> Result<Vec<ObjectMeta>, StoreError> {
        if let Some(root) = self.folder.clone() {
            let of = folder.clone();
            let listed = blocking(move || folder::list(&root, &of));
            let mut all = self.ask("list", folder, listed).await?;
            all.sort_by(|a, b| a.location.cmp(&b.location));
            return Ok(all);
        }
        let mut from = self.inner.list(Some(folder));
        let mut all = Vec::new();
        // The time limit is per page: a long list is not a hung store.
        while let Some(object) = self
            .ask("list", folder, async { from.next().await.transpose() })
            .await?
        {
            all.push(object);
        }
        all.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(all)
    }

    /// Removes files below `folder` that a killed writer left incomplete and last wrote before `until`; returns how
    /// many. In object storage no incomplete object exists.
    pub async fn remove_unfinished(&self, folder: &Path, until: Nanos) -> Result<u64, StoreError> {
        let Some(store) = self.folder.clone() else {
            return Ok(0);
        };
        let below = store.join(folder.as_ref());
        let removed = blocking(move || unfinished(&below, until));
        self.ask("clean", folder, removed).await
    }
}

/// Runs what waits for a disk on a thread that may.
async fn blocking<T: Send + 'static>(
    what: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> object_store::Result<T> {
    let done = tokio::task::spawn_blocking(what).await;
    let done = done.map_err(io::Error::other).flatten();
    done.map_err(|source| object_store::Error::Generic {
        store: "folder",
        source: source.into(),
    })
}

/// A file that is being written has a name of its own ([`folder::is_unfinished`]).
fn unfinished(folder: &FsPath, until: Nanos) -> io::Result<u64> {
    let gone = |e: &io::Error| e.kind() == io::ErrorKind::NotFound;
    let entries = match std::fs::read_dir(folder) {
        // Another process may clean at the same time.
        Err(e) if gone(&e) => return Ok(0),
        entries => entries?,
    };
    let mut removed = 0;
    for entry in entries {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let meta = match entry.metadata() {
            Err(e) if gone(&e) => continue,
            meta => meta?,
        };
        if meta.is_dir() {
            removed += unfinished(&path, until)?;
            continue;
        }
        let name = name.to_string_lossy();
        if !folder::is_unfinished(&name) || written(&meta)? >= until {
            continue;
        }
        match std::fs::remove_file(&path) {
            Err(e) if gone(&e) => {}
            done => {
                done?;
                removed += 1;
            }
        }
    }
    Ok(removed)
}

fn written(meta: &std::fs::Metadata) -> io::Result<Nanos> {
    let at: SystemTime = meta.modified()?;
    let ns = |d: Duration| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX);
    Ok(Nanos(match at.duration_since(UNIX_EPOCH) {
        Ok(after) => ns(after),
        Err(before) => -ns(before.duration()),
    }))
}
