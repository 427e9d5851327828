//! The `kflow` program: arguments, wiring and exit statuses around the libraries of the workspace.

#![expect(
    unreachable_pub,
    reason = "a program has no interface: `pub` marks what a module gives to the others"
)]

mod cli;
mod doctor;

/// A session is millions of small allocations on several threads, where the allocator decides how long a seek takes
/// (docs/benchmarks.md). An agent holds little for months: by glibc's, with one arena, it takes less (docs/agent.md).
#[cfg(not(feature = "node"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    // In pages of 2 MiB a session takes a tenth more memory, and an agent, which fills little of them, more than twice as much; the
    // system clears each whole when its first byte is written. Where the kernel lets nobody choose, it is as it was.
    let _kept_where_refused = rustix::thread::disable_transparent_huge_pages(true);
    cli::main()
}
