//! The `kflow` program: a thin shell around the library.

fn main() -> std::process::ExitCode {
    kflow::cli::main()
}
