//! Decodes scrapes into [`Sample`] observations, and into states of static pods.

use rustc_hash::FxHashMap;
use std::borrow::Cow;

use super::families::{SETTINGS, is_kept};
use super::pods::KubeletPods;
use super::scrape::Scrape;
use crate::logtext::{FIELD_MAX, cut};
use kflow_model::gap::Gap;
use kflow_model::sample::{Sample, Value};
use kflow_model::{Body, Observation, Source, Stamp, Text};

/// Most series of one endpoint that are remembered and reported. A kubelet with the pods of a full node has some
/// thousands of the kept families.
const SERIES_MAX: usize = 20_000;
/// Most lines of a health answer that are kept.
const LINES_MAX: usize = 128;
/// Longest name of an endpoint, bytes.
const NAME_MAX: usize = 64;
/// Most endpoints that are remembered.
const ENDPOINTS_MAX: usize = 64;

/// Reduces scrapes to what kflow shows.
///
/// **A series is reported when its value differs from the last one reported, and begins at 0.** So an idle node costs
/// a few values a scrape; a series that was never seen is 0, and one that vanished (the kubelet restarted) goes back
/// to 0. Of a health answer the failed checks and the last line are kept. The passed checks are kept in the first
/// answer, and when their number differs from the answer before.
#[derive(Debug, Default)]
pub struct Scrapes {
    last: FxHashMap<Text, FxHashMap<Text, Known>>,
    /// How many series of an endpoint's last scrape found no room.
    left_out: FxHashMap<Text, u64>,
    /// How many checks had passed in an endpoint's last health answer.
    passed: FxHashMap<Text, usize>,
    pods: KubeletPods,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    value: f64,
    /// Number of the last scrape that had the series.
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
    /// Decodes a scrape; the error says why it is not used. Metrics, health and settings become a [`Sample`]; of the
    /// kubelet's pods those become observations that changed. A request without an answer becomes a
    /// sample that says so.
    pub fn take(&mut self, s: Scrape<'_>, out: &mut Vec<Observation>) -> Result<(), &'static str> {
        if s.code == 200 && matches!(kind(s.what), Kind::Pods) {
            return self.pods.changes(s, out);
        }
        let (what, at) = (cut(s.what, NAME_MAX), s.at);
        let before = self.left_out.get(&what).copied().unwrap_or(0);
        out.push(self.sample(s)?);
        let lost = self.left_out.get(&what).copied().unwrap_or(0);
        if lost > before {
            out.push(Observation {
                stamp: Stamp::exact(at),
                source: Source::Metrics,
                body: Body::Gap(Box::new(Gap {
                    of: Source::Metrics,
                    since: at,
                    lost,
                    conn: 0,
                    resource: Text::default(),
                    why: format!("{what} has more than {SERIES_MAX} series").into(),
                })),
            });
        }
        Ok(())
    }

    /// Returns the scrape as an observation; the error says why there is none. The stamp covers the whole time that
    /// the scrape took: the values were read at some moment in it.
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

    /// Returns the lines of a health answer that are kept.
    fn health(&mut self, what: &Text, body: &str) -> Vec<Text> {
        let passed = body.lines().filter(|l| l.starts_with("[+]")).count();
        if self.passed.len() >= ENDPOINTS_MAX && !self.passed.contains_key(what) {
            self.passed.clear();
        }
        let before = self.passed.insert(what.clone(), passed);
        health(body, before != Some(passed))
    }

    /// Returns the kept series of a Prometheus text that differ from the last scrape, in the order of the text;
    /// behind them the series that vanished, as 0.
    fn changes(&mut self, what: &Text, body: &str) -> Vec<(Text, Value)> {
        if self.last.len() >= ENDPOINTS_MAX && !self.last.contains_key(what) {
            self.last.clear();
            self.left_out.clear();
        }
        let known = self.last.entry(what.clone()).or_default();
        let scrape = known.values().map(|k| k.scrape).max().unwrap_or(0) + 1;
        let (mut out, mut left_out) = (Vec::new(), 0);
        for line in body.lines() {
            let Some((series, value)) = series(line) else {
                continue;
            };
            if known.len() >= SERIES_MAX && !known.contains_key(series) {
                left_out += 1;
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
        // A hash map has no order, and a session must have one.
        gone.sort_unstable();
        for series in gone {
            if known.remove(&series).is_some_and(|k| k.value != 0.0) {
                out.push((series, Value(0.0)));
            }
        }
        self.left_out.insert(what.clone(), left_out);
        out
    }
}

/// Reads a line of the Prometheus text format: returns the series and its value; `None` for a line that is not kept.
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

/// Returns the index of the `}` that closes the labels, which is not inside a quoted value.
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

/// Returns the failed checks and the last line (`healthz check passed`); with `all`, the passed checks, too.
fn health(body: &str, all: bool) -> Vec<Text> {
    let lines: Vec<&str> = body.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = lines.len().saturating_sub(1);
    lines
        .iter()
        .enumerate()
        .filter(|(i, l)| *i == last || all || !l.starts_with("[+]"))
        .take(LINES_MAX)
        .map(|(_, l)| cut(l, FIELD_MAX))
        .collect()
}

/// Returns the settings of a kubelet's `/configz` that kflow shows, as `key=value`, sorted by key.
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

/// Returns `gitVersion` and `platform` of `/version`, as `key=value`.
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

#[cfg(test)]
mod tests;
