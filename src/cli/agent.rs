//! `kflow agent`

pub(super) mod install;
#[cfg(target_os = "linux")]
mod place;
#[cfg(target_os = "linux")]
mod run;
mod status;

use super::args::agent::{AgentArgs, AgentCommand};

/// `kflow agent`
pub(super) fn agent(args: &AgentArgs) -> anyhow::Result<u8> {
    match &args.what {
        #[cfg(target_os = "linux")]
        AgentCommand::Run(args) => run::run(args),
        #[cfg(not(target_os = "linux"))]
        AgentCommand::Run(_) => Err(super::live::only_on_a_node("kflow agent run")),
        AgentCommand::Status(args) => status::status(args),
        AgentCommand::Install(args) => install::install(args, false),
        AgentCommand::Upgrade(args) => install::install(args, true),
        AgentCommand::Uninstall(args) => install::uninstall(args),
        AgentCommand::Clean(args) => install::clean(args),
    }
}
