//! Shell completion: it offers the names of a recording, quickly, and writes nothing else to the terminal.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::fixture;
use kflow_model::clock;

const KFLOW: &str = env!("CARGO_BIN_EXE_kflow");

fn session() -> String {
    let path = fixture("sessions/S13-crictl.kflow.zst");
    path.display().to_string()
}

pub(crate) fn quiet(program: &str) -> Command {
    let mut c = Command::new(program);
    c.env_remove("KFLOW_SESSION")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("KUBECONFIG", "/no/such/kubeconfig")
        .env("HOME", "/no/such/home")
        .stdin(Stdio::null());
    c
}

fn text(out: &Output) -> String {
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    String::from_utf8(out.stdout.clone()).unwrap()
}

/// What kubectl's completion gets for these words, the last of which is being typed: the candidates, and the directive.
pub(crate) fn told(command: &mut Command, words: &[&str]) -> (Vec<String>, String) {
    command.env("KFLOW_COMPLETE", "kubectl");
    let out = command.args(["--", "kflow"]).args(words).output().unwrap();
    assert!(out.status.success(), "{words:?}");
    let mut all: Vec<String> = text(&out).lines().map(str::to_owned).collect();
    let directive = all.pop().unwrap_or_default();
    for line in &mut all {
        line.truncate(line.find('\t').unwrap_or(line.len()));
    }
    (all, directive)
}

/// The time of the quickest of four runs: a busy machine delays any of them.
pub(crate) fn quickest(mut run: impl FnMut()) -> Duration {
    let once = |()| {
        let begun = clock::monotonic();
        run();
        begun.elapsed()
    };
    [(); 4].map(once).into_iter().min().unwrap()
}

/// How long a completion may take, including start and exit of an unoptimised process.
pub(crate) const SOON: Duration = Duration::from_millis(250);

/// How often a completion is tried that gives up on a busy machine before the recording is read.
const TRIES: usize = 25;

#[test]
fn every_kind_of_name_is_completed() {
    let s = session();
    let of = |words: &[&str]| told(&mut quiet(KFLOW), words).0;
    for (words, wanted, not) in [
        (&["w"][..], &["why"][..], "timeline"),
        (&["why", "-o", "j"], &["json", "jsonl"], "text"),
        (&["calls", "--method", "RunP"], &["RunPodSandbox"], "Status"),
        (
            &["calls", "--method", "Status,RunP"],
            &["Status,RunPodSandbox"],
            "RunPodSandbox",
        ),
        (&["causes", "KF60"], &["KF601", "KF602"], "KF501"),
        (&["causes", "kf601"], &["kf601"], "KF601"),
        (
            &["themes", "--print", ""],
            &["dark", "light", "mono"],
            "ligh",
        ),
        (&["export", "--theme", "hi"], &["high-contrast"], "dark"),
        (
            &["stats", "--measure", "stage/i"],
            &["stage/image"],
            "stage/api",
        ),
        (
            &["stats", "--measure", "start,call/RunP"],
            &["start,call/RunPodSandbox"],
            "start",
        ),
        (&["flow", "kubelet-"], &["kubelet-startup"], "c01"),
        (&["flow", "c0"], &["c01", "c09"], "b01"),
        (&["flow", "RunPodS"], &["RunPodSandbox"], "c01"),
        (
            &["calls", "--filter", "!ok met"],
            &["!ok method:"],
            "method:",
        ),
        (
            &["calls", "--filter", "method:RunP"],
            &["method:RunPodSandbox"],
            "method:Status",
        ),
        (
            &["completions", ""],
            &["bash", "fish", "kubectl", "zsh"],
            "sh",
        ),
        (&["stats", "--by", ""], &["image", "owner"], "pod"),
        (&["why", "-s", &s, "--nam"], &["--namespace"], "--node"),
    ] {
        let all = of(words);
        for name in wanted {
            assert!(all.iter().any(|c| c == name), "{words:?}: {name}: {all:?}");
        }
        assert!(!all.iter().any(|c| c == not), "{words:?}: {not}: {all:?}");
    }
}

