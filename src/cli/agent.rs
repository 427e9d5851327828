//! `kflow agent`

pub(super) mod install;
mod place;
mod run;
mod status;

use super::args::agent::{AgentArgs, AgentCommand};

/// `kflow agent`
pub(super) fn agent(args: &AgentArgs) -> anyhow::Result<u8> {
    match &args.what {
        AgentCommand::Run(args) => run::run(args),
        AgentCommand::Status(args) => status::status(args),
        AgentCommand::Install(args) => install::install(args, false),
        AgentCommand::Upgrade(args) => install::install(args, true),
        AgentCommand::Uninstall(args) => install::uninstall(args),
        AgentCommand::Clean(args) => install::clean(args),
    }
}
