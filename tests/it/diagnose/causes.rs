//! Every cause of the catalogue on its scenario: with all sources, with the API alone, and with the
//! node's own sources alone.

use super::{Sources, current, is_general, root, scenario, silence};
use kflow_core::correlate::World;
use kflow_core::diagnose::{self, Catalogue, Verdict};
use kflow_model::{Body, Source};

#[test]
fn the_list_of_causes_is_current() {
    current(
        "docs/causes.md",
        &kflow_export::causes::markdown(Catalogue::get()),
    );
}

/// The scenario of each cause, and those of `fixtures/causes/cited`, whose texts are cited from sources of components.
pub(super) fn scenarios() -> Vec<scenario::Scenario> {
    let folder = root().join("fixtures/causes");
    let of_causes = Catalogue::get().iter().map(|c| format!("{}.json", c.id));
    let cited = std::fs::read_dir(folder.join("cited")).expect("fixtures/causes/cited");
    let mut cited: Vec<String> = cited
        .filter_map(|f| Some(format!("cited/{}", f.ok()?.file_name().to_str()?)))
        .collect();
    cited.sort();
    of_causes
        .chain(cited)
        .map(|f| scenario::Scenario::load(&folder.join(f)))
        .collect()
}

pub(super) fn told(s: &scenario::Scenario, sources: Sources) -> Option<Verdict> {
    let mut world = World::new();
    for o in s.observations().iter().filter(|o| sources.has(o.source)) {
        world.observe(o);
    }
    world.refresh();
    let target = diagnose::find(&world, &s.target).into_iter().next()?;
    target.verdict(&world, s.now())
}

#[test]
fn every_cause_has_a_scenario_and_every_scenario_a_cause() {
    let mut files: Vec<String> = std::fs::read_dir(root().join("fixtures/causes"))
        .expect("fixtures/causes")
        .filter_map(|f| {
            Some(
                f.ok()?
                    .file_name()
                    .to_str()?
                    .strip_suffix(".json")?
                    .to_owned(),
            )
        })
        .collect();
    files.sort();
    let ids: Vec<&str> = Catalogue::get().iter().map(|c| c.id.as_str()).collect();
    assert_eq!(files, ids);
    for s in scenarios() {
        assert!(
            !s.names.is_empty() && !s.synthetic.is_empty(),
            "{}",
            s.cause
        );
        assert!(
            says_its_source(&s.synthetic),
            "{}: its texts come from no place of a component's source: {}",
            s.name,
            s.synthetic
        );
    }
}

/// True when a scenario cites `REPOSITORY, path/file.go, function`, or says that it is invented.
fn says_its_source(synthetic: &str) -> bool {
    let cites = [".go, ", ".c, "].iter().any(|ending| {
        synthetic
            .split_once(ending)
            .is_some_and(|(file, function)| file.contains('/') && !function.is_empty())
    });
    !synthetic.contains("catalogue") && (synthetic.starts_with("invented: ") || cites)
}

