#include "session.h"

#include "openssl.h"

#include "base/check.h"
#include "base/log.h"
#include "io/loop.h"
#include "io/socket.h"

#include <openssl/err.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/socket.h>

namespace llmd::tls {
namespace {

/// Plaintext that one send carries at most: three full records.
constexpr size_t kRecordBytes = 16 * 1024;
constexpr size_t kWriteBytes = 3 * kRecordBytes;
/// What TLS may be told beyond the user's bytes, so that messages of its own cannot keep a loop
/// busy: a handshake with long certificate chains fits.
constexpr size_t kSilentBytesMax = 256 * 1024;
/// For those who speak HTTP to a port that speaks TLS.
constexpr std::string_view kPlainAnswer =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    "this port speaks TLS: use https\n";

}  // namespace

/// The socket as OpenSSL sees it.
struct Session::Socket {
  static int receive(BIO* bio, char* into, int room) {
    Session& session = *static_cast<Session*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (session.silent_bytes_ > kSilentBytesMax) return -1;
    ssize_t n = -1;
    if (!session.drained_ || session.peer_gone_) {
      do {
        n = ::recv(session.fd_, into, static_cast<size_t>(room), 0);
      } while (n < 0 && errno == EINTR);
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return -1;
    }
    // A short read has emptied the socket; what comes later is a new report.
    session.drained_ = n < room;
    if (n < 0) {
      BIO_set_retry_read(bio);
      return -1;
    }
    session.silent_bytes_ += static_cast<size_t>(n);
    return static_cast<int>(n);
  }

  static int send(BIO* bio, const char* bytes, int size) {
    Session& session = *static_cast<Session*>(BIO_get_data(bio));
    BIO_clear_retry_flags(bio);
    if (!session.cipher_) session.cipher_ = session.buffers_.take(static_cast<size_t>(size));
    session.cipher_.append({bytes, static_cast<size_t>(size)});
    return size;
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO* make(Session& session) {
    static BIO_METHOD* const method = [] {
      BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
      CHECK(m != nullptr);
      BIO_meth_set_read(m, receive);
      BIO_meth_set_write(m, send);
      BIO_meth_set_ctrl(m, control);
      return m;
    }();
    BIO* bio = BIO_new(method);
    CHECK(bio != nullptr);
    BIO_set_data(bio, &session);
    BIO_set_init(bio, 1);
    return bio;
  }
};

Session::Session(int fd, std::shared_ptr<Context> context, io::BufferPool& buffers)
    : fd_(fd),
      ssl_(context->new_connection(load_)),
      context_(std::move(context)),
      buffers_(buffers) {
  start();
  SSL_set_accept_state(ssl_);
}

Session::Session(int fd, std::shared_ptr<Target> target, io::BufferPool& buffers)
    : fd_(fd),
      ssl_(target->new_connection(load_)),
      context_(target->context_),
      target_(std::move(target)),
      buffers_(buffers) {
  start();
  SSL_set_connect_state(ssl_);
}

void Session::start() {
  BIO* socket = Socket::make(*this);
  SSL_set_bio(ssl_, socket, socket);
  SSL_set_app_data(ssl_, this);
}

Session::~Session() {
  if (state_ == State::kHandshake) context_->metrics().failed.add();
  // Without this OpenSSL would take a session that just broke off for unfit to be resumed.
  SSL_set_shutdown(ssl_, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(ssl_);
}

bool Session::agreed_on(std::string_view protocol) const {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl_, &name, &size);
  return std::string_view(reinterpret_cast<const char*>(name), size) == protocol;
}

int Session::on_new_ticket(ssl_st* ssl, ssl_session_st* session) {
  Session& self = *static_cast<Session*>(SSL_get_app_data(ssl));
  self.target_->keep(session, self.load_);
  return 1;
}

uint32_t Session::on_ready(uint32_t ready) {
  if (ready & io::kReadable) drained_ = false;
  if (ready & io::kPeerGone) peer_gone_ = true;
  if (ready & io::kWritable) flush();
  if (state_ != State::kHandshake) return ready;
  shake_hands();
  if (state_ == State::kHandshake) return 0;
  return io::kReadable | io::kWritable | (peer_gone_ ? io::kPeerGone : 0u);
}

void Session::shake_hands() {
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_);
  const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_, result);
  if (result != 1 && error != SSL_ERROR_WANT_READ) break_off("TLS handshake failed");
  flush();
  if (result != 1) return;
  state_ = State::kOpen;
  if (target_) target_->failure_.clear();
  silent_bytes_ = 0;
  const auto& metrics = context_->metrics();
  (SSL_session_reused(ssl_) ? metrics.resumed : metrics.full).add();
}

/// Nothing more can be read, and nothing but an alert written. Operators hear once of what is wrong
/// with servers that they have chosen; clients may be anybody.
void Session::break_off(const char* when) {
  const unsigned long error = ERR_peek_error();
  if (state_ == State::kHandshake) context_->metrics().failed.add();
  state_ = State::kBroken;
  const auto peer = io::SocketAddress::of(fd_, true);
  const std::string why = ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED
                              ? X509_verify_cert_error_string(SSL_get_verify_result(ssl_))
                          : error != 0       ? take_error()
                          : peer.port() == 0 ? "no connection was made"
                                             : "the connection broke off";
  const bool news = target_ && std::exchange(target_->failure_, why) != why;
  const auto level = news ? log::Level::kWarn : log::Level::kDebug;
  if (log::enabled(level))
    log::write(level, when,
               {{"peer", peer.to_string()},
                {"name", target_ ? target_->name() : std::string()},
                {"error", why}});
  if (!target_ && ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST)
    Socket::send(SSL_get_wbio(ssl_), kPlainAnswer.data(), static_cast<int>(kPlainAnswer.size()));
}

