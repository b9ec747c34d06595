#!/usr/bin/env bash
# Keeps a simulated fleet and a router up until Ctrl-C or SIGTERM. Both processes are told by the kernel to end when this
# script dies for any reason, so nothing is left behind.
#
#   scripts/run.sh LLMD [replicas]      ports: PORT (8080), METRICS_PORT (9090), SIM_PORT (8000)
set -euo pipefail
cd "$(dirname "$0")/.."
llmd=$1
replicas=${2:-4}
port=${PORT:-8080}
metrics_port=${METRICS_PORT:-9090}
sim_port=${SIM_PORT:-8000}
model=sim-model
mkdir -p build/run

children=()  # the servers, then the router
stop() {
  trap - EXIT
  trap 'kill -KILL "${children[@]}" 2>/dev/null' INT TERM
  echo
  echo "run: stopping; open streams may take 5 s to end, another Ctrl-C breaks them off"
  # The router first, as of Ctrl-C, so that its streams can end while the servers still serve.
  for ((i = ${#children[@]} - 1; i >= 0; i--)); do
    kill -INT "${children[i]}" 2>/dev/null || true
    while kill -0 "${children[i]}" 2>/dev/null; do wait "${children[i]}" 2>/dev/null || true; done
  done
  echo "run: stopped"
}
show_logs() { for log in build/run/*.log; do tail -n 5 "$log"; done >&2; }
trap stop EXIT
trap 'exit 0' INT TERM

start() {  # start NAME COMMAND...: in the background, output in build/run/NAME.log
  local name=$1
  shift
  # A new session shields the process from the terminal's Ctrl-C: this script stops both in order.
  setpriv --pdeathsig TERM setsid "$@" >"build/run/$name.log" 2>&1 &
  children+=($!)
}

start sim "$llmd" sim --host 127.0.0.1 --port "$sim_port" --replicas "$replicas" --model "$model" --max-model-len 32768 --max-num-seqs 16 \
  --prefill-overhead 30ms --prefill-time-per-token 250us --inter-token-latency 12ms --enable-kvcache --kv-cache-size 8192
endpoints=()
for ((i = 0; i < replicas; i++)); do endpoints+=(--endpoint "http://127.0.0.1:$((sim_port + i))"); done
start router "$llmd" router --host 127.0.0.1 --port "$port" --metrics-host 127.0.0.1 --metrics-port "$metrics_port" \
  --config-file deploy/examples/prefix-aware.yaml --refresh-metrics-interval 1s --drain-timeout 0 "${endpoints[@]}"

for _ in $(seq 100); do
  for child in "${children[@]}"; do
    kill -0 "$child" 2>/dev/null || { show_logs; echo "run: a process ended early" >&2; exit 1; }
  done
  curl -sf -o /dev/null "http://127.0.0.1:$metrics_port/readyz" && break
  sleep 0.1
done

cat <<TEXT
llmd is up: $replicas simulated servers on ports $sim_port-$((sim_port + replicas - 1)), logs in build/run/

  API       http://127.0.0.1:$port/v1      (model: $model, any API key)
  page      http://127.0.0.1:$metrics_port/        (servers, decisions, plugins)
  metrics   http://127.0.0.1:$metrics_port/metrics

  curl -N http://127.0.0.1:$port/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{"model":"$model","stream":true,"max_tokens":32,"messages":[{"role":"user","content":"Hello, who are you?"}]}'

Ctrl-C stops everything.
TEXT
wait -n "${children[@]}" || true
show_logs
echo "run: a process ended" >&2
exit 1
