use std::fs;
use std::io::Write as _;

use super::*;
use crate::Fed;
use crate::live::Board;
use kflow_model::gap::Note;
use kflow_model::{Body, Stamp, Text};
use tokio::sync::mpsc::Receiver;

/// A decoder that accepts every line and makes a note of it.
struct Notes;

impl LineDecoder for Notes {
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

pub(super) fn lines() -> NewDecoder {
    Box::new(|| Box::new(Notes))
}

fn text(o: Observation) -> String {
    match o.body {
        Body::Note(n) => n.text.to_string(),
        Body::Gap(g) => format!("[{}]", g.why),
        other => panic!("{other:?}"),
    }
}

/// The next observation: a note's text, or the reason of a gap in brackets.
pub(super) async fn told(from: &mut Receiver<Observation>) -> String {
    let next = timeout(Duration::from_secs(30), from.recv()).await;
    text(next.expect("it goes on").expect("the source runs"))
}

fn all(from: &mut Receiver<Observation>) -> Vec<String> {
    std::iter::from_fn(|| from.try_recv().ok().map(text)).collect()
}

/// Looks at the file until there is nothing new.
async fn read(following: &mut Following<'_>, feed: &mut Feed) {
    loop {
        following.open(feed).await.unwrap();
        let o = following.open.as_ref().unwrap();
        let (chunk, looked) = o.look(following.path, vec![0; CHUNK]).await;
        if following.took(looked, &chunk, feed).await.unwrap() {
            return;
        }
    }
}

#[tokio::test]
async fn a_file_that_could_not_be_read_goes_on_where_it_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubelet.log");
    fs::write(&path, "one\ntw").unwrap();
    let append = |text: &str| {
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    };
    let (board, mut from) = Board::new(64);
    let mut feed = Feed::new(
        Source::Kubelet,
        lines()(),
        board.out(Source::Kubelet, "log"),
    );
    let mut following = Following::new(&path, BEFORE);
    read(&mut following, &mut feed).await;
    assert_eq!(all(&mut from), ["one"]);
    let fails = || Err(io::Error::other("stale file handle"));

    following.took(fails(), &[], &mut feed).await.unwrap();
    assert!(board.statuses()[0].is_off());
    append("o\n");
    read(&mut following, &mut feed).await;
    assert_eq!(all(&mut from), ["two"]);
    assert!(board.statuses()[0].is_on());

    // Another file has its name by now.
    append("thr");
    read(&mut following, &mut feed).await;
    following.took(fails(), &[], &mut feed).await.unwrap();
    let other = dir.path().join("other");
    fs::write(&other, "four\n").unwrap();
    fs::rename(&other, &path).unwrap();
    read(&mut following, &mut feed).await;
    let lost = "[the log was rotated or truncated while it could not be read]";
    assert_eq!(all(&mut from), [lost, "four"]);
}

#[test]
fn the_time_of_an_entry_is_the_journals() {
    let entry = br#"{"__CURSOR":"s=1","MESSAGE":"m","__REALTIME_TIMESTAMP":"1795220659334034"}"#;
    assert_eq!(received(entry), Some(Nanos(1_795_220_659_334_034_000)));
    for other in [&b"-- No entries --"[..], b"{}", b""] {
        assert_eq!(received(other), None);
    }
}
