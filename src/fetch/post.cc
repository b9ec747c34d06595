#include "fetch/post.h"

#include <fmt/format.h>

#include <utility>

namespace llmd::fetch {

const http::Destination* Server::destination(TimePoint now) {
  const bool known = destination_ && (reached_ || spec_.host_name.empty());
  if (known || now < next_lookup_) return destination_ ? &*destination_ : nullptr;
  next_lookup_ = now + kLookupInterval;
  if (spec_.scheme == "https" && !context_) return nullptr;
  std::string address = spec_.address;
  if (!spec_.host_name.empty()) {
    auto found = resolver_(spec_.host_name);
    if (!found || found->empty()) return destination_ ? &*destination_ : nullptr;
    address = found->front();
  }
  const auto parsed = io::SocketAddress::parse(address, spec_.port);
  if (!parsed) return nullptr;
  destination_ = {*parsed, ++generation_, nullptr};
  if (spec_.scheme == "https")
    destination_->tls = std::make_shared<tls::Target>(
        context_, spec_.host_name.empty() ? spec_.address : spec_.host_name);
  reached_ = true;
  return &*destination_;
}

void Post::start(Server& server, std::string_view target, std::string body, Nanos timeout) {
  constexpr HeaderField kJson = {"Content-Type", "application/json"};
  server_ = &server;
  body_ = std::move(body);
  piece_ = body_;
  status_ = 0;
  answer_bytes_ = 0;
  refusal_.clear();
  const auto* destination = server.destination(loop_.clock().now());
  if (!destination) {
    // As the failures of calls: never from within.
    timer_.arm(Nanos(0), [this] { end("the name of the server cannot be resolved", false); });
    return;
  }
  call_.start(*destination, {.method = "POST",
                             .target = target,
                             .host = server.name(),
                             .headers = {&kJson, 1},
                             .body = {&piece_, 1}});
  timer_.arm(timeout, [this] {
    call_.abort();
    end("no answer in time");
  });
}

void Post::on_data(std::string_view data, bool last) {
  answer_bytes_ += data.size();
  if (answer_bytes_ > answer_bytes_max_) {
    call_.abort();
    return end("the answer is too large");
  }
  const bool success = status_ >= 200 && status_ < 300;
  if (success)
    on_answer(data);
  else
    refusal_.append(data.substr(0, kRefusalBytesMax - refusal_.size()));
  if (!last) return;
  if (success) return end("");
  end(fmt::format("status {}{}{}", status_, refusal_.empty() ? "" : ": ", refusal_));
}

void Post::on_failure(http::Failure failure) {
  if (failure == http::Failure::kConnect) {
    server_->could_not_be_reached();
    return end("cannot connect", false);
  }
  end(failure == http::Failure::kTimeout ? "no answer in time" : "the connection broke");
}

void Post::end(std::string_view why, bool reached) {
  timer_.cancel();
  server_ = nullptr;
  on_ended(why, reached);
}

}  // namespace llmd::fetch
