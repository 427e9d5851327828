//! `kflow proxy`

use super::args::live::ProxyArgs;
use super::live::{stderr_log, wait};
use kflow_cri::Decoder;
use kflow_proxy::Proxy;

/// `kflow proxy`
pub(super) fn proxy(args: &ProxyArgs) -> anyhow::Result<u8> {
    let config = kflow_proxy::Config {
        serve: (!args.no_serve).then(|| args.serve.clone()),
        ring_bytes: usize::try_from(args.ring_size).unwrap_or(usize::MAX),
        ring_age: args.ring_age,
        drain: args.drain,
        ..kflow_proxy::Config::new(&args.listen, &args.upstream)
    };
    let log = stderr_log();
    let proxy = Proxy::start(&config, Box::new(Decoder::new()), &log)?;
    let why = wait(None, || true)?;
    log(&format!("{why}: closing connections as their calls end"));
    proxy.stop();
    Ok(super::OK)
}
