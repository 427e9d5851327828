//! Writes records of a journal file in the form of `journalctl -o export`, which the log decoders read.

use std::io::{self, Write as _};

use super::file::{Error, JournalFile, ReadAt, Record, Text};
use kflow_model::log::Component;

/// Returns the systemd units that a component logs from, the likelier first. On k3s, RKE2 and MicroShift one process
/// runs the kubelet and other components, under a unit of its own, which is among those of [`Component::Kubelet`].
///
/// k3s: `install.sh` (`SYSTEM_NAME`). RKE2: `bundle/lib/systemd/system`. MicroShift: `packaging/systemd/microshift.service`. MicroK8s:
/// `snap/snapcraft.yaml` (`daemon-kubelite`, `daemon-containerd`). k0s: `cmd/install` (`k0scontroller`, `k0sworker`).
pub const fn units(component: Component) -> &'static [&'static str] {
    match component {
        Component::Kubelet => &[
            "kubelet.service",
            "k3s.service",
            "k3s-agent.service",
            "rke2-server.service",
            "rke2-agent.service",
            "microshift.service",
            "snap.microk8s.daemon-kubelite.service",
            "k0scontroller.service",
            "k0sworker.service",
        ],
        Component::Containerd => &[
            "containerd.service",
            "snap.microk8s.daemon-containerd.service",
        ],
        Component::Crio => &["crio.service", "cri-o.service"],
        Component::Apiserver | Component::Scheduler | Component::ControllerManager => &[],
    }
}

/// The records of a unit, in the export form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    pub text: Vec<u8>,
    /// Number of records whose text cannot be read, and why the last of them cannot.
    pub unread: Option<(u64, String)>,
}

/// Returns all records of the first of these units that has any; `None` where none has.
pub fn of<F: ReadAt>(file: &mut JournalFile<F>, units: &[&str]) -> Result<Option<Exported>, Error> {
    for unit in units {
        let Some(mut place) = file.of_unit(unit)? else {
            continue;
        };
        let mut out = Exported::default();
        loop {
            let why = match file.next(&mut place) {
                Ok(None) => break,
                Ok(Some(record)) => match &record.text {
                    Text::Is(message) => {
                        put(&record, message, &mut out.text);
                        continue;
                    }
                    Text::None => continue,
                    Text::Not(why) => (*why).to_owned(),
                },
                // A damaged record is skipped; any other error ends the reading.
                Err(e @ Error::Damaged { .. }) => e.to_string(),
                Err(e) => {
                    out.miss(e.to_string());
                    break;
                }
            };
            out.miss(why);
        }
        return Ok(Some(out));
    }
    Ok(None)
}

impl Exported {
    fn miss(&mut self, why: String) {
        let (n, _) = self.unread.take().unwrap_or_default();
        self.unread = Some((n + 1, why));
    }

    /// Returns the text as a stream, which ends with an error if records are missing.
    pub fn stream(self) -> impl io::Read + Send {
        let missing = self.unread.map(|(n, why)| {
            let records = if n == 1 { "record" } else { "records" };
            format!("{n} {records} of the journal cannot be read: {why}")
        });
        io::Read::chain(io::Cursor::new(self.text), Missing(missing))
    }
}

struct Missing(Option<String>);

impl io::Read for Missing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0
            .take()
            .map_or(Ok(0), |why| Err(io::Error::other(why)))
    }
}

/// Writes a record as `journalctl -o export` does, with only the fields that the decoder reads.
pub(crate) fn put(record: &Record, message: &[u8], to: &mut Vec<u8>) {
    let plain = |text: &str| text.replace(char::is_control, "");
    // Writing into memory cannot fail.
    let mut put = |bytes: &[u8]| to.write_all(bytes).ok();
    put(b"__CURSOR=\n");
    put(format!("__REALTIME_TIMESTAMP={}\n", record.received.0 / 1000).as_bytes());
    put(format!("SYSLOG_IDENTIFIER={}\n", plain(&record.ident)).as_bytes());
    put(format!("_PID={}\n", plain(&record.pid)).as_bytes());
    put(b"MESSAGE\n");
    put(&(message.len() as u64).to_le_bytes());
    put(message);
    put(b"\n\n");
}
