//! Archives: tar, plain or compressed by gzip, zstd or xz, and zip; and single files that are compressed.

use std::io::{self, BufReader, Read, Seek};

use kflow_model::Nanos;

use super::spool::Part;
use crate::import::utf16::{BIG, LITTLE, Utf16};
use zip::result::ZipError;

/// First bytes that tell the form of a file.
pub(super) const BEGIN: usize = 1 << 18;
const ZIP: &[u8] = b"PK\x03\x04";
/// What users are told about an archive or a file that needs a key.
pub(in crate::import) const ENCRYPTED: &str = "it is encrypted: decrypt it first";
/// Where a tar archive has its mark.
const USTAR: std::ops::Range<usize> = 257..262;

/// First bytes of a text that an editor of Windows wrote in UTF-8.
const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Returns a reader of the uncompressed content, of a text in UTF-8 without a mark. `begin` is the begin of the file.
pub(in crate::import) fn uncompressed<'a>(
    begin: &[u8],
    mut whole: impl Read + Send + 'a,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    Ok(match begin {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::stream::read::Decoder::new(whole)?),
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(whole)),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => {
            Box::new(lzma_rust2::XzReader::new(BufReader::new(whole), true))
        }
        _ if begin.starts_with(&LITTLE) => Box::new(Utf16::little(whole)),
        _ if begin.starts_with(&BIG) => Box::new(Utf16::big(whole)),
        _ if begin.starts_with(&MARK) => {
            whole.read_exact(&mut [0; MARK.len()])?;
            Box::new(whole)
        }
        _ => Box::new(whole),
    })
}

/// Returns the first bytes of the uncompressed content: what can be unpacked of a begin that is cut.
pub(super) fn begin_of(raw: &[u8]) -> Vec<u8> {
    let mut begin = Vec::new();
    let mut piece = vec![0; 1 << 14];
    if let Ok(mut reader) = uncompressed(raw, raw) {
        while begin.len() < BEGIN
            && let Ok(n @ 1..) = reader.read(&mut piece)
        {
            begin.extend_from_slice(piece.get(..n).unwrap_or_default());
        }
    }
    begin
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Tar,
    Zip,
}

/// Returns the form of an archive, by its uncompressed begin.
pub(super) fn form(begin: &[u8]) -> Option<Form> {
    if begin.starts_with(ZIP) {
        return Some(Form::Zip);
    }
    (begin.get(USTAR) == Some(b"ustar")).then_some(Form::Tar)
}

/// One file in an archive.
pub(super) struct Member<'a> {
    /// Its path in the archive.
    pub(super) name: String,
    pub(super) modified: Option<Nanos>,
    pub(super) content: &'a mut dyn Read,
}

/// What is done with each file. The inner error is one of the archive.
pub(super) type Take<'a> = dyn FnMut(Member<'_>) -> io::Result<Option<io::Error>> + 'a;

/// Calls `take` with each regular file. An error of the archive itself ends it, and is the inner result.
pub(super) fn each(form: Form, archive: &Part, take: &mut Take<'_>) -> io::Result<io::Result<()>> {
    match form {
        Form::Tar => tar(archive, take),
        Form::Zip => zip(archive, take),
    }
}

fn tar(archive: &Part, take: &mut Take<'_>) -> io::Result<io::Result<()>> {
    let mut begin = [0; 6];
    let n = archive.reader().read(&mut begin)?;
    let whole = uncompressed(begin.get(..n).unwrap_or_default(), archive.reader())?;
    let mut tar = tar::Archive::new(whole);
    let members = match tar.entries() {
        Ok(members) => members,
        Err(e) => return Ok(Err(e)),
    };
    for member in members {
        let mut member = match member {
            Ok(member) => member,
            Err(e) => return Ok(Err(e)),
        };
        if !member.header().entry_type().is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(&member.path_bytes()).into_owned();
        let secs = member.header().mtime().ok().filter(|t| *t > 0);
        let modified = secs
            .and_then(|t| i64::try_from(t).ok())
            .map(Nanos::from_secs);
        let failed = take(Member {
            name: plain(&name),
            modified,
            content: &mut member,
        })?;
        if let Some(e) = failed {
            return Ok(Err(e));
        }
    }
    Ok(Ok(()))
}

