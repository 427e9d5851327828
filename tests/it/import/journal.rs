//! The kubelet's log as journalctl prints it. The converters below print as systemd 252 does: tabs as eight spaces, no
//! empty lines, blobs, arrays of bytes, binary fields, no trailing blanks. These rules were found
//! by reading its output.

use super::{Desk, capture, text};
use kflow_model::Nanos;

/// Lines that are hard to transport: a block value with tabs and blanks, bytes that are not UTF-8, a control character.
const HARD: &[u8] = b"I1121 01:03:20.100000    5077 prober.go:111] \"Probe failed\" probeType=\"Readiness\" pod=\"s62/steady\" podUID=\"0\" containerName=\"c\" probeResult=\"failure\" output=<\n\tHTTP/1.1 500\n\t  two words\n >\n\
I1121 01:03:20.200000    5077 kubelet.go:1] \"not UTF-8: \xff\xfe\" pod=\"s62/steady\"\n\
I1121 01:03:20.300000    5077 kubelet.go:1] \"a bell: \x07\" pod=\"s62/steady\"\n";
/// How many of these lines the short forms do not show.
const BLOBS: usize = 2;

struct Line {
    text: Vec<u8>,
    /// When journald received the line, ns: a little later than the kubelet wrote it.
    at: Nanos,
}

/// The log as journald takes it from a pipe: one record for each line, no empty lines, no trailing blanks.
fn records() -> Vec<Line> {
    let mut log = capture("kubelet.log");
    let somewhere = memchr::memmem::find(&log, b"\nI1121 01:03:20").unwrap() + 1;
    log.splice(somewhere..somewhere, HARD.iter().copied());
    let mut at = Nanos(0);
    log.split(|b| *b == b'\n')
        .map(<[u8]>::trim_ascii_end)
        .filter(|l| !l.is_empty())
        .map(|l| {
            if let Some(t) = std::str::from_utf8(l.get(6..21).unwrap_or_default())
                .ok()
                .and_then(|clock| Nanos::parse_rfc3339(&format!("2026-11-21T{clock}Z")))
            {
                at = t.0.plus(150_000);
            }
            Line {
                text: l.to_vec(),
                at,
            }
        })
        .collect()
}

fn printable(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|s| s.chars().all(|c| c == '\t' || !c.is_control()))
}

/// Lines of other units, one of them in the kubelet's form.
const OTHERS: [(&str, &str); 3] = [
    (
        "kernel",
        "IPv6: ADDRCONF(NETDEV_CHANGE): veth0: link becomes ready",
    ),
    (
        "kube-proxy[977]",
        "I1121 01:03:20.123456       1 proxier.go:100] \"SyncLoop ADD\" pods=[\"s62/ghost\"]",
    ),
    (
        "containerd[400]",
        "time=\"2026-11-21T01:03:20.5Z\" level=info msg=\"x\"",
    ),
];

fn short(time: impl Fn(Nanos) -> String, host: &str) -> Vec<u8> {
    let mut out = b"-- Journal begins at Sat 2026-11-21 00:00:00 UTC. --\n".to_vec();
    let lines = records();
    let middle = lines.len() / 2;
    for (n, line) in lines.into_iter().enumerate() {
        let t = time(line.at);
        if n == middle {
            for (who, what) in OTHERS {
                out.extend(format!("{t} {host}{who}: {what}\n").bytes());
            }
            out.extend(b"-- Boot 67245c6af51f429fb8f1570d734271ab --\n");
        }
        out.extend(format!("{t} {host}kubelet[5077]: ").bytes());
        if printable(&line.text) {
            for b in line.text {
                match b {
                    b'\t' => out.extend(b"        "),
                    b => out.push(b),
                }
            }
        } else {
            out.extend(format!("[{}B blob data]", line.text.len()).bytes());
        }
        out.push(b'\n');
    }
    out
}

fn json() -> Vec<u8> {
    let mut out = Vec::new();
    let others = OTHERS.map(|(who, what)| (who.split('[').next().unwrap().to_owned(), what));
    for line in records() {
        let message = if printable(&line.text) {
            serde_json::to_string(std::str::from_utf8(&line.text).unwrap()).unwrap()
        } else {
            serde_json::to_string(&line.text).unwrap()
        };
        record_json(&mut out, "kubelet", &message, line.at);
    }
    for (who, what) in others {
        record_json(
            &mut out,
            &who,
            &serde_json::to_string(what).unwrap(),
            Nanos(1),
        );
    }
    // A message that is longer than journalctl shows without --all is `null`.
    record_json(&mut out, "kubelet", "null", Nanos(1));
    out
}

fn record_json(out: &mut Vec<u8>, who: &str, message: &str, at: Nanos) {
    out.extend(
        format!(
            "{{\"_UID\":\"0\",\"MESSAGE\":{message},\"_TRANSPORT\":\"stdout\",\"__CURSOR\":\"s=0667;i=213;b=6724;m=32cc;t=660c;x=53d0\",\"SYSLOG_IDENTIFIER\":\"{who}\",\"_HOSTNAME\":\"node1\",\"_PID\":\"5077\",\"__REALTIME_TIMESTAMP\":\"{}\",\"PRIORITY\":\"6\"}}\n",
            at.0 / 1000
        )
        .bytes(),
    );
}

