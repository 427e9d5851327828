//! Captures as they are handed over: files, folders that a recorder filled, support bundles, archives of these.
//!
//! | module | holds |
//! |---|---|
//! | `alone` | files that were given by themselves |
//! | `archive` | tar and zip, and what compresses them |
//! | `content` | what a file is, by its path and its first bytes |
//! | `nodes` | which node a capture is of |
//! | `sections` | logs of several programs in one text, each below a heading |
//! | `spool` | where the captures of archives are kept while they are read |
//! | `ticket` | lines of logs between prose and what kubectl printed |

#![allow(
    clippy::disallowed_methods,
    reason = "an import has no sources beside it"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

use super::moment::MadeAt;
use super::{ImportError, Input, Kind, Made, open};
use kflow_model::Nanos;
use kflow_model::patient::{self, PatientFile};
use kflow_sources::journal::export;
use kflow_sources::journal::file::{JournalFile, MAGIC};

mod alone;
pub(super) mod archive;
mod content;
pub(super) mod nodes;
mod sections;
mod spool;
pub(super) mod ticket;

pub use spool::Part;

use archive::Form;
use content::{Content, Survey};
use spool::Spool;

/// Most levels of folders below the given one.
const DEEPEST: usize = 12;
/// Most levels of archives in archives: `sos collect` has one for each node.
const NESTED: usize = 3;
/// Most files that are examined. A bundle of a large cluster has some ten thousand.
const MOST: usize = 100_000;

/// What was found in the paths that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Files that kflow reads.
    pub inputs: Vec<Input>,
    /// What kflow does not read.
    pub left: Vec<Left>,
    /// The names of the folders and archives that were given, from the second on.
    pub bundles: Vec<String>,
    /// When they were made, where they say it.
    pub made: Made,
    /// Archives that could be read up to some point only, and why.
    pub cut: Vec<Left>,
    /// Files that were given by themselves, and are no captures that are known by their names and contents.
    pub strange: Vec<Left>,
    /// Files whose lines had been cut and are put together.
    pub joined: Vec<Left>,
    /// The nodes that have captures of their own, if there is more than one and none of them was asked for. A session
    /// holds those of one node, so none of theirs is among the inputs.
    pub nodes: Vec<String>,
    /// The host that the captures of a node are of, where they tell one.
    pub host: String,
    /// The name of the Node that this host is, by the Node objects.
    pub node: Option<String>,
}

/// A file, or another entry of a folder, that is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub name: String,
    /// Why not, where its name or its content promised a capture, or it could not be read; else empty.
    pub why: String,
}

impl Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.name.as_str() {
            "-" => "standard input",
            name => name,
        };
        match self.why.as_str() {
            "" => f.write_str(name),
            why => write!(f, "{name} ({why})"),
        }
    }
}

impl Bundle {
    /// Takes the folder that everything in an archive lies in out of the names.
    fn leave_the_top_folder(&mut self) {
        let inputs = self.inputs.iter_mut().map(|i| &mut i.name);
        let left = self.left.iter_mut().map(|l| &mut l.name);
        let mut names: Vec<&mut String> = inputs.chain(left).collect();
        let top = names.first().and_then(|first| first.split_once('/'));
        let Some(top) = top.map(|(top, _)| format!("{top}/")) else {
            return;
        };
        if names.iter().all(|name| name.starts_with(&top)) {
            for name in &mut names {
                **name = name.split_off(top.len());
            }
        }
    }
}

/// A capture, with the hosts that wrote it.
#[derive(Clone, Debug)]
struct Found {
    input: Input,
    about: About,
    /// Size on the disk, bytes.
    size: u64,
}

#[derive(Clone, Debug, Default)]
struct About {
    /// The hosts whose lines it has, as far as it tells.
    hosts: BTreeSet<String>,
    /// True for the journal of all units.
    of_all: bool,
    /// True for a journal that is printed as text.
    printed: bool,
    /// True for the last lines of a log, as `systemctl status` prints them.
    is_excerpt: bool,
}

