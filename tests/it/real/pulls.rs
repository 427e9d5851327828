//! A pull from a registry that sends slowly and stops within a layer: what containerd reports,
//! and what kflow concludes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use prost::Message;

use kflow_core::diagnose::cause;
use kflow_core::diagnose::pulls::Progress;
use kflow_cri::Decoder;
use kflow_engine::Snapshot;
use kflow_engine::live::{Config, Live};
use kflow_engine::record::Options;
use kflow_model::cri::method;
use kflow_model::session;
use kflow_model::{Body, Nanos};

use super::cri::{Image, RunPodSandbox, SandboxConfig, runtime, sandbox_config, works};
use super::life::{block_on, connect, rig};
use crate::proxy::rig::eventually;

/// The image's layers, and the bytes of each before compression: random bytes, which hardly compress.
const LAYERS: usize = 3;
const LAYER: u64 = 6_000_000;
/// Bytes per second of each layer.
const RATE: u64 = 1_500_000;
/// Which layer stops, counted from 1, and after how many bytes: two of containerd's chunks of 1 MiB and a part of one,
/// which containerd has not written yet.
const STALL: (usize, u64) = (2, 3_000_000);

#[derive(Clone, PartialEq, Message)]
pub(super) struct PullImage {
    #[prost(message, tag = "1")]
    pub(super) image: Option<Image>,
    #[prost(message, tag = "3")]
    pub(super) sandbox_config: Option<SandboxConfig>,
}

/// A process of `tests/real/registry.py`, which ends with the test.
pub(super) struct Registry {
    child: Child,
    port_file: PathBuf,
}

impl Registry {
    fn start(dir: &Path) -> Self {
        let stall = [LAYERS as u64, LAYER, RATE, STALL.0 as u64, STALL.1];
        Self::with(dir, "registry.port", &stall)
    }
    /// Starts the registry; `args` follow the name of the port file on its command line.
    pub(super) fn with(dir: &Path, port_file: &str, args: &[u64]) -> Self {
        let port_file = dir.join(port_file);
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/registry.py");
        let child = Command::new("python3")
            .arg(script)
            .arg(&port_file)
            .args(args.iter().map(ToString::to_string))
            .spawn()
            .expect("python3 is there: run.sh installs it");
        Self { child, port_file }
    }
    pub(super) fn image(&self) -> String {
        let port = eventually("the registry listens", || {
            std::fs::read_to_string(&self.port_file).ok()
        });
        // Without a word on it containerd 2.3 asks a registry on this machine by TLS alone.
        let host = format!("127.0.0.1:{port}");
        let hosts = Path::new(&std::env::var_os("KFLOW_REAL").unwrap()).join("certs.d");
        let hosts = hosts.join(&host);
        std::fs::create_dir_all(&hosts).unwrap();
        let plain = format!("[host.\"http://{host}\"]\n  capabilities = [\"pull\", \"resolve\"]\n");
        std::fs::write(hosts.join("hosts.toml"), plain).unwrap();
        format!("{host}/slow/app:1")
    }
    /// Lets the registry send the rest of the layer that stalled.
    fn go_on(&self) {
        std::fs::write(self.port_file.with_extension("port.go"), "").unwrap();
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn progress(s: &Snapshot, image: &str) -> Option<Progress> {
    Progress::of(&s.world, image, Nanos(0), s.now)
}

#[test]
#[ignore = "needs a real containerd: tests/real/run.sh"]
fn the_layers_of_a_pull_are_followed_and_one_that_stands_still_is_told() {
    let (real, rig) = rig();
    let proxy = rig.start(Decoder::new());
    let registry = Registry::start(&real.dir);
    let image = registry.image();
    let live = Live::start(Config {
        proxy: rig.config.serve.clone(),
        runtime: Some(real.socket()),
        ..Config::nothing()
    })
    .unwrap();
    let path = rig.path("pull.kflow.zst");
    live.record(Options {
        path: path.clone(),
        max_size: None,
        pod: None,
        node: "node1".into(),
    })
    .unwrap();
    let pulled = std::thread::scope(|scope| {
        let pull = scope.spawn(|| {
            block_on(async {
                let mut raw = connect(&rig.config.listen).await;
                let config = Some(sandbox_config("puller"));
                works(
                    &mut raw,
                    "RunPodSandbox",
                    &RunPodSandbox {
                        config: config.clone(),
                    },
                )
                .await;
                let request = PullImage {
                    image: Some(Image {
                        image: image.clone(),
                    }),
                    sandbox_config: config,
                };
                let path = runtime(method::PULL_IMAGE).replace("RuntimeService", "ImageService");
                // Without a deadline, as the kubelet calls.
                raw.call(&path, &request.encode_to_vec(), &[])
                    .await
                    .unwrap()
            })
        });
        let moving = eventually("the pull moves", || {
            let p = progress(&live.snapshot(), &image)?;
            (p.fetched > 0 && p.rate.is_some()).then_some(p)
        });
        assert_eq!(moving.layers.len(), LAYERS);
        // A compressed layer is a little larger than its random content.
        let whole = LAYERS as u64 * LAYER;
        assert!(
            (whole..whole + whole / 100).contains(&moving.size),
            "{moving:?}"
        );
        let still = eventually("a layer stands still", || {
            let p = progress(&live.snapshot(), &image)?;
            p.still.map(|still| (still, p.complete()))
        });
        assert_eq!(still.0.layer, STALL.0);
        // containerd counts only what it has written, in chunks of 1 MiB.
        assert_eq!(still.0.fetched, STALL.1 / (1 << 20) * (1 << 20));
        assert_eq!(still.1, LAYERS - 1, "the others go on");
        let told = eventually("the verdict says so", || {
            let s = live.snapshot();
            let verdict = s
                .verdicts
                .values()
                .find(|v| v.cause == Some(cause::KF614))?;
            Some(verdict.sentence.clone())
        });
        assert!(told.contains("Layer 2 of 3"), "{told}");
        registry.go_on();
        pull.join().unwrap()
    });
    assert_eq!(pulled.trailer("grpc-status"), Some("0"), "{pulled:?}");
    eventually("the pull is over", || {
        let s = live.snapshot();
        let done = |o: &kflow_model::Evidence| matches!(&o.body, Body::Pull(p) if p.ended && p.is_complete());
        s.log.iter().any(done).then_some(())
    });
    live.stop_recording(Duration::from_secs(60)).unwrap();
    proxy.stop();
    let recorded = session::load(&path).unwrap();
    let pulls = recorded
        .observations
        .iter()
        .filter(|o| matches!(o.body, Body::Pull(_)));
    // One observation every half second while bytes come, and one every five seconds while the pull stalls.
    assert!(
        (8..60).contains(&pulls.clone().count()),
        "{}",
        pulls.count()
    );
    if let Some(keep) = std::env::var_os("KFLOW_KEEP_SESSION") {
        std::fs::copy(&path, keep).unwrap();
    }
}
