#pragma once

#include "base/headers.h"
#include "schedule/request_context.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The messages of envoy.service.ext_proc.v3.ExternalProcessor, as far as they are spoken here.
/// Field numbers, from Envoy's published API (v3):
///
///   ProcessingRequest    2 request_headers  3 response_headers  4 request_body  5 response_body
///                        6 request_trailers  7 response_trailers  8 metadata_context
///   HttpHeaders          1 headers  3 end_of_stream          HttpBody  1 body  2 end_of_stream
///   HeaderMap            1 headers (repeated HeaderValue)    HeaderValue  1 key  2 value  3
///   raw_value Metadata             1 filter_metadata (map of Struct) ProcessingResponse   1
///   request_headers  2 response_headers  3 request_body  4 response_body
///                        5 request_trailers  6 response_trailers  7 immediate_response
///                        8 dynamic_metadata (Struct)  9 mode_override
///   HeadersResponse      1 response (CommonResponse)         BodyResponse  1 response
///   CommonResponse       2 header_mutation  3 body_mutation  5 clear_route_cache
///   HeaderMutation       1 set_headers (HeaderValueOption{1 header})  2 remove_headers
///   BodyMutation         3 streamed_response{1 body  2 end_of_stream}
///   ImmediateResponse    1 status{1 code}  2 headers (HeaderMutation)  3 body
///   ProcessingMode       4 response_body_mode  6 response_trailer_mode
///   Struct               1 fields (map of Value)             ListValue  1 values
///   Value                2 number  3 string  5 struct  6 list
namespace llmd::frontend::ext_proc {

/// What a message is about. The values are the fields of ProcessingRequest.
enum class Part : uint8_t {
  kNone = 0,
  kRequestHeaders = 2,
  kResponseHeaders = 3,
  kRequestBody = 4,
  kResponseBody = 5,
  kRequestTrailers = 6,
  kResponseTrailers = 7,
};

/// Views into the message that was read.
struct ProcessingRequest {
  Part part = Part::kNone;
  std::string_view header_map;  // HeaderMap, of the header parts
  std::string_view body;        // of the body parts
  bool end_of_stream = false;
  std::string_view metadata;  // Metadata; "" when absent
};

/// Nothing when the message is malformed.
std::optional<ProcessingRequest> read_request(std::string_view message);

/// Appends the lines of a HeaderMap, in order. raw_value counts when it is not empty, else value.
/// False when the map is malformed.
bool read_headers(std::string_view header_map, std::vector<HeaderField>& headers);

/// The addresses of the subset hint (namespace envoy.lb.subset_hint): nothing when there is none or
/// it is not a list. Items that are not strings are left out.
std::optional<std::vector<std::string_view>> read_subset(std::string_view metadata);

/// The endpoint that answered, as the proxy says (namespace envoy.lb of an answer's metadata); ""
/// when it does not.
std::string_view read_served(std::string_view metadata);

enum class Direction : uint8_t { kRequest, kResponse };

/// What changes in a message's head.
struct HeadMutation {
  std::span<const HeaderField> set;
  std::span<const std::string_view> remove;
};
/// Of a request's head: where it goes, also told as dynamic metadata.
struct Destination {
  std::string_view endpoints;  // "host:port[,…]"
  std::span<const std::pair<std::string_view, double>> scores;
};

/// Each of these replaces `out` with one ProcessingResponse.
void write_request_head(std::string& out, const HeadMutation& mutation,
                        const Destination& destination);
/// `skip_body`: asks the proxy not to send the answer's body and trailers.
void write_response_head(std::string& out, const HeadMutation& mutation, bool skip_body);
void write_trailers(std::string& out, Direction direction);
/// Replaces `out` with dynamic metadata, which may stand before or after any of the others; "" for
/// no reports.
void write_reports(std::string& out, std::span<const schedule::Report> reports);
void write_immediate(std::string& out, int status, std::span<const HeaderField> headers,
                     std::string_view body);

/// Room for what stands before a body.
inline constexpr size_t kBodyPrefixBytesMax = 48;
/// Writes everything of a body message that comes before its `body_bytes` bytes, which end it, and
/// returns how much that is.
size_t write_body_prefix(std::span<char, kBodyPrefixBytesMax> out, Direction direction,
                         size_t body_bytes, bool end_of_stream);

}  // namespace llmd::frontend::ext_proc
