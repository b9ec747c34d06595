#include "fleet/fleet.h"
#include "fleet/ledger.h"

#include <benchmark/benchmark.h>

#include <string>

namespace llmd::fleet {
namespace {

struct World {
  explicit World(int endpoints) {
    std::vector<EndpointSpec> specs;
    for (int i = 0; i < endpoints; ++i)
      specs.push_back({.name = std::to_string(i), .address = "10.0.0.1", .port = 80});
    fleet.set(std::move(specs));
  }
  Fleet fleet;
  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  std::shared_ptr<void> token = fleet.listen(ledger);
};

void BM_ChargeAndRelease(benchmark::State& state) {
  World w(100);
  const auto snapshot = w.fleet.snapshot();
  size_t i = 0;
  for (auto _ : state) {
    Charge charge = w.ledger->charge(*snapshot->endpoints[i++ % 100], 1, 500);
    w.ledger->release_tokens(charge);
    w.ledger->release(charge);
  }
}
BENCHMARK(BM_ChargeAndRelease);

/// Reading the load of every endpoint, as a scorer does for one request. The argument is their
/// number.
void BM_LoadOfAll(benchmark::State& state) {
  World w(static_cast<int>(state.range(0)));
  const auto snapshot = w.fleet.snapshot();
  for (auto _ : state)
    for (const auto& endpoint : snapshot->endpoints)
      benchmark::DoNotOptimize(w.ledger->load(*endpoint));
}
BENCHMARK(BM_LoadOfAll)->Arg(10)->Arg(1000);

void BM_MetricsSlotLoad(benchmark::State& state) {
  MetricsSlot slot;
  slot.store({.waiting_queue_size = 3});
  for (auto _ : state) benchmark::DoNotOptimize(slot.load());
}
BENCHMARK(BM_MetricsSlotLoad);

}  // namespace
}  // namespace llmd::fleet

BENCHMARK_MAIN();
