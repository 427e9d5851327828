//! The examples of RFC 7541 appendix C, and faulty blocks.

use proptest::prelude::*;

use super::*;

/// Wants all headers, and keeps their text.
struct All;
impl HeaderSet for All {
    type Name = &'static str;
    type Field = (String, String);
    fn name(name: &[u8]) -> Option<&'static str> {
        // A test may leak a few names.
        Some(Box::leak(
            String::from_utf8_lossy(name).into_owned().into_boxed_str(),
        ))
    }
    fn field(name: &'static str, value: &[u8]) -> (String, String) {
        (name.into(), String::from_utf8_lossy(value).into())
    }
    fn unnamed(value: &[u8]) -> ((String, String), bool) {
        (Self::field("?", value), false)
    }
    fn unknown(_: Option<Old>) -> (String, String) {
        Self::field("?", b"?")
    }
}

/// Wants no header.
struct Nothing;
impl HeaderSet for Nothing {
    type Name = ();
    type Field = ();
    fn name(_: &[u8]) -> Option<()> {
        None
    }
    fn field((): (), _: &[u8]) {}
    fn unnamed(_: &[u8]) -> ((), bool) {
        ((), false)
    }
    fn unknown(_: Option<Old>) {}
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|d| (d[0] << 4 | d[1]) as u8).collect()
}

/// Names and values.
type Headers<'a> = &'a [(&'a str, &'a str)];

/// Decodes block by block, and checks after each that the table has the size that the RFC prints.
fn check(max: u32, blocks: &[(&str, Headers<'_>, u32)]) {
    let mut table = Table::<All>::new();
    let mut blind = Table::<Nothing>::new();
    table.max = max;
    blind.max = max;
    for (block, want, size) in blocks {
        let mut got = Vec::new();
        table
            .decode(&hex(block), |f| got.push(f.clone()))
            .expect("valid");
        let got: Vec<_> = got.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(&got, want, "{block}");
        assert_eq!(table.measure().0, *size, "table size after {block}");
        blind.decode(&hex(block), |()| ()).expect("valid");
        assert_eq!(
            blind.measure(),
            table.measure(),
            "not wanting a header changes nothing in the table"
        );
    }
}

const REQUESTS: [Headers<'_>; 3] = [
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
        ("cache-control", "no-cache"),
    ],
    &[
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
];

const RESPONSES: [Headers<'_>; 3] = [
    &[
        (":status", "302"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        ("location", "https://www.example.com"),
    ],
    &[
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        ("location", "https://www.example.com"),
        ("content-encoding", "gzip"),
        (
            "set-cookie",
            "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
        ),
    ],
];

#[test]
fn appendix_c2_literals_and_an_indexed_field() {
    check(
        4096,
        &[
            (
                "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
                &[("custom-key", "custom-header")],
                55,
            ),
            (
                "040c 2f73 616d 706c 652f 7061 7468",
                &[(":path", "/sample/path")],
                55,
            ),
            (
                "1008 7061 7373 776f 7264 0673 6563 7265 74",
                &[("password", "secret")],
                55,
            ),
            ("82", &[(":method", "GET")], 55),
        ],
    );
}

#[test]
fn appendix_c3_requests_without_huffman() {
    check(
        4096,
        &[
            (
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                REQUESTS[0],
                57,
            ),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1], 110),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                REQUESTS[2],
                164,
            ),
        ],
    );
}

#[test]
fn appendix_c4_requests_with_huffman() {
    check(
        4096,
        &[
            (
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                REQUESTS[0],
                57,
            ),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1], 110),
            (
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
                REQUESTS[2],
                164,
            ),
        ],
    );
}

#[test]
fn appendix_c5_responses_without_huffman_evict_at_256_bytes() {
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32
                 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                RESPONSES[0],
                222,
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1], 222),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970
                 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61
                 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                RESPONSES[2],
                215,
            ),
        ],
    );
}

#[test]
fn appendix_c6_responses_with_huffman_evict_at_256_bytes() {
    check(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad
                 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                RESPONSES[0],
                222,
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1], 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2
                 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                RESPONSES[2],
                215,
            ),
        ],
    );
}

