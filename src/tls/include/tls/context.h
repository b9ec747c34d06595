#pragma once

#include "base/mutex.h"
#include "base/result.h"
#include "metric/registry.h"
#include "tls/certificate.h"
#include "tls/versions.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct ssl_st;
struct ssl_ctx_st;
struct ssl_session_st;

namespace llmd::tls {

/// Protocols that a server may agree on (ALPN).
inline constexpr std::string_view kHttp1 = "http/1.1";
inline constexpr std::string_view kHttp2 = "h2";

/// The files are PEM, 1 MiB at most each.
struct ServerOptions {
  std::string certificate_file;  // the server's certificate, then its issuers
  std::string key_file;
  std::optional<PemPair> pair;  // instead of the two files
  std::string client_ca_file;  // who signs the certificates that clients must have; "": none needed
  std::vector<std::string_view> protocols = {kHttp1};  // the preferred first
  Version version_min = Version::k12;
  std::vector<std::string> suites;  // as parse_suites()
};

struct ClientOptions {
  std::string ca_file;           // who signs servers' certificates; "": the system's authorities
  std::string certificate_file;  // of the client and its issuers; "": none
  std::string key_file;
  bool verify = true;  // the server's certificate and its name
};

/// Counts handshakes: llmd_tls_handshakes_total{use,result}, and the end of the certificate's
/// validity: llmd_tls_certificate_expiry_seconds{use}. Handles write nothing by default.
struct Metrics {
  metric::Counter full, resumed, failed;
  metric::Gauge expiry;
  /// `use` is "serving", "metrics", "upstream" and the like.
  static Metrics of(metric::Registry& registry, std::string_view use);
};

/// What the TLS connections of one purpose have in common: keys, authorities, versions, suites.
/// Only TLS 1.2 and 1.3 are spoken, without compression and renegotiation; servers hand out tickets
/// for resumption and keep nothing. Threading: any.
class Context {
 public:
  /// Errors name the file and never its content.
  static Result<std::shared_ptr<Context>> server(ServerOptions options, Metrics metrics = {});
  static Result<std::shared_ptr<Context>> client(ClientOptions options, Metrics metrics = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// Reads the files again when their content has changed; connections made from now on use them.
  /// True: something changed. On an error everything stays as it was, and the same content is not
  /// tried again.
  Result<bool> reload();
  /// What reload() reads.
  const std::vector<std::string>& files() const { return files_; }
  const Metrics& metrics() const { return metrics_; }

 private:
  friend class Session;
  friend class Target;
  struct Build;
  struct ServerBuild;
  struct ClientBuild;
  Context(std::unique_ptr<Build> build, Metrics metrics);
  static Result<std::shared_ptr<Context>> make(std::unique_ptr<Build> build, Metrics metrics);
  /// A connection's state, and which load it comes from.
  ssl_st* new_connection(uint64_t& load);

  const std::unique_ptr<Build> build_;
  const std::vector<std::string> files_;
  const Metrics metrics_;
  Mutex mutex_;
  ssl_ctx_st* current_ LLMD_GUARDED_BY(mutex_) = nullptr;
  uint64_t loads_ LLMD_GUARDED_BY(mutex_) = 0;
  uint64_t content_hash_ LLMD_GUARDED_BY(mutex_) = 0;
};

/// A server to connect to, as one loop sees it: its name and the last session with it, which saves
/// the next connection a full handshake. Threading: one loop.
class Target {
 public:
  /// `name` is the host name or the address that the server's certificate must be for. A host name
  /// is also sent (SNI). `protocol` is the one that is offered to it; "": none is.
  Target(std::shared_ptr<Context> context, std::string name, std::string_view protocol = kHttp1);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  const std::string& name() const { return name_; }

 private:
  friend class Session;
  ssl_st* new_connection(uint64_t& load);
  void keep(ssl_session_st* session, uint64_t load);

  const std::shared_ptr<Context> context_;
  const std::string name_;
  const std::string offer_;  // the protocol, behind its length
  const bool is_address_;
  std::string failure_;  // of the last handshake; empty: it succeeded
  ssl_session_st* session_ = nullptr;
  uint64_t session_load_ = 0;  // of the context that the session was made under
};

}  // namespace llmd::tls
