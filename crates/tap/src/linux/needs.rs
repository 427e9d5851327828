//! What the tap needs here, checked one by one so that each missing thing can be named: capabilities, tracefs, namespaces.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use crate::needs::{Missing, missing};

/// The capabilities that the tap needs, and for what. CAP_SYS_ADMIN includes the first two.
const CAPABILITIES: [(CapabilitySet, &str, &str); 3] = [
    (CapabilitySet::BPF, "CAP_BPF", "to load programs"),
    (
        CapabilitySet::PERFMON,
        "CAP_PERFMON",
        "to attach them to tracepoints",
    ),
    (
        CapabilitySet::SYS_PTRACE,
        "CAP_SYS_PTRACE",
        "to see which descriptors of other processes lead to the runtime",
    ),
];

/// Capabilities that the tap's thread keeps once the programs run: CAP_BPF for access to maps (before Linux 5.19), the
/// others for the descriptors of other processes.
const KEPT: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// Capabilities that the other threads keep: they may have to load the tap again, access files of other users, and
/// listen on a port below 1024.
const BESIDE: CapabilitySet = KEPT
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::NET_BIND_SERVICE);

/// Usual mount points of tracefs.
const TRACEFS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// The link `/proc/self/ns/pid` in the initial PID namespace (`PROC_PID_INIT_INO`, include/linux/proc_ns.h).
const FIRST_PIDS: &str = "pid:[4026531836]";

/// Returns what is missing here. Changes nothing and loads nothing.
pub fn missing_here() -> Vec<Missing> {
    let mut all = of_capabilities(capabilities(None).map(|c| c.effective));
    all.extend(of_files(Path::new("/")));
    all
}

fn of_capabilities(held: rustix::io::Result<CapabilitySet>) -> Vec<Missing> {
    let held = match held {
        Ok(held) => held,
        Err(e) => {
            return vec![missing(
                format!("capabilities, and cannot ask for its own: {e}"),
                "",
            )];
        }
    };
    let admin = CapabilitySet::BPF | CapabilitySet::PERFMON;
    let held = if held.contains(CapabilitySet::SYS_ADMIN) {
        held | admin
    } else {
        held
    };
    CAPABILITIES
        .iter()
        .filter(|(c, ..)| !held.contains(*c))
        .map(|(_, name, why)| missing(format!("{name} {why}"), "run it as root"))
        .collect()
}

/// Checks the files below `root`, which is `/` or a test's copy.
fn of_files(root: &Path) -> Vec<Missing> {
    let mut all = Vec::new();
    let locked = fs::read_to_string(root.join("sys/kernel/security/lockdown")).unwrap_or_default();
    if locked.contains("[confidentiality]") {
        all.push(missing(
            "a kernel that is not locked down (lockdown=confidentiality forbids tracing)",
            "",
        ));
    }
    let point = "events/syscalls/sys_enter_write/id";
    let errors: Vec<ErrorKind> = TRACEFS
        .iter()
        .filter_map(|dir| fs::read(root.join(dir).join(point)).err())
        .map(|e| e.kind())
        .collect();
    if errors.len() == TRACEFS.len() {
        let mounted = TRACEFS
            .iter()
            .any(|dir| root.join(dir).join("events").exists());
        all.push(of_tracefs(&errors, mounted));
    }
    let pids = fs::read_link(root.join("proc/self/ns/pid")).unwrap_or_default();
    if pids != Path::new(FIRST_PIDS) {
        all.push(missing(
            "to see the machine's process ids: it runs in a pid namespace of its own",
            "run it on the node itself, or with hostPID: true",
        ));
    }
    all
}

/// What is missing when a tracepoint cannot be read at any mount point, with these errors.
fn of_tracefs(errors: &[ErrorKind], mounted: bool) -> Missing {
    // Its root is root's: others cannot even see whether it is mounted.
    if errors.contains(&ErrorKind::PermissionDenied) {
        missing("the right to read tracefs", "run it as root")
    } else if mounted {
        missing(
            "the tracepoints of system calls (a kernel with CONFIG_FTRACE_SYSCALLS)",
            "",
        )
    } else {
        missing(
            "tracefs",
            "mount -t tracefs tracefs /sys/kernel/tracing, as root",
        )
    }
}

/// True when the kernel has a tracepoint.
pub(crate) fn has_tracepoint(category: &str, event: &str) -> bool {
    let id = Path::new("events").join(category).join(event).join("id");
    TRACEFS
        .iter()
        .any(|dir| Path::new("/").join(dir).join(&id).exists())
}

