//! The `kflow` program: arguments, wiring and exit codes around the libraries of the workspace.

#![expect(
    unreachable_pub,
    reason = "a program has no interface: `pub` marks what a module gives to the others"
)]

mod cli;
mod doctor;

/// A session is millions of small allocations on several threads, so the allocator decides how long a seek takes
/// (docs/benchmarks.md). An agent holds little memory for months: with glibc's allocator and one arena
/// it takes less (docs/agent.md).
#[cfg(not(feature = "node"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // With 2 MiB pages a session takes a tenth more memory, and an agent, which fills few of them, more than twice as
    // much; the kernel clears each page as a whole on its first write. Where the kernel refuses
    // the setting, nothing changes.
    #[cfg(target_os = "linux")]
    let _kept_where_refused = rustix::thread::disable_transparent_huge_pages(true);
    cli::main()
}
