#pragma once

#include "fetch/fetch.h"

#include <string>
#include <string_view>

namespace llmd::fetch {

/// One POST of JSON.
class Post : public Fetch {
 public:
  static constexpr size_t kRefusalBytesMax = 1024;  // that are told of an answer without success

  Post(io::Loop& loop, http::Client& client, size_t answer_bytes_max)
      : Fetch(loop), answer_bytes_max_(answer_bytes_max), call_(client, *this) {}

 protected:
  /// Requires: not active. `target` is static. An answer without success ends it with the status
  /// and the beginning of the answer.
  void start(Server& server, std::string_view target, std::string body, Nanos timeout);

  /// Bytes of an answer with a status of success.
  virtual void on_answer(std::string_view /*bytes*/) {}

 private:
  void on_response(const http::ResponseHead& head) final { status_ = head.status; }
  void on_data(std::string_view data, bool last) final;
  void abort() final { call_.abort(); }

  const size_t answer_bytes_max_;
  http::Call call_;
  std::string body_;
  std::string_view piece_;
  int status_ = 0;
  std::string refusal_;
  size_t answer_bytes_ = 0;
};

}  // namespace llmd::fetch
