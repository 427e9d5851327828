#!/bin/sh
# kflow: gives the kubelet its container runtime back and removes what install.sh made. Needs neither the apiserver nor a
# working kubelet nor kflow itself; running it again changes nothing. The program stays.
#
# ROOT and SYSTEMCTL are for tests.
set -u
root=${ROOT:-}
systemctl=${SYSTEMCTL:-systemctl}
say() { echo "kflow uninstall: $*" >&2; }
[ -n "$root" ] || [ "$(id -u)" = 0 ] || { say "run as root"; exit 1; }

# Changes the kubelet first, so that it never points at a socket that is gone.
lib=$root/usr/local/lib/kflow
# Only folders that install.sh made are removed; others stay, even when they are empty.
made=$(sed -n 's/^made=//p' "$lib/made" 2>/dev/null)
drop() { case " $made " in *" $1 "*) rmdir "$root$1" 2>/dev/null || true ;; esac }
tapped=no
[ ! -e "$root/etc/systemd/system/kubelet.service.d/50-kflow.conf" ] || tapped=yes
rm -f "$root/etc/systemd/system/kubelet.service.d/50-kflow.conf" "$root/etc/kflow/kubelet.env"
drop /etc/systemd/system/kubelet.service.d
$systemctl daemon-reload || say "systemctl daemon-reload failed"
failed=0
if [ $tapped = yes ]; then
  $systemctl restart kubelet.service || { say "the kubelet does not restart: journalctl -u kubelet"; failed=1; }
fi
$systemctl disable --now kflow-proxy.service 2>/dev/null || true
rm -f "$root/etc/systemd/system/kflow-proxy.service" "$root/etc/systemd/system/kflow-revert.service" "$root/etc/kflow/proxy.env"
drop /etc/kflow
$systemctl daemon-reload || true
for socket in cri observations; do
  rm -f "$root/run/kflow/$socket.sock" "$root/run/kflow/$socket.sock.lock"
done
# The folder stays when an agent has its sockets there.
rmdir "$root/run/kflow" 2>/dev/null || true

# Checks that nothing of kflow is left in the kubelet's unit.
if $systemctl cat kubelet.service 2>/dev/null | grep -q /etc/kflow/; then
  say "kubelet.service still names /etc/kflow: $systemctl cat kubelet.service"
  failed=1
fi
[ $failed = 0 ] && say "done: the kubelet talks to its runtime directly"
# This script removes itself last, because the dead-man switch runs it from here.
rm -f "$lib/made" "$lib/uninstall.sh"
drop /usr/local/lib/kflow
exit $failed
