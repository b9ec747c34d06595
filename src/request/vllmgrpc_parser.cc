#include "grpc_message.h"
#include "grpc_scan.h"
#include "raw_scan.h"

#include "base/arena_list.h"
#include "codec/protobuf.h"
#include "request/parsers.h"

#include <algorithm>
#include <array>

namespace llmd::request {
namespace {

using codec::proto_bytes;
using codec::proto_varint;

constexpr std::string_view kSuffixes[] = {
    "vllm.grpc.engine.VllmEngine/Generate",     "vllm.grpc.engine.VllmEngine/Embed",
    "vllm.grpc.engine.VllmEngine/HealthCheck",  "vllm.grpc.engine.VllmEngine/Abort",
    "vllm.grpc.engine.VllmEngine/GetModelInfo", "vllm.grpc.engine.VllmEngine/GetServerInfo",
};

enum class Method : uint8_t { kGenerate, kEmbed, kOther };

Method method_of(std::string_view path) {
  if (path.ends_with('/')) path.remove_suffix(1);
  if (path.ends_with("/Generate")) return Method::kGenerate;
  return path.ends_with("/Embed") ? Method::kEmbed : Method::kOther;
}

std::unexpected<Error> malformed() {
  return fail(Code::kBadRequest, "invalid or unsupported gRPC payload");
}

/// TokenizedInput{2 repeated uint32 input_ids}; of a larger number the low 32 bits count, as in
/// every reader of protobuf.
bool read_ids(std::string_view tokenized, ArenaList<uint32_t>& ids) {
  codec::ProtoReader reader(tokenized);
  while (reader.next()) {
    if (reader.key() == proto_varint(2)) ids.push_back(static_cast<uint32_t>(reader.number()));
    if (reader.key() != proto_bytes(2)) continue;
    auto packed = reader.bytes();
    ids.reserve(ids.size() + static_cast<size_t>(std::ranges::count_if(
                                 packed, [](char c) { return static_cast<uint8_t>(c) < 0x80; })));
    for (uint64_t id; !packed.empty(); ids.push_back(static_cast<uint32_t>(id)))
      if (!codec::take_varint(packed, id)) return false;
  }
  return reader.ok();
}

/// GenerateRequest{oneof {2 tokenized, 3 text}, 4 SamplingParams{8 max_tokens}, 5 stream, 7
/// MultimodalInputs{5 repeated PlaceholderRange{1 offset, 2 length}, 6 repeated hashes}}, or
/// EmbedRequest{2 tokenized}. A message that is repeated is merged with what came before.
class VllmScan final : public BodyScan {
 public:
  VllmScan(Method method, Arena& arena)
      : arena_(arena), method_(method), ids_(arena), media_(arena), hashes_(arena) {}
  void feed(std::string_view) override {}

  Result<RequestView> finish(std::string_view body) override {
    const auto message = grpc_message(body, arena_);
    if (!message || !read(*message)) return malformed();
    if (media_.size() > kMediaMax || hashes_.size() > kMediaMax)
      return fail(Code::kBadRequest, "more than 65536 media");
    if (method_ == Method::kEmbed && input_ != Input::kTokenized)
      return fail(Code::kBadRequest, "missing tokenized input in EmbedRequest");
    if (input_ == Input::kNone) return fail(Code::kBadRequest, "not supported request inputType");
    RequestView view;
    view.api = method_ == Method::kEmbed ? Api::kEmbeddings : Api::kCompletions;
    view.stream = stream_;
    view.max_output_tokens = max_tokens_;
    const auto prompts = arena_.array<Prompt>(1);
    if (input_ == Input::kTokenized) {
      prompts[0].token_ids = ids_.view();
      const size_t known = std::min(media_.size(), hashes_.size());
      for (size_t i = 0; i < known; ++i) media_[i].hash = hashes_[i];
      prompts[0].media = media_.view();
    } else {
      const auto pieces = arena_.array<Piece>(1);
      pieces[0].text = text_;
      pieces[0].bytes = text_.size();
      prompts[0].pieces = pieces;
    }
    view.prompts = prompts;
    return view;
  }

 private:
  enum class Input : uint8_t { kNone, kTokenized, kText };

  bool read(std::string_view message) {
    codec::ProtoReader reader(message);
    while (reader.next()) {
      if (reader.key() == proto_bytes(2)) {
        if (input_ == Input::kText) ids_.clear();
        input_ = Input::kTokenized;
        if (!read_ids(reader.bytes(), ids_)) return false;
      }
      if (method_ == Method::kEmbed) continue;
      if (reader.key() == proto_bytes(3)) {
        input_ = Input::kText;
        text_ = reader.bytes();
      } else if (reader.key() == proto_bytes(4)) {
        if (!read_sampling(reader.bytes())) return false;
      } else if (reader.key() == proto_varint(5)) {
        stream_ = reader.number() != 0;
      } else if (reader.key() == proto_bytes(7)) {
        if (!read_media(reader.bytes())) return false;
      }
    }
    return reader.ok();
  }

