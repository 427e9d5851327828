//! Handles the prompts: palette, filter, time, note.

use crossterm::event::KeyCode;

use crate::action::{Action, Command, KeyScope};
use crate::filter::Filter;
use crate::keys::Key;
use crate::model::{Effect, Model, Overlay, Prompt, PromptKind};
use crate::pane::{Pane, PaneId};
use crate::text::count;
use kflow_core::flow::map::Map;
use kflow_core::query::{Candidate, Field, complete, explain, parse};
use kflow_core::suggest::suggest;
use kflow_engine::Snapshot;
use kflow_model::cri::method;
use nucleo_matcher::pattern::{CaseMatching, Normalization, Pattern};
use nucleo_matcher::{Config, Matcher, Utf32Str};

impl Model {
    /// Opens a prompt.
    pub(super) fn open(&mut self, kind: PromptKind, snap: &Snapshot) {
        let before = match kind {
            PromptKind::Filter => {
                let set = self.pane(self.focus).and_then(|p| p.filter());
                set.unwrap_or_default().to_owned()
            }
            _ => String::new(),
        };
        let mut p = Prompt {
            kind,
            at: before.chars().count(),
            text: before.clone(),
            candidates: Vec::new(),
            chosen: None,
            hint: Ok(String::new()),
            shown: before.clone(),
            before,
        };
        self.refresh(&mut p, snap);
        self.overlays.push(Overlay::Prompt(p));
    }
    /// Handles a key in a prompt.
    pub(super) fn prompt_key(&mut self, key: Key, snap: &Snapshot) -> Vec<Effect> {
        let Some(Overlay::Prompt(mut p)) = self.overlays.pop() else {
            return Vec::new();
        };
        let mut changed = true;
        match key.code {
            KeyCode::Esc => {
                if p.kind == PromptKind::Filter {
                    let before = p.before.clone();
                    self.set_filter(&before);
                    self.sync(snap);
                }
                return Vec::new();
            }
            KeyCode::Char('c') if key.ctrl => return Vec::new(),
            KeyCode::Enter => match self.refused(&p) {
                None => return self.accept(&p, snap),
                Some(why) => {
                    p.hint = Err(why);
                    changed = false;
                }
            },
            KeyCode::Tab | KeyCode::Down => {
                changed = false;
                choose(&mut p, true);
            }
            KeyCode::BackTab | KeyCode::Up => {
                changed = false;
                if p.kind == PromptKind::Palette && p.text.is_empty() && p.chosen.is_none() {
                    if let Some(last) = self.history.last() {
                        p.text.clone_from(last);
                        p.at = p.text.chars().count();
                        changed = true;
                    }
                } else {
                    choose(&mut p, false);
                }
            }
            KeyCode::Left => {
                p.at = p.at.saturating_sub(1);
                changed = false;
            }
            KeyCode::Right => {
                p.at = (p.at + 1).min(p.text.chars().count());
                changed = false;
            }
            KeyCode::Home => p.at = 0,
            KeyCode::End => p.at = p.text.chars().count(),
            KeyCode::Char('a') if key.ctrl => p.at = 0,
            KeyCode::Char('e') if key.ctrl => p.at = p.text.chars().count(),
            KeyCode::Char('u') if key.ctrl => {
                p.text = p.text.chars().skip(p.at).collect();
                p.at = 0;
            }
            KeyCode::Char('w') if key.ctrl => {
                let head: String = p.text.chars().take(p.at).collect();
                let kept = head.trim_end().rfind(' ').map_or(0, |i| i + 1);
                let tail: String = p.text.chars().skip(p.at).collect();
                let head = head.get(..kept).unwrap_or("").to_owned();
                p.at = head.chars().count();
                p.text = head + &tail;
            }
            KeyCode::Backspace if p.text.is_empty() => return Vec::new(),
            KeyCode::Backspace if p.at > 0 => {
                p.at -= 1;
                remove(&mut p.text, p.at);
            }
            KeyCode::Delete => remove(&mut p.text, p.at),
            KeyCode::Char(c) if !key.ctrl && !key.alt && p.text.chars().count() < 500 => {
                let mut chars: Vec<char> = p.text.chars().collect();
                chars.insert(p.at.min(chars.len()), c);
                p.text = chars.into_iter().collect();
                p.at += 1;
            }
            _ => changed = false,
        }
        if changed {
            p.chosen = None;
            self.refresh(&mut p, snap);
            if p.kind == PromptKind::Filter && p.hint.is_ok() {
                self.preview(&mut p, snap);
            }
        }
        self.overlays.push(Overlay::Prompt(p));
        Vec::new()
    }
    /// Applies the filter that is typed so far. If it matches nothing and may be unfinished, the last filter that
    /// matched something stays applied.
    fn preview(&mut self, p: &mut Prompt, snap: &Snapshot) {
        let typed = Filter::typed(&p.text);
        let words = self.pane(self.focus).and_then(Pane::filter_hint).is_some();
        let typed = if words { p.text.clone() } else { typed };
        self.set_filter(&typed);
        self.sync(snap);
        let found = self.pane(self.focus).and_then(Pane::matches);
        let why = (found == Some(0))
            .then(|| self.mistaken(&p.text, snap))
            .flatten();
        if found == Some(0) && Filter::parse(&p.text).is_ok_and(|f| f.may_go_on()) {
            let mut hint = match p.shown.as_str() {
                "" => "nothing matches yet: everything is shown".to_owned(),
                shown => format!("nothing matches yet: shown is {shown}"),
            };
            if let Some(why) = why {
                hint.push_str(&format!("; {why}"));
            }
            p.hint = Err(hint);
            let shown = p.shown.clone();
            self.set_filter(&shown);
            self.sync(snap);
        } else if let Some(why) = why {
            p.shown = typed;
            p.hint = Err(why);
        } else {
            p.shown = typed;
            if let (Some(n), Ok(hint)) = (found.filter(|_| !p.text.is_empty()), &mut p.hint) {
                *hint = format!("{} match   {hint}", count(n));
            }
        }
    }
    /// Returns why a filter is not taken: with it the pane would look as if there were nothing.
    fn refused(&self, p: &Prompt) -> Option<String> {
        let none = self.pane(self.focus).and_then(Pane::matches) == Some(0);
        (p.kind == PromptKind::Filter && none)
            .then(|| no_field(&p.text))
            .flatten()
    }
    /// Returns what is likely wrong with a filter that matches nothing: a field or a method that does not exist.
    fn mistaken(&self, text: &str, snap: &Snapshot) -> Option<String> {
        if let Some(why) = no_field(text) {
            return Some(why);
        }
        let query = parse(text).ok()?;
        let wanted = *query.exact(Field::Method).first()?;
        let known = self.pane(self.focus)?.known(Field::Method, snap);
        let all = known.iter().map(String::as_str);
        let mut all: Vec<&str> = all.chain(method::ALL.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        // A name that is not typed to its end yet is no mistake.
        let begins = |m: &&str| m.to_lowercase().starts_with(&wanted.to_lowercase());
        if all.iter().any(begins) {
            return None;
        }
        let near = suggest(wanted, all, |m| m);
        Some(match near.first() {
            Some(m) => format!("no method {wanted}: did you mean {m}?"),
            None => format!("no method {wanted}"),
        })
    }
    fn accept(&mut self, p: &Prompt, snap: &Snapshot) -> Vec<Effect> {
        match p.kind {
            PromptKind::Filter => {
                self.set_filter(&p.text);
                self.sync(snap);
                Vec::new()
            }
            PromptKind::Seek => {
                let effects = self.seek(&p.text, snap);
                self.depart(&effects);
                effects
            }
            PromptKind::Note if p.text.trim().is_empty() => Vec::new(),
            PromptKind::Note => self.run(
                &Command {
                    action: Action::Note,
                    arg: p.text.trim().to_owned(),
                },
                snap,
            ),
            PromptKind::Palette => {
                let typed = Command::parse(&p.text);
                // Enter takes a completion only if the user chose it, or if the typed text fits it. Otherwise Enter
                // in an empty palette would run the first command of the list, which may be to quit.
                let begun = p.text.trim();
                let proposed = || {
                    let c = match p.chosen {
                        Some(n) => p.candidates.get(n)?,
                        None => p
                            .candidates
                            .first()
                            .filter(|c| !begun.is_empty() && fits(begun, &c.text))?,
                    };
                    Command::parse(&c.text)
                };
                match typed.or_else(proposed) {
                    Some(c) => {
                        self.history.push(p.text.clone());
                        self.run(&c, snap)
                    }
                    None => {
                        if !p.text.trim().is_empty() {
                            self.complain(format!("there is no command \"{}\"", p.text.trim()));
                        }
                        Vec::new()
                    }
                }
            }
        }
    }
    /// Updates completions and hint for the current text.
    pub(super) fn refresh(&self, p: &mut Prompt, snap: &Snapshot) {
        match p.kind {
            PromptKind::Palette => {
                p.candidates = palette(&p.text, self);
                p.hint = Ok(match Command::parse(&p.text) {
                    Some(c) => c.action.help().to_owned(),
                    None => String::new(),
                });
            }
            PromptKind::Filter => {
                let pane = self.pane(self.focus);
                // What is typed after / never runs commands, even where there is nothing to filter.
                if pane.and_then(|x| x.filter()).is_none() {
                    p.candidates = Vec::new();
                    p.hint = Err(format!("{} has no filter (esc)", self.focus.name()));
                    return;
                }
                if let Some(hint) = pane.and_then(Pane::filter_hint) {
                    p.candidates = Vec::new();
                    p.hint = Ok(hint.to_owned());
                    return;
                }
                let known = |f| pane.map(|x| x.known(f, snap)).unwrap_or_default();
                p.candidates = if p.text.is_empty() || p.text.starts_with("-l") {
                    Vec::new()
                } else {
                    complete(&p.text, &known)
                };
                p.hint = match Filter::parse(&p.text) {
                    Err(e) => Err(e),
                    Ok(_) if p.text.is_empty() => Ok(match self.focus {
                        // Only pods have labels.
                        PaneId::Pods => "word   !inverse   -l app=web   /regex/   ns:shop !ready",
                        _ => "word   !inverse   /regex/   pod:web* dur>2s !ok",
                    }
                    .to_owned()),
                    Ok(_) if p.text.starts_with("-l") => {
                        Ok("labels: app=web  tier!=db  app  !app  (commas between)".to_owned())
                    }
                    Ok(_) => Ok(explain(&p.text).unwrap_or_default()),
                };
            }
            PromptKind::Seek => {
                p.hint = Ok("12:00:05   +3s   -1m   40%   start   end".to_owned());
            }
            PromptKind::Note => {
                let at = self.shared.time(snap).at(self.shared.at(snap), 1, 3);
                p.hint = Ok(format!("a note at {at}"));
            }
        }
    }
}

/// Returns what is wrong with a filter that names a field which does not exist. Text with such a name is not read as an expression.
fn no_field(text: &str) -> Option<String> {
    let name = text.trim_start_matches(['!', '-']);
    let (name, _) = name.split_at(name.find([':', '='])?);
    let is_word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic());
    is_word
        .then(|| parse(&text.replacen('=', ":", 1)).err())?
        .map(|e| e.to_string())
}

