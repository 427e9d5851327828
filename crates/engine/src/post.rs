//! Posts traces to a trace store (OTLP over HTTP or gRPC, protobuf), bounded in time and size and with the protocol's
//! retries; reports what was not taken.

mod grpc;

use std::str::FromStr as _;
use std::time::Duration;

use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, TE, USER_AGENT,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::percent_decode_str;
use prost::Message;

/// How long one request may take: the default of `OTEL_EXPORTER_OTLP_TIMEOUT`.
const PATIENCE: Duration = Duration::from_secs(10);
/// First pause after a failure; each further one is twice as long, up to [`LONGEST`]. Chosen: a collector that
/// restarts is back within seconds.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Longest pause that a store can ask for.
const LONGEST_ASKED: Duration = Duration::from_secs(300);
/// Longest answer that is read, bytes. Chosen: it holds a number and a sentence.
const ANSWER_MAX: usize = 64 << 10;
/// Path of traces behind a base URL (opentelemetry.io/docs/specs/otlp, "OTLP/HTTP Request").
const TRACES: &str = "v1/traces";

/// Why a store's URL or headers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadStore {
    #[error("{url} is no URL of a trace store: {why}; it looks like http://127.0.0.1:4318")]
    Url { url: String, why: String },
    #[error(
        "the URL of a trace store holds a user or password, which every user of this machine can read in the list of processes: give them as a header, in the environment variable OTEL_EXPORTER_OTLP_HEADERS"
    )]
    Credentials,
    #[error("OTEL_EXPORTER_OTLP_HEADERS is no list of NAME=VALUE, with commas between: entry {0}")]
    Header(usize),
    #[error(
        "TLS to a trace store cannot be set up: {0}; is there a list of authorities (ca-certificates)?"
    )]
    Tls(std::io::Error),
}

/// The protocol of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Protobuf over HTTP.
    Http,
    Grpc,
}

impl Protocol {
    /// Parses a value of `OTEL_EXPORTER_OTLP_PROTOCOL`. kflow does not have `http/json`.
    pub fn parse(name: &str) -> Option<Self> {
        match name.trim() {
            "http/protobuf" => Some(Self::Http),
            "grpc" => Some(Self::Grpc),
            _ => None,
        }
    }
}

/// How a store is reached.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// A base URL (`http://127.0.0.1:4318`), or a whole URL, which ends in `/v1/traces`.
    pub url: &'a str,
    /// `url` is whole whatever it ends in, as in `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`.
    pub is_whole: bool,
    /// `NAME=VALUE,…` with percent-encoded values, as in `OTEL_EXPORTER_OTLP_HEADERS`. No error quotes a value.
    pub headers: &'a str,
    /// `None` means gRPC if the URL has gRPC's port, else HTTP.
    pub protocol: Option<Protocol>,
}

#[derive(Debug)]
pub struct Store {
    uri: Uri,
    protocol: Protocol,
    headers: HeaderMap,
    client: Clients,
}

#[derive(Debug)]
enum Clients {
    Plain(Client<HttpConnector, Full<Bytes>>),
    Tls(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
}

/// A trace store's answer to a request that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Spans that it refused nevertheless (partial success).
    pub rejected: u64,
    /// The reason, in the store's words.
    pub why: String,
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refused {
    pub why: String,
    /// The request may be sent again, after this time; `None` if it is refused for good.
    pub again: Option<Duration>,
}

impl Store {
    /// Returns the store at a place.
    pub fn at(place: Place<'_>) -> Result<Self, BadStore> {
        let Place { url, headers, .. } = place;
        let bad = |why: &str| BadStore::Url {
            url: kflow_model::redact::text(url).into_owned(),
            why: why.to_owned(),
        };
        let uri = Uri::from_str(url).map_err(|e| bad(&e.to_string()))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(other) => return Err(bad(&format!("{other} is not http or https"))),
            None => return Err(bad("it has no scheme")),
        };
        let authority = uri.authority().ok_or_else(|| bad("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(BadStore::Credentials);
        }
        if uri.query().is_some() {
            return Err(bad("it has a query"));
        }
        let default = match authority.port_u16() {
            Some(grpc::PORT) => Protocol::Grpc,
            _ => Protocol::Http,
        };
        let protocol = place.protocol.unwrap_or(default);
        let base = uri.path().trim_end_matches('/');
        let path = match protocol {
            // A gRPC method's path is always at the root.
            Protocol::Grpc if !base.is_empty() => {
                return Err(bad("it has a path, and OTLP over gRPC has none"));
            }
            Protocol::Grpc => grpc::METHOD.to_owned(),
            Protocol::Http if place.is_whole || base.ends_with(&format!("/{TRACES}")) => {
                uri.path().to_owned()
            }
            Protocol::Http => format!("{base}/{TRACES}"),
        };
        let whole = Uri::builder()
            .scheme(if tls { "https" } else { "http" })
            .authority(authority.clone())
            .path_and_query(path);
        let mut client = Client::builder(TokioExecutor::new());
        client.http2_only(protocol == Protocol::Grpc);
        Ok(Self {
            uri: whole.build().map_err(|e| bad(&e.to_string()))?,
            protocol,
            headers: parse(headers)?,
            client: if tls {
                let connector = HttpsConnectorBuilder::new().try_with_platform_verifier();
                let connector = connector.map_err(|e| BadStore::Tls(std::io::Error::other(e)))?;
                let connector = connector.https_only();
                Clients::Tls(client.build(match protocol {
                    Protocol::Http => connector.enable_http1().build(),
                    Protocol::Grpc => connector.enable_http2().build(),
                }))
            } else {
                Clients::Plain(client.build_http())
            },
        })
    }

