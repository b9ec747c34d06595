#pragma once

#include "session_table.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace llmd::plugins {

/// How requests of one session find the endpoint of the one before (spec 02 §10.1).
struct SessionParams {
  struct Encoded {
    std::string header = "x-session-token";
  };
  struct Source {
    std::optional<std::string> header;
    std::optional<std::string> attribute;
    std::string producer;
  };
  struct SessionId {
    std::vector<Source> sources = {{.header = "x-session-id", .attribute = {}, .producer = {}}};
    int64_t ttl_seconds = 300;
    int64_t sweep_seconds = 10;
  };
  std::string strategy = "encoded_endpoint_header";
  std::string profile;
  Encoded encoded;
  SessionId session_id;
};

const plugin::Params<SessionParams>& session_params();

/// What the plugins of session affinity have in common: everything but what is done with bound().
/// Each instance has its own sessions.
class SessionAffinity : public schedule::PreRequest, public schedule::ResponseHook {
 public:
  void wire(schedule::Wiring& wiring) final;
  /// Binds the session to where the request goes.
  Status pre_request(schedule::RequestContext& context) const final;
  /// Tells the client its endpoint.
  void on_response_head(schedule::RequestContext& context) const final;

 protected:
  /// `table`: see session_table().
  SessionAffinity(SessionParams params, std::shared_ptr<SessionTable> table);
  /// The candidate that the request's session is bound to, if it is among `selected`.
  std::optional<uint32_t> bound(schedule::RequestContext& context,
                                std::span<const uint32_t> selected) const;

 private:
  /// What this instance found out about a request.
  struct Seen {
    uint64_t session = 0;  // hash of its id; 0: none
    bool asked = false;    // bound() was called
    bool present = false;  // … and found the endpoint
  };

  bool by_header() const { return table_ == nullptr; }
  std::optional<uint32_t> from_header(schedule::RequestContext& context,
                                      std::span<const uint32_t> selected) const;
  uint64_t session_of(const schedule::RequestContext& context) const;
  /// The first target of the profile that counts; null when it did not run.
  const fleet::Endpoint* target(const schedule::RequestContext& context) const;

  SessionParams params_;
  std::shared_ptr<SessionTable> table_;  // null: the endpoint stands in a header
  std::vector<schedule::ConsumedValue<schedule::Text>> attributes_;  // by source
  schedule::RequestSlot<Seen> seen_;
  uint16_t profile_ = UINT16_MAX;
};

/// Checks `params` and completes them. The sessions of the instance; null when endpoints stand in a
/// header.
Result<std::shared_ptr<SessionTable>> session_table(SessionParams& params,
                                                    const plugin::Context& context);

/// Makes T, which is a SessionAffinity.
template <class T>
Result<std::unique_ptr<T>> make_session_plugin(SessionParams params,
                                               const plugin::Context& context) {
  LLMD_TRY_ASSIGN(auto table, session_table(params, context));
  return std::make_unique<T>(std::move(params), std::move(table));
}

}  // namespace llmd::plugins
