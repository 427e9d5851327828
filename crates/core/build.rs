//! Makes the enum `CauseId` of the entries of `src/diagnose/catalogue.toml`: a rule that names a cause which the
//! catalogue does not have is not compiled. Reads the heads and titles only; `Catalogue::parse` checks the rest.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

const CATALOGUE: &str = "src/diagnose/catalogue.toml";

#[expect(
    clippy::disallowed_methods,
    reason = "a build script may wait for the disk"
)]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={CATALOGUE}");
    println!("cargo::rerun-if-changed=build.rs");
    let text = fs::read_to_string(CATALOGUE).map_err(|e| format!("read {CATALOGUE}: {e}"))?;
    let mut causes: Vec<(&str, &str)> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((n, line)) = lines.next() {
        let Some(id) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) else {
            continue;
        };
        let title = lines
            .next()
            .and_then(|(_, l)| l.strip_prefix("title = \"")?.strip_suffix('"'))
            .ok_or_else(|| format!("{CATALOGUE}:{}: the title of {id} has to follow", n + 2))?;
        let number = id.strip_prefix("KF").unwrap_or_default();
        if !number.starts_with(|c: char| c.is_ascii_digit())
            || !number.chars().all(|c| c.is_ascii_alphanumeric())
        {
            return Err(format!("{CATALOGUE}:{}: {id} is no id of a cause", n + 1).into());
        }
        causes.push((id, title));
    }
    causes.sort_unstable();

    let mut out = String::from(
        "/// Stable id of a cause of the catalogue; in the order of their texts.\n\
         #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]\n\
         pub enum CauseId {\n",
    );
    for (id, title) in &causes {
        writeln!(out, "    /// {title}.\n    {id},")?;
    }
    out.push_str("}\n\nimpl CauseId {\n    /// Every cause.\n    pub const ALL: &[Self] = &[\n");
    for (id, _) in &causes {
        writeln!(out, "        Self::{id},")?;
    }
    out.push_str("    ];\n\n    /// Its text: `KF601`.\n    pub const fn as_str(self) -> &'static str {\n        match self {\n");
    for (id, _) in &causes {
        writeln!(out, "            Self::{id} => \"{id}\",")?;
    }
    out.push_str("        }\n    }\n}\n");
    let file = Path::new(&env::var("OUT_DIR")?).join("cause_id.rs");
    fs::write(&file, out).map_err(|e| format!("write {}: {e}", file.display()))?;
    Ok(())
}
