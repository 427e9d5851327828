//! Commands of kubectl in a ticket: `$ kubectl get pods -n shop`.

use super::attribute::Named;
use super::pods::is_name;
use super::ticket;
use kflow_model::Text;
use kflow_model::kind::{CLAIM, POD, of_word};

/// What a command says about what it prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// Empty where it names none, and with `-A`.
    pub(super) namespace: String,
    /// The bounds of the list of pods, if it prints every pod of them. `None` for a command that leaves pods out, or may: a
    /// selector, a name, a pipe, a flag that is not known here; and for one that may ask another cluster.
    pub(super) scope_if_complete: Option<Text>,
    /// The object that it describes.
    pub(super) described: Option<Described>,
    /// The object that it prints, in any form.
    pub(super) printed: Option<Described>,
    /// True if it lists claims.
    pub(super) of_claims: bool,
    /// The pod whose logs it prints.
    pub(super) logged: Option<Named>,
    pub(super) is_prompted: bool,
}

/// An object that a command names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) kind: &'static str,
    pub(super) object: Named,
}

/// Returns the kind that a word of kubectl stands for. `all` lists pods first.
fn kind_of(word: &str) -> Option<&'static str> {
    if word == "all" {
        return Some(POD);
    }
    of_word(word)
}

/// Commands that begin a line without a prompt; at a prompt any word is one.
const VERBS: [&str; 14] = [
    "get", "describe", "logs", "events", "top", "exec", "delete", "apply", "create", "edit",
    "rollout", "scale", "config", "version",
];

impl Command {
    /// Reads a line; `None` for one without a command.
    pub(super) fn of(line: &str) -> Option<Self> {
        // `watch` prints the command above what it printed last: `Every 2.0s: kubectl get pods`.
        let header = line.trim_start().strip_prefix("Every ");
        let watched = header.and_then(|h| h.split_once("s: "));
        if let Some((_, command)) = watched {
            return Self::of_words(command, true, false).map(|c| Self {
                scope_if_complete: None,
                ..c
            });
        }
        // `$kubectl get pods`
        let glued = line.trim_start().strip_prefix(['$', '#', '%', '>']);
        let glued = glued.filter(|c| c.split_whitespace().next().is_some_and(is_kubectl));
        if let Some(command) = glued {
            return Self::of_words(command, true, true);
        }
        ticket::splits(line).find_map(|(front, command)| {
            let is_prompted = ticket::ends_prompt(front);
            let is_command = is_prompted || front.is_empty();
            let is_certain = ticket::is_prompt((front, command));
            is_command.then(|| Self::of_words(command, is_prompted, is_certain))?
        })
    }

