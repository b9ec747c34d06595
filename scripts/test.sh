#!/usr/bin/env bash
# Builds a preset and runs its unit tests and the integration tests. The last line is "N passed, N failed" over single
# cases; exit 1 when any failed. Logs and reports stay in build/PRESET/results.
#
#   scripts/test.sh PRESET [--long]     --long adds the checks that take minutes
set -uo pipefail
cd "$(dirname "$0")/.."
preset=$1
results=$PWD/build/$preset/results
scripts/build.sh "$preset" llmd || { echo "0 passed, 1 failed"; exit 1; }

rm -rf "$results"
mkdir -p "$results"
echo "test: integration tests ($preset), while the unit tests are compiled"
nice -n 19 scripts/build.sh "$preset" &
build=$!
long=()
[ "${2:-}" = --long ] && long=(--long)
LLMD_BINARY=$PWD/build/$preset/apps/llmd/llmd build/venv/bin/python -m pytest tests/integration -q -ra \
  -p no:cacheprovider "${long[@]}" --junitxml "$results/pytest.xml" 2>&1 | tee "$results/pytest.log" | tail -60

wait $build || { echo "0 passed, 1 failed"; exit 1; }
echo "test: unit tests ($preset); logs in build/$preset/results"
export GTEST_OUTPUT="json:$results/"
ctest --test-dir "build/$preset" -j2 --output-on-failure --timeout 600 --output-junit "$results/ctest.xml" \
  >"$results/ctest.log" 2>&1 || sed -n '/Failed\|FAILED\|ERROR:\|runtime error\|CHECK/p' "$results/ctest.log" | head -80
unset GTEST_OUTPUT

exec build/venv/bin/python scripts/summary.py "$results"
