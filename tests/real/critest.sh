#!/usr/bin/env bash
# The conformance tests of the CRI (kubernetes-sigs/cri-tools, `critest`) against a private containerd: directly, through
# `kflow proxy`, and with an eBPF tap attached. Verdicts are compared spec by spec: kflow may change none.
#
#   tests/real/critest.sh CRITEST [KFLOW [flags of critest, as -ginkgo.focus=Container]]
#
# Nothing is pulled from outside: a registry on 127.0.0.1 answers for every image name with an image of busybox. Needs root. Installs
# Debian's busybox-static and containernetworking-plugins if they are missing, and what tests/real/run.sh needs.
set -euo pipefail
cd "$(dirname "$0")/../.."
critest=$(realpath "${1:?usage: tests/real/critest.sh CRITEST [KFLOW [flags of critest]]}")
kflow=$(realpath "${2:-target/debug/kflow}")
shift $(($# < 2 ? $# : 2))

[ "$(id -u)" = 0 ] || { echo "run as root: containerd needs it" >&2; exit 77; }
missing=()
[ -x /bin/busybox ] || missing+=(busybox-static)
[ -x /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
command -v ip >/dev/null || missing+=(iproute2)
if [ "${#missing[@]}" -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi
export PYTHONDONTWRITEBYTECODE=1
exec tests/real/run.sh --exec python3 tests/real/critest.py "$critest" "$kflow" "$@"
