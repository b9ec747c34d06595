#pragma once

#include "fetch/fetch.h"
#include "http/http2_client.h"

#include <string>
#include <string_view>

namespace llmd::fetch {

/// One gRPC call with a message each way.
class Unary : public Fetch {
 public:
  static constexpr size_t kRefusalBytesMax = 1024;  // of grpc-message that are told

  Unary(io::Loop& loop, http::Http2Client& client, size_t message_bytes_max)
      : Fetch(loop), message_bytes_max_(message_bytes_max), call_(client, *this) {}

 protected:
  /// Requires: not active. `method` is "/package.Service/Method" and static. A call without success
  /// ends with its status and message.
  void start(Server& server, std::string_view method, std::string_view message, Nanos timeout);

  /// The answer, before the call ends.
  virtual void on_answer(std::string_view /*message*/) {}

 private:
  void on_response(const http::ResponseHead& head) final;
  void on_trailers(HeaderView trailers) final;
  void on_data(std::string_view data, bool last) final;
  void abort() final { call_.abort(); }
  void finish();

  const size_t message_bytes_max_;
  http::Http2Call call_;
  int http_status_ = 0;
  std::string status_;   // grpc-status; "": none has come
  std::string refusal_;  // grpc-message
  std::string answer_;   // framed
};

}  // namespace llmd::fetch
