#include "json_tree.h"

#include "codec/protobuf.h"
#include "render/token_messages.h"

#include <algorithm>
#include <array>
#include <utility>

/// The side that asks.
namespace llmd::render {
namespace {

using codec::proto_bytes;
using codec::proto_varint;
using codec::ProtoReader;
using codec::ProtoWriter;
using Kind = JsonTree::Kind;

constexpr size_t kErrorBytesMax = 1024;  // of an answer, that are told
constexpr const char* kMalformed = "malformed answer of the tokenization service";

/// A string member; "" where it is none.
std::string_view text_of(const JsonTree& object, std::string_view key) {
  const JsonTree* value = object.find(key);
  return value && value->kind == Kind::kString ? value->text : std::string_view();
}

bool flag_of(const JsonTree& object, std::string_view key, bool otherwise) {
  const JsonTree* value = object.find(key);
  return value && value->kind == Kind::kBool ? value->text == "true" : otherwise;
}

/// A member as JSON, unless it has nothing to say.
void write_json(ProtoWriter& writer, uint32_t field, const JsonTree& object, std::string_view key) {
  const JsonTree* value = object.find(key);
  if (value && (!value->items.empty() || !value->members.empty()))
    writer.bytes(field, value->compact());
}

Status write_part(ProtoWriter& writer, const JsonTree& part) {
  const auto type = text_of(part, "type");
  if (type != "text" && type != "image_url")
    return fail(Code::kBadRequest,
                "content of type '" + std::string(type) + "' has no place in a ChatMessage");
  writer.message(3, [&] {
    writer.bytes(1, type);
    if (type == "text") writer.bytes(2, text_of(part, "text"));
    if (const JsonTree* image = part.find("image_url"))
      writer.message(3, [&] { writer.bytes(1, text_of(*image, "url")); });
  });
  return {};
}

Status write_message(ProtoWriter& writer, const JsonTree& message) {
  Status outcome;
  writer.message(2, [&] {
    writer.bytes(1, text_of(message, "role"));
    if (const JsonTree* content = message.find("content")) {
      if (content->kind == Kind::kString) writer.bytes(2, content->text);
      for (const JsonTree& part : content->items)
        if (outcome) outcome = write_part(writer, part);
    }
    write_json(writer, 4, message, "tool_calls");
  });
  return outcome;
}

Result<std::string> write_chat(const JsonTree& body) {
  const JsonTree* messages = body.find("messages");
  if (!messages || messages->kind != Kind::kArray)
    return fail(Code::kBadRequest, "the chat has no list 'messages'");
  std::string out;
  ProtoWriter writer(out);
  writer.bytes(1, text_of(body, "model"));
  for (const JsonTree& message : messages->items) LLMD_TRY(write_message(writer, message));
  write_json(writer, 3, body, "tools");
  if (const auto chat_template = text_of(body, "chat_template"); !chat_template.empty())
    writer.bytes(4, chat_template);
  writer.varint(5, flag_of(body, "add_generation_prompt", true));
  writer.varint(6, flag_of(body, "continue_final_message", false));
  write_json(writer, 7, body, "chat_template_kwargs");
  return out;
}

TokenRequest write_completion(std::string_view model, std::string_view prompt, bool framed) {
  TokenRequest request{.method = framed ? &kRenderCompletion : &kTokenize, .message = {}};
  ProtoWriter writer(request.message);
  writer.bytes(framed ? 1 : 2, model);
  writer.bytes(framed ? 2 : 1, prompt);
  return request;
}

bool append_id(uint64_t id, std::vector<uint32_t>& ids) {
  if (id > UINT32_MAX) return false;
  ids.push_back(static_cast<uint32_t>(id));
  return true;
}

/// As senders may have packed them.
bool read_ids(std::string_view packed, std::vector<uint32_t>& ids) {
  uint64_t id = 0;
  while (!packed.empty())
    if (!codec::take_varint(packed, id) || !append_id(id, ids)) return false;
  return true;
}

/// What a list of features says of one modality.
struct MediaLists {
  std::vector<std::string_view> hashes;
  std::vector<std::pair<uint64_t, uint64_t>> places;  // offset and length
};

bool read_place(std::string_view message, MediaLists& lists) {
  auto& [offset, length] = lists.places.emplace_back();
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_varint(1)) offset = reader.number();
    if (reader.key() == proto_varint(2)) length = reader.number();
  }
  return reader.ok() && offset <= UINT32_MAX && length <= UINT32_MAX;
}

