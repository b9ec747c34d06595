#include "message_reader.h"

#include "base/check.h"

#include <cstdint>
#include <string>

/// However the input is cut, the same messages are found and the same end is reached.
namespace {

using namespace llmd;

std::string read_all(std::string_view input, size_t step) {
  io::BufferPool buffers;
  io::ByteBudget budget(1 << 20);
  std::string seen;
  grpc::MessageReader reader(buffers, budget, 300);
  reader.accept_gzip();
  for (size_t at = 0; at < input.size(); at += step) {
    std::string_view rest = input.substr(at, step), message;
    for (;;) {
      const auto result = reader.read(rest, message);
      if (result == grpc::MessageReader::Result::kMore) break;
      if (result != grpc::MessageReader::Result::kMessage)
        return seen + "!" + std::to_string(static_cast<int>(result));
      seen += message;
      seen += '|';
    }
  }
  return seen + (reader.at_boundary() ? "." : "?");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = read_all(input, input.size() + 1);
  const std::string cut = read_all(input, 1 + data[0] % 16);
  if (whole.back() != '.' && whole.back() != '?') {
    // A refusal may come before or after the message's body has arrived, never elsewhere.
    CHECK(cut.substr(0, cut.find('!')) == whole.substr(0, whole.find('!')));
  } else {
    CHECK(cut.substr(0, cut.size() - 1) == whole.substr(0, whole.size() - 1));
  }
  return 0;
}
