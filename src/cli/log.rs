//! What kflow says of itself, for whoever has to understand one that misbehaves: `--log FILE` and `KFLOW_LOG`.
//!
//! Quiet unless asked for. Each line passes the redaction of recordings before it is written.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context as _, bail};
use kflow_model::redact;
use tracing_subscriber::EnvFilter;

/// Chooses what is logged, in the syntax of `tracing_subscriber::EnvFilter`.
const VARIABLE: &str = "KFLOW_LOG";
/// What `--log` alone logs: all of kflow's own crates, and of the libraries what went wrong.
const DEFAULT: &str = "warn,kflow=debug";

/// Starts logging, when a file is named or the variable is set.
pub(super) fn start(file: Option<&Path>, owns_terminal: bool) -> anyhow::Result<()> {
    let chosen = std::env::var(VARIABLE).ok().filter(|v| !v.is_empty());
    if file.is_none() && chosen.is_none() {
        return Ok(());
    }
    let directives = chosen.as_deref().unwrap_or(DEFAULT);
    let filter = EnvFilter::try_new(directives).with_context(|| {
        format!("{VARIABLE}={directives:?} is no filter; say for example `debug`")
    })?;
    match file {
        Some(path) => begin(filter, open(path)?),
        None if owns_terminal && io::stderr().is_terminal() => {
            bail!("the terminal is the panes': name a file for the log with --log FILE")
        }
        None => begin(filter, io::stderr()),
    }
    Ok(())
}

fn begin(filter: EnvFilter, to: impl Write + Send + 'static) {
    let to = Mutex::new(Redacted(to));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(to)
        .with_ansi(false)
        // Its own words about a log that cannot be written would go to standard error by a macro that panics.
        .log_internal_errors(false)
        .init();
}

/// A log grows from run to run. It is its owner's alone, and a link is not followed: the program may run as root in a
/// folder that others write to.
fn open(path: &Path) -> anyhow::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .with_context(|| format!("cannot open the log {}", path.display()))
}

/// Redacts each line; `tracing_subscriber::fmt` writes an event at once.
struct Redacted<W>(W);

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(redact::text(&text).as_bytes())?;
        Ok(line.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logged_token_is_redacted() {
        let mut out = Redacted(Vec::new());
        out.write_all(
            b"DEBUG source{kind=\"kube\"}: Authorization: Bearer c2VjcmV0LXRva2VuLW9mLXRlc3Q=\n",
        )
        .unwrap();
        let text = String::from_utf8(out.0).unwrap();
        assert!(!text.contains("c2VjcmV0"), "{text}");
        assert!(text.contains("source{"), "{text}");
    }
}