#[test]
fn names_come_from_the_recording_that_is_named() {
    let s = session();
    // On a busy machine the completion may give up before the recording is read, so it is tried again.
    let flagged = |words: &[&str]| {
        let words = [&["why", "-s", &s], words].concat();
        let asked = || told(&mut quiet(KFLOW), &words);
        let heard = (0..TRIES)
            .map(|_| asked())
            .find(|(names, _)| !names.is_empty());
        heard.unwrap_or_else(asked)
    };
    let (pods, directive) = flagged(&["s62/"]);
    assert!(
        !pods.is_empty() && pods.iter().all(|p| p.starts_with("s62/")),
        "{pods:?}"
    );
    assert_eq!(directive, ":4");
    // Each candidate is the name of a pod.
    let timeline = quiet(KFLOW)
        .args(["timeline", &pods[0], "-s", &s])
        .output()
        .unwrap();
    assert!(timeline.status.success());
    let name = pods[0].strip_prefix("s62/").unwrap();
    assert_eq!(flagged(&["-n", "s62", name]).0, [name]);
    assert_eq!(flagged(&["-n", "nowhere", name]).0, [""; 0]);
    assert_eq!(flagged(&[name]).0, [name], "the begin of a name is enough");
    assert_eq!(
        flagged(&[&format!("pod/{name}")]).0,
        [format!("pod/{name}")]
    );
    assert_eq!(
        flagged(&["nod"]),
        (vec!["node/".to_owned()], ":6".to_owned())
    );
    assert_eq!(flagged(&["node/"]).0, ["node/node1"]);
    assert_eq!(flagged(&["--node", ""]).0, ["node1"]);
    assert!(flagged(&["-n", "s"]).0.contains(&"s62".to_owned()));
    // A Deployment's ReplicaSets are known by their own objects.
    let owners = fixture("correlate/rollouts.kflow.zst")
        .display()
        .to_string();
    let owners = || told(&mut quiet(KFLOW), &["timeline", "-s", &owners, "rs/"]).0;
    let owners = (0..TRIES).map(|_| owners()).find(|o| !o.is_empty());
    let owners = owners.expect("names of ReplicaSets");
    assert!(owners.iter().all(|o| o.starts_with("rs/")), "{owners:?}");

    let mut by_variable = quiet(KFLOW);
    by_variable.env("KFLOW_SESSION", &s);
    assert_eq!(told(&mut by_variable, &["calls", "--pod", "s62/"]).0, pods);
    for (words, all) in [
        (&["replay", &s, "-n", "s6"][..], true),
        (&["export", "-s", &s, "-o", "html", "s62/"], true),
        (&["why", "-s", "/no/such/file", "s62/"], false),
        (&["why", "--no-api", "s62/"], false),
        (&["why", "-s", "-", "s62/"], false),
    ] {
        let (found, directive) = told(&mut quiet(KFLOW), words);
        assert_eq!(!found.is_empty(), all, "{words:?}: {found:?}");
        assert_eq!(directive, ":4", "{words:?}");
    }
}

#[test]
fn a_file_is_proposed_where_it_is_a_session() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.kflow", "b.kflow.zst", "c.log", "d.zst"] {
        std::fs::write(dir.path().join(name), "").unwrap();
    }
    std::fs::create_dir(dir.path().join("more")).unwrap();
    for words in [
        &["why", "-s", ""][..],
        &["replay", ""],
        &["stats", "--compare", "a.kflow", ""],
    ] {
        let mut command = quiet(KFLOW);
        command.current_dir(dir.path());
        let (all, directive) = told(&mut command, words);
        assert_eq!(all, ["a.kflow", "b.kflow.zst", "more/", "-"], "{words:?}");
        assert_eq!(directive, ":6", "{words:?}");
    }
}

#[test]
fn bash_completes_by_the_script() {
    let s = session();
    let dir = Path::new(KFLOW).parent().unwrap();
    let ask = |words: &str, index: usize| {
        let run = format!(
            "source <(kflow completions bash)\nCOMP_WORDS=({words}); COMP_CWORD={index}; COMP_TYPE=9\n\
             _clap_complete_kflow kflow \"${{COMP_WORDS[COMP_CWORD]}}\" x\nprintf '%s\\n' \"${{COMPREPLY[@]}}\""
        );
        let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
        let out = quiet("bash")
            .args(["-c", &run])
            .env("PATH", path)
            .output()
            .unwrap();
        text(&out)
            .lines()
            .map(|l| l.trim_end().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ask("kflow timel", 1), ["timeline"]);
    let pods = ask(&format!("kflow why -s {s} s62/"), 4);
    assert!(
        !pods.is_empty() && pods.iter().all(|p| p.starts_with("s62/")),
        "{pods:?}"
    );
    // The completed word is in the middle of the line.
    assert_eq!(ask(&format!("kflow why s62/{} -s {s}", "nobody"), 2), [""]);
    assert_eq!(ask(&format!("kflow why no -s {s}"), 2), ["node/"]);
}

#[test]
fn kubectl_completes_by_the_script() {
    let s = session();
    let dir = tempfile::tempdir().unwrap();
    let script = quiet(KFLOW)
        .args(["completions", "kubectl"])
        .output()
        .unwrap();
    let plugin = dir.path().join("kubectl_complete-kflow");
    std::fs::write(&plugin, text(&script)).unwrap();
    std::fs::set_permissions(&plugin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!(
        "{}:/usr/bin:/bin",
        Path::new(KFLOW).parent().unwrap().display()
    );
    let ask = |words: &[&str]| {
        let mut command = quiet("/bin/sh");
        let out = command
            .arg(&plugin)
            .args(words)
            .env("PATH", &path)
            .output()
            .unwrap();
        text(&out)
    };
    assert_eq!(ask(&["them"]), "themes\tList themes, or their keys\n:4\n");
    assert_eq!(ask(&["why", "-s", &s, "node/"]), "node/node1\n:4\n");
    assert_eq!(ask(&["why", "--no-api", "nobody"]), ":4\n");
    assert!(ask(&[""]).contains("\nwhy\t"));
}

#[test]
fn what_does_not_answer_completes_nothing_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("pipe.kflow");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let fifo = fifo.display().to_string();
    let took = quickest(|| {
        let words = ["why", "-s", &fifo, "s"];
        let out = told(&mut quiet(KFLOW), &words);
        assert_eq!(out, (Vec::new(), ":4".to_owned()));
    });
    assert!(took < SOON, "{took:?}");
    // What needs no names does not wait for the file.
    let took = quickest(|| {
        let flags = told(&mut quiet(KFLOW), &["why", "-s", &fifo, "--al"]).0;
        assert_eq!(flags, ["--all", "--all-namespaces"]);
    });
    assert!(took < SOON, "{took:?}");
}
