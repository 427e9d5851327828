//! How CRI calls are observed: by a proxy's stream, by the eBPF tap, or not at all.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use anyhow::bail;

use super::args::live::Tap;
use kflow_sources::tap::needs;

/// Default socket of the proxy's observations.
pub(crate) const OBSERVATIONS: &str = "/run/kflow/observations.sock";

/// The requested tap, and facts about this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) how: Option<Tap>,
    pub(super) proxy: Option<&'a Path>,
    /// The runtime's socket: from `--runtime`, or that of this machine's kubelet. The error says why it is not known;
    /// it is empty when nobody looked.
    pub(super) runtime: Result<&'a Path, &'a str>,
    /// True when this machine is the node.
    pub(super) here: bool,
}

/// The chosen tap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice {
    /// Socket of the proxy whose stream is followed.
    pub(super) proxy: Option<PathBuf>,
    /// The runtime's socket whose clients the eBPF tap follows.
    pub(super) ebpf: Option<PathBuf>,
    /// Why `auto` did not choose the eBPF tap, when no proxy answers either.
    pub(super) untapped: Option<String>,
}

impl Choice {
    fn proxy(path: &Path) -> Self {
        Self {
            proxy: Some(path.to_path_buf()),
            ..Self::default()
        }
    }
    fn ebpf(path: &Path) -> Self {
        Self {
            ebpf: Some(path.to_path_buf()),
            ..Self::default()
        }
    }
}

impl Choice {
    /// An error when the choice cannot make clients reconnect.
    pub(super) fn can_reconnect(&self) -> anyhow::Result<()> {
        if self.ebpf.is_some() {
            return Ok(());
        }
        let why = self.untapped.as_deref();
        bail!(
            "--reconnect needs the eBPF tap, which alone can make clients connect anew: {}",
            why.unwrap_or("ask for it with --tap ebpf, as root on the node")
        )
    }
}

/// Chooses the tap.
pub(super) fn choose(asked: &Asked<'_>) -> anyhow::Result<Choice> {
    choose_by(asked, &is_served, &needs::missing_here)
}

/// True when a proxy answers, or may: a socket that this user may not open counts as a proxy's.
fn is_served(socket: &Path) -> bool {
    match UnixStream::connect(socket) {
        Ok(_) => true,
        Err(e) => !matches!(
            e.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        ),
    }
}

/// Why the runtime's socket is not known, and what helps.
fn unknown(why: &str) -> String {
    // The words of EACCES, which stand behind the path.
    let help = if why.contains("Permission denied") {
        "run kflow as root, or name the socket with --runtime"
    } else {
        "name it with --runtime"
    };
    format!("{why}; {help}")
}

