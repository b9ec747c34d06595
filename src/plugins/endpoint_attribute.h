#pragma once

#include "base/result.h"
#include "fleet/endpoint.h"

#include <cstdint>
#include <optional>
#include <string>

namespace llmd::plugins {

/// A number per endpoint that a data source provides, as parameters name it.
class EndpointAttribute {
 public:
  /// `producer`: none means the metrics page of the model server, "" an attribute without producer.
  /// Errors name `parameter`, which holds `name`.
  static Result<EndpointAttribute> create(const std::string& name,
                                          const std::optional<std::string>& producer,
                                          std::string_view parameter) {
    const std::string where = "parameter '" + std::string(parameter) + "'";
    if (name.empty()) return fail(Code::kBadRequest, where + " is missing");
    if (!producer && name.find('/') != std::string::npos)
      return fail(Code::kBadRequest, where + ": '" + name +
                                         "' has a '/', which needs parameter 'producer' to be "
                                         "given, \"\" for an attribute without producer");
    return EndpointAttribute(producer ? name + "/" + *producer
                                      : name + std::string(fleet::kCoreProducer));
  }

  std::optional<double> of(const fleet::Endpoint& endpoint) const {
    return endpoint.details.digest().attribute(key_);
  }

 private:
  explicit EndpointAttribute(const std::string& key) : key_(fleet::detail_key(key)) {}

  uint64_t key_;
};

}  // namespace llmd::plugins
