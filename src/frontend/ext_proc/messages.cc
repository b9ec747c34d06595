#include "messages.h"

#include "codec/protobuf.h"

#include <algorithm>
#include <ranges>

namespace llmd::frontend::ext_proc {

using codec::proto_bytes;
using codec::proto_varint;
using codec::ProtoReader;
using codec::ProtoWriter;

namespace {

constexpr std::string_view kLbNamespace = "envoy.lb";
constexpr std::string_view kSubsetNamespace = "envoy.lb.subset_hint";
constexpr std::string_view kSubsetKey = "x-gateway-destination-endpoint-subset";
constexpr std::string_view kDestinationKey = "x-gateway-destination-endpoint";
constexpr std::string_view kServedKey = "x-gateway-destination-endpoint-served";
constexpr std::string_view kScoresKey = "x-gateway-destination-endpoint-scores";

/// HttpHeaders and HttpBody have the same shape: bytes in field 1, the end in another.
bool read_part(std::string_view message, uint32_t end_field, std::string_view& content, bool& end) {
  ProtoReader reader(message);
  while (reader.next()) {
    if (reader.key() == proto_bytes(1)) content = reader.bytes();
    if (reader.key() == proto_varint(end_field)) end = reader.number() != 0;
  }
  return reader.ok();
}

/// The value of `key` in a map whose entries are field 1 of `message`; the last one counts.
std::optional<std::string_view> find_entry(std::string_view message, std::string_view key) {
  std::optional<std::string_view> found;
  ProtoReader map(message);
  while (map.next()) {
    if (map.key() != proto_bytes(1)) continue;
    std::string_view entry_key, value;
    ProtoReader entry(map.bytes());
    while (entry.next()) {
      if (entry.key() == proto_bytes(1)) entry_key = entry.bytes();
      if (entry.key() == proto_bytes(2)) value = entry.bytes();
    }
    if (entry_key == key) found = value;
  }
  return found;
}

/// The Value of `key` in a namespace of `metadata`.
std::optional<std::string_view> find_value(std::string_view metadata, std::string_view space,
                                           std::string_view key) {
  const auto fields = find_entry(metadata, space);
  return fields ? find_entry(*fields, key) : std::nullopt;
}

void write_set_header(ProtoWriter& w, std::string_view name, std::string_view value) {
  w.message(1, [&] {    // set_headers: HeaderValueOption
    w.message(1, [&] {  // header: HeaderValue
      w.bytes(1, name);
      w.bytes(3, value);  // raw_value
    });
  });
}

void write_mutation(ProtoWriter& w, const HeadMutation& mutation) {
  w.message(2, [&] {
    for (const auto& field : mutation.set) write_set_header(w, field.name, field.value);
    for (const auto name : mutation.remove) w.bytes(2, name);
  });
}

/// An entry of a Struct whose Value `write` fills.
template <class Write>
void write_entry(ProtoWriter& w, std::string_view key, Write&& write) {
  w.message(1, [&] {
    w.bytes(1, key);
    w.message(2, write);
  });
}

void write_destination(ProtoWriter& w, const Destination& destination) {
  write_entry(w, kLbNamespace, [&] {
    w.message(5, [&] {
      write_entry(w, kDestinationKey, [&] { w.bytes(3, destination.endpoints); });
      if (destination.scores.empty()) return;
      write_entry(w, kScoresKey, [&] {
        w.message(5, [&] {
          for (const auto& [endpoint, score] : destination.scores)
            write_entry(w, endpoint, [&] { w.real(2, score); });
        });
      });
    });
  });
}

}  // namespace

std::optional<ProcessingRequest> read_request(std::string_view message) {
  ProcessingRequest request;
  std::string_view content;
  ProtoReader reader(message);
  while (reader.next()) {
    switch (reader.key()) {
      case proto_bytes(2):
      case proto_bytes(3):
      case proto_bytes(4):
      case proto_bytes(5):
      case proto_bytes(6):
      case proto_bytes(7):
        request.part = static_cast<Part>(reader.key() >> 3);
        content = reader.bytes();
        break;
      case proto_bytes(8):
        request.metadata = reader.bytes();
        break;
      default:
        break;
    }
  }
  bool ok = reader.ok();
  switch (request.part) {
    case Part::kRequestHeaders:
    case Part::kResponseHeaders:
      ok = ok && read_part(content, 3, request.header_map, request.end_of_stream);
      break;
    case Part::kRequestBody:
    case Part::kResponseBody:
      ok = ok && read_part(content, 2, request.body, request.end_of_stream);
      break;
    default:
      break;
  }
  return ok ? std::optional(request) : std::nullopt;
}

bool read_headers(std::string_view header_map, std::vector<HeaderField>& headers) {
  ProtoReader map(header_map);
  while (map.next()) {
    if (map.key() != proto_bytes(1)) continue;
    std::string_view key, value, raw;
    ProtoReader line(map.bytes());
    while (line.next()) {
      if (line.key() == proto_bytes(1)) key = line.bytes();
      if (line.key() == proto_bytes(2)) value = line.bytes();
      if (line.key() == proto_bytes(3)) raw = line.bytes();
    }
    if (!line.ok()) return false;
    headers.push_back({key, raw.empty() ? value : raw});
  }
  return map.ok();
}

std::optional<std::vector<std::string_view>> read_subset(std::string_view metadata) {
  const auto value = find_value(metadata, kSubsetNamespace, kSubsetKey);
  if (!value) return std::nullopt;
  std::optional<std::vector<std::string_view>> subset;
  ProtoReader kind(*value);
  while (kind.next()) {
    subset.reset();
    if (kind.key() != proto_bytes(6)) continue;
    subset.emplace();
    ProtoReader list(kind.bytes());
    while (list.next()) {
      if (list.key() != proto_bytes(1)) continue;
      ProtoReader item(list.bytes());
      while (item.next())
        if (item.key() == proto_bytes(3)) subset->push_back(item.bytes());
    }
  }
  return subset;
}

std::string_view read_served(std::string_view metadata) {
  std::string_view served;
  ProtoReader kind(find_value(metadata, kLbNamespace, kServedKey).value_or(""));
  while (kind.next()) served = kind.key() == proto_bytes(3) ? kind.bytes() : "";
  return served;
}

void write_request_head(std::string& out, const HeadMutation& mutation,
                        const Destination& destination) {
  out.clear();
  ProtoWriter w(out);
  w.message(1, [&] {
    w.message(1, [&] {
      write_mutation(w, mutation);
      w.varint(5, 1);  // clear_route_cache
    });
  });
  w.message(8, [&] { write_destination(w, destination); });
}

void write_response_head(std::string& out, const HeadMutation& mutation, bool skip_body) {
  out.clear();
  ProtoWriter w(out);
  w.message(2, [&] { w.message(1, [&] { write_mutation(w, mutation); }); });
  // Modes: response_header SEND, response_body NONE (0, left out), response_trailer SKIP.
  if (skip_body)
    w.message(9, [&] {
      w.varint(2, 1);
      w.varint(6, 2);
    });
}

void write_trailers(std::string& out, Direction direction) {
  out.clear();
  ProtoWriter(out).message(direction == Direction::kRequest ? 5 : 6, [] {});
}

void write_reports(std::string& out, std::span<const schedule::Report> reports) {
  out.clear();
  if (reports.empty()) return;
  ProtoWriter w(out);
  w.message(8, [&] {
    for (size_t i = 0; i < reports.size(); ++i) {
      const auto space = reports[i].space;
      const auto same = [&](const auto& report) { return report.space == space; };
      if (std::ranges::any_of(reports.first(i), same)) continue;
      write_entry(w, space, [&] {
        w.message(5, [&] {
          for (const auto& report : reports | std::views::filter(same))
            write_entry(w, report.name, [&] { w.real(2, report.value); });
        });
      });
    }
  });
}

void write_immediate(std::string& out, int status, std::span<const HeaderField> headers,
                     std::string_view body) {
  out.clear();
  ProtoWriter w(out);
  w.message(7, [&] {
    w.message(1, [&] { w.varint(1, static_cast<uint64_t>(status)); });
    if (!headers.empty())
      w.message(2, [&] {
        for (const auto& field : headers) write_set_header(w, field.name, field.value);
      });
    w.bytes(3, body);
  });
}

size_t write_body_prefix(std::span<char, kBodyPrefixBytesMax> out, Direction direction,
                         size_t body_bytes, bool end_of_stream) {
  // From the inside out: streamed_response, body_mutation, common, body response, response.
  constexpr size_t kLevels = 4;
  const size_t body_head = body_bytes > 0 ? 1 + codec::varint_size(body_bytes) : 0;
  size_t sizes[kLevels];
  size_t size = (end_of_stream ? 2 : 0) + body_head + body_bytes;
  for (auto& level : sizes) {
    level = size;
    size += 1 + codec::varint_size(size);
  }
  char* at = out.data();
  const uint32_t fields[kLevels] = {direction == Direction::kRequest ? 3u : 4u, 1, 3, 3};
  for (size_t i = 0; i < kLevels; ++i) {
    *at++ = static_cast<char>(proto_bytes(fields[i]));
    at = codec::put_varint(at, sizes[kLevels - 1 - i]);
  }
  if (end_of_stream) {
    *at++ = static_cast<char>(proto_varint(2));
    *at++ = 1;
  }
  if (body_bytes > 0) {
    *at++ = static_cast<char>(proto_bytes(1));
    at = codec::put_varint(at, body_bytes);
  }
  return static_cast<size_t>(at - out.data());
}

}  // namespace llmd::frontend::ext_proc
