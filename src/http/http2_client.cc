#include "http/http2_client.h"

#include "client_connection.h"

#include "base/check.h"
#include "http2/connection.h"

#include <charconv>
#include <list>
#include <string>
#include <vector>

namespace llmd::http {
namespace {

constexpr http2::Limits kLimits = {.stream_window_bytes = 256 * 1024,
                                   // Servers measure their path by PING.
                                   .control_frames_per_second = 10'000};
/// Of a request's body that the server does not take; beyond it its writer has to wait.
constexpr size_t kUnsentBytesMax = 64 * 1024;

}  // namespace

class Http2ClientConnection;

struct Http2Client::State {
  State(io::Loop& l, ClientOptions o, io::ByteBudget& b) : loop(l), options(o), budget(b) {}

  /// A connection to `destination` that takes another call; null: none can be made.
  Http2ClientConnection* connection_to(const Destination& destination);

  io::Loop& loop;
  const ClientOptions options;
  io::ByteBudget& budget;
  std::list<Http2ClientConnection> connections;
};

/// One connection and its calls.
class Http2ClientConnection final : public http2::Connection {
 public:
  Http2ClientConnection(Http2Client::State& client, const Destination& destination, io::Fd fd)
      : http2::Connection(
            client.loop, tls::Stream(std::move(fd), destination.tls, client.loop.buffers()),
            http2::Session::Role::kClient, kLimits, {},
            {.handshake = client.options.connect_timeout, .idle = client.options.idle_timeout}),
        client_(client),
        destination_(destination) {}

  bool takes_calls_to(const Destination& destination) const {
    return stream_ && !purged_ && DestinationEqual()(destination, destination_) &&
           session_.can_request();
  }
  bool is_to(const Destination& destination) const {
    return DestinationEqual()(destination, destination_);
  }
  void begin(std::unique_ptr<http2::Stream> stream, std::span<const HeaderField> head, bool last) {
    session_.request(std::move(stream), head, last);
  }
  void purge() {
    purged_ = true;
    if (session_.streams() == 0) close();
  }
  /// Why a call fails whose connection ends.
  Failure failure(http2::Error error) const {
    if (wrong_protocol_ || error == http2::Error::kProtocol) return Failure::kProtocol;
    if (!session_.head_pending()) return Failure::kReset;
    return session_.heard() ? Failure::kProtocol : Failure::kConnect;
  }
  bool gone() const { return !stream_; }

  std::list<Http2ClientConnection>::iterator self;

 private:
  bool on_established() override {
    wrong_protocol_ = stream_.secure() && !stream_.agreed_on(tls::kHttp2);
    return !wrong_protocol_;
  }
  std::unique_ptr<http2::Stream> open_stream() override { return nullptr; }  // servers do not push
  void on_closed() override { client_.connections.erase(self); }

  Http2Client::State& client_;
  const Destination destination_;
  bool purged_ = false;
  bool wrong_protocol_ = false;
};

Http2ClientConnection* Http2Client::State::connection_to(const Destination& destination) {
  for (auto& connection : connections)
    if (connection.takes_calls_to(destination)) return &connection;
  auto fd = connect(destination);
  if (!fd) return nullptr;
  connections.emplace_front(*this, destination, std::move(*fd));
  connections.front().self = connections.begin();
  return &connections.front();
}

/// The stream of one call. It outlives the call, which may end first.
class Http2CallStream final : public http2::Stream {
 public:
  Http2CallStream(Http2Call& call, Http2ClientConnection& connection)
      : http2::Stream(call.client_.loop().buffers(), call.client_.state_->budget),
        call_(&call),
        options_(call.client_.state_->options),
        loop_(call.client_.loop()),
        connection_(connection),
        deadline_(loop_, [this] { fail(Failure::kTimeout); }) {}

  bool write(std::string_view data, bool last) {
    if (!data.empty()) {
      const http2::Piece piece{data};
      send({&piece, 1});
    }
    if (last) {
      finish();
      request_ended_ = true;
      if (!head_done_) deadline_.set(options_.response_timeout);
    }
    // Whoever was told to wait waits for on_request_drained(), even if this is little.
    owes_drained_ |= output_.bytes() > kUnsentBytesMax;
    return !owes_drained_;
  }

  /// The call wants nothing more.
  void abandon() {
    call_ = nullptr;
    deadline_.clear();
    reset(http2::Error::kCancel);
  }

  void pause() {
    paused_ = true;
    if (head_done_) deadline_.clear();
  }
  void resume() {
    if (!std::exchange(paused_, false)) return;
    if (head_done_) deadline_.set(options_.body_timeout);
    consume(std::exchange(uncredited_, 0));
  }

 private:
  struct Field {
    size_t name, name_end, value_end;  // in text_
  };

  bool on_field(std::string_view name, std::string_view value) override {
    if (!within_header_list(name, value) || lines_.size() == options_.headers_max) return false;
    if (name == ":status") {
      std::from_chars(value.data(), value.data() + value.size(), status_);
      return true;
    }
    const size_t begin = text_.size();
    text_.append(name).append(value);
    lines_.push_back({begin, begin + name.size(), text_.size()});
    return true;
  }

