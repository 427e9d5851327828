//! An apiserver that falls silent, or answers as it is told, for tests.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use kube::client::{Body as HttpBody, Client};
use tonic::codegen::http::{Request, Response, StatusCode};
use tower::{BoxError, service_fn};

/// What the apiserver answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// Not a byte.
    Nothing,
    /// The head of a response, and nothing of its body.
    Head,
    /// Status 404, with an empty body.
    NotFound,
}

/// A body without a byte: it ends at once, or never.
struct Empty {
    ends: bool,
}

impl Body for Empty {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ends {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }
}

/// Returns a client whose requests are answered by a function.
pub(crate) fn answers(
    answer: impl FnMut(&Request<HttpBody>) -> Response<String> + Send + 'static,
) -> Client {
    let answer = std::sync::Mutex::new(answer);
    let serve = service_fn(move |request: Request<HttpBody>| {
        let answer = answer.lock().unwrap()(&request);
        async move { Ok::<_, BoxError>(answer) }
    });
    Client::new(serve, "default")
}

/// Returns a client whose requests are answered by path.
pub(crate) fn client(answer: impl Fn(&str) -> Answer + Send + 'static) -> Client {
    let serve = service_fn(move |request: Request<HttpBody>| {
        let answer = answer(request.uri().path());
        async move {
            let (status, ends) = match answer {
                Answer::Nothing => std::future::pending().await,
                Answer::Head => (StatusCode::OK, false),
                Answer::NotFound => (StatusCode::NOT_FOUND, true),
            };
            let mut response = Response::new(Empty { ends });
            *response.status_mut() = status;
            Ok::<_, BoxError>(response)
        }
    });
    Client::new(serve, "default")
}
