#pragma once

#include "base/file_follower.h"
#include "base/result.h"
#include "frontend/api_keys.h"
#include "metric/registry.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace llmd::frontend {

/// The keys that a proxy asks for and sends. Immutable, replaced as a whole.
struct Credentials {
  std::shared_ptr<const ApiKeys> client_keys;  // null: clients need no key
  std::string upstream_authorization;  // "Bearer …" for model servers; "": what the client sent
};
using CredentialsPtr = std::shared_ptr<const Credentials>;

/// Reads credentials from files and follows these. A file that cannot be used is logged and
/// counted, and what it held before stays. Metric: llmd_credential_reloads_total{file, result}.
/// Threading: one control thread.
class CredentialFiles {
 public:
  struct Paths {
    std::string client_keys;   // "": clients need no key
    std::string upstream_key;  // "": none is sent
  };
  using Publish = std::function<void(CredentialsPtr)>;

  /// Errors are one line that names the file, never its content.
  static Result<std::unique_ptr<CredentialFiles>> open(const Paths& paths,
                                                       metric::Registry& metrics, Publish publish);

  CredentialsPtr current() const { return current_; }
  /// Call every second or so: takes changed files.
  void tick();
  /// Reads both files at once.
  void reload();

 private:
  using Take = Status (*)(const std::string& text, const std::string& path, Credentials& into);

  explicit CredentialFiles(Publish publish) : publish_(std::move(publish)) {}
  Status follow(std::string_view what, const std::string& path, size_t bytes_max, Take take,
                metric::Registry& metrics);

  const Publish publish_;
  CredentialsPtr current_ = std::make_shared<Credentials>();
  std::vector<std::unique_ptr<FileFollower>> files_;
};

}  // namespace llmd::frontend
