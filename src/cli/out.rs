//! Standard output, completions, manual pages.

use clap::CommandFactory;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use super::args::Args;

/// Standard output, buffered.
pub(super) fn stdout() -> io::BufWriter<io::StdoutLock<'static>> {
    io::BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// True when colours are wanted: a terminal, and nobody said no.
pub(super) fn colour() -> bool {
    io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// `kflow completions`
pub(super) fn completions(shell: clap_complete::Shell) -> anyhow::Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "kflow", &mut script);
    let mut out = stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(super::OK)
}

/// `kflow man`
pub(super) fn man(dir: Option<&Path>) -> anyhow::Result<u8> {
    match dir {
        Some(dir) => clap_mangen::generate_to(Args::command(), dir)?,
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut page)?;
            let mut out = stdout();
            out.write_all(&page)?;
            out.flush()?;
        }
    }
    Ok(super::OK)
}
