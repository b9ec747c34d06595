#include "bench/chat_stream.h"

#include "base/text.h"

#include <nlohmann/json.hpp>

namespace llmd::bench {
namespace {

bool has_text(const nlohmann::json& object, const char* name) {
  if (!object.is_object()) return false;
  const auto text = object.find(name);
  return text != object.end() && text->is_string() && !text->get_ref<const std::string&>().empty();
}

}  // namespace

void ChatStream::feed(std::string_view bytes, TimePoint now) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    line_.append(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    std::string_view line = line_;
    if (line.starts_with("data:")) on_event(trim(line.substr(5)), now);
    line_.clear();
  }
}

void ChatStream::on_event(std::string_view data, TimePoint now) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const auto event = nlohmann::json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object() || event.contains("error")) {
    failed_ = true;
    return;
  }
  if (const auto usage = event.find("usage"); usage != event.end() && usage->is_object()) {
    prompt_tokens_ = usage->value("prompt_tokens", int64_t{0});
    completion_tokens_ = usage->value("completion_tokens", int64_t{0});
    const auto details = usage->find("prompt_tokens_details");
    if (details != usage->end() && details->is_object())
      cached_tokens_ = details->value("cached_tokens", int64_t{0});
  }
  const auto choices = event.find("choices");
  if (choices == event.end() || !choices->is_array()) return;
  for (const auto& choice : *choices) {
    if (!has_text(choice, "text")) {
      const auto delta = choice.find("delta");
      if (delta == choice.end() || !has_text(*delta, "content")) continue;
    }
    if (!first_content_) first_content_ = now;
    last_content_ = now;
    ++content_events_;
  }
}

}  // namespace llmd::bench
