//! A text to search for in many others.

use kflow_model::Text;
use memchr::memmem::Finder;
use serde::Deserialize;

/// A search text with its prepared searcher: preparing one takes longer than a search.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "String")]
pub struct Needle {
    text: Text,
    finder: Finder<'static>,
}

impl Needle {
    pub fn as_str(&self) -> &str {
        &self.text
    }
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
    pub fn is_in(&self, text: &str) -> bool {
        self.find(text).is_some()
    }
    /// Returns where the first occurrence begins.
    pub fn find(&self, text: &str) -> Option<usize> {
        self.finder.find(text.as_bytes())
    }
    /// Returns the parts of `text` before and after the first occurrence.
    pub fn split<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let at = self.find(text)?;
        Some((text.get(..at)?, text.get(at + self.text.len()..)?))
    }
}

impl From<&str> for Needle {
    fn from(text: &str) -> Self {
        Self {
            text: text.into(),
            finder: Finder::new(text).into_owned(),
        }
    }
}
impl From<String> for Needle {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}
impl Default for Needle {
    fn default() -> Self {
        "".into()
    }
}

impl PartialEq for Needle {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}
impl Eq for Needle {}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn it_is_found_where_a_text_is_split_at_it(n in "[ab\"é]{0,3}", text in "[ab\"é]{0,12}") {
            let needle = Needle::from(n.as_str());
            proptest::prop_assert_eq!(needle.is_in(&text), text.contains(&n));
            proptest::prop_assert_eq!(needle.split(&text), text.split_once(&n));
        }
    }
}
