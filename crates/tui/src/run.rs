//! The shell around the model: terminal, input thread, clock, files. The only part of the terminal that does I/O.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use crossterm::event::{self, Event, KeyEventKind, MouseButton, MouseEventKind};
use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use crossterm::{execute, queue};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::backend::Backend;
use super::config::{Config, Environment, Folder};
use super::keys::Key;
use super::layout::Layout;
use super::model::{Effect, Model};
use super::pane::PaneId;
use super::settings::Settings;
use super::timezone::Zone;
use super::update::Mouse;
use super::writer::{Job, Writer};
use super::{svg, view};
use kflow_engine::{Snapshot, snapshot};
use kflow_export::file::{self, Kind, Told};
use kflow_model::Source;
use kflow_model::clock;
use kflow_model::file::{self as files, FileError};
use kflow_model::stamp::SECOND;

/// How to run.
#[derive(Debug, Default)]
pub struct Options {
    /// The configuration file; none is watched without it.
    pub config: Option<PathBuf>,
    /// Theme of the command line, over the configuration's.
    pub theme: Option<String>,
    /// What the environment says of the terminal.
    pub environment: Environment,
    /// The zone of local time.
    pub zone: Zone,
    /// Where the layout is kept.
    pub state: Option<PathBuf>,
    /// Pane to begin with.
    pub pane: Option<PaneId>,
    /// Filter of calls and log to begin with.
    pub filter: Option<String>,
    /// Begin with the tour: the driver is a [`Guide`](super::tour::Guide).
    pub tour: bool,
    /// A line says what to press next.
    pub strip: bool,
}

/// Why the terminal could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Setting up, drawing or reading failed.
    #[error(
        "the terminal failed while {what}: {source}; kflow needs a terminal on standard input and output (commands such as `kflow timeline` need none)"
    )]
    Terminal {
        /// What was done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Files that the user asked for were not written when the program ended.
    #[error("{}; look for room and rights in the folder that kflow was started in", .0.join("; "))]
    Unwritten(Vec<String>),
}

fn terminal(what: &'static str) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::Terminal { what, source }
}

/// How long to wait at most before the engine is asked for a newer picture.
const POLL: Duration = Duration::from_millis(50);

/// Gives the terminal back, whatever happens; ratatui's own hook does the same in a panic.
struct Restore {
    mouse: bool,
}

impl Drop for Restore {
    fn drop(&mut self) {
        if self.mouse {
            // Nothing can be done about a terminal that is gone.
            let _gone = capture(false);
        }
        // In a panic the hook did it; once more would put the cursor over what the panic said.
        if !std::thread::panicking() {
            ratatui::restore();
        }
    }
}

fn capture(mouse: bool) -> io::Result<()> {
    if mouse {
        execute!(io::stdout(), event::EnableMouseCapture)
    } else {
        execute!(io::stdout(), event::DisableMouseCapture)
    }
}

/// Lets a terminal that can show what is drawn at once, not line by line (synchronized output, mode 2026; others take no
/// notice): two halves of two pictures would contradict each other.
fn whole(draw: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    queue!(io::stdout(), BeginSynchronizedUpdate)?;
    let drawn = draw();
    execute!(io::stdout(), EndSynchronizedUpdate)?;
    drawn
}

/// Least time between two frames.
fn frame_time(config: &Config) -> Duration {
    Duration::from_secs(1) / u32::from(config.frame_rate.max(1))
}

/// The first warning, and how many more there are.
fn summary(warnings: &[String]) -> Option<String> {
    let first = warnings.first()?;
    Some(match warnings.len() {
        1 => first.clone(),
        n => format!("{first} (and {} more: kflow config)", n - 1),
    })
}

/// Takes over a configuration that was changed. One that is no TOML changes nothing; what the user switched by key stays
/// as it is unless its setting changed.
fn take_over(
    folder: &Folder,
    file: &str,
    options: &Options,
    config: &mut Config,
    model: &mut Model,
) -> Result<(), String> {
    let (mut new, mut warnings) = Config::read(&folder.text, file)?;
    if let Some(t) = &options.theme {
        new.theme.clone_from(t);
    }
    let (keys, more) = new.keymap(file);
    warnings.extend(more);
    let (look, more) = new.look(&options.environment, file, &|n| folder.theme(n));
    warnings.extend(more);
    model.keys = keys;
    model.look = look;
    model.configure(&new);
    if new.utc != config.utc {
        model.shared.utc = new.utc;
    }
    if new.layout != config.layout {
        model.layout = new.layout(model.size);
    }
    *config = new;
    match summary(&warnings) {
        Some(w) => model.complain(w),
        None => model.say("configuration read again"),
    }
    Ok(())
}