/// Drops, for this thread and the threads that it creates, every capability that kflow does not need: those that load
/// programs and that open files and sockets of other users stay. Call it before other threads are created, because
/// capabilities belong to threads. A program that is executed later has the capabilities of its user, as always.
pub fn narrow() -> rustix::io::Result<()> {
    keep(BESIDE)
}

/// Drops, for this thread, every capability that is not needed once the programs run.
pub(crate) fn drop_the_rest() -> rustix::io::Result<()> {
    keep(KEPT)
}

fn keep(only: CapabilitySet) -> rustix::io::Result<()> {
    let held = capabilities(None)?;
    let kept = |set: CapabilitySet| set & kept_of(held.permitted, only);
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept(held.effective),
            permitted: kept(held.permitted),
            inheritable: CapabilitySet::empty(),
        },
    )
}

/// A process without CAP_BPF uses CAP_SYS_ADMIN instead, and has to keep it.
fn kept_of(permitted: CapabilitySet, only: CapabilitySet) -> CapabilitySet {
    if permitted.contains(CapabilitySet::BPF) {
        only
    } else {
        only | CapabilitySet::SYS_ADMIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::needs::sentence;

    #[test]
    fn each_capability_that_is_missing_is_named() {
        let names = |held| {
            let all = of_capabilities(Ok(held));
            let words: Vec<String> = all
                .iter()
                .filter_map(|m| m.what.split(' ').next().map(str::to_owned))
                .collect();
            words.join(" ")
        };
        let all = CapabilitySet::BPF | CapabilitySet::PERFMON | CapabilitySet::SYS_PTRACE;
        assert_eq!(names(all), "");
        assert_eq!(
            names(CapabilitySet::empty()),
            "CAP_BPF CAP_PERFMON CAP_SYS_PTRACE"
        );
        assert_eq!(names(all - CapabilitySet::PERFMON), "CAP_PERFMON");
        assert_eq!(names(CapabilitySet::SYS_ADMIN), "CAP_SYS_PTRACE");
        // Since Linux 5.11 locked memory is accounted by cgroup, so CAP_SYS_RESOURCE is not needed.
        assert!(!names(CapabilitySet::empty()).contains("RESOURCE"));
    }

    #[test]
    fn where_sys_admin_stands_for_bpf_it_stays() {
        let root = CapabilitySet::all();
        assert!(!kept_of(root, KEPT).contains(CapabilitySet::SYS_ADMIN));
        let older = root - CapabilitySet::BPF;
        assert!(kept_of(older, BESIDE).contains(CapabilitySet::SYS_ADMIN));
        assert!(BESIDE.contains(KEPT));
        let all = CAPABILITIES.iter().map(|(c, ..)| *c);
        assert!(
            all.into_iter().all(|c| BESIDE.contains(c)),
            "it may have to be loaded again"
        );
    }

    #[test]
    fn tracefs_that_only_root_may_read_is_not_told_to_be_mounted() {
        let errors = [ErrorKind::PermissionDenied, ErrorKind::NotFound];
        let said = of_tracefs(&errors, false);
        assert_eq!(said.help, "run it as root");
        let said = of_tracefs(&[ErrorKind::NotFound; 2], false);
        assert!(said.help.starts_with("mount -t tracefs"));
    }

    #[test]
    fn each_file_that_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let said = || sentence(&of_files(root));
        let put = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        fs::create_dir_all(root.join("proc/self/ns")).unwrap();
        let pids = root.join("proc/self/ns/pid");
        std::os::unix::fs::symlink("pid:[4026532000]", &pids).unwrap();
        assert_eq!(
            said(),
            "tracefs; and to see the machine's process ids: it runs in a pid namespace of its own \
             (mount -t tracefs tracefs /sys/kernel/tracing, as root)"
        );
        fs::remove_file(&pids).unwrap();
        std::os::unix::fs::symlink(FIRST_PIDS, &pids).unwrap();
        put("sys/kernel/tracing/events/header_page", "");
        assert!(
            said().starts_with("the tracepoints of system calls"),
            "{}",
            said()
        );
        put(
            "sys/kernel/tracing/events/syscalls/sys_enter_write/id",
            "840\n",
        );
        assert_eq!(of_files(root), vec![]);
        put(
            "sys/kernel/security/lockdown",
            "none [integrity] confidentiality\n",
        );
        assert_eq!(of_files(root), vec![]);
        put(
            "sys/kernel/security/lockdown",
            "none integrity [confidentiality]\n",
        );
        assert!(said().contains("not locked down"), "{}", said());
    }
}
