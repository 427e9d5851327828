//! A map in JSON of commands and what they printed, as benchmarks for AI agents and caches of their tools keep it:
//! `{"kubectl get pods -n shop": "NAME …", …}`. It becomes the text that a terminal would show.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// With what the commands begin.
const COMMANDS: [&str; 2] = ["kubectl ", "oc "];

/// True for the begin of such a map: its first entry is one.
pub fn begins_outputs(begin: &[u8]) -> bool {
    let first = || {
        let inside = begin.trim_ascii_start().strip_prefix(b"{")?;
        let mut strings = serde_json::Deserializer::from_slice(inside).into_iter::<String>();
        let command = strings.next()?.ok()?;
        let at = strings.byte_offset();
        let printed = inside.get(at..)?.trim_ascii_start().strip_prefix(b":")?;
        let printed = printed.trim_ascii_start();
        let is_text = printed.starts_with(b"\"") || printed.starts_with(b"[");
        Some(is_text && is_command(&command))
    };
    first().unwrap_or_default()
}

/// Returns the text of such a map, each command behind a prompt, in the order in which they stand there; `None` for any other JSON.
pub fn outputs(json: &[u8]) -> Option<String> {
    let Outputs(all) = serde_json::from_slice(json).ok()?;
    let mut text = String::new();
    for (command, printed) in all.iter().filter(|(command, _)| is_command(command)) {
        text.push_str("$ ");
        text.push_str(&command.replace('\n', " "));
        text.push('\n');
        text.push_str(printed.trim_end());
        text.push_str("\n\n");
    }
    (!text.is_empty()).then_some(text)
}

fn is_command(key: &str) -> bool {
    COMMANDS.iter().any(|command| key.starts_with(command))
}

/// Commands and what they printed, in the order of the document.
struct Outputs(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Outputs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(OfMap)
    }
}

struct OfMap;

impl<'de> Visitor<'de> for OfMap {
    type Value = Outputs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of commands and their outputs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outputs, A::Error> {
        let mut all = Vec::new();
        while let Some(command) = map.next_key::<String>()? {
            if !is_command(&command) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let printed = match map.next_value::<Value>()? {
                Value::String(text) => text,
                // Its lines.
                Value::Array(lines) => {
                    let lines: Vec<&str> = lines.iter().filter_map(Value::as_str).collect();
                    lines.join("\n")
                }
                _ => continue,
            };
            all.push((command, printed));
        }
        Ok(Outputs(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cloud-OpsBench, shortened (`benchmark/boutique/admission/1/raw_data/k8s_states.json`); its order is that of the questions.
    #[test]
    fn commands_and_their_outputs_are_a_text() {
        let json = r#"{
  "kubectl get pods -n boutique": "NAME                           READY   STATUS    RESTARTS   AGE\ncartservice-79b49f5555-h95zb   1/1     Running   0          93s\n",
  "kubectl get daemonsets -n boutique": "",
  "GetAlerts": {"a": 1},
  "kubectl get nodes -n boutique": "NAME        STATUS   ROLES   AGE    VERSION\nworker-01   Ready    node    108d   v1.31.2\n"
}"#;
        let want = "$ kubectl get pods -n boutique\nNAME                           READY   STATUS    RESTARTS   AGE\n\
            cartservice-79b49f5555-h95zb   1/1     Running   0          93s\n\n\
            $ kubectl get daemonsets -n boutique\n\n\n\
            $ kubectl get nodes -n boutique\nNAME        STATUS   ROLES   AGE    VERSION\n\
            worker-01   Ready    node    108d   v1.31.2\n\n";
        assert!(begins_outputs(json.as_bytes()));
        assert_eq!(outputs(json.as_bytes()).as_deref(), Some(want));
        // Its begin.
        assert!(begins_outputs(&json.as_bytes()[..40]));
    }

    #[test]
    fn other_json_is_none() {
        for json in [
            r#"{"adservice": [], "cartservice": ["kubectl get pods"]}"#,
            r#"{"apiVersion": "v1", "kind": "Pod"}"#,
            r#"{"kubectl get pods": 1}"#,
            r#"["kubectl get pods"]"#,
            "{",
            "",
        ] {
            assert!(!begins_outputs(json.as_bytes()), "{json}");
        }
        assert_eq!(outputs(br#"{"kubectl get pods": "NAME"#), None);
    }
}