fn after(blocks: &[&str]) -> Result<(), Error> {
    let mut table = Table::<All>::new();
    blocks
        .iter()
        .try_for_each(|b| table.decode(&hex(b), |_| ()))
}

#[test]
fn what_no_encoder_writes_is_refused_with_its_reason() {
    for (block, want) in [
        ("80", Error::Index(0)),
        ("be", Error::Index(62)),
        ("ff ff ff ff ff 7f", Error::Integer),
        ("ff 80 80 80 80 80 80 80 80 00", Error::Integer),
        ("ff", Error::Truncated),
        ("40 0a 63", Error::Truncated),
        ("04 ff ff ff ff 07", Error::Truncated),
        ("04 82 00 00", Error::Huffman),
        ("82 20", Error::LateSizeUpdate),
        ("3f e2 1f", Error::TableSize(4097)),
    ] {
        assert_eq!(after(&[block]), Err(want), "{block}");
    }
}

#[test]
fn the_encoder_may_shrink_the_table_and_grow_it_within_what_was_agreed_on() {
    // One entry of 55 bytes; shrinking to 54 drops it, and index 62 is gone.
    let entry = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    assert_eq!(after(&[entry, "be"]), Ok(()));
    assert_eq!(after(&[entry, "3f17 82", "be"]), Err(Error::Index(62)));
    // To zero and back within one block.
    assert_eq!(after(&[entry, "20 3f e1 1f 82"]), Ok(()));
    let mut table = Table::<All>::new();
    table.allow(65_536);
    assert_eq!(table.decode(&hex("3f e1 ff 03"), |_| ()), Ok(()));
    assert_eq!(table.max, 65_536);
    table.allow(u32::MAX);
    assert_eq!(
        table.decode(&hex("3f e1 ff ff 7f"), |_| ()),
        Err(Error::TableSize(268_435_456)),
        "whatever the peers agree on, memory is bounded"
    );
}

#[test]
fn an_entry_larger_than_the_table_empties_it() {
    let mut table = Table::<All>::new();
    table.max = 64;
    table.decode(&hex("4001 6101 62"), |_| ()).expect("valid");
    assert_eq!(table.measure(), (34, 1));
    let mut big = hex("4001 6140");
    big.extend([b'x'; 64]);
    table.decode(&big, |_| ()).expect("valid");
    assert_eq!(table.measure(), (0, 0));
}

/// An encoder like Go's: it refers to the table where it can, and inserts new headers.
#[derive(Default)]
struct Encoder {
    table: Vec<(String, String)>,
    max: usize,
}

impl Encoder {
    fn entry_size((name, value): &(String, String)) -> usize {
        name.len() + value.len() + 32
    }
    fn write(&mut self, name: &str, value: &str, out: &mut Vec<u8>) {
        let integer = |first: u8, prefix: u32, mut n: usize, out: &mut Vec<u8>| {
            let mask = (1 << prefix) - 1;
            if n < mask {
                return out.push(first | n as u8);
            }
            out.push(first | mask as u8);
            n -= mask;
            while n >= 128 {
                out.push(n as u8 | 0x80);
                n >>= 7;
            }
            out.push(n as u8);
        };
        let field = (name.to_owned(), value.to_owned());
        if let Some(i) = self.table.iter().position(|e| *e == field) {
            return integer(0x80, 7, 62 + i, out);
        }
        let size = Self::entry_size(&field);
        let (first, prefix) = if size <= self.max { (0x40, 6) } else { (0, 4) };
        match self.table.iter().position(|e| e.0 == name) {
            Some(i) => integer(first, prefix, 62 + i, out),
            None => {
                out.push(first);
                integer(0, 7, name.len(), out);
                out.extend(name.as_bytes());
            }
        }
        integer(0, 7, value.len(), out);
        out.extend(value.as_bytes());
        if size <= self.max {
            self.table.insert(0, field);
            let mut sum = 0;
            let fits = |e: &(String, String)| {
                sum += Self::entry_size(e);
                sum <= self.max
            };
            let kept = self.table.iter().map(fits).take_while(|f| *f).count();
            self.table.truncate(kept);
        }
    }
}

