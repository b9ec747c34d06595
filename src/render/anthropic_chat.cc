#include "render/anthropic_chat.h"

#include "json_tree.h"

#include "base/text.h"

#include <span>
#include <utility>

namespace llmd::render {
namespace {

/// Before the billing line that some clients put among the system texts, different in each request.
constexpr std::string_view kBillingHeader = "x-anthropic-billing-header";

std::string_view text_in(const JsonTree& object, std::string_view key) {
  const auto* const value = object.find(key);
  return value && value->kind == JsonTree::Kind::kString ? std::string_view(value->text)
                                                         : std::string_view();
}

/// The elements of a list; none of anything else.
std::span<const JsonTree> items_of(const JsonTree* value) {
  return value && value->kind == JsonTree::Kind::kArray ? std::span<const JsonTree>(value->items)
                                                        : std::span<const JsonTree>();
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(out, text);
  return out + '"';
}

/// Elements of a list that is being written.
class List {
 public:
  void add(std::string_view element) {
    if (!text_.empty()) text_ += ',';
    text_ += element;
    ++size_;
  }
  size_t size() const { return size_; }
  std::string text() const { return "[" + text_ + "]"; }

 private:
  std::string text_;
  size_t size_ = 0;
};

/// A string, or what its text blocks say, without the billing line.
std::string system_text(const JsonTree* content) {
  if (!content) return "";
  if (content->kind == JsonTree::Kind::kString) return content->text;
  std::string out;
  for (const JsonTree& block : items_of(content))
    if (text_in(block, "type") == "text" && !text_in(block, "text").starts_with(kBillingHeader))
      out += text_in(block, "text");
  return out;
}

/// "" for a source without an address and data.
std::string image_part(const JsonTree* source) {
  if (!source) return "";
  std::string url(text_in(*source, "url"));
  if (const auto data = text_in(*source, "data"); url.empty() && !data.empty()) {
    const auto type = text_in(*source, "media_type");
    url =
        "data:" + std::string(type.empty() ? "image/jpeg" : type) + ";base64," + std::string(data);
  }
  return url.empty() ? "" : R"({"type":"image_url","image_url":{"url":)" + quoted(url) + "}}";
}

std::string tool_call(const JsonTree& block) {
  const auto id = text_in(block, "id");
  const auto* const input = block.find("input");
  const bool none = !input || input->kind == JsonTree::Kind::kNull;
  return R"({"id":)" + quoted(id.empty() ? "call_0000000000" : id) +
         R"(,"type":"function","function":{"name":)" + quoted(text_in(block, "name")) +
         R"(,"arguments":)" + quoted(none ? "{}" : input->python()) + "}}";
}

/// What a tool has said: its texts by lines, and its images.
struct ToolResult {
  explicit ToolResult(const JsonTree& block) {
    const auto* const content = block.find("content");
    if (content && content->kind == JsonTree::Kind::kString) text = content->text;
    bool first = true;
    for (const JsonTree& item : items_of(content)) {
      const auto type = text_in(item, "type");
      if (type == "text") {
        if (!std::exchange(first, false)) text += '\n';
        text += text_in(item, "text");
      } else if (type == "image") {
        if (const auto part = image_part(item.find("source")); !part.empty()) images.add(part);
      }
    }
  }
  std::string text;
  List images;
};

/// The messages of the chat that is made.
class Chat {
 public:
  void add_system(const JsonTree* content) {
    if (const auto text = system_text(content); !text.empty())
      messages_.add(R"({"role":"system","content":)" + quoted(text) + "}");
  }

  void add(const JsonTree& message) {
    const auto role = text_in(message, "role");
    const auto* const content = message.find("content");
    if (role == "system") return add_system(content);
    if (content && content->kind == JsonTree::Kind::kString && !content->text.empty()) {
      messages_.add(R"({"role":)" + quoted(role) + R"(,"content":)" + quoted(content->text) + "}");
      return;
    }
    Message made{.role = role};
    for (const JsonTree& block : items_of(content)) add_block(block, made);
    end(made);
  }

