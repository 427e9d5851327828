#!/bin/sh
# Puts kflow's proxy between kubelet and container runtime: two units, one systemd drop-in for the kubelet, one folder
# /etc/kflow. It edits no file of the kubelet, of kubeadm or of the distribution. uninstall.sh removes all of it
# again; so does systemd when the proxy keeps failing. Running install.sh again changes nothing.
#
#   deploy/install.sh [RUNTIME.sock]         needs root, and kflow at /usr/local/bin/kflow or /usr/bin/kflow
#
# The proxy's upstream is the runtime that the kubelet uses according to its own settings, or the one that the argument names.
# A kubelet is never moved to another runtime just because that runtime's socket exists.
#
# ROOT (a prefix for every path), SYSTEMCTL, KFLOW and WAIT are for tests.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=${ROOT:-}
systemctl=${SYSTEMCTL:-systemctl}
kflow=${KFLOW:-/usr/local/bin/kflow}
# A package installs kflow in /usr/bin.
[ -n "${KFLOW:-}" ] || [ -x "$kflow" ] || [ ! -x /usr/bin/kflow ] || kflow=/usr/bin/kflow
say() { echo "kflow install: $*" >&2; }
die() { say "$*"; exit 1; }

[ -n "$root" ] || [ "$(id -u)" = 0 ] || die "run as root"
[ -x "$kflow" ] || die "no program at $kflow: copy kflow there first"

upstream=${1:-}
if [ -z "$upstream" ]; then
  upstream=$("$kflow" doctor --upstream --root "$root/") ||
    die "the kubelet was not touched. If you know its runtime, name it: deploy/install.sh /path/to/runtime.sock"
