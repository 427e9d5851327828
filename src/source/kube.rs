//! Source `kube`.
