#include "tls/stream.h"

#include "openssl.h"

#include "http/testing/wire.h"
#include "metric/registry.h"
#include "tls/context.h"
#include "tls/testing/authority.h"
#include "tls/testing/link.h"

#include <gtest/gtest.h>

#include <optional>

namespace llmd::tls {
namespace {

using http::testing::pump;
using http::testing::settle;
using http::testing::Wire;
using http::testing::WireListener;
using testing::Authority;
using testing::Directory;
using testing::Link;

class StreamTest : public ::testing::Test {
 protected:
  std::shared_ptr<Context> serving(ServerOptions options = {}) {
    if (!options.pair) options.pair = authority_.issue({"localhost", "127.0.0.1"});
    auto made = Context::server(std::move(options), Metrics::of(metrics_, "serving"));
    EXPECT_TRUE(made) << made.error().message;
    return *made;
  }
  std::shared_ptr<Target> target(ClientOptions options = {},
                                 const std::string& name = "127.0.0.1") {
    if (options.ca_file.empty() && options.verify)
      options.ca_file = directory_.write("ca.pem", authority_.certificate());
    auto made = Context::client(std::move(options), Metrics::of(metrics_, "upstream"));
    EXPECT_TRUE(made) << made.error().message;
    return std::make_shared<Target>(*made, name);
  }

  /// Two ends that are connected to each other.
  void connect(const std::shared_ptr<Context>& context, const std::shared_ptr<Target>& to) {
    auto fd = io::connect_tcp(*io::SocketAddress::parse("127.0.0.1", listener_.port()));
    client_.emplace(loop_, Stream(std::move(*fd), to, loop_.buffers()));
    server_.emplace(loop_, Stream(accepted(), context, loop_.buffers()));
  }
  io::Fd accepted() { return io::Fd(::dup(listener_.accept(loop_).fd())); }

  bool counted(std::string_view use, std::string_view result, int n) {
    return metrics_.render().find("llmd_tls_handshakes_total{result=\"" + std::string(result) +
                                  "\",use=\"" + std::string(use) + "\"} " + std::to_string(n) +
                                  "\n") != std::string::npos;
  }
  /// Whether a handshake of the two succeeds and bytes come across.
  bool talk(const std::shared_ptr<Context>& context, const std::shared_ptr<Target>& to) {
    connect(context, to);
    client_->write("hello");
    EXPECT_TRUE(pump(
        loop_, [&] { return server_->seen == "hello" || server_->broken || client_->broken; }));
    return server_->seen == "hello";
  }

