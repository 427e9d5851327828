//! Log lines with canaries: klog in text and JSON, journald, logrus.

use serde_json::{Value, json};
use std::fmt::Write as _;

use super::Canaries;

/// Structured messages of the kubelet: message, and fields as JSON.
const MESSAGES: [(&str, &str); 22] = [
    (
        "HTTP-Probe",
        r#"{"scheme":"http","host":"10.244.0.6","port":"8080","path":"/healthz?token={C}&x={C}","timeout":"1s","headers":[{"name":"Authorization","value":"Bearer {C}"},{"name":"X-Plain","value":"{C}"}],"probeType":"Startup","m":"{M}"}"#,
    ),
    (
        "HTTP-Probe",
        r#"{"headers":{"Authorization":["Bearer {C}"],"X-Plain":["{C}"]},"m":"{M}"}"#,
    ),
    (
        "Response Body",
        r#"{"m":"{M}","body":"{\"kind\":\"Pod\",\"spec\":{\"env\":[{\"name\":\"A\",\"value\":\"{C}\"}],\"x\":\"{C}\"}}"}"#,
    ),
    (
        "Request Body",
        r#"{"m":"{M}","body":"00000000  6b 38 73 00 0a 0c  |k8s.{C}|"}"#,
    ),
    (
        "Creating container",
        r#"{"m":"{M}","env":[{"name":"GREETING","value":"{C}"}],"args":["--x","{C}"],"command":["sh","-c","echo {C}"]}"#,
    ),
    (
        "Container spec",
        r#"{"m":"{M}","container":{"name":"c","env":[{"name":"GREETING","value":"{C}"},{"name":"REF","valueFrom":null}],"args":["{C}"],"livenessProbe":{"exec":{"command":["sh","{C}"]}}}}"#,
    ),
    (
        "ExecSync cmd from runtime service failed",
        r#"{"m":"{M}","err":"rpc error: password={C}","containerID":"abc","cmd":["sh","-c","echo {C}"]}"#,
    ),
    (
        "Error syncing pod",
        r#"{"m":"{M}","err":"failed to pull https://bob:{C}@reg.example/v2/: 401, Authorization: Bearer {C}0123456789"}"#,
    ),
    (
        "Error syncing pod",
        r#"{"m":"{M}","err":"image \"bob:{C}@reg.example/app:1\" is invalid: {\"auths\":{\"reg\":{\"username\":\"bob\",\"password\":\"{C}\",\"auth\":\"{C}\"}}}"}"#,
    ),
    (
        "Volume attributes",
        r#"{"m":"{M}","volumeAttributes":{"share":"{C}"},"nodePublishSecrets":{"a":"{C}"},"volume_context":"{\"k\":\"{C}\"}"}"#,
    ),
    (
        "Annotations",
        r#"{"m":"{M}","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"x\":\"{C}\"}","y":"{C}"}}"#,
    ),
    (
        "Mounting",
        r#"{"m":"{M}","data":{"tls.key":"{C}"},"stringData":{"a":"{C}"},"registryPassword":"{C}","bootstrap-token":"{C}","apiKey":"{C}"}"#,
    ),
    (
        "Probe failed",
        r#"{"m":"{M}","output":"HTTP probe failed with statuscode: 500, token={C} X-Vault-Token: {C}"}"#,
    ),
    (
        "Keys",
        r#"{"m":"{M}","x":"aws_secret_access_key={C} AWS_SECRET_ACCESS_KEY: {C}","y":"eyJhbGciOiJSUzI1NiIsImtpZCI6.{C}.c2ln"}"#,
    ),
    (
        "Keys",
        r#"{"m":"{M}","x":"-----BEGIN RSA PRIVATE KEY-----\n{C}\n-----END RSA PRIVATE KEY-----","y":"-----BEGIN PRIVATE KEY-----\n{C}"}"#,
    ),
    (
        "Pod",
        r#"{"m":"{M}","pod2":"&Pod{Spec:PodSpec{Containers:[]Container{Container{Name:c,Image:user:{C}@reg.example/x:1,Command:[sh -c {C}],Args:[{C}],Env:[]EnvVar{EnvVar{Name:A,Value:{C} two words,ValueFrom:nil,},},},}"}"#,
    ),
    (
        "Container",
        r#"{"m":"{M}","x":"{Name:c Env:[{Name:A Value:{C} ValueFrom:nil}] Args:[--a {C}]} map[Authorization:[Bearer {C}] Cookie:[a={C}]] {Username:bob Password:{C} and {C} Server:x}"}"#,
    ),
    (
        "Config",
        r#"{"m":"{M}","x":"envs:{key:\"A\"  value:\"{C}\"}  args:\"{C}\"  annotations:{key:\"k\"  value:\"{C}\"}"}"#,
    ),
    (
        "Config",
        r#"{"m":"{M}","x":"config: {\"spec\":{\"env\":[{\"name\":\"A\",\"value\":\"{C}\\\"}\"}],\"args\":[\"{C}\"]}}"}"#,
    ),
    (
        "Flags",
        r#"{"m":"{M}","x":"mysql --password {C} --token={C} [\"--api-token\",\"{C}\"] -e DB_PASS={C}"}"#,
    ),
    (
        "URL",
        r#"{"m":"{M}","url":"https://b.s3.amazonaws.com/x?X-Amz-Credential={C}&X-Amz-Signature={C}&sig={C}","URI":"/api/v1/namespaces/a/pods/b/exec?command=sh&command=-c&command={C}&container=c"}"#,
    ),
    (
        "Basic",
        r#"{"m":"{M}","x":"Authorization: Basic {C}OnBhc3M= and .dockerconfigjson: {C} and GITHUB_TOKEN={C}"}"#,
    ),
];

