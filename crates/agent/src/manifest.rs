//! What an installation is made of: one text, of which what is applied and what is printed are made. Pure.

/// What may differ between installations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub namespace: String,
    pub image: String,
}

/// What cannot be written into a manifest.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// `metav1.ObjectMeta` takes none of this name.
    #[error("{0:?} is no name of a namespace: lower-case letters, digits and -")]
    Namespace(String),
    /// A reference has no blanks, quotes or line ends.
    #[error("{0:?} is no image: name one like registry.example/kflow:0.1.0")]
    Image(String),
}

/// The manifest as YAML, with the reason for each right as a comment.
pub fn yaml(wanted: &Wanted) -> Result<String, Error> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let namespace = &wanted.namespace;
    if namespace.is_empty()
        || namespace.len() > 63
        || !namespace.chars().all(is_name)
        || namespace.starts_with('-')
        || namespace.ends_with('-')
    {
        return Err(Error::Namespace(namespace.clone()));
    }
    // `distribution/reference`: path, tag and digest.
    let is_reference = |c: char| c.is_ascii_alphanumeric() || "._-/:@+".contains(c);
    let image = &wanted.image;
    if !image.starts_with(|c: char| c.is_ascii_alphanumeric())
        || !image.chars().all(is_reference)
        || image.ends_with(':')
    {
        return Err(Error::Image(image.clone()));
    }
    Ok(include_str!("agent.yaml")
        .replace("@NAMESPACE@", namespace)
        .replace("@IMAGE@", image)
        .replace("@VERSION@", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(namespace: &str, image: &str) -> Wanted {
        Wanted {
            namespace: namespace.to_owned(),
            image: image.to_owned(),
        }
    }

    #[test]
    fn names_are_put_in_everywhere() {
        let text = yaml(&wanted("tools", "127.0.0.1:5000/kflow@sha256:00")).unwrap();
        assert!(text.contains("image: 127.0.0.1:5000/kflow@sha256:00\n"));
        assert_eq!(text.matches("namespace: tools\n").count(), 4);
        assert!(
            !text.contains('@') || text.matches('@').count() == 1,
            "{text}"
        );
    }

    #[test]
    fn nothing_else_can_be_written_into_it() {
        for bad in ["", "-", "a b", "A", "a\nkind: x", &"a".repeat(64)] {
            assert!(yaml(&wanted(bad, "kflow:1")).is_err(), "{bad}");
        }
        for bad in ["", "a b", "a\nx", ":1", "kflow:", "\"x\""] {
            assert!(yaml(&wanted("kflow", bad)).is_err(), "{bad}");
        }
    }
}
