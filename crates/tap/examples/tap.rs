//! Follows the clients of a runtime's socket until Enter, and prints what was seen as lines of a session.
//!
//!     cargo run -p kflow-tap --example tap -- /run/containerd/containerd.sock [TAPE]
//!
//! With a tape the records of the kernel's program are written down as well: fixtures of tests are made this way.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it prints")]

use std::io::Read as _;

use kflow_tap::{Config, Tap};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args_os().skip(1);
    let socket = args.next().ok_or("the runtime's socket is missing")?.into();
    let tape = args.next().map(Into::into);
    let mut status = String::new();
    let tap = Tap::start(
        Config {
            socket,
            tape,
            ..Config::default()
        },
        move |handed| {
            if handed.status != status {
                eprintln!("{}", handed.status);
                status = handed.status;
            }
            for o in &handed.observations {
                println!("{o:?}");
            }
            true
        },
    )?;
    eprintln!("attached; Enter ends it");
    std::io::stdin().read_exact(&mut [0])?;
    tap.stop();
    Ok(())
}
