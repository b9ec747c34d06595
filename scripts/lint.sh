#!/usr/bin/env bash
# Formatting and clang-tidy over every source file of the project, or over the files given.
#
#   scripts/lint.sh [--fix] [FILE...]      --fix rewrites formatting instead of checking it
set -uo pipefail
cd "$(dirname "$0")/.."
fix=0
[ "${1:-}" = --fix ] && { fix=1; shift; }
if [ $# -gt 0 ]; then files=("$@"); else mapfile -t files < <(git ls-files 'src/*.cc' 'src/*.h' 'apps/*.cc' 'apps/*.h' 'tests/*.cc' 'tests/*.h'); fi

if [ $fix = 1 ]; then exec clang-format-19 -i "${files[@]}"; fi
clang-format-19 --dry-run --Werror "${files[@]}" 2>&1 | grep -E 'error:' | cut -d: -f1 | sort | uniq -c
[ "${PIPESTATUS[0]}" = 0 ]; format=$?
[ $format = 0 ] || echo "lint: formatting differs; run make format" >&2

mkdir -p build
cmake --preset lint >build/lint.configure.log 2>&1 || { tail -20 build/lint.configure.log >&2; exit 1; }
mapfile -t sources < <(printf '%s\n' "${files[@]}" | grep '\.cc$')
# Only files of the compilation database can be checked; a fuzz target is built by its own preset.
printf '%s\n' "${sources[@]}" | grep -v '_fuzz\.cc$' |
  xargs -P "$(nproc)" -n 2 clang-tidy-19 -p build/lint --quiet --warnings-as-errors='*' >build/lint.log 2>build/lint.err
tidy=$?
grep -E '(warning|error):' build/lint.log | sort -u
[ $tidy = 0 ] || echo "lint: clang-tidy found faults; full text in build/lint.log, build/lint.err" >&2
[ $format = 0 ] && [ $tidy = 0 ] && echo "lint: clean (${#files[@]} files)"
