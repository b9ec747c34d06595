#pragma once

#include "codec/grpc_frame.h"
#include "http/testing/wire.h"

#include <map>
#include <nghttp2/nghttp2.h>
#include <string>
#include <string_view>
#include <vector>

/// A gRPC client over a raw socket, driven by the test's loop: nghttp2 plays the peer's protocol.
namespace llmd::grpc::testing {

inline std::string framed(std::string_view message) {
  std::string out(5, '\0');
  for (int i = 0; i < 4; ++i) out[1 + i] = static_cast<char>(message.size() >> (24 - 8 * i));
  return out += message;
}

class TestClient {
 public:
  struct Reply {
    std::map<std::string, std::string> headers;  // trailers included
    std::string data;
    bool ended = false;  // by END_STREAM
    bool closed = false;
    uint32_t error = 0;

    std::vector<std::string> messages() const {
      std::vector<std::string> out;
      constexpr size_t kPrefix = codec::kGrpcPrefixBytes;
      for (size_t at = 0; at + kPrefix <= data.size();) {
        const size_t size = codec::grpc_message_size(std::string_view(data).substr(at));
        if (at + kPrefix + size > data.size()) break;
        out.push_back(data.substr(at + kPrefix, size));
        at += kPrefix + size;
      }
      return out;
    }
    std::string status() const {
      const auto it = headers.find("grpc-status");
      return it == headers.end() ? "" : it->second;
    }
  };

  explicit TestClient(uint16_t port, bool take_windows = true)
      : wire_(http::testing::Wire::connect(port)) {
    nghttp2_session_callbacks* c = nullptr;
    nghttp2_session_callbacks_new(&c);
    nghttp2_session_callbacks_set_on_header_callback(
        c, [](nghttp2_session*, const nghttp2_frame* f, const uint8_t* name, size_t n,
              const uint8_t* value, size_t v, uint8_t, void* user) {
          auto& reply = static_cast<TestClient*>(user)->replies[f->hd.stream_id];
          reply.headers[{reinterpret_cast<const char*>(name), n}] = {
              reinterpret_cast<const char*>(value), v};
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        c, [](nghttp2_session*, const nghttp2_frame* f, void* user) {
          auto& self = *static_cast<TestClient*>(user);
          if (f->hd.type == NGHTTP2_GOAWAY) {
            ++self.goaways;
            self.goaway_error = f->goaway.error_code;
          }
          if (f->hd.type == NGHTTP2_WINDOW_UPDATE)
            self.credit[f->hd.stream_id] += f->window_update.window_size_increment;
          if (f->hd.stream_id && (f->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
              (f->hd.type == NGHTTP2_HEADERS || f->hd.type == NGHTTP2_DATA))
            self.replies[f->hd.stream_id].ended = true;
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        c, [](nghttp2_session*, uint8_t, int32_t id, const uint8_t* data, size_t n, void* user) {
          static_cast<TestClient*>(user)->replies[id].data.append(
              reinterpret_cast<const char*>(data), n);
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        c, [](nghttp2_session*, int32_t id, uint32_t error, void* user) {
          auto& reply = static_cast<TestClient*>(user)->replies[id];
          reply.closed = true;
          reply.error = error;
          return 0;
        });
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, take_windows ? 0 : 1);
    nghttp2_session_client_new2(&session, c, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(c);
    nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, nullptr, 0);
  }
  ~TestClient() { nghttp2_session_del(session); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  using Headers = std::vector<std::pair<std::string, std::string>>;
  int32_t open(const std::string& path, const Headers& more = {}) {
    Headers headers = {{":method", "POST"}, {":scheme", "http"},
                       {":path", path},     {":authority", "test"},
                       {"te", "trailers"},  {"content-type", "application/grpc"}};
    headers.insert(headers.end(), more.begin(), more.end());
    std::vector<nghttp2_nv> nv;
    for (auto& [name, value] : headers)
      nv.push_back({reinterpret_cast<uint8_t*>(name.data()),
                    reinterpret_cast<uint8_t*>(value.data()), name.size(), value.size(),
                    NGHTTP2_NV_FLAG_NONE});
    auto* out = new Out;
    outs_.emplace_back(out);
    nghttp2_data_provider provider;
    provider.source.ptr = out;
    provider.read_callback = [](nghttp2_session*, int32_t, uint8_t* data, size_t room,
                                uint32_t* flags, nghttp2_data_source* source, void*) -> ssize_t {
      auto& o = *static_cast<Out*>(source->ptr);
      const size_t n = std::min(room, o.bytes.size());
      if (n == 0 && !o.end) return NGHTTP2_ERR_DEFERRED;
      o.bytes.copy(reinterpret_cast<char*>(data), n);
      o.bytes.erase(0, n);
      if (o.end && o.bytes.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
      return static_cast<ssize_t>(n);
    };
    const int32_t id =
        nghttp2_submit_request(session, nullptr, nv.data(), nv.size(), &provider, nullptr);
    by_id_[id] = out;
    return id;
  }
  void send_raw(int32_t id, std::string_view bytes) {
    by_id_[id]->bytes += bytes;
    nghttp2_session_resume_data(session, id);
  }
  void send(int32_t id, std::string_view message) { send_raw(id, framed(message)); }
  void end(int32_t id) {
    by_id_[id]->end = true;
    nghttp2_session_resume_data(session, id);
  }
  void reset(int32_t id) {
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
  }
  size_t unsent(int32_t id) const { return by_id_.at(id)->bytes.size(); }

  /// Exchanges bytes until `done`.
  template <class Done>
  ::testing::AssertionResult until(io::Loop& loop, Done done) {
    return http::testing::pump(loop, [&] {
      exchange();
      return done();
    });
  }
  void settle(io::Loop& loop) {
    for (int i = 0; i < 30; ++i) {
      exchange();
      loop.turn(Nanos(0));
    }
  }

  http::testing::Wire& wire() { return wire_; }
  std::map<int32_t, Reply> replies;
  std::map<int32_t, size_t> credit;  // window granted, by stream; 0: the connection's
  int goaways = 0;
  uint32_t goaway_error = 0;
  nghttp2_session* session = nullptr;

 private:
  struct Out {
    std::string bytes;
    bool end = false;
  };

  void exchange() {
    wire_.look();
    const std::string in = wire_.seen();
    wire_.forget_seen();
    if (!in.empty())
      nghttp2_session_mem_recv(session, reinterpret_cast<const uint8_t*>(in.data()), in.size());
    const uint8_t* data = nullptr;
    for (ssize_t n;
         pending_.size() < (1 << 20) && (n = nghttp2_session_mem_send(session, &data)) > 0;)
      pending_.append(reinterpret_cast<const char*>(data), static_cast<size_t>(n));
    pending_.erase(0, wire_.send_some(pending_));
  }

  http::testing::Wire wire_;
  std::string pending_;
  std::vector<std::unique_ptr<Out>> outs_;
  std::map<int32_t, Out*> by_id_;
};

}  // namespace llmd::grpc::testing
