#include "openai_scan.h"

#include "codec/form_scan.h"

#include <string>

namespace llmd::request {
namespace {

/// A form with a file to be heard, the model, and settings. Its prompt has no tokens.
class AudioScan final : public BodyScan, codec::FormSink {
 public:
  AudioScan(std::string_view delimiter, Arena& arena)
      : arena_(arena), delimiter_(delimiter), scanner_(delimiter, *this) {}

  void feed(std::string_view body) override {
    if (!delimiter_.empty()) scanner_.feed(body);
  }

  Result<RequestView> finish(std::string_view body) override {
    if (delimiter_.empty())
      return refuse("the content type must be multipart/form-data with a boundary");
    if (!scanner_.feed(body) || !scanner_.finish()) return refuse(scanner_.error());
    if (!has_file_) return refuse("must have file field");
    RequestView view;
    view.api = Api::kAudio;
    view.model_value = model_;
    view.model_is_text = true;
    view.rewritable = model_.has_value();
    if (model_) view.model = arena_.copy(text_of(body, *model_));
    view.stream = stream_ && text_of(body, *stream_) == "true";
    return view;
  }

 private:
  /// The last of parts with one name counts, as with servers.
  void part(const codec::FormPart& part) override {
    const Range content{part.begin, part.end};
    if (part.name == "file") has_file_ = true;
    if (part.is_file) return;
    if (part.name == "model") model_ = content;
    if (part.name == "stream") stream_ = content;
  }

  static std::string_view text_of(std::string_view body, Range range) {
    return body.substr(range.begin, range.end - range.begin);
  }
  static std::unexpected<Error> refuse(std::string_view why) {
    return fail(Code::kBadRequest, "invalid audio request: " + std::string(why));
  }

  Arena& arena_;
  const std::string_view delimiter_;  // "": there is no boundary
  codec::FormScanner scanner_;
  bool has_file_ = false;
  std::optional<Range> model_, stream_;
};

}  // namespace

BodyScan* scan_audio(std::string_view content_type, Arena& arena) {
  std::string_view delimiter;
  if (const auto boundary = codec::form_boundary(content_type))
    delimiter = arena.copy("\r\n--" + std::string(*boundary));
  return arena.make<AudioScan>(delimiter, arena);
}

}  // namespace llmd::request
