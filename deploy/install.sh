#!/bin/sh
# Puts kflow's proxy between kubelet and container runtime: two units, one systemd drop-in for the kubelet, one folder
# /etc/kflow. No file of the kubelet's, of kubeadm's or of the distribution's is edited. uninstall.sh takes it all away
# again; so does systemd when the proxy keeps failing. Running it again changes nothing.
#
#   deploy/install.sh [RUNTIME.sock]         needs root, and kflow at /usr/local/bin/kflow
#
# ROOT (a prefix for every path), SYSTEMCTL, KFLOW and WAIT are for tests.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${ROOT:-}
systemctl=${SYSTEMCTL:-systemctl}
kflow=${KFLOW:-/usr/local/bin/kflow}
say() { echo "kflow install: $*" >&2; }
die() { say "$*"; exit 1; }

[ -n "$root" ] || [ "$(id -u)" = 0 ] || die "run as root"
[ -x "$kflow" ] || die "no program at $kflow: copy kflow there first"

upstream=${1:-}
if [ -z "$upstream" ]; then
  for s in /run/containerd/containerd.sock /run/crio/crio.sock /run/cri-dockerd.sock; do
    if [ -e "$root$s" ]; then upstream=$s; break; fi
  done
fi
[ -n "$upstream" ] || die "no runtime's socket in the usual places: deploy/install.sh /path/to/runtime.sock"
case $upstream in /run/kflow/*) die "$upstream is kflow's own socket: name the runtime's" ;; esac
[ -e "$root$upstream" ] || die "$upstream does not exist"

# The drop-in adds a flag by way of KUBELET_EXTRA_ARGS, which kubeadm's unit passes on.
unit=$($systemctl cat kubelet.service 2>/dev/null) || die "no kubelet.service here: kflow doctor says how this node's kubelet is configured"
# shellcheck disable=SC2016
case $unit in
  *'$KUBELET_EXTRA_ARGS'*) ;;
  *) die "kubelet.service does not pass \$KUBELET_EXTRA_ARGS on: set containerRuntimeEndpoint: unix:///run/kflow/cri.sock in the kubelet's configuration yourself" ;;
esac

# What the user gave in that variable is kept. The last file that sets it counts; ours is not one of them.
extra=
for f in $(printf '%s\n' "$unit" | sed -n 's/^EnvironmentFile=-\{0,1\}//p'); do
  [ "$f" != /etc/kflow/kubelet.env ] || continue
  [ -r "$root$f" ] || continue
  line=$(sed -n 's/^KUBELET_EXTRA_ARGS=//p' "$root$f" | tail -n 1)
  [ -z "$line" ] || extra=$(printf '%s' "$line" | sed "s/^[\"']\(.*\)[\"']\$/\1/")
done

umask 022
mkdir -p "$root/etc/kflow" "$root/etc/systemd/system/kubelet.service.d" "$root/usr/local/lib/kflow"
cp "$here/kflow-proxy.service" "$here/kflow-revert.service" "$root/etc/systemd/system/"
cp "$here/uninstall.sh" "$root/usr/local/lib/kflow/uninstall.sh"
chmod 755 "$root/usr/local/lib/kflow/uninstall.sh"
echo "KFLOW_UPSTREAM=$upstream" >"$root/etc/kflow/proxy.env"
endpoint=--container-runtime-endpoint=unix:///run/kflow/cri.sock
echo "KUBELET_EXTRA_ARGS=\"$extra${extra:+ }$endpoint\"" >"$root/etc/kflow/kubelet.env"

# First the proxy, and only when it works the kubelet.
$systemctl daemon-reload
$systemctl enable kflow-proxy.service
$systemctl restart kflow-proxy.service || die "the proxy does not start, and the kubelet was not touched: journalctl -u kflow-proxy"
cat >"$root/etc/systemd/system/kubelet.service.d/50-kflow.conf" <<'CONF'
# kflow: the kubelet's runtime is reached by way of the proxy. Removed by /usr/local/lib/kflow/uninstall.sh
[Unit]
Wants=kflow-proxy.service
After=kflow-proxy.service

[Service]
EnvironmentFile=-/etc/kflow/kubelet.env
CONF
$systemctl daemon-reload
$systemctl restart kubelet.service || true

# Is the kubelet up, and does it come by way of the proxy?
n=0
while [ $n -lt "${WAIT:-60}" ]; do
  if $systemctl is-active --quiet kubelet.service && "$kflow" doctor --no-api 2>/dev/null | grep -q 'CRI proxy.*carries'; then
    say "the kubelet uses the proxy; kflow tui --node $(uname -n) shows it; /usr/local/lib/kflow/uninstall.sh takes it away"
    exit 0
  fi
  n=$((n + 1))
  sleep 1
done
say "the kubelet did not come by way of the proxy within ${WAIT:-60} s: taking it away again"
"$root/usr/local/lib/kflow/uninstall.sh" || true
exit 1
