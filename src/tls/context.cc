#include "tls/context.h"

#include "openssl.h"
#include "session.h"

#include "base/check.h"
#include "base/file.h"
#include "base/log.h"
#include "io/socket.h"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <array>
#include <map>

namespace llmd::tls {
namespace {

constexpr size_t kFileBytesMax = 1 << 20;
constexpr std::string_view kSessionContext = "llmd";

/// The files' contents, by path.
using Contents = std::map<std::string, std::string>;

Result<std::string> read_pem(const std::string& path) {
  auto text = read_file(path, kFileBytesMax);
  if (!text) return fail(std::move(text).error().in(fmt::format("'{}'", path)));
  return text;
}

std::unexpected<Error> refused_by_openssl(std::string_view what) {
  return fail(Code::kBadRequest, fmt::format("{}: {}", what, take_error()));
}

Result<ContextPtr> new_context(const SSL_METHOD* method) {
  ContextPtr context(SSL_CTX_new(method));
  if (!context) return refused_by_openssl("cannot make a TLS context");
  SSL_CTX* c = context.get();
  SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
  SSL_CTX_set_options(c, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Idle connections hold no buffers; what is offered again may have moved.
  SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // One read of the socket for a record's head and body, and for several small records.
  SSL_CTX_set_read_ahead(c, 1);
  return context;
}

/// Puts the certificate, its issuers and its key into `c`. Errors name the files.
Result<int64_t> use_pair(SSL_CTX* c, std::string_view certificate, std::string_view key,
                         const std::string& certificate_name, const std::string& key_name) {
  auto chain = read_certificates(certificate);
  if (!chain) return fail(std::move(chain).error().in(fmt::format("'{}'", certificate_name)));
  auto private_key = read_key(key);
  if (!private_key) return fail(std::move(private_key).error().in(fmt::format("'{}'", key_name)));
  X509* leaf = chain->front().get();
  if (X509_check_private_key(leaf, private_key->get()) != 1) {
    ERR_clear_error();
    return fail(Code::kBadRequest, fmt::format("'{}' is not the key of the certificate in '{}'",
                                               key_name, certificate_name));
  }
  if (SSL_CTX_use_certificate(c, leaf) != 1)
    return refused_by_openssl(fmt::format("'{}'", certificate_name));
  for (size_t i = 1; i < chain->size(); ++i)
    if (SSL_CTX_add1_chain_cert(c, (*chain)[i].get()) != 1)
      return refused_by_openssl(fmt::format("'{}'", certificate_name));
  if (SSL_CTX_use_PrivateKey(c, private_key->get()) != 1)
    return refused_by_openssl(fmt::format("'{}'", key_name));
  tm end{};
  ASN1_TIME_to_tm(X509_get0_notAfter(leaf), &end);
  return static_cast<int64_t>(timegm(&end));
}

/// Trusts the certificates of `pem`; with `ask`, clients are told their names.
Status use_authorities(SSL_CTX* c, std::string_view pem, const std::string& file, bool ask) {
  auto authorities = read_certificates(pem);
  if (!authorities) return fail(std::move(authorities).error().in(fmt::format("'{}'", file)));
  for (const auto& authority : *authorities) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(c), authority.get()) != 1)
      return refused_by_openssl(fmt::format("'{}'", file));
    if (ask) SSL_CTX_add_client_CA(c, authority.get());
  }
  return {};
}

