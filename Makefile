# Everyday commands. `make` alone lists them; the build itself is CMake with the presets of CMakePresets.json.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build dist demo demo-flow replay-flow flow-isolation run test test-all streams long-prompts slow-clients soak replay test-vllm bench lint format fuzz fuzz-long docs clean

JOBS ?= $(shell nproc)
SECONDS_PER_TARGET ?= 300
LLMD := build/release/apps/llmd/llmd

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: ## Install the Debian packages that build, tests, benchmarks and lint need (as root)
	@scripts/setup.sh bench
	@scripts/setup.sh lint

build: ## Build the release binary, build/release/apps/llmd/llmd
	@scripts/setup.sh build
	@scripts/build.sh release

dist: ## Build the binary that is released, build/dist/llmd: the release build, rearranged by a profile
	@scripts/setup.sh dist
	@scripts/dist.sh

demo: build ## Replay the prefix-cache experiment on two simulated servers (about 90 s)
	@mkdir -p build/demo
	@$(LLMD) demo

demo-flow: build ## Replay a saturated fleet with and without flow control (about 80 s)
	@mkdir -p build/demo-flow
	@$(LLMD) demo-flow

CODE_TRACE ?= ../shared/data/traces/AzureLLMInferenceTrace_code.csv
replay-flow: build ## Replay the Azure code trace (CODE_TRACE=FILE) on 8 simulated servers with and without flow control (3 minutes)
	@test -r $(CODE_TRACE) || { echo "replay-flow: there is no trace $(CODE_TRACE); give its path (CODE_TRACE=…): AzureLLMInferenceTrace_code.csv of AzurePublicDataset" >&2; exit 1; }
	@mkdir -p build/replay-flow
	@$(LLMD) demo-flow --trace $(CODE_TRACE) --out build/replay-flow

flow-isolation: build ## Measure interactive requests alone and beside a saturating batch (about 4 minutes)
	@mkdir -p build/flow-isolation
	@$(LLMD) demo-flow --beside-batch --out build/flow-isolation

run: build ## Keep a simulated fleet and a router up until Ctrl-C
	@exec setpriv --pdeathsig TERM scripts/run.sh $(LLMD)

test: ## Build with ASan and UBSan, run unit and integration tests
	@scripts/setup.sh test
	@scripts/test.sh asan

test-all: ## The same, then again under TSan with the longer checks
	@scripts/setup.sh test
	@scripts/test.sh asan --long
	@scripts/test.sh tsan --long

streams: build ## Hold 9 000 slow streams open at once through one router
	@scripts/setup.sh test
	@LLMD_BINARY=$(LLMD) build/venv/bin/python tests/integration/many_streams.py

slow-clients: build ## Serve good traffic beside 2 000 slow clients, and compare
	@scripts/slow_clients.py --llmd $(LLMD)

long-prompts: build ## Route prompts of 100 000 tokens by exact tokens: cores and memory
	@scripts/setup.sh test
	@LLMD_BINARY=$(LLMD) build/venv/bin/python tests/integration/long_prompts.py

SOAK_MINUTES ?= 30
SOAK_REQUESTS ?= 2000000
soak: build ## Run both front ends under mixed faults, SOAK_MINUTES=30 SOAK_REQUESTS=2000000
	@scripts/setup.sh bench
	@LLMD_BINARY=$(LLMD) build/venv/bin/python tests/integration/soak.py $(SOAK_MINUTES) $(SOAK_REQUESTS)

TRACE ?= ../shared/data/traces/conversation_trace.jsonl
replay: build ## Replay a trace (TRACE=FILE) on 8 simulated servers with the approximate and the precise prefix cache, behind one router and two (12 minutes)
	@scripts/setup.sh test
	@LLMD_BINARY=$(LLMD) build/venv/bin/python scripts/replay.py $(TRACE)

test-vllm: build ## Route two real vLLM servers (CPU, a tiny model) and compare promised with reported cached tokens (2.5 GB, 15 minutes)
	@scripts/setup.sh vllm
	@LLMD_BINARY=$(LLMD) build/venv/bin/python scripts/test_vllm.py $(VLLM_FLAGS)

bench: ## Build and run the micro-benchmarks
	@scripts/setup.sh bench
	@scripts/build.sh bench benches
	@scripts/bench.sh

lint: ## Check formatting and run clang-tidy
	@scripts/setup.sh lint
	@scripts/lint.sh

format: ## Rewrite the sources in the project's format
	@scripts/setup.sh lint
	@scripts/lint.sh --fix

fuzz: ## Run every fuzz target, SECONDS_PER_TARGET=300 each
	@scripts/setup.sh lint
	@scripts/build.sh fuzz fuzzers
	@scripts/fuzz.sh $(SECONDS_PER_TARGET)

fuzz-long: ## The same without end, ten minutes a target in turn, until a finding or Ctrl-C
	@scripts/setup.sh lint
	@scripts/build.sh fuzz fuzzers
	@while scripts/fuzz.sh 600; do :; done

docs: build ## Write the plugin reference page from the parameter tables
	@$(LLMD) check --plugins-reference > docs/plugins.md

clean: ## Remove build outputs, keeping the Python environments
	@find build -mindepth 1 -maxdepth 1 ! -name venv ! -name vllm -exec rm -rf {} + 2>/dev/null || true