fn choose_by(
    asked: &Asked<'_>,
    is_served: &dyn Fn(&Path) -> bool,
    missing: &dyn Fn() -> Vec<needs::Missing>,
) -> anyhow::Result<Choice> {
    let usual = asked.proxy.unwrap_or(Path::new(OBSERVATIONS));
    let how = asked.how.unwrap_or(Tap::Auto);
    Ok(match (how, asked.proxy) {
        (Tap::Off | Tap::Ebpf, Some(_)) => {
            let word = if how == Tap::Off { "off" } else { "ebpf" };
            bail!(
                "--proxy names the stream of a proxy, which --tap {word} does not follow: leave one of them out"
            )
        }
        (Tap::Off, None) => Choice::default(),
        (Tap::Proxy, _) | (Tap::Auto, Some(_)) => Choice::proxy(usual),
        (Tap::Ebpf, None) => match asked.runtime {
            Ok(socket) => Choice::ebpf(socket),
            Err("") => bail!(
                "--tap ebpf needs the runtime's socket: name it with --runtime, or run kflow on the node itself with --local"
            ),
            Err(why) => bail!("--tap ebpf needs the runtime's socket: {}", unknown(why)),
        },
        // Without `--tap`, another machine's node has no tap.
        (Tap::Auto, None) if !asked.here && asked.how.is_none() => Choice::default(),
        (Tap::Auto, None) if is_served(usual) => Choice::proxy(usual),
        (Tap::Auto, None) => {
            let missing = missing();
            let why = match asked.runtime {
                Ok(socket) if missing.is_empty() => return Ok(Choice::ebpf(socket)),
                Ok(_) => format!("the eBPF tap needs {}", needs::sentence(&missing)),
                Err(why) => format!("the eBPF tap needs the runtime's socket: {}", unknown(why)),
            };
            Choice {
                untapped: Some(why),
                ..Choice::proxy(usual)
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Tap::{Auto, Ebpf, Off, Proxy};

    const NONE: &str = "no runtime's socket is in the usual places";

    #[test]
    fn why_the_runtimes_socket_is_not_known_is_told() {
        let asked = |why| Asked {
            how: Some(Ebpf),
            proxy: None,
            runtime: Err(why),
            here: true,
        };
        let denied =
            "cannot look at /run/containerd/containerd.sock: Permission denied (os error 13)";
        for (why, wanted) in [
            ("", "with --local"),
            (NONE, "usual places; name it with --runtime"),
            (
                denied,
                "denied (os error 13); run kflow as root, or name the socket with --runtime",
            ),
        ] {
            let said = choose_by(&asked(why), &|_| false, &Vec::new).unwrap_err();
            assert!(said.to_string().ends_with(wanted), "{said}");
        }
    }

    /// What was requested, whether a proxy runs, whether eBPF works, and the expected choice.
    type Row<'a> = (Asked<'a>, bool, bool, &'a str);

    #[test]
    fn clients_connect_anew_only_by_the_ebpf_tap() {
        let said = |c: Choice| c.can_reconnect().map_err(|e| e.to_string());
        assert_eq!(said(Choice::ebpf(Path::new("/r"))), Ok(()));
        let by_proxy = said(Choice::proxy(Path::new("/p"))).unwrap_err();
        assert!(
            by_proxy.ends_with("--tap ebpf, as root on the node"),
            "{by_proxy}"
        );
        let untapped = Choice {
            untapped: Some("the eBPF tap needs tracefs".into()),
            ..Choice::default()
        };
        assert!(said(untapped).unwrap_err().ends_with("needs tracefs"));
    }

    #[test]
    fn a_running_proxy_then_ebpf_then_none() {
        let (mine, socket) = (Path::new("/p"), Path::new("/r"));
        let asked = |how, proxy, runtime, here| Asked {
            how,
            proxy,
            runtime,
            here,
        };
        let table: [Row<'_>; 15] = [
            (asked(None, None, Err(""), false), true, true, "nothing"),
            (asked(None, None, Ok(socket), false), true, true, "nothing"),
            (
                asked(None, Some(mine), Err(""), false),
                false,
                true,
                "proxy /p",
            ),
            (
                asked(None, None, Ok(socket), true),
                true,
                true,
                "proxy usual",
            ),
            (asked(None, None, Ok(socket), true), false, true, "ebpf /r"),
            (
                asked(None, None, Ok(socket), true),
                false,
                false,
                "proxy usual: needs root",
            ),
            (
                asked(None, None, Err(NONE), true),
                false,
                true,
                "proxy usual: no runtime",
            ),
            (
                asked(Some(Auto), None, Ok(socket), false),
                false,
                true,
                "ebpf /r",
            ),
            (
                asked(Some(Auto), Some(mine), Ok(socket), true),
                false,
                true,
                "proxy /p",
            ),
            (
                asked(Some(Ebpf), None, Ok(socket), true),
                true,
                false,
                "ebpf /r",
            ),
            (
                asked(Some(Ebpf), None, Err(NONE), true),
                false,
                true,
                "refused",
            ),
            (
                asked(Some(Ebpf), Some(mine), Ok(socket), true),
                true,
                true,
                "refused",
            ),
            (
                asked(Some(Proxy), None, Ok(socket), false),
                false,
                true,
                "proxy usual",
            ),
            (
                asked(Some(Off), None, Ok(socket), true),
                true,
                true,
                "nothing",
            ),
            (
                asked(Some(Off), Some(mine), Err(NONE), true),
                true,
                true,
                "refused",
            ),
        ];
        for (asked, served, works, want) in table {
            let missing = || {
                let root = needs::Missing {
                    what: "root".into(),
                    help: String::new(),
                };
                if works { vec![] } else { vec![root] }
            };
            let got = match choose_by(&asked, &|_| served, &missing) {
                Err(_) => "refused".to_owned(),
                Ok(Choice {
                    proxy,
                    ebpf,
                    untapped,
                }) => {
                    let place = |p: &Path| match p.to_str() {
                        Some(OBSERVATIONS) => "usual".to_owned(),
                        Some(other) => other.to_owned(),
                        None => String::new(),
                    };
                    match (proxy, ebpf, untapped) {
                        (None, None, None) => "nothing".to_owned(),
                        (None, Some(r), None) => format!("ebpf {}", place(&r)),
                        (Some(p), None, None) => format!("proxy {}", place(&p)),
                        (Some(p), None, Some(why)) if why.contains("needs root") => {
                            format!("proxy {}: needs root", place(&p))
                        }
                        (Some(p), None, Some(why)) if why.contains("no runtime") => {
                            format!("proxy {}: no runtime", place(&p))
                        }
                        other => format!("{other:?}"),
                    }
                }
            };
            assert_eq!(got, want, "{asked:?} {served} {works}");
        }
    }
}
