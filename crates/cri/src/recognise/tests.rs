use super::*;
use crate::testkit::{int, len};

const A: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const B: &str = "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210";

fn text(number: u32, text: &str) -> Vec<u8> {
    len(number, text.as_bytes())
}

fn all(fields: &[Vec<u8>]) -> Vec<u8> {
    fields.concat()
}

fn sandbox_metadata() -> Vec<u8> {
    all(&[text(1, "web"), text(2, "uid-1"), text(3, "shop")])
}

fn container_metadata() -> Vec<u8> {
    all(&[text(1, "app"), int(2, 1)])
}

fn sandbox_config() -> Vec<u8> {
    all(&[len(1, &sandbox_metadata()), text(3, "/var/log/pods/x")])
}

fn image() -> Vec<u8> {
    all(&[
        text(1, &format!("sha256:{A}")),
        text(2, "r/app:1"),
        int(4, 5),
    ])
}

fn names(found: Option<MethodRef>) -> String {
    found.map_or_else(String::new, |m| m.name().to_string())
}

#[test]
fn a_request_that_only_one_method_has_names_it() {
    let config = all(&[len(1, &container_metadata()), len(2, &text(1, "r/app:1"))]);
    for (request, want) in [
        (len(1, &sandbox_config()), method::RUN_POD_SANDBOX),
        (
            all(&[len(1, &sandbox_config()), text(2, "runc")]),
            method::RUN_POD_SANDBOX,
        ),
        (
            all(&[text(1, A), len(2, &config), len(3, &sandbox_config())]),
            method::CREATE_CONTAINER,
        ),
        (
            all(&[len(1, &text(1, "r/app:1")), len(3, &sandbox_config())]),
            method::PULL_IMAGE,
        ),
        (
            all(&[text(1, A), text(2, "cat"), text(2, "/ok"), int(3, 1)]),
            method::EXEC_SYNC,
        ),
        (all(&[text(1, A), int(2, 30)]), method::STOP_CONTAINER),
        // StartContainer, RemoveContainer and others, which have the same request.
        (text(1, A), ""),
        // ContainerStatus with `verbose`.
        (all(&[text(1, A), int(2, 1)]), ""),
        // CheckpointContainer; Exec.
        (all(&[text(1, A), text(2, "/to"), int(3, 60)]), ""),
        (
            all(&[text(1, A), text(2, "cat"), text(2, "/ok"), int(5, 1)]),
            "",
        ),
        // ImageStatus, RemoveImage; a filter; nothing; no message.
        (len(1, &text(1, "r/app:1")), ""),
        (len(1, &text(1, A)), ""),
        (Vec::new(), ""),
        (vec![0x0a, 0x40], ""),
    ] {
        assert_eq!(names(by_request(&request)), want, "{request:?}");
    }
}

#[test]
fn an_answer_that_only_one_method_has_names_it() {
    let container = all(&[
        text(1, A),
        text(2, B),
        len(3, &container_metadata()),
        int(7, 99),
    ]);
    let sandbox = all(&[text(1, A), len(2, &sandbox_metadata()), int(4, 99)]);
    let status = all(&[text(1, A), len(2, &container_metadata()), int(4, 99)]);
    let stats = len(1, &all(&[text(1, A), len(2, &container_metadata())]));
    let sandbox_stats = len(1, &all(&[text(1, A), len(2, &sandbox_metadata())]));
    let filesystem = all(&[int(1, 99), len(2, &text(1, "/var/lib"))]);
    let version = all(&[text(1, "0.1.0"), text(2, "r"), text(3, "v2"), text(4, "v1")]);
    let ready = len(1, &all(&[text(1, "RuntimeReady"), int(2, 1)]));
    let filter = len(1, &len(2, &[]));
    let about = text(1, A);
    let one_image = len(1, &text(1, "r/app:1"));
    for (request, answer, want) in [
        (text(1, "0.1.0"), version, method::VERSION),
        (Vec::new(), len(1, &ready), method::STATUS),
        (Vec::new(), len(1, &container), method::LIST_CONTAINERS),
        (filter.clone(), len(1, &container), method::LIST_CONTAINERS),
        (Vec::new(), len(1, &sandbox), method::LIST_POD_SANDBOX),
        (filter.clone(), len(1, &sandbox), method::LIST_POD_SANDBOX),
        (about.clone(), len(1, &status), method::CONTAINER_STATUS),
        (about.clone(), len(1, &sandbox), method::POD_SANDBOX_STATUS),
        (filter, len(1, &stats), method::LIST_CONTAINER_STATS),
        (Vec::new(), len(1, &filesystem), method::IMAGE_FS_INFO),
        (Vec::new(), len(1, &image()), method::LIST_IMAGES),
        (one_image.clone(), len(1, &image()), method::IMAGE_STATUS),
        // The answer is about another sandbox; about a single one; an image that does not exist; an identifier.
        (text(1, B), len(1, &sandbox), ""),
        (about, len(1, &stats), ""),
        (Vec::new(), len(1, &sandbox_stats), ""),
        (one_image, Vec::new(), ""),
        (len(1, &sandbox_config()), text(1, A), ""),
        (Vec::new(), vec![0xff], ""),
    ] {
        assert_eq!(names(by_answer(&request, &answer)), want, "{answer:?}");
    }
}
