//! What to do about errors of object storage, whose own text says only which request failed.
//!
//! The error codes are from the clouds' references: Amazon S3, "Error responses"; Azure, "Blob service error codes"
//! and "Common REST API error codes"; Google Cloud Storage, "HTTP status and error codes".

use std::error::Error;

use object_store::ObjectStoreScheme;

/// What to do about errors with certain words.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    words: &'static [&'static str],
    s3: &'static str,
    google: &'static str,
    azure: &'static str,
}

impl Answer {
    /// What to do in any cloud.
    const fn alike(words: &'static [&'static str], says: &'static str) -> Self {
        Self {
            words,
            s3: says,
            google: says,
            azure: says,
        }
    }
}

/// The bucket is missing, and not an object in it.
const NO_BUCKET: Answer = Answer {
    azure: "there is no such container: kflow makes none; make it, or name another in the URL",
    ..Answer::alike(
        &[
            "NoSuchBucket",
            "ContainerNotFound",
            "specified bucket does not exist",
        ],
        "there is no such bucket: kflow makes none; make it, or name another in the URL",
    )
};

/// The first one with words of the error counts.
const ANSWERS: [Answer; 9] = [
    Answer::alike(
        &[
            "RequestTimeTooSkewed",
            "Request date header too old",
            "must be within 15 minutes",
            "Token must be a short-lived token",
        ],
        "the store finds the time of the request wrong: set this machine's clock (NTP)",
    ),
    Answer {
        s3: "the bucket is in another region: name that in AWS_REGION, and the endpoint of a store of one's own in AWS_ENDPOINT",
        ..Answer::alike(
            &[
                "incorrectly configured region",
                "AuthorizationHeaderMalformed",
                "PermanentRedirect",
            ],
            "the store sends this request elsewhere: is the bucket's name right?",
        )
    },
    NO_BUCKET,
    // Addresses of the clouds' metadata services, where a machine or pod gets its credentials.
    Answer {
        words: &[
            "169.254.169.254",
            "metadata.google.internal",
            "/computeMetadata/v1/",
        ],
        s3: "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (of a profile: `eval \"$(aws configure export-credentials --format env)\"`), or run where the machine or pod has a role",
        google: "there are no credentials: run `gcloud auth application-default login`, or name a key file in GOOGLE_APPLICATION_CREDENTIALS, or run where the machine or pod has a service account",
        azure: "there are no credentials: set AZURE_STORAGE_ACCOUNT_KEY, or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID, or AZURE_USE_AZURE_CLI=true after `az login`, or run where the machine or pod has an identity",
    },
    // The text is hyper-rustls's.
    Answer {
        words: &["unsupported scheme http"],
        s3: "the store is to be asked without TLS: write https in AWS_ENDPOINT, or allow it by AWS_ALLOW_HTTP=true",
        google: "the store is to be asked without TLS: write https in GOOGLE_BASE_URL, or allow it by GOOGLE_ALLOW_HTTP=true",
        azure: "the store is to be asked without TLS: write https in AZURE_ENDPOINT, or allow it by AZURE_ALLOW_HTTP=true",
    },
    Answer {
        words: &["dns error", "failed to lookup address"],
        s3: "the store's host is not known by that name: look at AWS_ENDPOINT, AWS_REGION and the bucket's name",
        google: "the store's host is not known by that name: does this machine reach storage.googleapis.com?",
        azure: "the store's host is not known by that name: look at AZURE_STORAGE_ACCOUNT_NAME",
    },
    Answer {
        s3: "the credentials have expired: get new ones, and AWS_SESSION_TOKEN with them",
        ..Answer::alike(
            &["ExpiredToken", "token has expired", "TokenExpired"],
            "the credentials have expired: get new ones",
        )
    },
    Answer {
        words: &[
            "InvalidAccessKeyId",
            "SignatureDoesNotMatch",
            "AuthenticationFailed",
            "Server failed to authenticate the request",
            "401 Unauthorized",
        ],
        s3: "the store does not know these credentials: look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; `aws sts get-caller-identity` says whose they are",
        google: "the store does not know these credentials: look at GOOGLE_APPLICATION_CREDENTIALS, or `gcloud auth application-default login` again",
        azure: "the store does not know these credentials: look at AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or what else AZURE_* names",
    },
    Answer {
        words: &["403 Forbidden", "AccessDenied"],
        s3: "the store refuses it to these credentials: they need s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject on what is in it; `aws sts get-caller-identity` says whose they are (profiles in ~/.aws are not read: `aws configure export-credentials --format env`)",
        google: "the store refuses it to these credentials: they need the role roles/storage.objectUser on the bucket; GOOGLE_APPLICATION_CREDENTIALS names them",
        azure: "the store refuses it to these credentials: they need the role Storage Blob Data Contributor on the container, or another AZURE_STORAGE_ACCOUNT_KEY",
    },
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cloud {
    S3,
    Google,
    Azure,
}

impl Cloud {
    fn of(url: &str) -> Option<Self> {
        let parsed = url::Url::parse(url).ok()?;
        match ObjectStoreScheme::parse(&parsed).ok()?.0 {
            ObjectStoreScheme::AmazonS3 => Some(Self::S3),
            ObjectStoreScheme::GoogleCloudStorage => Some(Self::Google),
            ObjectStoreScheme::MicrosoftAzure => Some(Self::Azure),
            _ => None,
        }
    }
}

/// Returns the texts of an error and all its causes.
fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

fn answer(text: &str) -> Option<&'static Answer> {
    let fits = |words: &[&str]| words.iter().any(|w| text.contains(w));
    ANSWERS.iter().find(|a| fits(a.words))
}