#[test]
fn every_cause_is_told_of_its_scenario() {
    let mut wrong = Vec::new();
    for s in scenarios() {
        let cause = Catalogue::get()
            .find(&s.cause)
            .expect("named after its cause");
        let stage = s.stage.as_deref().unwrap_or(cause.stage.name());
        let Some(v) = told(&s, Sources::All) else {
            wrong.push(format!("{}: nothing told", s.name));
            continue;
        };
        let mut text = v.sentence.clone();
        for p in &v.evidence {
            text.push_str(&p.to_string());
        }
        let state = serde_json::to_value(v.state).expect("a word");
        let missing: Vec<&String> = s
            .names
            .iter()
            .filter(|n| !text.to_lowercase().contains(&n.to_lowercase()))
            .collect();
        if v.cause_id() != s.cause
            || v.stage.name() != stage
            || !missing.is_empty()
            || s.state.as_ref().is_some_and(|w| state != w.as_str())
        {
            wrong.push(format!(
                "{}: {} {stage} {:?}: got {} {} {state}, names missing {missing:?}: {}",
                s.name,
                s.cause,
                s.state,
                v.cause_id(),
                v.stage,
                v.sentence
            ));
        }
        if [" ?", "  ", "..", "{", "rpc error: ", "desc = "]
            .iter()
            .any(|h| v.sentence.contains(h))
        {
            wrong.push(format!(
                "{}: a hole in the sentence: {}",
                s.name, v.sentence
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn stage_of(cause: &str) -> Option<&'static str> {
    Some(Catalogue::get().find(cause)?.stage.name())
}

#[test]
fn part_of_the_sources_never_tell_another_cause() {
    let mut wrong = Vec::new();
    for s in scenarios() {
        for sources in [Sources::Api, Sources::Node] {
            let v = told(&s, sources);
            // A source alone is silent exactly where `UNTOLD` lists a reason.
            let heard = s.observations().iter().any(|o| sources.has(o.source));
            let silent = v.as_ref().is_none_or(|v| v.cause.is_none());
            if heard && silent != silence::is_untold(&s.name, sources) {
                wrong.push(format!(
                    "{} {sources:?}: {}",
                    s.name,
                    if silent {
                        "silent"
                    } else {
                        "is told, and UNTOLD lists it"
                    }
                ));
            }
            let Some(v) = v else { continue };
            if v.cause.is_some()
                && v.cause_id() != s.cause
                && !s.also_fine.iter().any(|c| *c == v.cause_id())
                && !is_general(&v, s.stage.as_deref().or_else(|| stage_of(&s.cause)))
            {
                wrong.push(format!(
                    "{} {sources:?}: {} {}",
                    s.name,
                    v.cause_id(),
                    v.sentence
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A log of a runtime has ids only, a log of the kubelet no node's name: what no source names is told without a name.
#[test]
fn a_sentence_has_no_hole_whatever_source_is_alone() {
    let mut wrong = Vec::new();
    for s in scenarios() {
        let alone = Source::ALL.map(Sources::Only);
        for sources in alone.into_iter().chain(Sources::EACH) {
            let Some(v) = told(&s, sources) else { continue };
            for v in std::iter::once(&v).chain(&v.also) {
                let hole = |word: &str| word.trim_matches(|c| ",.:;()".contains(c)) == "?";
                if v.sentence.split_whitespace().any(hole) {
                    wrong.push(format!("{} {sources:?}: {}", s.name, v.sentence));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The line of containerd that says that a container was made has its name; later ones have its id.
#[test]
fn the_runtimes_own_log_names_the_container_that_cannot_be_started() {
    let all = crate::correlate::session("S3-crashes");
    let mut world = World::new();
    for o in all.iter().filter(|o| o.source == Source::Runtime) {
        world.observe(o);
    }
    world.refresh();
    let pod = world.find("s31/starterror");
    let now = all.last().expect("a recording").stamp.seen;
    let v = diagnose::why(&world, pod.first().expect("its log names it"), now);
    let v = v.expect("it is stuck");
    assert!(
        v.sentence
            .starts_with("Container c cannot be started: command /no/such"),
        "{}",
        v.sentence
    );
    assert!(!v.at_least, "the log shows how its sandbox is made");
}

/// Every text of the scenarios, and of Events and logs as components write them: an error of several lines says what
/// it says on one. Texts are broken at every blank, with an empty line, as mount(8), fsck and CSI drivers do.
#[test]
fn a_text_of_several_lines_shows_what_it_shows_on_one() {
    let all = Catalogue::get();
    let reasons: std::collections::BTreeSet<&str> =
        all.iter().flat_map(|c| &c.on).map(String::as_str).collect();
    let mut texts = std::collections::BTreeSet::new();
    for s in scenarios() {
        for o in s.observations() {
            match &o.body {
                Body::Event(e) => texts.insert(e.message.to_string()),
                Body::Log(l) => texts.insert(l.error.to_string()),
                Body::CallEnd(e) => texts.insert(e.message.to_string()),
                _ => false,
            };
        }
    }
    let mut hit = 0;
    for text in &texts {
        let broken = text.replace(' ', " \n\n");
        for reason in &reasons {
            let told = |text| {
                let (cause, names) = all.best(reason, text, |_| true)?;
                let names: Vec<String> = names.iter().map(|(k, v)| format!("{k}={v}")).collect();
                Some((cause.id, names))
            };
            let whole = told(text);
            hit += usize::from(whole.is_some());
            assert_eq!(told(&broken), whole, "{reason}: {text}");
        }
    }
    assert!(hit > texts.len(), "{hit} of {}", texts.len());
}
