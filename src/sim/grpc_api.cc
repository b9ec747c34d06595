#include "grpc_api.h"

#include "codec/grpc_frame.h"
#include "codec/protobuf.h"
#include "sim/tokenizer.h"

namespace llmd::sim {
namespace {

using codec::kGrpcPrefixBytes;
using codec::proto_bytes;
using codec::proto_varint;
using codec::ProtoReader;
using codec::ProtoWriter;

constexpr uint32_t kChoicesMax = 128;

/// Appends the message that `write` writes, framed.
template <class Write>
void append_framed(std::string& out, Write&& write) {
  const size_t at = out.size();
  out.append(kGrpcPrefixBytes, '\0');
  ProtoWriter writer(out);
  write(writer);
  const size_t size = out.size() - at - kGrpcPrefixBytes;
  for (size_t i = 1; i < kGrpcPrefixBytes; ++i)
    out[at + i] = static_cast<char>(size >> (32 - 8 * i));
}

/// The message behind the frame; false when `body` is anything else.
bool unframe(std::string_view& body) {
  if (body.size() < kGrpcPrefixBytes || body[0] != 0) return false;
  const uint64_t size = codec::grpc_message_size(body);
  body.remove_prefix(kGrpcPrefixBytes);
  return body.size() == size;
}

bool read_tokenized(std::string_view message, std::vector<uint32_t>& ids) {
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_varint(2)) ids.push_back(static_cast<uint32_t>(reader.number()));
    if (reader.key() != proto_bytes(2)) continue;
    auto packed = reader.bytes();
    for (uint64_t id; !packed.empty(); ids.push_back(static_cast<uint32_t>(id)))
      if (!codec::take_varint(packed, id)) return false;
  }
  return reader.ok();
}

bool read_sampling(std::string_view message, GenerationRequest& out) {
  ProtoReader reader(message);
  while (reader.next()) {
    const auto number = static_cast<uint32_t>(reader.number());
    if (reader.key() == proto_varint(8)) out.max_tokens = number;
    if (reader.key() == proto_varint(14)) out.ignore_eos = number != 0;
    if (reader.key() == proto_varint(15) && number > 0) out.n = number;
  }
  return reader.ok();
}

bool read(std::string_view message, GenerationRequest& out) {
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_bytes(2) || reader.key() == proto_bytes(3)) {
      PromptInput& prompt = out.prompts.emplace_back();
      if (reader.key() == proto_bytes(3)) {
        prompt.echo = reader.bytes();
        tokenize(reader.bytes(), prompt.ids);
      } else if (!read_tokenized(reader.bytes(), prompt.ids)) {
        return false;
      }
    } else if (reader.key() == proto_bytes(4)) {
      if (!read_sampling(reader.bytes(), out)) return false;
    } else if (reader.key() == proto_varint(5)) {
      out.stream = reader.number() != 0;
    }
  }
  return reader.ok();
}

}  // namespace

std::optional<ApiError> read_grpc_generation(std::string_view body, GenerationRequest& out) {
  out = {};
  if (!unframe(body)) return ApiError{400, "the request is not one uncompressed gRPC message"};
  if (!read(body, out)) return ApiError{400, "malformed GenerateRequest"};
  if (out.prompts.empty()) return ApiError{400, "either tokenized or text must be given"};
  if (out.prompts.size() > 1) out.prompts.erase(out.prompts.begin(), out.prompts.end() - 1);
  if (out.prompts[0].ids.empty()) return ApiError{400, "the prompt is empty"};
  if (out.n > kChoicesMax) return ApiError{400, "n must be at most 128"};
  return std::nullopt;
}

void append_grpc_chunk(std::string& out, uint32_t token, const Usage& usage) {
  append_framed(out, [&](ProtoWriter& w) {
    w.message(1, [&] {
      char id[10];
      w.bytes(1, {id, static_cast<size_t>(codec::put_varint(id, token) - id)});
      w.varint(2, usage.prompt_tokens);
      w.varint(3, 1);
      w.varint(4, usage.cached_tokens);
    });
  });
}

void append_grpc_complete(std::string& out, std::span<const uint32_t> ids, FinishReason reason,
                          const Usage& usage) {
  append_framed(out, [&](ProtoWriter& w) {
    w.message(2, [&] {
      std::string packed;
      char space[10];
      for (const uint32_t id : ids)
        packed.append(space, static_cast<size_t>(codec::put_varint(space, id) - space));
      if (!packed.empty()) w.bytes(1, packed);
      w.bytes(2, finish_reason_name(reason));
      w.varint(3, usage.prompt_tokens);
      w.varint(4, usage.completion_tokens);
      w.varint(5, usage.cached_tokens);
    });
  });
}

void append_grpc_model_info(std::string& out, std::string_view model, uint32_t context_tokens) {
  append_framed(out, [&](ProtoWriter& w) {
    w.bytes(1, model);
    w.varint(2, 1);
    w.varint(3, context_tokens);
  });
}

}  // namespace llmd::sim
