#!/usr/bin/env bash
# Builds the binary that is released, build/dist/llmd: the release build, rearranged by BOLT with a profile of a router and
# of a picker at work, so that what runs together lies together and a request touches fewer lines and pages. Adds a few minutes to the
# release build; does nothing when the result is up to date.
#
#   scripts/dist.sh
set -euo pipefail
cd "$(dirname "$0")/.."
input=build/release/apps/llmd/llmd_relocatable
out=build/dist
bolt=/usr/lib/llvm-19/bin
# Branches taken less often in the recorded run count as never taken: start-up, mostly.
rare=20

scripts/build.sh release llmd_relocatable
if [ "$out/llmd" -nt "$input" ] && [ "$out/llmd" -nt scripts/dist.sh ] && [ "$out/llmd" -nt scripts/dist_train.py ]; then
  echo "dist: $out/llmd is up to date"
  exit
fi
rm -rf "$out"
mkdir -p "$out"
exec 3>&1 >"$out/log" 2>&1
trap '[ $? -eq 0 ] || { tail -20 "$out/log"; echo "dist: failed, see $out/log"; } >&3' EXIT
echo "dist: recording a profile" >&3
"$bolt/llvm-bolt" -instrument "$input" -o "$out/instrumented" --instrumentation-file="$PWD/$out/profile" \
  --instrumentation-file-append-pid
build/venv/bin/python scripts/dist_train.py "$input" "$out/instrumented"
"$bolt/merge-fdata" "$out"/profile.*.fdata -o "$out/profile"
awk -v rare="$rare" 'NF < 6 || $NF >= rare' "$out/profile" >"$out/profile.frequent"
echo "dist: rearranging" >&3
"$bolt/llvm-bolt" "$input" -o "$out/llmd.part" --data="$out/profile.frequent" -reorder-blocks=ext-tsp -reorder-functions=cdsort \
  -split-functions -split-all-cold -split-eh -icf=1 -plt=hot -inline-small-functions -frame-opt=hot -peepholes=all
mv "$out/llmd.part" "$out/llmd"
rm "$out/instrumented"
echo "dist: built $out/llmd" >&3