/// Picks the first protocol of this server that the client has, too, or ends the handshake.
int select_protocol(SSL*, const unsigned char** out, unsigned char* out_size,
                    const unsigned char* offered, unsigned int size, void* protocols) {
  for (const std::string_view wanted :
       *static_cast<const std::vector<std::string_view>*>(protocols)) {
    for (unsigned int at = 0; at < size; at += 1 + offered[at]) {
      const std::string_view name(reinterpret_cast<const char*>(offered) + at + 1,
                                  std::min<size_t>(offered[at], size - at - 1));
      if (name != wanted) continue;
      *out = reinterpret_cast<const unsigned char*>(name.data());
      *out_size = offered[at];
      return SSL_TLSEXT_ERR_OK;
    }
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

/// How a context is made from its options and the files' contents.
struct Context::Build {
  virtual ~Build() = default;
  virtual std::vector<std::string> files() const = 0;
  virtual Result<ContextPtr> make(const Contents& contents, const Metrics& metrics) const = 0;
};

namespace {

template <class Options>
std::vector<std::string> files_of(const Options& options,
                                  std::initializer_list<std::string Options::*> members) {
  std::vector<std::string> files;
  for (const auto member : members)
    if (!(options.*member).empty()) files.push_back(options.*member);
  return files;
}

}  // namespace

struct Context::ServerBuild final : Build {
  explicit ServerBuild(ServerOptions o) : options(std::move(o)) {}

  std::vector<std::string> files() const override {
    return files_of(options, {&ServerOptions::certificate_file, &ServerOptions::key_file,
                              &ServerOptions::client_ca_file});
  }

  Result<ContextPtr> make(const Contents& contents, const Metrics& metrics) const override {
    LLMD_TRY_ASSIGN(ContextPtr context, new_context(TLS_server_method()));
    SSL_CTX* c = context.get();
    if (options.version_min == Version::k13) SSL_CTX_set_min_proto_version(c, TLS1_3_VERSION);
    LLMD_TRY_ASSIGN(const std::string suites, parse_suites(options.suites));
    if (SSL_CTX_set_cipher_list(c, suites.c_str()) != 1) return refused_by_openssl("cipher suites");
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_session_id_context(
        c, reinterpret_cast<const unsigned char*>(kSessionContext.data()), kSessionContext.size());
    SSL_CTX_set_alpn_select_cb(c, select_protocol,
                               const_cast<std::vector<std::string_view>*>(&options.protocols));
    LLMD_TRY_ASSIGN(const int64_t expiry, use_own(c, contents));
    metrics.expiry.set(static_cast<double>(expiry));
    if (!options.client_ca_file.empty()) {
      const auto& file = options.client_ca_file;
      LLMD_TRY(use_authorities(c, contents.at(file), file, true));
      SSL_CTX_set_verify(c, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    }
    return context;
  }

  Result<int64_t> use_own(SSL_CTX* c, const Contents& contents) const {
    if (options.pair)
      return use_pair(c, options.pair->certificate, options.pair->key, "certificate", "key");
    return use_pair(c, contents.at(options.certificate_file), contents.at(options.key_file),
                    options.certificate_file, options.key_file);
  }

  const ServerOptions options;
};

struct Context::ClientBuild final : Build {
  explicit ClientBuild(ClientOptions o) : options(std::move(o)) {}

  std::vector<std::string> files() const override {
    return files_of(options, {&ClientOptions::ca_file, &ClientOptions::certificate_file,
                              &ClientOptions::key_file});
  }

  Result<ContextPtr> make(const Contents& contents, const Metrics& metrics) const override {
    LLMD_TRY_ASSIGN(ContextPtr context, new_context(TLS_client_method()));
    SSL_CTX* c = context.get();
    LLMD_TRY_ASSIGN(const std::string suites, parse_suites({}));
    SSL_CTX_set_cipher_list(c, suites.c_str());
    SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(c, Session::on_new_ticket);
    SSL_CTX_set_verify(c, options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    if (!options.ca_file.empty())
      LLMD_TRY(use_authorities(c, contents.at(options.ca_file), options.ca_file, false));
    else if (options.verify && SSL_CTX_set_default_verify_paths(c) != 1)
      return refused_by_openssl("cannot read the system's certificate authorities");
    if (!options.certificate_file.empty()) {
      LLMD_TRY_ASSIGN(const int64_t expiry, use_pair(c, contents.at(options.certificate_file),
                                                     contents.at(options.key_file),
                                                     options.certificate_file, options.key_file));
      metrics.expiry.set(static_cast<double>(expiry));
    }
    return context;
  }

  const ClientOptions options;
};

Metrics Metrics::of(metric::Registry& registry, std::string_view use) {
  auto& handshakes = registry.family({"llmd_tls_handshakes_total",
                                      metric::Kind::kCounter,
                                      "TLS handshakes that ended, by result.",
                                      {"use", "result"},
                                      {},
                                      {}});
  const auto counter = [&](std::string_view result) {
    return handshakes.counter(std::array{use, result});
  };
  return {.full = counter("full"),
          .resumed = counter("resumed"),
          .failed = counter("failed"),
          .expiry = registry
                        .family({"llmd_tls_certificate_expiry_seconds",
                                 metric::Kind::kGauge,
                                 "When the certificate in use stops to be valid, in Unix time.",
                                 {"use"},
                                 {},
                                 {}})
                        .gauge(std::array{use})};
}

Context::Context(std::unique_ptr<Build> build, Metrics metrics)
    : build_(std::move(build)), files_(build_->files()), metrics_(metrics) {}

Context::~Context() {
  SSL_CTX_free(current_);
}

Result<std::shared_ptr<Context>> Context::server(ServerOptions options, Metrics metrics) {
  return make(std::make_unique<ServerBuild>(std::move(options)), metrics);
}

Result<std::shared_ptr<Context>> Context::client(ClientOptions options, Metrics metrics) {
  if (options.certificate_file.empty() != options.key_file.empty())
    return fail(Code::kBadRequest, "a client certificate and its key go together");
  return make(std::make_unique<ClientBuild>(std::move(options)), metrics);
}

Result<std::shared_ptr<Context>> Context::make(std::unique_ptr<Build> build, Metrics metrics) {
  std::shared_ptr<Context> context(new Context(std::move(build), metrics));
  LLMD_TRY(context->reload());
  return context;
}

Result<bool> Context::reload() {
  Contents contents;
  size_t hash = 1;
  for (const auto& file : files_) {
    LLMD_TRY_ASSIGN(contents[file], read_pem(file));
    hash = hash * 0x9e3779b97f4a7c15 + std::hash<std::string>()(contents[file]);
  }
  {
    const MutexLock lock(mutex_);
    if (hash == std::exchange(content_hash_, hash)) return false;
  }
  LLMD_TRY_ASSIGN(ContextPtr next, build_->make(contents, metrics_));
  const MutexLock lock(mutex_);
  SSL_CTX_free(std::exchange(current_, next.release()));
  ++loads_;
  return true;
}

ssl_st* Context::new_connection(uint64_t& load) {
  const MutexLock lock(mutex_);
  load = loads_;
  SSL* ssl = SSL_new(current_);
  CHECK(ssl != nullptr);
  return ssl;
}

Target::Target(std::shared_ptr<Context> context, std::string name, std::string_view protocol)
    : context_(std::move(context)),
      name_(std::move(name)),
      offer_(protocol.empty()
                 ? std::string()
                 : std::string(1, static_cast<char>(protocol.size())).append(protocol)),
      is_address_(io::SocketAddress::parse(name_, 0).has_value()) {}

Target::~Target() {
  SSL_SESSION_free(session_);
}

ssl_st* Target::new_connection(uint64_t& load) {
  SSL* ssl = context_->new_connection(load);
  if (is_address_) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name_.c_str());
  } else {
    SSL_set_hostflags(ssl,
                      X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    SSL_set1_host(ssl, name_.c_str());
    SSL_set_tlsext_host_name(ssl, name_.c_str());
  }
  if (!offer_.empty())
    SSL_set_alpn_protos(ssl, reinterpret_cast<const unsigned char*>(offer_.data()),
                        static_cast<unsigned int>(offer_.size()));
  // A session stands for what was verified when it began, under the files of that time.
  if (session_ && session_load_ == load) SSL_set_session(ssl, session_);
  return ssl;
}

void Target::keep(ssl_session_st* session, uint64_t load) {
  SSL_SESSION_free(std::exchange(session_, session));
  session_load_ = load;
}

}  // namespace llmd::tls
