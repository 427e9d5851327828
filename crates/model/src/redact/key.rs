//! Classifies names: whether the value beside a name is a credential, or may contain one.

use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::LazyLock;

/// What a name says about its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: the value is searched like any text.
    Plain,
    /// The value is a credential.
    Secret,
    /// The value may contain credentials under names that kflow cannot know: environments, arguments, headers,
    /// annotations, bodies.
    Opaque,
}

/// Words that mark a credential wherever they stand in a name.
const STRONG: &str = "\
    bindpw password passwords passwd passphrase passcode pwd passwort kennwort motdepasse wachtwoord sessionid \
    jsessionid phpsessid authorization apikey apitoken secretkey accesskey privatekey clientsecret accesstoken \
    authtoken idtoken refreshtoken bearertoken identitytoken registrytoken dockerconfigjson";

/// Endings of words that do the same: `PGPASSWORD`, `dbpasswd`, `keypass`.
const STRONG_ENDS: [&str; 4] = ["password", "passwd", "passphrase", "pass"];

/// Words with such an ending that do not mark a credential.
const NO_PASSWORDS: &str = "pass bypass compass encompass surpass trespass";

/// Words that mark a credential when they are the last word of a name: `X-Vault-Token`, `db_pass`. In the name of an
/// environment variable (`TOKEN_PROD`) they do so anywhere.
const WEAK: &str = "token secret pass pw credential credentials creds auth signature sig cookie jwt dockercfg dockerconfig";

/// Words before `key` with which the `key` is a credential.
const OF_KEYS: &str = "api access private secret signing encryption master session shared account ssh license hmac storage";

/// Last words of names whose value is a place, a name or a number, not the credential.
const HARMLESS: &str = "\
    count dir directory enabled endpoint exists expiration expired expires file files kind length mode mount name \
    names path policy ref refs required seconds size source ttl type url version volume";

/// Words before `secret` in names whose value is the name of a Secret object.
const OBJECTS: &str = "pull tls image publish stage expand";

/// Names of lists and maps whose content people choose freely, without separators.
const OPAQUE: &str = "\
    annotations arg args argv attributes auths binarydata body cmd cmdline command commandline commands data \
    entrypoint env environment environ envs execcommand fromliteral header headers httpheaders \
    lastappliedconfiguration nodepublishsecrets nodestagesecrets parameters publishcontext requestbody \
    requestheaders requestobject responsebody responseheaders responseobject secrets setliteral setstring stdin \
    stringdata volumecontext volumeattributes publishvolumecontext";
/// Last words of names of the same kind: `container-args`, `extraEnv`.
const OPAQUE_LAST: &str =
    "annotations args argv cmd cmdline command entrypoint env environment envs headers";

/// Longest name that is classified, bytes.
const LONGEST: usize = 128;
/// How many words of a name are held without an allocation.
const WORDS: usize = 16;

/// The lists that contain a word, or a name without its separators, as bits.
mod is {
    pub(super) const STRONG: u8 = 1;
    pub(super) const NO_PASSWORD: u8 = 1 << 1;
    pub(super) const WEAK: u8 = 1 << 2;
    pub(super) const OF_KEY: u8 = 1 << 3;
    pub(super) const HARMLESS: u8 = 1 << 4;
    pub(super) const OBJECT: u8 = 1 << 5;
    pub(super) const OPAQUE: u8 = 1 << 6;
    pub(super) const OPAQUE_LAST: u8 = 1 << 7;
}

static LISTS: LazyLock<FxHashMap<&str, u8>> = LazyLock::new(|| {
    let mut all = FxHashMap::default();
    for (list, bit) in [
        (STRONG, is::STRONG),
        (NO_PASSWORDS, is::NO_PASSWORD),
        (WEAK, is::WEAK),
        (OF_KEYS, is::OF_KEY),
        (HARMLESS, is::HARMLESS),
        (OBJECTS, is::OBJECT),
        (OPAQUE, is::OPAQUE),
        (OPAQUE_LAST, is::OPAQUE_LAST),
    ] {
        for word in list.split_ascii_whitespace() {
            *all.entry(word).or_default() |= bit;
        }
    }
    all
});

/// True for a word, in lower case, that is in one of the lists.
fn among(word: &str, lists: u8) -> bool {
    LISTS.get(word).is_some_and(|its| its & lists != 0)
}

/// Splits a name into words: at every character that is neither letter nor digit, and within `aB` (`a`, `B`) and `ABc`
/// (`A`, `Bc`). The words are taken from `of`, which is the name or the name in lower case.
fn words<'a>(name: &str, of: &'a str) -> smallvec::SmallVec<[&'a str; WORDS]> {
    let b = name.as_bytes();
    let mut all = smallvec::SmallVec::new();
    let mut from = 0;
    let at = |i: usize| b.get(i).copied().unwrap_or(b'.');
    for i in 0..=b.len() {
        let (before, here, after) = (at(i.wrapping_sub(1)), at(i), at(i + 1));
        let ends = !here.is_ascii_alphanumeric();
        let begins = here.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if ends || begins {
            if let Some(word) = of.get(from..i).filter(|w| !w.is_empty()) {
                all.push(word);
            }
            from = if ends { i + 1 } else { i };
        }
    }
    all
}

