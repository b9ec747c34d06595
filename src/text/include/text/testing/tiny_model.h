#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace llmd::text::testing {

/// The files of a model whose tokens are bytes: id = byte, but for three markers. Its chats are
/// "<|im_start|>ROLE\nCONTENT<|im_end|>\n" for each message; sequences begin with <s>.
class TinyModel {
 public:
  static constexpr uint32_t kBegin = 256, kStart = 257, kEnd = 258;

  TinyModel() {
    std::filesystem::create_directories(folder_);
    write("tokenizer.json", tokenizer());
    write("tokenizer_config.json", config());
  }
  ~TinyModel() { std::filesystem::remove_all(folder_); }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;

  /// Of its files.
  static std::string tokenizer() { return tokenizer_json().dump(); }
  static std::string config() { return nlohmann::json{{"chat_template", kTemplate}}.dump(); }

  std::string folder() const { return folder_; }
  void write(const std::string& file, const std::string& text) const {
    std::ofstream(folder_ / file, std::ios::binary) << text;
  }

 private:
  static constexpr auto kTemplate =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

  /// What stands for a byte in vocabularies over bytes: itself where it can be seen, else a letter
  /// from U+0100 on.
  static std::string letter(int byte) {
    const auto seen = [](int b) {
      return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
    };
    int code = byte;
    if (!seen(byte)) {
      code = 256;
      for (int b = 0; b < byte; ++b) code += seen(b) ? 0 : 1;
    }
    if (code < 128) return std::string(1, static_cast<char>(code));
    return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  }

  static nlohmann::json tokenizer_json() {
    using nlohmann::json;
    json vocab;
    for (int byte = 0; byte < 256; ++byte) vocab[letter(byte)] = byte;
    json added = json::array();
    for (const auto& [id, text] : std::vector<std::pair<uint32_t, std::string>>{
             {kBegin, "<s>"}, {kStart, "<|im_start|>"}, {kEnd, "<|im_end|>"}})
      added.push_back({{"id", id},
                       {"content", text},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", true}});
    const json sequence = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    const json begin = {{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}};
    const json begin_ids = {{"id", "<s>"}, {"ids", {kBegin}}, {"tokens", {"<s>"}}};
    const json byte_level = {{"type", "ByteLevel"},
                             {"add_prefix_space", false},
                             {"trim_offsets", true},
                             {"use_regex", true}};
    return {{"version", "1.0"},
            {"added_tokens", added},
            {"normalizer", nullptr},
            {"pre_tokenizer", byte_level},
            {"post_processor",
             {{"type", "TemplateProcessing"},
              {"single", {begin, sequence}},
              {"pair", {begin, sequence, sequence}},
              {"special_tokens", {{"<s>", begin_ids}}}}},
            {"decoder", byte_level},
            {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", json::array()}}}};
  }

  static inline int count_ = 0;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      ("model-" + std::to_string(::getpid()) + "-" + std::to_string(++count_));
};

}  // namespace llmd::text::testing