/// Blocks of headers with a few names, some with few values and some with many.
fn traffic() -> impl Strategy<Value = Vec<Vec<(String, String)>>> {
    let field = prop_oneof![
        (0..4u8).prop_map(|v| ("method".to_owned(), format!("Method{v}"))),
        (0..200u16).prop_map(|v| ("grpc-timeout".to_owned(), format!("{v}m"))),
        (0..60u8).prop_map(|v| (format!("name{v}"), "x".repeat(usize::from(v)))),
        (0..3u8).prop_map(|v| ("a".to_owned(), "y".repeat(usize::from(v)))),
    ];
    prop::collection::vec(prop::collection::vec(field, 1..6), 1..120)
}

#[test]
fn a_forgotten_table_knows_what_comes_and_grows_when_it_is_larger_than_was_thought() {
    let mut table = Table::<All>::new();
    table.forget();
    let mut seen = Vec::new();
    // References to an old entry, a new one under an old name, that one again, and the old one, whose index
    // is now one higher.
    for block in ["be", "7e 01 62", "be", "bf"] {
        table
            .decode(&hex(block), |f| seen.push(f.1.clone()))
            .expect("valid");
    }
    assert_eq!(seen, ["?", "b", "b", "?"]);
    // 4,096 bytes hold 128 entries at most; an index beyond says that there is more room.
    assert_eq!(table.decode(&hex("ff 8f 01"), |_| ()), Ok(()));
    assert_eq!(table.max, 8192);
    assert!(!table.is_whole());
    // The encoder empties it: nothing old is left, and an index beyond is nonsense again.
    assert_eq!(table.decode(&hex("20 3f e1 1f"), |_| ()), Ok(()));
    assert!(table.is_whole());
    assert_eq!(table.decode(&hex("be"), |_| ()), Err(Error::Index(62)));
    assert_eq!(table.decode(&hex("80"), |_| ()), Err(Error::Index(0)));
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused_and_the_table_stays_in_bounds(
        blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8)
    ) {
        let mut table = Table::<All>::new();
        for block in blocks {
            let done = table.decode(&block, |_| ());
            let sum: u32 = table.dynamic.iter().map(|e| e.size).sum();
            prop_assert_eq!(table.size, sum);
            prop_assert!(table.size <= table.max);
            if done.is_err() {
                break;
            }
        }
    }

    #[test]
    fn a_table_that_is_joined_in_the_middle_is_never_wrong_and_never_taken_for_whole_too_early(
        traffic in traffic(),
        max in prop_oneof![Just(4096usize), 100usize..4096],
        joined in 0usize..60,
    ) {
        let mut encoder = Encoder { max, ..Encoder::default() };
        let mut table = Table::<All>::new();
        table.forget();
        for (nth, block) in traffic.iter().enumerate() {
            let mut bytes = Vec::new();
            for (name, value) in block {
                encoder.write(name, value, &mut bytes);
            }
            if nth < joined {
                continue;
            }
            let whole = table.is_whole();
            let mut seen = Vec::new();
            table.decode(&bytes, |f| seen.push(f.clone())).expect("valid");
            prop_assert_eq!(seen.len(), block.len());
            for (seen, sent) in seen.iter().zip(block) {
                prop_assert!(seen.0 == sent.0 || (!whole && seen.0 == "?"), "{seen:?} {sent:?}");
                prop_assert!(seen.1 == sent.1 || (!whole && seen.1 == "?"), "{seen:?} {sent:?}");
            }
        }
    }

    #[test]
    fn huffman_coded_text_comes_back(text in prop::collection::vec(any::<u8>(), 0..300)) {
        let coded = huffman_encode(&text);
        let mut out = Vec::new();
        prop_assert!(huffman::decode(&coded, |b| out.push(b)).is_some());
        prop_assert_eq!(out, text);
    }
}
