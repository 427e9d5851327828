use super::*;

#[test]
fn the_embedded_catalogue_is_complete_and_correct() {
    let all = Catalogue::parse(DATA).unwrap_or_else(|e| panic!("{e}"));
    all.compile().unwrap_or_else(|e| panic!("{e}"));
    for u in all.by_reason.values() {
        let patterns = u.patterns.iter().map(|&(c, p)| &all.causes[c].patterns[p]);
        assert!(RegexSet::new(patterns).is_ok());
    }
    assert!(all.iter().count() >= 128);
    assert!(all.iter().map(|c| c.id).eq(CauseId::ALL.iter().copied()));
    for c in all.iter() {
        assert_eq!(all.cause(c.id).id, c.id);
        for (text, _) in &c.steps {
            assert!(!text.is_empty(), "{}", c.id);
        }
        assert_eq!(
            c.say.matches('[').count(),
            c.say.matches(']').count(),
            "{}",
            c.id
        );
    }
}

#[test]
fn the_words_of_cri_o_of_docker_and_of_older_kubelets_are_known_too() {
    for (reason, text, id) in [
        (
            "FailedCreatePodSandBox",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create pod network sandbox k8s_p_ns_u_0(5e1f): error adding pod ns_p to CNI network "multus-cni-network": plugin type="multus-shim" name="multus-cni-network" failed (add): CmdAdd (shim): timed out"#,
            cause::KF501,
        ),
        (
            "FailedCreatePodSandBox",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = [failed to set up sandbox container "5e1f" network for pod "p": networkPlugin cni failed to set up pod "p_ns" network: open /run/flannel/subnet.env: no such file or directory]"#,
            cause::KF501,
        ),
        (
            "FailedCreatePodSandBox",
            "rpc error: code = Unknown desc = error reserving pod name k8s_p_ns_u_0 for id 5e1f: name is reserved",
            cause::KF507,
        ),
        (
            "FailedCreatePodSandBox",
            "rpc error: code = Unknown desc = failed to find runtime handler kata from runtime list map[runc:0xc0]",
            cause::KF508,
        ),
        (
            "FailedCreatePodSandBox",
            "rpc error: code = Unknown desc = failed to mount container k8s_POD_p in pod sandbox: mkdir x: no space left on device",
            cause::KF512,
        ),
        (
            "ErrImagePull",
            "rpc error: code = Unknown desc = reading manifest 9 in docker.io/library/nope: manifest unknown",
            cause::KF601,
        ),
        (
            "ErrImagePull",
            "rpc error: code = Unknown desc = Error response from daemon: manifest for nginx:nope not found: manifest unknown: manifest unknown",
            cause::KF601,
        ),
        (
            "ErrImagePull",
            "unable to pull image or OCI artifact: pull image err: initializing source docker://quay.io/x/y:1: reading manifest 1 in quay.io/x/y: unauthorized: access to the requested resource is not authorized",
            cause::KF602,
        ),
        (
            "ErrImagePull",
            "rpc error: code = Unknown desc = Error response from daemon: pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied",
            cause::KF602,
        ),
        (
            "ErrImagePull",
            "initializing source docker://nginx:1: reading manifest 1 in docker.io/library/nginx: toomanyrequests: You have reached your pull rate limit",
            cause::KF603,
        ),
        (
            "ErrImagePull",
            r#"initializing source docker://reg.example/x:1: pinging container registry reg.example: Get "https://reg.example/v2/": dial tcp: lookup reg.example on 10.0.0.2:53: no such host"#,
            cause::KF604,
        ),
        (
            "ErrImagePull",
            "rpc error: code = Unknown desc = Error response from daemon: Get https://reg.example/v2/: x509: certificate signed by unknown authority",
            cause::KF604b,
        ),
        (
            "ErrImagePull",
            r#"choosing image instance: no image found in image index for architecture "amd64", variant "", OS "linux""#,
            cause::KF606,
        ),
        (
            "CreateContainerError",
            "container create failed: executable file `ngnix` not found in $PATH: No such file or directory",
            cause::KF704,
        ),
        (
            "CreateContainerError",
            r#"container create failed: time="2026-01-01T00:00:00Z" level=error msg="runc create failed: unable to start container process: exec: \"ngnix\": executable file not found in $PATH""#,
            cause::KF704,
        ),
        (
            "FailedCreatePodSandBox",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = creating pod sandbox with name "k8s_web_shop_0f_0": unable to pull image: initializing source docker://registry.example/pause:3.10: pinging container registry registry.example: Get "https://registry.example/v2/": dial tcp: lookup registry.example: no such host"#,
            cause::KF505,
        ),
        (
            "FailedCreatePodSandBox",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = error creating pod sandbox with name "k8s_web_shop_0f_0": Error initializing source docker://k8s.gcr.io/pause:3.1: error pinging docker registry k8s.gcr.io"#,
            cause::KF505,
        ),
        (
            "RunContainerError",
            r#"OCI runtime create failed: container_linux.go:380: starting container process caused: exec: "ngnix": executable file not found in $PATH: unknown"#,
            cause::KF704,
        ),
        (
            "CreateContainerError",
            "error reserving ctr name k8s_c_p_ns_u_0 for id 5e1f: name is reserved",
            cause::KF702,
        ),
        (
            "FailedMount",
            r#"Unable to mount volumes for pod "p_ns(u)": timeout expired waiting for volumes to attach or mount for pod "ns"/"p". list of unmounted volumes=[data]. list of unattached volumes=[data token]"#,
            cause::KF401,
        ),
        (
            "@clause",
            "node(s) had taint {dedicated: db}, that the pod didn't tolerate",
            cause::KF203,
        ),
        (
            "@clause",
            "node(s) didn't match node selector",
            cause::KF205,
        ),
        (
            "@clause",
            "node(s) had volume node affinity conflict",
            cause::KF216,
        ),
        (
            "FailedKillPod",
            r#"error killing pod: failed to "KillContainer" for "c" with KillContainerError: "rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused"""#,
            cause::KF515,
        ),
        (
            "InspectFailed",
            r#"Failed to inspect image "x:1": rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused""#,
            cause::KF515,
        ),
    ] {
        let best = Catalogue::get().best(reason, text, |_| true);
        assert_eq!(best.map(|(c, _)| c.id), Some(id), "{text}");
    }
}