/// Returns a word without the number at its end: `PASSWORD2`.
fn bare(word: &str) -> &str {
    word.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Classifies a name. A domain before a `/` is not part of the name.
pub fn kind(name: &str) -> Kind {
    let name = name.rsplit('/').next().unwrap_or(name);
    if name.len() < 2 || name.len() > LONGEST {
        return Kind::Plain;
    }
    let lower = name.to_ascii_lowercase();
    let words = words(name, &lower);
    let plain: Cow<'_, str> = match words.as_slice() {
        [] => return Kind::Plain,
        [one] => Cow::Borrowed(one),
        several => Cow::Owned(several.concat()),
    };
    if among(&plain, is::OPAQUE) {
        return Kind::Opaque;
    }
    if is_secret_name(name, &words, &plain) {
        return Kind::Secret;
    }
    match words.last() {
        Some(last) if among(last, is::OPAQUE_LAST) => Kind::Opaque,
        _ => Kind::Plain,
    }
}

/// True for a name whose value is a credential.
pub fn is_secret(name: &str) -> bool {
    kind(name) == Kind::Secret
}

fn is_strong(word: &str) -> bool {
    among(word, is::STRONG)
        || (STRONG_ENDS.iter().any(|end| word.ends_with(end)) && !among(word, is::NO_PASSWORD))
}

/// True for a word that makes the `key` after it a credential.
pub(super) fn is_before_key(word: &str) -> bool {
    among(&word.to_ascii_lowercase(), is::OF_KEY)
}

/// `words`, and `plain`, which is all of them without separators, are in lower case.
fn is_secret_name(name: &str, words: &[&str], plain: &str) -> bool {
    let (last, before) = match words {
        [.., before, last] => (*last, *before),
        [last] => (*last, ""),
        [] => return false,
    };
    let variable = name.bytes().any(|b| b.is_ascii_uppercase())
        && !name.bytes().any(|b| b.is_ascii_lowercase());
    // `AWS_ACCESS_KEY_ID`
    if plain.ends_with("accesskeyid") {
        return true;
    }
    if among(last, is::HARMLESS) {
        return false;
    }
    if words.iter().any(|w| is_strong(bare(w))) || among(bare(plain), is::STRONG) {
        return true;
    }
    if variable && words.iter().any(|w| among(bare(w), is::WEAK)) {
        return true;
    }
    let last = bare(last);
    match last {
        // `client-key-data` of a kubeconfig
        "data" if before == "key" => !words.contains(&"public"),
        // An environment variable `…_KEY` is a credential more often than not.
        "key" => among(before, is::OF_KEY) || (variable && !before.is_empty()),
        _ if !among(last, is::WEAK) => false,
        // A bare `secret` names an object; `scan` decides about the others by what stands around them (`SHORT`).
        "secret" | "pass" | "pw" | "sig" | "auth" if words.len() == 1 => false,
        "secret" => !among(before, is::OBJECT),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_into_words() {
        let cut = |n| words(n, n).join(" ");
        for (name, want) in [
            ("X-Vault-Token", "X Vault Token"),
            ("DB_PASSWORD", "DB PASSWORD"),
            ("imagePullSecret", "image Pull Secret"),
            ("AWSSecretKey", "AWS Secret Key"),
            (".dockerconfigjson", "dockerconfigjson"),
            ("apiKey2", "api Key2"),
            ("", ""),
        ] {
            assert_eq!(cut(name), want);
        }
    }

    #[test]
    fn names_of_credentials_are_known() {
        for name in [
            "password",
            "DB_PASSWORD",
            "DB_PASSWORD_PROD",
            "PGPASSWORD",
            "APP_KEY",
            "session_key",
            "JSESSIONID",
            "mot_de_passe",
            "registry-creds",
            "POSTGRES_PASS",
            "registryPassword",
            "bootstrap-token",
            "X-Vault-Token",
            "X-Custom-Auth",
            "GITHUB_TOKEN",
            "TOKEN_2",
            "SECRET",
            "client_secret",
            "AWS_SECRET_ACCESS_KEY",
            "aws_access_key_id",
            "apiKey",
            "x-api-key",
            "APIKEY1",
            "signing-key",
            "Authorization",
            "proxy-authorization",
            "Set-Cookie",
            "identitytoken",
            ".dockerconfigjson",
            "app.example.com/api-token",
            "token",
        ] {
            assert_eq!(kind(name), Kind::Secret, "{name}");
        }
    }

    #[test]
    fn names_with_values_of_peoples_own_are_known() {
        for name in [
            "env",
            "Args",
            "headers",
            "httpHeaders",
            "container-args",
            "container.command",
            "extraEnv",
            "volume_context",
            "volumeAttributes",
            "node_publish_secrets",
            "kubectl.kubernetes.io/last-applied-configuration",
            "stringData",
        ] {
            assert_eq!(kind(name), Kind::Opaque, "{name}");
        }
    }

    #[test]
    fn names_of_kubernetes_are_not_taken_for_credentials() {
        for name in [
            "secret",
            "pod",
            "secretName",
            "secretRef",
            "secretKeyRef",
            "imagePullSecret",
            "imagePullSecrets",
            "tokenRequests",
            "expirationSeconds",
            "tokenExpirationSeconds",
            "passwordFile",
            "PASSWORD_FILE",
            "token-path",
            "tokenreviews",
            "key",
            "cacheKey",
            "publicKey",
            "author",
            "authenticated",
            "compass",
            "context",
            "pass",
        ] {
            assert_eq!(kind(name), Kind::Plain, "{name}");
        }
    }
}
