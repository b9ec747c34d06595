#include "fetch/unary.h"

#include "codec/grpc_frame.h"

#include <fmt/format.h>

namespace llmd::fetch {

using codec::kGrpcPrefixBytes;

void Unary::start(Server& server, std::string_view method, std::string_view message,
                  Nanos timeout) {
  http_status_ = 0;
  status_.clear();
  refusal_.clear();
  answer_.clear();
  const auto* destination = begin(server, timeout);
  if (!destination) return;
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  const std::string limit = fmt::format("{}m", millis.count());
  const HeaderField headers[] = {
      {"content-type", "application/grpc"}, {"te", "trailers"}, {"grpc-timeout", limit}};
  call_.start(*destination,
              {.target = method, .authority = server.authority(), .headers = headers});
  const auto prefix = codec::grpc_prefix(message.size());
  call_.write({prefix.data(), prefix.size()}, false);
  call_.write(message, true);
}

void Unary::on_response(const http::ResponseHead& head) {
  http_status_ = head.status;
  on_trailers(head.headers);
}

/// They are in the head of an answer without a message.
void Unary::on_trailers(HeaderView trailers) {
  status_ = trailers.get("grpc-status");
  const auto message = trailers.get("grpc-message");
  refusal_ = http::percent_decode(message).value_or(std::string(message));
}

void Unary::on_data(std::string_view data, bool last) {
  if (answer_.size() + data.size() > kGrpcPrefixBytes + message_bytes_max_) {
    call_.abort();
    return end("the answer is too large");
  }
  answer_ += data;
  if (last) finish();
}

void Unary::finish() {
  if (http_status_ != 200) return end(fmt::format("status {}", http_status_));
  if (status_ != "0")
    return end(fmt::format("grpc-status {}{}{}", status_.empty() ? "is missing" : status_,
                           refusal_.empty() ? "" : ": ", refusal_.substr(0, kRefusalBytesMax)));
  const std::string_view answer = answer_;
  if (answer.size() < kGrpcPrefixBytes || answer[0] != 0 ||
      codec::grpc_message_size(answer) != answer.size() - kGrpcPrefixBytes)
    return end("the answer is not one message");
  on_answer(answer.substr(kGrpcPrefixBytes));
  end("");
}

}  // namespace llmd::fetch
