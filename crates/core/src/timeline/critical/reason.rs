//! What a long error says at its end: why.

/// Longest reason, characters.
const LONGEST: usize = 100;
/// A shorter end of an error says only how it failed (`not found`), and not of what, words.
const FEW: usize = 4;

/// Returns the end of an error that says why: `configmap "app" not found` of `MountVolume.SetUp failed for volume "v" …
/// : configmap "app" not found`. Who failed, and whom it called, stands before.
pub(super) fn of(error: &str) -> String {
    let error = error.replace("\\\"", "\"");
    let mut parts = error.rsplit(": ");
    let mut reason = parts.next().unwrap_or_default().trim().to_owned();
    if reason.split_whitespace().count() < FEW
        && let Some(of) = parts.next()
    {
        reason = format!("{}: {reason}", of.trim());
    }
    // What is left of the quotes and lists around the error.
    let odd = |text: &str| text.matches('"').count() % 2 == 1;
    let open = |text: &str| text.matches('[').count() < text.matches(']').count();
    while match reason.chars().next_back() {
        Some('"') => odd(&reason) || reason.starts_with('"'),
        Some(']') => open(&reason),
        last => matches!(last, Some('.' | ' ')),
    } {
        reason.pop();
        if odd(&reason) && reason.starts_with('"') {
            reason.remove(0);
        }
    }
    if reason.chars().count() > LONGEST {
        reason = reason.chars().take(LONGEST).collect::<String>() + "…";
    }
    reason
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_end_of_an_error_says_why() {
        for (error, why) in [
            (
                r#"MountVolume.SetUp failed for volume "v" (UniqueName: "kubernetes.io/configmap/87fa-v") pod "cm-missing" (UID: "87fa") : configmap "not-there" not found"#,
                r#"configmap "not-there" not found"#,
            ),
            (
                r#"failed to "StartContainer" for "c" with CreateContainerConfigError: "secret \"not-there\" not found""#,
                r#"secret "not-there" not found"#,
            ),
            (
                r#"Failed to pull image "127.0.0.1:5000/nope:1": rpc error: code = NotFound desc = failed to resolve image: 127.0.0.1:5000/nope:1: not found"#,
                "127.0.0.1:5000/nope:1: not found",
            ),
            (
                r#"failed to get sandbox runtime: no runtime for "nosuch" is configured"#,
                r#"no runtime for "nosuch" is configured"#,
            ),
            (
                r#"Back-off pulling image "127.0.0.1:5000/nope:1""#,
                r#"Back-off pulling image "127.0.0.1:5000/nope:1""#,
            ),
            ("", ""),
        ] {
            assert_eq!(super::of(error), why);
        }
        assert_eq!(super::of(&"a".repeat(1000)).chars().count(), 101);
    }
}