/// Runs until the user leaves.
pub fn run(driver: &mut dyn Backend, options: &Options) -> Result<(), RunError> {
    let settings = Settings::start(options.config.clone(), options.state.clone());
    let file = options
        .config
        .as_deref()
        .map_or_else(String::new, |p| p.display().to_string());
    let reads = options.config.is_some() || options.state.is_some();
    let first = if reads { settings.first() } else { None };
    let late = reads && first.is_none();
    let first = first.unwrap_or_default();
    let folder = first.folder.unwrap_or_default();
    let (mut config, mut warnings) = Config::parse(&folder.text, &file);
    if late {
        warnings.push(format!(
            "{file} cannot be read: its file system does not answer"
        ));
    }
    if let Some(t) = &options.theme {
        config.theme.clone_from(t);
    }
    let mut screen = ratatui::try_init().map_err(terminal("starting"))?;
    let mut restore = Restore {
        mouse: config.mouse,
    };
    if config.mouse {
        capture(true).map_err(terminal("starting the mouse"))?;
    }
    let size = screen.size().map_err(terminal("asking for its size"))?;
    let (keys, more) = config.keymap(&file);
    warnings.extend(more);
    let (look, more) = config.look(&options.environment, &file, &|n| folder.theme(n));
    warnings.extend(more);
    let mut model = Model::new((size.width, size.height), look, keys);
    // The incidents of a recording are one picture, on a large screen too.
    let chosen = config.layout(model.size);
    let alone = options.pane == Some(PaneId::Incidents) && Layout::parse(&config.layout).is_none();
    let chosen = if alone { Layout::Single } else { chosen };
    model.layout = first.layout.unwrap_or(chosen);
    model.configure(&config);
    model.shared.utc = config.utc;
    model.shared.local = options.zone.clone();
    if let Some(p) = options.pane {
        model.begin(p);
    }
    if let Some(f) = &options.filter {
        for p in [PaneId::Calls, PaneId::Log] {
            model.set_filter_of(p, f);
        }
    }
    if let Some(w) = summary(&warnings) {
        model.complain(w);
    }
    model.strip = options.strip;
    if options.tour
        && let Some(d) = model.begin_tour()
        && let Err(why) = driver.drive(d, clock::monotonic())
    {
        model.complain(why);
    }
    let asked_to_end = asked_to_end().map_err(terminal("listening for signals"))?;
    let input = input_thread();
    let mut writer = Writer::start();
    let mut drawn: Option<(u64, i64)> = None;
    let mut dirty = true;
    let mut told = false;
    let mut frame = frame_time(&config);
    let mut last_frame: Option<Instant> = None;
    while !asked_to_end.load(Ordering::Relaxed) {
        let mut snap = driver.snapshot(clock::monotonic());
        // Time alone changes what is shown too: ages, and what has taken too long.
        let picture = (snap.version, snap.now.0 / SECOND);
        let changed = drawn != Some(picture);
        let now = clock::monotonic();
        let since_frame = last_frame.map_or(Duration::MAX, |t| now.saturating_duration_since(t));
        if !told && let Some(why) = damage(&snap) {
            model.complain(why);
            told = true;
        }
        // Keys are answered at once; what the engine changes waits for its frame.
        if dirty || (changed && since_frame >= frame) {
            model.sync(&snap);
            whole(|| {
                screen
                    .draw(|f| view::draw(&model, &snap, f.buffer_mut()))
                    .map(drop)
            })
            .map_err(terminal("drawing"))?;
            drawn = Some(picture);
            last_frame = Some(now);
            dirty = false;
        }
        let wait = if changed && drawn != Some(picture) {
            frame.saturating_sub(since_frame).min(POLL)
        } else {
            POLL
        };
        let mut next = match input.recv_timeout(wait) {
            Ok(e) => Some(e),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        };
        // Everything that was typed meanwhile belongs to one frame.
        while let Some(e) = next {
            dirty = true;
            let effects = match e {
                Event::Key(k) if k.kind != KeyEventKind::Release => {
                    model.key(Key::from_event(k), &snap)
                }
                Event::Mouse(m) => mouse(m).map_or_else(Vec::new, |m| model.mouse(m, &snap)),
                Event::Resize(w, h) => {
                    model.resize((w, h), &snap);
                    Vec::new()
                }
                _ => Vec::new(),
            };
            for effect in effects {
                match effect {
                    Effect::Quit => {
                        drop(restore);
                        settings.end();
                        return written(writer);
                    }
                    Effect::Redraw => screen.clear().map_err(terminal("drawing"))?,
                    Effect::Drive(d) => {
                        let answer = driver.drive(d, clock::monotonic());
                        if let Some(job) = model.answered(answer) {
                            model.tell(writer.write(job, clock::monotonic()));
                        }
                        snap = driver.snapshot(clock::monotonic());
                        model.sync(&snap);
                    }
                    Effect::Copy(text) => copy(&text).map_err(terminal("copying"))?,
                    Effect::Save(panes) => {
                        let job = save(&mut model, &snap, &panes);
                        model.tell(writer.write(job, clock::monotonic()));
                    }
                    Effect::Export { kind, all } => {
                        let job = export(&model, &snap, kind, all);
                        model.tell(writer.write(job, clock::monotonic()));
                    }
                    Effect::Remember(layout) => settings.keep(layout),
                }
            }
            next = input.try_recv().ok();
        }
        while let Some(news) = writer.news(clock::monotonic()) {
            model.tell(news);
            dirty = true;
        }
        if let Some(folder) = settings.news().and_then(|f| f.folder) {
            let before = config.clone();
            if let Err(why) = take_over(&folder, &file, options, &mut config, &mut model) {
                model.complain(format!("{why}; nothing was changed"));
            }
            if config.mouse != before.mouse {
                restore.mouse = config.mouse;
                capture(config.mouse).map_err(terminal("changing the mouse"))?;
            }
            frame = frame_time(&config);
            dirty = true;
        }
    }
    drop(restore);
    settings.end();
    written(writer)
}

