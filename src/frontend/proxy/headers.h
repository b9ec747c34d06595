#pragma once

#include "base/headers.h"

#include <string_view>
#include <vector>

namespace llmd::frontend {

/// The names that a Connection header ties to the connection (RFC 9110 §7.6.1). A client cannot use
/// it to strip what routing and framing rely on: Host, Content-Length, Authorization and x-… stay.
class Nominated {
 public:
  /// Reads the Connection headers of `headers`, whose bytes must stay.
  void read(HeaderView headers);
  bool holds(std::string_view name) const;

 private:
  std::vector<std::string_view> names_;
};

/// Whether a client's header is left out of the forwarded request: hop-by-hop headers, those that
/// the client of the endpoint writes itself (Host, Content-Length, Expect), and routing headers.
bool stays_behind(std::string_view name);

/// Whether an endpoint's header is left out of the relayed answer: hop-by-hop headers,
/// Content-Length (written anew), and the headers that this router answers for.
bool stays_behind_in_answer(std::string_view name);

}  // namespace llmd::frontend
