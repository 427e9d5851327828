//! Completions and manual pages, made from the arguments.

use clap::CommandFactory;
use std::io::Write;
use std::path::Path;

use super::args::Args;
use super::out::stdout;

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
