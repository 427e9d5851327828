//! `kflow why` and `kflow causes`: verdicts, and the catalogue of their causes.

mod heard;
mod watch;
mod well;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use super::args::{CausesArgs, Input, WhyArgs, WhyFormat as Format, quoted};
use super::input::Observations;
use super::{NO_SUCH, OK, VERDICT, bar, out, pods};
use kflow_core::correlate::{Pod, World};
use kflow_core::diagnose::unknown::{self, Asked};
use kflow_core::diagnose::{
    self, About, Catalogue, Diagnoser, Incident, Knowledge, NextStep, State, Subject, Target,
    Unknown, Verdict,
};
use kflow_core::query::lasted_in;
use kflow_core::suggest::suggest;
use kflow_engine::Overview;
use kflow_export::rows::Rows;
use kflow_export::why::escaped;
use kflow_export::{causes, incidents, names, why};
use kflow_model::units::date_and_clock;
use kflow_model::{Nanos, PodUid};

/// `kflow why`
pub(super) fn why(args: &WhyArgs) -> anyhow::Result<u8> {
    if args.watch {
        return watch::watch(args);
    }
    if args.ever {
        return all_incidents(args);
    }
    // Without `--at`, `heard` below queries the agents of all nodes concerned.
    let source = if args.input.at.is_some() {
        Observations::open(&args.input, args.pod.as_deref())?
    } else {
        Observations::by_api(&args.input, args.pod.as_deref())?
    };
    let world = source.world()?;
    let found = answer(args, source.asked(&world));
    if let (Some(query), Answer::None(_) | Answer::Unknown(_)) = (&args.pod, &found)
        && diagnose::find(&world, query).is_empty()
    {
        pods::begins_one(query, &world)?;
    }
    match found {
        Answer::None(said) => {
            out::tell(&said);
            Ok(NO_SUCH)
        }
        Answer::Unknown(u) => {
            if args.pod.is_none() {
                if args.output.is_for_people()
                    && let Some(text) = well::shown(source.asked(&world))
                {
                    out::stdout().write_all(text.as_bytes())?;
                }
                tell_of_unexplained(source.asked(&world), &[]);
                tell_of_waiting_claims(source.asked(&world), &args.input);
            }
            Err(u.into())
        }
        Answer::Verdicts(mut verdicts) => {
            let at = heard::heard(args, &source, &world, &mut verdicts)?;
            if source.recorded.is_some() {
                of_recording(&args.input, source.at, &mut verdicts);
            }
            let asked = Asked {
                at,
                ..source.asked(&world)
            };
            let mut out = out::stdout();
            written(&mut out, args, &verdicts, asked)?;
            out.flush()?;
            if args.pod.is_none() {
                tell_of_unexplained(asked, &verdicts);
            }
            if let (None, Some(u)) = (&args.pod, unknown::every(asked)) {
                // There may be more of them.
                out::conclude(&u.to_string());
            }
            if verdicts.is_empty() && !args.output.is_for_people() {
                let text = well::nothing(args, asked);
                text.lines().for_each(out::tell);
            }
            Ok(code(&verdicts))
        }
    }
}

/// Names the nodes, pods and claims that a list shows in trouble, and of which nothing tells why.
fn tell_of_unexplained(asked: Asked<'_>, verdicts: &[Arc<Verdict>]) {
    let nodes = unknown::nodes_unexplained(asked, verdicts);
    let pods = unknown::all_unexplained(asked, verdicts);
    let claims = unknown::claims_unexplained(asked);
    for unknown in nodes.into_iter().chain(pods).chain(claims) {
        out::tell(&unknown.to_string());
    }
}

/// Names the claims of a recording that wait for their first pod, where nothing else is told: they are well, and may be
/// what was meant.
fn tell_of_waiting_claims(asked: Asked<'_>, input: &Input) {
    if asked.recorded.is_none() {
        return;
    }
    let flags = input.flags().unwrap_or_default();
    let (well, _) = diagnose::claims_alone(asked.world, asked.at);
    for o in well.iter().filter_map(|v| v.owner.as_ref()) {
        let name = format!("{}/pvc/{}", o.namespace, o.name);
        out::tell(&format!(
            "claim {}/{} waits for a pod that uses it, which is normal:  kflow why {name}{flags}",
            o.namespace, o.name
        ));
    }
}

