#pragma once

#include "base/result.h"
#include "text/tokenizer.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <text_engine.h>
#include <vector>

namespace llmd::text {

/// The texts of a request, and whether the tokens that begin and end a sequence go around each.
struct Prompts {
  std::vector<std::string> texts;
  bool framed = false;
};

/// A model of the text engine. Immutable. Threading: any.
class Model {
 public:
  /// See Tokenizer::open().
  static Result<std::unique_ptr<Model>> open(const std::string& path);
  /// Of the texts of its files; all but the first may be "".
  static Result<std::unique_ptr<Model>> of(std::string_view tokenizer, std::string_view config,
                                           std::string_view chat_template);

  Result<Prompts> read(std::string_view body, bool chat) const;
  /// Appends the tokens of a text without its frame.
  Status encode(std::string_view text, Tokens& out) const;
  /// See text_cuts().
  std::vector<size_t> cuts(std::string_view text, size_t apart) const;

  const Tokens& before() const { return before_; }
  const Tokens& after() const { return after_; }
  std::string_view engine() const { return text_model_engine(model_.get()); }
  bool has_template() const { return text_model_has_template(model_.get()) != 0; }

 private:
  struct Close {
    void operator()(TextModel* model) const { text_model_close(model); }
  };
  explicit Model(TextModel* model);

  const std::unique_ptr<TextModel, Close> model_;
  Tokens before_, after_;
};

}  // namespace llmd::text
