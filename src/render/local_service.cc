#include "render/local_service.h"

#include "calls.h"

#include "base/mutex.h"
#include "fetch/questions.h"
#include "text/tokenizer.h"

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace llmd::render {
namespace {

using TokenizerPtr = std::shared_ptr<const text::Tokenizer>;

/// Names a model as its files are now.
std::string key_of(const LocalModel& model) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path path(model.path);
  const fs::path folder = fs::is_directory(path, error) ? path : path.parent_path();
  std::string key = model.path + '\n' + std::to_string(model.cache_bytes_max);
  for (const char* file : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"})
    key +=
        '\n' + std::to_string(fs::last_write_time(folder / file, error).time_since_epoch().count());
  return key;
}

Rendered render(const text::Tokenizer& tokenizer, const Question& question) {
  LLMD_TRY_ASSIGN(auto texts, tokenizer.prompts(question.body, question.chat));
  std::vector<RenderedPrompt> prompts;
  for (auto& tokens : texts) prompts.push_back({.token_ids = std::move(tokens), .media = {}});
  return prompts;
}

}  // namespace

struct LocalService::State {
  struct Work {
    uint64_t ticket = 0;
    TokenizerPtr tokenizer;
    Question question;
    TimePoint deadline;
  };

  State(const Clock& c, metric::Registry& metrics)
      : clock(c), text_metrics(text::Metrics::of(metrics)), counted(Calls::of(metrics)) {}

  Result<uint64_t> ask(const TokenizerPtr& tokenizer, Question question, schedule::Signal resume) {
    const TimePoint now = clock.now();
    const MutexLock lock(mutex);
    if (stopped) return fail(Code::kServiceUnavailable, "tokenizers have stopped");
    const size_t bytes = waiting_bytes + question.body.size();
    const auto ticket =
        bytes <= kWaitingBytesMax ? questions.ask(std::move(resume), now) : std::nullopt;
    if (!ticket) return fail(Code::kResourceExhausted, "too many prompts are being rendered");
    waiting_bytes = bytes;
    const TimePoint deadline = now + question.timeout;
    waiting.push_back({*ticket, tokenizer, std::move(question), deadline});
    wake.notify_one();
    return *ticket;
  }

  /// The work that has waited longest; nothing when there is none and, if `wait`, the service ends.
  std::optional<Work> next(bool wait) {
    const MutexLock lock(mutex);
    while (wait && waiting.empty() && !stopped) wake.wait(mutex);
    if (waiting.empty() || stopped) return std::nullopt;
    auto work = std::move(waiting.front());
    waiting.pop_front();
    waiting_bytes -= work.question.body.size();
    return work;
  }

  bool run_one(bool wait) {
    const auto work = next(wait);
    if (!work) return false;
    const bool late = clock.now() > work->deadline;
    auto outcome = late ? Rendered(fail(Code::kServiceUnavailable, "no answer in time"))
                        : render(*work->tokenizer, work->question);
    counted.of(outcome.has_value()).add();
    questions.answer(work->ticket, std::move(outcome), clock.now());
    return true;
  }

  const Clock& clock;
  const text::Metrics text_metrics;
  const Calls counted;
  fetch::Questions<Rendered> questions{kQuestionsMax};

  Mutex mutex;
  std::condition_variable_any wake;
  std::deque<Work> waiting LLMD_GUARDED_BY(mutex);
  size_t waiting_bytes LLMD_GUARDED_BY(mutex) = 0;  // of bodies
  bool stopped LLMD_GUARDED_BY(mutex) = false;

  Mutex opening;  // one at a time
  std::map<std::string, std::weak_ptr<const text::Tokenizer>> tokenizers LLMD_GUARDED_BY(opening);

  std::vector<std::thread> threads;
};

class LocalService::OfModel final : public PromptRenderer {
 public:
  OfModel(std::shared_ptr<State> state, TokenizerPtr tokenizer)
      : state_(std::move(state)), tokenizer_(std::move(tokenizer)) {}

  Result<uint64_t> ask(Question question, schedule::Signal resume) override {
    return state_->ask(tokenizer_, std::move(question), std::move(resume));
  }
  Rendered take(uint64_t ticket) override {
    auto outcome = state_->questions.take(ticket);
    if (!outcome) return fail(Code::kInternal, "there is no rendered prompt");
    return std::move(*outcome);
  }

 private:
  const std::shared_ptr<State> state_;
  const TokenizerPtr tokenizer_;
};

LocalService::LocalService(size_t threads, const Clock& clock, metric::Registry& metrics)
    : state_(std::make_shared<State>(clock, metrics)) {
  for (size_t i = 0; i < threads; ++i)
    state_->threads.emplace_back([&state = *state_] {
      while (state.run_one(true)) {
      }
    });
}

LocalService::~LocalService() {
  stop();
}

Result<std::shared_ptr<PromptRenderer>> LocalService::of(const LocalModel& model) {
  const MutexLock lock(state_->opening);
  std::erase_if(state_->tokenizers, [](const auto& one) { return one.second.expired(); });
  auto& known = state_->tokenizers[key_of(model)];
  TokenizerPtr tokenizer = known.lock();
  if (!tokenizer) {
    LLMD_TRY_ASSIGN(tokenizer,
                    text::Tokenizer::open(model.path, model.cache_bytes_max, state_->text_metrics));
    known = tokenizer;
  }
  return std::make_shared<OfModel>(state_, std::move(tokenizer));
}

void LocalService::stop() {
  {
    const MutexLock lock(state_->mutex);
    state_->stopped = true;
    state_->wake.notify_all();
  }
  for (auto& thread : std::exchange(state_->threads, {})) thread.join();
}

bool LocalService::run_one() {
  return state_->run_one(false);
}

}  // namespace llmd::render
