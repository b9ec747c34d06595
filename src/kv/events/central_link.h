#pragma once

#include "pod_link.h"

#include "base/keyed_hash.h"
#include "base/limits.h"

#include <boost/unordered/unordered_flat_map.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace llmd::kv_events {

/// A port that engines connect to: who publishes is told by topic and rank. What is missed cannot
/// be asked for. Who passes on what several pods say may number all of it in one row: where each
/// number follows on the one before, whosesoever it was, none is missing.
/// Threading: the loop's thread.
class CentralLink final : public ZmqReader {
 public:
  static constexpr size_t kPublishersMax = 2 * limits::kEndpointsMax;
  /// When there are too many, one that was silent for so long makes room.
  static constexpr Nanos kSilenceMax = std::chrono::minutes(10);
  /// Messages in one row after which it is one again.
  static constexpr uint32_t kRowMin = 64;

  explicit CentralLink(LinkContext context);

  /// Binds. Errors name the endpoint.
  Status start();
  std::string bound_endpoint() const { return socket_.bound_endpoint(); }
  void forget_pod(std::string_view pod);
  size_t publishers() const { return streams_.size(); }

 private:
  bool read_some(ZmqSocket&) override;
  void take(const ZmqMessage& message);
  PublisherStream* find(std::string_view pod, std::optional<uint32_t> rank);
  bool make_room();
  bool in_row(uint64_t sequence);

  LinkContext context_;
  metric::LabelGuard labels_{limits::kEndpointsMax};
  std::string key_;
  uint64_t row_next_ = 0;
  uint32_t row_length_ = kRowMin;  // believed until there is something else
  boost::unordered_flat_map<std::string, std::unique_ptr<PublisherStream>, KeyedHash,
                            std::equal_to<>>
      streams_;
  ZmqSocket socket_;
  std::unique_ptr<ZmqWatch> watch_;
};

}  // namespace llmd::kv_events
