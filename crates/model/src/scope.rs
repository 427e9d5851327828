//! Which pods the user asks for, and which pods a list shows.

use super::{Text, kind};

/// Length of the shortest prefix of a UID that is accepted for it: a shorter text may be the name of a pod that does
/// not exist.
const SHORT: usize = 6;

/// The pods that a run watches, or that are shown of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// A node: its pods and the unscheduled ones. `None` for all nodes.
    pub node: Option<String>,
    /// A namespace, `None` for all.
    pub namespace: Option<String>,
    /// A label selector for pods, empty for all.
    pub labels: String,
    /// A field selector for pods, empty for all.
    pub fields: String,
}

impl Scope {
    /// Returns `namespace shop`, `node node1` or `all namespaces`, with the selectors.
    pub fn name(&self) -> String {
        let mut parts = Vec::new();
        if let Some(node) = &self.node {
            parts.push(format!("node {node}"));
        }
        match &self.namespace {
            Some(namespace) => parts.push(format!("namespace {namespace}")),
            None if self.node.is_none() => parts.push("all namespaces".to_owned()),
            None => {}
        }
        for selector in [&self.labels, &self.fields] {
            if !selector.is_empty() {
                parts.push(selector.clone());
            }
        }
        parts.join(", ")
    }

    /// Returns `in namespace shop`, `on node node1` or `in all namespaces`, with the selectors.
    pub fn place(&self) -> String {
        let preposition = if self.node.is_some() { "on" } else { "in" };
        format!("{preposition} {}", self.name())
    }
}

impl Scope {
    /// Returns the parts that are set, `node1`, `shop` or `node1 shop app=web`; empty for everything.
    pub fn short(&self) -> String {
        let parts = [
            self.node.as_deref().unwrap_or_default(),
            self.namespace.as_deref().unwrap_or_default(),
            &self.labels,
            &self.fields,
        ];
        let parts: Vec<&str> = parts.into_iter().filter(|p| !p.is_empty()).collect();
        parts.join(" ")
    }

    /// The field selectors of the scope, without its node.
    fn parts(&self) -> Vec<&str> {
        self.fields.split(',').filter(|p| !p.is_empty()).collect()
    }

    /// Returns the bounds of the lists that together show the pods of the scope: one list, or for a node two, its own
    /// pods and those that have no node.
    pub fn lists(&self) -> Vec<Text> {
        let of = |extra: &str| {
            let mut fields: Vec<&str> = vec![extra];
            fields.extend(self.parts());
            fields.retain(|p| !p.is_empty());
            bounds(self.namespace.as_deref(), &fields.join(","), &self.labels)
        };
        match &self.node {
            Some(node) => vec![of(&format!("{NODE}{node}")), of(NODE)],
            None => vec![of("")],
        }
    }
}

/// True for a resource that kflow watches and whose objects have no namespace: `-n` does not narrow it.
pub fn is_of_cluster(resource: &str) -> bool {
    const ALL: [&str; 6] = [
        "namespaces",
        "nodes",
        "persistentvolumes",
        "storageclasses",
        "volumeattachments",
        "nodeclaims",
    ];
    ALL.contains(&resource)
}

/// Returns NAME of `pod/NAME`, a form that kubectl takes too; any other text unchanged.
pub fn pod_asked(query: &str) -> &str {
    match query.split_once('/') {
        Some((word, name)) if kind::of_word(word) == Some(kind::POD) => name,
        _ => query,
    }
}

/// True for a complete UID: hex digits as `8-4-4-4-12`, or the 32 digits of a static pod's UID.
pub fn is_uid(text: &str) -> bool {
    let digits = text.bytes().filter(|b| *b != b'-');
    digits.clone().count() == 32
        && digits.clone().all(|b| b.is_ascii_hexdigit())
        && matches!(text.len(), 32 | 36)
}

/// True when the text may be the beginning of a UID.
pub fn is_uid_begin(text: &str) -> bool {
    text.len() >= SHORT
        && text
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f' | b'-'))
}

/// Field selectors that [`shows`] can evaluate.
const NODE: &str = "spec.nodeName=";
const NAME: &str = "metadata.name=";

/// A term of kflow's own, not a selector of the API: of the list, only the pods of one
/// object (`of=KIND/NAME`) are kept.
const OF: &str = "of=";

/// The object whose pods a list is kept for: an owner, a claim or a node.
#[derive(Clone, Copy, Debug)]
pub struct OfOwner<'a> {
    pub kind: &'a str,
    pub name: &'a str,
}

