#pragma once

#include "picker_options.h"

#include <optional>
#include <string>
#include <vector>

namespace llmd {

/// Everything `llmd epp` can be told on its command line. Flags of the reference that this build
/// cannot honour are refused when they would change what is served, and accepted otherwise.
struct EppOptions : PickerOptions {
  EppOptions() { tls.serving.secure = true; }

  std::string host = "0.0.0.0";
  uint16_t grpc_port = 9002;
  uint16_t health_port = 9003;
  bool health_checking = false;

  bool lean_headers = false;
  bool skip_response_body = false;
  bool subset_filter = true;
  bool emit_scores = false;
  bool stream_metrics = false;

  uint64_t message_bytes_max = 4u << 20;
  int64_t buffered_bytes_max = int64_t{4} << 30;
  int64_t header_list_bytes_max = 64 * 1024;
  size_t connections_max = 0;
  size_t connections_per_peer = 0;
};

/// Reads the command line and the environment; as parse_picker_flags().
std::optional<int> parse_epp_options(EppOptions& options, int argc, char** argv);

}  // namespace llmd
