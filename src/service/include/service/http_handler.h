#pragma once

#include "http/server.h"
#include "metric/registry.h"

#include <string_view>

namespace llmd::service {

/// Answers GET /healthz, /health, /readyz and /metrics, and refuses what else there is not.
/// Threading: the server's loop.
class HttpHandler : public http::RequestHandler {
 public:
  explicit HttpHandler(metric::Registry& metrics) : metrics_(metrics) {}
  void on_request_end(http::Exchange& exchange, std::string_view body) final;

 protected:
  /// Whether there is something at the path, to which bodies are posted.
  virtual bool has(std::string_view path) const = 0;
  /// Requires: has(path).
  virtual void on_post(http::Exchange& exchange, std::string_view path, std::string_view body) = 0;

  /// Why requests should not come yet; "": they may.
  virtual std::string_view unready() const { return {}; }

  static void respond_json(http::Exchange& exchange, std::string_view json);
  static void refuse(http::Exchange& exchange, int status, std::string_view message);

 private:
  metric::Registry& metrics_;
};

}  // namespace llmd::service
