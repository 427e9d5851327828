//! The `kflow` program: arguments, wiring and exit statuses around the libraries of the workspace.

#![expect(
    unreachable_pub,
    reason = "a program has no interface: `pub` marks what a module gives to the others"
)]

mod cli;
mod doctor;

fn main() -> std::process::ExitCode {
    cli::main()
}
