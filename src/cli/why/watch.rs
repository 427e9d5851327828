//! `kflow why --watch`: the verdicts of what runs, and what changes of them.

use std::io::Write as _;
use std::sync::Arc;

use super::super::args::{Input, WhyArgs, WhyFormat as Format};
use super::super::watched::Watched;
use super::super::{ERROR, NO_SUCH, OK, live, out};
use super::{Answer, answer, code, heard, well, written};
use kflow_core::correlate::Pod;
use kflow_core::diagnose::unknown::Asked;
use kflow_core::diagnose::{CauseId, State, Verdict};
use kflow_core::flow::Stage;
use kflow_export::text::clean;
use kflow_model::PodUid;

/// `kflow why --watch`: prints the verdicts, and again whenever a cause, stage, state or
/// attempt changes, until interrupted.
pub(super) fn watch(args: &WhyArgs) -> anyhow::Result<u8> {
    anyhow::ensure!(
        args.input.session.is_none() && args.input.at.is_none(),
        "--watch looks at what runs: leave out --session and --at (a recording is walked through with `kflow replay`)"
    );
    // `--for` limits the watch, not the first look.
    let first = Input {
        for_time: None,
        ..args.input.clone()
    };
    let mut watched = Watched::start(&first, args.pod.as_deref())?;
    let (mut told, mut last, mut unwritten) = (None, OK, None);
    live::wait(args.input.for_time, || {
        if watched.check().is_err() {
            return false;
        }
        let look = watched.look(args.pod.as_deref());
        let snapshot = look.snapshot;
        let asked = snapshot.asked();
        let mut json = Vec::new();
        let mut found = answer(args, asked);
        if let Answer::Verdicts(v) = &mut found
            && (look.coming
                || (look.several && !heard::listening(args, &mut watched, asked.world, v)))
        {
            return true;
        }
        let (now, text) = match found {
            Answer::Verdicts(v) => {
                last = code(&v);
                let now: Vec<Told> = v.iter().map(|v| Told::of(v)).collect();
                // That all are well is not that the last one is gone.
                let now = (now, well::pods_there(asked.world) == 0);
                if matches!(&told, Some(Ok(told)) if *told == now) {
                    return true;
                }
                let before = match &told {
                    Some(Ok((before, _)))
                        if matches!(args.output, Format::Text | Format::Markdown) =>
                    {
                        before.as_slice()
                    }
                    _ => &[],
                };
                let text = since(before, &now.0, &v, args, asked);
                (Ok(now), text)
            }
            Answer::Unknown(u) => {
                last = ERROR;
                let text = match args.output.rows() {
                    // Writing into memory cannot fail.
                    Some(form) => {
                        kflow_export::unknown::rows(&mut json, &u, form).ok();
                        String::from_utf8_lossy(&json).into_owned()
                    }
                    None => format!("{}\n", kflow_export::text::clean(&u.to_string())),
                };
                (Err(Some(u.what)), text)
            }
            Answer::None(said) => {
                last = NO_SUCH;
                let text = match args.output {
                    Format::Json | Format::Yaml => "[]\n".to_owned(),
                    Format::Jsonl | Format::Csv | Format::Name => String::new(),
                    Format::Text | Format::Markdown => {
                        format!("{}\n", kflow_export::text::clean(&said))
                    }
                };
                (Err(None), text)
            }
        };
        if told.as_ref() == Some(&now) {
            return true;
        }
        told = Some(now);
        let mut out = out::stdout();
        let written = match (args.output, args.output.rows()) {
            // Each answer is a YAML document.
            (Format::Yaml, _) => write!(out, "---\n{text}"),
            (Format::Name, _) | (_, Some(_)) => out.write_all(text.as_bytes()),
            (_, None) => write!(out, "── {}\n{text}\n", snapshot.now.to_rfc3339()),
        };
        unwritten = written.and_then(|()| out.flush()).err();
        unwritten.is_none() && !out.reader_gone()
    })?;
    watched.check()?;
    drop(watched);
    match unwritten {
        Some(e) => Err(e.into()),
        None => Ok(last),
    }
}

/// What was told of a pod, owner or node.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    /// Its name, and its UID where it is a pod.
    who: (String, PodUid),
    what: (Option<CauseId>, Stage, State, u32),
}

impl Told {
    fn of(v: &Verdict) -> Self {
        let name = match &v.owner {
            Some(o) if v.uid.is_empty() => well::head_of(o),
            _ => format!("{}/{}", v.namespace, v.pod),
        };
        Self {
            who: (name, v.uid.clone()),
            what: (v.cause, v.stage, v.state, v.attempt),
        }
    }
}

/// Compares an answer with the one before. Returns the places of the verdicts that are new or have changed, and who had one then and has
/// none now.
fn changes<'b>(before: &'b [Told], now: &[Told]) -> (Vec<usize>, Vec<&'b (String, PodUid)>) {
    let places = now.iter().enumerate();
    let changed = places.filter(|(_, told)| !before.contains(told));
    let is_over = |b: &&Told| now.iter().all(|n| n.who != b.who);
    let over = before.iter().filter(is_over).map(|b| &b.who);
    (changed.map(|(place, _)| place).collect(), over.collect())
}

/// The text of an answer after another one: of many verdicts those that have changed, and who has no trouble any more.
fn since(
    before: &[Told],
    now: &[Told],
    verdicts: &[Arc<Verdict>],
    args: &WhyArgs,
    asked: Asked<'_>,
) -> String {
    let (changed, over) = changes(before, now);
    let changed = changed.into_iter().filter_map(|place| verdicts.get(place));
    let changed: Vec<Arc<Verdict>> = changed.map(Arc::clone).collect();
    let mut text = Vec::new();
    if !changed.is_empty() || verdicts.is_empty() {
        // Writing into memory cannot fail.
        written(&mut text, args, &changed, asked).ok();
    }
    let mut text = String::from_utf8_lossy(&text).into_owned();
    // That nothing is left is said of all at once.
    for (name, uid) in over.into_iter().filter(|_| !verdicts.is_empty()) {
        let is_there = |p: &Pod| p.gone.is_none();
        let how = if uid.is_empty() || asked.world.pod(uid).is_some_and(is_there) {
            "is well, or on its way"
        } else {
            "is gone"
        };
        text.push_str(&clean(&format!("{name} {how}")));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_core::diagnose::Catalogue;

    fn told(pod: &str, id: &str, attempt: u32) -> Told {
        let cause = Catalogue::get().find(id).map(|c| c.id);
        assert!(cause.is_some(), "{id}");
        Told {
            who: (format!("shop/{pod}"), PodUid::from(pod)),
            what: (cause, Stage::Image, State::BackingOff, attempt),
        }
    }

    #[test]
    fn of_an_answer_after_another_only_what_has_changed_is_told() {
        let (a, b) = (|n| told("a", "KF601", n), |n| told("b", "KF602", n));
        assert_eq!(changes(&[], &[a(1), b(1)]), (vec![0, 1], vec![]));
        let before = [a(1), b(1)];
        assert_eq!(changes(&before, &[a(1), b(2)]), (vec![1], vec![]));
        assert_eq!(changes(&before, &[told("a", "KF602", 1), b(1)]).0, [0]);
        let (changed, over) = changes(&before, &[b(1)]);
        assert_eq!(
            (changed.as_slice(), over.as_slice()),
            (&[][..], &[&a(1).who][..])
        );
    }
}
