//! CPU, memory and scheduling of the machine and of processes, from /proc.

/// Returns the machine's load averages, which show roughly what else it does.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Returns the CPU seconds of a process and of its children that it has waited for.
pub(crate) fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: Vec<f64> = after
        .split_whitespace()
        .skip(11)
        .take(4)
        .map(|t| t.parse().unwrap())
        .collect();
    ticks.iter().sum::<f64>() / 100.0
}

/// Returns the resident memory of a process and its maximum so far; MiB.
pub(crate) fn memory(pid: u32) -> (f64, f64) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = |key: &str| {
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix(key))
            .unwrap_or("0");
        line.trim()
            .trim_end_matches(" kB")
            .parse::<f64>()
            .unwrap_or(0.0)
            / 1024.0
    };
    (kib("VmRSS:"), kib("VmHWM:"))
}
