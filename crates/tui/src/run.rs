//! The main loop around the model: terminal, input thread, clock, files. Only this part of the terminal UI does I/O.

use std::io::{self, Write as _};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use base64::Engine as _;
use crossterm::cursor::Show;
use crossterm::event::{self, Event, KeyEventKind, MouseButton, MouseEventKind};
use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use crossterm::{execute, queue};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use rustix::termios::tcgetwinsize;

use super::backend::Backend;
use super::config::{Config, Environment, Folder};
use super::keys::Key;
use super::layout::Layout;
use super::model::{Effect, Model};
use super::pane::{PaneId, Written};
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

/// Options of a run.
#[derive(Debug, Default)]
pub struct Options {
    /// Path of the configuration file, which is watched.
    pub config: Option<PathBuf>,
    /// Theme of the command line, which overrides the configuration's.
    pub theme: Option<String>,
    /// The environment variables that describe the terminal.
    pub environment: Environment,
    /// Time zone for local times.
    pub zone: Zone,
    /// Folder in which the layout is kept from run to run.
    pub state: Option<PathBuf>,
    /// The pane to show first.
    pub pane: Option<PaneId>,
    /// Initial filter of the panes of calls and of the log.
    pub filter: Option<String>,
    /// Flags by which a command names the recording that is shown, each with a space before it; empty for what runs.
    pub recording: String,
    /// Whether to begin with the tour; the driver is then a [`Guide`](super::tour::Guide).
    pub tour: bool,
    /// Whether a line below the panes says what to press next.
    pub strip: bool,
}

/// Why the terminal UI ended with an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Setting up, drawing or reading failed.
    #[error(
        "the terminal failed while {what}: {source}; kflow needs a terminal on standard input and output (commands such as `kflow timeline` need none)"
    )]
    Terminal {
        /// What failed, such as `drawing`.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Files that the user asked for were not written when the program ended.
    #[error("{}; look for room and rights in the folder that kflow was started in", .0.join("; "))]
    Unwritten(Vec<String>),
}

fn terminal(what: &'static str) -> impl Fn(io::Error) -> RunError {
    move |source| RunError::Terminal { what, source }
}

/// Longest time between two requests for a newer snapshot.
const POLL: Duration = Duration::from_millis(50);

/// How often it is looked whether the terminal is still there.
const STILL_THERE: Duration = Duration::from_secs(1);

/// Restores the terminal when it is dropped; on a panic, ratatui's own hook does so. If the terminal is gone, nothing
/// can be done, and nothing can be said: standard error is often the same terminal.
struct Restore {
    mouse: bool,
}