  io::Loop loop_{0, 1};
  metric::Registry metrics_{1};
  Authority authority_;
  Directory directory_;
  WireListener listener_;
  std::optional<Link> client_, server_;
};

TEST_F(StreamTest, CarriesBytesBothWays) {
  for (const bool secure : {false, true}) {
    connect(secure ? serving() : nullptr, secure ? target() : nullptr);
    client_->write("ping");
    EXPECT_TRUE(pump(loop_, [&] { return server_->seen == "ping"; }));
    server_->write("pong");
    EXPECT_TRUE(pump(loop_, [&] { return client_->seen == "pong"; }));
    EXPECT_EQ(client_->stream().secure(), secure);
  }
  EXPECT_TRUE(counted("serving", "full", 1));
  EXPECT_TRUE(counted("upstream", "full", 1));
}

TEST_F(StreamTest, KeepsTheOrderOfBytesWhenThePeerReadsSlowly) {
  std::string bytes(12'000'000, 0);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 16);
  for (const bool secure : {false, true}) {
    connect(secure ? serving() : nullptr, secure ? target() : nullptr);
    server_->reads = false;
    client_->write(bytes);
    settle(loop_);
    EXPECT_FALSE(client_->all_sent());
    EXPECT_TRUE(pump(loop_, [&] {
      server_->read_all();
      return server_->seen.size() == bytes.size();
    }));
    EXPECT_TRUE(server_->seen == bytes);
  }
}

TEST_F(StreamTest, PutsThePiecesOfAWriteIntoOneRecord) {
  ASSERT_TRUE(talk(serving(), target()));
  const uint64_t before = client_->stream().bytes_sent(0);
  client_->write(std::string(15'000, 'x'));
  constexpr uint64_t kRecordOverhead = 5 + 1 + 16;  // head, type, tag of TLS 1.3
  EXPECT_EQ(client_->stream().bytes_sent(0) - before, 15'000 + kRecordOverhead);
}

TEST_F(StreamTest, TellsAnEndFromABreak) {
  for (const bool orderly : {true, false}) {
    ASSERT_TRUE(talk(serving(), target()));
    server_->write("all");
    if (orderly) server_->stream().say_end();
    server_->close();
    EXPECT_TRUE(pump(loop_, [&] { return client_->ended || client_->broken; }));
    EXPECT_EQ(client_->seen, "all");
    EXPECT_EQ(client_->ended, orderly);
  }
}

TEST_F(StreamTest, WritesAfterThePeersEnd) {
  ASSERT_TRUE(talk(serving(), target()));
  client_->stream().shut_down();
  EXPECT_TRUE(pump(loop_, [&] { return server_->ended; }));
  server_->write("still there");
  EXPECT_TRUE(pump(loop_, [&] { return client_->seen == "still there"; }));
}

TEST_F(StreamTest, ShakesHandsByteByByte) {
  WireListener front;
  client_.emplace(
      loop_,
      Stream(std::move(*io::connect_tcp(*io::SocketAddress::parse("127.0.0.1", front.port()))),
             target(), loop_.buffers()));
  Wire left = front.accept(loop_);
  Wire right = Wire::connect(listener_.port());
  server_.emplace(loop_, Stream(accepted(), serving(), loop_.buffers()));
  client_->write("hello");
  size_t from_left = 0, from_right = 0;
  const auto pass_one = [](Wire& from, Wire& to, size_t& at) {
    from.look();
    if (at < from.seen().size()) to.send(std::string_view(from.seen()).substr(at++, 1));
  };
  for (int i = 0; i < 8000 && server_->seen != "hello"; ++i) {
    pass_one(left, right, from_left);
    pass_one(right, left, from_right);
    loop_.turn(Nanos(0));
  }
  EXPECT_EQ(server_->seen, "hello");
}

TEST_F(StreamTest, EndsConnectionsThatDoNotSpeakTls) {
  const struct {
    std::string_view bytes, answer;
  } kCases[] = {
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "this port speaks TLS: use https\n"},
      {"POST /v1/completions HTTP/1.1\r\n", "this port speaks TLS: use https\n"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""},
      {std::string_view("\0\0\0\0\0\0\0\0", 8), ""},
      {"\x16\x03\x01\xff\xff garbage garbage garbage", ""},
  };
  int failures = 0;
  for (const auto& c : kCases) {
    Wire wire = Wire::connect(listener_.port());
    server_.emplace(loop_, Stream(accepted(), serving(), loop_.buffers()));
    wire.send(c.bytes);
    EXPECT_TRUE(pump(loop_, [&] { return server_->broken; })) << c.bytes;
    server_->close();
    EXPECT_TRUE(wire.sees_end(loop_));
    EXPECT_TRUE(wire.seen().ends_with(c.answer)) << wire.seen();
    EXPECT_TRUE(counted("serving", "failed", ++failures));
  }
}

TEST_F(StreamTest, CountsHandshakesThatNeverEnd) {
  Wire wire = Wire::connect(listener_.port());
  server_.emplace(loop_, Stream(accepted(), serving(), loop_.buffers()));
  wire.send("\x16\x03\x01\x02");
  settle(loop_);
  EXPECT_FALSE(server_->broken);
  char byte;
  EXPECT_EQ(server_->stream().read(&byte, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  server_->write("x");
  EXPECT_FALSE(server_->write_failed);
  server_->close();
  EXPECT_TRUE(counted("serving", "failed", 1));
}

TEST_F(StreamTest, ConnectsOnlyToWhomItMeans) {
  const Authority other("another");
  const struct {
    const char* what;
    PemPair pair;
    std::string name;
    bool good;
  } kCases[] = {
      {"address", authority_.issue({"127.0.0.1"}), "127.0.0.1", true},
      {"address of another", authority_.issue({"127.0.0.2", "localhost"}), "127.0.0.1", false},
      {"IPv6 address", authority_.issue({"::1"}), "::1", true},
      {"name", authority_.issue({"a.test"}), "a.test", true},
      {"name of another", authority_.issue({"b.test"}), "a.test", false},
      {"wildcard", authority_.issue({"*.pool.test"}), "a.pool.test", true},
      {"wildcard of another level", authority_.issue({"*.pool.test"}), "a.b.pool.test", false},
      {"common name only", authority_.issue({}), "leaf", false},
      {"expired", authority_.issue({"a.test"}, -std::chrono::minutes(1)), "a.test", false},
      {"signed by another", other.issue({"a.test"}), "a.test", false},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(talk(serving({.pair = c.pair}), target({}, c.name)), c.good) << c.what;
    EXPECT_TRUE(talk(serving({.pair = c.pair}), target({.verify = false}, c.name))) << c.what;
  }
}

TEST_F(StreamTest, AsksClientsForCertificates) {
  const auto file = [&](const std::string& name, const std::string& text) {
    return directory_.write(name, text);
  };
  ServerOptions options;
  options.client_ca_file = file("clients.pem", authority_.certificate());
  const auto server = serving(std::move(options));
  const auto with = [&](const PemPair& pair) {
    return target({.ca_file = file("ca.pem", authority_.certificate()),
                   .certificate_file = file("client.pem", pair.certificate),
                   .key_file = file("client.key", pair.key)});
  };
  EXPECT_TRUE(talk(server, with(authority_.issue({"client"}))));
  EXPECT_FALSE(talk(server, with(Authority("another").issue({"client"}))));
  EXPECT_FALSE(talk(server, with(authority_.issue({"client"}, -std::chrono::minutes(1)))));
  EXPECT_FALSE(talk(server, target()));
}

TEST_F(StreamTest, KnowsThatTheServerRefusedIt) {
  ServerOptions options;
  options.client_ca_file = directory_.write("clients.pem", authority_.certificate());
  connect(serving(std::move(options)), target());
  EXPECT_TRUE(pump(loop_, [&] { return client_->broken; }));
  EXPECT_TRUE(client_->opened()) << "the client's part of the handshake succeeds";
  EXPECT_TRUE(client_->stream().refused());
}

TEST_F(StreamTest, AgreesOnTheServersProtocolOnly) {
  ServerOptions options;
  options.protocols = {kHttp2};
  EXPECT_FALSE(talk(serving(std::move(options)), target()));
}

TEST_F(StreamTest, ResumesSessionsUntilTheFilesChange) {
  const auto pair = authority_.issue({"127.0.0.1"});
  ServerOptions options;
  options.certificate_file = directory_.write("tls.crt", pair.certificate);
  options.key_file = directory_.write("tls.key", pair.key);
  auto context = Context::server(options, Metrics::of(metrics_, "serving"));
  ASSERT_TRUE(context);
  const auto to = target();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(talk(*context, to));
    server_->write("ticket first");
    EXPECT_TRUE(pump(loop_, [&] { return !client_->seen.empty(); }));
    EXPECT_TRUE(counted("upstream", "resumed", i));
  }
  const auto renewed = authority_.issue({"127.0.0.1"});
  directory_.write("tls.crt", renewed.certificate);
  directory_.write("tls.key", renewed.key);
  EXPECT_TRUE((*context)->reload());
  ASSERT_TRUE(talk(*context, to));
  EXPECT_TRUE(counted("upstream", "resumed", 2));
  EXPECT_TRUE(counted("upstream", "full", 2));
}

TEST_F(StreamTest, IsQuietAboutTicketsAndNotAboutBytes) {
  connect(serving(), target());
  client_->reads = false;
  EXPECT_TRUE(pump(loop_, [&] { return server_->opened(); }));
  settle(loop_);
  EXPECT_TRUE(client_->stream().quiet()) << "tickets";
  server_->write("x");
  EXPECT_TRUE(pump(loop_, [&] { return !client_->stream().quiet(); }));
}

/// A client whose messages the test makes by hand.
class RawClient {
 public:
  RawClient() : context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_.get())) {
    SSL_set_bio(ssl_, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(ssl_);
  }
  ~RawClient() { SSL_free(ssl_); }
  bool shake_hands(Wire& wire) {
    wire.look();
    BIO_write(SSL_get_rbio(ssl_), wire.seen().data(), static_cast<int>(wire.seen().size()));
    wire.forget_seen();
    const bool done = SSL_do_handshake(ssl_) == 1;
    if (const auto out = output(); !out.empty()) wire.send(out);
    return done;
  }
  std::string key_updates(int count) {
    for (int i = 0; i < count; ++i) {
      SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED);
      SSL_do_handshake(ssl_);
    }
    return output();
  }

 private:
  std::string output() {
    char* data = nullptr;
    const long size = BIO_get_mem_data(SSL_get_wbio(ssl_), &data);
    std::string out(data, static_cast<size_t>(size));
    (void)BIO_reset(SSL_get_wbio(ssl_));
    return out;
  }
  ContextPtr context_;
  SSL* ssl_;
};

TEST_F(StreamTest, EndsPeersThatOnlyKeepItBusy) {
  Wire wire = Wire::connect(listener_.port());
  server_.emplace(loop_, Stream(accepted(), serving(), loop_.buffers()));
  RawClient client;
  EXPECT_TRUE(pump(loop_, [&] { return client.shake_hands(wire); }));
  const std::string flood = client.key_updates(20'000);
  size_t sent = 0;
  EXPECT_TRUE(pump(loop_, [&] {
    sent += wire.send_some(std::string_view(flood).substr(sent));
    return server_->broken;
  }));
}

}  // namespace
}  // namespace llmd::tls