/// True when the bucket is missing, and not an object in it.
pub(super) fn lacks_bucket(error: &object_store::Error) -> bool {
    answer(&told(error)) == Some(&NO_BUCKET)
}

/// Returns a sentence that says what happened and what to do; `None` where the error's own text has to do.
pub(super) fn of(url: &str, error: &object_store::Error) -> Option<&'static str> {
    let answer = answer(&told(error))?;
    Some(match Cloud::of(url)? {
        Cloud::S3 => answer.s3,
        Cloud::Google => answer.google,
        Cloud::Azure => answer.azure,
    })
}

/// Says what to check when no request can be made at all.
#[cfg(feature = "cloud")]
pub(super) fn of_environment(url: &str, error: &object_store::Error) -> &'static str {
    // The text is rustls-platform-verifier's.
    if told(error).contains("No CA certificates were loaded") {
        return "this machine or image has no authorities of TLS: put them at /etc/ssl/certs/ca-certificates.crt, or name their file in SSL_CERT_FILE";
    }
    match Cloud::of(url) {
        Some(Cloud::S3) => {
            "look at AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT"
        }
        Some(Cloud::Google) => {
            "look at the file that GOOGLE_APPLICATION_CREDENTIALS names, or run `gcloud auth application-default login` again"
        }
        Some(Cloud::Azure) => {
            "look at AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or what else AZURE_* names"
        }
        None => "look at the variables of this cloud",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors as `object_store` words them (`client/retry.rs`), with bodies from the clouds' references.
    #[test]
    fn what_a_store_answers_says_what_to_do() {
        let status = |status: &str, body: &str| {
            format!(
                "Error performing GET https://b.example/ in 2ms - Server returned non-2xx status code: {status}: {body}"
            )
        };
        let code = |status_: &str, code: &str| {
            status(status_, &format!("<Error><Code>{code}</Code></Error>"))
        };
        for (text, s3, google, azure) in [
            (code("403 Forbidden", "RequestTimeTooSkewed"), "clock", "clock", "clock"),
            // Azure has the same code for this as for a wrong key; the detail tells them apart.
            (
                status(
                    "403 Forbidden",
                    "<Error><Code>AuthenticationFailed</Code><AuthenticationErrorDetail>Request date header too old: 'Fri, 04 Oct 2019 18:02:12 GMT'</AuthenticationErrorDetail></Error>",
                ),
                "clock",
                "clock",
                "clock",
            ),
            (
                "Error performing GET http://b.example/ in 2ms - HTTP error: client error (Connect): unsupported scheme http".to_owned(),
                "AWS_ALLOW_HTTP",
                "GOOGLE_ALLOW_HTTP",
                "AZURE_ALLOW_HTTP",
            ),
            (code("400 Bad Request", "AuthorizationHeaderMalformed"), "AWS_REGION", "name", "name"),
            (
                "Received redirect without LOCATION, this normally indicates an incorrectly configured region".to_owned(),
                "AWS_REGION",
                "name",
                "name",
            ),
            (code("404 Not Found", "NoSuchBucket"), "no such bucket", "no such bucket", "no such container"),
            (code("404 Not Found", "ContainerNotFound"), "no such bucket", "no such bucket", "no such container"),
            (
                "Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error".to_owned(),
                "AWS_ACCESS_KEY_ID",
                "GOOGLE_APPLICATION_CREDENTIALS",
                "AZURE_STORAGE_ACCOUNT_KEY",
            ),
            (
                "error sending request: dns error: failed to lookup address information".to_owned(),
                "AWS_ENDPOINT",
                "storage.googleapis.com",
                "AZURE_STORAGE_ACCOUNT_NAME",
            ),
            (code("400 Bad Request", "ExpiredToken"), "expired", "expired", "expired"),
            (code("403 Forbidden", "InvalidAccessKeyId"), "does not know", "does not know", "does not know"),
            (status("401 Unauthorized", "Invalid Credentials"), "does not know", "does not know", "does not know"),
            // Azurite's answer to a wrong key.
            (
                status(
                    "403 Forbidden",
                    "<Error><Code>AuthorizationFailure</Code><Message>Server failed to authenticate the request.</Message></Error>",
                ),
                "does not know",
                "does not know",
                "does not know",
            ),
            (code("403 Forbidden", "AccessDenied"), "s3:PutObject", "roles/storage.objectUser", "Storage Blob Data Contributor"),
        ] {
            let error = || object_store::Error::Generic {
                store: "S3",
                source: text.clone().into(),
            };
            for (url, wanted) in [("s3://b/p", s3), ("gs://b/p", google), ("az://b/p", azure)] {
                let todo = of(url, &error()).unwrap_or_default();
                assert!(todo.contains(wanted), "{url}: {text}: {todo:?} lacks {wanted:?}");
                // Redaction leaves it as it is when it is printed.
                assert_eq!(kflow_model::redact::text(todo), todo, "{url}: {text}");
            }
            assert_eq!(of("file:///p", &error()), None);
        }
        let other = object_store::Error::Generic {
            store: "S3",
            source: status("503 Service Unavailable", "SlowDown").into(),
        };
        assert_eq!(of("s3://b", &other), None);
    }
}
