//! How often each message of a failure was reported.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::hash::Hasher;

use rustc_hash::FxHasher;

use kflow_model::{Body, Evidence, Nanos, stamp::SECOND};

/// The counts of a failure's messages. An Event counts itself: its object's count is of that object alone.
#[derive(Clone, Debug, Default)]
pub struct Tally<'a>(Vec<Counted<'a>>);

#[derive(Clone, Debug)]
struct Counted<'a> {
    /// Name of the Event object; empty for what is no Event.
    name: &'a str,
    text: Cow<'a, str>,
    /// A hash of the words of `text`, once it was asked for: most messages are told apart, or found again, without it.
    words: OnceCell<u64>,
    count: u32,
    at: Nanos,
}

impl Counted<'_> {
    fn words(&self) -> u64 {
        *self.words.get_or_init(|| words(&self.text))
    }
}

impl<'a> Tally<'a> {
    /// Adds a report of a message, which counts as `count`, and returns how many more occurrences that makes.
    pub fn add(&mut self, o: &'a Evidence, text: Cow<'a, str>, count: u32) -> u32 {
        if count == 0 {
            return 0;
        }
        let (name, is_event) = match &o.body {
            Body::Event(e) => (e.name.as_str(), true),
            _ => ("", false),
        };
        let at = o.stamp.at;
        let new = Counted {
            name,
            text,
            words: OnceCell::new(),
            count,
            at,
        };
        let known = |c: &&mut Counted<'_>| !name.is_empty() && c.name == name;
        // One object has one message (client-go, tools/record/events_cache.go, `getEventKey`) unless it combines several: one
        // with the same message is made when the recorder has forgotten the first, or is that one in another list.
        let worded =
            |c: &&mut Counted<'_>| c.text == new.text || (!is_event && c.words() == new.words());
        let (old, again) = match self.0.iter_mut().find(known) {
            Some(old) => (old, false),
            None => match self.0.iter_mut().find(worded) {
                Some(old) => {
                    let again = at.since(old.at) > SECOND / 2;
                    (old, again)
                }
                None => {
                    self.0.push(new);
                    return count;
                }
            },
        };
        let before = old.count;
        let count = before.saturating_add(u32::from(again)).max(count);
        *old = Counted { count, ..new };
        count - before
    }
    /// Returns how often a message was reported, with whatever numbers and identifiers.
    pub fn of(&self, text: &str) -> u32 {
        let said = OnceCell::new();
        let is_it =
            |c: &&Counted<'_>| c.text == text || c.words() == *said.get_or_init(|| words(text));
        let counts = self.0.iter().filter(is_it).map(|c| c.count);
        counts.fold(0, u32::saturating_add)
    }
}

/// Returns a hash of a message's words without numbers and identifiers: these change from one occurrence to the next.
fn words(text: &str) -> u64 {
    let mut hasher = FxHasher::default();
    let words = text
        .as_bytes()
        .split(|b| b.is_ascii() && !b.is_ascii_alphanumeric());
    for word in words.filter(|w| !w.iter().any(u8::is_ascii_digit)) {
        hasher.write(word);
    }
    hasher.finish()
}
