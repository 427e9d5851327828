//! A text that kubectl printed, read as of the moments at which it was printed.
//!
//! The caller knows when the last of it was printed, and ages count back from that. How much time passed before, only the whole text
//! tells ([`super::passed`]): a text of more than one moment is read twice.

use super::super::super::{Fed, LineDecoder, TimeHint};
use super::{KubectlText, gone};
use kflow_model::Observation;

/// Longest text that is read twice, bytes.
const LONGEST: usize = 16 << 20;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::kube) struct Printed {
    hint: TimeHint,
    decoder: KubectlText,
    /// The text so far; `None` if it is too long to be read twice.
    text: Option<Vec<u8>>,
    /// What it told.
    told: Vec<Observation>,
}

impl Printed {
    pub(in crate::kube) fn new(hint: TimeHint) -> Self {
        Self {
            hint,
            decoder: KubectlText::new(hint),
            text: Some(Vec::new()),
            told: Vec::new(),
        }
    }

    /// True when something was read of which the text does not tell the moment.
    pub(in crate::kube) const fn counts_from_hint(&self) -> bool {
        self.decoder.is_dated && self.decoder.latest.is_none() && self.hint.not_after.is_some()
    }

    /// What was left out since the last call, beside what the results of lines say.
    pub(in crate::kube) fn left(&mut self) -> Vec<Fed> {
        std::mem::take(&mut self.decoder.left)
    }

    pub(in crate::kube) fn line(&mut self, line: &[u8], out: &mut Vec<Observation>) -> Fed {
        let text = self.text.take();
        self.text = text.filter(|text| text.len().saturating_add(line.len()) < LONGEST);
        let Some(text) = &mut self.text else {
            out.append(&mut self.told);
            return self.decoder.line(line, out);
        };
        text.extend_from_slice(line);
        text.push(b'\n');
        self.decoder.line(line, &mut self.told)
    }

    pub(in crate::kube) fn finish(&mut self, out: &mut Vec<Observation>) -> Fed {
        let fed = self.decoder.finish(&mut self.told);
        let lasts = self.decoder.lasts();
        let Some(text) = self.text.take() else {
            out.append(&mut self.told);
            return fed;
        };
        let mut answers = std::mem::take(&mut self.decoder.answers);
        if lasts > 0 {
            self.told.clear();
            let mut again = KubectlText::over(self.hint, lasts);
            let text = text.strip_suffix(b"\n").unwrap_or(&text);
            for line in text.split(|b| *b == b'\n') {
                again.line(line, &mut self.told);
            }
            again.finish(&mut self.told);
            answers = again.answers;
        }
        gone::settle(&mut self.told, &answers);
        out.append(&mut self.told);
        fed
    }
}