    /// Reads what stands behind the prompt; `is_certain` if it is one that no prose has.
    fn of_words(command: &str, is_prompted: bool, is_certain: bool) -> Option<Self> {
        let mut is_whole = !command.contains(OF_SHELL);
        let (is_plain, arguments) = after_kubectl(command, is_certain)?;
        is_whole &= is_plain;
        // Another command may follow.
        let arguments = arguments.split(['|', ';', '&']).next().unwrap_or_default();
        let mut words = arguments.split_whitespace().map(unquoted);
        let (mut verb, mut of_pods, mut of_all, mut namespace) = (None, false, false, "");
        let mut kind = None;
        let mut names = Vec::new();
        let mut logged = None;
        while let Some(word) = words.next() {
            let flag = word.split_once('=').filter(|_| word.starts_with('-'));
            let (name, value) = flag.map_or((word, None), |(name, value)| (name, Some(value)));
            match name {
                "-A" | "--all-namespaces" if value.is_none_or(|v| v == "true") => of_all = true,
                "-n" | "--namespace" => namespace = value.or_else(|| words.next())?,
                // Maybe another cluster.
                "--context" | "--kubeconfig" => {
                    value.or_else(|| words.next())?;
                    is_whole = false;
                }
                "-o" | "--output" => is_whole &= value.or_else(|| words.next()) == Some("wide"),
                "-c" | "--container" | "--tail" | "--since" | "-l" | "--selector"
                    if verb.is_some_and(is_logs) =>
                {
                    value.or_else(|| words.next())?;
                }
                "-owide" | "--show-labels" => {}
                _ if word.starts_with('-') => match word.strip_prefix("-n") {
                    Some(joined) => namespace = joined,
                    None => is_whole = false,
                },
                _ if verb.is_none() && is_prompted => verb = Some(word),
                _ if verb.is_none() => verb = Some(*VERBS.iter().find(|v| **v == word)?),
                _ if verb.is_some_and(is_logs) => {
                    let name = word.strip_prefix("pod/").unwrap_or(word);
                    logged.get_or_insert(name);
                }
                _ if kind.is_some() => {
                    is_whole = false;
                    names.push(word);
                }
                _ => {
                    let (kinds, name) = word.split_once('/').unwrap_or((word, ""));
                    let mut known = kinds.split(',').filter_map(kind_of);
                    kind = known.next();
                    of_pods = name.is_empty() && (kind == Some(POD) || known.any(|k| k == POD));
                    is_whole &= of_pods;
                    names.extend(Some(name).filter(|n| !n.is_empty()));
                }
            }
        }
        let namespace = unquoted(namespace);
        let is_named = is_name(namespace);
        let namespace = if of_all || !is_named { "" } else { namespace };
        let verb = verb?;
        let of_get = verb == "get";
        let is_printed = matches!(verb, "get" | "describe" | "edit");
        let named = |name: &str| Named {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let printed = match names.as_slice() {
            [name] if is_printed && is_name(name) => kind.map(|kind| Described {
                kind,
                object: named(name),
            }),
            _ => None,
        };
        let is_whole = is_whole && of_get && of_pods && (of_all || is_named);
        Some(Self {
            namespace: namespace.to_owned(),
            scope_if_complete: is_whole.then(|| namespace.into()),
            described: printed.clone().filter(|_| verb == "describe"),
            printed,
            of_claims: of_get && kind == Some(CLAIM),
            logged: logged.filter(|name| is_name(name)).map(named),
            is_prompted,
        })
    }
}

fn is_logs(verb: &str) -> bool {
    matches!(verb, "logs" | "log")
}

/// Signs of a shell: another command follows, or the output goes elsewhere.
const OF_SHELL: [char; 6] = ['|', '<', '>', ';', '&', '`'];
/// Flags of sudo and minikube that have their value in the next word.
const WITH_VALUE: [&str; 6] = ["-u", "--user", "-g", "--group", "-p", "--profile"];

/// Skips the words up to kubectl; `None` where another program runs. At a prompt that is certain it may be one that runs kubectl
/// elsewhere, or stand before it in the same line (`ssh n1 kubectl …`, `cd x; kubectl …`). False if another cluster may be meant,
/// or the table is printed again and again.
fn after_kubectl(command: &str, is_certain: bool) -> Option<(bool, &str)> {
    let (mut is_plain, mut is_runner) = (true, false);
    let mut rest = command;
    loop {
        let (word, after) = super::age::word(rest);
        rest = after;
        match word {
            "" => return None,
            _ if is_kubectl(word) => return Some((is_plain, rest)),
            // `sudo k3s kubectl`
            "sudo" | "k3s" | "microk8s" | "time" => is_runner = true,
            "watch" | "env" | "minikube" | "doas" => {
                is_runner = true;
                is_plain = false;
            }
            // It keeps the environment of its user.
            "-E" | "--preserve-env" if is_runner => {}
            // `sudo -u me`
            _ if is_runner && WITH_VALUE.contains(&word) => {
                is_plain = false;
                let (value, after) = super::age::word(rest);
                // `time -p` has none.
                if !is_kubectl(value) {
                    rest = after;
                }
            }
            // `watch -n 2`
            _ if is_runner && word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => {
                is_plain = false;
            }
            _ if is_variable(word) => is_plain = false,
            _ if is_certain => return elsewhere(rest).map(|arguments| (false, arguments)),
            _ => return None,
        }
    }
}

/// True for kubectl, by its name or its path, and for what has its arguments.
fn is_kubectl(word: &str) -> bool {
    let name = unquoted(word);
    let program = name.rsplit(['/', '\\']).next().unwrap_or(name);
    match program.strip_suffix(".exe").unwrap_or(program) {
        "kubectl" | "oc" | "kubecolor" | "microk8s.kubectl" => true,
        "k" => name == "k",
        _ => false,
    }
}

/// Returns what stands behind the first `kubectl` of a line.
fn elsewhere(line: &str) -> Option<&str> {
    let mut rest = line;
    while !rest.trim().is_empty() {
        let (word, after) = super::age::word(rest);
        if unquoted(word) == "kubectl" {
            return Some(after);
        }
        rest = after;
    }
    None
}

fn unquoted(word: &str) -> &str {
    word.trim_matches(['"', '\''])
}

/// `KUBECONFIG=/x`
fn is_variable(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    let of_name = |b: u8| b.is_ascii_uppercase() || b == b'_';
    !name.is_empty() && name.bytes().all(of_name)
}

/// True for the line that kubectl prints where there is no pod within these bounds.
pub(super) fn is_none_found(line: &str, whole: &str) -> bool {
    match line.trim().strip_prefix("No resources found") {
        // With a full stop before 1.17.
        Some("" | ".") => whole.is_empty(),
        Some(rest) => rest == format!(" in {whole} namespace."),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_a_ticket_names_the_namespace() {
        for (line, want) in [
            ("$ kubectl get pods -n shop", Some("shop")),
            ("# oc get po --namespace=shop -o wide", Some("shop")),
            ("k -n shop get pods", Some("shop")),
            ("kubectl get pods -nshop", Some("shop")),
            ("kubectl get pods -A", Some("")),
            ("kubectl get pods -n $NS", Some("")),
            ("kubectl describe pod web-0 -n shop", Some("shop")),
            (
                "user@host:~$ sudo k3s kubectl -n shop get svc",
                Some("shop"),
            ),
            ("➜  deploy git:(main) kubectl get po -n shop", Some("shop")),
            ("It hangs:", None),
            ("(rest of kubectl cut)", None),
            ("... 40 k more rows", None),
            ("We ran kubectl get pods -n shop", None),
            ("# We ran kubectl get pods -n shop", None),
            ("It is at 50% of kubectl get pods -n shop", None),
            ("$ kubectl", None),
            ("kubectl is slow", None),
            ("watch kubectl get pods -n shop", Some("shop")),
            ("$ watch -n 2 kubectl get pods -n shop", Some("shop")),
            (
                "Every 2.0s: kubectl get pods -n shop   host: Fri Nov 27 00:34:11 2026",
                Some("shop"),
            ),
            ("$ time kubectl get pods -n 'shop'", Some("shop")),
            ("KUBECONFIG=/x kubectl get pods -n \"shop\"", Some("shop")),
            ("$ /usr/local/bin/kubectl get pods -n shop", Some("shop")),
            ("PS C:\\> kubectl.exe get pods -n shop", Some("shop")),
            ("C:\\x>kubectl get pods -n shop", Some("shop")),
            ("λ kubectl get pods -n shop", Some("shop")),
            ("bash% kubectl get pods -n shop", Some("shop")),
            ("$ sudo -E kubectl get pods -n shop", Some("shop")),
            ("sudo -E kubectl get pods -n shop", Some("shop")),
            ("# sudo -u bob -H kubectl -n shop get po", Some("shop")),
            ("$ env KUBECONFIG=/x kubectl get po -n shop", Some("shop")),
            ("$ minikube kubectl -- get pods -n shop", Some("shop")),
            ("$ microk8s.kubectl get pods -n shop", Some("shop")),
            ("$ watch -n1 'kubectl get pods -n shop'", Some("shop")),
            ("$ watch -n 1 -d \"kubectl get pods -n shop\"", Some("shop")),
            ("$ cd /x; kubectl get pods -n shop", Some("shop")),
            (
                "$ export KUBECONFIG=/x && kubectl get pods -n shop",
                Some("shop"),
            ),
            (
                "$ docker exec -it kind-control-plane kubectl get pods -n shop",
                Some("shop"),
            ),
            ("$ kubectl get pods -n shop|grep web", Some("shop")),
            ("$ kubectl get pod <name> -n shop", Some("shop")),
            (
                "$ while true; do kubectl get po -n shop; sleep 1; done",
                Some("shop"),
            ),
            ("$ kubectl get po -n shop && helm list -n db", Some("shop")),
            ("sudo -E helm list -n shop", None),
            ("$ helm list -n shop", None),
            ("$ sudo -n kubectl get pods -n shop", Some("shop")),
            ("$ time -p kubectl get pods -n shop", Some("shop")),
            ("$ sudo", None),
            ("$ kubectl cordon node1", Some("")),
            ("$ oc adm must-gather", Some("")),
        ] {
            let got = Command::of(line).map(|c| c.namespace);
            assert_eq!(got.as_deref(), want, "{line}");
        }
    }

    /// A selector, a name, a pipe, or a flag that is not known may leave pods out.
    #[test]
    fn a_command_says_whether_its_table_lacks_pods() {
        for (line, want) in [
            ("$ kubectl get pods -n shop", Some("shop")),
            (
                "root@host:~# oc -n shop get po -o wide --show-labels",
                Some("shop"),
            ),
            ("kubectl get all --namespace=shop", Some("shop")),
            ("kubectl get pods,svc -A", Some("")),
            ("$ time kubectl get pods -n 'shop'", Some("shop")),
            ("$ sudo -E kubectl get pods -n shop", Some("shop")),
            ("$ sudo -u bob kubectl get pods -n shop", None),
            ("$ ssh n1 kubectl get pods -n shop", None),
            ("$ minikube -p b kubectl -- get pods -n shop", None),
            ("kubectl --context staging get pods -n shop", None),
            ("kubectl --kubeconfig=/x get pods -A", None),
            ("KUBECONFIG=/x kubectl get pods -A", None),
            ("watch kubectl get pods -A", None),
            ("Every 2.0s: kubectl get pods -A", None),
            ("k get pods --all-namespaces -owide", Some("")),
            ("kubectl get pods", None),
            ("kubectl get pods -n $NS", None),
            ("kubectl get pods -n shop web-0", None),
            ("kubectl get pods -n shop wide", None),
            ("kubectl get pods -n shop get", None),
            ("kubectl get pod/web-0 -n shop", None),
            ("kubectl get pods -n shop -l app=web", None),
            (
                "kubectl get pods -A --field-selector spec.nodeName=n1",
                None,
            ),
            ("kubectl get pods -A | grep -v Running", None),
            ("kubectl get pods -A --show-labels|tail", None),
            ("kubectl get pods -A > pods.txt", None),
            ("kubectl get pods -n shop -w", None),
            ("kubectl get pods -n shop -o name", None),
            ("kubectl get svc -n shop", None),
            ("kubectl delete pods -n shop", None),
        ] {
            let got = Command::of(line).and_then(|c| c.scope_if_complete);
            assert_eq!(got.as_deref(), want, "{line}");
        }
    }
}
