//! The kubelet's back-off: 10 s after the first failure, doubled by each further one, at most 5 minutes. Of a mount: half a second, at
//! most 122 s.
//!
//! Source: Kubernetes 1.36 `pkg/kubelet/kubelet.go` (`imageBackOff`, `crashLoopBackOff`: initial 10 s, maximum 300 s)
//! and `client-go/util/flowcontrol/backoff.go`; `pkg/util/goroutinemap/exponentialbackoff/exponential_backoff.go`.

use kflow_model::{Nanos, stamp::SECOND};

const FIRST_S: i64 = 10;
const MOST_S: i64 = 300;
/// The first wait between two tries to mount a volume, ns.
const MOUNT_FIRST: i64 = SECOND / 2;
/// The longest one, ns.
const MOUNT_MOST: i64 = 122 * SECOND;

/// A container's kill and the exit that it causes are less than this apart, ns: the grace periods of probes and pods.
pub const KILLED_NS: i64 = 120 * SECOND;
/// The back-off of a container starts anew after the container ran this long without failing, ns: twice the maximum.
pub const FORGOTTEN_NS: i64 = 2 * MOST_S * SECOND;

/// Returns the wait after the n-th failure (from 1), ns.
pub fn delay(failures: u32) -> i64 {
    let doublings = failures.saturating_sub(1).min(6);
    (FIRST_S << doublings).min(MOST_S) * SECOND
}

/// Returns what the waits before this one took together at the least, ns, when each was twice the one before it.
pub fn before(wait: i64) -> i64 {
    (wait - FIRST_S * SECOND).max(0)
}

/// Returns when the kubelet retries a pull after the pull's n-th failure.
pub fn next_pull(failures: u32, failed: Nanos) -> Nanos {
    failed.plus(delay(failures))
}

/// Returns when a volume is mounted or attached again after the n-th failure (from 1). `None` where the failures do not lie as far apart
/// as this back-off has them: each took time itself, the kubelet was started anew meanwhile, or some of them are not known.
pub fn next_mount(failures: u32, first: Nanos, last: Nanos) -> Option<Nanos> {
    let waits = i64::from(failures.saturating_sub(1));
    let doublings = waits.min(8);
    let at_most = MOUNT_MOST.saturating_mul(waits - doublings);
    let waited = (MOUNT_FIRST * ((1 << doublings) - 1)).saturating_add(at_most);
    // Events have whole seconds, and a try takes a moment.
    let leeway = 2 * SECOND + waited / 16;
    let fits = (last.since(first) - waited).abs() <= leeway;
    fits.then(|| last.plus((MOUNT_FIRST << doublings).min(MOUNT_MOST)))
}

/// Returns when the kubelet starts a container again after its n-th exit. The first restart follows at once.
pub fn next_start(exits: u32, finished: Nanos) -> Nanos {
    match exits {
        0 | 1 => finished,
        n => finished.plus(delay(n - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_from_ten_seconds_to_five_minutes() {
        let got: Vec<i64> = (1..=8).map(|n| delay(n) / SECOND).collect();
        assert_eq!(got, [10, 20, 40, 80, 160, 300, 300, 300]);
    }

    /// As recorded of configmap `not-there` (fixtures/sessions/S2-stuck-early.kflow.zst): each is the time of a failure, s.
    #[test]
    fn a_mount_is_tried_again_when_the_kubelet_did() {
        let failed = [0.0, 0.4, 1.4, 3.4, 7.4, 15.4, 31.4, 63.4, 127.4];
        let at = |s: f64| Nanos((s * SECOND as f64) as i64);
        for (n, pair) in (1..).zip(failed.windows(2)) {
            let next = next_mount(n, at(failed[0]), at(pair[0])).unwrap();
            let off = next.since(at(pair[1])).abs();
            assert!(off <= SECOND / 5, "{n}: {off}");
        }
        let tenth = at(127.4 + 122.0);
        assert_eq!(next_mount(10, at(0.0), tenth), Some(tenth.plus(MOUNT_MOST)));
    }

    #[test]
    fn failures_that_lie_otherwise_do_not_tell_the_next_mount() {
        // The kubelet gave up to wait for volumes, twice.
        assert_eq!(next_mount(2, Nanos(0), Nanos(123 * SECOND)), None);
        // Reports are missing.
        assert_eq!(next_mount(5, Nanos(0), Nanos(127 * SECOND)), None);
        assert_eq!(next_mount(u32::MAX, Nanos(0), Nanos(0)), None);
    }

    #[test]
    fn the_waits_before_one_are_no_longer_than_they_were() {
        for n in 1..=8 {
            let waited: i64 = (1..n).map(delay).sum();
            assert!(before(delay(n)) <= waited, "{n}");
        }
        assert_eq!(before(delay(3)), 30 * SECOND);
    }

    #[test]
    fn the_first_restart_is_made_at_once() {
        assert_eq!(next_start(1, Nanos(5)), Nanos(5));
        assert_eq!(next_start(3, Nanos(0)), Nanos(20 * SECOND));
    }
}
