#!/bin/sh
# Makes tap.bpf.o of tap.bpf.c, and tap.bpf.txt, which says of what and by what. Needs clang (Debian: apt-get install clang).
#
#   crates/tap/bpf/build.sh [FOLDER]
set -eu
cd "$(dirname "$0")"
to=${1:-.}
"${CLANG:-clang}" -target bpf -mcpu=v2 -O2 -Wall -Wextra -Werror -fno-ident -c tap.bpf.c -o "$to/tap.bpf.o"
{
  "${CLANG:-clang}" --version | head -n 1
  cksum <tap.bpf.c
} >"$to/tap.bpf.txt"
