//! The `kflow` program: arguments, wiring and exit statuses around the libraries of the workspace.

#![expect(
    unreachable_pub,
    reason = "a program has no interface: `pub` marks what a module gives to the others"
)]

mod cli;
mod doctor;

/// A session is millions of small allocations on several threads, where the allocator decides how long a seek takes
/// (docs/benchmarks.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