/// Messages without fields: lines of older kubelets, of client-go, of curl, and free text of any kind.
pub(super) const PROSE: [&str; 27] = [
    r"{M} login with password=my {C} words {C}",
    r"{M} sent Authorization: Bearer {C} {C}",
    r"{M} DB_PASSWORD=two {C} words {C} host=db",
    r"{M} the passphrase: correct {C} battery {C}, trying again",
    r#"{M} curl -v -XGET -H "Authorization: Bearer {C}abcdef0123" -H "X-Api-Key: {C}" 'https://127.0.0.1:6443/api?access_token={C}'"#,
    r#"{M} Response Body: {"kind":"Secret","data":{"password":"{C}"}}"#,
    r"{M} Request Headers: map[Authorization:[Bearer {C}] X-Plain:[{C}]]",
    r"{M} HTTP-Probe Headers: map[Authorization:[Basic {C}=] X-Plain:[{C}]]",
    r"{M} Exec-Probe Pod: web, Container: c, Command: [sh -c curl -H token:{C} {C}]",
    r#"{M} Generating env: [{Name:A Value:{C} ValueFrom:<nil>}] for pod "web""#,
    r#"{M} GRPC request: {"node_publish_secrets":{"a":"{C}"},"volume_context":{"b":"{C}"}}"#,
    r#"{M} error: "exit status 1", output: "login failed for password='{C}' secret_key: {C}""#,
    r"{M} helm --set-string auth.a={C},b={C} --from-literal=x={C} curl -u bob:{C} https://h",
    r"{M} mysql -uroot -p{C} -h db; sshpass -p {C} ssh h",
    r"{M} PGPASSWORD={C} psql; env A={C} B={C}; X_KEY={C}",
    r#"{M} the password is {C}; password "{C}" is wrong"#,
    r"{M} client secret: {C}, token {C} expired, Password for bob: {C}",
    r"{M} Mounting cmd (mount) with arguments (-t ceph -o name=a,secret={C} x)",
    r"{M} rbd map --id admin --key {C} and <password>{C}</password>",
    r#"{M} patch [{"op":"replace","path":"/spec/containers/0/env/0/value","value":"{C}"},{"value":"{C}","op":"add","path":"/spec/args/-"}]"#,
    r#"{M} patch {"spec":{"containers":[{"$setElementOrder/env":[{"name":"A"}],"env":[{"name":"A","value":"{C}"}]}]}}"#,
    r"{M} &{Username:bob Password:{C} Auth:{C} ServerAddress:r}",
    r"{M} yaml:\npassword: {C}\ntoken: {C}\nuser: x",
    r"{M} POST https://n:10250/exec/a/b/c?command=env%20X%3D{C}&command={C}&input=1",
    r"{M} AccountKey={C}; SharedAccessKey={C}=; jdbc:mysql://db/x?user=bob&password={C}",
    r"{M} Cookie: a={C}; JSESSIONID={C}",
    r#"{M} Starting with --container-args=["{C}"] --env=A={C} --registry-password {C}"#,
];

