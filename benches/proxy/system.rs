//! CPU, memory and scheduling of the machine and of processes, from /proc.

/// What else the machine has to do, as far as one number tells it.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace()
        .take(3)
        .collect::<Vec<_>>()
        .join(" ")
}

/// CPU seconds that a process and the children that it has waited for have used.
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

/// Memory of a process: resident now, and at most so far; MiB.
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