/// `kflow why --ever`: all incidents of a recording.
fn all_incidents(args: &WhyArgs) -> anyhow::Result<u8> {
    anyhow::ensure!(
        args.input.session.is_some(),
        "--ever is of a recording: name one with --session (`kflow record` makes one), or leave --ever out"
    );
    let source = Observations::open(&args.input, args.pod.as_deref())?;
    let world = source.world()?;
    let asked = source.asked(&world);
    let since = source.from(args.since.as_deref())?;
    let range = (source.from(None)?, source.at);
    let within = source.range(args.range)?;
    let within = within.unwrap_or((since, source.at.plus(1)));
    let known = source.session.arrived_by(source.at);
    let observations = source.session.observations.iter().take(known);
    let found = bar::looking(observations, known, |observations| {
        let (selection, scope) = (Arc::clone(source.selection()), asked.scope.cloned());
        Overview::of(observations, selection, scope, range)
    });
    let targets = args.pod.as_deref().map(|q| (q, diagnose::find(&world, q)));
    let about = |i: &&Incident| {
        lasted_in(within, i.begin, i.end) && targets.as_ref().is_none_or(|(q, t)| is_about(i, q, t))
    };
    let incidents: Vec<&Incident> = found.incidents.iter().filter(about).collect();
    if let Some((query, of_it)) = &targets
        && incidents.is_empty()
        && of_it.is_empty()
    {
        // The node may no longer exist.
        let node = diagnose::node_asked(query);
        if node.is_none_or(|n| world.node(n).is_none()) {
            return pods::no_pods(query, asked);
        }
    }
    let knowledge = Knowledge::clone(&found.knowledge).after(since);
    let clear = match unknown::every(asked).map_or_else(|| knowledge.known(), Err) {
        Ok(clear) => clear,
        // "Nothing was ever wrong" requires complete data.
        Err(u) if incidents.is_empty() => return Err(u.into()),
        Err(u) => {
            out::conclude(&u.to_string());
            range
        }
    };
    let node = |uid: &PodUid| world.pod(uid).map(|p| p.node.as_str());
    let mut out = out::stdout();
    match args.output {
        Format::Json | Format::Jsonl | Format::Yaml | Format::Csv => {
            let form = args.output.rows().unwrap_or(Rows::Json);
            incidents::rows(&incidents, source.at, found.within, node, &mut out, form)?;
        }
        Format::Name => names::of_incidents(
            &mut out,
            &incidents,
            pods::within(asked, args.pod.as_deref()),
        )?,
        Format::Text => {
            let text = incidents::text(&incidents, range, source.at, node);
            out.write_all(text.as_bytes())?;
        }
        Format::Markdown if incidents.is_empty() => {}
        Format::Markdown => {
            let table = incidents::markdown(&incidents, source.at);
            let [begin, end] = [range.0, range.1].map(|at| date_and_clock(at, 0, 0));
            let when = format!("From {begin} to {end} UTC");
            write!(out, "{table}{}", origin(&when, &args.input))?;
        }
    }
    match (incidents.is_empty(), args.output) {
        (false, _) => {}
        (true, _) if world.pods().is_empty() => pods::tell_of_none("pods", asked),
        (true, form) => {
            let whose = args.pod.as_deref().map(|p| format!(" with {p}"));
            let text = format!(
                "Nothing was ever wrong{} between {} and {}.",
                whose.unwrap_or_default(),
                clear.0.max(within.0).to_rfc3339(),
                clear.1.min(within.1).to_rfc3339()
            );
            if form.is_for_people() {
                writeln!(out, "{}", kflow_export::text::clean(&text))?;
            } else {
                out::tell(&text);
            }
        }
    }
    out.flush()?;
    Ok(if incidents.is_empty() { OK } else { VERDICT })
}