fn fields(text: &str) -> Vec<(String, Value)> {
    let Value::Object(map) = serde_json::from_str(text).unwrap() else {
        panic!("{text}");
    };
    map.into_iter().collect()
}

/// Returns the messages with their parsed fields. Canaries and marks need no escape in JSON, so templates are filled
/// before they are parsed.
fn messages(c: &mut Canaries) -> Vec<(&'static str, Vec<(String, Value)>)> {
    MESSAGES
        .iter()
        .map(|(m, f)| (*m, fields(&c.fill(f))))
        .collect()
}

/// Returns ` key=value` for each field, as klog writes it.
fn pairs(fields: &[(String, Value)]) -> String {
    let mut out = String::new();
    for (key, value) in fields {
        match value {
            Value::String(s) => write!(out, " {key}={s:?}").unwrap(),
            other => write!(out, " {key}={other}").unwrap(),
        }
    }
    out
}

const HEADER: &str = "I1121 00:24:31.844229    3731 prober.go:173]";

fn lines(c: &mut Canaries) -> Vec<String> {
    let mut all = Vec::new();
    for (message, fields) in messages(c) {
        all.push(format!("{HEADER} {message:?}{}", pairs(&fields)));
    }
    all.extend(PROSE.iter().map(|p| format!("{HEADER} {}", c.fill(p))));
    all
}

/// Returns the log as klog text.
pub(super) fn kubelet_text(c: &mut Canaries) -> String {
    lines(c).join("\n") + "\n"
}

pub(super) fn kubelet_json(c: &mut Canaries) -> String {
    let mut out = String::new();
    for (message, fields) in messages(c) {
        let mut line = json!({"ts": 1_795_220_671_844.229, "caller": "prober/prober.go:173", "msg": message, "v": 4});
        for (key, value) in fields {
            line[key] = value;
        }
        writeln!(out, "{line}").unwrap();
    }
    for prose in PROSE {
        let line = json!({"ts": 1_795_220_671_844.229, "caller": "a/b.go:1", "msg": c.fill(prose), "v": 10});
        writeln!(out, "{line}").unwrap();
    }
    out
}

pub(super) fn journal(c: &mut Canaries, unit: &str) -> String {
    entries(&lines(c), unit)
}

fn entries(lines: &[String], unit: &str) -> String {
    let mut out = String::new();
    for line in lines {
        let entry = json!({
            "__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "1795220671844229", "_SYSTEMD_UNIT": unit,
            "SYSLOG_IDENTIFIER": "kubelet", "PRIORITY": "6", "_HOSTNAME": "node1", "MESSAGE": line,
        });
        writeln!(out, "{entry}").unwrap();
    }
    out
}

pub(super) fn journal_short(c: &mut Canaries) -> String {
    let mut out = String::new();
    for line in lines(c) {
        writeln!(out, "Nov 21 00:24:31 node1 kubelet[3731]: {line}").unwrap();
    }
    out
}

fn runtime_lines(c: &mut Canaries) -> Vec<String> {
    let mut all = Vec::new();
    let mut line = |message: &str, more: &str| {
        all.push(format!(
            "time=\"2026-11-21T01:02:59.225566393Z\" level=error msg={message:?}{more}"
        ));
    };
    for (message, fields) in messages(c) {
        // The message comes last, because kflow drops all that follows `Response Body`.
        line(&format!("{} {message}", pairs(&fields)), "");
    }
    for prose in PROSE {
        let text = c.fill(prose);
        line(&text, "");
        let error = c.fill("failed to authorize https://auth.example/token?account={C}: bob:{C}@reg.example: token={C}");
        line(
            "PullImage failed",
            &format!(" error={error:?} password={:?}", c.put("logrus field")),
        );
    }
    all
}

pub(super) fn runtime(c: &mut Canaries) -> String {
    runtime_lines(c).join("\n") + "\n"
}

pub(super) fn runtime_journal(c: &mut Canaries) -> String {
    entries(&runtime_lines(c), "containerd.service")
}
