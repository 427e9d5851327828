//! Checks a cloud's environment variables before `object_store` reads them: it builds URLs and headers from the
//! values and panics where they are not valid. An example is a key read from a file with a line break at its end.

use object_store::ObjectStoreScheme;
use url::Url;

/// The form that a value must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// `https://host:port/path`.
    Url,
    /// Part of a URL, not encoded.
    Name,
    /// Used in a header, or in a string to sign.
    Word,
}

/// Variables that `object_store` 0.14 reads (`from_env` and `FromStr` of its three builders), without files, switches
/// and times.
const READ: [(&str, Form); 48] = [
    ("AWS_ACCESS_KEY_ID", Form::Word),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", Form::Url),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", Form::Word),
    ("AWS_DEFAULT_REGION", Form::Name),
    ("AWS_ENDPOINT", Form::Url),
    ("AWS_ENDPOINT_URL", Form::Url),
    ("AWS_ENDPOINT_URL_S3", Form::Url),
    ("AWS_ENDPOINT_URL_STS", Form::Url),
    ("AWS_METADATA_ENDPOINT", Form::Url),
    ("AWS_REGION", Form::Name),
    ("AWS_ROLE_ARN", Form::Word),
    ("AWS_ROLE_SESSION_NAME", Form::Word),
    ("AWS_SECRET_ACCESS_KEY", Form::Word),
    ("AWS_SERVER_SIDE_ENCRYPTION", Form::Word),
    ("AWS_SESSION_TOKEN", Form::Word),
    ("AWS_SSE_CUSTOMER_KEY_BASE64", Form::Word),
    ("AWS_SSE_KMS_KEY_ID", Form::Word),
    ("AWS_TOKEN", Form::Word),
    ("GCE_METADATA_HOST", Form::Name),
    ("GCE_METADATA_IP", Form::Name),
    ("GCE_METADATA_ROOT", Form::Name),
    ("GOOGLE_BASE_URL", Form::Url),
    ("GOOGLE_BEARER_TOKEN", Form::Word),
    ("AZURE_AUTHORITY_HOST", Form::Url),
    ("AZURE_AUTHORITY_ID", Form::Name),
    ("AZURE_CLIENT_ID", Form::Word),
    ("AZURE_CLIENT_SECRET", Form::Word),
    ("AZURE_ENDPOINT", Form::Url),
    ("AZURE_FABRIC_CLUSTER_IDENTIFIER", Form::Word),
    ("AZURE_FABRIC_SESSION_TOKEN", Form::Word),
    ("AZURE_FABRIC_TOKEN_SERVICE_URL", Form::Url),
    ("AZURE_FABRIC_WORKLOAD_HOST", Form::Word),
    ("AZURE_IDENTITY_ENDPOINT", Form::Url),
    ("AZURE_MSI_ENDPOINT", Form::Url),
    ("AZURE_STORAGE_ACCOUNT_KEY", Form::Word),
    ("AZURE_STORAGE_ACCOUNT_NAME", Form::Name),
    ("AZURE_STORAGE_AUTHORITY_HOST", Form::Url),
    ("AZURE_STORAGE_AUTHORITY_ID", Form::Name),
    ("AZURE_STORAGE_CLIENT_ID", Form::Word),
    ("AZURE_STORAGE_CLIENT_SECRET", Form::Word),
    ("AZURE_STORAGE_ENDPOINT", Form::Url),
    ("AZURE_STORAGE_SAS_KEY", Form::Word),
    ("AZURE_STORAGE_SAS_TOKEN", Form::Word),
    ("AZURE_STORAGE_TENANT_ID", Form::Name),
    ("AZURE_STORAGE_TOKEN", Form::Word),
    ("AZURE_TENANT_ID", Form::Name),
    ("IDENTITY_ENDPOINT", Form::Url),
    ("IDENTITY_HEADER", Form::Word),
];

/// Prefixes of the names of a cloud's variables.
const fn prefixes(scheme: &ObjectStoreScheme) -> &'static [&'static str] {
    match scheme {
        ObjectStoreScheme::AmazonS3 => &["AWS_"],
        ObjectStoreScheme::GoogleCloudStorage => &["GOOGLE_", "GCE_"],
        ObjectStoreScheme::MicrosoftAzure => &["AZURE_", "IDENTITY_"],
        _ => &[],
    }
}

