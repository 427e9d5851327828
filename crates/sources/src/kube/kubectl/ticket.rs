//! What else a ticket holds around that which kubectl printed: prompts, headings, code blocks and quotations.

use std::iter::successors;

use super::command::Command;
use super::line::is_titles;
use super::wrapped::is_key;

/// Signs that end a prompt.
const SIGNS: [char; 10] = ['$', '#', '%', '>', '❯', '➜', '✗', 'λ', '▶', '»'];
/// Signs that are a prompt of their own. `>` is a quotation, and `#` a heading too.
const MARKS: [&str; 7] = ["$", "%", "❯", "➜", "λ", "▶", "»"];
/// Most words of a prompt.
const WORDS: usize = 4;

/// What begins at a line, other than what kubectl prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// A command at a prompt, or the prompt alone.
    Prompt,
    /// A heading of Markdown, a comment, or a command of root's at a bare `#`.
    Heading,
    /// A mark of what was left out, or a prompt of a sign and little else.
    Mark,
}

/// Marks of what was left out.
const LEFT_OUT: [&str; 7] = ["…", "[...]", "[…]", "(...)", "<...>", "<snip>", "[snip]"];

/// Returns what begins at a line, unless it is a command of kubectl ([`super::Command`]).
pub(super) fn begins_other_text(line: &str) -> Option<Other> {
    // The first line of a prompt of two.
    if line.trim_start().starts_with(['┌', '╭']) || splits(line).any(is_prompt) {
        return Some(Other::Prompt);
    }
    let text = line.trim();
    let is_bare = text.ends_with(['$', '#', '%', '❯']) && text.split_whitespace().count() <= 2;
    let is_of_dots = text.len() > 1 && text.bytes().all(|b| b == b'.');
    if is_of_dots || is_remark(text) || LEFT_OUT.contains(&text) || is_bare || text == "^C" {
        return Some(Other::Mark);
    }
    let (first, rest) = text.split_once(' ')?;
    let is_heading = (1..=6).contains(&first.len()) && first.bytes().all(|b| b == b'#');
    (is_heading && !rest.trim().is_empty()).then_some(Other::Heading)
}

/// True for words in brackets that somebody put into what was printed: `[large pause]`.
fn is_remark(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let is_word = |b: u8| b.is_ascii_alphabetic() || b == b' ';
    inside.is_some_and(|t| t.contains(' ') && t.bytes().all(is_word))
}

/// Begin or end of a code block.
pub(super) fn is_fence(line: &str) -> bool {
    let text = line.trim();
    text.starts_with("```") || text.starts_with("~~~")
}

/// Returns a line of a quotation, or of one within another, without the marks of that.
pub(super) fn unquoted(line: &str) -> &str {
    successors(Some(line), |text| within(text))
        .last()
        .unwrap_or(line)
}

fn within(quoted: &str) -> Option<&str> {
    let inner = quoted.strip_prefix('>')?;
    Some(inner.strip_prefix(' ').unwrap_or(inner))
}

/// Returns each way to read a line as what may be a prompt, and what stands behind it; first no prompt at all.
pub(super) fn splits(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let line = line.trim();
    let rests = successors(Some(line), |rest| after_word(rest)).take(WORDS + 1);
    let by_words = rests.filter_map(move |rest| {
        let (front, rest) = line.split_at_checked(line.len() - rest.len())?;
        Some((front.trim_end(), rest))
    });
    by_words.chain(of_windows(line))
}

fn after_word(text: &str) -> Option<&str> {
    let (_, after) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (!text.is_empty()).then(|| after.trim_start())
}

/// True for words that end as a prompt does.
pub(super) fn ends_prompt(front: &str) -> bool {
    front.ends_with(SIGNS) || front.starts_with('➜')
}

/// Splits `C:\Users>dir` and `PS C:\> dir`.
fn of_windows(line: &str) -> Option<(&str, &str)> {
    let path = line.strip_prefix("PS ").unwrap_or(line);
    let (drive, rest) = path.split_once(":\\")?;
    let is_drive = drive.len() == 1 && drive.bytes().all(|b| b.is_ascii_alphabetic());
    let (_, command) = rest.split_once('>').filter(|_| is_drive)?;
    let (front, _) = line.split_at_checked(line.len() - command.len())?;
    Some((front, command.trim_start()))
}

