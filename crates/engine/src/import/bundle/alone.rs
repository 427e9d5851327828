//! Files that were given by themselves: whatever somebody was sent, under any name.

use std::io::{self, BufReader};

use super::super::plain::{heading, plain};
use super::super::{Kind, moment, recognise, yaml};
use super::content::{self, Content, Survey};
use super::ticket::{self, Ticket};
use kflow_model::{Nanos, units::counted};
use kflow_sources::kube::decode::{begins_outputs, embedded, joined, outputs, resembles_printed};

use super::{About, Candidate, Finder, Left, What, archive};

/// Largest text that may be a paste, bytes: nobody copies more out of a terminal.
const LONGEST_PASTE: u64 = 1 << 20;

impl Finder {
    /// Examines a file that was given by itself. Its name need promise nothing if its content says what it is.
    pub(super) fn alone(&mut self, candidate: Candidate) -> io::Result<()> {
        let candidate = self.as_printed(&candidate)?.unwrap_or(candidate);
        match What::of(&candidate.name, &candidate.raw) {
            What::Archive(_) => self.begin(candidate.name.clone()),
            What::JournalFile | What::Sections | What::Text(_) => self.bundle = 0,
        }
        let strange = self.printed(candidate)?;
        self.strange.extend(strange);
        Ok(())
    }

    /// Examines a text, wherever it is, as it was printed. Returns it where nothing in it is known.
    pub(super) fn text(&mut self, candidate: Candidate) -> io::Result<Option<Left>> {
        let candidate = self.as_printed(&candidate)?.unwrap_or(candidate);
        self.printed(candidate)
    }

    fn printed(&mut self, candidate: Candidate) -> io::Result<Option<Left>> {
        let begin = archive::begin_of(&candidate.raw);
        let (kind, why) = match What::of(&candidate.name, &candidate.raw) {
            What::Text(Content::Capture(kind)) => (Some(kind), None),
            What::Text(Content::Other(why)) => (content::of_itself(&begin), why),
            // Another program's log begins its lines as a journal does.
            What::Text(Content::Journal) if !is_of_a_component(&candidate)? => {
                (content::of_itself(&begin), None)
            }
            // The output of mount has no header of klog or logrus.
            What::Text(Content::Journal)
                if ticket::has_no_header(&begin) && self.ticket(&candidate)? =>
            {
                return Ok(None);
            }
            what => return self.take_what(candidate, what, 0).map(|()| None),
        };
        let is_ticket = match kind {
            None => recognise::may_be_ticket(&begin) && candidate.size <= ticket::LARGEST,
            Some(Kind::Watch) => !is_whole(&candidate)?,
            Some(_) => false,
        };
        if is_ticket && self.ticket(&candidate)? {
            return Ok(None);
        }
        if let Some(kind) = kind {
            self.capture(candidate, kind);
            return Ok(None);
        }
        Ok(Some(Left {
            name: candidate.name,
            why: recognise::unnamed(&begin).or(why).unwrap_or_default(),
        }))
    }

    /// Returns a pasted text as it was printed, without what it went through and with its lines in one piece; `None` where it is
    /// that already, or no paste.
    fn as_printed(&mut self, candidate: &Candidate) -> io::Result<Option<Candidate>> {
        let begin = archive::begin_of(&candidate.raw);
        let is_text = matches!(What::of(&candidate.name, &candidate.raw), What::Text(_));
        let is_capture = is_document(&begin) || is_named_after_component(&candidate.name);
        if is_text && begins_outputs(&begin) {
            return self.as_terminal(candidate);
        }
        if !is_text || is_capture || begin.contains(&0) || candidate.size > LONGEST_PASTE {
            return Ok(None);
        }
        // Whoever reads it again says why it cannot be read.
        let (content, failed) = candidate.content(LONGEST_PASTE + 1);
        // Compressed, it may be longer than its size on the disk.
        if failed.is_some() || content.len() as u64 > LONGEST_PASTE {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&content);
        let plain = plain(&text, |text| recognise::has_printed(text.as_bytes()));
        let joined = joined(plain.as_deref().unwrap_or(&text));
        if let Some(joined) = &joined {
            self.joined.push(Left {
                why: format!(
                    "lines that were cut at {} columns are put together ({})",
                    joined.width, joined.lines
                ),
                name: candidate.name.clone(),
            });
        }
        let plain = joined.map(|joined| joined.text).or(plain);
        let modified = candidate.modified()?;
        let whole = plain.as_deref().unwrap_or(&text);
        // What tells no time in it was printed with what does. Standard input may have been written at any time.
        let written = modified.unwrap_or(Nanos(i64::MAX));
        let told = moment::of_itself(whole, written);
        if plain.is_none() && told.is_none() {
            return Ok(None);
        }
        let kept = self.keep(candidate.name.clone(), whole.as_bytes(), told.or(modified));
        kept.map(Some)
    }

