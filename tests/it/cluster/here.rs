//! kflow runs on a node, and the apiserver refuses access to that node's agent, or knows of none: kflow asks the agent
//! on this machine all the same.

use std::path::Path;
use std::time::Duration;

use kflow_agent::nodes::{Agent, nodes};
use kflow_engine::ask::{Patience, Unheard};
use kflow_engine::live::Look;
use kflow_model::Text;
use kflow_sources::agent::{LABEL, Way, reach};

use super::rig::{NODE, Played, Shape, name};
use super::why::{asked, heard};
use super::{calls, gaps, looking, on, said, until};
use crate::agent::block_on;

/// What the apiserver forbids, in turn.
const REFUSED: [&str; 2] = ["/pods", "/portforward"];

#[test]
fn what_the_apiserver_refuses_hides_no_agent_of_this_machine() {
    block_on(async {
        let played = Played::start(3, 2).await;
        let here = played.by_hand(1);
        let nodes: Vec<Text> = (0..3).map(|n| name(n).into()).collect();
        for refused in REFUSED {
            *played.forbidden.lock().unwrap() = Some(refused);
            let answers = asked(&played, &nodes, Some(&here.socket), Patience::default()).await;
            let answers: Vec<_> = answers.into_iter().map(|(_, calls)| calls).collect();
            // The agent that was started by hand saw one call.
            assert_eq!(answers[1], Ok(1), "{refused} {answers:?}");
            let why = answers[0].as_ref().unwrap_err().to_string();
            let needs = [
                "needs list on pods in namespace kflow",
                "needs get and create on pods/portforward",
            ];
            assert!(
                why.contains(needs[usize::from(refused != REFUSED[0])]),
                "{why}"
            );
            let unlisted = matches!(answers[2], Err(Unheard::Unlisted(_)));
            assert_eq!(unlisted, refused == REFUSED[0], "{answers:?}");
        }
        // No apiserver at all.
        played.set_down(true);
        let patience = Patience {
            answer: Duration::from_secs(20),
            ..Patience::default()
        };
        let answers = asked(&played, &nodes, Some(&here.socket), patience).await;
        assert_eq!(answers[1].1, Ok(1), "{answers:?}");
        assert!(
            matches!(answers[0].1, Err(Unheard::Unlisted(_))),
            "{answers:?}"
        );
    });
}

#[test]
fn a_way_to_a_node_leads_to_the_agent_of_this_machine_only_if_that_is_its() {
    block_on(async {
        let played = Played::start(3, 1).await;
        let here = played.by_hand(1);
        let client = played.client().await;
        let to = |n: usize| Way::Pod {
            client: client.clone(),
            namespace: "kflow".to_owned(),
            labels: LABEL.to_owned(),
            node: name(n),
            here: Some(here.socket.clone()),
        };
        let found = async |n: usize| {
            let mut reached = reach(&to(n)).await.map_err(|e| e.to_string())?;
            let info = reached.client.info().await.unwrap();
            Ok::<_, String>(info.agent.unwrap().node)
        };
        assert_eq!(found(0).await, Ok(name(0)));
        assert_eq!(found(1).await, Ok(name(1)));
        let none = found(2).await.unwrap_err();
        assert!(
            none.starts_with("no agent of kflow on simulated-2"),
            "{none}"
        );
        *played.forbidden.lock().unwrap() = Some(REFUSED[0]);
        assert_eq!(found(1).await, Ok(name(1)));
        let refused = found(2).await.unwrap_err();
        assert!(refused.contains("needs list on pods"), "{refused}");
    });
}

#[test]
fn the_view_of_a_cluster_opens_the_node_of_the_agent_of_this_machine() {
    block_on(async {
        let played = Played::of(Shape {
            nodes: 3,
            agents: 1,
            ..Shape::default()
        })
        .await;
        let here = played.by_hand(2);
        let stranger = played.by_hand(7);
        let mut cluster = looking(&played, Look::new("kflow").here(&stranger.socket));
        let all = until(&mut cluster, "agents", |_, v| {
            v.agents.as_ref().unwrap().here.is_some() && v.nodes.len() == 3
        })
        .await;
        let rows = said(&all, "6");
        assert!(rows.contains("1 of 3 nodes have an agent"), "{rows}");
        for refused in [None, Some(REFUSED[0])] {
            *played.forbidden.lock().unwrap() = refused;
            let look = Look::new("kflow").here(&here.socket);
            let mut cluster = looking(&played, look);
            let all = until(&mut cluster, "agents", |_, v| {
                let agents = v.agents.as_ref().unwrap();
                agents.of(&name(2)).is_some() && v.nodes.len() == 3
            })
            .await;
            let rows = said(&all, "6");
            let row = rows.lines().find(|l| l.contains("simulated-2")).unwrap();
            assert!(row.contains(env!("CARGO_PKG_VERSION")), "{rows}");
            let counted = refused.is_some() || rows.contains("2 of 3 nodes have an agent");
            assert!(counted, "{rows}");
            cluster.open(&name(2)).unwrap();
            let open = until(&mut cluster, "its calls", |s, v| {
                v.open.is_some() && on(s) && calls(s) > 0
            })
            .await;
            assert_eq!(gaps(&open), 0);
        }
    });
}

