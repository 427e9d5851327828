//! Manual pages, made from the arguments.

use clap::CommandFactory;
use std::io::Write;
use std::path::Path;

use super::args::Args;
use super::out::stdout;
use kflow_model::file::{self, Access};

/// `kflow man`
pub(super) fn man(dir: Option<&Path>) -> anyhow::Result<u8> {
    match dir {
        Some(dir) => {
            let mut command = Args::command().disable_help_subcommand(true);
            command.build();
            pages(command, dir)?;
        }
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

/// Writes the pages of a command and of its subcommands.
fn pages(command: clap::Command, dir: &Path) -> anyhow::Result<()> {
    for sub in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        pages(sub.clone(), dir)?;
    }
    let man = clap_mangen::Man::new(command);
    let mut page = Vec::new();
    man.render(&mut page)?;
    file::write(&dir.join(man.get_filename()), Access::Public, &page)?;
    Ok(())
}
