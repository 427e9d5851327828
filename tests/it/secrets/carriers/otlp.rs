//! Exports of spans, as OTLP's JSON and as its protobuf.

use serde_json::{Value, json};

use super::super::Canaries;
use super::super::logs::PROSE;

/// Returns an export of spans in OTLP's JSON form, with canaries in every field.
fn export(c: &mut Canaries) -> Value {
    let text = |key: &str, value: String| json!({"key": key, "value": {"stringValue": value}});
    let attributes = [
        ("http.url", "https://u:{C}@host/v2/?token={C}&x={C}"),
        ("url.full", "https://host/exec?command=sh&command={C}"),
        ("http.target", "/blob?sig={C}"),
        ("http.request.header.authorization", "Bearer {C}"),
        ("image.ref", "user:{C}@reg.example/app:1"),
        ("container.command", "{C}"),
        ("db.statement", "{C}"),
        ("k8s.pod.annotations", "{\"password\":\"{C}\"}"),
        ("rpc.grpc.request.metadata.token", "{C}"),
        ("configuration", "env=[{\"name\":\"A\",\"value\":\"{C}\"}]"),
    ];
    let mut all: Vec<Value> = attributes.map(|(k, v)| text(k, c.fill(v))).into();
    all.push(text("rpc.method", "RunPodSandbox".into()));
    let mut spans = vec![json!({
        "traceId": "5b8efff798038103d269b633813fc60c", "spanId": "eee19b7ec3c1b174",
        "name": c.fill("{M} GET https://u:{C}@host"), "kind": 3,
        "startTimeUnixNano": "1795220679345483845", "endTimeUnixNano": "1795220679345983845",
        "attributes": all,
        "status": {"code": 2, "message": c.fill("{M} password={C} Authorization: Bearer {C}0123456789")},
        "events": [{"timeUnixNano": "1795220679345483846", "name": c.fill("retry with token={C}"), "attributes": [text("exception.message", c.fill("password={C}"))]}],
    })];
    for (n, prose) in PROSE.iter().enumerate() {
        let said = c.fill(prose);
        spans.push(json!({
            "traceId": "5b8efff798038103d269b633813fc60c", "spanId": format!("eee19b7ec3c1b2{n:02x}"),
            "name": said, "kind": 3,
            "startTimeUnixNano": "1795220679345483845", "endTimeUnixNano": "1795220679345983845",
            "attributes": [text("rpc.method", "RunPodSandbox".into()), text("error", c.fill(&prose.replace("{M} ", "")))],
            "status": {"code": 2, "message": c.fill(prose)},
            "events": [{"timeUnixNano": "1795220679345483846", "name": "exception", "attributes": [text("exception.message", c.fill(&prose.replace("{M} ", "")))]}],
        }));
    }
    let resource = json!({"attributes": [text("service.name", "kubelet".into()), text("process.command_args", c.put("arguments of a process"))]});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]})
}

pub(in crate::secrets) fn json(c: &mut Canaries) -> String {
    format!("{}\n", export(c))
}

pub(in crate::secrets) fn bytes(c: &mut Canaries) -> Vec<u8> {
    protobuf(&export(c))
}

/// Returns a length-delimited field of a protobuf message: a string, bytes, or a message.
pub(in crate::secrets) fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    prost::encoding::encode_varint(content.len() as u64, &mut out);
    out.extend(content);
    out
}

/// Returns the same export in OTLP's protobuf form.
fn protobuf(export: &Value) -> Vec<u8> {
    fn text(number: u8, v: &Value) -> Vec<u8> {
        field(number, v.as_str().unwrap().as_bytes())
    }
    fn hex(number: u8, v: &Value) -> Vec<u8> {
        let digits = v.as_str().unwrap();
        let byte = |i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        field(number, &bytes)
    }
    fn time(number: u8, v: &Value) -> Vec<u8> {
        let ns: u64 = v.as_str().unwrap().parse().unwrap();
        [&[number << 3 | 1][..], &ns.to_le_bytes()].concat()
    }
    fn number(number: u8, v: &Value) -> Vec<u8> {
        vec![number << 3, u8::try_from(v.as_u64().unwrap()).unwrap()]
    }
    fn each(v: &Value, f: impl Fn(&Value) -> Vec<u8>) -> Vec<u8> {
        v.as_array().unwrap().iter().flat_map(f).collect()
    }
    fn attributes(number: u8, v: &Value) -> Vec<u8> {
        each(&v["attributes"], |a| {
            let value = field(2, &text(1, &a["value"]["stringValue"]));
            field(number, &[text(1, &a["key"]), value].concat())
        })
    }
    let span = |s: &Value| {
        let events = each(&s["events"], |e| {
            let all = [
                time(1, &e["timeUnixNano"]),
                text(2, &e["name"]),
                attributes(3, e),
            ];
            field(11, &all.concat())
        });
        let status = [
            text(2, &s["status"]["message"]),
            number(3, &s["status"]["code"]),
        ];
        let all = [
            hex(1, &s["traceId"]),
            hex(2, &s["spanId"]),
            text(5, &s["name"]),
            number(6, &s["kind"]),
            time(7, &s["startTimeUnixNano"]),
            time(8, &s["endTimeUnixNano"]),
            attributes(9, s),
            events,
        ];
        [all.concat(), field(15, &status.concat())].concat()
    };
    each(&export["resourceSpans"], |r| {
        let scopes = each(&r["scopeSpans"], |s| {
            field(2, &each(&s["spans"], |s| field(2, &span(s))))
        });
        field(
            1,
            &[field(1, &attributes(1, &r["resource"])), scopes].concat(),
        )
    })
}
