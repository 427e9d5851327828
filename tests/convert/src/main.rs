//! `kflow-convert RECORDING SESSION`: makes a session from a recording of the lab.

use std::path::PathBuf;

use anyhow::Context as _;
use kflow_model::session::Writer;

/// Compression of the sessions in `fixtures/sessions`.
const LEVEL: i32 = 12;

fn main() -> anyhow::Result<()> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (dir, out) = args
        .next()
        .zip(args.next())
        .context("usage: kflow-convert RECORDING SESSION")?;
    let (header, observations) = kflow_convert::folder(&dir)?;
    let mut writer = Writer::replace(&out, LEVEL, &header)?;
    for o in &observations {
        writer.write(o)?;
    }
    writer.finish()?;
    Ok(())
}
