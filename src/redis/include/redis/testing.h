#pragma once

#include "io/loop.h"
#include "redis/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace llmd::redis::testing {

/// A client on a loop, and what stands at the other end of its connection, played by the test.
class ScriptedServer {
 public:
  ScriptedServer() { listen(0); }

  void listen(uint16_t at) {
    auto made = io::listen_tcp(*io::SocketAddress::parse("127.0.0.1", at));
    ASSERT_TRUE(made);
    listener = std::move(*made);
    port = io::SocketAddress::of(listener.get()).port();
  }
  /// A client that connects here.
  std::unique_ptr<Client> client(std::function<void(bool, std::string_view)> on_change,
                                 Address address = {}, ClientOptions options = {}) {
    address.host = "server";
    address.port = port;
    options.retry_min = std::chrono::milliseconds(1);
    options.retry_max = std::chrono::milliseconds(4);
    auto made = std::make_unique<Client>(
        loop, address, nullptr,
        [](const std::string&) { return Result<std::vector<std::string>>({"127.0.0.1"}); },
        std::move(on_change), options);
    made->open();
    return made;
  }
  void until(const std::function<bool()>& done) {
    bool is_done = done();
    for (int i = 0; i < 5000 && !is_done; ++i) {
      loop.turn(std::chrono::milliseconds(1));
      is_done = done();
    }
    ASSERT_TRUE(is_done);
  }
  void accept() {
    until([&] {
      connection.reset(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK));
      return static_cast<bool>(connection);
    });
  }
  /// The server gets exactly this.
  void expect(std::string_view bytes) {
    std::string got;
    until([&] {
      char buffer[65536];
      const size_t room = std::min(sizeof buffer, bytes.size() - got.size());
      const ssize_t n = ::recv(connection.get(), buffer, room, 0);
      if (n > 0) got.append(buffer, static_cast<size_t>(n));
      return got.size() == bytes.size();
    });
    EXPECT_EQ(got, bytes);
  }
  void answer(std::string_view bytes) {
    ASSERT_EQ(::send(connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void welcome(const Client& client) {
    accept();
    expect("*1\r\n$4\r\nPING\r\n");
    answer("+PONG\r\n");
    until([&] { return client.up(); });
  }

  io::Loop loop{0, 1};
  io::Fd listener, connection;
  uint16_t port = 0;
};

}  // namespace llmd::redis::testing