fn export() -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |who: &str, message: &[u8], at: Nanos| {
        out.extend(
            format!(
                "__CURSOR=s=0667;i=213;b=6724;m=32cc;t=660c;x=53d0\n__REALTIME_TIMESTAMP={}\n__MONOTONIC_TIMESTAMP=13636122261\n_HOSTNAME=node1\nSYSLOG_IDENTIFIER={who}\n",
                at.0 / 1000
            )
            .bytes(),
        );
        // A message with control characters other than a tab is written with its length.
        if printable(message) {
            out.extend(b"MESSAGE=");
            out.extend(message);
        } else {
            out.extend(b"MESSAGE\n");
            out.extend((message.len() as u64).to_le_bytes());
            out.extend(message);
        }
        out.extend(b"\n_PID=5077\n\n");
    };
    for (who, what) in OTHERS {
        put(who.split('[').next().unwrap(), what.as_bytes(), Nanos(1));
    }
    for line in records() {
        put("kubelet", &line.text, line.at);
    }
    out
}

/// The same lines without journald's fields; without `blobs`, also without the lines that the short forms do not show.
fn bare(blobs: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for line in records() {
        if blobs || printable(&line.text) {
            out.extend(&line.text);
            out.push(b'\n');
        }
    }
    out
}

/// What kflow derives from a session, as text, and the output of the import. Arrival times are not in it, because a
/// bare log has none.
fn world(desk: &Desk, name: &str, log: Vec<u8>) -> (String, String) {
    let path = desk.file(name, log);
    let (session, said) = desk.import(
        &format!("{name}.kflow"),
        &["--kubelet-log", &path, "--year", "2026"],
    );
    let calls = super::run(&["flow", "--session", &session]);
    (
        format!("{}{}", Desk::timelines(&session), text(&calls.stdout)),
        said,
    )
}

#[test]
fn every_form_of_the_journal_tells_the_story_of_the_bare_log() {
    let desk = Desk::new();
    let iso = |t: Nanos| t.to_rfc3339()[..26].to_owned() + "+0000";
    let (whole, _) = world(&desk, "bare", bare(true));
    let (shown, _) = world(&desk, "shown", bare(false));
    assert!(whole.contains("s62"), "there is something to compare");
    for (name, log, want) in [
        (
            "short",
            short(|t| format!("Nov 21 {}", &t.to_rfc3339()[11..19]), "node1 "),
            &shown,
        ),
        (
            "short-precise",
            short(|t| format!("Nov 21 {}", &t.to_rfc3339()[11..26]), "node1 "),
            &shown,
        ),
        (
            "short-iso",
            short(|t| t.to_rfc3339()[..19].to_owned() + "+0000", "node1 "),
            &shown,
        ),
        ("short-iso-precise", short(iso, "node1 "), &shown),
        ("short-iso-precise-no-hostname", short(iso, ""), &shown),
        (
            "short-full",
            short(
                |t| format!("Sat 2026-11-21 {} UTC", &t.to_rfc3339()[11..19]),
                "node1 ",
            ),
            &shown,
        ),
        ("json", json(), &whole),
        ("export", export(), &whole),
    ] {
        let (got, said) = world(&desk, name, log);
        assert!(&got == want, "{name}: {said}");
        assert!(
            said.contains("2 log line of another component"),
            "{name}: {said}"
        );
        if name.starts_with("short") {
            let blobs = format!("{BLOBS} not printable: journalctl shows it with --all");
            assert!(said.contains(&blobs), "{name}: {said}");
            assert!(said.contains("2 journal marker"), "{name}: {said}");
        }
        if name == "json" {
            assert!(said.contains("1 longer than journalctl shows"), "{said}");
        }
    }
}

#[test]
fn a_journal_that_is_cut_anywhere_is_read_as_far_as_it_goes() {
    let desk = Desk::new();
    for (name, log) in [("json", json()), ("export", export())] {
        // The middle third of the bytes.
        let (from, to) = (log.len() / 3 + 7, log.len() * 2 / 3 + 3);
        let path = desk.file(name, &log[from..to]);
        let (_, said) = desk.import(&format!("{name}.kflow"), &["--kubelet-log", &path]);
        let row = said.lines().nth(1).unwrap();
        let observations: usize = row.split_whitespace().nth(2).unwrap().parse().unwrap();
        assert!(observations > 200, "{name}: {said}");
    }
}

fn unpacked(path: &str) -> Vec<u8> {
    zstd::decode_all(std::fs::File::open(path).unwrap()).unwrap()
}

/// The observations of a session, without the header, which has the names of the files.
fn observed(session: &str) -> String {
    let all = std::fs::read_to_string(session).unwrap();
    let (_, rest) = all.split_once('\n').unwrap();
    assert!(rest.lines().count() > 50, "{rest}");
    rest.to_owned()
}

