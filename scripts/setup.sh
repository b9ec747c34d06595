#!/usr/bin/env bash
# Installs what llmd needs to build, test and be measured, on Debian 12 as root. Idempotent: a second run does nothing
# and takes under a second. Versions are those of Debian 12 plus the pinned Python packages below.
#
#   scripts/setup.sh [build|test|bench|lint]   each level includes the ones before it (lint: build only)
set -euo pipefail
cd "$(dirname "$0")/.."
level=${1:-build}

build_packages=(g++ cmake ninja-build ccache mold pkg-config
  libboost1.81-dev libyaml-cpp-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev libxxhash-dev
  libmimalloc-dev libssl-dev zlib1g-dev)
test_packages=(libgtest-dev libbenchmark-dev libsimdjson-dev python3-venv curl)
bench_packages=(nginx-light wrk)
lint_packages=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev lld-19)
python_packages=(openai==1.109.1 httpx==0.28.1 pytest==8.4.2)

case $level in
  build) packages=("${build_packages[@]}") ;;
  test)  packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  bench) packages=("${build_packages[@]}" "${test_packages[@]}" "${bench_packages[@]}") ;;
  lint)  packages=("${build_packages[@]}" "${test_packages[@]}" "${lint_packages[@]}") ;;
  *) echo "setup: unknown level '$level'; one of build, test, bench, lint" >&2; exit 2 ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: run as root, or install: ${missing[*]}" >&2; exit 1
  fi
  echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
  log=$(mktemp)
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
    { tail -30 "$log" >&2; echo "setup: apt-get failed; full log in $log" >&2; exit 1; }
  rm -f "$log"
fi

if [ "$level" = test ] || [ "$level" = bench ]; then
  stamp=build/venv/.$(printf '%s\n' "${python_packages[@]}" | md5sum | cut -c1-12)
  if [ ! -e "$stamp" ]; then
    echo "setup: creating build/venv with ${python_packages[*]}"
    rm -rf build/venv
    python3 -m venv build/venv
    build/venv/bin/pip install -q --disable-pip-version-check "${python_packages[@]}"
    touch "$stamp"
  fi
fi
