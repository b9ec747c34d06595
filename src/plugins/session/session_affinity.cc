#include "session_affinity.h"

#include "base/base64.h"
#include "base/keyed_hash.h"
#include "base/text.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using schedule::RequestContext;

constexpr std::string_view kByHeader = "encoded_endpoint_header";
constexpr std::string_view kById = "session_id";

const plugin::Params<SessionParams::Encoded>& encoded_table() {
  static const plugin::Params<SessionParams::Encoded> params = {
      plugin::field("header", &SessionParams::Encoded::header, "",
                    "Header of answers and of the requests that follow."),
  };
  return params;
}

const plugin::Params<SessionParams::Source>& source_table() {
  static const plugin::Params<SessionParams::Source> params = {
      plugin::field("header", &SessionParams::Source::header, "",
                    "Request header with the session's id."),
      plugin::field("attribute", &SessionParams::Source::attribute, "",
                    "Attribute of the request with the session's id, for example SessionIDDataKey "
                    "or agent-identity."),
      plugin::field("producer", &SessionParams::Source::producer, "", "Producer of the attribute."),
  };
  return params;
}

const plugin::Params<SessionParams::SessionId>& session_id_table() {
  static const plugin::Params<SessionParams::SessionId> params = {
      plugin::list_field("sources", &SessionParams::SessionId::sources, source_table(),
                         "Where the session's id comes from: the first that is not empty. Each has "
                         "either a header or an attribute."),
      plugin::field("evictionTtlSeconds", &SessionParams::SessionId::ttl_seconds, "seconds",
                    "After so long without a request a session is forgotten.")
          .positive(),
      plugin::field("evictionSweepSeconds", &SessionParams::SessionId::sweep_seconds, "seconds",
                    "Has no effect: sessions are forgotten on time without sweeps.")
          .positive(),
  };
  return params;
}

/// Checks what the strategy uses; what is empty there takes its default.
Status complete(SessionParams& params) {
  if (trim(params.encoded.header).empty()) params.encoded = {};
  if (params.session_id.sources.empty())
    params.session_id.sources = SessionParams::SessionId().sources;
  if (params.strategy == kByHeader) return {};
  const auto& sources = params.session_id.sources;
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool header = sources[i].header && !trim(*sources[i].header).empty();
    const bool attribute = sources[i].attribute && !sources[i].attribute->empty();
    if (header == attribute)
      return fail(Code::kBadRequest, "parameter 'sessionIdConfig.sources[" + std::to_string(i) +
                                         "]' must have either 'header' or 'attribute'");
  }
  return {};
}

std::string header_name(std::string_view text) {
  return to_lower(trim(text));
}

}  // namespace

const plugin::Params<SessionParams>& session_params() {
  static const plugin::Params<SessionParams> params = {
      plugin::field("strategy", &SessionParams::strategy, "",
                    "How a session's endpoint is known: the client returns it in a header, or the "
                    "router remembers it by the session's id.")
          .one_of({kByHeader, kById}),
      plugin::field("profileName", &SessionParams::profile, "",
                    "Profile whose target is remembered; empty: the primary one."),
      plugin::object_field("encodedEndpointHeaderConfig", &SessionParams::encoded, encoded_table(),
                           "For the strategy encoded_endpoint_header."),
      plugin::object_field("sessionIdConfig", &SessionParams::session_id, session_id_table(),
                           "For the strategy session_id."),
  };
  return params;
}

Result<std::shared_ptr<SessionTable>> session_table(SessionParams& params,
                                                    const plugin::Context& context) {
  LLMD_TRY(complete(params));
  if (params.strategy != kById) return nullptr;
  return context.state.get<SessionTable>(context.name, [] { return new SessionTable; });
}

SessionAffinity::SessionAffinity(SessionParams params, std::shared_ptr<SessionTable> table)
    : params_(std::move(params)), table_(std::move(table)) {
  params_.encoded.header = header_name(params_.encoded.header);
  for (auto& source : params_.session_id.sources)
    if (source.header) source.header = header_name(*source.header);
}

void SessionAffinity::wire(schedule::Wiring& wiring) {
  seen_ = wiring.request_slot<Seen>();
  profile_ = wiring.profile(params_.profile);
  if (by_header()) return;
  for (const auto& source : params_.session_id.sources) {
    auto& attribute = attributes_.emplace_back();
    if (!source.header)
      attribute = wiring.consumes_value<schedule::Text>(*source.attribute + "/" + source.producer,
                                                        schedule::Need::kOptional);
  }
}

std::optional<uint32_t> SessionAffinity::bound(RequestContext& context,
                                               std::span<const uint32_t> selected) const {
  if (by_header()) return from_header(context, selected);
  auto& seen = context.slot(seen_);
  seen.asked = true;
  seen.present = false;
  seen.session = session_of(context);
  if (seen.session == 0) return std::nullopt;
  const auto endpoint = table_->find(seen.session, context.clock.now(),
                                     std::chrono::seconds(params_.session_id.ttl_seconds));
  if (!endpoint) return std::nullopt;
  for (const uint32_t i : selected)
    if ((context.candidates[i].endpoint->id_hash() & SessionTable::kIdMask) == *endpoint) {
      seen.present = true;
      return i;
    }
  return std::nullopt;
}

std::optional<uint32_t> SessionAffinity::from_header(RequestContext& context,
                                                     std::span<const uint32_t> selected) const {
  const auto token = context.headers.get(params_.encoded.header);
  if (token.empty()) return std::nullopt;
  const auto id = base64_decode(token, context.arena);
  if (!id) return std::nullopt;
  for (const uint32_t i : selected)
    if (context.candidates[i].endpoint->id() == *id) return i;
  return std::nullopt;
}

uint64_t SessionAffinity::session_of(const RequestContext& context) const {
  const auto& sources = params_.session_id.sources;
  for (size_t i = 0; i < sources.size(); ++i) {
    std::string_view id;
    if (sources[i].header)
      id = context.headers.get(*sources[i].header);
    else if (const auto* text = context.get(attributes_[i]))
      id = text->value;
    if (id = trim(id); !id.empty()) return std::max<uint64_t>(1, keyed_hash(id) >> 1);
  }
  return 0;
}

const fleet::Endpoint* SessionAffinity::target(const RequestContext& context) const {
  const uint16_t profile = params_.profile.empty() ? context.primary : profile_;
  if (profile >= context.results.size() || context.results[profile].targets.empty()) return nullptr;
  return context.candidates[context.results[profile].targets[0]].endpoint;
}

/// A session stays with its endpoint while that is a candidate, also when another plugin sent this
/// request elsewhere.
Status SessionAffinity::pre_request(RequestContext& context) const {
  if (by_header()) return {};
  const auto& seen = context.slot(seen_);
  const auto* endpoint = target(context);
  if (!seen.asked || seen.session == 0 || !endpoint) return {};
  const TimePoint now = context.clock.now();
  const uint64_t id = endpoint->id_hash() & SessionTable::kIdMask;
  const auto ttl = std::chrono::seconds(params_.session_id.ttl_seconds);
  if (seen.present && table_->find(seen.session, now, ttl).value_or(id) != id) return {};
  table_->bind(seen.session, id, now);
  return {};
}

void SessionAffinity::on_response_head(RequestContext& context) const {
  if (!by_header()) return;
  if (const auto* endpoint = target(context))
    context.response_headers.set(params_.encoded.header,
                                 base64_encode(endpoint->id(), context.arena));
}

}  // namespace llmd::plugins