/// Finds the captures in files, folders and archives. `node` is the one that is asked for, or empty. What is unpacked
/// goes into a nameless file in the folder `scratch`.
pub fn find(paths: &[PathBuf], node: &str, scratch: &Path) -> Result<Bundle, ImportError> {
    let mut finder = Finder::new(scratch);
    for path in paths {
        finder.path(path).map_err(|source| ImportError::Open {
            path: path.display().to_string(),
            source,
        })?;
    }
    Ok(finder.bundle(node))
}

struct Finder {
    scratch: PathBuf,
    spool: Option<Spool>,
    found: Vec<Found>,
    left: Vec<Left>,
    cut: Vec<Left>,
    strange: Vec<Left>,
    joined: Vec<Left>,
    /// The names of the bundles. Each folder and archive that was given is one. All files that were given by themselves
    /// are another, the first, which has no name.
    bundles: Vec<String>,
    /// The bundle that is being examined.
    bundle: usize,
    made: Made,
    /// Number of files that were examined.
    seen: usize,
    /// The logs, by their sizes and the hashes of their begins.
    known: BTreeMap<(u64, u64), Vec<Candidate>>,
}

/// What a file is, by its name and its first bytes.
enum What {
    Archive(Form),
    JournalFile,
    /// Logs of several programs, each below a heading.
    Sections,
    Text(Content),
}

impl What {
    fn of(name: &str, raw: &[u8]) -> Self {
        let begin = archive::begin_of(raw);
        match archive::form(&begin) {
            Some(form) => Self::Archive(form),
            None if begin.starts_with(MAGIC) => Self::JournalFile,
            None if sections::begins(&begin) => Self::Sections,
            None => Self::Text(content::of(name, &begin)),
        }
    }
}

/// A file that is examined.
struct Candidate {
    name: String,
    at: Place,
    /// Its first bytes, as they are on the disk.
    raw: Vec<u8>,
    size: u64,
}

enum Place {
    Path(PathBuf),
    Part(Part),
}

impl Finder {
    fn new(scratch: &Path) -> Self {
        Self {
            scratch: scratch.to_owned(),
            spool: None,
            found: Vec::new(),
            left: Vec::new(),
            cut: Vec::new(),
            strange: Vec::new(),
            joined: Vec::new(),
            bundles: vec![String::new()],
            bundle: 0,
            made: Made::new(),
            seen: 0,
            known: BTreeMap::new(),
        }
    }

    fn path(&mut self, path: &Path) -> io::Result<()> {
        if path.as_os_str() == "-" {
            let (part, failed) = self.spool()?.add(io::stdin().lock(), None)?;
            failed.map_or(Ok(()), Err)?;
            return self.alone(Candidate::of_part("-".to_owned(), part)?);
        }
        let its = path.to_owned();
        if patient::ask(path, move || its.is_dir())? {
            self.begin(name_of(path).unwrap_or_default());
            return self.folder(path);
        }
        let name = name_of(path).unwrap_or_default();
        self.alone(Candidate::of_path(name, path)?)
    }

    /// Begins a bundle.
    fn begin(&mut self, name: String) {
        self.bundle = self.bundles.len();
        self.bundles.push(name);
    }

    fn folder(&mut self, dir: &Path) -> io::Result<()> {
        let mut folders = vec![dir.to_owned()];
        for depth in 0.. {
            let mut next = Vec::new();
            for folder in &folders {
                let (files, below) = match entries(folder, dir, &mut self.left) {
                    Ok(entries) => entries,
                    Err(e) if depth == 0 => return Err(e),
                    // A folder that cannot be read does not keep the others from being read.
                    Err(e) => {
                        let name = below_of(dir, folder);
                        self.leave(name, e.to_string());
                        continue;
                    }
                };
                next.extend(below);
                let over = files.len().saturating_sub(MOST.saturating_sub(self.seen));
                if over > 0 {
                    let name = below_of(dir, folder);
                    self.leave(
                        name,
                        format!("{over} of its files: there are more than {MOST}"),
                    );
                }
                for path in files.into_iter().take(MOST.saturating_sub(self.seen)) {
                    self.seen += 1;
                    let name = below_of(dir, &path);
                    if !content::plausible(&name) {
                        self.leave(name, "");
                        continue;
                    }
                    match Candidate::of_path(name.clone(), &path) {
                        Ok(candidate) => self.examine(candidate, 0)?,
                        Err(e) => self.leave(name, e.to_string()),
                    }
                }
            }
            next.sort_unstable();
            folders = next;
            if folders.is_empty() {
                break;
            }
            if depth >= DEEPEST {
                for folder in folders {
                    let name = below_of(dir, &folder);
                    self.leave(name, format!("more than {DEEPEST} folders deep"));
                }
                break;
            }
        }
        Ok(())
    }

