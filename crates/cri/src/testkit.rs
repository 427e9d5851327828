//! Writes what tests read: protobuf fields, gRPC messages, HPACK literals, HTTP/2 frames.

/// A varint.
fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let low = (n & 0x7f) as u8;
        n >>= 7;
        if n == 0 {
            out.push(low);
            return out;
        }
        out.push(low | 0x80);
    }
}

/// A length-delimited field.
pub(super) fn len(field: u32, value: &[u8]) -> Vec<u8> {
    let mut out = varint(u64::from(field << 3 | 2));
    out.extend(varint(value.len() as u64));
    out.extend_from_slice(value);
    out
}

/// A varint field.
pub(super) fn int(field: u32, value: u64) -> Vec<u8> {
    let mut out = varint(u64::from(field << 3));
    out.extend(varint(value));
    out
}

/// An entry of a `map<string, string>`.
pub(super) fn map(field: u32, key: &str, value: &str) -> Vec<u8> {
    len(
        field,
        &[len(1, key.as_bytes()), len(2, value.as_bytes())].concat(),
    )
}

/// A gRPC message.
pub(super) fn message(body: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend((body.len() as u32).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// A header block of literals that stay out of the table.
pub(super) fn block(headers: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in headers {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127, "short texts only");
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// A frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}
