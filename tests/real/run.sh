#!/usr/bin/env bash
# Runs the tests that need a real containerd. It starts a private one, with its own root, state and socket, and an image that is
# built here. Nothing is pulled, and nothing outside of a temporary folder is touched. Needs root. Installs Debian's containerd and
# runc, gcc with a static libc, and python3 if they are missing.
#
#   tests/real/run.sh [test name filter]
#   KFLOW_CONTAINERD=/path/to/containerd tests/real/run.sh     another containerd than the one in PATH
#
# The eBPF tap's tests (real::tap) need BPF and tracefs. This script mounts tracefs if it is not mounted. Tests that the kernel
# does not allow are named and left out.
#
# Also used by benches: `tests/real/run.sh --keep` prints the socket and leaves containerd running until Enter.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ "$(id -u)" = 0 ] || { echo "run as root: containerd needs it" >&2; exit 77; }
missing=()
command -v "${KFLOW_CONTAINERD:-containerd}" >/dev/null || missing+=(containerd)
for tool in runc gcc python3; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if [ "${#missing[@]}" -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" libc6-dev
fi

dir=$(mktemp -d /tmp/kflow-real.XXXXXX)
chmod 700 "$dir"
mkdir -p "$dir"/{run,cni/bin,cni/conf,image/blobs/sha256}

# A program with two system calls, in an image with one layer.
cat >"$dir/tiny.c" <<'C'
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void done(int s) { (void)s; _exit(0); }
int main(int n, char **v) {
  signal(SIGTERM, done);
  /* Takes memory until it is killed for it. */
  if (n > 1 && !strcmp(v[1], "oom")) for (;;) memset(malloc(1 << 20), 1, 1 << 20);
  if (n > 1) return atoi(v[1]);
  for (;;) pause();
}
C
gcc -static -Os -o "$dir/tiny" "$dir/tiny.c"
python3 - "$dir" <<'PY'
import hashlib, io, json, os, sys, tarfile
d = sys.argv[1]
blobs = d + '/image/blobs/sha256/'
def put(data):
    h = hashlib.sha256(data).hexdigest()
    open(blobs + h, 'wb').write(data)
    return 'sha256:' + h, len(data)
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode='w') as t:
    info = t.gettarinfo(d + '/tiny', 'tiny')
    info.mode, info.mtime, info.uid, info.gid = 0o755, 0, 0, 0
    t.addfile(info, open(d + '/tiny', 'rb'))
ld, ls = put(layer.getvalue())
cd, cs = put(json.dumps({'architecture': 'amd64' if os.uname().machine == 'x86_64' else 'arm64', 'os': 'linux',
  'config': {'Entrypoint': ['/tiny']}, 'rootfs': {'type': 'layers', 'diff_ids': [ld]}}).encode())
m = {'schemaVersion': 2, 'mediaType': 'application/vnd.oci.image.manifest.v1+json',
  'config': {'mediaType': 'application/vnd.oci.image.config.v1+json', 'digest': cd, 'size': cs},
  'layers': [{'mediaType': 'application/vnd.oci.image.layer.v1.tar', 'digest': ld, 'size': ls}]}
md, ms = put(json.dumps(m).encode())
json.dump({'schemaVersion': 2, 'manifests': [{'mediaType': m['mediaType'], 'digest': md, 'size': ms,
  'annotations': {'io.containerd.image.name': 'kflow.test/tiny:1', 'org.opencontainers.image.ref.name': '1'}}]},
  open(d + '/image/index.json', 'w'))
json.dump({'imageLayoutVersion': '1.0.0'}, open(d + '/image/oci-layout', 'w'))
with tarfile.open(d + '/tiny.tar', 'w') as t:
    for n in ('oci-layout', 'index.json', 'blobs'): t.add(d + '/image/' + n, n)
PY

# Version 2 of the configuration is understood by containerd 1.x and 2.x.
cat >"$dir/config.toml" <<TOML
version = 2
root = "$dir/root"
state = "$dir/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "$dir/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "kflow.test/tiny:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "$dir/certs.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$dir/cni/bin"
    conf_dir = "$dir/cni/conf"
TOML

cat >"$dir/start" <<SH
#!/bin/sh
# Starts containerd; its process id is in $dir/pid.
cd "$dir/run" || exit 1
setsid "${KFLOW_CONTAINERD:-containerd}" --config "$dir/config.toml" >>"$dir/log" 2>&1 </dev/null &
echo \$! >"$dir/pid"
SH
cat >"$dir/stop" <<SH
#!/bin/sh
# Ends the containerd that start started, at once.
kill -9 "\$(cat "$dir/pid")" 2>/dev/null
SH
chmod +x "$dir/start" "$dir/stop"

finish() {
  # Ends tasks that a failed test left behind, then containerd; only processes that were started here.
  for t in $(ctr -a "$dir/run/containerd.sock" -n k8s.io tasks ls -q 2>/dev/null); do
    ctr -a "$dir/run/containerd.sock" -n k8s.io tasks rm -f "$t" >/dev/null 2>&1 || true
  done
  kill "$(cat "$dir/pid")" 2>/dev/null || true
  for _ in $(seq 50); do kill -0 "$(cat "$dir/pid")" 2>/dev/null || break; sleep 0.1; done
  # A containerd that was killed leaves the shims of its tasks running.
  for shim in $(grep -alsF "$dir/run/containerd.sock" /proc/[0-9]*/cmdline); do
    pid=${shim//[!0-9]/}
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = containerd-shim ] || continue
    # shellcheck disable=SC2046  # a word a process: its containers' first, then itself
    kill -9 $(cat "/proc/$pid"/task/*/children 2>/dev/null) "$pid" 2>/dev/null || true
  done
  awk -v d="$dir" '$2 ~ "^" d {print $2}' /proc/mounts | sort -r | while read -r m; do umount -l "$m" || true; done
  if [ -n "${KFLOW_KEEP_LOG:-}" ]; then cp "$dir/log" "$KFLOW_KEEP_LOG"; fi
  rm -rf "$dir"
}
trap finish EXIT
"$dir/start"
for _ in $(seq 100); do ctr -a "$dir/run/containerd.sock" version >/dev/null 2>&1 && break; sleep 0.1; done
# A ctr 2 has containerd unpack it, which does so for the snapshotters of its configuration alone: `--local` unpacks as ctr 1 does.
here=()
if ctr images import --help | grep -q -- --local; then here=(--local); fi
ctr -a "$dir/run/containerd.sock" -n k8s.io images import "${here[@]}" --snapshotter native "$dir/tiny.tar" >/dev/null
"${KFLOW_CONTAINERD:-containerd}" --version

if [ ! -e /sys/kernel/tracing/events ] && [ ! -e /sys/kernel/debug/tracing/events ]; then
  mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null || echo "LEFT OUT: tracefs cannot be mounted here: the eBPF tap is not tried" >&2
fi

export KFLOW_REAL="$dir"
case "${1:-}" in
  --keep) echo "$dir/run/containerd.sock"; read -r _ ;;
  --exec) shift; "$@" ;;
  *) cargo test --locked --test it "real::${1:-}" -- --ignored --test-threads=1 --nocapture ;;
esac