#[test]
fn status_has_the_agent_of_this_machine_whatever_the_apiserver_lists() {
    block_on(async {
        let played = Played::start(2, 1).await;
        let here = played.by_hand(1);
        let client = played.client().await;
        let answers = |a: &Agent| matches!(a, Agent::Answers { .. });
        let all = async |only: Option<&str>, here: &Path| nodes(&client, "kflow", only, here).await;
        let own = name(1);
        for refused in [None, Some(REFUSED[0])] {
            *played.forbidden.lock().unwrap() = refused;
            // Without a name all nodes of the cluster are listed; this machine's need not be among them.
            let every = all(None, &here.socket).await;
            assert_eq!(every.is_err(), refused.is_some());
            for row in every.iter().flat_map(|n| &n.all) {
                assert!(row.name != own || answers(&row.agent), "{row:?}");
            }
            let of = all(Some(&own), &here.socket).await.unwrap();
            let sure = of.unlisted.is_none() && of.note.is_none();
            assert!(
                sure && of.all.len() == 1 && answers(&of.all[0].agent),
                "{of:?}"
            );
        }
        *played.forbidden.lock().unwrap() = None;
        let stranger = played.by_hand(7);
        let of = all(None, &stranger.socket).await.unwrap();
        assert!(of.all.iter().all(|n| n.name != name(7)), "{of:?}");
        // The agent of this machine belongs to another node; then nobody serves on its socket.
        *played.forbidden.lock().unwrap() = Some(REFUSED[0]);
        assert!(all(Some(&name(0)), &here.socket).await.is_err());
        assert!(all(Some(&own), Path::new("/no/such")).await.is_err());
    });
}

#[test]
fn doctor_tells_what_the_agent_of_this_machine_lacks_without_a_node() {
    block_on(async {
        let played = Played::start(1, 0).await;
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("run/kflow");
        std::fs::create_dir_all(&folder).unwrap();
        let path = root.path().to_str().unwrap();
        let rows = async |args: &[&str]| -> Vec<String> {
            let said = played
                .kflow(&[&["doctor", "--root", path], args].concat())
                .await;
            let all = said.out.lines().map(str::to_owned);
            all.filter(|l| l.split_whitespace().nth(1) == Some("agent"))
                .collect()
        };
        assert_eq!(rows(&[]).await, Vec::<String>::new());
        let here = played.by_hand(0);
        std::fs::rename(&here.socket, folder.join("agent.sock")).unwrap();
        let told = rows(&[]).await;
        let [first, lacks] = &told[..] else {
            panic!("{told:?}")
        };
        assert!(
            first.starts_with("ok") && first.contains("on simulated-0: kflow "),
            "{first}"
        );
        assert!(
            lacks.starts_with('!') && lacks.contains("audit log: of no file"),
            "{lacks}"
        );
        assert_eq!(rows(&["--no-agent"]).await, Vec::<String>::new());
        assert_eq!(
            rows(&["--node", "another", "--no-api"]).await,
            Vec::<String>::new()
        );
        drop(here);
        std::fs::remove_file(folder.join("agent.sock")).ok();
        drop(std::os::unix::net::UnixListener::bind(folder.join("agent.sock")).unwrap());
        let dead = rows(&[]).await;
        assert!(dead.len() == 1 && dead[0].starts_with("off"), "{dead:?}");
    });
}

/// What kflow says of this machine's agent when another cluster has a node of the same name.
const ANOTHER: &str = "the agent on this machine is not asked: its node is called simulated-1 too, and is another one (their boot IDs differ)";
/// What kflow says when it cannot read the Node to compare boot IDs.
const NAMED: &str = "that the agent on this machine is that of simulated-1 is known by the name alone: the Node cannot be read: needs get on nodes";