fn zip(archive: &Part, take: &mut Take<'_>) -> io::Result<io::Result<()>> {
    let Ok(mut zip) = zip::ZipArchive::new(BufReader::new(archive.reader())) else {
        // The list of the files stands at the end.
        return zip_without_its_end(archive, take);
    };
    for n in 0..zip.len() {
        let mut member = match zip.by_index(n) {
            Ok(member) => member,
            Err(ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED)) => {
                return Ok(Err(encrypted()));
            }
            Err(e) => return Ok(Err(e.into())),
        };
        if !member.is_file() {
            continue;
        }
        let name = String::from_utf8_lossy(member.name_raw()).into_owned();
        // A zip archive has local times without their zone, which date nothing.
        let failed = take(Member {
            name: plain(&name),
            modified: None,
            content: &mut member,
        })?;
        if let Some(e) = failed {
            return Ok(Err(e));
        }
    }
    Ok(Ok(()))
}

/// Reads a zip archive from its begin, file by file, as far as it goes. It always ends with an error.
fn zip_without_its_end(archive: &Part, take: &mut Take<'_>) -> io::Result<io::Result<()>> {
    /// Sizes of what may follow a file whose size its header does not tell: a checksum and two sizes of 4 or 8 bytes,
    /// with and without a signature.
    const TRAILERS: [usize; 5] = [16, 12, 24, 20, 0];
    let mut reader = BufReader::new(archive.reader());
    loop {
        let mut header = [0; 30];
        if reader.read_exact(&mut header).is_err() || !header.starts_with(ZIP) {
            return Ok(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        let number = |at: usize, bytes: usize| {
            let all = header.iter().skip(at).take(bytes).rev();
            all.fold(0_u64, |n, b| n << 8 | u64::from(*b))
        };
        let (flags, method, size) = (number(6, 2), number(8, 2), number(18, 4));
        let (is_encrypted, has_trailer) = (flags & 1 != 0, flags & 8 != 0);
        if is_encrypted {
            return Ok(Err(encrypted()));
        }
        let mut name = Vec::new();
        (&mut reader).take(number(26, 2)).read_to_end(&mut name)?;
        io::copy(&mut (&mut reader).take(number(28, 2)), &mut io::sink())?;
        let name = plain(&String::from_utf8_lossy(&name));
        let mut content: Box<dyn Read + '_> = match method {
            8 => Box::new(flate2::bufread::DeflateDecoder::new(&mut reader)),
            0 if !has_trailer => Box::new((&mut reader).take(size)),
            _ => return Ok(Err(io::ErrorKind::UnexpectedEof.into())),
        };
        if !name.ends_with('/') {
            let failed = take(Member {
                name,
                modified: None,
                content: &mut content,
            })?;
            if let Some(e) = failed {
                return Ok(Err(e));
            }
        }
        if let Err(e) = io::copy(&mut content, &mut io::sink()) {
            return Ok(Err(e));
        }
        drop(content);
        if has_trailer {
            let here = reader.stream_position()?;
            let mut behind = Vec::new();
            (&mut reader).take(32).read_to_end(&mut behind)?;
            let begins = |n: &&usize| behind.get(**n..).is_some_and(|b| b.starts_with(b"PK"));
            let next = TRAILERS.iter().find(begins).copied().unwrap_or_default();
            reader.seek(io::SeekFrom::Start(here + next as u64))?;
        }
    }
}

fn encrypted() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, ENCRYPTED)
}

/// Says what is wrong with an archive or a compressed file that cannot be read to its end.
pub(in crate::import) fn broken(e: &io::Error) -> String {
    const ENDS: [&str; 5] = [
        "incomplete",
        "unexpected EOF",
        "whole buffer",
        "deflate",
        "truncated",
    ];
    let said = e.to_string();
    if e.kind() == io::ErrorKind::UnexpectedEof || ENDS.iter().any(|end| said.contains(end)) {
        return "its end is missing".to_owned();
    }
    format!("it is damaged: {said}")
}

/// A path as it is below the folder that the archive is of.
fn plain(name: &str) -> String {
    let name = name.trim_start_matches('/');
    name.strip_prefix("./").unwrap_or(name).to_owned()
}