/// True for a prompt: what ends with the sign of one, and is that sign alone, a shell with its release, or names a user or a
/// folder.
pub(super) fn is_prompt((front, command): (&str, &str)) -> bool {
    let mark = front.trim_start_matches(['└', '╰', '─']);
    if MARKS.contains(&mark) {
        return !command.is_empty();
    }
    if !front.ends_with(SIGNS) {
        return false;
    }
    let words: Vec<&str> = front.split_whitespace().collect();
    let of_shell = || {
        let (shell, release) = front.split_once("sh-").unwrap_or_default();
        let of_release = |c: char| c.is_ascii_digit() || c == '.' || SIGNS.contains(&c);
        matches!(shell, "" | "ba" | "z" | "da")
            && !release.is_empty()
            && release.chars().all(of_release)
    };
    // `/ # ls`, as in a container.
    let in_container = || matches!(words.as_slice(), [path, "#" | "$"] if path.starts_with('/'));
    let of_drive = || of_windows(front).is_some();
    of_shell() || in_container() || of_drive() || words.iter().any(|w| is_place(w))
}

/// True for a user with a host, or a folder, as they stand in a prompt.
fn is_place(word: &str) -> bool {
    let word = word.trim_matches(|c| SIGNS.contains(&c) || "[](){}*".contains(c));
    let of_user = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let is_user = |(user, host): (&str, &str)| {
        !user.is_empty() && !host.is_empty() && user.chars().all(of_user)
    };
    let path = word.rsplit_once(':').map_or(word, |(_, path)| path);
    let is_home = path == "~" || path.starts_with("~/");
    let is_folder = path.len() < word.len() && path.starts_with('/') && !path.starts_with("//");
    is_home || is_folder || word.split_once('@').is_some_and(is_user)
}

/// Keys in a row that prose does not have.
const KEYS: usize = 3;

/// True for a text that has a command of kubectl, titles of a table or lines of a description, whether or not they are read.
pub fn resembles_printed(text: &str) -> bool {
    let mut keys = 0;
    text.lines().map(unquoted).any(|line| {
        // YAML has one blank behind a key.
        let is_of_description = is_key(line.trim()) && !line.trim_end().ends_with(':');
        keys = if is_of_description { keys + 1 } else { 0 };
        keys >= KEYS || is_titles(line.trim()) || Command::of(line).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_text_begins_at_a_prompt_or_a_heading() {
        use Other::{Heading, Mark, Prompt};
        for (line, is) in [
            ("$ journalctl -u containerd | tail -5", Some(Prompt)),
            ("root@node-3:~# systemctl status kubelet", Some(Prompt)),
            ("[root@master-0 ~]# ssh other dmesg", Some(Prompt)),
            ("[root@master-0 ~]#", Some(Prompt)),
            ("me@mac ~ % date", Some(Prompt)),
            ("(base) me@mac src % date", Some(Prompt)),
            ("host:~ me$ date", Some(Prompt)),
            ("node1:/etc # date", Some(Prompt)),
            ("PS C:\\> Get-Date", Some(Prompt)),
            ("C:\\Program Files>dir", Some(Prompt)),
            ("~/src main* ❯ date", Some(Prompt)),
            ("me@host ~/s/app (main) [SIGINT]> date", Some(Prompt)),
            ("➜  app git:(main) ✗ date", Some(Prompt)),
            ("┌──(me㉿kali)-[~]", Some(Prompt)),
            ("└─$ date", Some(Prompt)),
            ("sh-4.4# chroot /host", Some(Prompt)),
            ("/ # ls", Some(Prompt)),
            ("  $ indented", Some(Prompt)),
            ("## Environment", Some(Heading)),
            ("# dmesg | tail", Some(Heading)),
            ("#12 in the list", None),
            ("$", Some(Mark)),
            ("(venv) $", Some(Mark)),
            ("[node1 kubelabs]$", Some(Mark)),
            ("^C", Some(Mark)),
            ("  [...]", Some(Mark)),
            ("…", Some(Mark)),
            ("... 12 more", None),
            ("admin@example.com wrote", None),
            ("<bob@example.com> wrote", None),
            ("error: $ is not a name", None),
            ("http://10.0.0.1:8080/healthz 50% of", None),
            ("took ~5 s, 80% of it", None),
            ("Output: 100% done", None),
            ("reg/app@sha256:0a1b 50% pulled", None),
            ("", None),
        ] {
            assert_eq!(begins_other_text(line), is, "{line}");
        }
    }

    #[test]
    fn a_quotation_of_a_quotation_is_read() {
        for (line, want) in [
            ("> Name:  a", "Name:  a"),
            (">Name:  a", "Name:  a"),
            ("> >   Node:", "  Node:"),
            (">> a", "a"),
            (">", ""),
            ("a > b", "a > b"),
        ] {
            assert_eq!(unquoted(line), want);
        }
    }
}
