//! Commands of kubectl in a ticket: `$ kubectl get pods -n shop`.

use super::pods::is_name;
use kflow_model::Text;

/// What a command says about what it prints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// Empty where it names none, and with `-A`.
    pub(super) namespace: String,
    /// The bounds of the list of pods, if it prints every pod of them. `None` for a command that leaves pods out, or may: a
    /// selector, a name, a pipe, a flag that is not known here.
    pub(super) whole: Option<Text>,
    pub(super) is_prompted: bool,
}

const VERBS: [&str; 14] = [
    "get", "describe", "logs", "events", "top", "exec", "delete", "apply", "create", "edit",
    "rollout", "scale", "config", "version",
];
/// Ends of prompts.
const PROMPTS: [char; 6] = ['$', '#', '%', '>', '❯', '✗'];

impl Command {
    /// Reads a line; `None` for one without a command.
    pub(super) fn of(line: &str) -> Option<Self> {
        let (is_prompted, words) = words(line)?;
        let of_shell = |w: &&str| w.contains(['|', '<', '>', ';', '&', '`']);
        let mut is_whole = !words.iter().any(of_shell);
        let mut words = words.into_iter();
        let (mut verb, mut of_pods, mut of_all, mut namespace) = (None, false, false, "");
        while let Some(word) = words.next() {
            let flag = word.split_once('=').filter(|_| word.starts_with('-'));
            let (name, value) = flag.map_or((word, None), |(name, value)| (name, Some(value)));
            match name {
                "-A" | "--all-namespaces" if value.is_none_or(|v| v == "true") => of_all = true,
                "-n" | "--namespace" => namespace = value.or_else(|| words.next())?,
                "--context" | "--kubeconfig" => drop(value.or_else(|| words.next())?),
                "-o" | "--output" => is_whole &= value.or_else(|| words.next()) == Some("wide"),
                "-owide" | "--show-labels" => {}
                _ if word.starts_with('-') => match word.strip_prefix("-n") {
                    Some(joined) => namespace = joined,
                    None => is_whole = false,
                },
                _ if verb.is_none() => verb = Some(*VERBS.iter().find(|v| **v == word)?),
                _ if of_pods => is_whole = false,
                _ => {
                    let mut kinds = word.split(',');
                    of_pods = kinds.any(|k| matches!(k, "pods" | "pod" | "po" | "all"));
                    is_whole &= of_pods;
                }
            }
        }
        let is_named = is_name(namespace);
        let namespace = if of_all || !is_named { "" } else { namespace };
        let of_get = verb? == "get";
        let is_whole = is_whole && of_get && of_pods && (of_all || is_named);
        Some(Self {
            namespace: namespace.to_owned(),
            whole: is_whole.then(|| namespace.into()),
            is_prompted,
        })
    }
}

/// Returns the words behind `kubectl`, which begins the line or stands behind a prompt, and whether there is a prompt.
fn words(line: &str) -> Option<(bool, Vec<&str>)> {
    let mut before: Vec<&str> = Vec::new();
    let mut words = line.split_whitespace();
    loop {
        match words.next()? {
            "kubectl" | "oc" | "k" => break,
            // `sudo k3s kubectl`
            "sudo" | "k3s" | "microk8s" => {}
            word if before.len() < 4 => before.push(word),
            _ => return None,
        }
    }
    let is_prompt = |w: &&str| w.ends_with(PROMPTS);
    let is_prompted = before.last().is_some_and(is_prompt) || before.first() == Some(&"➜");
    (is_prompted || before.is_empty()).then(|| (is_prompted, words.collect()))
}

/// True for the line at which a ticket goes on behind what kubectl printed: a command of another program at a prompt, or a
/// heading of Markdown.
pub(super) fn is_of_ticket(line: &str) -> bool {
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    let is_prompt = first.contains('@') && first.ends_with(PROMPTS);
    let is_mark = matches!(first, "$" | "❯" | "➜") || (1..=6).any(|n| first == "#".repeat(n));
    (is_prompt || is_mark) && !rest.trim().is_empty()
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
            ("$ kubectl", None),
            ("kubectl is slow", None),
            ("watch kubectl get pods -A", None),
        ] {
            let got = Command::of(line).map(|c| c.namespace);
            assert_eq!(got.as_deref(), want, "{line}");
        }
    }

    #[test]
    fn a_ticket_goes_on_with_a_command_or_a_heading() {
        for (line, is) in [
            ("$ journalctl -u containerd | tail -5", true),
            ("root@node-3:~# systemctl status kubelet", true),
            ("## Environment", true),
            ("#12 in the list", false),
            ("$", false),
            ("admin@example.com wrote", false),
            ("  $ indented", false),
            ("error: $ is not a name", false),
        ] {
            assert_eq!(is_of_ticket(line), is, "{line}");
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
            ("kubectl --context prod get pods,svc -A", Some("")),
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
            ("kubectl get pods -A --context prod|tail", None),
            ("kubectl get pods -A > pods.txt", None),
            ("kubectl get pods -n shop -w", None),
            ("kubectl get pods -n shop -o name", None),
            ("kubectl get svc -n shop", None),
            ("kubectl delete pods -n shop", None),
        ] {
            let got = Command::of(line).and_then(|c| c.whole);
            assert_eq!(got.as_deref(), want, "{line}");
        }
    }
}