    /// Takes a file if it is a capture; unpacks it if it is an archive.
    fn examine(&mut self, candidate: Candidate, depth: usize) -> io::Result<()> {
        let what = What::of(&candidate.name, &candidate.raw);
        self.take_what(candidate, what, depth)
    }

    fn take_what(&mut self, candidate: Candidate, what: What, depth: usize) -> io::Result<()> {
        match what {
            What::Archive(form) => return self.unpack(candidate, form, depth),
            What::JournalFile => self.journal_file(candidate),
            What::Sections => return self.sections(candidate, depth),
            What::Text(content) if alone::may_be_paste(&content, &candidate) => {
                let left = self.text(candidate)?;
                self.left.extend(left);
            }
            What::Text(Content::Capture(kind)) => self.capture(candidate, kind),
            What::Text(Content::Journal) => {
                if self.is_new(&candidate) {
                    let reader = candidate.reader();
                    match reader.and_then(|r| Survey::new(BufReader::new(r))) {
                        Ok(survey) => self.journal(candidate, survey),
                        Err(e) => self.leave(candidate.name, e.to_string()),
                    }
                }
            }
            What::Text(Content::Other(why)) => {
                self.note_time(&candidate.name, &candidate.raw);
                self.leave(candidate.name, why.unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Notes when the bundle was made, if this file says so.
    fn note_time(&mut self, name: &str, content: &[u8]) {
        if let Some(told) = MadeAt::of_file(name, content) {
            let made = self.made.entry(self.bundle).or_insert(told);
            *made = made.and(told);
        }
    }

    /// Takes a journal that is printed as text.
    fn journal(&mut self, candidate: Candidate, survey: Survey) {
        let Survey {
            hosts,
            mut kinds,
            mut of_all,
        } = survey;
        if kinds.is_empty() {
            // A unit that starts its component by a script.
            kinds.extend(Kind::of_path(&candidate.name).filter(|k| k.component().is_some()));
        }
        of_all |= kinds.len() > 1;
        if kinds.is_empty() {
            self.leave(candidate.name.clone(), "");
        }
        for kind in kinds {
            let about = About {
                hosts: hosts.clone(),
                of_all,
                printed: true,
                is_excerpt: content::is_of_systemctl(&archive::begin_of(&candidate.raw)),
            };
            self.take(candidate.again(), kind, about);
        }
    }

    /// Takes a file of the system journal, if it has logs of a node.
    fn journal_file(&mut self, candidate: Candidate) {
        let told = candidate.reader().and_then(|reader| {
            let mut bytes = Vec::new();
            reader.take(open::JOURNAL_MAX).read_to_end(&mut bytes)?;
            let journal = JournalFile::open(bytes.as_slice()).map_err(io::Error::other)?;
            let units = journal.units().map_err(io::Error::other)?;
            let hosts = journal.hosts().map_err(io::Error::other)?;
            Ok((units, hosts))
        });
        let (units, hosts) = match told {
            Ok(told) => told,
            Err(e) => {
                self.leave(candidate.name, e.to_string());
                return;
            }
        };
        let has = |kind: &Kind| {
            let its = kind.component().map_or(&[][..], export::units);
            its.iter().any(|u| units.iter().any(|have| have == u))
        };
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(has).collect();
        if kinds.is_empty() {
            let why = "a journal without kubelet and runtime";
            self.leave(candidate.name.clone(), why);
        }
        let hosts: BTreeSet<String> = hosts.into_iter().collect();
        for kind in kinds {
            let about = About {
                hosts: hosts.clone(),
                of_all: true,
                ..About::default()
            };
            self.take(candidate.again(), kind, about);
        }
    }

    /// Takes a capture, unless it is a log that was seen.
    fn capture(&mut self, candidate: Candidate, kind: Kind) {
        if kind == Kind::Watch || self.is_new(&candidate) {
            self.take(candidate, kind, About::default());
        }
    }

    fn take(&mut self, candidate: Candidate, kind: Kind, about: About) {
        let (path, part) = match candidate.at {
            Place::Path(path) => (path, None),
            Place::Part(part) => (PathBuf::from(&candidate.name), Some(part)),
        };
        self.found.push(Found {
            input: Input {
                kind,
                path,
                name: candidate.name,
                part,
                only: None,
                bundle: self.bundle,
                lists_all_of: None,
            },
            about,
            size: candidate.size,
        });
    }

    /// Returns true for a log whose like was not seen: bundles hold some twice, by links that were followed.
    fn is_new(&mut self, candidate: &Candidate) -> bool {
        let mut hasher = FxHasher::default();
        candidate.raw.hash(&mut hasher);
        let like = self
            .known
            .entry((candidate.size, hasher.finish()))
            .or_default();
        let same = |known: &&Candidate| candidate.size > 0 && same(known, candidate);
        if let Some(first) = like.iter().find(same) {
            let why = format!("the same as {}", first.name);
            self.leave(candidate.name.clone(), why);
            return false;
        }
        like.push(candidate.again());
        true
    }

    fn unpack(&mut self, candidate: Candidate, form: Form, depth: usize) -> io::Result<()> {
        if depth >= NESTED {
            self.leave(
                candidate.name,
                format!("an archive in {NESTED} others: unpack it, and import what is in it"),
            );
            return Ok(());
        }
        let archive = match &candidate.at {
            Place::Part(part) => part.clone(),
            Place::Path(path) => {
                let (file, meta) = PatientFile::open(path)?;
                let (part, failed) = self.spool()?.add(file, open::modified(&meta))?;
                failed.map_or(Ok(()), Err)?;
                part
            }
        };
        // The paths in an archive that was given by itself are as they are; those of others come with its name.
        let front = if depth == 0 {
            String::new()
        } else {
            format!("{}/", candidate.name)
        };
        let ended = archive::each(form, &archive, &mut |member| {
            let name = format!("{front}{}", member.name);
            self.seen += 1;
            if self.seen > MOST {
                self.leave(name, format!("there are more than {MOST} files"));
                return Ok(None);
            }
            if !content::plausible(&name) {
                self.leave(name, "");
                return Ok(None);
            }
            let mut raw = Vec::new();
            let front = (&mut *member.content).take(archive::BEGIN as u64);
            if let Err(e) = { front }.read_to_end(&mut raw) {
                return Ok(Some(e));
            }
            let what = What::of(&name, &raw);
            if let What::Text(Content::Other(why)) = &what
                && !alone::is_printed(&raw)
            {
                self.note_time(&name, &raw);
                self.leave(name, why.clone().unwrap_or_default());
                return Ok(None);
            }
            let whole = io::Cursor::new(raw).chain(member.content);
            let (part, failed) = self.spool()?.add(whole, member.modified)?;
            self.take_what(Candidate::of_part(name, part)?, what, depth + 1)?;
            Ok(failed)
        })?;
        match ended {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                self.leave(candidate.name, archive::ENCRYPTED);
            }
            Err(e) => self.cut.push(Left {
                name: candidate.name,
                why: archive::broken(&e),
            }),
        }
        Ok(())
    }

    /// Notes a file that is not read. `why` is empty where nothing promised a capture.
    fn leave(&mut self, name: String, why: impl Into<String>) {
        let why = why.into();
        self.left.push(Left { name, why });
    }

    fn spool(&mut self) -> io::Result<&mut Spool> {
        if self.spool.is_none() {
            self.spool = Some(Spool::new(&self.scratch)?);
        }
        self.spool
            .as_mut()
            .ok_or_else(|| io::Error::other("there is no place to unpack it"))
    }

    /// Leaves the objects out that `oc adm inspect` writes twice: a list of pods for each namespace (`NS/core/pods.yaml`), and each
    /// pod of it (`NS/pods/NAME/NAME.yaml`).
    fn leave_what_is_listed(&mut self) {
        let lists: BTreeSet<String> = (self.found.iter())
            .filter_map(|f| f.input.name.strip_suffix("/core/pods.yaml"))
            .map(str::to_owned)
            .collect();
        let is_listed = |f: &mut Found| {
            let folder = f.input.name.rsplit_once('/').map(|(folder, _)| folder);
            let namespace = folder.and_then(|f| f.rsplit_once("/pods/"));
            f.input.kind == Kind::Watch && namespace.is_some_and(|(ns, _)| lists.contains(ns))
        };
        let twice: Vec<Found> = self.found.extract_if(.., is_listed).collect();
        for f in twice {
            self.leave(f.input.name, "in the list of its namespace");
        }
    }

    /// Marks the lists of every pod of a namespace: `oc adm inspect` (NS/core/pods.yaml), `kubectl cluster-info dump` (NS/pods.json)
    /// and Troubleshoot (cluster-resources/pods/NS.json) ask for them without a selector (oc: pkg/cli/admin/inspect/namespace.go,
    /// kubectl: pkg/cmd/clusterinfo/clusterinfo_dump.go `Run`, Troubleshoot: pkg/collect/cluster_resources.go `pods`).
    fn mark_whole_lists(&mut self) {
        // A dump has such a file for each of its namespaces.
        let dumped: BTreeSet<&str> = (self.left.iter())
            .filter_map(|l| l.name.strip_suffix("/replication-controllers.json"))
            .collect();
        for f in &mut self.found {
            let path = f.input.name.as_str();
            let of_troubleshoot = || {
                let (folder, name) = path.rsplit_once('/')?;
                let is_it = folder.ends_with("cluster-resources/pods");
                name.strip_suffix(".json").filter(|_| is_it)
            };
            let of_dump = || {
                path.strip_suffix("/pods.json")
                    .filter(|ns| dumped.contains(ns))
            };
            let namespace = path
                .strip_suffix("/core/pods.yaml")
                .or_else(of_dump)
                .or_else(of_troubleshoot);
            let namespace = namespace.and_then(|path| path.rsplit('/').next());
            f.input.lists_all_of = namespace.map(str::to_owned);
        }
    }

    /// Keeps a text that was made of a file, under a name that tells which.
    fn keep(
        &mut self,
        name: String,
        text: &[u8],
        modified: Option<Nanos>,
    ) -> io::Result<Candidate> {
        let (part, failed) = self.spool()?.add(text, modified)?;
        failed.map_or(Ok(()), Err)?;
        Candidate::of_part(name, part)
    }

    fn bundle(mut self, node: &str) -> Bundle {
        self.leave_what_is_listed();
        self.mark_whole_lists();
        for (n, name) in self.bundles.iter().enumerate() {
            if let Some(named) = MadeAt::of_name(name) {
                self.made.entry(n).or_insert(named);
            }
        }
        let mut bundle = Bundle {
            left: self.left,
            cut: self.cut,
            bundles: self.bundles.clone(),
            made: self.made,
            strange: self.strange,
            joined: self.joined,
            ..Bundle::default()
        };
        nodes::choose(self.found, &self.bundles, node, &mut bundle);
        bundle.leave_the_top_folder();
        bundle
    }
}

impl Candidate {
    fn of_path(name: String, path: &Path) -> io::Result<Self> {
        let at = path.to_owned();
        let (raw, size) = patient::ask(path, move || {
            let file = File::open(&at)?;
            let size = file.metadata()?.len();
            let mut raw = Vec::new();
            file.take(archive::BEGIN as u64).read_to_end(&mut raw)?;
            Ok::<_, io::Error>((raw, size))
        })??;
        Ok(Self {
            name,
            at: Place::Path(path.to_owned()),
            raw,
            size,
        })
    }

    fn of_part(name: String, part: Part) -> io::Result<Self> {
        let mut raw = Vec::new();
        (part.reader().take(archive::BEGIN as u64)).read_to_end(&mut raw)?;
        Ok(Self {
            name,
            raw,
            size: part.len(),
            at: Place::Part(part),
        })
    }

    /// When it was last written.
    fn modified(&self) -> io::Result<Option<Nanos>> {
        Ok(match &self.at {
            Place::Path(path) => open::modified(&PatientFile::open(path)?.1),
            Place::Part(part) => part.modified,
        })
    }

    /// The same file once more, without its begin.
    fn again(&self) -> Self {
        Self {
            name: self.name.clone(),
            at: match &self.at {
                Place::Path(path) => Place::Path(path.clone()),
                Place::Part(part) => Place::Part(part.clone()),
            },
            raw: Vec::new(),
            size: self.size,
        }
    }

    /// Returns a reader of the whole content, as it is on the disk.
    fn raw(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(match &self.at {
            Place::Path(path) => Box::new(PatientFile::open(path)?.0),
            Place::Part(part) => Box::new(part.reader()),
        })
    }

    /// Returns the content, uncompressed, at most so many bytes, and the error at which it ends.
    fn content(&self, most: u64) -> (Vec<u8>, Option<io::Error>) {
        let mut content = Vec::new();
        let read = self
            .reader()
            .and_then(|r| r.take(most).read_to_end(&mut content));
        (content, read.err())
    }

    /// Returns a reader of the whole content, uncompressed.
    fn reader(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        archive::uncompressed(&self.raw, self.raw()?)
    }
}

/// True if two files of one size have the same content. Files that cannot be read differ.
fn same(a: &Candidate, b: &Candidate) -> bool {
    let (Ok(a), Ok(b)) = (a.raw(), b.raw()) else {
        return false;
    };
    let (mut a, mut b) = (BufReader::new(a), BufReader::new(b));
    loop {
        let (Ok(of_a), Ok(of_b)) = (a.fill_buf(), b.fill_buf()) else {
            return false;
        };
        let n = of_a.len().min(of_b.len());
        if of_a.get(..n) != of_b.get(..n) {
            return false;
        }
        if n == 0 {
            return of_a.len() == of_b.len();
        }
        a.consume(n);
        b.consume(n);
    }
}

/// Returns the files and folders in a folder, sorted, without hidden folders. Adds everything else to `left`, with
/// its path below `dir` and the reason.
fn entries(
    folder: &Path,
    dir: &Path,
    left: &mut Vec<Left>,
) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (at, top) = (folder.to_owned(), dir.to_owned());
    let (files, folders, others) = patient::ask(folder, move || sorted(&at, &top))??;
    left.extend(others);
    Ok((files, folders))
}

/// Files, folders, and the other entries with the reason.
type Sorted = (Vec<PathBuf>, Vec<PathBuf>, Vec<Left>);

fn sorted(folder: &Path, dir: &Path) -> io::Result<Sorted> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        all.push(entry?.path());
    }
    all.sort_unstable();
    let mut left = Vec::new();
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for path in all {
        let link = path.is_symlink();
        let why = match (path.is_file(), path.is_dir()) {
            (true, _) => {
                files.push(path);
                continue;
            }
            // A link may lead in a circle.
            (_, true) if link => "a link to a folder",
            (_, true) => {
                if name_of(&path).is_some_and(|n| !n.starts_with('.')) {
                    folders.push(path);
                }
                continue;
            }
            _ if !link => "no regular file",
            _ if path.exists() => "a link to what is no regular file",
            _ => "a link to nothing",
        };
        left.push(Left {
            name: below_of(dir, &path),
            why: why.to_owned(),
        });
    }
    Ok((files, folders, left))
}

/// Returns the path relative to `dir`.
fn below_of(dir: &Path, path: &Path) -> String {
    let name = path.strip_prefix(dir).unwrap_or(path);
    name.to_string_lossy().into_owned()
}

fn name_of(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}