impl Drop for Restore {
    fn drop(&mut self) {
        if self.mouse {
            let _gone = capture(false);
        }
        let _gone = execute!(io::stdout(), Show);
        // On a panic, the hook has restored the terminal; doing so again would overwrite the panic's message.
        if !std::thread::panicking() {
            let _gone = ratatui::try_restore();
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

/// Wraps drawing in synchronized output (mode 2026), so that a terminal that supports it shows the whole frame at
/// once. Without it, parts of two frames could be visible together and contradict each other. Other terminals ignore
/// the mode.
fn whole(draw: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    queue!(io::stdout(), BeginSynchronizedUpdate)?;
    let drawn = draw();
    execute!(io::stdout(), EndSynchronizedUpdate)?;
    drawn
}

/// Returns the least time between two frames.
fn frame_time(config: &Config) -> Duration {
    Duration::from_secs(1) / u32::from(config.frame_rate.max(1))
}

/// Returns the first warning and the number of the others; `None` if there are none.
fn summary(warnings: &[String]) -> Option<String> {
    let first = warnings.first()?;
    Some(match warnings.len() {
        1 => first.clone(),
        n => format!("{first} (and {} more: kflow config)", n - 1),
    })
}

/// Applies a changed configuration. Text that is not TOML changes nothing. A setting that the user switched with a
/// key stays, unless the configuration changed that setting.
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

/// Runs the terminal UI until the user quits.
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
    let (folder, unread) = match first.folder {
        Some(Err(why)) => (Folder::default(), Some(why)),
        Some(Ok(folder)) => (folder, None),
        None => (Folder::default(), None),
    };
    let (mut config, mut warnings) = Config::parse(&folder.text, &file);
    warnings.extend(unread);
    if late {
        warnings.push(format!(
            "{file} cannot be read: its file system does not answer"
        ));
    }
    if let Some(t) = &options.theme {
        config.theme.clone_from(t);
    }
    // It is not dropped, which would print to a standard error that may be gone, and panic: `Restore` shows the cursor.
    let mut screen = ManuallyDrop::new(ratatui::try_init().map_err(terminal("starting"))?);
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
    // The incidents of a recording are shown alone, on a large screen too.
    let chosen = config.layout(model.size);
    let alone = options.pane == Some(PaneId::Incidents) && Layout::parse(&config.layout).is_none();
    model.of_one_moment = (alone && first.layout.is_none()).then_some(chosen);
    let chosen = if alone { Layout::Single } else { chosen };
    model.layout = first.layout.unwrap_or(chosen);
    model.configure(&config);
    model.shared.utc = config.utc;
    model.shared.local = options.zone.clone();
    model.shared.recording.clone_from(&options.recording);
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
    let mut looked = clock::monotonic();
    while !asked_to_end.load(Ordering::Relaxed) {
        if looked.elapsed() >= STILL_THERE {
            looked = clock::monotonic();
            // Without a controlling terminal no signal tells it, and a paused replay writes nothing that would fail.
            if tcgetwinsize(io::stdout()).is_err() {
                break;
            }
        }
        let mut snap = driver.snapshot(clock::monotonic());
        // Time alone changes what is shown: ages, and calls or sources that are overdue.
        let picture = (snap.version, snap.now.0 / SECOND);
        let changed = drawn != Some(picture);
        let now = clock::monotonic();
        let since_frame = last_frame.map_or(Duration::MAX, |t| now.saturating_duration_since(t));
        if !told && let Some(why) = damage(&snap) {
            model.complain(why);
            told = true;
        }
        // Keys are answered at once; changes by the engine wait for the next frame.
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
        // All input that has arrived meanwhile is handled before the next frame.
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
                    Effect::Write(text) => {
                        let job = write(&model, &snap, text);
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
            let taken = folder.and_then(|f| take_over(&f, &file, options, &mut config, &mut model));
            if let Err(why) = taken {
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

/// Waits for the files that are still being written, for a limited time.
fn written(writer: Writer) -> Result<(), RunError> {
    match writer.end() {
        left if left.is_empty() => Ok(()),
        left => Err(RunError::Unwritten(left)),
    }
}

/// Returns the message about the files that panes were saved to.
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

/// Returns the message about parts of a session that could not be read; `None` if there are none.
fn damage(snap: &Snapshot) -> Option<String> {
    let mut own = snap.sources.iter().filter(|s| s.source == Source::Kflow);
    let session = own.find(|s| s.is_off() && s.name == snapshot::own::SESSION)?;
    Some(session.detail().to_owned())
}

/// Returns a flag that is set when the process is asked to end or its terminal is gone (SIGINT, SIGTERM, SIGHUP). The
/// main loop then ends as with `q`, so that the terminal is restored and a recording is closed.
fn asked_to_end() -> io::Result<Arc<AtomicBool>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag))?;
    }
    Ok(flag)
}

/// Starts a thread that reads the terminal's input, so that frames and input do not wait for each other. The channel
/// is bounded: if the main loop is behind, input stays in the kernel's buffer.
fn input_thread() -> mpsc::Receiver<Event> {
    let (tx, rx) = mpsc::sync_channel(256);
    std::thread::spawn(move || {
        while let Ok(e) = event::read() {
            // Mouse moves without a button are not used.
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

/// Copies a text to the clipboard with OSC 52, which also works over SSH.
fn copy(text: &str) -> io::Result<()> {
    let data = base64::engine::general_purpose::STANDARD.encode(text);
    let mut out = io::stdout();
    write!(out, "\x1b]52;c;{data}\x07")?;
    out.flush()
}

/// A drawn pane to be saved to files.
#[derive(Debug)]
pub struct Picture {
    /// Name of the file, without its extension.
    name: String,
    title: String,
    buf: Buffer,
}

impl Picture {
    /// Draws a pane alone, as large as the body of the screen.
    pub fn of(model: &mut Model, snap: &Snapshot, pane: PaneId) -> Self {
        let body = super::layout::body(model.size, false, false);
        let area = Rect::new(0, 0, body.width.max(20), body.height.max(5));
        let mut buf = Buffer::empty(area);
        // The pane may be hidden or smaller on the screen, so it is synced for this size.
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

    /// Writes the pane as SVG and as text; returns the file name without extension.
    pub fn write(&self, dir: &Path) -> Result<String, FileError> {
        let picture = svg::render(&self.buf, &self.title);
        let text = svg::plain(&self.buf);
        let svg = files::write_free(dir, &self.name, "svg", |f| f.write_all(picture.as_bytes()))?;
        let name = svg.strip_suffix(".svg").unwrap_or(&svg).to_owned();
        files::write_free(dir, &name, "txt", |f| f.write_all(text.as_bytes()))?;
        Ok(name)
    }
}

/// Folder for files that the user asks for.
const HERE: &str = ".";

/// Returns the job that saves panes as they look now.
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

/// Returns a part of a file's name. A pod's name may come from a log line, so only characters that Kubernetes allows in
/// names get into it.
fn stem(what: &str) -> String {
    what.replace('/', "-")
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || "-.".contains(*c))
        .take(120)
        .collect()
}

/// Returns the job that writes a text.
fn write(model: &Model, snap: &Snapshot, w: Written) -> Job {
    let time = model.shared.time(snap).wall(snap.now, 0).replace(':', "");
    let name = format!("kflow-{}-{time}", stem(&w.about));
    Job::new(w.about, move || {
        files::write_free(Path::new(HERE), &name, w.ending, |f| {
            f.write_all(w.text.as_bytes())
        })
        .map(|name| format!("wrote {name}"))
        .map_err(|e| e.to_string())
    })
}

/// Returns the job that exports the timeline of the selected pod, or of all pods.
fn export(model: &Model, snap: &Arc<Snapshot>, kind: Kind, all: bool) -> Job {
    let (pods, what) = match model.shared.view(snap).filter(|_| !all) {
        Some(p) => (vec![Arc::clone(p)], p.key()),
        None => (snap.world.pods().to_vec(), "pods".to_owned()),
    };
    let stem = stem(&what);
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
