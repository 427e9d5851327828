//! kubectl completes a plugin by running a program beside it: `kubectl kflow wh<TAB>` runs `kubectl_complete-kflow
//! wh`. That program prints one candidate per line, with a tab before its explanation, and at the end `:` with a
//! `ShellCompDirective` of cobra.
//! Source: k8s.io/kubectl/pkg/cmd/plugin/plugin_completion.go; github.com/spf13/cobra/completions.go.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use clap::Command;
use clap_complete::engine::complete;
use clap_complete::env::EnvCompleter;

/// `ShellCompDirectiveNoSpace`: the shell adds no space after the word.
const NO_SPACE: u8 = 2;
/// `ShellCompDirectiveNoFileComp`: the shell proposes no files when there is no candidate.
const NO_FILES: u8 = 4;

#[derive(Debug)]
pub(super) struct Kubectl;

impl EnvCompleter for Kubectl {
    fn name(&self) -> &'static str {
        "kubectl"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        var: &str,
        _name: &str,
        bin: &str,
        completer: &str,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        writeln!(
            buf,
            "#!/bin/sh\n\
             # kubectl runs this to complete `kubectl kflow`: kubectl_complete-kflow, executable, in a folder of $PATH.\n\
             {var}=kubectl exec {completer} -- {bin} \"$@\""
        )
    }

    fn write_complete(
        &self,
        command: &mut Command,
        args: Vec<OsString>,
        here: Option<&Path>,
        buf: &mut dyn io::Write,
    ) -> io::Result<()> {
        let last = args.len().saturating_sub(1);
        // Like kubectl, flags are proposed only for a word that begins with a dash.
        let is_flag = |word: &[u8]| word.starts_with(b"-");
        let wanted = args.last().is_some_and(|w| is_flag(w.as_encoded_bytes()));
        let all = complete(command, args, last, here)?;
        let mut goes_on = false;
        for c in all.iter().filter(|c| !c.is_hide_set()) {
            let word = c.get_value().to_string_lossy();
            if !wanted && word.starts_with("--") {
                continue;
            }
            goes_on |= word.ends_with(['/', ':', '=']);
            write!(buf, "{word}")?;
            let help = c.get_help().map(ToString::to_string).unwrap_or_default();
            if let Some(line) = help.lines().next() {
                write!(buf, "\t{line}")?;
            }
            writeln!(buf)?;
        }
        let more = if goes_on { NO_SPACE } else { 0 };
        writeln!(buf, ":{}", NO_FILES | more)
    }
}