#[test]
fn an_agent_of_this_machine_whose_node_is_another_clusters_is_not_asked() {
    block_on(async {
        let played = Played::start(2, 0).await;
        let here = played.by_hand(1);
        let client = played.client().await;
        let node: [Text; 1] = [name(1).into()];
        for (moved, refused, want) in [
            (false, None, Ok(None)),
            (false, Some(NODE), Ok(Some(NAMED))),
            (true, Some(NODE), Ok(Some(NAMED))),
            (true, None, Err(ANOTHER)),
            (true, Some(REFUSED[0]), Err(ANOTHER)),
        ] {
            if moved {
                played.on_another_machine(&name(1));
            }
            *played.forbidden.lock().unwrap() = refused;
            // The agent is followed.
            let way = Way::Pod {
                client: client.clone(),
                namespace: "kflow".to_owned(),
                labels: LABEL.to_owned(),
                node: name(1),
                here: Some(here.socket.clone()),
            };
            let told = |text: &str, what: &str| match want {
                Ok(None) => assert!(!text.contains("on this machine"), "{what}: {text}"),
                Ok(Some(said)) | Err(said) => assert!(text.contains(said), "{what}: {text}"),
            };
            match reach(&way).await {
                Ok(mut reached) => {
                    let info = reached.client.info().await.unwrap();
                    assert!(want.is_ok());
                    told(&reached.said(&info), "followed");
                }
                Err(e) => {
                    assert!(want.is_err() && e.is_final(), "{e}");
                    told(&e.to_string(), "followed");
                }
            }
            // The agent is asked once.
            let heard = heard(&played, &node, Some(&here.socket), Patience::default()).await;
            match &heard.nodes[0].1 {
                Ok(calls) => {
                    assert!(*calls == 1 && want.is_ok());
                    told(&heard.note.unwrap_or_default(), "looked at");
                }
                Err(e) => {
                    assert!(want.is_err(), "{e}");
                    told(&e.to_string(), "looked at");
                }
            }
            // The agent is asked for its status.
            match nodes(&client, "kflow", Some(&name(1)), &here.socket).await {
                Ok(of) => {
                    let answers = matches!(of.all[0].agent, Agent::Answers { .. });
                    assert_eq!(answers, want.is_ok(), "{of:?}");
                    told(&of.note.unwrap_or_default(), "status");
                }
                Err(e) => told(&e.to_string(), "status"),
            }
            // The agent is listed in the cluster's view.
            let mut cluster = looking(&played, Look::new("kflow").here(&here.socket));
            let all = until(&mut cluster, "agents", |_, v| {
                let agents = v.agents.as_ref().unwrap();
                (agents.known || agents.failing.is_some()) && v.nodes.len() == 2
            })
            .await;
            let agents = all.cluster.as_ref().unwrap().agents.clone().unwrap();
            assert_eq!(agents.of(&name(1)).is_some(), want.is_ok());
            told(agents.note(&name(1)).unwrap_or_default(), "the cluster");
            if refused != Some(REFUSED[0]) {
                let rows = said(&all, "6");
                let begin = match want {
                    Ok(None) => "1 of 2 nodes have an agent (namespace kflow), 1 ready",
                    Ok(Some(_)) => "1 ready (that the agent on this machine is",
                    Err(_) => "(the agent on this machine is not asked",
                };
                assert!(rows.contains(begin), "{rows}");
            }
        }
    });
}

#[test]
fn a_node_that_is_called_as_this_machine_is_may_be_another_one() {
    block_on(async {
        let played = Played::start(1, 0).await;
        let own = rustix::system::uname();
        let own = own.nodename().to_str().unwrap();
        let whose = format!("this machine is called {own} as the node is, and is another one");
        played.on_another_machine(own);
        for (refused, args, want) in [
            (None, &[][..], whose.as_str()),
            (Some(NODE), &[], "is known by the name alone"),
            (None, &["--local"], ""),
        ] {
            *played.forbidden.lock().unwrap() = refused;
            let args = [&["doctor", "--no-agent", "--node", own], args].concat();
            let told = played.kflow(&args).await;
            assert!(told.err.contains(want), "{args:?} {}", told.err);
            let silent = !told.err.contains("this machine is");
            assert_eq!(silent, want.is_empty(), "{args:?} {}", told.err);
        }
    });
}

