#!/usr/bin/env bash
# Tests what a node's clock, file systems and kernel do to a running kflow, with real processes: tests/real/clock.py, mount.py,
# syscalls.py. Needs root. Installs Debian's libfaketime, bindfs, fuse3, strace, python3 and python3-pyte if they are missing.
#
#   tests/real/faults.sh [KFLOW]
set -euo pipefail
cd "$(dirname "$0")/../.."
kflow=${1:-target/debug/kflow}

[ "$(id -u)" = 0 ] || { echo "run as root: packages are installed, file systems mounted" >&2; exit 77; }
lib() { find /usr/lib -name libfaketimeMT.so.1 -print -quit; }
missing=()
[ -n "$(lib)" ] || missing+=(libfaketime)
# Debian's Python, which finds Debian's packages. Another Python may come first in PATH.
python=/usr/bin/python3
[ -x "$python" ] || missing+=(python3)
for tool in bindfs fusermount3 strace; do command -v "$tool" >/dev/null || missing+=("${tool/fusermount3/fuse3}"); done
"$python" -c 'import pyte' 2>/dev/null || missing+=(python3-pyte)
if [ "${#missing[@]}" -gt 0 ]; then
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

export PYTHONDONTWRITEBYTECODE=1
"$python" tests/real/clock.py "$kflow" "$(lib)"
if [ -c /dev/fuse ]; then
  "$python" tests/real/mount.py "$kflow"
else
  echo "LEFT OUT: no /dev/fuse here, so no file system can be made to hang"
fi
# 77: strace may not trace here.
"$python" tests/real/syscalls.py "$kflow" || [ $? = 77 ]
