//! The live sources of a node and those that go through the apiserver, each against a stand-in: logs that rotate, a
//! journal, directories that come and go, and the kubelet behind the apiserver's node proxy.

mod api;
mod files;
mod journal;

use std::time::Duration;

use kflow_model::gap::Note;
use kflow_model::{Body, Nanos, Observation, Source, Stamp, Text};
use kflow_sources::{Fed, LineDecoder};
use tokio::sync::mpsc::Receiver;

/// How long a test may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A decoder that accepts every line and makes a note of it.
struct Lines;

impl LineDecoder for Lines {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        out.push(Observation {
            stamp: Stamp::exact(Nanos(0)),
            source: Source::Kubelet,
            body: Body::Note(Box::new(Note {
                text: Text::from(String::from_utf8_lossy(line)),
            })),
        });
        Fed::Observed(1)
    }
}

fn lines() -> kflow_sources::klog::live::NewDecoder {
    Box::new(|| Box::new(Lines))
}

/// The next observation of a source: a note's text, or the reason of a gap in brackets.
async fn next(from: &mut Receiver<Observation>) -> String {
    let o = tokio::time::timeout(PATIENCE, from.recv())
        .await
        .expect("it goes on")
        .expect("the source runs");
    match o.body {
        Body::Note(n) => n.text.to_string(),
        Body::Gap(g) => format!("[{}]", g.why),
        other => panic!("{other:?}"),
    }
}

async fn expect(from: &mut Receiver<Observation>, wanted: &[&str]) {
    for w in wanted {
        assert_eq!(next(from).await, *w);
    }
}