/// Returns the bounds of a list in the form of [`WatchNote::scope`](super::gap::WatchNote): `shop`,
/// `shop,spec.nodeName=node1`, `spec.nodeName=node1;app=web`. Empty for a list of everything.
pub fn bounds(namespace: Option<&str>, fields: &str, labels: &str) -> Text {
    let mut text = namespace.unwrap_or_default().to_owned();
    if !text.is_empty() && !fields.is_empty() {
        text.push(',');
    }
    text.push_str(fields);
    if !labels.is_empty() {
        text.push(';');
        text.push_str(labels);
    }
    Text::from(text)
}

/// Splits bounds into namespace, field selectors and label selector.
fn read(bounds: &str) -> (Option<&str>, impl Iterator<Item = &str>, &str) {
    let (base, labels) = bounds.split_once(';').unwrap_or((bounds, ""));
    let is_namespace = |p: &&str| !p.is_empty() && !p.contains(['=', '!']);
    let namespace = base.split(',').next().filter(is_namespace);
    let fields = base
        .split(',')
        .skip(usize::from(namespace.is_some()))
        .filter(|p| !p.is_empty());
    (namespace, fields, labels)
}

/// Returns the namespace that bounds a list; `None` when it covers all namespaces.
pub fn namespace_of(bounds: &str) -> Option<&str> {
    read(bounds).0
}

/// True when the list with these bounds would contain the pod if it existed. False when the bounds have labels or other
/// fields, which cannot be evaluated here.
pub fn covers(bounds: &str, namespace: &str, node: &str, name: &str) -> bool {
    shows(bounds, namespace, node, name, |_| false)
}

/// Like [`covers`], for a pod whose owners, claims and node are known: `has_it` returns whether an object
/// is one of them.
pub fn shows(
    bounds: &str,
    namespace: &str,
    node: &str,
    name: &str,
    has_it: impl Fn(OfOwner<'_>) -> bool,
) -> bool {
    if bounds.is_empty() {
        return true;
    }
    let (within, mut fields, labels) = read(bounds);
    let shown = |field: &str| {
        if let Some(its) = field.strip_prefix(NODE) {
            return its == node;
        }
        if let Some((kind, name)) = field.strip_prefix(OF).and_then(|of| of.split_once('/')) {
            return has_it(OfOwner { kind, name });
        }
        field.strip_prefix(NAME).is_some_and(|its| its == name)
    };
    labels.is_empty() && within.is_none_or(|ns| ns == namespace) && fields.all(shown)
}

/// True when the list with these bounds cannot contain the pod: it is of another namespace, node or name.
pub fn excludes(bounds: &str, namespace: &str, node: &str, name: &str) -> bool {
    let (within, mut fields, _) = read(bounds);
    let other = |field: &str| match (field.strip_prefix(NODE), field.strip_prefix(NAME)) {
        // A pod without a node may get one.
        (Some(its), _) => its != node && !node.is_empty(),
        (_, Some(its)) => its != name,
        _ => false,
    };
    within.is_some_and(|ns| ns != namespace) || fields.any(other)
}

/// True when a list with these bounds shows every pod of the scope.
pub fn includes(bounds: &str, scope: &Scope) -> bool {
    let (within, mut fields, labels) = read(bounds);
    let asked = scope.parts();
    within.is_none_or(|ns| scope.namespace.as_deref() == Some(ns))
        && (labels.is_empty() || labels == scope.labels)
        && fields.all(|f| asked.contains(&f))
}

/// True when a list with these bounds shows every pod of `owner`, and only those are kept of it.
pub fn is_of(bounds: &str, namespace: &str, owner: OfOwner<'_>) -> bool {
    let (within, fields, labels) = read(bounds);
    let mut fields = fields.peekable();
    labels.is_empty()
        && within.is_none_or(|ns| ns == namespace)
        && fields.peek().is_some()
        && fields.all(|f| f == owner.field())
}

impl OfOwner<'_> {
    fn field(&self) -> String {
        format!("{OF}{}/{}", self.kind, self.name)
    }
}

/// Returns the bounds of a list of which only the objects in a namespace are kept.
pub fn within(list: &str, namespace: &str) -> Text {
    let (own, fields, labels) = read(list);
    let fields: Vec<&str> = fields.collect();
    bounds(own.or(Some(namespace)), &fields.join(","), labels)
}

/// Returns the bounds of a list of which only pods of one name are kept; `namespace` bounds it when `list` has none.
pub fn only(list: &str, namespace: Option<&str>, name: &str) -> Text {
    with_field(list, namespace, &format!("{NAME}{name}"))
}

/// Returns the bounds of a list of which only the pods of `owner` are kept, like [`only`].
pub fn only_of(list: &str, namespace: Option<&str>, owner: OfOwner<'_>) -> Text {
    with_field(list, namespace, &owner.field())
}

