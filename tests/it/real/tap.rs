//! The eBPF tap on a real containerd, in a process of its own: compared with the proxy of the same run, attached to
//! open connections, killed, and with clients and a runtime that come and go.
//!
//! The clients are the test's own HTTP/2 client, `ctr` (grpc-go, like the kubelet), and Python.

mod beside_proxy;
mod connections;
mod leaves_nothing;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use kflow_model::cri::{CallEnd, CallStart};
use kflow_model::{Body, Nanos, Observation, session};
use kflow_sources::tap::probe;
use rustix::process::{Pid, Signal, kill_process};

use super::cri::Real;
use super::life::waits;

/// Returns the containerd whose clients are tapped, or `None`, with a line on standard error, where the kernel refuses
/// the tap's BPF programs: the test is then skipped.
#[expect(clippy::print_stderr, reason = "what was not tried is said")]
fn tapped() -> Option<Real> {
    match probe() {
        Ok(()) => Some(Real::from_env()),
        Err(e) => {
            eprintln!("LEFT OUT, NOT TRIED: {e}");
            None
        }
    }
}

/// Whether a client is the test's own. kflow is also a client, because it asks the runtime for what exists.
fn is_test(peer: &str) -> bool {
    peer != "kflow"
}

/// A running `kflow record --tap ebpf`.
struct Recorder {
    child: Child,
    said: Arc<Mutex<String>>,
    file: PathBuf,
}

impl Recorder {
    /// Starts kflow and waits until its BPF programs are attached.
    fn start(socket: &Path, folder: &Path, name: &str) -> Self {
        Self::start_with(socket, folder, name, &[])
    }
    fn start_with(socket: &Path, folder: &Path, name: &str, more: &[&str]) -> Self {
        let file = folder.join(name);
        let mut child = crate::program::command()
            .args(["record", "--no-api", "--tap", "ebpf", "--runtime"])
            .arg(socket)
            .arg("-O")
            .arg(&file)
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let into = Arc::clone(&said);
        let stderr = child.stderr.take().unwrap();
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                into.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        let recorder = Self { child, said, file };
        waits("the tap is on", || {
            recorder.says("cri tap: on").then_some(())
        });
        recorder
    }
    /// Sends a signal to the recorder, for example to stop it or to let it continue.
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
    fn says(&self, what: &str) -> bool {
        self.said.lock().unwrap().contains(what)
    }
    /// Returns the observations in the file so far.
    fn seen(&self) -> Vec<Observation> {
        // There is nothing to read before the first line is written.
        let read = session::load(&self.file).map(|s| s.observations);
        let all = read.unwrap_or_default();
        all.iter().map(|o| Observation::clone(o)).collect()
    }
    /// Waits until `is` returns a value for the observations so far.
    fn sees<T>(&self, what: &str, is: impl Fn(&[Observation]) -> Option<T>) -> T {
        waits(what, || is(&self.seen()))
    }
    fn end(mut self) -> Vec<Observation> {
        self.signal(Signal::TERM);
        assert!(self.child.wait().unwrap().success());
        self.seen()
    }
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A call as both taps should report it: method, pod, container, two sizes in bytes, and code.
type Told = (String, String, String, u64, u64, Option<u32>);

/// Returns the ended calls of connections whose client's name `counts` accepts, with their start, ordered by start.
fn calls(all: &[Observation], counts: impl Fn(&str) -> bool) -> Vec<(Told, Nanos)> {
    let skipped: Vec<u32> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::Conn(c) if c.open && !counts(&c.peer) => Some(c.conn),
            _ => None,
        })
        .collect();
    let ends: Vec<&CallEnd> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::CallEnd(e) => Some(&**e),
            _ => None,
        })
        .collect();
    let told = |start: &CallStart, end: &CallEnd| {
        let subject = &end.subject;
        (
            start.method.to_string(),
            format!("{}/{}", subject.pod.namespace, subject.pod.name),
            subject.container.to_string(),
            end.request_bytes,
            end.response_bytes,
            end.code,
        )
    };
    let mut calls: Vec<(Told, Nanos)> = all
        .iter()
        .filter_map(|o| match &o.body {
            Body::CallStart(s) if !skipped.contains(&s.key.conn) => {
                let end = ends.iter().find(|e| e.key == s.key)?;
                Some((told(s, end), o.stamp.at))
            }
            _ => None,
        })
        .collect();
    calls.sort_by_key(|(_, at)| *at);
    calls
}

fn gaps(all: &[Observation]) -> Vec<String> {
    let gaps = all.iter().filter_map(|o| match &o.body {
        Body::Gap(g) => Some(g.why.to_string()),
        _ => None,
    });
    gaps.collect()
}
