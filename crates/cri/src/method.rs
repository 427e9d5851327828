//! The table of the CRI's methods: what is read of the request and of the answer of each.

use super::facts::{Facts, answers, requests};
use super::limits;
use super::proto::Malformed;
use kflow_model::Text;
use kflow_model::cri::Service;
use kflow_model::cri::method;

/// A function that reads a message.
pub(super) type Read = fn(&[u8], &mut Facts) -> Result<(), Malformed>;

/// What is read of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// Nothing; only its bytes are counted.
    Skip,
    /// Subject and fields, by this function.
    Facts(Read),
    /// A list of sandboxes (true) or containers (false), in one message or in a stream of messages.
    List { sandboxes: bool },
    /// The status of a sandbox (`PodSandboxStatus`).
    SandboxStatus,
    /// The status of a container (`ContainerStatus`).
    ContainerStatus,
    /// A stream of events about containers (`GetContainerEvents`).
    Events,
}

/// One method.
#[derive(Debug)]
pub(super) struct Method {
    pub(super) name: &'static str,
    /// Reads the request; `None` when the request has no fields worth reading.
    pub(super) request: Option<Read>,
    pub(super) answer: Answer,
    /// The answer is a stream of messages.
    pub(super) streams: bool,
}

const fn unary(name: &'static str, request: Option<Read>, answer: Answer) -> Method {
    Method {
        name,
        request,
        answer,
        streams: false,
    }
}

const fn stream(name: &'static str, request: Option<Read>, answer: Answer) -> Method {
    Method {
        name,
        request,
        answer,
        streams: true,
    }
}

const SANDBOXES: Answer = Answer::List { sandboxes: true };
const CONTAINERS: Answer = Answer::List { sandboxes: false };

/// `RuntimeService`, sorted by name.
#[rustfmt::skip]
static RUNTIME: &[Method] = &[
    unary(method::ATTACH, Some(requests::container_id), Answer::Skip),
    unary(method::CHECKPOINT_CONTAINER, Some(requests::checkpoint_container), Answer::Skip),
    unary(method::CONTAINER_STATS, Some(requests::about_container), Answer::Skip),
    unary(method::CONTAINER_STATUS, Some(requests::about_container), Answer::ContainerStatus),
    unary(method::CREATE_CONTAINER, Some(requests::create_container), Answer::Facts(answers::new_container)),
    unary(method::EXEC, Some(requests::exec), Answer::Skip),
    unary(method::EXEC_SYNC, Some(requests::exec_sync), Answer::Facts(answers::exec_result)),
    stream(method::GET_CONTAINER_EVENTS, None, Answer::Events),
    unary(method::LIST_CONTAINER_STATS, Some(requests::list_container_stats), Answer::Skip),
    unary(method::LIST_CONTAINERS, Some(requests::list_containers), CONTAINERS),
    unary(method::LIST_METRIC_DESCRIPTORS, None, Answer::Skip),
    unary(method::LIST_POD_SANDBOX, Some(requests::list_pod_sandbox), SANDBOXES),
    unary(method::LIST_POD_SANDBOX_METRICS, None, Answer::Skip),
    unary(method::LIST_POD_SANDBOX_STATS, Some(requests::list_pod_sandbox_stats), Answer::Skip),
    unary(method::POD_SANDBOX_STATS, Some(requests::about_sandbox), Answer::Skip),
    unary(method::POD_SANDBOX_STATUS, Some(requests::about_sandbox), Answer::SandboxStatus),
    unary(method::PORT_FORWARD, Some(requests::port_forward), Answer::Skip),
    unary(method::REMOVE_CONTAINER, Some(requests::container_id), Answer::Skip),
    unary(method::REMOVE_POD_SANDBOX, Some(requests::sandbox_id), Answer::Skip),
    unary(method::REOPEN_CONTAINER_LOG, Some(requests::container_id), Answer::Skip),
    unary(method::RUN_POD_SANDBOX, Some(requests::run_pod_sandbox), Answer::Facts(answers::new_sandbox)),
    unary(method::RUNTIME_CONFIG, None, Answer::Facts(answers::runtime_config)),
    unary(method::START_CONTAINER, Some(requests::container_id), Answer::Skip),
    unary(method::STATUS, Some(requests::verbose), Answer::Facts(answers::runtime_status)),
    unary(method::STOP_CONTAINER, Some(requests::stop_container), Answer::Skip),
    unary(method::STOP_POD_SANDBOX, Some(requests::sandbox_id), Answer::Skip),
    stream(method::STREAM_CONTAINER_STATS, Some(requests::list_container_stats), Answer::Skip),
    stream(method::STREAM_CONTAINERS, Some(requests::list_containers), CONTAINERS),
    stream(method::STREAM_POD_SANDBOX_METRICS, None, Answer::Skip),
    stream(method::STREAM_POD_SANDBOX_STATS, Some(requests::list_pod_sandbox_stats), Answer::Skip),
    stream(method::STREAM_POD_SANDBOXES, Some(requests::list_pod_sandbox), SANDBOXES),
    unary(method::UPDATE_CONTAINER_RESOURCES, Some(requests::update_container_resources), Answer::Skip),
    unary(method::UPDATE_POD_SANDBOX_RESOURCES, Some(requests::update_pod_sandbox_resources), Answer::Skip),
    unary(method::UPDATE_RUNTIME_CONFIG, Some(requests::update_runtime_config), Answer::Skip),
    unary(method::VERSION, Some(requests::version_request), Answer::Facts(answers::version)),
];