fn with_field(list: &str, namespace: Option<&str>, field: &str) -> Text {
    let (within, fields, labels) = read(list);
    let mut fields: Vec<&str> = fields.collect();
    fields.push(field);
    bounds(within.or(namespace), &fields.join(","), labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(namespace: &str, node: &str, fields: &str, labels: &str) -> Scope {
        let some = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        Scope {
            node: some(node),
            namespace: some(namespace),
            labels: labels.to_owned(),
            fields: fields.to_owned(),
        }
    }

    #[test]
    fn a_list_excludes_what_a_part_of_its_bounds_keeps_out_for_certain() {
        for (bounds, node, excluded) in [
            ("", "node1", false),
            ("ns", "node1", false),
            ("other", "node1", true),
            ("spec.nodeName=node1", "node1", false),
            ("spec.nodeName=node1", "node2", true),
            ("spec.nodeName=node1", "", false),
            ("ns,metadata.name=web", "node1", false),
            ("ns,metadata.name=db", "node1", true),
            ("ns;app=x", "node1", false),
            ("other;app=x", "node1", true),
        ] {
            assert_eq!(
                excludes(bounds, "ns", node, "web"),
                excluded,
                "{bounds} {node}"
            );
        }
    }

    #[test]
    fn a_list_covers_what_every_part_of_its_bounds_lets_through() {
        for (bounds, namespace, node, covered) in [
            ("", "ns", "node1", true),
            ("ns", "ns", "node1", true),
            ("ns", "other", "node1", false),
            ("spec.nodeName=node1", "ns", "node1", true),
            ("spec.nodeName=node1", "ns", "", false),
            ("ns,spec.nodeName=node1", "ns", "node1", true),
            ("ns,spec.nodeName=node1", "other", "node1", false),
            ("ns,spec.nodeName=node1", "ns", "node2", false),
            ("ns,spec.nodeName=", "ns", "", true),
            ("ns,spec.nodeName=node1,app=x", "ns", "node1", false),
            ("ns,spec.nodeName=node1;app=x", "ns", "node1", false),
            ("ns;ns", "ns", "node1", false),
            ("ns,metadata.name=web", "ns", "node1", true),
            ("ns,metadata.name=db", "ns", "node1", false),
        ] {
            assert_eq!(
                covers(bounds, namespace, node, "web"),
                covered,
                "{bounds:?} {namespace} {node}"
            );
        }
    }

    #[test]
    fn a_list_includes_scopes_that_are_narrower_than_it_is() {
        let all = scope("", "", "", "");
        let shop = scope("shop", "", "", "");
        let web = scope("shop", "", "status.phase=Pending", "app=web,!canary");
        let node = scope("", "node1", "", "");
        for s in [&all, &shop, &web, &node] {
            assert!(includes("", s), "{s:?}");
            for list in s.lists() {
                let narrower = s.node.is_some();
                assert_eq!(includes(&list, s), !narrower, "{list} {s:?}");
            }
        }
        assert!(includes("shop", &web));
        assert!(includes("shop;app=web,!canary", &web));
        assert!(includes("status.phase=Pending", &web));
        assert!(!includes("shop;app=web", &web));
        assert!(!includes("shop", &all));
        assert!(!includes("shop", &scope("", "", "", "shop")));
        assert!(!includes(";shop", &shop));
        assert_eq!(
            scope("shop", "node1", "status.phase=Running", "a=b").lists(),
            [
                "shop,spec.nodeName=node1,status.phase=Running;a=b",
                "shop,spec.nodeName=,status.phase=Running;a=b"
            ]
        );
        let one = only("", Some("shop"), "web-0");
        assert!(!includes(&one, &shop));
        assert!(covers(&one, "shop", "", "web-0"));
        let web = OfOwner {
            kind: "Deployment",
            name: "web",
        };
        let of_web = only_of("", Some("shop"), web);
        assert_eq!(of_web, "shop,of=Deployment/web");
        assert!(is_of(&of_web, "shop", web) && is_of("of=Deployment/web", "shop", web));
        for other in [
            "shop,of=Deployment/db",
            "other,of=Deployment/web",
            "shop",
            "",
            "shop,of=Deployment/web;a=b",
        ] {
            assert!(!is_of(other, "shop", web), "{other}");
        }
        assert!(!includes(&of_web, &shop) && !covers(&of_web, "shop", "", "web-0"));
        let named = only("", None, "web-0");
        assert!(covers(&named, "other", "", "web-0"));
        assert!(!covers(&named, "other", "", "web-1"));
    }

    #[test]
    fn a_uid_is_told_from_a_name() {
        for (text, whole, begin) in [
            ("00c0ffee-0000-4000-8000-0123456789ab", true, true),
            ("0123456789abcdef0123456789abcdef", true, true),
            ("00c0ffee", false, true),
            ("00c0ffee-00", false, true),
            ("00c0f", false, false),
            ("web-0", false, false),
            ("shop/web-0", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_uid(text), is_uid_begin(text)), (whole, begin), "{text}");
        }
    }
}
