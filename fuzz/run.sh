#!/usr/bin/env bash
# Every fuzz target for so many seconds, one after the other, seeded by the recordings and by what was found before. Prints
# for each how many inputs it tried, how much it covers (edges of the program's graph) and how much more than its seeds. What a
# target fails on is left in target/fuzz/found; the exit code is then 1.
#
#   fuzz/run.sh SECONDS [TARGET…]
#
# Needs a C++ compiler (libFuzzer is C++) and no nightly toolchain: the compiler's coverage pass is asked for by hand.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET…]}
shift
out=$PWD/target/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')

# As `cargo fuzz` builds it, but for the address sanitizer: kflow has no unsafe code.
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
# With a target named, build scripts and macros are built without these flags.
cargo build --release --manifest-path fuzz/Cargo.toml --target-dir "$out/build" --target "$host"
fuzz=$out/build/$host/release/fuzz

targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(sed -n 's/^    target("\([a-z_]*\)".*/\1/p' fuzz/src/targets/mod.rs)
failed=0
printf '%-12s %10s %8s %8s %8s %8s\n' target inputs seconds seeded covers kept
for target in "${targets[@]}"; do
  export KFLOW_FUZZ=$target
  corpus=$out/corpus/$target
  found=$out/found/$target
  mkdir -p "$corpus" "$found"
  # The committed inputs, a line each.
  n=0
  if [ -e "fuzz/corpus/$target" ]; then
    while read -r line; do base64 -d <<<"$line" >"$corpus/known-$((n++))"; done <"fuzz/corpus/$target"
  fi
  log=$out/$target.log
  # -timeout: one input may take so many seconds by the clock, which others slow down; -report_slow_units: from so many on it is
  # written to found, and is no failure; -rss_limit_mb: it may take so much memory; -max_len: most
  # seeds are shorter, and a JSON that is cut is read by nobody.
  KFLOW_FUZZ_SEEDS=$corpus "$fuzz" "$corpus" -max_total_time="$seconds" -timeout=120 -report_slow_units=10 -rss_limit_mb=3000 -max_len=16384 \
    -print_final_stats=1 -artifact_prefix="$found/" >"$log" 2>&1 || { failed=1; echo "$target FAILED: $log, $found" >&2; tail -5 "$log" >&2; }
  number() { sed -n "s/.*$1.*cov: \([0-9]*\).*/\1/p" "$log" | tail -1; }
  printf '%-12s %10s %8s %8s %8s %8s\n' "$target" \
    "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$seconds" "$(number INITED)" "$(number '')" "$(find "$corpus" -type f | wc -l)"
done
exit "$failed"
