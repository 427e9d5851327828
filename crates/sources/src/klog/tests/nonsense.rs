//! Lines that no component writes: the decoder neither fails nor loses the next one.

use proptest::prelude::*;

use super::*;

fn value() -> impl Strategy<Value = (String, String)> {
    prop_oneof![
        "[ -~]{0,20}".prop_map(|s| (format!("{s:?}"), s)),
        any::<i64>().prop_map(|n| (n.to_string(), n.to_string())),
        any::<bool>().prop_map(|b| (b.to_string(), b.to_string())),
        "[a-z ]{0,8}".prop_map(|s| {
            let json = format!(r#"{{"a":"{s}","b":[1,2]}}"#);
            (json.clone(), json)
        }),
    ]
}

proptest! {
    #[test]
    fn structured_lines_round_trip(
        message in "[ -~]{1,40}",
        fields in prop::collection::btree_map("k[a-zA-Z]{1,8}", value(), 0..6),
        pod in "[a-z]{1,8}",
    ) {
        let mut line = format!("I1121 00:24:27.533176    3731 a.go:1] {message:?} pod=\"ns/{pod}\"");
        for (key, (printed, _)) in &fields {
            write!(line, " {key}={printed}").unwrap();
        }
        let l = one(&line);
        prop_assert_eq!(l.message.as_str(), kflow_model::redact::text(message.trim_end()));
        prop_assert_eq!(l.pod, PodRef::by_name("ns", &pod));
        prop_assert_eq!(l.fields.len(), fields.len());
        for ((key, (_, text)), (k, v)) in fields.iter().zip(&l.fields) {
            prop_assert_eq!(key.as_str(), k.as_str());
            prop_assert_eq!(kflow_model::redact::field(key, text), v.as_str());
        }
    }

    #[test]
    fn no_bytes_panic(text in prop::collection::vec(any::<u8>(), 0..400)) {
        decode(&text);
        decode([b"I1121 00:24:27.533176    3731 a.go:1] ".as_slice(), &text].concat());
        decode([b"__CURSOR=x\nMESSAGE\n".as_slice(), &text].concat());
        decode([br#"{"ts":1,"msg":"#.as_slice(), &text].concat());
    }

    #[test]
    fn mutated_real_lines_do_not_panic(row in 0_usize..480, at in 0_usize..700, byte in any::<u8>(), end in 0_usize..700) {
        let line = MESSAGES.lines().nth(row).unwrap().splitn(4, '\t').nth(3).unwrap();
        let mut bytes = line.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        decode(&bytes);
        bytes.truncate(end % (bytes.len() + 1));
        decode(&bytes);
    }
}