/// An entry of one of the maps by modality; of others nothing is kept.
bool read_features_entry(std::string_view message, bool hashes,
                         std::array<MediaLists, request::kModalities>& by_modality) {
  std::string_view name, value;
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_bytes(1)) name = reader.bytes();
    if (reader.key() == proto_bytes(2)) value = reader.bytes();
  }
  for (size_t m = 0; m < request::kModalities; ++m) {
    if (name != request::modality_name(static_cast<request::Modality>(m))) continue;
    MediaLists& lists = by_modality[m];
    ProtoReader items(value);
    while (items.next()) {
      if (items.key() != proto_bytes(1)) continue;
      if (std::max(lists.hashes.size(), lists.places.size()) > request::kMediaMax) return false;
      if (hashes)
        lists.hashes.push_back(items.bytes());
      else if (!read_place(items.bytes(), lists))
        return false;
    }
    if (!items.ok()) return false;
  }
  return reader.ok();
}

/// Media with a hash and a place, by offset.
bool read_features(std::string_view message, std::vector<Media>& media) {
  std::array<MediaLists, request::kModalities> by_modality;
  ProtoReader reader(message);
  while (reader.next()) {
    const bool hashes = reader.key() == proto_bytes(1);
    if ((hashes || reader.key() == proto_bytes(2)) &&
        !read_features_entry(reader.bytes(), hashes, by_modality))
      return false;
  }
  for (size_t m = 0; m < by_modality.size(); ++m) {
    const auto& [hashes, places] = by_modality[m];
    for (size_t i = 0; i < std::min(hashes.size(), places.size()); ++i)
      if (media.size() < request::kMediaMax)
        media.push_back({static_cast<request::Modality>(m), std::string(hashes[i]),
                         static_cast<uint32_t>(places[i].first),
                         static_cast<uint32_t>(places[i].second)});
  }
  std::ranges::stable_sort(media, {}, &Media::offset);
  return reader.ok();
}

std::unexpected<Error> refused(std::string_view error) {
  return fail(Code::kServiceUnavailable, error.empty()
                                             ? "the service gives no reason"
                                             : std::string(error.substr(0, kErrorBytesMax)));
}

}  // namespace

Result<std::vector<TokenRequest>> write_requests(std::string_view body, bool chat) {
  const auto tree = parse_json_tree(body);
  if (!tree || tree->kind != Kind::kObject)
    return fail(Code::kBadRequest, "the request is no JSON object");
  std::vector<TokenRequest> requests;
  if (chat) {
    LLMD_TRY_ASSIGN(auto message, write_chat(*tree));
    requests.push_back({.method = &kRenderChat, .message = std::move(message)});
    return requests;
  }
  const JsonTree* prompt = tree->find("prompt");
  const auto model = text_of(*tree, "model");
  const bool framed = flag_of(*tree, "add_special_tokens", true);
  const auto is_text = [](const JsonTree& one) { return one.kind == Kind::kString; };
  if (prompt && is_text(*prompt)) {
    requests.push_back(write_completion(model, prompt->text, framed));
  } else if (prompt && !prompt->items.empty() && std::ranges::all_of(prompt->items, is_text)) {
    for (const JsonTree& one : prompt->items)
      requests.push_back(write_completion(model, one.text, framed));
  } else {
    return fail(Code::kBadRequest, "'prompt' is neither a text nor a list of texts");
  }
  return requests;
}

std::string write_initialize(std::string_view model) {
  std::string out;
  ProtoWriter writer(out);
  writer.bytes(1, model);
  writer.varint(3, 1);
  return out;
}

Result<RenderedPrompt> read_answer(const TokenMethod& method, std::string_view message) {
  RenderedPrompt prompt;
  bool good = true, success = false;
  std::string_view error;
  ProtoReader reader(message);
  while (good && reader.next()) {
    if (reader.key() == proto_bytes(method.ids)) good = read_ids(reader.bytes(), prompt.token_ids);
    if (reader.key() == proto_varint(method.ids))
      good = append_id(reader.number(), prompt.token_ids);
    if (method.features != 0 && reader.key() == proto_bytes(method.features))
      good = read_features(reader.bytes(), prompt.media);
    if (reader.key() == proto_varint(method.success)) success = reader.number() != 0;
    if (reader.key() == proto_bytes(method.success + 1)) error = reader.bytes();
  }
  if (!good || !reader.ok()) return fail(Code::kInternal, kMalformed);
  if (!success) return refused(error);
  return prompt;
}

Status read_initialized(std::string_view message) {
  bool success = false;
  std::string_view error;
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_varint(1)) success = reader.number() != 0;
    if (reader.key() == proto_bytes(2)) error = reader.bytes();
  }
  if (!reader.ok()) return fail(Code::kInternal, kMalformed);
  if (!success) return refused(error);
  return {};
}

}  // namespace llmd::render