ssize_t Session::read(char* into, size_t room) {
  more_ = false;
  if (state_ == State::kHandshake) {
    errno = EAGAIN;
    return -1;
  }
  size_t taken = 0;
  while (taken < room && state_ == State::kOpen) {
    size_t n = 0;
    ERR_clear_error();
    const int result = SSL_read_ex(ssl_, into + taken, room - taken, &n);
    if (result == 1) {
      taken += n;
      got_data_ = true;
      silent_bytes_ = 0;
      continue;
    }
    const int error = SSL_get_error(ssl_, result);
    if (error == SSL_ERROR_WANT_READ) break;
    if (error == SSL_ERROR_ZERO_RETURN) {
      state_ = State::kEnded;
    } else {
      end_abruptly();
    }
  }
  flush();
  if (taken > 0) {
    more_ = state_ != State::kOpen || (taken == room && (SSL_has_pending(ssl_) || !drained_));
    return static_cast<ssize_t>(taken);
  }
  if (state_ == State::kEnded) return 0;
  errno = state_ == State::kOpen ? EAGAIN : ECONNRESET;
  return -1;
}

/// After an error of reading: alerts are worth a line, a connection that just ends is not.
void Session::end_abruptly() {
  const bool alert = ERR_GET_REASON(ERR_peek_error()) >= SSL_AD_REASON_OFFSET;
  refused_ = target_ && alert && !got_data_;
  if (refused_) return break_off("TLS server refused this client");
  state_ = State::kBroken;
}

/// A place in the bytes of several pieces.
struct Session::Position {
  std::span<const iovec> pieces;
  size_t used = 0;  // of the first piece

  /// What is left of the first piece that has anything left.
  std::string_view rest() {
    while (used == pieces.front().iov_len) {
      pieces = pieces.subspan(1);
      used = 0;
    }
    const iovec& piece = pieces.front();
    return {static_cast<const char*>(piece.iov_base) + used, piece.iov_len - used};
  }
  void skip(size_t n) {
    while (n > 0) {
      const size_t part = std::min(n, rest().size());
      used += part;
      n -= part;
    }
  }
};

/// Encrypts `size` bytes into cipher_, in as few records as hold them.
bool Session::encrypt(Position& from, size_t size) {
  ERR_clear_error();
  while (size > 0) {
    const size_t record = std::min(size, kRecordBytes);
    std::string_view bytes = from.rest().substr(0, record);
    io::Buffer gathered;
    if (bytes.size() < record) {
      gathered = buffers_.take(record);
      while (gathered.size() < record) {
        bytes = from.rest().substr(0, record - gathered.size());
        gathered.append(bytes);
        from.skip(bytes.size());
      }
      bytes = gathered.view();
    } else {
      from.skip(record);
    }
    size_t n = 0;
    if (SSL_write_ex(ssl_, bytes.data(), record, &n) != 1 || n != record) return false;
    size -= record;
  }
  return true;
}

ssize_t Session::write(std::span<const iovec> pieces) {
  const auto fails = [](int error) {
    errno = error;
    return ssize_t{-1};
  };
  if (state_ == State::kBroken || unsendable_) return fails(EPIPE);
  if (state_ == State::kHandshake) return fails(EAGAIN);
  if (!flush()) return fails(unsendable_ ? EPIPE : EAGAIN);

  size_t total = 0;
  for (const auto& piece : pieces) total += piece.iov_len;
  size_t taken = std::min(std::exchange(owed_, 0), total);
  Position from{pieces};
  from.skip(taken);
  while (taken < total) {
    const size_t size = std::min(total - taken, kWriteBytes);
    if (!encrypt(from, size)) {
      unsendable_ = true;
      return fails(EPIPE);
    }
    if (flush()) {
      taken += size;
      continue;
    }
    if (unsendable_) return fails(EPIPE);
    owed_ = size;
    break;
  }
  return taken > 0 || total == 0 ? static_cast<ssize_t>(taken) : fails(EAGAIN);
}

/// Sends what is in cipher_; true when that was all.
bool Session::flush() {
  while (cipher_sent_ < cipher_.size() && !unsendable_) {
    const ssize_t n =
        ::send(fd_, cipher_.data() + cipher_sent_, cipher_.size() - cipher_sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0) unsendable_ = true;
    const auto sent = static_cast<size_t>(std::max<ssize_t>(n, 0));
    cipher_sent_ += sent;
    sent_ += sent;
  }
  cipher_.release();
  cipher_sent_ = 0;
  return !unsendable_;
}

bool Session::quiet() {
  char byte;
  return read(&byte, 1) < 0 && errno == EAGAIN;
}

void Session::say_end() {
  const bool open = state_ == State::kOpen || state_ == State::kEnded;
  if (!open || owed_ > 0 || (SSL_get_shutdown(ssl_) & SSL_SENT_SHUTDOWN) != 0) return;
  ERR_clear_error();
  SSL_shutdown(ssl_);
  flush();
}

}  // namespace llmd::tls
