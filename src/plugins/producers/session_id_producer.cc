#include "base/text.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

struct Params {
  std::string header;
  std::string cookie;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("headerName", &Params::header, "", "Header with the session's id."),
      plugin::field("cookieName", &Params::cookie, "",
                    "Cookie with the session's id; either this or headerName."),
  };
  return params;
}

/// The first cookie of that name; "" without one.
std::string_view find_cookie(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    const size_t end = std::min(cookies.find(';'), cookies.size());
    const auto pair = trim(cookies.substr(0, end));
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
    const size_t equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name)
      return pair.substr(equals + 1);
  }
  return {};
}

class SessionIdProducer final : public schedule::Producer {
 public:
  static Result<std::unique_ptr<SessionIdProducer>> create(Params p, const plugin::Context&) {
    p.header = to_lower(trim(p.header));
    p.cookie = trim(p.cookie);
    if (p.header.empty() == p.cookie.empty())
      return fail(Code::kBadRequest, "needs either parameter 'headerName' or 'cookieName'");
    return std::make_unique<SessionIdProducer>(std::move(p));
  }

  explicit SessionIdProducer(Params params) : params_(std::move(params)) {}

  void wire(schedule::Wiring& wiring) override {
    id_ = wiring.produces_value<schedule::Text>("SessionIDDataKey/" + name());
  }

  Result<schedule::Progress> produce(schedule::RequestContext& context) const override {
    if (const auto id = trim(find(context.headers)); !id.empty()) context.set(id_, {id});
    return schedule::Progress::kDone;
  }

 private:
  std::string_view find(HeaderView headers) const {
    if (!params_.header.empty()) return headers.get(params_.header);
    for (const auto& field : headers)
      if (equals_ignore_case(field.name, "cookie"))
        if (const auto value = find_cookie(field.value, params_.cookie); !value.empty())
          return value;
    return {};
  }

  const Params params_;
  schedule::ProducedValue<schedule::Text> id_;
};

}  // namespace

const plugin::Descriptor& session_id_producer() {
  static const auto descriptor = plugin::describe<SessionIdProducer>(
      {.type = "session-id-producer",
       .kind = "producer",
       .summary = "Reads the session's id from a header or a cookie.",
       .produces_by_default = {"SessionIDDataKey/session-id-producer"}},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