    /// Returns commands and their outputs in JSON as the text that a terminal would show.
    fn as_terminal(&mut self, candidate: &Candidate) -> io::Result<Option<Candidate>> {
        let (json, _) = candidate.content(ticket::LARGEST);
        let Some(text) = outputs(&json) else {
            return Ok(None);
        };
        let modified = candidate.modified()?;
        let told = moment::of_itself(&text, modified.unwrap_or(Nanos(i64::MAX)));
        let kept = self.keep(candidate.name.clone(), text.as_bytes(), told.or(modified));
        kept.map(Some)
    }

    /// Takes a ticket apart. Returns false where nothing in it is known.
    fn ticket(&mut self, candidate: &Candidate) -> io::Result<bool> {
        // What a cut archive has before the cut counts; whoever reads it again says that it is cut.
        let (content, cut) = candidate.content(ticket::LARGEST);
        let is_cut = cut.is_some();
        let modified = candidate.modified()?;
        let moment = modified.unwrap_or_default();
        let mut ticket = Ticket::of(&content, moment, |_| true);
        if ticket.is_log() {
            return Ok(false);
        }
        let says = |ticket: &Ticket| {
            let mut logs = ticket.logs.iter();
            logs.any(|(kind, log)| recognise::fits(*kind, log) > 0)
        };
        if !says(&ticket) {
            ticket = Ticket::of(&content, moment, |_| false);
        }
        ticket.take_objects();
        // Text around what kubectl printed does not hide it.
        let is_printed = recognise::has_printed(&ticket.text);
        if is_printed && ticket.logs.keys().any(|kind| kind.klog()) {
            // klog has no year, and kubectl's ages no moment to count back from: beside a table both are read as of its moment.
            ticket = Ticket::of(&content, moment, |kind| !kind.klog());
            ticket.take_objects();
        }
        let newest = ticket.newest();
        let logs = ticket.logs.into_iter();
        let (logs, others): (Vec<_>, Vec<_>) =
            logs.partition(|(kind, log)| recognise::fits(*kind, log) > 0);
        let unread = others.iter().map(|(_, log)| log);
        let unread = unread.chain(Some(&ticket.text).filter(|_| !is_printed));
        let unread: usize = unread.map(|text| lines_in(text)).sum();
        let objects = Some(ticket.objects).filter(|objects| !objects.is_empty());
        if logs.is_empty() && objects.is_none() || is_cut {
            if is_printed {
                self.take(candidate.again(), Kind::Watch, About::default());
            }
            return Ok(is_printed);
        }
        if unread > 0 {
            let lines = counted(unread as u64, "line");
            let what = "neither of a log that is read nor printed by kubectl";
            self.leave(candidate.name.clone(), format!("{lines}, {what}"));
        }
        // The ages that kubectl printed count back to about the time of the log beside it.
        let told = newest.filter(|_| is_printed);
        let modified = told.or(modified);
        let read = match &objects {
            Some(objects) => moment::of_text(objects, modified),
            None => modified,
        };
        // Lists are dated with all others, which says by what.
        let text = is_printed.then_some((Kind::Watch, ticket.text, read));
        let objects = objects.map(|objects| (Kind::Watch, objects, modified));
        let watches = text.into_iter().chain(objects);
        let logs = logs
            .into_iter()
            .map(|(kind, lines)| (kind, lines, modified));
        for (kind, lines, modified) in watches.chain(logs) {
            let part = self.keep(candidate.name.clone(), &lines, modified)?;
            self.take(part, kind, About::default());
        }
        Ok(true)
    }
}