#[test]
fn a_journals_own_files_are_read_as_what_journalctl_prints_of_them() {
    let desk = Desk::new();
    let path = |name: &str| {
        super::fixture(&format!("journal/{name}.zst"))
            .display()
            .to_string()
    };
    let plain = |name: &str| desk.file(name, unpacked(&path(name)));
    let year = ["--year", "2026"];
    let logs = |files: [&str; 2]| {
        let mut args = Vec::from(year);
        args.extend(files.iter().flat_map(|f| ["--kubelet-log", f]));
        args.iter()
            .map(|a| (*a).to_owned())
            .collect::<Vec<String>>()
    };
    let import = |name: &str, args: &[String]| {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        desk.import(name, &args)
    };
    let printed = [path("before.export"), path("now.export")];
    let (want, _) = import("printed.kflow", &logs([&printed[0], &printed[1]]));
    let packed = [path("now.journal"), path("before.journal")];
    let (got, _) = import("packed.kflow", &logs([&packed[0], &packed[1]]));
    assert_eq!(observed(&got), observed(&want));
    let files = [plain("before.journal"), plain("now.journal")];
    let (got, _) = import("files.kflow", &logs([&files[0], &files[1]]));
    assert_eq!(observed(&got), observed(&want));

    // In a bundle the files are found by their names; the runtime's lines are read from them too.
    let folder = desk.dir.path().join("bundle/var/log/journal/5ee4");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(&files[0], folder.join("system@0001.journal")).unwrap();
    std::fs::copy(&files[1], folder.join("system.journal")).unwrap();
    std::fs::write(folder.join("user-1000.journal"), "LPKSHHRH").unwrap();
    std::fs::write(folder.join("system@0000.journal~"), "LPKSHHRH").unwrap();
    let bundle = desk.path("bundle");
    let (got, said) = desk.import("dir.kflow", &[&bundle, "--year", "2026"]);
    let of_kubelet = observed(&got);
    let of_kubelet: Vec<&str> = of_kubelet
        .lines()
        .filter(|l| l.contains(r#""src":"kubelet""#))
        .collect();
    let wanted = observed(&want);
    let wanted: Vec<&str> = (wanted.lines())
        .filter(|l| l.contains(r#""src":"kubelet""#))
        .collect();
    assert_eq!(of_kubelet, wanted);
    assert!(observed(&got).contains(r#""src":"runtime""#), "{said}");
    for told in [
        "user-1000.journal",
        "not read, it is no journal file: log/journal/5ee4/system@0000.journal~",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }

    // When the printed log is in the bundle too, the journal is not read a second time for it.
    std::fs::copy(
        &printed[1],
        desk.dir
            .path()
            .join("bundle/var/log/journal/5ee4/kubelet.log.zst"),
    )
    .unwrap();
    let (_, said) = desk.import("twice.kflow", &[&bundle, "--year", "2026"]);
    assert!(
        said.contains("not read, a log of the kubelet is there as a file of its own: "),
        "{said}"
    );
}

#[test]
fn a_journal_without_what_is_asked_for_says_what_it_has() {
    let desk = Desk::new();
    let path = super::fixture("journal/before.journal.zst")
        .display()
        .to_string();
    for (flag, noun) in [
        ("--crio-log", "a log of CRI-O"),
        ("--audit", "an audit log"),
    ] {
        let said = desk.refused(&[flag, &path]);
        let told = format!(
            "it is a journal file with entries of containerd.service, kubelet.service: there is no {noun} in it"
        );
        let told = told.replace("no a ", "no ").replace("no an ", "no ");
        assert!(said.contains(&told), "{said}");
    }
    // One value is damaged: the record without its text is reported.
    let mut bytes = unpacked(&path);
    let text = memchr::memmem::rfind(&bytes, b"MESSAGE=I1121").unwrap();
    let object = [64, 72].map(|begin| text - begin);
    let object = object.into_iter().find(|at| bytes[*at] == 1).unwrap();
    bytes[object] = 0xff;
    let damaged = desk.file("damaged.journal", bytes);
    let (session, said) = desk.import("damaged.kflow", &["--kubelet-log", &damaged]);
    assert!(
        said.contains("1 record of the journal cannot be read"),
        "{said}"
    );
    let told = std::fs::read_to_string(session).unwrap();
    assert!(told.contains(r#""gap""#), "{told}");
}

/// RKE2 writes lines of its own into the journal of the unit that runs the kubelet.
#[test]
fn the_lines_of_a_program_that_runs_the_kubelet_are_no_log_of_another() {
    let desk = Desk::new();
    let own = "Nov 21 00:34:45 a rke2[700]: time=\"2026-11-21T00:34:45Z\" level=info msg=\"Pod for kube-apiserver is synced\"\n";
    std::fs::create_dir_all(desk.path("bundle/journald")).unwrap();
    desk.file("bundle/journald/rke2-server", own.repeat(9));
    std::fs::copy(
        super::fixture("bundle/handy/pods.json"),
        desk.path("bundle/pods.json"),
    )
    .unwrap();
    let (_, said) = desk.import("a.kflow", &[&desk.path("bundle")]);
    assert!(said.contains("9 no klog header"), "{said}");
    assert!(!said.contains("containerd"), "{said}");
}