/// Returns the first variable with an unusable value: its name, and what is wrong. Never the value, which may be a key.
pub(super) fn wrong(
    scheme: &ObjectStoreScheme,
    value: impl Fn(&str) -> Option<String>,
) -> Option<(&'static str, &'static str)> {
    let ours = |name: &str| prefixes(scheme).iter().any(|p| name.starts_with(p));
    let mut read = READ.into_iter().filter(|(name, _)| ours(name));
    read.find_map(|(name, form)| Some((name, fault(form, &value(name)?)?)))
}

fn fault(form: Form, value: &str) -> Option<&'static str> {
    if !value.bytes().all(|b| b.is_ascii_graphic()) {
        return Some(
            "holds a space, a line break or another character that none has: set it anew, without what was copied with it",
        );
    }
    let fits = match form {
        Form::Word => true,
        Form::Name => value
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._:".contains(&b)),
        Form::Url => Url::parse(value).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https")
                && url.has_host()
                && !value.contains(['"', '<', '>', '\\', '^', '`', '{', '|', '}'])
        }),
    };
    match form {
        _ if fits => None,
        Form::Url => Some("is no URL: it looks like https://store.example:9000"),
        Form::Name | Form::Word => {
            Some("holds other characters than letters, digits, dots and dashes")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ObjectStoreScheme as S;

    #[test]
    fn what_no_request_can_be_made_of_is_named() {
        for (scheme, name, value, wanted) in [
            (S::AmazonS3, "AWS_ENDPOINT", "https://s3.example:9000", None),
            (S::AmazonS3, "AWS_ENDPOINT", "http://[::1]:9000/", None),
            (S::AmazonS3, "AWS_ENDPOINT", "minio:9000", Some("is no URL")),
            (
                S::AmazonS3,
                "AWS_ENDPOINT_URL",
                "nonsense",
                Some("is no URL"),
            ),
            (
                S::AmazonS3,
                "AWS_ENDPOINT_URL_S3",
                "http://",
                Some("is no URL"),
            ),
            (
                S::AmazonS3,
                "AWS_METADATA_ENDPOINT",
                "http://a{b",
                Some("is no URL"),
            ),
            (S::AmazonS3, "AWS_REGION", "eu-west-1", None),
            (S::AmazonS3, "AWS_REGION", "eu west", Some("a space")),
            (S::AmazonS3, "AWS_DEFAULT_REGION", "eu\"", Some("letters")),
            (
                S::AmazonS3,
                "AWS_ACCESS_KEY_ID",
                "AKIA1\n",
                Some("a line break"),
            ),
            (S::AmazonS3, "AWS_SESSION_TOKEN", "ü", Some("a line break")),
            (S::AmazonS3, "AWS_SECRET_ACCESS_KEY", "a/b+c=", None),
            (
                S::GoogleCloudStorage,
                "GOOGLE_BASE_URL",
                "storage",
                Some("is no URL"),
            ),
            (
                S::GoogleCloudStorage,
                "GCE_METADATA_HOST",
                "10.0.0.1:80",
                None,
            ),
            (
                S::GoogleCloudStorage,
                "GCE_METADATA_HOST",
                "a/b",
                Some("letters"),
            ),
            (
                S::GoogleCloudStorage,
                "GOOGLE_BEARER_TOKEN",
                "a\n",
                Some("a line break"),
            ),
            (S::GoogleCloudStorage, "AWS_ENDPOINT", "nonsense", None),
            (
                S::MicrosoftAzure,
                "AZURE_ENDPOINT",
                "azurite:10000",
                Some("is no URL"),
            ),
            (
                S::MicrosoftAzure,
                "IDENTITY_ENDPOINT",
                "nonsense",
                Some("is no URL"),
            ),
            (S::MicrosoftAzure, "AZURE_TENANT_ID", "a?b", Some("letters")),
            (
                S::MicrosoftAzure,
                "AZURE_STORAGE_ACCOUNT_KEY",
                "a+b/c==",
                None,
            ),
            (
                S::MicrosoftAzure,
                "AZURE_STORAGE_SAS_TOKEN",
                "?sv=1&sig=a%2Fb",
                None,
            ),
        ] {
            let found = wrong(&scheme, |n| (n == name).then(|| value.to_owned()));
            let told = found.map(|(n, why)| format!("{n} {why}"));
            let is_so = match (&told, wanted) {
                (None, None) => true,
                (Some(told), Some(wanted)) => told.starts_with(name) && told.contains(wanted),
                _ => false,
            };
            assert!(is_so, "{name}={value:?}: {told:?}");
        }
    }
}
