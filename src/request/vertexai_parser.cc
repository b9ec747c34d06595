#include "grpc_message.h"
#include "grpc_scan.h"
#include "openai_scan.h"
#include "usage_scan.h"

#include "codec/protobuf.h"
#include "request/parsers.h"

#include <string>

namespace llmd::request {
namespace {

using codec::proto_bytes;

constexpr std::string_view kSuffixes[] = {
    "PredictionService/ChatCompletions",
    "PredictionService/RawPredict",
    "PredictionService/StreamRawPredict",
};

/// The last value of a length-delimited field; nothing when it is absent. `ok`: the message is
/// well-formed.
std::optional<std::string_view> field_of(std::string_view message, uint32_t field, bool& ok) {
  std::optional<std::string_view> value;
  codec::ProtoReader reader(message);
  while (reader.next())
    if (reader.key() == proto_bytes(field)) value = reader.bytes();
  ok = reader.ok();
  return value;
}

/// {1 endpoint, 2 HttpBody{1 content_type, 2 data}}, where the data are the JSON body of an API.
class VertexScan final : public BodyScan {
 public:
  VertexScan(std::string_view message, BodyScan* inner, Arena& arena)
      : arena_(arena), message_(message), inner_(inner) {}
  void feed(std::string_view) override {}

  Result<RequestView> finish(std::string_view body) override {
    const std::string name = std::string(message_) + "Request";
    const auto message = grpc_message(body, arena_);
    if (!message) return fail(Code::kBadRequest, "invalid or unsupported gRPC payload");
    bool ok = true, whole = true;
    const auto http_body = field_of(*message, 2, ok);
    const auto data = http_body ? field_of(*http_body, 2, whole).value_or(std::string_view{})
                                : std::string_view{};
    if (!ok || !whole) return fail(Code::kBadRequest, "invalid or unsupported gRPC payload");
    if (!http_body) return fail(Code::kBadRequest, name + " has no HttpBody");
    auto view = inner_->finish(data);
    if (!view) return fail(view.error().code, "parsing " + name + ": " + view.error().message);
    if (message_.starts_with("Stream")) view->stream = true;
    view->rewritable = false;  // the body stays what it is
    view->model_value.reset();
    return view;
  }

 private:
  Arena& arena_;
  const std::string_view message_;
  BodyScan* const inner_;
};

/// HttpBody{2 data} in each message: JSON, or a piece of an event stream.
class VertexUsage final : public GrpcUsageScan {
 public:
  explicit VertexUsage(Arena& arena) : GrpcUsageScan(arena), arena_(arena) {}
  void finish() override {
    if (!data_) return;
    data_->finish();
    usage_ = data_->usage();
  }

 private:
  Take open(uint64_t, uint64_t key) override {
    return key == proto_bytes(2) ? Take::kBytes : Take::kSkip;
  }
  void number(uint64_t, uint64_t, uint64_t) override {}
  void bytes(uint64_t, uint64_t, std::string_view part) override {
    if (!data_ && !part.empty()) data_ = scan_usage(UsageFormat::kOpenAi, part[0] != '{', arena_);
    if (data_) data_->feed(part);
  }
  void end_message() override {
    if (data_) usage_ = data_->usage();
  }

  Arena& arena_;
  UsageScan* data_ = nullptr;
};

class VertexAiParser final : public Parser {
 public:
  std::span<const std::string_view> path_suffixes() const override { return kSuffixes; }
  BodyScan* scan_request(const Head& head, Arena& arena) const override {
    return scan_vertex(head.path, arena);
  }
  UsageScan* scan_response(std::string_view, bool, Arena& arena) const override {
    return scan_vertex_usage(arena);
  }
};

}  // namespace

BodyScan* scan_vertex(std::string_view path, Arena& arena) {
  if (path.ends_with('/')) path.remove_suffix(1);
  std::string_view method = "ChatCompletions";
  if (!path.ends_with(method))
    method = path.ends_with("StreamRawPredict") ? "StreamRawPredict" : "RawPredict";
  const bool chat = method == "ChatCompletions";
  return arena.make<VertexScan>(method, chat ? scan_chat(arena) : scan_responses(arena), arena);
}

UsageScan* scan_vertex_usage(Arena& arena) {
  return arena.make<VertexUsage>(arena);
}

const plugin::Descriptor& vertexai_parser() {
  static const plugin::Descriptor descriptor = plugin::describe<VertexAiParser>({
      .type = "vertexai-parser",
      .kind = "parser",
      .summary =
          "Reads calls of Vertex AI's gRPC PredictionService (ChatCompletions; RawPredict and "
          "StreamRawPredict as responses) and the usage in their answers.",
  });
  return descriptor;
}

}  // namespace llmd::request
