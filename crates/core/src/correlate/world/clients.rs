//! Which calls to the runtime are kflow's own.
//!
//! kflow asks the runtime for its lists, its events and the progress of pulls. Beside what a node does, these calls
//! would be most of what is seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::correlate::CallLog;
use kflow_model::cri::{CallStart, ConnChange, Service, method};

/// Connections from which those without a call are dropped, when they are more than so many.
const MANY: usize = 4096;

#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    /// Connections whose client is a process of kflow.
    kflow: Arc<BTreeSet<u32>>,
    /// Connections with a call that kflow never makes itself: `kflow proxy` relays those of its clients.
    relayed: Arc<BTreeSet<u32>>,
    /// How often a connection turned out to be kflow's own, or not to be, after calls of it were filed.
    late: u32,
}

/// Returns true for a process of kflow, by the name of its thread (`kflow-sources`) or its user agent (`kflow/0.1.0`).
fn is_kflow(peer: &str) -> bool {
    peer.strip_prefix("kflow")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '/']))
}

/// Returns true for a call that kflow may have made itself (`kflow_sources::cri::live`, `kflow_sources::runtime`). The first
/// calls of a connection that was joined in the middle have no method.
fn may_be_own(c: &CallStart) -> bool {
    match c.service {
        // containerd's events, and its content store.
        Service::Other | Service::Unknown => true,
        Service::Image | Service::ImageV1Alpha2 => false,
        Service::Runtime | Service::RuntimeV1Alpha2 => matches!(
            c.method.as_str(),
            method::LIST_POD_SANDBOX
                | method::LIST_CONTAINERS
                | method::GET_CONTAINER_EVENTS
                | method::VERSION
        ),
    }
}

impl Clients {
    /// Takes a connection; `called` tells that calls of it are filed already.
    pub(super) fn observe_conn(&mut self, c: &ConnChange, called: bool) {
        if is_kflow(&c.peer) && !self.kflow.contains(&c.conn) {
            Arc::make_mut(&mut self.kflow).insert(c.conn);
            self.late += u32::from(called);
        }
    }
    pub(super) fn observe_call(&mut self, c: &CallStart) {
        if !may_be_own(c) && !self.relayed.contains(&c.key.conn) {
            Arc::make_mut(&mut self.relayed).insert(c.key.conn);
            self.late += u32::from(self.kflow.contains(&c.key.conn));
        }
    }
    /// Drops closed connections of which no call is left.
    pub(super) fn shrink(&mut self, calls: &CallLog) {
        if self.kflow.len() + self.relayed.len() <= MANY {
            return;
        }
        let kept: BTreeSet<u32> = calls.iter().map(|c| c.key.conn).collect();
        // A connection newer than all with calls may be about to get one.
        let newest = kept.last().copied().unwrap_or(0);
        for of in [&mut self.kflow, &mut self.relayed] {
            Arc::make_mut(of).retain(|conn| *conn > newest || kept.contains(conn));
        }
    }
    pub(super) fn is_own(&self, conn: u32) -> bool {
        self.kflow.contains(&conn) && !self.relayed.contains(&conn)
    }
    pub(super) const fn late(&self) -> u32 {
        self.late
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kflow_model::cri::CallKey;

    fn conn(conn: u32, peer: &str) -> ConnChange {
        ConnChange {
            conn,
            open: true,
            pid: 7,
            peer: peer.into(),
            sight: kflow_model::cri::Sight::default(),
            why: kflow_model::Text::default(),
        }
    }

    fn call(conn: u32, service: Service, method: &str) -> CallStart {
        CallStart::new(CallKey { conn, stream: 1 }, service, method)
    }

    /// The names are those that the eBPF tap and the proxy reported on a node.
    #[test]
    fn kflow_is_known_by_its_name_and_a_relay_of_another_clients_calls_is_not_kflow() {
        let mut clients = Clients::default();
        let peers = [
            "kflow",
            "kflow-sources",
            "kflow/0.1.0 tonic/0.14.9",
            "kubelet",
            "kflowers",
            "",
        ];
        for (n, peer) in (1..).zip(peers) {
            clients.observe_conn(&conn(n, peer), false);
        }
        let own = |clients: &Clients| (1..=6).filter(|n| clients.is_own(*n)).collect::<Vec<_>>();
        assert_eq!(own(&clients), [1, 2, 3]);
        let subscribe = "/containerd.services.events.v1.Events/Subscribe";
        clients.observe_call(&call(1, Service::Other, subscribe));
        clients.observe_call(&call(2, Service::Runtime, "ListContainers"));
        assert_eq!((own(&clients), clients.late()), (vec![1, 2, 3], 0));
        // `kflow proxy` carries what the kubelet asks.
        clients.observe_call(&call(2, Service::Runtime, "RunPodSandbox"));
        clients.observe_call(&call(3, Service::Image, "ListImages"));
        assert_eq!((own(&clients), clients.late()), (vec![1], 2));
    }
}
