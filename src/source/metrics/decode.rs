//! Scrapes in, [`Sample`] observations out, and states of static pods.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use std::borrow::Cow;

use super::families::{SETTINGS, is_kept};
use super::pods::KubeletPods;
use crate::model::sample::{Sample, Value};
use crate::model::{Body, Nanos, Observation, Source, Stamp, Text};
use crate::source::logtext::{FIELD_MAX, cut, redact};
use crate::source::{Fed, LineDecoder};

/// Series of one endpoint that are remembered and given out. A kubelet with the pods of a full node has some
/// thousands of the kept families.
const SERIES_MAX: usize = 20_000;
/// Lines of a health answer that are kept.
const LINES_MAX: usize = 128;
/// Longest name of an endpoint, bytes.
const NAME_MAX: usize = 64;
/// Endpoints that are remembered.
const ENDPOINTS_MAX: usize = 64;

/// One answer of one endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Scrape<'a> {
    /// When the answer was complete.
    pub at: Nanos,
    /// How long it took, ns.
    pub took_ns: u64,
    /// `kubelet-metrics`, `kubelet-healthz`, `apiserver-readyz`, … What is in the body follows from its end.
    pub what: &'a str,
    /// HTTP status, 0 when there was no answer.
    pub code: u16,
    /// Body, or the error when there was no answer.
    pub body: &'a str,
}

/// Reduces scrapes to what kflow shows. Shared by the decoder and the live scraper.
///
/// **A series is given out when its value differs from the last one given out, and begins at 0.** So an idle node
/// costs a few values a scrape; a series that was never seen is 0, and one that vanished (the kubelet restarted)
/// goes back to 0. Of a health answer the checks that failed are kept, and its last line; those that passed when their
/// number differs from the answer before, and in the first answer.
#[derive(Debug, Default)]
pub struct Scrapes {
    last: FxHashMap<Text, FxHashMap<Text, Known>>,
    /// How many checks of an endpoint had passed.
    passed: FxHashMap<Text, usize>,
    pods: KubeletPods,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    value: f64,
    /// Number of the scrape that it was last in.
    scrape: u64,
}

