#include "parser_fuzz_support.h"

#include <cstdint>

using namespace llmd;
using namespace llmd::http;

/// As for requests, with and without a HEAD request before it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t length = fuzzing::scan(bytes);
  if (length == HeadScanner::kMore || length == HeadScanner::kBad) return 0;
  for (const bool answers_head : {true, false}) {
    std::vector<HeaderField> fields;
    const auto head = parse_response_head(bytes.substr(0, length), answers_head, 64, fields);
    if (!head) continue;
    fuzzing::require(head->status >= 100 && head->status <= 999);
    fuzzing::require(!answers_head || head->framing == Framing::kNone);
    fuzzing::require(head->framing != Framing::kUntilClose || !head->keep_alive);

    const std::string again = "HTTP/1." + std::to_string(head->minor_version) + " " +
                              std::to_string(head->status) + " " + std::string(head->reason) +
                              "\r\n" + fuzzing::lines_of(head->headers);
    fuzzing::require(fuzzing::scan(again) == again.size());
    std::vector<HeaderField> fields_again;
    const auto second = parse_response_head(again, answers_head, 64, fields_again);
    fuzzing::require(second && second->status == head->status && second->framing == head->framing &&
                     second->content_length == head->content_length &&
                     second->headers.size() == head->headers.size());
    if (head->framing == Framing::kChunked) fuzzing::decode(bytes.substr(length));
  }
  return 0;
}
