use super::*;
use proptest::prelude::*;

fn gone(input: &str, secret: &str) {
    let out = text(input);
    assert!(!out.contains(secret), "{input} -> {out}");
    assert!(out.contains(REDACTED), "{input} -> {out}");
}

#[test]
fn every_pattern_compiles() {
    assert!(FIND.is_some() && shape::shapes().is_some());
    assert!(scan::values("password=hunter2").is_some_and(|s| s != REDACTED));
}

#[test]
fn every_plain_parameter_is_found() {
    for name in shape::PARAMETERS {
        assert!(is_plain_parameter(name), "{name}: the list is not sorted");
    }
}

#[test]
fn credentials_are_taken_out() {
    gone(
        "Authorization: Bearer abcdef0123456789xyz",
        "abcdef0123456789xyz",
    );
    gone(
        "headers map[Authorization:[Basic dXNlcjpwYXNz]]",
        "dXNlcjpwYXNz",
    );
    gone(
        "got 401 for bearer 0123456789abcdef0123",
        "0123456789abcdef0123",
    );
    gone("mysql -u root --password=hunter2 -h db", "hunter2");
    gone("env DB_PASSWORD=hunter2", "hunter2");
    gone("env DB_PASSWORD: \"hunter2\"", "hunter2");
    gone(
        r#"{"auths":{"r.io":{"auth":"dXNlcjpwYXNz"}}}"#,
        "dXNlcjpwYXNz",
    );
    gone(r#"body: {\"token\":\"s3cr3tt0k3n\"}"#, "s3cr3tt0k3n");
    gone("pull https://bob:hunter2@registry.example/v2/", "hunter2");
    gone(
        "git clone https://ghp_0123456789abcdefghij@github.com/x",
        "ghp_0123456789abcdefghij",
    );
    gone(
        "token eyJhbGciOiJSUzI1NiIsImtpZCI6IiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2ln done",
        "eyJ",
    );
    gone("aws AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE");
    gone(
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
        "MIIE",
    );
    gone("-----BEGIN PRIVATE KEY-----\nMIIEcut", "MIIEcut");
    gone(
        "GET https://b.s3.amazonaws.com/x?X-Amz-Credential=abc%2F2026&X-Amz-Signature=0a1b2c: 403",
        "0a1b2c",
    );
    gone(
        "https://acc.blob.core.windows.net/c/b?sv=2024&sig=AbC%3D",
        "AbC%3D",
    );
    gone("Set-Cookie: session=abcdef; Path=/", "abcdef");
    gone("the password is hunter2, try it", "hunter2");
    gone("db password is \"hunter2 two\"", "hunter2 two");
    gone("your PIN is 4711.", "4711");
    gone("unlock --pin 4711 --slot 1", "4711");
    gone("unlock?pin=4711", "4711");
    gone("login --user u --pass hunter2", "hunter2");
    gone("config:\n  password:\n    hunter2\n  user: u", "hunter2");
}

#[test]
fn what_is_said_of_a_password_stays() {
    for s in [
        "the password is required",
        "password is not set",
        "your PIN is wrong.",
        "the spin is fast, and mapping is off",
        "password:\n  secretKeyRef:\n    name: db",
        "ping=3 shipping=4",
        "pin: 3",
    ] {
        assert_eq!(text(s), s);
    }
}

/// Lines of public reports: Docker Hub, ghcr.io, ECR, quay.io, ACR.
#[test]
fn what_registries_say_of_credentials_stays() {
    for s in [
        "pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed",
        "push access denied, repository does not exist or may require authorization: server message: invalid_token: authorization failed",
        "repository does not exist or may require authorization: authorization failed: no basic auth credentials",
        r#"err="ErrImagePull: \"may require authorization: server message: insufficient_scope: authorization failed\"" pod="a/b""#,
        "pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
        "failed to authorize: failed to fetch oauth token: unexpected status: 401 Unauthorized",
        "failed to authorize: failed to fetch anonymous token: unexpected status: 403 Forbidden",
        "Error response from daemon: Head \"https://ghcr.io/v2/x/y/manifests/1\": unauthorized",
        "Get https://1.dkr.ecr.us-east-1.amazonaws.com/v2/x/manifests/1: no basic auth credentials",
        "denied: Your authorization token has expired. Reauthenticate and try again.",
        "unauthorized: access to the requested resource is not authorized",
        "unable to retrieve auth token: invalid username/password: unauthorized: authentication required",
        "unauthorized: authentication required, visit https://aka.ms/acr/authorization for more information.",
    ] {
        assert_eq!(text(s), s);
    }
}

#[test]
fn a_credential_behind_such_words_is_taken_out() {
    for (input, want) in [
        (
            "authorization: authorization failed hunter2",
            "authorization: authorization failed<redacted>",
        ),
        (
            "may require authorization: server message: hunter2",
            "may require authorization: server message: <redacted>",
        ),
        (
            "authorization:authorization failed",
            "authorization:<redacted>",
        ),
        (
            "Proxy-Authorization: Digest username=\"u\"",
            "Proxy-Authorization: <redacted>\"u\"",
        ),
        (
            "Authorization: hunter2 authorization failed",
            "Authorization: <redacted>",
        ),
    ] {
        assert_eq!(text(input), want);
    }
    gone("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz");
    gone("authorization failed: token=hunter2", "hunter2");
}

#[test]
fn what_kubernetes_says_of_secrets_and_tokens_stays() {
    for s in [
        "MountVolume.SetUp failed for volume \"kube-api-access-5xk2p\" : object \"s01\"/\"kube-root-ca.crt\" not registered",
        "Error: secret \"not-there\" not found",
        "couldn't find key password in Secret s04/db",
        "docker-pullable://nginx@sha256:0123456789abcdef",
        "docker-pullable://localhost:5000@sha256:0123456789abcdef",
        "secret=\"s04/not-there\"",
        "TokenExpirationSeconds:*3607",
        "dial unix:///run/containerd/containerd.sock: connect: connection refused",
        "Failed to pull image \"127.0.0.1:5000/nope:1\": rpc error: code = NotFound",
        "webhook https://hook.s30.svc:443/deny?timeout=10s refused",
        "Bearer authentication failed",
        "error during container init: mkdir /etc/passwd: not a directory",
        "exec: \"/etc/passwd\": permission denied",
        "serviceaccounts/default/token",
        "failed to fetch oauth token: unexpected status",
        "failed to fetch token: serviceaccounts \"robot\" not found",
    ] {
        assert_eq!(text(s), s);
    }
}

proptest! {
    #[test]
    fn redaction_is_idempotent_and_never_panics(s in ".{0,200}") {
        let once = text(&s).into_owned();
        prop_assert_eq!(text(&once).into_owned(), once.clone());
    }

    #[test]
    fn a_password_in_any_surrounding_is_taken_out(a in "[a-z /.]{0,20}", b in "[ ,;&}]", pw in "[A-Za-z0-9!$%^*]{6,20}") {
        let s = format!("{a} password={pw}{b} tail");
        let out = text(&s).into_owned();
        prop_assert!(!out.contains(&format!("={pw}")), "{}", out);
        // After a space, `tail` may be a part of the value.
        prop_assert!(b == " " || out.ends_with("tail"), "{}", out);
    }
}

#[test]
fn what_stands_beside_a_credential_stays() {
    for (input, want) in [
        (
            "Authorization: Bearer eyJhbGciOi.J9.x and more, sent",
            "Authorization: Bearer <redacted>, sent",
        ),
        (
            "login password=my secret words host=db failed",
            "login password=<redacted> host=db failed",
        ),
        (
            "mysql --password=my secret words -h db",
            "mysql --password=<redacted> -h db",
        ),
        (
            "the passphrase: correct horse battery; next",
            "the passphrase: <redacted>; next",
        ),
        (
            r#"msg="client_secret=two words" pod="a/b""#,
            r#"msg="client_secret=<redacted>" pod="a/b""#,
        ),
        (
            "map[Authorization:[Basic dXNlcjpwYXNz] Accept:[x]]",
            "map[Authorization:<redacted> Accept:[x]]",
        ),
        ("token=abc123, next", "token=<redacted>, next"),
        ("token: abc123, next", "token: <redacted>, next"),
        (
            r#"{"password":"hunter2","a":1}"#,
            r#"{"password":"<redacted>","a":1}"#,
        ),
        (
            r#"x: {\"password\":\"hunter2\",\"a\":1}"#,
            r#"x: {\"password\":\"<redacted>\",\"a\":1}"#,
        ),
        (
            r#"Get "https://user:pw@registry:5000/v2/": EOF"#,
            r#"Get "https://<redacted>@registry:5000/v2/": EOF"#,
        ),
        (
            "https://s3/x?X-Amz-Signature=deadbeef&timeout=5s: 403",
            "https://s3/x?X-Amz-Signature=<redacted>&timeout=5s: 403",
        ),
        (
            "GET /api?limit=500?sig=deadbeef&watch=true&fieldSelector=a=b?x=1?y&",
            "GET /api?limit=500?sig=<redacted>&watch=true&fieldSelector=a=b?x=<redacted>",
        ),
        (
            r#"headers=[{"name":"Authorization","value":"Bearer x"}] probeType="Startup""#,
            r#"headers=<redacted> probeType="Startup""#,
        ),
        (
            r#"[{"name":"A","value":"x"},{"name":"B","value":"y"}] end"#,
            r#"[{"name":"A","value":"<redacted>"},{"name":"B","value":"<redacted>"}] end"#,
        ),
        (
            "{Name:c Env:[{Name:A Value:x y}] Image:i}",
            "{Name:c Env:<redacted> Image:i}",
        ),
        (
            "{Username:bob Password:two words Server:s}",
            "{Username:bob Password:<redacted> Server:s}",
        ),
        (
            "Failed to pull image \"bob:pw@reg.example/app:1\": 401",
            "Failed to pull image \"<redacted>@reg.example/app:1\": 401",
        ),
        (
            "mysql --password hunter2 -h db",
            "mysql --password <redacted> -h db",
        ),
        (
            r#"["--token","x","--v=4"]"#,
            r#"["--token","<redacted>","--v=4"]"#,
        ),
        (
            "Env:[]EnvVar{EnvVar{Name:A,Value:x,},} end",
            "Env:<redacted> end",
        ),
        (
            r#"envs:{key:"A"  value:"x"}  image:{image:"i"}"#,
            r#"envs:<redacted>  image:{image:"i"}"#,
        ),
    ] {
        assert_eq!(text(input), want);
    }
}

#[test]
fn what_does_not_close_is_dropped_to_the_end() {
    for (input, want) in [
        (
            r#"pull env=[{"name":"A","value":"x y"#,
            "pull env=<redacted>",
        ),
        (
            r#"{"password":"hunter2 and more"#,
            r#"{"password":"<redacted>"#,
        ),
        (r#"{\"args\":[\"x]\",\"y"#, r#"{\"args\":<redacted>"#),
        (
            "Response Body: 00000000  6b 38",
            "Response Body: <redacted>",
        ),
        ("dial https://bob:hunter2", "dial https://<redacted>"),
        ("dial https://bob:hunt…", "dial https://<redacted>"),
    ] {
        assert_eq!(text(input), want);
    }
}

#[test]
fn messages_of_kubernetes_with_such_words_stay() {
    for s in [
        "fetching token from webhook",
        "MountVolume.SetUp failed for volume \"db-secret\" : secret \"db\" not found",
        "MountVolume.SetUp failed for volume \"tok\" : failed to fetch token: context deadline exceeded",
        "secret \"db-token\": not found",
        "open /var/run/secrets/kubernetes.io/serviceaccount/token: no such file or directory",
        "basic checks passed",
        "dial tcp: http://registry:5000: connection refused",
        "http://10.244.0.6:8080/healthz?timeout=5s",
        "command terminated with exit code 1",
        "exec: \"sh\": executable file not found in $PATH: unknown",
        "nginx:1.25@sha256:0123456789abcdef",
        "127.0.0.1:5000/app@sha256:0123456789abcdef",
        "automountServiceAccountToken=false",
        "node(s) had untolerated taint {node.kubernetes.io/unreachable: }",
        "[{\"key\":\"a\",\"operator\":\"Equal\",\"value\":\"b\"}]",
        "{\"ID\":\"4ac3\",\"Type\":\"ContainerDied\",\"Data\":\"028f66\"}",
        "unable to read response body: unexpected EOF",
    ] {
        assert_eq!(text(s), s);
    }
}

/// Forms that people, tools and clients write without a name and a separator beside the value; `{C}` is the credential.
const LOOSE: [&str; 92] = [
    "DBPASS={C}",
    "keytool -storepass {C} -keypass {C}",
    "npm //registry.example/:_auth={C}",
    "client-key-data: {C}",
    r#""client-key-data":"{C}""#,
    r#"secret: "{C}""#,
    "'secret': '{C}'",
    r#"{"secret":"{C}"}"#,
    "secret: {C}",
    "password -> {C}",
    "password set to {C}",
    "access-token {C}",
    "bindpw={C}",
    "mongodump -u a -p {C} --db x",
    "redis-cli -h r -a {C} ping",
    "ipmitool -H b -U u -P {C} power",
    "htpasswd -b /etc/f bob {C}",
    "helm --set-literal foo={C}",
    "helm --set a.b={C},c={C} --wait",
    "--from-literal=anything={C}",
    "--from-literal anything={C}",
    "curl -u bob:{C} https://host/x",
    "curl --user bob:{C} https://host/x",
    "curl -ubob:{C} https://host",
    r#"["crictl","pull","--creds","bob:{C}","i"]"#,
    "mysql -uroot -p{C} -h db",
    "exec sh -c 'mysql -p{C}'",
    "docker login -u bob -p {C} reg.example",
    "sshpass -p {C} ssh host",
    "openssl rsa -passin pass:{C}",
    "PGPASSWORD={C} psql",
    "X_KEY={C}",
    "--env A={C} next",
    "--header 'X-Plain: {C}'",
    "env A={C} B={C}",
    "environment variables: A={C} B={C}",
    "starting with env A={C}",
    "user=bob pw={C}",
    "passcode={C}",
    "kennwort={C}",
    "mot_de_passe={C}",
    "creds={C}",
    "JSESSIONID={C}; Path=/",
    "https://host/a;jsessionid={C}?x",
    "sessionid={C}",
    "session_key={C}",
    "the password is {C}",
    "password '{C}' is wrong",
    "password \"{C} and more\"",
    "password\t{C}",
    "Password ({C}) rejected",
    "user bob, password {C}, host db",
    "Password for bob: {C}",
    "api_key {C}",
    "NOTE: token {C} expired",
    "token '{C}'",
    "bootstrap token 07401b.{C}",
    "client secret: {C}",
    "client secret is {C}",
    "encryption key: {C}",
    "access key {C}",
    "Bearer {C}",
    "a=1%26token%3D{C}&b",
    "password%3D{C}",
    "/exec?command=env%20X%3D{C}",
    "/exec?command=env+X={C}&stdin=1",
    "ceph: secret={C},name=admin",
    "Mounting cmd (mount) with arguments (-t ceph -o name=a,secret={C} x)",
    "rbd --key={C} map",
    "rbd map --id admin --key {C}",
    "<password>{C}</password>",
    r#"[{"op":"replace","path":"/spec/containers/0/env/0/value","value":"{C}"}]"#,
    r#"[{"op":"add","path":"/data","value":{"a":"{C}"}}]"#,
    r#"[{"value":"{C}","op":"add","path":"/spec/args/-"}]"#,
    "&{Username:bob Password:{C} Auth:{C} ServerAddress:r}",
    "AuthConfig{Username:bob,Password:{C},Auth:{C},}",
    "yaml:\npassword: {C}\nuser: x",
    r"yaml:\ntoken: {C}\nuser: x",
    "  stringData:\n    a: {C}\n  type: x",
    "data:\n  a: {C}\n",
    "annotations:\n- a: {C}\n",
    r"data:\n  a: {C}\n",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n{C}",
    "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 14\n{C}",
    "https://hooks.slack.com/services/T00000000/B00000000/{C}",
    "https://discord.com/api/webhooks/123/{C}",
    "sk_live_{C}0123456789",
    "SG.{C}0123456789012.abcdefghijklmnopqrstuvwxyz0123456789abcdefg",
    "npm_{C}0123456789012345678901234567890",
    "pypi-AgEIcHlwaS5vcmc{C}0123456789",
    "sk-proj-{C}012345678901234567890123",
    "sk-{C}0123456789012345678901234567890",
];

#[test]
fn what_stands_loosely_beside_a_name_is_taken_out() {
    const C: &str = "Kanarie0123q";
    for form in LOOSE {
        let input = form.replace("{C}", C);
        gone(&input, C);
        // In Go's quotes, as wrapped errors are.
        let wrapped = quoted(&format!("rpc error: {input}"));
        gone(&wrapped, C);
    }
}

#[test]
fn what_only_resembles_such_a_form_stays() {
    for s in [
        r#"secret="shop/db-token" err="not found""#,
        r#"secret: "shop/db-token""#,
        "references secret: db-token, key: user",
        "bypass: true, compass: north",
        "public-key-data: abc1",
        "psql -h db -p 5432",
        "runc exec --user 1000:1000 c sh",
        "ssh login node -p 22",
        "unknown flag: --set",
        "etcdctl --key /etc/kubernetes/pki/etcd/healthcheck-client.key get",
        "the token is expired",
        "the password is wrong",
        "password must not be empty",
        "failed to get access key: not found",
        "environment variables are not set",
        "the api_key is missing",
        "pods \"sk-web-7d9f8b6c5d-abcde\" not found",
        "references non-existent secret key: tls.key",
        "pass: 3, fail: 0",
        "[{\"op\":\"remove\",\"path\":\"/metadata/finalizers\"}]",
    ] {
        assert_eq!(text(s), s);
    }
}

/// Returns the processor time that this thread has taken, ns.
fn spent() -> i64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec * 1_000_000_000 + t.tv_nsec
}

/// Texts that repeat the beginning of a credential: sixteen times the length has to take about sixteen times as long.
/// It would take 256 times as long if each repetition were scanned to the end of the text. The time is the processor's for this
/// thread, which other work on the machine hardly changes.
#[test]
fn redaction_takes_time_linear_in_the_length() {
    for part in [
        "password:",
        "{password:{",
        "token: ",
        "key=",
        "value ",
        "name:x value:",
        "\\\\\"",
        "token\\",
        "?a=b",
        "x:y@",
        "://a",
        "args:[",
        "eyJ",
        "bearer ",
        " Password:a b ",
        "secret    ",
        "--token",
        " password",
        "<secret>",
        "secret=",
        "env A=",
        "--set ",
        "data:\n ",
        r"data:\n ",
        "client secret ",
        "password%3D",
        " -u a:",
        "login -p",
        "{Auth:",
        "-----BEGIN PRIVATE KEY-----",
        "password is ",
        "password is \"",
        "password:\n",
        "--pin ",
    ] {
        let take = |n: usize| {
            let s = part.repeat(n / part.len());
            let begin = spent();
            let out = text(&s);
            assert!(out.len() <= 12 * s.len());
            spent() - begin
        };
        // Caches that other work takes may lengthen one measurement, but hardly each of several.
        let little = (0..3).map(|_| take(8 << 10)).min().unwrap();
        let most = 80 * little.max(1_000_000);
        assert!(
            (0..10).any(|_| take(128 << 10) < most),
            "{part:?}: {little} ns, and ten times more than {most} ns"
        );
    }
}

/// Names whose value is a credential.
const SECRETS: [&str; 8] = [
    "password",
    "DB_PASSWORD",
    "client_secret",
    "apiKey",
    "X-Vault-Token",
    "registryPassword",
    "AWS_SECRET_ACCESS_KEY",
    "db.example/auth-token",
];

/// Forms of a name and its value. `$K`: the name; `$V`: the value as it is; `$Q`: the value in Go's and JSON's quotes.
const FORMS: [&str; 34] = [
    "$K=$V",
    "$K = $V",
    "$K: $V",
    "$K:$V",
    "$K=$Q",
    "$K: $Q",
    "$K=>$Q",
    "$K := $Q",
    "export $K=$V && run",
    "user=u,$K=$V,vers=3",
    "Server=s;$K=$V;Port=1",
    "{\"$K\":$Q}",
    "{\"a\":1,\"$K\" : $Q,\"b\":[2]}",
    "{\"$K\":[$Q]}",
    "{\"a\":{\"$K\":$Q}}",
    "{$K:$V Other:x}",
    "{Name:a $K:$V}",
    "map[$K:$V other:x]",
    "map[$K:[$V]]",
    "map[string]string{\"$K\":$Q}",
    "&v1.T{$K:$V,Other:x,}",
    "--$K $V",
    "--$K=$V --next",
    "[\"--$K\",$Q]",
    "[--$K $V -x]",
    "{\"name\":\"$K\",\"value\":$Q}",
    "{\"value\":$Q,\"name\":\"$K\"}",
    "{\"key\":\"$K\",\"value\":$Q}",
    "{Name:$K Value:$V ValueFrom:nil}",
    "EnvVar{Name:$K,Value:$V,ValueFrom:nil,}",
    "key:\"$K\"  value:$Q",
    "- name: $K\n  value: $V\n",
    "$K: |\n  $V\n",
    "https://host/path?a=b&$K=$V&c=d",
];

fn quoted(s: &str) -> String {
    serde_json::to_string(s).unwrap()
}

#[test]
fn dashes_within_a_value_begin_no_flag() {
    for text in ["export password=0;--a00aA && run", "--password=0;--a00aA"] {
        assert!(!super::text(text).contains("a00aA"), "{text}");
    }
    let flags = "--password=hunter2,--v=4";
    assert_eq!(super::text(flags), "--password=<redacted>,--v=4");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    /// Whatever stands around the value, however deep it is quoted, and wherever the text is cut: at most the first
    /// bytes of a cut value remain, and nothing of a whole one.
    #[test]
    fn no_value_beside_a_name_of_a_credential_survives(
        key in 0..SECRETS.len(),
        form in 0..FORMS.len(),
        // Without quotes, nothing separates a space or what looks like another name from the sentence around the value.
        value in "[A-Za-z0-9][A-Za-z0-9!#%*+,./;<>?@^_|~()-]{4,14}[A-Za-z0-9]{4}",
        spaced in "[A-Za-z0-9][ -#%-~]{4,14}[A-Za-z0-9]{4}",
        before in "[a-z0-9 .:\"'\\\\{\\[(]{0,12}",
        after in "( [a-z0-9 .:\"'\\\\}\\])]{0,12})?",
        quotes in 0_usize..3,
        cut in 0_usize..40,
    ) {
        // Flags have no domain in their names, and URLs contain no angle brackets.
        prop_assume!(!(SECRETS[key].contains('/') && FORMS[form].contains("--")));
        prop_assume!(!(FORMS[form].contains("://") && value.contains(['<', '>'])));
        let form = FORMS[form];
        let value = if form.contains("$Q") { spaced } else { value };
        let inner = form
            .replace("$K", SECRETS[key])
            .replace("$Q", &quoted(&value))
            .replace("$V", &value);
        // Quoted as deep as errors are wrapped.
        let (mut inner, mut value) = (inner, value);
        for _ in 0..quotes {
            inner = quoted(&format!("rpc error: {inner}"));
            value = quoted(&value).trim_matches('"').to_owned();
        }
        let whole = format!("{before} {inner}{after}");
        let out = text(&whole).into_owned();
        let (head, tail) = value.split_at(value.len() - 4);
        prop_assert!(!out.contains(&value), "{whole}\n{out}");
        prop_assert!(!out.contains(tail) || whole.matches(tail).count() > 1, "the end of {value} in {whole}\n{out}");
        prop_assert!(head.len() < 4 || !out.contains(head), "the beginning of {value} in {whole}\n{out}");
        // A text that is cut within its value, with the name before it.
        let end = whole.rfind(tail).unwrap_or(whole.len());
        let end = end.saturating_sub(cut % 3);
        if let Some(short) = whole.get(..end).filter(|s| s.contains(head) && s.contains(SECRETS[key])) {
            let out = text(short).into_owned();
            prop_assert!(!out.contains(head), "cut: {short}\n{out}");
        }
    }
}