/// What kind of body an endpoint has.
enum Kind {
    Metrics,
    Health,
    Configz,
    Version,
    Pods,
    Skipped(&'static str),
}

fn kind(what: &str) -> Kind {
    match what {
        w if w.ends_with("-metrics") || w.ends_with("-metrics-probes") => Kind::Metrics,
        w if ["-healthz", "-readyz", "-livez"]
            .iter()
            .any(|s| w.ends_with(s)) =>
        {
            Kind::Health
        }
        w if w.ends_with("-configz") => Kind::Configz,
        w if w.ends_with("-version") => Kind::Version,
        "kubelet-pods" => Kind::Pods,
        w if w.ends_with("-runningpods") => {
            Kind::Skipped("running pods, which the CRI shows better")
        }
        w if w.contains("stats-summary") || w.ends_with("-metrics-resource") => {
            Kind::Skipped("resource usage")
        }
        w if w.ends_with("-statusz") || w.ends_with("-flagz") => {
            Kind::Skipped("page that is not meant for machines")
        }
        _ => Kind::Skipped("endpoint that kflow does not know"),
    }
}

impl Scrapes {
    /// What the scrape tells, or why it tells nothing: of metrics, health and settings a [`Sample`], of the kubelet's
    /// pods those that changed. No answer is a sample that says so.
    pub fn take(&mut self, s: Scrape<'_>, out: &mut Vec<Observation>) -> Result<(), &'static str> {
        if s.code == 200 && matches!(kind(s.what), Kind::Pods) {
            return self.pods.changes(s, out);
        }
        out.push(self.sample(s)?);
        Ok(())
    }

    /// The scrape as an observation, or why there is none. The stamp is the whole time that the scrape took: the
    /// values were read at some moment in it.
    fn sample(&mut self, s: Scrape<'_>) -> Result<Observation, &'static str> {
        let kind = kind(s.what);
        if let Kind::Skipped(reason) = kind {
            return Err(reason);
        }
        let mut sample = Sample {
            what: cut(s.what, NAME_MAX),
            code: s.code,
            took_ns: s.took_ns,
            ..Sample::default()
        };
        if s.code == 200 {
            match kind {
                Kind::Metrics => sample.values = self.changes(&sample.what, s.body),
                Kind::Configz => {
                    sample.lines = settings(s.body).ok_or("configz that does not parse")?;
                }
                Kind::Version => {
                    sample.lines = version(s.body).ok_or("version that does not parse")?;
                }
                Kind::Health | Kind::Pods | Kind::Skipped(_) => {
                    sample.lines = self.health(&sample.what, s.body);
                }
            }
        } else {
            sample.lines = self.health(&sample.what, s.body);
        }
        let start = s.at.plus(-i64::try_from(s.took_ns).unwrap_or(0));
        let precision = u32::try_from(s.took_ns.saturating_add(1)).unwrap_or(u32::MAX);
        Ok(Observation {
            stamp: Stamp::new(start, precision, s.at),
            source: Source::Metrics,
            body: Body::Sample(Box::new(sample)),
        })
    }

    /// The lines of a health answer that are kept.
    fn health(&mut self, what: &Text, body: &str) -> Vec<Text> {
        let passed = body.lines().filter(|l| l.starts_with("[+]")).count();
        if self.passed.len() >= ENDPOINTS_MAX && !self.passed.contains_key(what) {
            self.passed.clear();
        }
        let before = self.passed.insert(what.clone(), passed);
        health(body, before != Some(passed))
    }

    /// The kept series of a Prometheus text that differ from the last scrape, in the order of the text.
    fn changes(&mut self, what: &Text, body: &str) -> Vec<(Text, Value)> {
        if self.last.len() >= ENDPOINTS_MAX && !self.last.contains_key(what) {
            self.last.clear();
        }
        let known = self.last.entry(what.clone()).or_default();
        let scrape = known.values().map(|k| k.scrape).max().unwrap_or(0) + 1;
        let mut out = Vec::new();
        for line in body.lines() {
            let Some((series, value)) = series(line) else {
                continue;
            };
            if known.len() >= SERIES_MAX && !known.contains_key(series) {
                continue;
            }
            let seen = known
                .entry(series.into())
                .or_insert(Known { value: 0.0, scrape });
            seen.scrape = scrape;
            if seen.value.to_bits() != value.to_bits() {
                seen.value = value;
                out.push((series.into(), Value(value)));
            }
        }
        let mut gone: Vec<Text> = known
            .iter()
            .filter(|(_, k)| k.scrape != scrape)
            .map(|(s, _)| s.clone())
            .collect();
        // A hash map has no order, a session must have one.
        gone.sort_unstable();
        for series in gone {
            if known.remove(&series).is_some_and(|k| k.value != 0.0) {
                out.push((series, Value(0.0)));
            }
        }
        out
    }
}

/// A line of the Prometheus text format that is kept: the series and its value.
fn series(line: &str) -> Option<(&str, f64)> {
    let name_end = line.find(['{', ' '])?;
    let name = line.get(..name_end)?;
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let (series, rest) = if line.as_bytes().get(name_end) == Some(&b'{') {
        let close = labels_end(line.get(name_end..)?)? + name_end;
        (line.get(..=close)?, line.get(close + 1..)?)
    } else {
        line.split_at_checked(name_end)?
    };
    if series.len() > FIELD_MAX || !is_kept(name, series.get(name_end..)?) {
        return None;
    }
    let value = rest.split_ascii_whitespace().next()?;
    Some((series, value.parse().ok()?))
}

/// Index of the `}` that closes labels; `}` inside quoted values does not.
fn labels_end(s: &str) -> Option<usize> {
    let (mut quoted, mut escaped) = (false, false);
    for (i, b) in s.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(i),
            _ => {}
        }
    }
    None
}

/// Failed checks, and the last line (`healthz check passed`).
fn health(body: &str, all: bool) -> Vec<Text> {
    let lines: Vec<&str> = body.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(1);
    lines
        .iter()
        .enumerate()
        .filter(|(i, l)| *i == last || all || !l.starts_with("[+]"))
        .take(LINES_MAX)
        .map(|(_, l)| cut(redact(l).as_ref(), FIELD_MAX))
        .collect()
}

/// The settings of a kubelet's `/configz` that kflow shows, as `key=value`, sorted by key.
fn settings(body: &str) -> Option<Vec<Text>> {
    let root: serde_json::Value = serde_json::from_str(body).ok()?;
    let config = root.get("kubeletconfig")?.as_object()?;
    Some(
        SETTINGS
            .iter()
            .filter_map(|key| Some((key, config.get(*key)?)))
            .map(|(key, v)| cut(&format!("{key}={}", plain(v)), FIELD_MAX))
            .collect(),
    )
}

/// `gitVersion` and `platform` of `/version`.
fn version(body: &str) -> Option<Vec<Text>> {
    let root: serde_json::Value = serde_json::from_str(body).ok()?;
    Some(
        ["gitVersion", "platform"]
            .iter()
            .filter_map(|key| Some((key, root.get(*key)?)))
            .map(|(key, v)| cut(&format!("{key}={}", plain(v)), FIELD_MAX))
            .collect(),
    )
}

fn plain(v: &serde_json::Value) -> Cow<'_, str> {
    match v {
        serde_json::Value::String(s) => Cow::Borrowed(s),
        other => Cow::Owned(other.to_string()),
    }
}

