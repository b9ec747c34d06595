#pragma once

#include "grpc/server.h"

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::grpc {

enum class Serving : uint8_t { kUnknown = 0, kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

/// The service grpc.health.v1.Health: Check, Watch and List. Threading: one loop, that of the
/// server which has its methods(). Lifetime: outlives the server.
class Health {
 public:
  /// `status_of` answers for any service name; `listed` are the names that List shows.
  Health(std::function<Serving(std::string_view service)> status_of,
         std::vector<std::string> listed);
  ~Health();

  std::vector<Method> methods();
  /// Tells those who watch what has changed since they were told last.
  void refresh();

 private:
  class Watch;
  const std::function<Serving(std::string_view)> status_of_;
  const std::vector<std::string> listed_;
  std::list<Watch*> watches_;
};

}  // namespace llmd::grpc
