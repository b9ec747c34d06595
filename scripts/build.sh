#!/usr/bin/env bash
# Configures and builds one preset; quiet unless something fails.
#
#   scripts/build.sh PRESET [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
mkdir -p build
log=build/$preset.configure.log
cmake --preset "$preset" >"$log" 2>&1 || { tail -40 "$log" >&2; echo "build: configuring failed, see $log" >&2; exit 1; }
# One line that is rewritten on a terminal; elsewhere a line every few seconds shows that the build is alive.
log=build/$preset.build.log
if [ -t 1 ]; then
  NINJA_STATUS="build $preset [%f/%t] " cmake --build "build/$preset" -- -j "${JOBS:-$(nproc)}" "$@"
else
  NINJA_STATUS="[%f/%t %es] " cmake --build "build/$preset" -- -j "${JOBS:-$(nproc)}" "$@" >"$log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$pid" 2>/dev/null || break; sleep 1; done
    last=$(grep -o '^\[[^]]*\]' "$log" | tail -1 || true)
    kill -0 "$pid" 2>/dev/null && echo "build: $preset $last"
  done
  wait "$pid" || { grep -v '^\[' "$log" | tail -60 >&2; echo "build: failed, see $log" >&2; exit 1; }
  echo "build: $preset is up to date"
fi