fi
case $upstream in
  /run/kflow/* | /var/run/kflow/*) die "$upstream is kflow's own socket: name the runtime's" ;;
  /*) ;;
  *) die "$upstream is not the path of a socket" ;;
esac
[ -e "$root$upstream" ] || die "$upstream does not exist"

# The drop-in adds a flag through KUBELET_EXTRA_ARGS, which kubeadm's unit passes on.
unit=$($systemctl cat kubelet.service 2>/dev/null) || die "no kubelet.service here: kflow doctor says how this node's kubelet is configured"
# shellcheck disable=SC2016
case $unit in
  *'$KUBELET_EXTRA_ARGS'*) ;;
  *) die "kubelet.service does not pass \$KUBELET_EXTRA_ARGS on: set containerRuntimeEndpoint: unix:///run/kflow/cri.sock in the kubelet's configuration yourself" ;;
esac

# Keeps what the user set in that variable. A file wins over the unit, and a later file over an earlier one; our own file does not count.
extra=$(printf '%s\n' "$unit" | sed -n \
  -e 's/^Environment=.*"KUBELET_EXTRA_ARGS=\([^"]*\)".*/\1/p' \
  -e "s/^Environment=.*'KUBELET_EXTRA_ARGS=\\([^']*\\)'.*/\\1/p" \
  -e 's/^Environment=\([^"'"'"']* \)\{0,1\}KUBELET_EXTRA_ARGS=\([^ "'"'"']*\)\( .*\)\{0,1\}$/\2/p' | tail -n 1)
[ -n "$extra" ] || ! printf '%s\n' "$unit" | grep -q '^Environment=.*KUBELET_EXTRA_ARGS=[^"'"'"' ]' ||
  die "KUBELET_EXTRA_ARGS is set by the unit in a way that cannot be kept: systemctl cat kubelet.service"
for f in $(printf '%s\n' "$unit" | sed -n 's/^EnvironmentFile=-\{0,1\}//p'); do
  [ "$f" != /etc/kflow/kubelet.env ] || continue
  [ -r "$root$f" ] || continue
  line=$(sed -n 's/^KUBELET_EXTRA_ARGS=//p' "$root$f" | tail -n 1)
  [ -z "$line" ] || extra=$(printf '%s' "$line" | sed "s/^[\"']\(.*\)[\"']\$/\1/")
done
case $extra in *'"'* | *\\*) die "KUBELET_EXTRA_ARGS holds quotes that cannot be kept: set containerRuntimeEndpoint: unix:///run/kflow/cri.sock in the kubelet's configuration yourself" ;; esac

# Existing files and folders that no earlier installation made are not touched.
lib=$root/usr/local/lib/kflow
drop_ins=$root/etc/systemd/system/kubelet.service.d
for f in "$root/etc/kflow/proxy.env" "$root/etc/kflow/kubelet.env" "$lib/uninstall.sh" "$drop_ins/50-kflow.conf" \
  "$root/etc/systemd/system/kflow-proxy.service" "$root/etc/systemd/system/kflow-revert.service"; do
  [ ! -e "$f" ] || grep -q '^# kflow:' "$f" || die "$f exists and is not of this kflow: run the uninstall.sh that belongs to it, or move it away"
done
# Replaces a file atomically: other processes, also after a crash, see the old file or the new one.
put() { cat >"$1.kflow-new" && chmod "$2" "$1.kflow-new" && mv -f "$1.kflow-new" "$1"; }

umask 022
made=
for d in "$root/etc/kflow" "$drop_ins" "$lib"; do
  [ -d "$d" ] || { mkdir -p "$d"; made="$made ${d#"$root"}"; }
done
[ ! -r "$lib/made" ] || made=$(sed -n 's/^made=//p' "$lib/made")
printf '# kflow: folders that install.sh made\nmade=%s\n' "$made" | put "$lib/made" 644
put "$root/etc/systemd/system/kflow-revert.service" 644 <"$here/kflow-revert.service"
sed "s|^ExecStart=/usr/local/bin/kflow |ExecStart=$kflow |" "$here/kflow-proxy.service" |
  put "$root/etc/systemd/system/kflow-proxy.service" 644
put "$lib/uninstall.sh" 755 <"$here/uninstall.sh"
printf '# kflow: written by install.sh\nKFLOW_UPSTREAM=%s\n' "$upstream" | put "$root/etc/kflow/proxy.env" 644
endpoint=--container-runtime-endpoint=unix:///run/kflow/cri.sock
printf '# kflow: written by install.sh\nKUBELET_EXTRA_ARGS="%s"\n' "$extra${extra:+ }$endpoint" | put "$root/etc/kflow/kubelet.env" 644

# Starts the proxy first, and changes the kubelet only when the proxy works.
$systemctl daemon-reload
$systemctl enable kflow-proxy.service
$systemctl restart kflow-proxy.service || die "the proxy does not start, and the kubelet was not touched: journalctl -u kflow-proxy"
put "$drop_ins/50-kflow.conf" 644 <<'CONF'
# kflow: the kubelet's runtime is reached by way of the proxy. Removed by /usr/local/lib/kflow/uninstall.sh
[Unit]
Wants=kflow-proxy.service
After=kflow-proxy.service

[Service]
EnvironmentFile=-/etc/kflow/kubelet.env
CONF
$systemctl daemon-reload
$systemctl restart kubelet.service || true

# Waits until the kubelet is up and connects through the proxy, and looks once at least; by the time since the machine's start, as its
# clock may be set meanwhile.
up() { cut -d . -f 1 /proc/uptime; }
until=$(($(up) + ${WAIT:-60}))
while :; do
  if $systemctl is-active --quiet kubelet.service && "$kflow" doctor --no-api 2>/dev/null | grep -q 'CRI proxy.*carries'; then
    say "the kubelet uses the proxy; kflow tui --node $(uname -n) shows it; /usr/local/lib/kflow/uninstall.sh takes it away"
    exit 0
  fi
  [ "$(up)" -lt "$until" ] || break
  sleep 1
done
say "the kubelet did not come by way of the proxy within ${WAIT:-60} s: taking it away again"
"$root/usr/local/lib/kflow/uninstall.sh" || true
exit 1