  void on_fields_end(bool last) override {
    fields_.clear();
    const std::string_view text = text_;
    for (const auto& [begin, name_end, end] : lines_)
      fields_.push_back(
          {text.substr(begin, name_end - begin), text.substr(name_end, end - name_end)});
    if (call_) report(last);
    text_.clear();
    lines_.clear();
  }

  void report(bool last) {
    CallHandler& handler = call_->handler_;
    const HeaderView view(std::span<const HeaderField>{fields_});
    if (head_done_) return handler.on_trailers(view);
    ResponseHead head;
    head.status = status_;
    head.headers = view;
    head.framing = last ? Framing::kNone : Framing::kUntilClose;
    if (status_ < 200) return handler.on_inform(head);
    head_done_ = true;
    deadline_.set(options_.body_timeout);
    handler.on_response(head);
  }

  void on_data(std::string_view data) override {
    uncredited_ += data.size();
    if (call_ && !data.empty()) {
      if (!paused_) deadline_.set(options_.body_timeout);
      call_->handler_.on_data(data, false);
    }
    if (!paused_ || !call_) consume(std::exchange(uncredited_, 0));
  }

  void on_end() override {
    Http2Call* call = leave();
    if (!request_ended_) reset(http2::Error::kCancel);
    if (call) call->handler_.on_data({}, true);
  }

  void on_output_sent() override {
    if (!call_) return;
    CallHandler& handler = call_->handler_;
    if (output_.bytes() == 0 && std::exchange(owes_drained_, false)) handler.on_request_drained();
    if (call_ && !std::exchange(began_sending_, true)) handler.on_sent(loop_.turn_time());
  }

  void on_closed(http2::Error error) override {
    if (!call_) return;
    Failure failure = head_done_ ? Failure::kBroken : Failure::kReset;
    if (!head_done_ && error == http2::Error::kRefusedStream)
      failure = Failure::kUnsent;
    else if (!head_done_ && connection_.gone())
      failure = connection_.failure(error);
    leave()->handler_.on_failure(failure);
  }

  void fail(Failure failure) {
    if (Http2Call* call = leave()) {
      reset(http2::Error::kCancel);
      call->handler_.on_failure(failure);
    }
  }

  /// The call has ended; whom to tell.
  Http2Call* leave() {
    deadline_.clear();
    if (call_) call_->stream_ = nullptr;
    return std::exchange(call_, nullptr);
  }

  Http2Call* call_;  // null: it wants nothing more
  const ClientOptions& options_;
  io::Loop& loop_;
  Http2ClientConnection& connection_;
  std::string text_;  // names and values of a head
  std::vector<Field> lines_;
  std::vector<HeaderField> fields_;
  int status_ = 0;
  bool head_done_ = false;
  bool request_ended_ = false;
  bool began_sending_ = false;
  bool owes_drained_ = false;
  bool paused_ = false;
  size_t uncredited_ = 0;  // received, and not given back to the stream's window
  Deadline deadline_;
};

Http2Client::Http2Client(io::Loop& loop, ClientOptions options, io::ByteBudget& budget)
    : state_(std::make_unique<State>(loop, options, budget)) {}

Http2Client::~Http2Client() {
  for (auto& connection : state_->connections) connection.close();
}

io::Loop& Http2Client::loop() const {
  return state_->loop;
}

void Http2Client::purge(const Destination& destination) {
  for (auto& connection : state_->connections)
    if (connection.is_to(destination)) connection.purge();
}

size_t Http2Client::connections() const {
  return state_->connections.size();
}

void Http2Call::start(const Destination& destination, const Http2Request& request) {
  CHECK(!active());
  auto* connection = client_.state_->connection_to(destination);
  if (!connection) {
    failed_ = true;
    client_.loop().at_turn_end(*this);
    return;
  }
  std::vector<HeaderField> head = {{":method", request.method},
                                   {":scheme", destination.tls ? "https" : "http"},
                                   {":authority", request.authority},
                                   {":path", request.target}};
  head.insert(head.end(), request.headers.begin(), request.headers.end());
  auto stream = std::make_unique<Http2CallStream>(*this, *connection);
  stream_ = stream.get();
  connection->begin(std::move(stream), head, request.last);
  if (request.last) stream_->write({}, true);
}

bool Http2Call::write(std::string_view data, bool last) {
  return !stream_ || stream_->write(data, last);
}

void Http2Call::abort() {
  failed_ = false;
  if (auto* stream = std::exchange(stream_, nullptr)) stream->abandon();
}

void Http2Call::pause() {
  if (stream_) stream_->pause();
}

void Http2Call::resume() {
  if (stream_) stream_->resume();
}

void Http2Call::at_turn_end() {
  if (std::exchange(failed_, false)) handler_.on_failure(Failure::kConnect);
}

}  // namespace llmd::http
