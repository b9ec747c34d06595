#pragma once

#include "grpc/server.h"

#include <string_view>
#include <utility>

namespace llmd::grpc {

/// A call with one message and one answer, which may come later. Threading: the server's loop.
class UnaryHandler : public CallHandler {
 public:
  explicit UnaryHandler(Call& call) : call_(call) {}
  void on_half_close() final {
    if (!asked_) call_.finish(StatusCode::kInvalidArgument, "there is no request");
  }
  void on_message(std::string_view message) final {
    if (std::exchange(asked_, true))
      return call_.finish(StatusCode::kInvalidArgument, "there is more than one request");
    on_request(message);
  }
  void on_abort(StatusCode) override {}

 protected:
  /// Answers, or finishes the call with an error, now or later.
  virtual void on_request(std::string_view message) = 0;
  void answer(std::string_view message) {
    call_.send({Piece{.bytes = message, .stays = false}});
    call_.finish(StatusCode::kOk);
  }

  Call& call_;

 private:
  bool asked_ = false;
};

}  // namespace llmd::grpc
