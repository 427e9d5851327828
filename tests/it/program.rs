//! Runs kflow as a process that is cut off from the machine: no cluster, no configuration, no
//! session from the environment.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// A process's exit code (`None` after a signal), standard output and standard error.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn parts(self) -> (Option<i32>, String, String) {
        (self.code, self.out, self.err)
    }
}

/// Returns kflow's command without arguments; standard input is empty.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kflow"));
    command
        .env_remove("KFLOW_SESSION")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .env("KUBECONFIG", "/no/such/kubeconfig")
        .env("HOME", "/no/such/home")
        .env("XDG_CONFIG_HOME", "/no/such/home/.config")
        .env("TZ", "UTC")
        .stdin(Stdio::null());
    command
}

/// Runs a command and waits for its end.
pub(crate) fn run(command: &mut Command) -> Said {
    let out = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said {
        code: out.status.code(),
        out: text(out.stdout),
        err: text(out.stderr),
    }
}

/// Runs kflow with these arguments.
pub(crate) fn kflow<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Said {
    run(command().args(args))
}

/// Runs kflow with these arguments in a working directory.
pub(crate) fn kflow_in<A: AsRef<OsStr>>(dir: &Path, args: impl IntoIterator<Item = A>) -> Said {
    run(command().args(args).current_dir(dir))
}

/// Returns the commands that `kflow help` lists, without `help` itself.
pub(crate) fn commands() -> Vec<String> {
    let help = kflow(["help"]).out;
    help.lines()
        .skip_while(|l| *l != "Commands:")
        .skip(1)
        .map_while(|l| l.strip_prefix("  "))
        .filter_map(|l| l.split(' ').find(|w| !w.is_empty()))
        .filter(|c| *c != "help")
        .map(str::to_owned)
        .collect()
}
