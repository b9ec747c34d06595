#include "parser_fuzz_support.h"

#include <cstdint>

using namespace llmd;
using namespace llmd::http;

/// What is accepted reads the same once written out anew, so the next server sees the same request;
/// and its framing is never open to two readings.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t length = fuzzing::scan(bytes);
  if (length == HeadScanner::kMore || length == HeadScanner::kBad) return 0;
  std::vector<HeaderField> fields;
  const auto head = parse_request_head(bytes.substr(0, length), 64, fields);
  if (!head) {
    fuzzing::require(head.error().status >= 400 && !head.error().what.empty());
    return 0;
  }
  if (head->framing == Framing::kChunked) fuzzing::require(!head->headers.find("content-length"));
  fuzzing::require(head->framing != Framing::kUntilClose);

  const std::string again = std::string(head->method) + " " + std::string(head->target) +
                            " HTTP/1." + std::to_string(head->minor_version) + "\r\n" +
                            fuzzing::lines_of(head->headers);
  fuzzing::require(fuzzing::scan(again) == again.size());
  std::vector<HeaderField> fields_again;
  const auto second = parse_request_head(again, 64, fields_again);
  fuzzing::require(second && second->target == head->target && second->framing == head->framing &&
                   second->content_length == head->content_length &&
                   second->keep_alive == head->keep_alive &&
                   second->headers.size() == head->headers.size());
  if (head->framing == Framing::kChunked) fuzzing::decode(bytes.substr(length));
  return 0;
}
