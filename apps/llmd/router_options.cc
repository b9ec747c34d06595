#include "router_options.h"

#include "command_line.h"

#include <CLI/CLI.hpp>

namespace llmd {

std::optional<int> parse_router_options(RouterOptions& o, int argc, char** argv) {
  CLI::App app("Reverse proxy and endpoint picker in one process.", "llmd router");
  app.option_defaults()->always_capture_default();
  app.add_option("--host", o.host, "address to listen on");
  add_port(app, "--port", o.port, "port for clients; 0 takes a free one");
  app.add_option("--client-api-keys-file", o.client_api_keys_file,
                 "file of the API keys that clients may use; reloaded when it changes");
  add_quantity(app, "--max-request-header-bytes", o.header_bytes_max,
               "larger request heads get 431");
  app.add_option("--max-request-headers", o.headers_max, "request heads with more lines get 431")
      ->check(CLI::Range(1, 65'536));
  app.add_option("--max-connections", o.connections_max,
                 "of clients, per loop; more wait to be accepted; 0: no limit")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--max-connections-per-peer", o.connections_per_peer,
                 "more from one client address are closed; 0: no limit")
      ->check(CLI::Range(0, 1 << 30));
  add_quantity(app, "--max-buffered-bytes", o.buffered_bytes_max,
               "of request bodies, of all clients together; requests beyond it get 503");
  add_http2_limits(app, o.http2);
  app.add_flag("--hide-served-endpoint", o.hide_served_endpoint,
               "do not tell clients which endpoint answered");

  add_duration(app, "--header-timeout", o.header_timeout,
               "for a request's head to arrive whole; 0: none, as for those below");
  add_duration(app, "--body-idle-timeout", o.body_idle_timeout,
               "between two arrivals of a request's body");
  add_duration(app, "--request-timeout", o.request_timeout, "for a request to arrive whole");
  add_duration(app, "--connect-timeout", o.connect_timeout, "for a connection to an endpoint");
  add_duration(app, "--first-byte-timeout", o.first_byte_timeout,
               "from the end of a request to the head of its answer");
  add_duration(app, "--stream-idle-timeout", o.stream_idle_timeout,
               "between two arrivals of an answer");
  app.add_option("--max-endpoints-tried", o.retry.endpoints_max,
                 "endpoints that a request is sent to when one after the other fails")
      ->check(CLI::Range(size_t{1}, route::RetryOptions::kEndpointsMost));
  app.add_flag("--retry-after-send", o.retry.after_send,
               "try again also when an endpoint broke off after it had the whole request");
  bool no_ejection = false;
  app.add_flag("--no-ejection", no_ejection, "go on choosing endpoints that fail");
  app.add_option("--ejection-strikes", o.ejection.strikes,
                 "5xx answers and time-outs in a row that eject an endpoint")
      ->check(CLI::Range(1, 1'000'000));
  const auto code = parse_picker_flags(app, o, argc, argv);
  o.ejection.enabled = !no_ejection;
  return code;
}

}  // namespace llmd
