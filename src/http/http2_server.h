#pragma once

#include "deadline.h"
#include "server_connection.h"

#include "http2/connection.h"

#include <memory>
#include <string>
#include <vector>

namespace llmd::http {

class Http2Connection;

/// One request of an HTTP/2 connection. Its head is kept as text and views; its body is gathered,
/// or passed on as it comes and the stream's window given back as fast as its user lets it. Limits
/// and time-outs are those of HTTP/1.1; the connection's own are those of `http2`. A body that was
/// paused and is resumed has found its taker: its arrivals may be any time apart.
class Http2Exchange final : public Exchange, public http2::Stream {
 public:
  Http2Exchange(Server::State& server, Http2Connection& connection);

  const RequestHead& head() const override { return head_; }
  io::Loop& loop() const override { return server_.loop; }
  io::SocketAddress peer() const override;
  void stream_body() override { stream_body_ = true; }
  void pause_body() override;
  void resume_body() override;
  void respond(int status, std::span<const HeaderField> headers, std::string_view body) override;
  void start(int status, std::span<const HeaderField> headers,
             std::optional<uint64_t> length) override;
  bool write(std::string_view data, bool last) override;
  void finish(std::span<const HeaderField> trailers) override;
  void inform(int status, std::span<const HeaderField> headers) override;
  void abort() override;
  size_t unsent() const override { return output_.bytes(); }
  bool started() const override { return head_sent(); }
  bool ended() const override { return !announced_; }
  TimePoint began() const override { return began_; }
  TimePoint received() const override { return received_; }

 private:
  struct Field {
    size_t name, name_end, value_end;  // in text_
  };

  bool on_field(std::string_view name, std::string_view value) override;
  void on_fields_end(bool last) override;
  void on_data(std::string_view data) override;
  void on_end() override;
  void on_output_sent() override;
  void on_closed(http2::Error error) override;

  std::string_view text(size_t begin, size_t end) const {
    return std::string_view(text_).substr(begin, end - begin);
  }
  void read_head(bool last);
  bool check_head();
  bool charge_body();
  void await_body();
  void refuse(int status, std::string_view what);
  void send_start(int status, std::span<const HeaderField> headers, std::optional<uint64_t> length,
                  bool last);
  void await_client();
  void end_answer();
  void on_deadline();

  Server::State& server_;
  Http2Connection& connection_;
  std::string text_;  // names and values of the head
  std::vector<Field> lines_;
  std::vector<HeaderField> fields_;
  std::string cookies_;
  RequestHead head_;
  bool too_large_ = false;  // the head is
  bool two_hosts_ = false;  // its authority and its Host differ
  bool head_done_ = false;
  bool announced_ = false;  // on_request() was called and the exchange has not ended
  bool received_all_ = false;
  bool stream_body_ = false;
  bool body_paused_ = false;
  bool resumed_ = false;  // after a pause
  bool suppress_body_ = false;
  bool owes_writable_ = false;
  bool stalled_ = false;                 // the client was given up
  std::optional<uint64_t> answer_left_;  // of the declared length
  uint64_t body_bytes_ = 0;
  size_t uncredited_ = 0;  // received, and not given back to the stream's window
  io::Buffer body_;
  std::optional<io::BudgetShare> body_share_;
  TimePoint began_{};
  TimePoint counts_from_{};  // for the request as a whole: its begin, or when it was last resumed
  TimePoint received_{};
  Deadline deadline_;
  std::unique_ptr<RequestHandler> handler_;
};

/// One client that speaks HTTP/2.
class Http2Connection final : public http2::Connection {
 public:
  Http2Connection(Server::State& server, tls::Stream stream, io::PeerLimit::Place place);

  /// Takes what was read before it was known to be HTTP/2.
  void begin(std::string_view read) { receive(read); }
  io::SocketAddress peer() const { return io::SocketAddress::of(stream_.fd(), true); }
  bool stalled() const { return stalled_; }

  std::list<Http2Connection>::iterator self;

 private:
  std::unique_ptr<http2::Stream> open_stream() override {
    return std::make_unique<Http2Exchange>(server_, *this);
  }
  void on_timeout() override;
  void on_closed() override { server_.erase(*this); }

  Server::State& server_;
  const io::PeerLimit::Place place_;
  bool stalled_ = false;  // a time-out has passed
};

}  // namespace llmd::http