#[test]
fn an_id_that_occurs_twice_is_refused() {
    let twice = "[KF101]\ntitle='a'\n[KF101]\ntitle='b'\n";
    assert!(matches!(
        Catalogue::parse(twice),
        Err(CatalogueError::Form(_))
    ));
}

#[test]
fn a_cause_is_found_by_id_in_any_form() {
    let all = Catalogue::get();
    assert!(all.find("601").is_some() && all.find("kf601").is_some());
    assert!(all.find("KF702b").is_some() && all.find("KF000").is_none());
}

#[test]
fn what_to_do_is_of_what_is_missing_and_not_of_what_else_the_cause_may_be() {
    let all = Catalogue::parse(DATA).unwrap();
    let cause = all.cause(cause::KF701);
    for (text, commands) in [
        (
            r#"secret "db" not found"#,
            &["get pod <POD> -o", "describe secret db"][..],
        ),
        (
            "couldn't find key password in Secret shop/db",
            &["get pod <POD> -o", "describe Secret db"],
        ),
        (
            "container has runAsNonRoot and image will run as root",
            &["{.spec.securityContext}"],
        ),
        (
            "services have not yet been read at least once, cannot construct envvars",
            &[],
        ),
    ] {
        let names = cause.matches("CreateContainerConfigError", text).unwrap();
        let steps = crate::diagnose::finding::steps(cause, &names);
        assert_eq!(steps.len(), commands.len(), "{text}: {steps:?}");
        for (step, command) in steps.iter().zip(commands) {
            assert!(step.command.contains(command), "{text}: {steps:?}");
            assert!(!step.text.contains(['[', '?']), "{text}: {steps:?}");
        }
    }
}