  std::string text() const { return messages_.text(); }

 private:
  struct Message {
    std::string_view role;
    List parts;
    std::string last_text;  // as JSON, of the last part; "": that is an image
    List tool_calls;
    std::string reasoning;
  };

  void add_block(const JsonTree& block, Message& made) {
    const auto type = text_in(block, "type");
    if (type == "text") {
      add_text(text_in(block, "text"), made);
    } else if (type == "image") {
      add_image(block.find("source"), made);
    } else if (type == "thinking") {
      made.reasoning += text_in(block, "thinking");
    } else if (type == "tool_use") {
      made.tool_calls.add(tool_call(block));
    } else if (type == "tool_result" && made.role == "user") {
      add_tool_message(block);
    } else if (type == "tool_result") {
      add_text("Tool result: " + ToolResult(block).text, made);
    }
  }

  static void add_text(std::string_view text, Message& made) {
    if (text.empty()) return;
    made.last_text = quoted(text);
    made.parts.add(R"({"type":"text","text":)" + made.last_text + "}");
  }
  static void add_image(const JsonTree* source, Message& made) {
    const auto part = image_part(source);
    if (part.empty()) return;
    made.parts.add(part);
    made.last_text.clear();
  }

  /// Comes before the message of the user that it is part of.
  void add_tool_message(const JsonTree& block) {
    const ToolResult result(block);
    const auto id = text_in(block, "tool_use_id");
    messages_.add(R"({"role":"tool",)" +
                  (id.empty() ? "" : R"("tool_call_id":)" + quoted(id) + ",") + R"("content":)" +
                  quoted(result.text) + "}");
    if (result.images.size() > 0)
      messages_.add(R"({"role":"user","content":)" + result.images.text() + "}");
  }

  void end(const Message& made) {
    const size_t parts = made.parts.size();
    if (made.role == "user" && parts == 0) return;
    std::string out = R"({"role":)" + quoted(made.role);
    if (parts == 1 && !made.last_text.empty())
      out += R"(,"content":)" + made.last_text;
    else if (parts > 0)
      out += R"(,"content":)" + made.parts.text();
    if (made.tool_calls.size() > 0) out += R"(,"tool_calls":)" + made.tool_calls.text();
    if (!made.reasoning.empty()) out += R"(,"reasoning":)" + quoted(made.reasoning);
    messages_.add(out + "}");
  }

  List messages_;
};

std::string tool(const JsonTree& given) {
  std::string out = R"({"type":"function","function":{"name":)" + quoted(text_in(given, "name"));
  const auto* const schema = given.find("input_schema");
  out += R"(,"parameters":)" + (schema && schema->kind != JsonTree::Kind::kNull
                                    ? schema->compact()
                                    : R"({"type":"object"})");
  if (const auto description = text_in(given, "description"); !description.empty())
    out += R"(,"description":)" + quoted(description);
  for (const std::string_view key : {"strict", "defer_loading"})
    if (const auto* const flag = given.find(key); flag && flag->kind == JsonTree::Kind::kBool)
      out += "," + quoted(key) + ":" + flag->text;
  return out + "}}";
}

}  // namespace

Result<std::string> chat_of_messages(std::string_view body, std::string_view model) {
  const auto request = parse_json_tree(body);
  if (!request || request->kind != JsonTree::Kind::kObject)
    return fail(Code::kBadRequest, "the messages request is no JSON object");
  Chat chat;
  chat.add_system(request->find("system"));
  for (const JsonTree& message : items_of(request->find("messages"))) chat.add(message);
  List tools;
  for (const JsonTree& given : items_of(request->find("tools"))) tools.add(tool(given));
  std::string out = R"({"model":)" + quoted(model) + R"(,"messages":)" + chat.text();
  if (tools.size() > 0) out += R"(,"tools":)" + tools.text();
  return out + "}";
}

}  // namespace llmd::render