  bool read_sampling(std::string_view sampling) {
    codec::ProtoReader reader(sampling);
    while (reader.next())
      if (reader.key() == proto_varint(8)) max_tokens_ = static_cast<uint32_t>(reader.number());
    return reader.ok();
  }

  /// Its places and its hashes, in the same order. What they are the message does not say: images.
  bool read_media(std::string_view inputs) {
    codec::ProtoReader reader(inputs);
    while (reader.next()) {
      if (reader.key() == proto_bytes(6) && hashes_.size() <= kMediaMax)
        hashes_.push_back(reader.bytes());
      if (reader.key() != proto_bytes(5) || media_.size() > kMediaMax) continue;
      media_.push_back({});
      MediaHash& place = media_.back();
      codec::ProtoReader range(reader.bytes());
      while (range.next()) {
        if (range.key() == proto_varint(1)) place.offset = static_cast<uint32_t>(range.number());
        if (range.key() == proto_varint(2)) place.length = static_cast<uint32_t>(range.number());
      }
      if (!range.ok()) return false;
    }
    return reader.ok();
  }

  Arena& arena_;
  const Method method_;
  Input input_ = Input::kNone;
  bool stream_ = false;
  std::optional<int64_t> max_tokens_;
  std::string_view text_;
  ArenaList<uint32_t> ids_;
  ArenaList<MediaHash> media_;
  ArenaList<std::string_view> hashes_;
};

/// GenerateResponse{oneof {1 chunk{2 prompt, 3 completion, 4 cached}, 2 complete{3, 4, 5}}} or
/// EmbedResponse{2 prompt_tokens}.
class VllmUsage final : public GrpcUsageScan {
 public:
  VllmUsage(Method method, Arena& arena) : GrpcUsageScan(arena), method_(method) {}

 private:
  Take open(uint64_t, uint64_t key) override {
    const bool part = key == proto_bytes(1) || key == proto_bytes(2);
    return method_ == Method::kGenerate && part ? Take::kEnter : Take::kSkip;
  }

  void number(uint64_t parent, uint64_t key, uint64_t value) override {
    const auto count = static_cast<int64_t>(static_cast<uint32_t>(value));
    if (parent == 0) {
      if (method_ == Method::kEmbed && key == proto_varint(2)) counts_[0] = count;
      return;
    }
    const uint64_t first = parent == proto_bytes(1) ? 2 : 3;
    const uint64_t field = key >> 3;
    if (key == proto_varint(static_cast<uint32_t>(field)) && field >= first && field < first + 3)
      counts_[field - first] = count;
  }

  void start_message() override { counts_ = {}; }
  void end_message() override {
    const auto [prompt, completion, cached] = counts_;
    if (prompt == 0 && completion == 0) return;
    if (prompt != 0) usage_.prompt_tokens = prompt;
    if (completion != 0) usage_.completion_tokens = completion;
    if (cached != 0) usage_.cached_tokens = cached;
    usage_.total_tokens = usage_.prompt_tokens + usage_.completion_tokens;
    usage_.present = true;
  }

  const Method method_;
  std::array<int64_t, 3> counts_{};  // prompt, completion, cached
};

class VllmGrpcParser final : public Parser {
 public:
  std::span<const std::string_view> path_suffixes() const override { return kSuffixes; }
  BodyScan* scan_request(const Head& head, Arena& arena) const override {
    return scan_vllm_grpc(head.path, arena);
  }
  UsageScan* scan_response(std::string_view path, bool, Arena& arena) const override {
    return scan_vllm_grpc_usage(path, arena);
  }
};

}  // namespace

BodyScan* scan_vllm_grpc(std::string_view path, Arena& arena) {
  const Method method = method_of(path);
  return method == Method::kOther ? scan_raw(arena) : arena.make<VllmScan>(method, arena);
}

UsageScan* scan_vllm_grpc_usage(std::string_view path, Arena& arena) {
  const Method method = method_of(path);
  return method == Method::kOther ? nullptr : arena.make<VllmUsage>(method, arena);
}

const plugin::Descriptor& vllmgrpc_parser() {
  static const plugin::Descriptor descriptor = plugin::describe<VllmGrpcParser>({
      .type = "vllmgrpc-parser",
      .kind = "parser",
      .summary = "Reads calls of vLLM's gRPC service (Generate and Embed) and the usage in their "
                 "answers; its other methods pass unread.",
  });
  return descriptor;
}

}  // namespace llmd::request