/// Number of lines that are not blank.
pub(super) fn lines_in(text: &[u8]) -> usize {
    let lines = text.split(|b| *b == b'\n');
    lines.filter(|line| !line.trim_ascii().is_empty()).count()
}

fn is_named_after_component(name: &str) -> bool {
    Kind::of_path(name).is_some_and(|k| k.component().is_some())
}

/// True for a file in a folder or an archive that is examined as one is that was given by itself.
pub(super) fn may_be_paste(content: &Content, candidate: &Candidate) -> bool {
    let begin = archive::begin_of(&candidate.raw);
    if begins_outputs(&begin) {
        return candidate.size <= ticket::LARGEST;
    }
    let is_text = match content {
        Content::Capture(Kind::Watch) => !begin.trim_ascii().is_empty() && !is_document(&begin),
        Content::Other(_) => is_printed(&candidate.raw),
        Content::Capture(_) | Content::Journal => false,
    };
    is_text && candidate.size <= LONGEST_PASTE
}

/// True for a text that has what kubectl prints, with the command or titles of it, or the status of a pod. A bundle has many logs in which a line may be
/// taken for that.
pub(super) fn is_printed(raw: &[u8]) -> bool {
    const SIGNS: [&[u8]; 5] = [
        b"kubectl ",
        b"NAME",
        b"Name:",
        b"LAST SEEN",
        b"containerStatuses",
    ];
    let begin = archive::begin_of(raw);
    if begins_outputs(&begin) {
        return true;
    }
    let has = |sign: &&[u8]| memchr::memmem::find(&begin, sign).is_some();
    let is_other = !SIGNS.iter().any(has) || content::of_the_api(&begin);
    if is_other || !recognise::may_be_ticket(&begin) {
        return false;
    }
    let text = String::from_utf8_lossy(&begin);
    let is_known = |text: &str| recognise::has_printed(text.as_bytes());
    let plain = plain(&text, is_known);
    let text = plain.as_deref().unwrap_or(&text);
    resembles_printed(text) && is_known(text)
        || text.contains("containerStatuses") && embedded(text, &yaml::part).is_some()
}

/// True for what names itself in each document, and for any JSON that is not before a text.
fn is_document(begin: &[u8]) -> bool {
    let inside = begin.trim_ascii_start().strip_prefix(b"{");
    let is_json = inside.is_some_and(|i| i.trim_ascii_start().starts_with(b"\""));
    if is_json && recognise::has_printed(begin) {
        let text = String::from_utf8_lossy(begin);
        return heading(&text).is_none();
    }
    is_json || content::of_itself(begin).is_some()
}

/// False for a paste that begins like objects in YAML or JSON and goes on as something else, or ends within one.
fn is_whole(candidate: &Candidate) -> io::Result<bool> {
    let begin = archive::begin_of(&candidate.raw);
    if let Some(behind) = content::behind_text(&begin) {
        let before = begin.len() - behind.len();
        let (content, failed) = candidate.content(ticket::LARGEST + 1);
        let objects = content.get(before..).unwrap_or_default();
        let is_small = content.len() as u64 <= ticket::LARGEST;
        return Ok(failed.is_some() || !is_small || recognise::is_whole_json(objects));
    }
    let is_json =
        begin.trim_ascii_start().starts_with(b"{") || begin.trim_ascii_start().starts_with(b"[");
    if candidate.size > LONGEST_PASTE || !is_json && !yaml::is(&begin) {
        return Ok(true);
    }
    let (content, failed) = candidate.content(ticket::LARGEST);
    if failed.is_some() {
        return Ok(true);
    }
    if is_json {
        return Ok(recognise::is_whole_json(&content));
    }
    let mut all = yaml::Documents::new(content.as_slice());
    Ok(io::copy(&mut all, &mut io::sink()).is_ok())
}

/// True for a printed journal in which a component of Kubernetes or a runtime writes, or that is named after one.
fn is_of_a_component(journal: &Candidate) -> io::Result<bool> {
    let survey = Survey::new(BufReader::new(journal.reader()?))?;
    Ok(!survey.kinds.is_empty() || is_named_after_component(&journal.name))
}