/// `ImageService`, sorted by name.
#[rustfmt::skip]
static IMAGE: &[Method] = &[
    unary(method::IMAGE_FS_INFO, None, Answer::Facts(answers::image_fs_info)),
    unary(method::IMAGE_STATUS, Some(requests::about_image), Answer::Facts(answers::image_status)),
    unary(method::LIST_IMAGES, Some(requests::list_images), Answer::Skip),
    unary(method::PULL_IMAGE, Some(requests::pull_image), Answer::Facts(answers::image_ref)),
    unary(method::REMOVE_IMAGE, Some(requests::remove_image), Answer::Skip),
    stream(method::STREAM_IMAGES, Some(requests::list_images), Answer::Skip),
];

/// The method that a `:path` names.
#[derive(Clone, Debug)]
pub(super) enum MethodRef {
    /// A method of the table.
    Known(Service, &'static Method),
    /// A method of a CRI service that the table does not have.
    New(Service, Text),
    /// Any other path, as a whole.
    Other(Text),
    /// A path that is not known, because it was sent before the connection was followed.
    Unknown,
}

impl PartialEq for MethodRef {
    fn eq(&self, other: &Self) -> bool {
        self.service() == other.service() && self.name() == other.name()
    }
}
impl Eq for MethodRef {}

impl MethodRef {
    pub(super) fn parse(path: &[u8]) -> Self {
        let whole = || Self::Other(super::text::text(path, limits::TEXT));
        let Some((service, name)) = std::str::from_utf8(path)
            .ok()
            .and_then(|p| p.strip_prefix('/'))
            .and_then(|p| p.split_once('/'))
        else {
            return whole();
        };
        let (service, table) = match service {
            "runtime.v1.RuntimeService" => (Service::Runtime, RUNTIME),
            "runtime.v1.ImageService" => (Service::Image, IMAGE),
            "runtime.v1alpha2.RuntimeService" => (Service::RuntimeV1Alpha2, RUNTIME),
            "runtime.v1alpha2.ImageService" => (Service::ImageV1Alpha2, IMAGE),
            _ => return whole(),
        };
        match table
            .binary_search_by(|m| m.name.cmp(name))
            .ok()
            .and_then(|i| table.get(i))
        {
            Some(method) => Self::Known(service, method),
            None => Self::New(service, super::text::text(name.as_bytes(), limits::TEXT)),
        }
    }

    /// Returns a method of the table by its name, in version 1 of the CRI: Kubernetes 1.26 removed v1alpha2.
    pub(super) fn named(name: &str) -> Option<Self> {
        [(Service::Runtime, RUNTIME), (Service::Image, IMAGE)]
            .into_iter()
            .find_map(|(service, table)| {
                let method = table.iter().find(|m| m.name == name)?;
                Some(Self::Known(service, method))
            })
    }

    pub(super) fn service(&self) -> Service {
        match self {
            Self::Known(service, _) | Self::New(service, _) => *service,
            Self::Other(_) => Service::Other,
            Self::Unknown => Service::Unknown,
        }
    }

    pub(super) fn name(&self) -> Text {
        match self {
            Self::Known(_, method) => Text::new(method.name),
            Self::New(_, name) | Self::Other(name) => name.clone(),
            Self::Unknown => Text::new(method::UNKNOWN),
        }
    }

    pub(super) fn known(&self) -> Option<&'static Method> {
        match self {
            Self::Known(_, method) => Some(method),
            Self::New(..) | Self::Other(_) | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_sorted_so_that_every_method_is_found() {
        for (service, table) in [("Runtime", RUNTIME), ("Image", IMAGE)] {
            assert!(table.is_sorted_by(|a, b| a.name < b.name));
            for package in ["runtime.v1", "runtime.v1alpha2"] {
                for method in table {
                    let path = format!("/{package}.{service}Service/{}", method.name);
                    let found = MethodRef::parse(path.as_bytes());
                    assert_eq!(found.known().map(|m| m.name), Some(method.name), "{path}");
                }
            }
        }
    }

    #[test]
    fn what_is_not_in_the_table_keeps_its_name() {
        for (path, service, name) in [
            (
                "/runtime.v1.RuntimeService/Later",
                Service::Runtime,
                "Later",
            ),
            (
                "/runtime.v1alpha2.ImageService/PullImage",
                Service::ImageV1Alpha2,
                "PullImage",
            ),
            (
                "/runtime.v1.ImageService/RunPodSandbox",
                Service::Image,
                "RunPodSandbox",
            ),
            (
                "/grpc.health.v1.Health/Check",
                Service::Other,
                "/grpc.health.v1.Health/Check",
            ),
            ("/", Service::Other, "/"),
            ("", Service::Other, ""),
        ] {
            let found = MethodRef::parse(path.as_bytes());
            assert_eq!(
                (found.service(), found.name().as_str()),
                (service, name),
                "{path}"
            );
        }
    }
}
