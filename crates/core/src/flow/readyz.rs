//! The checks of `/readyz`, by name: which ones an answer or a log line shows as passed and as failing.
//!
//! A component is not ready before its post-start hooks are done; each hook is a check of `/readyz`. The answer to
//! `/readyz?verbose` names all checks. The component's own log names those that failed when somebody asked
//! (`healthz.go`: `informer-sync,poststarthook/rbac/bootstrap-roles check failed: readyz`). `/livez` and `/healthz`
//! have other sets of checks, so a check that is missing there says nothing.

use super::fact::Fact;
use super::map::Map;
use kflow_model::{Body, Observation, log::Component};

/// The checks that one observation names.
pub(super) struct ReadyzChecks<'a> {
    pub(super) failing: Vec<&'a str>,
    pub(super) passed: Vec<&'a str>,
}

/// Returns the checks in an observation; `None` when it is no health answer.
pub(super) fn checks<'a>(map: &'a Map, o: &'a Observation) -> Option<ReadyzChecks<'a>> {
    match &o.body {
        // Most lines are the kubelet's, which serves no `/readyz`: they are not looked up.
        Body::Log(line) if line.component != Component::Kubelet => {
            let said = map.line(line).filter(|l| l.fact() == Fact::ReadyzFailed)?;
            let names = said.name("checks")?;
            Some(ReadyzChecks {
                failing: names.split(',').map(str::trim).collect(),
                passed: Vec::new(),
            })
        }
        Body::Sample(s) if s.what.ends_with("-readyz") && s.code != 0 => {
            let named = |sign: &str| {
                s.lines
                    .iter()
                    .filter_map(|l| l.strip_prefix(sign)?.split_whitespace().next())
                    .collect()
            };
            Some(ReadyzChecks {
                failing: named("[-]"),
                passed: named("[+]"),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::map::Map;
    use crate::flow::runs::{RunEnd, StepRuns, lit};
    use kflow_model::stamp::MILLI;
    use kflow_model::{
        Nanos, Source, Stamp,
        log::{Component, LogLine, Severity},
        sample::Sample,
    };
    use std::sync::Arc;

    fn at(ms: i64, body: Body) -> Arc<Observation> {
        Arc::new(Observation {
            stamp: Stamp::exact(Nanos(1_795_229_166_000_000_000 + ms * MILLI)),
            source: Source::Control,
            body,
        })
    }
    fn log(ms: i64, message: &str) -> Arc<Observation> {
        at(
            ms,
            Body::Log(Box::new(LogLine {
                location: "healthz.go:311".into(),
                ..LogLine::new(Component::Apiserver, Severity::Info, message)
            })),
        )
    }
    fn readyz(ms: i64, code: u16, lines: &[&str]) -> Arc<Observation> {
        at(
            ms,
            Body::Sample(Box::new(Sample {
                what: "apiserver-readyz".into(),
                code,
                lines: lines.iter().map(|l| (*l).into()).collect(),
                ..Sample::default()
            })),
        )
    }
    fn step(all: &[StepRuns], id: &str) -> Option<StepRuns> {
        let (id, _) = Map::embedded().step(id).unwrap();
        all.iter().find(|l| l.step == id).cloned()
    }
    fn told(evidence: &[Arc<Observation>]) -> Vec<StepRuns> {
        lit(Map::embedded(), evidence, Nanos(i64::MAX))
    }

    #[test]
    fn post_start_hooks_run_from_the_first_answer_that_lacks_them_to_the_first_that_has_them() {
        // The log of a starting apiserver 1.36.
        let all = told(&[
            log(794, "Version: v1.36.2"),
            log(1862, "Serving securely on 127.0.0.1:6443"),
            log(
                1862,
                "[graceful-termination] waiting for shutdown to be initiated",
            ),
            log(
                1917,
                "informer-sync,poststarthook/rbac/bootstrap-roles,poststarthook/bootstrap-controller,poststarthook/crd-informer-synced,autoregister-completion check failed: readyz",
            ),
            log(
                1969,
                "poststarthook/rbac/bootstrap-roles,poststarthook/bootstrap-controller check failed: readyz",
            ),
            log(
                2026,
                "poststarthook/rbac/bootstrap-roles check failed: livez",
            ),
            readyz(
                11_000,
                500,
                &[
                    "[-]poststarthook/rbac/bootstrap-roles failed: not finished",
                    "readyz check failed",
                ],
            ),
            readyz(21_000, 0, &["connection refused"]),
        ]);
        let hooks = step(&all, "i10").unwrap();
        let by: Vec<&str> = hooks.evidence.iter().map(|(k, _)| k.name()).collect();
        assert_eq!(by, ["log", "metric"]);
        let runs: Vec<_> = hooks
            .runs
            .iter()
            .map(|r| {
                (
                    r.what.as_str(),
                    r.duration(Nanos(0)).unwrap() / MILLI,
                    r.how,
                )
            })
            .collect();
        assert_eq!(
            runs,
            [
                ("poststarthook/bootstrap-controller", 9_083, RunEnd::Ok),
                ("poststarthook/crd-informer-synced", 52, RunEnd::Ok),
                ("poststarthook/rbac/bootstrap-roles", 0, RunEnd::InFlight),
            ]
        );
        assert!(
            step(&all, "i12").is_none(),
            "an apiserver that waits to be shut down is not shutting down"
        );
    }

    #[test]
    fn a_log_alone_does_not_tell_when_the_last_hook_was_done() {
        let all = told(&[log(
            5,
            "poststarthook/rbac/bootstrap-roles check failed: readyz",
        )]);
        assert_eq!(step(&all, "i10").unwrap().runs[0].how, RunEnd::Unseen);
    }

    #[test]
    fn an_answer_that_names_all_hooks_as_done_tells_that_they_were() {
        let all = told(&[
            readyz(
                5,
                200,
                &[
                    "[+]ping ok",
                    "[+]poststarthook/storage-readiness ok",
                    "readyz check passed",
                ],
            ),
            readyz(10_005, 200, &["readyz check passed"]),
        ]);
        let hooks = step(&all, "i10").unwrap();
        assert_eq!(hooks.count, 1);
        assert_eq!(hooks.runs[0].what, "poststarthook/storage-readiness");
        // Neither the end nor the length of the hook is known.
        assert_eq!(hooks.runs[0].how, RunEnd::Before);
        assert_eq!(hooks.runs[0].duration(Nanos(20_005 * MILLI)), None);
        assert_eq!(hooks.first, hooks.last, "later answers say nothing new");
    }
}