#[test]
fn where_the_apiserver_does_not_answer_every_look_names_the_way_without_it() {
    block_on(async {
        let played = Played::start(1, 0).await;
        played.set_down(true);
        for args in [
            &["why", "shop/web-0"][..],
            &["why", "-A"],
            &["timeline", "shop/web-0"],
            &["calls", "--pod", "shop/web-0"],
            &["requests", "--pod", "shop/web-0"],
            &["flow", "shop/web-0"],
            &["stats"],
            &["export", "shop/web-0", "-o", "json", "-O", "/dev/null"],
        ] {
            let told = played.kflow(args).await;
            assert_eq!(told.code, Some(2), "{args:?} {}", told.err);
            for part in [
                "the apiserver",
                "on the pod's node `--no-api --node NODE` needs none",
            ] {
                assert!(told.err.contains(part), "{args:?} {}", told.err);
            }
        }
    });
}

/// Writes a file of a root directory, with its parents.
fn put(root: &tempfile::TempDir, path: &str, text: &str) {
    let path = root.path().join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What this machine has says nothing of a node that is another machine.
#[test]
fn doctor_of_another_node_does_not_tell_of_this_machine() {
    block_on(async {
        let played = Played::start(2, 1).await;
        let root = tempfile::tempdir().unwrap();
        let put = |path, text| put(&root, path, text);
        put(
            "var/lib/kubelet/config.yaml",
            "containerRuntimeEndpoint: unix:///run/crio/crio.sock\n",
        );
        put(
            "etc/kubernetes/manifests/kube-apiserver.yaml",
            "  - command:\n",
        );
        let path = root.path().to_str().unwrap();
        for (node, agent, args) in [
            (name(0), true, &[][..]),
            (name(1), false, &[]),
            (name(1), false, &["--no-api"]),
        ] {
            let asked = [&["doctor", "--root", path, "--node", node.as_str()], args].concat();
            let said = played.kflow(&asked).await;
            let out = said.out;
            for part in [
                "crio",
                "manifests",
                "no kubelet on this machine",
                "no node is named",
                "inotify",
                "systemctl",
                "127.0.0.1:4317",
            ] {
                assert!(!out.contains(part), "{asked:?} {part}: {out}");
            }
            let whose = format!("which is not node {node}");
            assert!(out.contains(&whose), "{asked:?}: {out}");
            let own = format!("{node}: its runtime, tap or proxy,");
            let mut rows = out.lines();
            let row = rows.find(|l| l.contains(&own)).unwrap_or_default();
            assert_eq!(row.starts_with("ok"), agent, "{asked:?}: {out}");
            assert_eq!(row.ends_with("its agent sees them"), agent, "{out}");
            let advice = rows.next().unwrap_or_default();
            let installs = advice.ends_with("kflow agent install");
            assert_eq!(installs, !agent && args.is_empty(), "{asked:?}: {out}");
        }
    });
}

/// The kubelet is set to a proxy that has ended; its socket is left. Then somebody accepts there who is no runtime.
#[test]
fn doctor_asks_the_socket_that_the_kubelet_is_set_to() {
    let root = tempfile::tempdir().unwrap();
    let put = |path, text| put(&root, path, text);
    put(
        "var/lib/kubelet/config.yaml",
        "containerRuntimeEndpoint: unix:///run/kflow/cri.sock\n",
    );
    put("run/kflow/cri.sock.lock", "");
    let socket = root.path().join("run/kflow/cri.sock");
    let said = || {
        let path = root.path().to_str().unwrap();
        let args = [
            "doctor",
            "--no-api",
            "--no-agent",
            "--tap",
            "proxy",
            "--root",
            path,
        ];
        let out = crate::program::kflow(args).out;
        let row = |what: &str| {
            let mut rows = out.lines().filter(|l| l.contains(what));
            rows.next().map(str::to_owned).unwrap_or_default()
        };
        (row("kubelet endpoint"), row("CRI tap"), out)
    };
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    for why in ["Connection refused", "No such file or directory"] {
        let (endpoint, tap, out) = said();
        assert!(endpoint.starts_with("off"), "{out}");
        let words = format!("kflow's proxy, and nobody accepts connections there ({why}");
        assert!(endpoint.contains(&words), "{out}");
        assert!(out.contains("or take it out: "), "{out}");
        assert!(tap.starts_with("off"), "{out}");
        assert!(!out.contains("deploy/install.sh"), "{out}");
        std::fs::remove_file(&socket).ok();
    }
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let (endpoint, _, out) = said();
    assert!(endpoint.starts_with("off"), "{out}");
    assert!(
        endpoint.contains("the runtime behind it does not answer"),
        "{out}"
    );
}
