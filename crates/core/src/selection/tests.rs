use super::*;
use kflow_model::Text;
use kflow_model::pod::PodSeen;
use std::sync::Arc;

fn pod() -> PodView {
    let mut api = PodSeen {
        labels: vec![("app".into(), "web".into()), ("rev".into(), "7".into())],
        ..PodSeen::default()
    };
    api.status.phase = "Pending".into();
    api.status.pod_ip = "10.0.0.7".into();
    PodView {
        namespace: "shop".into(),
        name: "web-0".into(),
        node: "node1".into(),
        api: Some(Arc::new(api)),
        ..PodView::default()
    }
}

fn selects(labels: &str, fields: &str) -> bool {
    let scope = Scope {
        labels: labels.to_owned(),
        fields: fields.to_owned(),
        ..Scope::default()
    };
    Selection::new(&scope).unwrap().admits(&pod())
}

#[test]
fn labels_are_selected_as_the_apiserver_does() {
    for (selector, fits) in [
        ("", true),
        ("app", true),
        ("!app", false),
        ("! canary", true),
        ("app=web", true),
        ("app == web", true),
        ("app=db", false),
        ("app!=db", true),
        ("tier!=db", true),
        ("app in (db, web)", true),
        ("app in (db)", false),
        ("app notin (db,cache)", true),
        ("tier notin (db)", true),
        ("tier=", false),
        ("tier in ()", false),
        ("rev>6", true),
        ("rev > 7", false),
        ("rev<8,app=web", true),
        ("app=web,tier", false),
        ("app=web,!canary,rev notin (6)", true),
    ] {
        assert_eq!(selects(selector, ""), fits, "{selector}");
    }
}

#[test]
fn a_selector_of_an_object_is_read_as_the_api_reads_it() {
    let labels = [("app".into(), "web".into()), ("rev".into(), "7".into())];
    for (selector, fits) in [
        ("{}", true),
        (r#"{"matchLabels":{"app":"web"}}"#, true),
        (r#"{"matchLabels":{"app":"web","tier":"a"}}"#, false),
        (
            r#"{"matchExpressions":[{"key":"app","operator":"In","values":["db","web"]}]}"#,
            true,
        ),
        (
            r#"{"matchExpressions":[{"key":"tier","operator":"NotIn","values":["db"]}]}"#,
            true,
        ),
        (
            r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["web"]}]}"#,
            false,
        ),
        (
            r#"{"matchExpressions":[{"key":"app","operator":"Exists"}]}"#,
            true,
        ),
        (
            r#"{"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]}"#,
            false,
        ),
        (
            r#"{"matchExpressions":[{"key":"rev","operator":"Gt","values":["6"]}]}"#,
            true,
        ),
        (
            r#"{"matchExpressions":[{"key":"rev","operator":"Lt","values":["6"]}]}"#,
            false,
        ),
        // What the API refuses fits nothing.
        (
            r#"{"matchExpressions":[{"key":"rev","operator":"Gt","values":["x"]}]}"#,
            false,
        ),
        (
            r#"{"matchExpressions":[{"key":"app","operator":"Like"}]}"#,
            false,
        ),
        (r#"{"matchLabels":{"app":1}}"#, false),
        (
            r#"{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]}"#,
            false,
        ),
    ] {
        let read = LabelSelector::of_json(&serde_json::from_str(selector).unwrap());
        assert_eq!(read.fits(&labels), fits, "{selector}");
    }
}

#[test]
fn fields_are_selected_as_the_apiserver_does() {
    for (selector, fits) in [
        ("", true),
        ("status.phase=Pending", true),
        ("status.phase!=Pending", false),
        ("status.phase!=Running,metadata.name=web-0", true),
        ("spec.nodeName==node1", true),
        ("spec.nodeName=", false),
        ("metadata.namespace=shop", true),
        ("spec.schedulerName=default-scheduler", true),
        ("spec.restartPolicy=Always", true),
        ("spec.hostNetwork=false", true),
        ("status.podIP=10.0.0.7", true),
        ("status.nominatedNodeName=", true),
        (r"metadata.name=a\,b", false),
    ] {
        assert_eq!(selects("", selector), fits, "{selector}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_with_what_would_be_right() {
    let refused = |labels: &str, fields: &str| {
        let scope = Scope {
            labels: labels.to_owned(),
            fields: fields.to_owned(),
            ..Scope::default()
        };
        Selection::new(&scope).unwrap_err().to_string()
    };
    for (selector, why) in [
        ("=web", "'=' where a label's name belongs"),
        ("app in web", "\"web\" where ( belongs"),
        ("app in (web", "the end where ) belongs"),
        ("app web", "\"web\" after app"),
        ("app=web tier=db", "\"tier\" where a comma belongs"),
        ("rev>x", "\"x\" is not a whole number"),
        ("app=web,", "the end where a label's name belongs"),
    ] {
        let said = refused(selector, "");
        assert!(
            said.contains(why) && said.contains("as in kubectl"),
            "{selector}: {said}"
        );
    }
    for (selector, why) in [
        ("status.phase", "is not FIELD=VALUE"),
        ("spec.node=x", "\"spec.node\" is no field"),
        ("metadata.name=a=b", "not escaped"),
        (r"metadata.name=a\b", "escapes nothing"),
    ] {
        let said = refused("", selector);
        assert!(
            said.contains(why) && said.contains("status.podIP"),
            "{selector}: {said}"
        );
    }
}

#[test]
fn a_pod_is_selected_by_what_is_known_of_it() {
    let of = |namespace: Option<&str>, node: Option<&str>| {
        let scope = Scope {
            namespace: namespace.map(str::to_owned),
            node: node.map(str::to_owned),
            ..Scope::default()
        };
        Selection::new(&scope).unwrap()
    };
    let mut p = pod();
    assert!(of(Some("shop"), Some("node1")).admits(&p));
    assert!(!of(Some("other"), None).admits(&p));
    assert!(!of(None, Some("node2")).admits(&p));
    p.node = Text::default();
    assert!(
        of(None, Some("node2")).admits(&p),
        "it may come to any node"
    );
    let by_label = Selection::new(&Scope {
        labels: "!app".to_owned(),
        ..Scope::default()
    })
    .unwrap();
    p.api = None;
    assert!(!by_label.admits(&p), "its labels are not known");
}
