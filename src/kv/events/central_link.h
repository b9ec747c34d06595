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
/// be asked for. Threading: the loop's thread.
class CentralLink final : public ZmqReader {
 public:
  static constexpr size_t kPublishersMax = 2 * limits::kEndpointsMax;
  /// When there are too many, one that was silent for so long makes room.
  static constexpr Nanos kSilenceMax = std::chrono::minutes(10);

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

  LinkContext context_;
  metric::LabelGuard labels_{limits::kEndpointsMax};
  std::string key_;
  boost::unordered_flat_map<std::string, std::unique_ptr<PublisherStream>, KeyedHash,
                            std::equal_to<>>
      streams_;
  ZmqSocket socket_;
  std::unique_ptr<ZmqWatch> watch_;
};

}  // namespace llmd::kv_events
