//! Templates: they extract named values from a text, or make a text of named values.

use std::borrow::Cow;

use kflow_model::Text;
use serde::Deserialize;
use smallvec::SmallVec;

use super::needle::Needle;

/// A text with named places: `for volume "{volume}"`. Every `{…}` but `{}` is a name; its value ends where the
/// template's next text begins, or at the end of the message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Template {
    /// Pairs of the text before a name, and the name.
    parts: Vec<(Needle, Text)>,
    /// Text after the last name.
    last: Needle,
}

impl TryFrom<String> for Template {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("`{text}` leaves a brace open"))
    }
}

impl Template {
    /// Makes a template that is one name and nothing else.
    pub(super) fn name(name: &str) -> Self {
        Self {
            parts: vec![(Needle::default(), name.into())],
            last: Needle::default(),
        }
    }
    /// Parses a template; `None` when a brace is not closed.
    pub fn parse(text: &str) -> Option<Self> {
        let mut t = Self::default();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}')?;
            t.parts.push((before.into(), name.into()));
            rest = after;
        }
        t.last = rest.into();
        Some(t)
    }

    /// Returns the part of `text` at the place of `name`; `None` when the template lacks the name or does
    /// not fit the text.
    pub fn find<'t>(&self, name: &str, text: &'t str) -> Option<&'t str> {
        if !self.parts.iter().any(|(_, n)| n == name) {
            return None;
        }
        let names = self.names(text)?;
        names.iter().rfind(|(n, _)| *n == name).map(|(_, v)| *v)
    }

    /// Returns all names of the template with their values in `text`; `None` when the template does not fit the text.
    pub fn names<'s, 't>(&'s self, text: &'t str) -> Option<SmallVec<[(&'s str, &'t str); 4]>> {
        let mut rest = text;
        let (first, _) = self.parts.first()?;
        if !first.is_empty() {
            rest = first.split(rest)?.1;
        }
        let mut found = SmallVec::new();
        for (i, (_, this)) in self.parts.iter().enumerate() {
            let after = self.parts.get(i + 1).map_or(&self.last, |(text, _)| text);
            let (value, tail) = if after.is_empty() {
                (rest, "")
            } else {
                after.split(rest)?
            };
            found.push((this.as_str(), value));
            rest = tail;
        }
        Some(found)
    }

    /// Returns the template with its names filled in; `None` when a value is unknown. A template of one name alone
    /// borrows the value.
    pub fn fill<'t>(&self, known: impl Fn(&str) -> Option<&'t str>) -> Option<Cow<'t, str>> {
        if let [(before, name)] = self.parts.as_slice()
            && before.is_empty()
            && self.last.is_empty()
        {
            return known(name).map(Cow::Borrowed);
        }
        let mut out = String::new();
        for (before, name) in &self.parts {
            out.push_str(before.as_str());
            out.push_str(known(name)?);
        }
        out.push_str(self.last.as_str());
        Some(Cow::Owned(out))
    }
}