/// Lets the files that are still being written come to an end.
fn written(writer: Writer) -> Result<(), RunError> {
    match writer.end() {
        left if left.is_empty() => Ok(()),
        left => Err(RunError::Unwritten(left)),
    }
}

/// The files that panes were saved to.
fn saved(names: &[String]) -> String {
    match names {
        [name] => format!("saved {name}.svg and {name}.txt"),
        [first, .., last] => format!(
            "saved {} panes, each as .svg and .txt: {first} to {last}",
            names.len()
        ),
        [] => "nothing was saved".to_owned(),
    }
}

/// What of a session could not be read.
fn damage(snap: &Snapshot) -> Option<String> {
    let mut own = snap.sources.iter().filter(|s| s.source == Source::Kflow);
    let session = own.find(|s| s.is_off() && s.name == snapshot::own::SESSION)?;
    Some(session.detail().to_owned())
}

/// Set when somebody asks the process to end, or its terminal is gone: the loop ends as with `q`, so that the terminal is
/// given back and a recording is closed.
fn asked_to_end() -> io::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Reads the terminal in a thread of its own, so that a frame never waits for input nor input for a frame. Bounded:
/// when the main loop is behind, the kernel's own buffer holds what is typed.
fn input_thread() -> mpsc::Receiver<Event> {
    let (tx, rx) = mpsc::sync_channel(256);
    std::thread::spawn(move || {
        while let Ok(e) = event::read() {
            // Moves without a button say nothing.
            if matches!(&e, Event::Mouse(m) if matches!(m.kind, MouseEventKind::Moved)) {
                continue;
            }
            if tx.send(e).is_err() {
                break;
            }
        }
    });
    rx
}

fn mouse(m: event::MouseEvent) -> Option<Mouse> {
    Some(match m.kind {
        MouseEventKind::Down(MouseButton::Left) => Mouse::Down(m.column, m.row),
        MouseEventKind::Up(MouseButton::Left) => Mouse::Up(m.column, m.row),
        MouseEventKind::ScrollDown => Mouse::Wheel(m.column, m.row, true),
        MouseEventKind::ScrollUp => Mouse::Wheel(m.column, m.row, false),
        _ => return None,
    })
}