    /// Scheme, host and path.
    pub const fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Posts a request once.
    pub async fn post(&self, body: Bytes) -> Result<Taken, Refused> {
        let later = |why: String| Refused {
            why,
            again: Some(Duration::ZERO),
        };
        let asked = async {
            let answer = self.ask(body).await?;
            let (mut head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await;
            if let Some(trailers) = body.as_ref().ok().and_then(Collected::trailers) {
                head.headers.extend(trailers.clone());
            }
            Ok((head, body.map(Collected::to_bytes).unwrap_or_default()))
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Err(_) => Err(later(format!(
                "it did not answer within {}",
                kflow_model::units::wait(PATIENCE)
            ))),
            Ok(Err(why)) => Err(later(why)),
            Ok(Ok((head, body))) if self.protocol == Protocol::Grpc && head.status.is_success() => {
                grpc::judge(&head.headers, &body)
            }
            Ok(Ok((head, body))) => judge(head.status, &head.headers, &body),
        }
    }

    async fn ask(&self, body: Bytes) -> Result<Response<Incoming>, String> {
        let body = match self.protocol {
            Protocol::Http => body,
            Protocol::Grpc => grpc::framed(&body).ok_or("it is too long for one message")?,
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        let kind = match self.protocol {
            Protocol::Http => "application/x-protobuf",
            Protocol::Grpc => "application/grpc+proto",
        };
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        if self.protocol == Protocol::Grpc {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
        let agent = concat!("kflow/", env!("CARGO_PKG_VERSION"));
        headers.insert(USER_AGENT, HeaderValue::from_static(agent));
        let answer = match &self.client {
            Clients::Plain(c) => c.request(request).await,
            Clients::Tls(c) => c.request(request).await,
        };
        answer.map_err(|e| {
            // The innermost error is the useful one: `Connection refused (os error 111)`.
            let mut inner: &dyn std::error::Error = &e;
            while let Some(next) = inner.source() {
                inner = next;
            }
            format!("it cannot be asked: {inner}")
        })
    }

    /// Posts a request until it is taken, refused for good, or `limit` is over. `failed` is told each failure and the
    /// pause after it.
    pub async fn send(
        &self,
        body: Bytes,
        mut failed: impl FnMut(&Refused, Duration),
        limit: Duration,
    ) -> Result<Taken, Refused> {
        let begun = kflow_model::clock::monotonic();
        let mut pause = FIRST;
        loop {
            let refused = match self.post(body.clone()).await {
                Ok(taken) => return Ok(taken),
                Err(refused) => refused,
            };
            let Some(asked) = refused.again else {
                return Err(refused);
            };
            // Jitter, so that many clients that lost one store do not come back together.
            let wait = asked.max(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
            let spent = kflow_model::clock::monotonic().saturating_duration_since(begun);
            if spent + wait >= limit {
                return Err(refused);
            }
            failed(&refused, wait);
            tokio::time::sleep(wait).await;
            pause = (pause * 2).min(LONGEST);
        }
    }
}

/// Interprets an answer. Which codes may be retried is from the specification ("Retryable Response Codes").
fn judge(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<Taken, Refused> {
    if status.is_success() {
        return Ok(taken(body));
    }
    let is_passing = matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    );
    let asked = headers
        .get(RETRY_AFTER)
        .and_then(|v| v.to_str().ok()?.trim().parse().ok());
    let words =
        said(&Status::decode(body).map_or_else(|_| body.to_vec(), |s| s.message.into_bytes()));
    let more = if words.is_empty() {
        String::new()
    } else {
        format!(": {words}")
    };
    Err(Refused {
        why: format!("it answered {status}{more}"),
        again: is_passing
            .then(|| Duration::from_secs(asked.unwrap_or_default()).min(LONGEST_ASKED)),
    })
}

/// Reads a store's answer to a request that it took.
fn taken(answer: &[u8]) -> Taken {
    // An answer that does not parse refuses nothing.
    let partial = Answer::decode(answer).ok().and_then(|r| r.partial);
    let partial = partial.unwrap_or_default();
    Taken {
        rejected: u64::try_from(partial.rejected).unwrap_or_default(),
        why: said(partial.message.as_bytes()),
    }
}

/// Returns a server's text redacted, without control characters, and at most 200 characters long.
fn said(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = kflow_model::redact::text(text.trim()).into_owned();
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(200)
        .collect()
}

fn parse(headers: &str) -> Result<HeaderMap, BadStore> {
    let mut all = HeaderMap::new();
    let entries = headers.split(',').map(str::trim).enumerate();
    for (n, entry) in entries.filter(|(_, e)| !e.is_empty()) {
        let bad = || BadStore::Header(n + 1);
        let (name, value) = entry.split_once('=').ok_or_else(bad)?;
        let value = percent_decode_str(value.trim())
            .decode_utf8()
            .map_err(|_| bad())?;
        let name = HeaderName::from_str(name.trim()).map_err(|_| bad())?;
        let mut value = HeaderValue::from_str(&value).map_err(|_| bad())?;
        value.set_sensitive(true);
        all.append(name, value);
    }
    Ok(all)
}

/// `ExportTraceServiceResponse`
#[derive(Clone, PartialEq, Eq, Message)]
struct Answer {
    #[prost(message, optional, tag = "1")]
    partial: Option<Partial>,
}

/// `ExportTracePartialSuccess`
#[derive(Clone, PartialEq, Eq, Message)]
struct Partial {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    message: String,
}

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Eq, Message)]
struct Status {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Detail>,
}

/// `google.protobuf.Any`
#[derive(Clone, PartialEq, Eq, Message)]
struct Detail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[cfg(test)]
mod tests;
