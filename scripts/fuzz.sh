#!/usr/bin/env bash
# Runs every fuzz target of the fuzz preset, two at a time; a finding stays in build/fuzz/findings and fails the run.
# A target's seed corpus is tests/data/fuzz/TARGET when there is one; the grown corpus is kept in build/fuzz/corpus.
#
#   scripts/fuzz.sh SECONDS_PER_TARGET
set -uo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-300}
mkdir -p build/fuzz/findings build/fuzz/corpus
mapfile -t targets < <(find build/fuzz -type f -executable -name '*_fuzz' | sort)
[ ${#targets[@]} -gt 0 ] || { echo "fuzz: no targets" >&2; exit 1; }
one() {
  local target=$1 name
  name=$(basename "$target")
  mkdir -p "build/fuzz/corpus/$name"
  local seeds=()
  [ -d "tests/data/fuzz/$name" ] && seeds=("tests/data/fuzz/$name")
  if "$target" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$name-" "build/fuzz/corpus/$name" "${seeds[@]}" >"build/fuzz/$name.log" 2>&1; then
    echo "fuzz: $name clean, $(grep -o 'number_of_executed_units: [0-9]*' "build/fuzz/$name.log" | grep -o '[0-9]*$') runs"
  else
    tail -20 "build/fuzz/$name.log"
    echo "fuzz: $name FAILED, see build/fuzz/$name.log"
    return 1
  fi
}
export -f one
printf '%s\n' "${targets[@]}" | xargs -P 2 -I{} bash -c "one {} $seconds"
