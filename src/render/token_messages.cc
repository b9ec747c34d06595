#include "render/token_messages.h"

#include "base/text.h"
#include "codec/protobuf.h"

#include <nlohmann/json.hpp>

#include <array>
#include <vector>

namespace llmd::render {
namespace {

using codec::proto_bytes;
using codec::proto_varint;
using codec::ProtoReader;
using codec::ProtoWriter;
using nlohmann::json;
std::unexpected<Error> malformed(const char* what) {
  return fail(Code::kBadRequest, std::string("malformed ") + what);
}

/// The body of a request, written field by field, since text goes through as it came.
class Body {
 public:
  /// A member of an object.
  Body& key(std::string_view name) {
    text_ += text_.back() == '{' ? "\"" : ",\"";
    text_ += name;
    text_ += "\":";
    return *this;
  }
  void string(std::string_view value) {
    text_ += '"';
    append_json_escaped(text_, value);
    text_ += '"';
  }
  void boolean(bool value) { text_ += value ? "true" : "false"; }
  void raw(std::string_view text) { text_ += text; }
  /// A member of a list.
  void next() {
    if (text_.back() != '[') text_ += ',';
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// An image has no text, whatever its URL.
bool read_part(std::string_view message, Body& body) {
  ProtoReader reader(message);
  body.raw("{");
  while (reader.next()) {
    if (reader.key() == proto_bytes(1)) body.key("type").string(reader.bytes());
    if (reader.key() == proto_bytes(2)) body.key("text").string(reader.bytes());
    if (reader.key() == proto_bytes(3)) body.key("image_url").raw("{}");
  }
  body.raw("}");
  return reader.ok();
}

bool read_message(std::string_view message, Body& body) {
  std::string_view role, content, calls;
  bool has_content = false;
  std::vector<std::string_view> parts;
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_bytes(1)) role = reader.bytes();
    if (reader.key() == proto_bytes(2)) {
      content = reader.bytes();
      has_content = true;
    }
    if (reader.key() == proto_bytes(3)) parts.push_back(reader.bytes());
    if (reader.key() == proto_bytes(4)) calls = reader.bytes();
  }
  if (!reader.ok() || (!calls.empty() && !json::accept(calls))) return false;
  body.raw("{");
  body.key("role").string(role);
  if (!parts.empty()) {
    body.key("content").raw("[");
    for (const auto part : parts) {
      body.next();
      if (!read_part(part, body)) return false;
    }
    body.raw("]");
  } else if (has_content) {
    body.key("content").string(content);
  }
  if (!calls.empty()) body.key("tool_calls").raw(calls);
  body.raw("}");
  return true;
}

Asked completion(std::string_view model, std::string_view prompt, bool framed) {
  Body body;
  body.raw("{");
  body.key("prompt").string(prompt);
  body.key("add_special_tokens").boolean(framed);
  body.raw("}");
  return {.model = std::string(model), .chat = false, .body = body.take()};
}

void write_outcome(ProtoWriter& writer, uint32_t success, const Error* error) {
  writer.varint(success, error ? 0 : 1);
  if (error) writer.bytes(success + 1, error->message);
}

void write_ids(ProtoWriter& writer, uint32_t field, const Rendered& prompts) {
  if (!prompts || prompts->empty()) return;
  std::string packed;
  std::array<char, 10> space;
  for (const uint32_t id : prompts->front().token_ids)
    packed.append(space.data(),
                  static_cast<size_t>(codec::put_varint(space.data(), id) - space.data()));
  if (!packed.empty()) writer.bytes(field, packed);
}

}  // namespace

Result<Asked> read_tokenize(std::string_view message) {
  std::string_view input, model;
  bool framed = false;
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_bytes(1)) input = reader.bytes();
    if (reader.key() == proto_bytes(2)) model = reader.bytes();
    if (reader.key() == proto_varint(3)) framed = reader.number() != 0;
  }
  if (!reader.ok()) return malformed("TokenizeRequest");
  return completion(model, input, framed);
}

Result<Asked> read_completion(std::string_view message) {
  std::string_view model, prompt;
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_bytes(1)) model = reader.bytes();
    if (reader.key() == proto_bytes(2)) prompt = reader.bytes();
  }
  if (!reader.ok()) return malformed("RenderCompletionRequest");
  return completion(model, prompt, true);
}

Result<Asked> read_chat(std::string_view message) {
  Body body;
  std::string_view model, tools, chat_template, options;
  bool generate = true, resume = false;
  body.raw("{");
  body.key("messages").raw("[");
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_bytes(1)) model = reader.bytes();
    if (reader.key() == proto_bytes(2)) {
      body.next();
      if (!read_message(reader.bytes(), body)) return malformed("ChatMessage");
    }
    if (reader.key() == proto_bytes(3)) tools = reader.bytes();
    if (reader.key() == proto_bytes(4)) chat_template = reader.bytes();
    if (reader.key() == proto_varint(5)) generate = reader.number() != 0;
    if (reader.key() == proto_varint(6)) resume = reader.number() != 0;
    if (reader.key() == proto_bytes(7)) options = reader.bytes();
  }
  if (!reader.ok()) return malformed("RenderChatCompletionRequest");
  body.raw("]");
  if (!tools.empty()) {
    if (!json::accept(tools)) return malformed("tools_json");
    body.key("tools").raw(tools);
  }
  if (!options.empty()) {
    if (!json::accept(options)) return malformed("chat_template_kwargs");
    body.key("chat_template_kwargs").raw(options);
  }
  if (!chat_template.empty()) body.key("chat_template").string(chat_template);
  body.key("add_generation_prompt").boolean(generate);
  body.key("continue_final_message").boolean(resume);
  body.raw("}");
  return Asked{.model = std::string(model), .chat = true, .body = body.take()};
}

Result<std::string> read_initialize(std::string_view message) {
  std::string_view model;
  ProtoReader reader(message);
  while (reader.next())
    if (reader.key() == proto_bytes(1)) model = reader.bytes();
  if (!reader.ok()) return malformed("InitializeTokenizerRequest");
  return std::string(model);
}

std::string write_answer(const TokenMethod& method, std::string_view id, const Rendered& prompts) {
  std::string out;
  ProtoWriter writer(out);
  if (method.id != 0) writer.bytes(method.id, id);
  write_ids(writer, method.ids, prompts);
  write_outcome(writer, method.success, prompts ? nullptr : &prompts.error());
  return out;
}

std::string write_initialized(const Status& outcome) {
  std::string out;
  ProtoWriter writer(out);
  write_outcome(writer, 1, outcome ? nullptr : &outcome.error());
  return out;
}

}  // namespace llmd::render