/// True when an incident is about the query: one of its pods, the owner itself or one of its pods, or the node.
fn is_about(i: &Incident, query: &str, targets: &[Target<'_>]) -> bool {
    if let Subject::Node(name) = &i.subject {
        return diagnose::node_asked(query) == Some(name.as_str());
    }
    targets.iter().any(|t| match t {
        Target::Node(..) => false,
        Target::Pod(p) => i.parts.iter().any(|x| x.verdict.uid == p.uid),
        Target::Owner(o, pods) => {
            i.subject == Subject::Owner(o.object.clone())
                || i.parts.iter().any(|x| {
                    x.verdict.owner.as_ref() == Some(&o.object)
                        || pods.iter().any(|p| p.uid == x.verdict.uid)
                })
        }
    })
}

/// The answer of `why`.
enum Answer {
    /// The verdicts; empty, or without a bad one, when everything in the query is well.
    Verdicts(Vec<Arc<Verdict>>),
    /// Data is missing that the answer needs.
    Unknown(Unknown),
    /// Nothing has the name; with the message.
    None(String),
}

/// A bad verdict needs only its own evidence. The answers that all is well, or that the pod does not exist, need
/// complete data.
fn answer(args: &WhyArgs, asked: Asked<'_>) -> Answer {
    let (world, at) = (asked.world, asked.at);
    let Some(query) = &args.pod else {
        let verdicts = all(world, at);
        let unknown = || unknown::nodes_alone(asked).or_else(|| unknown::every(asked));
        return match unknown() {
            Some(u) if verdicts.is_empty() => Answer::Unknown(u),
            _ => Answer::Verdicts(verdicts),
        };
    };
    let targets = diagnose::find(world, query);
    if targets.is_empty() {
        return pods::absence(query, asked).map_or_else(Answer::Unknown, Answer::None);
    }
    let verdicts = of_targets(world, &targets, at);
    if verdicts.iter().any(|v| is_bad(v)) {
        return Answer::Verdicts(verdicts);
    }
    let unknown = targets.iter().find_map(|target| match target {
        Target::Pod(p) => unknown::known(asked, p),
        Target::Owner(o, _) => unknown::known_owner(asked, &o.object),
        Target::Node(name, _) => unknown::known_node(asked, name).or_else(|| unknown::every(asked)),
    });
    unknown.map_or(Answer::Verdicts(verdicts), Answer::Unknown)
}

/// The exit status.
fn code(verdicts: &[Arc<Verdict>]) -> u8 {
    if verdicts.iter().any(|v| is_bad(v)) {
        VERDICT
    } else {
        OK
    }
}

fn written(
    out: &mut impl Write,
    args: &WhyArgs,
    verdicts: &[Arc<Verdict>],
    asked: Asked<'_>,
) -> io::Result<()> {
    let at = asked.at;
    let all = verdicts.iter().map(AsRef::as_ref);
    // All that is not well is there already, unless somebody asked about a part of it.
    let followers = || match &args.pod {
        Some(_) => diagnose::followers(asked.world, verdicts, at),
        None => Vec::new(),
    };
    if let Some(form) = args.output.rows() {
        let followers = followers();
        return why::rows(out, form, all, followers.iter().map(AsRef::as_ref), at);
    }
    let text = match args.output {
        Format::Name => {
            return names::of_verdicts(out, all, pods::within(asked, args.pod.as_deref()));
        }
        _ if verdicts.is_empty() => well::nothing(args, asked),
        form => {
            let followers = followers();
            let groups = why::groups_of(all, followers.iter().map(AsRef::as_ref));
            match form {
                Format::Markdown => {
                    let when = format!("As of {} UTC", date_and_clock(at, 0, 0));
                    let origin = origin(&when, &args.input);
                    format!("{}{origin}", why::markdown(&groups, at))
                }
                _ => {
                    let report = why::report(&groups, at, args.each);
                    report + &well::beside(args, asked, verdicts)
                }
            }
        }
    };
    out.write_all(text.as_bytes())
}

/// The last line of a text for a ticket: of which time it is, and of which recording.
fn origin(when: &str, input: &Input) -> String {
    let file = input
        .session
        .as_deref()
        .filter(|_| input.store.store.is_none());
    let name = file.and_then(Path::file_name).map(OsStr::to_string_lossy);
    let of = match (name, &input.store.store) {
        (Some(name), _) if name != "-" => format!(", of {}", escaped(&name)),
        (_, Some(_)) => ", of a store".to_owned(),
        _ => String::new(),
    };
    format!("\n{when}{of} (kflow {}).\n", env!("CARGO_PKG_VERSION"))
}

/// Completes the next steps of verdicts on a recording: commands of kflow name it, and what was ever not well of a pod
/// that is gone can be asked.
fn of_recording(input: &Input, at: Nanos, verdicts: &mut [Arc<Verdict>]) {
    if input.recording().is_none() {
        // What the agent of a node kept: of now, a command would say something else.
        let node = input.live.scope.node.as_ref();
        let node = node.map(|n| format!(" --node {}", quoted(n)));
        let node = node.unwrap_or_default();
        let flags = format!("{node} --at {}", at.to_rfc3339());
        for v in verdicts.iter_mut().filter(|_| input.session.is_none()) {
            name(&flags, Arc::make_mut(v));
        }
        return;
    }
    for v in verdicts {
        let v = Arc::make_mut(v);
        if v.state == State::Gone {
            v.next.push(NextStep {
                text: "what was ever not well".to_owned(),
                command: format!("kflow why --ever {}/{}", v.namespace, v.pod),
            });
        }
        name_recording(input, v);
    }
}

/// Makes commands of kflow among a verdict's next steps name the recording.
pub(super) fn name_recording(input: &Input, v: &mut Verdict) {
    if let Some(flags) = input.flags() {
        name(&flags, v);
    }
}

fn name(flags: &str, v: &mut Verdict) {
    for next in &mut v.next {
        next.command = next.of(flags);
    }
}

/// True for a trouble of now, and for one that is over and that somebody asks about.
fn is_bad(v: &Verdict) -> bool {
    // A claim that waits for its first pod is well, and is told with what it waits for.
    !v.state.is_well() || (v.cause.is_some() && v.state != State::Healthy)
}

/// The pods of a target that exist.
fn there<'t>(target: &'t Target<'_>) -> impl Iterator<Item = &'t Pod> {
    let pods = target.pods().iter().copied();
    pods.filter(|p| p.gone.is_none())
}

/// The verdict on each target: on the newest pod of a name; or on an owner, claim or node, and on those of its pods
/// that are not well.
fn of_targets(world: &World, targets: &[Target<'_>], now: Nanos) -> Vec<Arc<Verdict>> {
    let mut verdicts = Vec::new();
    for target in targets {
        verdicts.extend(target.verdict(world, now));
        match target {
            Target::Pod(_) => continue,
            Target::Owner(o, _) => verdicts.extend(diagnose::why_below(world, o, now)),
            Target::Node(..) => {}
        }
        let pods = there(target).filter_map(|p| diagnose::why(world, p, now));
        verdicts.extend(pods.filter(is_bad));
    }
    verdicts.into_iter().map(Arc::new).collect()
}

/// All verdicts on what is not well, worst first: nodes, owners, pods; then by state, then by age.
fn all(world: &World, now: Nanos) -> Vec<Arc<Verdict>> {
    let (pods, owners) = Diagnoser::new().update(world, now);
    let mut verdicts: Vec<Arc<Verdict>> = pods
        .values()
        .chain(owners.iter())
        .filter(|v| is_bad(v))
        .cloned()
        .collect();
    worst_first(&mut verdicts);
    verdicts
}

fn worst_first(verdicts: &mut [Arc<Verdict>]) {
    verdicts.sort_by(|a, b| {
        let kind = |v: &Verdict| match v.about() {
            Some(About::Node(_)) => 0,
            // A Job that has failed is over, as a failed pod is.
            None if v.state != State::Failed => 1,
            None | Some(About::Pod(_)) => 2,
        };
        let key = |v: &Verdict| (kind(v), v.state, v.since);
        key(a)
            .cmp(&key(b))
            .then_with(|| (&a.namespace, &a.pod, &a.uid).cmp(&(&b.namespace, &b.pod, &b.uid)))
    });
}

/// `kflow causes`
pub(super) fn catalogue(args: &CausesArgs) -> anyhow::Result<u8> {
    let catalogue = Catalogue::get();
    let one = match &args.id {
        None => None,
        Some(id) => match catalogue.find(&id.to_ascii_uppercase()) {
            Some(cause) => Some(cause),
            None => {
                no_such_cause(id, catalogue);
                return Ok(NO_SUCH);
            }
        },
    };
    let mut out = out::stdout();
    match (args.output.rows(), one) {
        (Some(form), one) => {
            let all = one.map_or_else(|| catalogue.iter().collect(), |c| vec![c]);
            causes::rows(&mut out, form, all)?;
        }
        (None, None) => out.write_all(causes::table(catalogue).as_bytes())?,
        (None, Some(cause)) => out.write_all(causes::entry(cause).as_bytes())?,
    }
    out.flush()?;
    Ok(OK)
}

fn no_such_cause(id: &str, catalogue: &Catalogue) {
    let near = suggest(id, catalogue.iter().map(|c| c.id.as_str()), |id| id);
    out::tell(&match near.as_slice() {
        [] => format!("no cause {id}: `kflow causes` lists them"),
        near => format!("no cause {id}: did you mean {}?", near.join(", ")),
    });
}