/// Decodes `snapshots.jsonl`: `{"t":ns,"took_ns":n,"what":"kubelet-metrics","status":200,"body":"…"}`, with `error` in
/// place of `body` when there was no answer.
#[derive(Debug, Default)]
pub struct MetricsDecoder {
    scrapes: Scrapes,
}

impl MetricsDecoder {
    /// A decoder that has seen nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
}

#[derive(Deserialize)]
struct Line<'a> {
    t: i64,
    #[serde(default)]
    took_ns: u64,
    #[serde(borrow)]
    what: Cow<'a, str>,
    #[serde(default)]
    status: u16,
    #[serde(borrow, default)]
    body: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    error: Option<Cow<'a, str>>,
}

impl LineDecoder for MetricsDecoder {
    fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        if line.trim_ascii().is_empty() {
            return Fed::Ignored("empty line");
        }
        let Ok(l) = serde_json::from_slice::<Line<'_>>(line) else {
            return Fed::Malformed("not a line of snapshots.jsonl");
        };
        let scrape = Scrape {
            // The recorder's `t` is when it asked.
            at: Nanos(l.t).plus(i64::try_from(l.took_ns).unwrap_or(0)),
            took_ns: l.took_ns,
            what: &l.what,
            code: l.status,
            body: l.body.as_deref().or(l.error.as_deref()).unwrap_or_default(),
        };
        let before = out.len();
        match self.scrapes.take(scrape, out) {
            Ok(()) => Fed::Observed(out.len() - before),
            Err(reason) => Fed::Ignored(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(scrapes: &mut Scrapes, what: &str, code: u16, body: &str) -> Sample {
        let o = scrapes
            .sample(Scrape {
                at: Nanos(1_000),
                took_ns: 10,
                what,
                code,
                body,
            })
            .unwrap();
        assert_eq!(o.stamp, Stamp::new(Nanos(990), 11, Nanos(1_000)));
        match o.body {
            Body::Sample(s) => *s,
            other => panic!("{other:?}"),
        }
    }
    fn values(s: &Sample) -> Vec<(&str, f64)> {
        s.values.iter().map(|(n, v)| (n.as_str(), v.0)).collect()
    }

    const FIRST: &str = r#"# HELP kubelet_running_pods [ALPHA] Number of pods
# TYPE kubelet_running_pods gauge
kubelet_running_pods 2
kubelet_started_pods_total 0
kubelet_runtime_operations_total{operation_type="list_containers"} 41
kubelet_admission_rejections_total{reason="brace } in \"text"} 1
kubelet_pleg_last_seen_seconds 1.795220678e+09
go_goroutines 200
apiserver_request_duration_seconds_bucket{resource="pods",le="0.1"} 3
apiserver_request_duration_seconds_sum{resource="pods"} 0.5
apiserver_request_duration_seconds_sum{resource="secrets"} 0.5
"#;

    #[test]
    fn only_kept_families_and_values_that_are_not_zero_are_given_out() {
        let s = sample(&mut Scrapes::default(), "kubelet-metrics", 200, FIRST);
        assert_eq!(
            values(&s),
            [
                ("kubelet_running_pods", 2.0),
                (
                    r#"kubelet_runtime_operations_total{operation_type="list_containers"}"#,
                    41.0
                ),
                (
                    r#"kubelet_admission_rejections_total{reason="brace } in \"text"}"#,
                    1.0
                ),
                ("kubelet_pleg_last_seen_seconds", 1_795_220_678.0),
                (
                    r#"apiserver_request_duration_seconds_sum{resource="pods"}"#,
                    0.5
                ),
            ]
        );
    }

    #[test]
    fn a_second_scrape_gives_only_what_changed_and_what_vanished() {
        let mut scrapes = Scrapes::default();
        sample(&mut scrapes, "kubelet-metrics", 200, FIRST);
        let s = sample(
            &mut scrapes,
            "kubelet-metrics",
            200,
            "kubelet_running_pods 2\nkubelet_started_pods_total 1\nkubelet_pleg_last_seen_seconds 1.795220678e+09\napiserver_request_duration_seconds_sum{resource=\"pods\"} 0.5\n",
        );
        assert_eq!(
            values(&s),
            [
                ("kubelet_started_pods_total", 1.0),
                (
                    r#"kubelet_admission_rejections_total{reason="brace } in \"text"}"#,
                    0.0
                ),
                (
                    r#"kubelet_runtime_operations_total{operation_type="list_containers"}"#,
                    0.0
                ),
            ]
        );
        let s = sample(
            &mut scrapes,
            "other-metrics",
            200,
            "kubelet_running_pods 2\n",
        );
        assert_eq!(
            values(&s),
            [("kubelet_running_pods", 2.0)],
            "endpoints do not mix"
        );
    }

    #[test]
    fn a_failed_scrape_says_why_and_forgets_nothing() {
        let mut scrapes = Scrapes::default();
        sample(&mut scrapes, "kubelet-metrics", 200, FIRST);
        let s = sample(
            &mut scrapes,
            "kubelet-metrics",
            0,
            "ConnectionRefusedError(111)",
        );
        assert_eq!(
            (s.code, s.lines),
            (0, vec!["ConnectionRefusedError(111)".into()])
        );
        assert!(
            sample(&mut scrapes, "kubelet-metrics", 200, FIRST)
                .values
                .is_empty()
        );
    }

    #[test]
    fn of_a_health_answer_the_failed_checks_and_the_result_are_kept() {
        let mut s = Scrapes::default();
        assert_eq!(
            sample(
                &mut s,
                "kubelet-healthz",
                200,
                "[+]ping ok\n[+]syncloop ok\nhealthz check passed\n"
            )
            .lines,
            ["[+]ping ok", "[+]syncloop ok", "healthz check passed"],
            "the first answer names all"
        );
        assert_eq!(
            sample(
                &mut s,
                "apiserver-readyz",
                500,
                "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n"
            )
            .lines,
            [
                "[+]ping ok",
                "[-]etcd failed: reason withheld",
                "readyz check failed"
            ]
        );
        assert_eq!(
            sample(
                &mut s,
                "kubelet-healthz",
                200,
                "[+]ping ok\n[+]syncloop ok\nhealthz check passed\n"
            )
            .lines,
            ["healthz check passed"],
            "what passed before is not told again"
        );
    }

    #[test]
    fn configz_becomes_the_settings_that_explain_pods() {
        let s = sample(
            &mut Scrapes::default(),
            "kubelet-configz",
            200,
            r#"{"kubeletconfig":{"kind":"KubeletConfiguration","tlsPrivateKeyFile":"/k","serializeImagePulls":true,"registryPullQPS":5,"evictionHard":{"memory.available":"100Mi"},"syncFrequency":"1m0s","runtimeRequestTimeout":"2m0s"}}"#,
        );
        assert_eq!(
            s.lines,
            [
                r#"evictionHard={"memory.available":"100Mi"}"#,
                "registryPullQPS=5",
                "runtimeRequestTimeout=2m0s",
                "serializeImagePulls=true",
                "syncFrequency=1m0s",
            ]
        );
    }

    #[test]
    fn settings_are_listed_in_order() {
        assert!(SETTINGS.is_sorted());
    }

    #[test]
    fn pages_without_use_and_nonsense_are_told_apart() {
        let mut d = MetricsDecoder::new();
        let mut fed = |l: &str| d.line(l.as_bytes(), &mut Vec::new());
        assert_eq!(
            fed(r#"{"t":1,"what":"kubelet-runningpods","status":200,"body":"{}"}"#),
            Fed::Ignored("running pods, which the CRI shows better")
        );
        assert_eq!(
            fed(r#"{"t":1,"what":"kubelet-healthz","status":0,"error":"refused"}"#),
            Fed::Observed(1)
        );
        assert_eq!(fed("{}"), Fed::Malformed("not a line of snapshots.jsonl"));
    }

    proptest! {
        #[test]
        fn no_text_panics(body in ".{0,200}", labels in ".{0,60}") {
            let mut s = Scrapes::default();
            for what in ["kubelet-metrics", "kubelet-healthz", "kubelet-configz", "apiserver-version"] {
                drop(s.sample(Scrape { at: Nanos(0), took_ns: u64::MAX, what, code: 200, body: &body }));
            }
            let _ = series(&format!("kubelet_running_pods{{{labels} 1"));
            let _ = series(&format!("kubelet_running_pods{{{labels}}} {body}"));
        }
    }
}
