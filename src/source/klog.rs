//! Source `klog`.
