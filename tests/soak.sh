#!/usr/bin/env bash
# Hours of pods that live and die on a real containerd, through kflow, while proxy, runtime, recorder and viewer are killed at
# random. At the end: no byte lost, no call lost outside of gaps that were told, memory flat. See tests/real/soak.py.
#
#   tests/soak.sh HOURS [KFLOW [CRICTL]]      HOURS may be a fraction: 0.25
#
# The client is crictl (kubernetes-sigs/cri-tools), from PATH where it is not given. Needs root, and what tests/real/run.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
hours=${1:?usage: tests/soak.sh HOURS [KFLOW [CRICTL]]}
kflow=$(realpath "${2:-target/debug/kflow}")
crictl=$(realpath "${3:-$(command -v crictl || true)}" 2>/dev/null) || { echo "no crictl in PATH: give its path" >&2; exit 77; }
[ "$(id -u)" = 0 ] || { echo "run as root: containerd needs it" >&2; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
exec tests/real/run.sh --exec python3 tests/real/soak.py "$hours" "$kflow" "$crictl"
