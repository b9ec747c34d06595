#include "model.h"

#include "base/file.h"

#include <cstdlib>
#include <filesystem>

namespace llmd::text {
namespace {

constexpr size_t kTokenizerBytesMax = size_t{256} << 20;
constexpr size_t kConfigBytesMax = size_t{16} << 20;

/// The engine's libraries would start a thread for each core. Set before main(), while there is one
/// thread, since the environment has no lock.
[[maybe_unused]] const bool kOneThread = [] {
  for (const char* name : {"FASTOKENS_BPE_THREADS", "RAYON_NUM_THREADS"}) setenv(name, "1", 0);
  setenv("TOKENIZERS_PARALLELISM", "false", 0);
  return true;
}();

TextBytes bytes(std::string_view text) {
  return {text.data(), text.size()};
}

/// What a call of the engine came to.
Status outcome(int32_t code, const TextError& error) {
  if (code == TEXT_OK) return {};
  return fail(code == TEXT_PANIC ? Code::kInternal : Code::kBadRequest, error.text);
}

void append_ids(void* out, const uint32_t* ids, size_t count) {
  auto& tokens = *static_cast<Tokens*>(out);
  tokens.insert(tokens.end(), ids, ids + count);
}

void append_text(void* out, const char* text, size_t size) {
  static_cast<Prompts*>(out)->texts.emplace_back(text, size);
}

/// The file's text; "" where there is none and `optional`.
Result<std::string> text_of(const std::filesystem::path& file, size_t bytes_max, bool optional) {
  auto text = read_file(file, bytes_max);
  if (text) return text;
  if (optional && text.error().code == Code::kNotFound) return "";
  return fail(std::move(text).error().in(file.string()));
}

}  // namespace

Result<std::unique_ptr<Model>> Model::open(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(path, ignored) ? fs::path(path) : fs::path(path).parent_path();
  const fs::path file = folder == fs::path(path) ? folder / "tokenizer.json" : fs::path(path);
  LLMD_TRY_ASSIGN(const auto tokenizer, text_of(file, kTokenizerBytesMax, false));
  LLMD_TRY_ASSIGN(const auto config,
                  text_of(folder / "tokenizer_config.json", kConfigBytesMax, true));
  LLMD_TRY_ASSIGN(const auto chat, text_of(folder / "chat_template.jinja", kConfigBytesMax, true));
  auto model = of(tokenizer, config, chat);
  if (!model) return fail(std::move(model).error().in(folder.string()));
  return model;
}

Result<std::unique_ptr<Model>> Model::of(std::string_view tokenizer, std::string_view config,
                                         std::string_view chat_template) {
  TextModel* model = nullptr;
  TextError error{};
  LLMD_TRY(outcome(
      text_model_open(bytes(tokenizer), bytes(config), bytes(chat_template), &model, &error),
      error));
  return std::unique_ptr<Model>(new Model(model));
}

Model::Model(TextModel* model) : model_(model) {
  struct Frame {
    Tokens &before, &after;
  } frame{before_, after_};
  text_frame(
      model,
      [](void* f, const uint32_t* ids, size_t n) {
        append_ids(&static_cast<Frame*>(f)->before, ids, n);
      },
      [](void* f, const uint32_t* ids, size_t n) {
        append_ids(&static_cast<Frame*>(f)->after, ids, n);
      },
      &frame);
}

Result<Prompts> Model::read(std::string_view body, bool chat) const {
  Prompts prompts;
  TextError error{};
  int32_t framed = 0;
  LLMD_TRY(outcome(
      chat ? text_render_chat(model_.get(), bytes(body), append_text, &prompts, &framed, &error)
           : text_read_prompts(bytes(body), append_text, &prompts, &framed, &error),
      error));
  prompts.framed = framed != 0;
  return prompts;
}

Status Model::encode(std::string_view text, Tokens& out) const {
  TextError error{};
  return outcome(text_encode(model_.get(), bytes(text), append_ids, &out, &error), error);
}

std::vector<size_t> Model::cuts(std::string_view text, size_t apart) const {
  std::vector<size_t> places(text.size() / apart);
  places.resize(text_cuts(model_.get(), bytes(text), apart, places.data(), places.size()));
  return places;
}

}  // namespace llmd::text
