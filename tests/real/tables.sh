#!/usr/bin/env bash
# Reads the tables of `kflow fleet` with other engines: DuckDB and ClickHouse (chDB), from pip. KFLOW is built with `--features fleet`.
#
#   tests/real/tables.sh KFLOW [SESSION...]
set -euo pipefail
cd "$(dirname "$0")/../.."
kflow=${1:?the program, built with --features fleet}
shift
sessions=("$@")
[ "${#sessions[@]}" -gt 0 ] || sessions=(fixtures/sessions/S{1-basics,2-stuck-early,5-burst,6-slowpull}.kflow.zst)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if ! python3 -m venv "$scratch/venv" >/dev/null 2>&1 || ! "$scratch/venv/bin/pip" install -q duckdb chdb >/dev/null 2>&1; then
  echo "LEFT OUT: no other engine reads the tables, as pip does not bring them" >&2
  exit 0
fi
export PYTHONDONTWRITEBYTECODE=1
"$scratch/venv/bin/python" tests/real/tables.py "$kflow" "${sessions[@]}"
