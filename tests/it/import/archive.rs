//! Archives of captures, in every form, whole and damaged.

use super::{Desk, capture, fixture, text};
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::process::Stdio;

/// The files of a folder as a tar archive, with paths below `top` and their times.
fn tar(folder: &Path, top: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all(top, folder).unwrap();
    tar.into_inner().unwrap()
}

pub(super) fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(1);
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    xz.write_all(bytes).unwrap();
    xz.finish().unwrap()
}

fn zip(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in files {
        let options = zip::write::SimpleFileOptions::default();
        zip.start_file(name.as_str(), options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut tar = tar::Archive::new(Cursor::new(tar(folder, "dump")));
    let mut files = Vec::new();
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.header().entry_type().is_file() {
            let name = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            files.push((name, content));
        }
    }
    files
}

#[test]
fn an_archive_says_what_its_folder_says() {
    let desk = Desk::new();
    let dump = fixture("bundle");
    let (folder, _) = desk.import("folder.kflow", &[dump.to_str().unwrap()]);
    let want = Desk::timelines(&folder);
    let plain = tar(&dump, "dump");
    for (name, content) in [
        ("dump.tar", plain.clone()),
        ("dump.tar.gz", gz(&plain)),
        ("dump.tgz", gz(&plain)),
        ("dump.tar.zst", zstd::bulk::compress(&plain, 3).unwrap()),
        ("dump.tar.xz", xz(&plain)),
        ("dump.zip", zip(&files(&dump))),
        // Its content decides, not its name.
        ("dump", gz(&plain)),
        // An archive in an archive, as `sos collect` makes them.
        ("dump-of-dumps.tar", {
            let inner = desk.dir.path().join("inner");
            std::fs::create_dir(&inner).unwrap();
            std::fs::write(inner.join("dump.tar.xz"), xz(&plain)).unwrap();
            tar(&inner, "all")
        }),
    ] {
        let path = desk.file(name, content);
        let (got, said) = desk.import("archive.kflow", &[&path]);
        assert!(said.contains("handy/pods.json"), "{name}: {said}");
        if name != "dump.zip" {
            // A zip archive does not tell when its files were written, so its lists are dated by themselves.
            assert_eq!(Desk::timelines(&got), want, "{name}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn an_archive_comes_from_standard_input_too() {
    let desk = Desk::new();
    let out = desk.path("piped.kflow");
    let mut import = crate::program::command()
        .args(["import", "-", "-O", &out])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let archive = gz(&tar(&fixture("bundle"), "dump"));
    import.stdin.take().unwrap().write_all(&archive).unwrap();
    let o = import.wait_with_output().unwrap();
    assert_eq!(o.status.code(), Some(0), "{}", text(&o.stderr));
    assert!(Desk::timelines(&out).contains("sts-0"));
}

#[test]
fn a_single_file_may_be_compressed_by_xz() {
    let desk = Desk::new();
    let plain = desk.file("kubelet.log", capture("kubelet.log"));
    let packed = desk.file("kubelet.log.xz", xz(&capture("kubelet.log")));
    let year = ["--year", "2026"];
    let import = |name: &str, args: &[&str]| desk.import(name, &[&year[..], args].concat()).0;
    let want = Desk::timelines(&import("plain.kflow", &["--kubelet-log", &plain]));
    for args in [&["--kubelet-log", &packed][..], &[&packed], &[&plain]] {
        assert_eq!(
            Desk::timelines(&import("packed.kflow", args)),
            want,
            "{args:?}"
        );
    }
}

#[test]
fn what_stands_before_a_cut_is_kept_and_the_cut_is_told() {
    let desk = Desk::new();
    let captures = fixture("captures");
    let whole = gz(&tar(&captures, "captures"));
    let mut told = 0;
    for part in 1..20 {
        let cut = &whole[..whole.len() * part / 20];
        let path = desk.file("cut.tar.gz", cut);
        let out = desk.path("cut.kflow");
        let o = super::run(&["import", &path, "-O", &out]);
        let said = text(&o.stderr);
        match o.status.code() {
            Some(0) => {
                let last = said.lines().last().unwrap();
                assert!(
                    last.starts_with("CUT: cut.tar.gz: its end is missing."),
                    "{said}"
                );
                let why = super::run(&["why", "--all", "-s", &out]);
                assert!(
                    text(&why.stderr).contains("may be incomplete: cut.tar.gz is cut"),
                    "{why:?}"
                );
                told += 1;
            }
            // Nothing that could be read stands before the cut.
            Some(2) => assert!(
                said.contains("no capture that kflow knows before it"),
                "{said}"
            ),
            other => panic!("{other:?}: {said}"),
        }
    }
    assert!(told > 10, "{told}");
    // Nothing that was unpacked stays behind.
    let left: Vec<_> = std::fs::read_dir(desk.dir.path()).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn names_in_an_archive_lead_nowhere() {
    let desk = Desk::new();
    let mut tar = tar::Builder::new(Vec::new());
    let log = capture("kubelet.log");
    for name in [
        "../../kubelet.log",
        "/etc/kubelet.log",
        "\u{1b}[31m/kubelet.log",
    ] {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(log.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, &log[..]).unwrap();
    }
    // A link is no file: what it leads to is not read.
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    tar.append_link(&mut header, "containerd.log", "/dev/zero")
        .unwrap();
    let path = desk.file("hostile.tar", tar.into_inner().unwrap());
    let (_, said) = desk.import("hostile.kflow", &["--year", "2026", &path]);
    assert!(!said.contains('\u{1b}'), "{said:?}");
    // The three have the same content, and it is read once.
    assert!(
        said.contains("not read, the same as another: etc/kubelet.log, "),
        "{said}"
    );
    assert!(!Path::new(&desk.path("../../kubelet.log")).exists());
}

#[test]
fn archives_in_archives_have_an_end() {
    let desk = Desk::new();
    let folder = desk.dir.path().join("nest");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("kubelet.log"), capture("kubelet.log")).unwrap();
    let mut archive = tar(&folder, "n");
    std::fs::remove_file(folder.join("kubelet.log")).unwrap();
    for depth in 1..6 {
        let path = desk.file("nested.tar", &archive);
        let o = super::run(&[
            "import",
            &path,
            "--year",
            "2026",
            "-O",
            &desk.path("n.kflow"),
        ]);
        let said = text(&o.stderr);
        let readable = depth <= 3;
        assert_eq!(
            o.status.code(),
            Some(if readable { 0 } else { 2 }),
            "{depth}: {said}"
        );
        assert!(
            readable || said.contains("an archive in 3 others: unpack it"),
            "{depth}: {said}"
        );
        assert!(!said.contains("with their flags"), "{depth}: {said}");
        std::fs::write(folder.join("n.tar"), &archive).unwrap();
        archive = tar(&folder, "n");
    }
}

/// A zip archive has the list of its files at its end.
#[test]
fn of_a_zip_archive_that_is_cut_the_begin_is_read() {
    let desk = Desk::new();
    let whole = zip(&files(&fixture("bundle")));
    let names = |said: &str| said.matches("handy/").count();
    let (_, said) = desk.import("whole.kflow", &[&desk.file("whole.zip", &whole)]);
    let all = names(&said);
    for (part, least) in [(whole.len() - 30, all), (whole.len() / 2, 1)] {
        let path = desk.file("cut.zip", &whole[..part]);
        let (session, said) = desk.import("cut.kflow", &[&path]);
        assert!(names(&said) >= least, "{part}: {said}");
        assert!(said.contains("CUT: cut.zip: its end is missing."), "{said}");
        assert!(!std::fs::read(session).unwrap().is_empty());
    }
}

#[test]
fn what_is_encrypted_is_to_be_decrypted_first() {
    let desk = Desk::new();
    let dump = files(&fixture("bundle"));
    let mut locked = zip(&dump[..1]);
    // The bit of each header, at the file and in the list at the end, that says that the file is encrypted.
    locked[6] |= 1;
    let entry = memchr::memmem::rfind(&locked, b"PK\x01\x02").unwrap();
    locked[entry + 8] |= 1;
    for (name, content) in [
        ("bundle.zip", locked),
        (
            "bundle.zip.age",
            b"age-encryption.org/v1\n-> X25519 abc\n".to_vec(),
        ),
        ("bundle.tar.gpg", b"\x8c\x0d\x04\x09\x03\x02".to_vec()),
    ] {
        let said = desk.refused(&[&desk.file(name, content)]);
        assert!(said.contains("it is encrypted: decrypt it first"), "{said}");
        assert!(!said.contains("flag"), "{said}");
    }
}
