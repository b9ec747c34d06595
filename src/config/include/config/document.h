#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "codec/node.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// An EndpointPickerConfig as written (spec 02 §1.1): decoded strictly, deprecated fields folded
/// into their successors, names defaulted, feature gates resolved. Nothing here knows which plugin
/// types exist.
namespace llmd::config {

/// The name of a plugin instance, where a document refers to it.
struct Ref {
  std::string name;
  std::string where;  // "FILE:LINE", for messages
};

struct PluginEntry {
  std::string name;  // the type's name when none is given
  std::string type;
  std::optional<codec::Node> parameters;
  std::string where;
};

struct ProfileEntry {
  struct Use {
    Ref plugin;
    std::optional<double> weight;
  };
  std::string name;
  std::vector<Use> plugins;
  std::string where;
};

struct DataLayer {
  struct Source {
    Ref plugin;
    std::vector<Ref> extractors;
  };
  bool inject_defaults = true;
  std::vector<Source> sources;
  std::optional<Ref> discovery;
  std::optional<Ref> peer_discovery;
  std::optional<Ref> cross_replica_syncer;
  Nanos cross_replica_sync_interval = std::chrono::milliseconds(200);
};

/// Limits and policies of one priority. Absent values take the built-in defaults.
struct Band {
  int32_t priority = 0;
  std::optional<int64_t> bytes_max;
  std::optional<int64_t> requests_max;
  std::optional<int64_t> tokens_max;
  std::optional<Ref> fairness_policy;
  std::optional<Ref> ordering_policy;
};

/// With the gate flowControl off only saturation_detector is honoured.
struct FlowControl {
  std::optional<int64_t> bytes_max;
  std::optional<int64_t> requests_max;
  std::optional<int64_t> tokens_max;
  std::optional<Nanos> default_request_ttl;
  std::optional<Nanos> no_endpoint_request_ttl;
  std::optional<Band> default_band;
  std::optional<Band> default_negative_band;
  std::vector<Band> bands;
  std::optional<Ref> usage_limit_policy;
  std::optional<Ref> saturation_detector;
  bool enable_eviction = false;
  bool refuse_unmeetable_deadlines = false;
  bool retry_after = false;
  std::string request_ttl_header;
  std::vector<std::string> given;  // fields besides the detector that the document sets
};

struct Document {
  std::string file;
  std::vector<std::pair<std::string, bool>> gates;  // all that exist, with their effective value
  std::vector<PluginEntry> plugins;
  std::vector<ProfileEntry> profiles;
  DataLayer data_layer;
  FlowControl flow_control;
  std::vector<Ref> parsers;
  std::vector<std::string> warnings;  // deprecated spellings

  bool gate(std::string_view name) const;
};

/// `file` is the document's name in messages. Errors are one line: file, line, field, value,
/// nearest valid name.
Result<Document> parse_document(std::string_view text, std::string_view file);

/// The configuration of a process that was given none (spec 02 §1.4).
std::string_view default_document();

/// A file's text. Errors name the path; more than 1 MiB is one.
Result<std::string> read_document(const std::string& path);

}  // namespace llmd::config