/// OSC 52: the terminal puts it on the clipboard, also over ssh.
fn copy(text: &str) -> io::Result<()> {
    // Terminals take about 75 kB; more would be dropped without a word.
    let limit = 48 * 1024;
    let end = (0..=limit.min(text.len()))
        .rev()
        .find(|n| text.is_char_boundary(*n))
        .unwrap_or(0);
    let data = base64::engine::general_purpose::STANDARD.encode(text.get(..end).unwrap_or(text));
    let mut out = io::stdout();
    write!(out, "\x1b]52;c;{data}\x07")?;
    out.flush()
}

/// A pane as it is to be saved.
#[derive(Debug)]
pub struct Picture {
    /// Of the file, without its ending.
    name: String,
    title: String,
    buf: Buffer,
}

impl Picture {
    /// Draws a pane alone, at the size of the screen.
    pub fn of(model: &mut Model, snap: &Snapshot, pane: PaneId) -> Self {
        let body = super::layout::body(model.size, false, false);
        let area = Rect::new(0, 0, body.width.max(20), body.height.max(5));
        let mut buf = Buffer::empty(area);
        // It may not be on the screen, or be smaller there.
        model.sync_pane(&view::alone(snap, pane, area), snap);
        view::draw_pane(model, snap, pane, &mut buf);
        model.sync(snap);
        let time = model.shared.time(snap).wall(snap.now, 0).replace(':', "");
        Self {
            name: format!("kflow-{}-{time}", pane.name().to_lowercase()),
            title: format!("kflow {}", pane.name()),
            buf,
        }
    }

    /// Writes it as SVG and as text; the name without its ending.
    pub fn write(&self, dir: &Path) -> Result<String, FileError> {
        let picture = svg::render(&self.buf, &self.title);
        let text = svg::plain(&self.buf);
        let svg = files::write_free(dir, &self.name, "svg", |f| f.write_all(picture.as_bytes()))?;
        let name = svg.strip_suffix(".svg").unwrap_or(&svg).to_owned();
        files::write_free(dir, &name, "txt", |f| f.write_all(text.as_bytes()))?;
        Ok(name)
    }
}

/// Where files that the user asks for are written.
const HERE: &str = ".";

/// Saves panes as they are now.
fn save(model: &mut Model, snap: &Snapshot, panes: &[PaneId]) -> Job {
    let pictures: Vec<Picture> = panes
        .iter()
        .map(|pane| Picture::of(model, snap, *pane))
        .collect();
    let what = match panes {
        [one] => format!("the picture of {}", one.name()),
        more => format!("pictures of {} panes", more.len()),
    };
    Job::new(what, move || {
        let names: Result<Vec<String>, FileError> =
            pictures.iter().map(|p| p.write(Path::new(HERE))).collect();
        match names {
            Ok(names) => Ok(saved(&names)),
            Err(e) => Err(format!("not every pane was saved: {e}")),
        }
    })
}

/// Exports the timeline of the selected pod, or of all.
fn export(model: &Model, snap: &Arc<Snapshot>, kind: Kind, all: bool) -> Job {
    let (pods, what) = match model.shared.view(snap).filter(|_| !all) {
        Some(p) => (vec![Arc::clone(p)], p.key()),
        None => (snap.world.pods().to_vec(), "pods".to_owned()),
    };
    // A pod's name can come from a log line: only what Kubernetes allows in one gets into a file's name.
    let stem: String = what
        .replace('/', "-")
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c))
        .take(120)
        .collect();
    let time = model.shared.time(snap).wall(snap.now, 0).replace(':', "");
    let snap = Arc::clone(snap);
    Job::new(format!("{kind} of {what}"), move || {
        let write = |out: &mut files::AtomicFile| {
            let told = Told {
                pods: &snap.verdicts,
                others: &snap.owner_verdicts,
                incidents: &snap.overview.incidents,
            };
            file::write(kind, &snap.world, &pods, &told, snap.now, out)
        };
        files::write_free(
            Path::new(HERE),
            &format!("kflow-{stem}-{time}"),
            kind.ending(),
            write,
        )
        .map(|name| format!("wrote {name}"))
        .map_err(|e| format!("cannot write {kind}: {e}"))
    })
}
