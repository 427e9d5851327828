#!/usr/bin/env bash
# Tests with other projects' programs what kflow writes and sends: tests/real/page.py (a browser), strangers.py (parsers), store.py (a trace
# store), prometheus.py (Prometheus, with the dashboard's queries), diagrams.py (Mermaid, PlantUML).
# Needs root. Installs Debian's chromium, chromium-driver, zstd, python3 and its modules if they are missing, and what tests/real/run.sh needs.
# Debian's Prometheus is unpacked into target/ and not installed, because the package would start it.
#
#   tests/real/strangers.sh [KFLOW]
set -euo pipefail
cd "$(dirname "$0")/../.."
kflow=${1:-target/debug/kflow}

[ "$(id -u)" = 0 ] || { echo "run as root: packages are installed" >&2; exit 77; }
missing=()
# Debian's Python, which finds Debian's packages. Another Python may come first in PATH.
python=/usr/bin/python3
[ -x "$python" ] || missing+=(python3)
for part in selenium jsonschema markdown yaml google.protobuf:protobuf; do
  "$python" -c "import ${part%:*}" 2>/dev/null || missing+=("python3-${part#*:}")
done
"$python" -c "import ensurepip" 2>/dev/null || missing+=(python3-venv)
for tool in chromium chromedriver:chromium-driver plantuml zstd; do
  command -v "${tool%:*}" >/dev/null || missing+=("${tool#*:}")
done
if [ "${#missing[@]}" -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

export PYTHONDONTWRITEBYTECODE=1
"$python" tests/real/strangers.py "$kflow"
"$python" tests/real/page.py "$kflow" ${KFLOW_PICTURES:+"$KFLOW_PICTURES"}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# OpenTelemetry's messages and gRPC's server, from PyPI.
if "$python" -m venv "$scratch/venv" >/dev/null 2>&1 &&
  "$scratch/venv/bin/pip" install -q grpcio opentelemetry-proto googleapis-common-protos >/dev/null 2>&1; then
  "$scratch/venv/bin/python" tests/real/store.py "$kflow"

  prometheus=target/prometheus/usr/bin/prometheus
  if [ ! -x "$prometheus" ]; then
    (cd "$scratch" && { apt-get download prometheus || { apt-get update -qq && apt-get download prometheus; }; }) >/dev/null 2>&1 &&
      dpkg-deb -x "$scratch"/prometheus_*.deb target/prometheus || echo "LEFT OUT: no Prometheus, as apt does not bring it" >&2
  fi
  [ ! -x "$prometheus" ] ||
    tests/real/run.sh --exec "$scratch/venv/bin/python" tests/real/prometheus.py "$kflow" "$prometheus"
else
  echo "LEFT OUT: no trace store by gRPC and no Prometheus, as pip does not bring what they are asked by" >&2
fi

# Mermaid is in no Debian package; it comes from npm.
if command -v npm >/dev/null && (cd "$scratch" && npm pack --silent mermaid@11 >/dev/null 2>&1 && tar xzf mermaid-*.tgz); then
  "$python" tests/real/diagrams.py "$kflow" "$scratch/package/dist/mermaid.min.js"
else
  echo "LEFT OUT: Mermaid draws no diagram, as npm does not bring it" >&2
  "$python" tests/real/diagrams.py "$kflow"
fi
