#!/usr/bin/env bash
# Runs every micro-benchmark of the bench preset, one after the other; text goes to build/bench/results.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/bench/results
find build/bench/src -type f -executable -name '*_bench' | sort | while read -r bench; do
  echo "== $(basename "$bench")"
  "$bench" --benchmark_min_warmup_time=0.1 2>/dev/null | tee "build/bench/results/$(basename "$bench").txt"
done
