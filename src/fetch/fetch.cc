#include "fetch/fetch.h"

namespace llmd::fetch {

const http::Destination* Fetch::begin(Server& server, Nanos timeout) {
  server_ = &server;
  const auto* destination = server.destination(loop_.clock().now());
  if (destination) {
    timer_.arm(timeout, [this] {
      abort();
      end(http::text_of(http::Failure::kTimeout));
    });
  } else {
    // As the failures of calls: never from within.
    timer_.arm(Nanos(0), [this] { end("the name of the server cannot be resolved", false); });
  }
  return destination;
}

void Fetch::on_failure(http::Failure failure) {
  const bool reached = failure != http::Failure::kConnect;
  if (!reached) server_->could_not_be_reached();
  end(http::text_of(failure), reached);
}

void Fetch::end(std::string_view why, bool reached) {
  timer_.cancel();
  server_ = nullptr;
  on_ended(why, reached);
}

}  // namespace llmd::fetch
