#pragma once

#include "base/executor.h"
#include "base/mutex.h"
#include "route/director.h"
#include "schedule/pipeline.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

/// For tests of sessions and front ends: the least pipeline that routes (any body, a random
/// endpoint), and an executor that runs when it is told to.
namespace llmd::route::testing {

class StepExecutor final : public Executor {
 public:
  void post(std::move_only_function<void()> work) override { queue_.push_back(std::move(work)); }
  void run() {
    while (!queue_.empty()) {
      auto work = std::move(queue_.front());
      queue_.pop_front();
      work();
    }
  }

 private:
  std::deque<std::move_only_function<void()>> queue_;
};

enum class Body : uint8_t { kOpaque, kIsTheModel };

/// Accepts any body whose text is not "bad".
class AnyBodyParser final : public request::Parser {
  struct Scan final : request::BodyScan {
    explicit Scan(Body b) : meaning(b) {}
    void feed(std::string_view) override {}
    Result<request::RequestView> finish(std::string_view body) override {
      if (body == "bad") return fail(Code::kBadRequest, "unreadable");
      request::RequestView view;
      if (meaning == Body::kIsTheModel) view.model = body;
      view.rewritable = meaning == Body::kIsTheModel;
      return view;
    }
    const Body meaning;
  };

 public:
  explicit AnyBodyParser(Body meaning) : meaning_(meaning) {}

  std::span<const std::string_view> path_suffixes() const override { return {}; }
  request::BodyScan* scan_request(const request::Head&, Arena& arena) const override {
    return arena.make<Scan>(meaning_);
  }
  request::UsageScan* scan_response(std::string_view, bool, Arena&) const override {
    return nullptr;
  }

 private:
  const Body meaning_;
};

class OnlyProfile final : public schedule::ProfileHandler {
 public:
  Status bind(std::span<const std::string>) override { return {}; }
  size_t next(schedule::RequestContext& c, std::span<uint16_t> run) const override {
    if (c.results[0].ran) return 0;
    run[0] = 0;
    return 1;
  }
  Status finish(schedule::RequestContext& c) const override {
    if (c.results[0].failed) return fail(Code::kResourceExhausted, "none left");
    c.primary = 0;
    return {};
  }
};

class AnyPicker final : public schedule::Picker {
 public:
  size_t pick(schedule::RequestContext& c, std::span<const uint32_t> selected,
              std::span<const double>, std::span<uint32_t> picked) const override {
    picked[0] = selected[c.rng.below(selected.size())];
    return 1;
  }
};

/// Evicts the request that was sent last. Threading: any.
class Evictor final : public schedule::PreRequest {
 public:
  Status pre_request(schedule::RequestContext& c) const override {
    const MutexLock lock(mutex_);
    last_ = c.eviction();
    return {};
  }
  void evict() const {
    const MutexLock lock(mutex_);
    last_();
  }

 private:
  mutable Mutex mutex_;
  mutable schedule::Signal last_ LLMD_GUARDED_BY(mutex_);
};

/// Gives the pipeline a plugin to keep.
template <class T>
T* own(schedule::Pipeline& pipeline, std::unique_ptr<T> plugin) {
  T* const raw = plugin.get();
  pipeline.plugins.push_back(std::move(plugin));
  return raw;
}

inline std::shared_ptr<schedule::Pipeline> trivial_pipeline(Body body = Body::kOpaque) {
  auto pipeline = std::make_shared<schedule::Pipeline>();
  const request::Parser* parsers[] = {own(*pipeline, std::make_unique<AnyBodyParser>(body))};
  pipeline->parsers = request::ParserTable(parsers);
  pipeline->handler.plugin = own(*pipeline, std::make_unique<OnlyProfile>());
  schedule::Profile profile;
  profile.name = "default";
  profile.picker.plugin = own(*pipeline, std::make_unique<AnyPicker>());
  pipeline->profiles.push_back(std::move(profile));
  pipeline->outline = schedule::outline_of(*pipeline);
  return pipeline;
}

inline std::vector<fleet::EndpointSpec> endpoints_at(std::initializer_list<uint16_t> ports) {
  std::vector<fleet::EndpointSpec> specs;
  for (const uint16_t port : ports)
    specs.push_back({.name = "e" + std::to_string(port), .address = "127.0.0.1", .port = port});
  return specs;
}

}  // namespace llmd::route::testing
