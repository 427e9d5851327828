//! Files and archives as they are given to `kflow import`.

use std::io::{Cursor, Write as _};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use kflow_engine::import::{self, Options};

use super::{fixture, headed, pieces};

/// Names that promise something; the first byte selects one.
const NAMES: [&str; 8] = [
    "bundle.tar.gz",
    "kubelet.log",
    "containerd.log",
    "messages",
    "audit.log",
    "pods.json",
    "describe.txt",
    "nodes.yaml",
];

/// Finds the captures in a file, and imports them.
pub(super) fn bundle(data: &[u8]) {
    let Some((which, content)) = data.split_first() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(NAMES[usize::from(*which) % NAMES.len()]);
    std::fs::write(&path, content).expect("a file");
    let paths = [path];
    for node in ["", "a"] {
        if let Ok(found) = import::find(&paths, node, dir.path()) {
            // What cannot be imported has a reason.
            let _ = import::run(&found.inputs, &Options::default(), &Arc::default());
        }
    }
}

/// A part of each capture, by itself, printed by journald, and packed in every form.
pub(super) fn bundles() -> Vec<Vec<u8>> {
    let first = |name: &str| pieces(name, 12).swap_remove(5);
    let kubelet = first("captures/kubelet.log.zst");
    let printed = |host: &str| {
        let text = String::from_utf8_lossy(&kubelet);
        let line = |l: &str| format!("Nov 21 01:03:20 {host} kubelet[7]: {l}\n");
        text.lines().map(line).collect::<String>().into_bytes()
    };
    let merged = [printed("a"), printed("b")].concat();
    let files = [
        (1, kubelet.clone()),
        (2, first("captures/containerd.log.zst")),
        (3, merged),
        (4, first("captures/audit.jsonl.zst")),
        (6, fixture("kubectl/s1-healthy-1.36.txt")),
        (5, fixture("bundle/app107/pods.json")),
    ];
    let mut tar = tar::Builder::new(Vec::new());
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (n, content) in &files {
        let name = format!("node/{}", NAMES[usize::from(*n)]);
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        let added = tar.append_data(&mut header, &name, content.as_slice());
        added.expect("written into memory");
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(&name, options).expect("written into memory");
        zip.write_all(content).expect("written into memory");
    }
    let tar = tar.into_inner().expect("written into memory");
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(&tar).expect("written into memory");
    let packed = [
        gz.finish().expect("written into memory"),
        zstd::bulk::compress(&tar, 1).expect("written into memory"),
        zip.finish().expect("written into memory").into_inner(),
        tar,
    ];
    let alone = files
        .into_iter()
        .flat_map(|(n, content)| headed(n, vec![content]));
    alone.chain(headed(0, packed.into())).collect()
}
