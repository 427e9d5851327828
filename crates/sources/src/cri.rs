//! What a container runtime says when it is asked once. Its calls come by way of `kflow proxy` ([`proxy`](crate::proxy)); the
//! decoder of both is `kflow_cri`.

pub mod live;
