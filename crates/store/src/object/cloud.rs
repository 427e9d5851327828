//! Object storage of clouds, over kflow's own HTTP client, which the rest of this crate is built with.

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kflow_model::units::parse_duration;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::client::{
    HttpClient, HttpConnector as Connector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{
    BackoffConfig, ClientConfigKey, ClientOptions, ObjectStore, ObjectStoreScheme, RetryConfig,
};

use super::{StoreError, advice, environment};

/// Time for a server to accept a connection, if neither `object_store` nor the environment sets it.
const CONNECT: Duration = Duration::from_secs(5);
/// Time until an answer begins.
const ANSWER: Duration = Duration::from_secs(30);

/// Opens the store of a URL with the settings of the environment: `AWS_*`, `GOOGLE_*`, `AZURE_*`.
pub(super) fn open(
    scheme: &ObjectStoreScheme,
    url: &url::Url,
    shown: &str,
) -> Result<Arc<dyn ObjectStore>, StoreError> {
    if let Some((variable, why)) = environment::wrong(scheme, |name| std::env::var(name).ok()) {
        return Err(StoreError::Variable {
            url: shown.to_owned(),
            variable,
            why,
        });
    }
    // Longer retries are up to the caller: an upload waits, a command reports the error.
    let retry = || RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: 2,
        retry_timeout: Duration::from_secs(20),
    };
    let made: object_store::Result<Arc<dyn ObjectStore>> = match scheme {
        ObjectStoreScheme::AmazonS3 => AmazonS3Builder::from_env()
            .with_url(url.as_str())
            .with_retry(retry())
            .with_http_connector(Hyper)
            .build()
            .map(|s| Arc::new(s) as _),
        ObjectStoreScheme::GoogleCloudStorage => GoogleCloudStorageBuilder::from_env()
            .with_url(url.as_str())
            .with_retry(retry())
            .with_http_connector(Hyper)
            .build()
            .map(|s| Arc::new(s) as _),
        ObjectStoreScheme::MicrosoftAzure => MicrosoftAzureBuilder::from_env()
            .with_url(url.as_str())
            .with_retry(retry())
            .with_http_connector(Hyper)
            .build()
            .map(|s| Arc::new(s) as _),
        _ => {
            return Err(StoreError::Url {
                url: shown.to_owned(),
                why: "its scheme is none of file, s3, gs and az".to_owned(),
            });
        }
    };
    made.map_err(|source| StoreError::Environment {
        url: shown.to_owned(),
        todo: advice::of_environment(shown, &source),
        source: Box::new(source),
    })
}

/// Parses a switch as `object_store` does (`config.rs`).
fn is_true(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    matches!(text.as_str(), "1" | "true" | "on" | "yes" | "y")
}

/// Creates HTTP clients for `object_store`.
#[derive(Debug)]
struct Hyper;

impl Connector for Hyper {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let http = http.is_some_and(|text| is_true(&text));
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // `object_store` sets 1 s for the clouds' metadata services: outside of a cloud nothing answers there.
        let asked = options.get_config_value(&ClientConfigKey::ConnectTimeout);
        let asked = asked.and_then(|text| parse_duration(&text.replace(' ', "")).ok());
        let asked = asked.and_then(|ns| u64::try_from(ns).ok());
        tcp.set_connect_timeout(Some(asked.map_or(CONNECT, Duration::from_nanos)));
        let tls = match HttpsConnectorBuilder::new().try_with_platform_verifier() {
            // An image made from scratch has no certificate authorities, and a store inside the cluster may need none.
            Err(_) if http => {
                tcp.enforce_http(true);
                let client = Client::builder(TokioExecutor::new()).build(tcp);
                return Ok(HttpClient::new(Service { client }));
            }
            tls => tls.map_err(|e| object_store::Error::Generic {
                store: "TLS",
                source: Box::new(e),
            })?,
        };
        let connector = if http {
            tls.https_or_http()
        } else {
            tls.https_only()
        };
        let connector = connector.enable_http1().wrap_connector(tcp);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        Ok(HttpClient::new(Service { client }))
    }
}

#[derive(Debug)]
struct Service<C> {
    client: Client<C, HttpRequestBody>,
}

impl<C: Connect + Clone + Debug + Send + Sync + 'static> HttpService for Service<C> {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let answer = tokio::time::timeout(ANSWER, self.client.request(request)).await;
            let answer = match answer {
                Err(late) => return Err(HttpError::new(HttpErrorKind::Timeout, late)),
                Ok(Err(e)) if e.is_connect() => {
                    return Err(HttpError::new(HttpErrorKind::Connect, e));
                }
                // The connection was closed while idle or during the request. All requests made here may be retried.
                Ok(Err(e)) => return Err(HttpError::new(HttpErrorKind::Request, e)),
                Ok(Ok(answer)) => answer,
            };
            let (head, body) = answer.into_parts();
            let body = body.map_err(|e| HttpError::new(HttpErrorKind::Interrupted, e));
            Ok(HttpResponse::from_parts(head, HttpResponseBody::new(body)))
        })
    }
}