/// Returns true if a command may be run for a typed text: to quit, the text has to be the beginning
/// of the command's name.
fn fits(typed: &str, command: &str) -> bool {
    command != Action::Quit.name() || command.starts_with(typed)
}

fn remove(text: &mut String, at: usize) {
    let mut chars: Vec<char> = text.chars().collect();
    if at < chars.len() {
        chars.remove(at);
        *text = chars.into_iter().collect();
    }
}

/// Replaces the text with the next or the previous completion.
fn choose(p: &mut Prompt, forward: bool) {
    let n = p.candidates.len();
    if n == 0 {
        return;
    }
    let next = match (p.chosen, forward) {
        (None, true) => 0,
        (None, false) => n - 1,
        (Some(i), true) => (i + 1) % n,
        (Some(i), false) => (i + n - 1) % n,
    };
    p.chosen = Some(next);
    if let Some(c) = p.candidates.get(next) {
        p.text.clone_from(&c.text);
        p.at = p.text.chars().count();
    }
}

/// Returns the commands that match the text, best first.
fn palette(text: &str, model: &Model) -> Vec<Candidate> {
    if let Some(("theme", arg)) = text.trim_start().split_once(' ') {
        return crate::theme::BUILT_IN
            .iter()
            .filter(|(n, _)| n.starts_with(arg.trim()))
            .map(|(n, _)| Candidate {
                text: format!("theme {n}"),
                label: (*n).to_owned(),
                help: "theme".to_owned(),
            })
            .collect();
    }
    if text.trim_start().contains(' ') {
        return Vec::new();
    }
    let pattern = Pattern::parse(text.trim(), CaseMatching::Ignore, Normalization::Smart);
    let mut matcher = Matcher::new(Config::DEFAULT);
    let mut buf = Vec::new();
    // What a command is called decides before what it does, of which the typed text has to be a part.
    let begun = text.trim().to_lowercase();
    let mut found: Vec<(u32, &Action)> = Action::ALL
        .iter()
        .filter_map(|a| {
            let name = pattern.score(Utf32Str::new(a.name(), &mut buf), &mut matcher);
            let told = begun.chars().count() >= 3 && a.help().to_lowercase().contains(&begun);
            Some((name.or(told.then_some(0))?, a))
        })
        .collect();
    // Of equal matches, commands of the focused pane come first, and quitting last.
    let likely = |a: Action| match a.scope() {
        KeyScope::Pane(p) if p == model.focus => 0,
        _ if a == Action::Quit => 4,
        _ if PaneId::of(a).is_some() => 2,
        KeyScope::Global => 1,
        KeyScope::List | KeyScope::Pane(_) => 3,
    };
    found.sort_by_key(|(s, a)| (std::cmp::Reverse(*s), likely(**a)));
    let commands = found.into_iter().map(|(_, a)| Candidate {
        text: a.name().to_owned(),
        label: a.name().to_owned(),
        help: match model.keys.text(*a) {
            k if k.is_empty() => a.help().to_owned(),
            k => format!("{}  [{k}]", a.help()),
        },
    });
    // A step is found by its id or its function.
    let map = Map::active();
    let step = map
        .step(&begun)
        .or_else(|| map.step_by_function(text.trim()));
    let step = step.map(|(_, s)| Candidate {
        text: format!("{} {}", Action::PaneFlow.name(), s.id),
        label: s.id.to_string(),
        help: format!("{}: {}", s.function, s.label),
    });
    step.into_iter().chain(commands).collect()
}
