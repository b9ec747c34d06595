#include "fetch/post.h"

#include <fmt/format.h>

#include <utility>

namespace llmd::fetch {

void Post::start(Server& server, std::string_view target, std::string body, Nanos timeout) {
  constexpr HeaderField kJson = {"Content-Type", "application/json"};
  body_ = std::move(body);
  piece_ = body_;
  status_ = 0;
  answer_bytes_ = 0;
  refusal_.clear();
  if (const auto* destination = begin(server, timeout))
    call_.start(*destination, {.method = "POST",
                               .target = target,
                               .host = server.authority(),
                               .headers = {&kJson, 1},
                               .body = {&piece_, 1}});
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

}  // namespace llmd::fetch
