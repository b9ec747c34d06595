#include "text/tokenizer.h"

#include "segments.h"

#include <array>
#include <utility>

namespace llmd::text {
namespace {

const metric::Definition kBytes = {
    .name = "llmd_tokenizer_bytes_total",
    .kind = metric::Kind::kCounter,
    .help = "Bytes of prompts turned into tokens here, by where the tokens came from.",
    .labels = {"source"},
    .buckets = {},
    .twins = {},
};
const metric::Definition kEvictions = {
    .name = "llmd_tokenizer_cache_evictions_total",
    .kind = metric::Kind::kCounter,
    .help = "Texts whose tokens had to make room for those of others.",
    .labels = {},
    .buckets = {},
    .twins = {},
};
const metric::Definition kCacheBytes = {
    .name = "llmd_tokenizer_cache_bytes",
    .kind = metric::Kind::kGauge,
    .help = "Memory of texts whose tokens are kept.",
    .labels = {},
    .buckets = {},
    .twins = {},
};

}  // namespace

Metrics Metrics::of(metric::Registry& registry) {
  auto& bytes = registry.family(kBytes);
  return {.cached_bytes = bytes.counter(std::array<std::string_view, 1>{"cache"}),
          .encoded_bytes = bytes.counter(std::array<std::string_view, 1>{"engine"}),
          .evictions = registry.family(kEvictions).counter({}),
          .cache_bytes = registry.family(kCacheBytes).gauge({})};
}

struct Tokenizer::State {
  State(std::unique_ptr<Model> m, size_t cache_bytes_max, const Metrics& metrics)
      : model(std::move(m)), segments(*model, cache_bytes_max, metrics) {}
  const std::unique_ptr<Model> model;
  Segments segments;
};

Result<std::unique_ptr<Tokenizer>> Tokenizer::open(const std::string& path, size_t cache_bytes_max,
                                                   const Metrics& metrics) {
  LLMD_TRY_ASSIGN(auto model, Model::open(path));
  auto state = std::make_unique<State>(std::move(model), cache_bytes_max, metrics);
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(state)));
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::~Tokenizer() = default;

Result<Tokens> Tokenizer::encode(std::string_view text, bool framed) const {
  State& s = *state_;
  Tokens out;
  out.reserve(text.size() / 3 + 2);
  if (framed) out = s.model->before();
  LLMD_TRY(s.segments.append(text, out));
  if (framed) out.insert(out.end(), s.model->after().begin(), s.model->after().end());
  return out;
}

Result<std::vector<Tokens>> Tokenizer::prompts(std::string_view body, bool chat) const {
  LLMD_TRY_ASSIGN(const auto prompts, state_->model->read(body, chat));
  std::vector<Tokens> all;
  for (const std::string& text : prompts.texts) {
    LLMD_TRY_ASSIGN(auto tokens, encode(text, prompts.framed));
    all.push_back(std::move(tokens));
  }
  return all;
}

Result<std::string> Tokenizer::render_chat(std::string_view body) const {
  LLMD_TRY_ASSIGN(auto prompts, state_->model->read(body, true));
  return std::move(prompts.texts.front());
}

std::string_view Tokenizer::engine() const {
  return state_->model->engine();
}
bool Tokenizer::has_template() const {
  return state_->model->has_template();
}

}  // namespace llmd::text
