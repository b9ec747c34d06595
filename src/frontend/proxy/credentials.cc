#include "frontend/credentials.h"

#include "base/log.h"
#include "base/secret.h"

#include <fmt/format.h>

namespace llmd::frontend {
namespace {

const metric::Definition kReloads = {
    .name = "llmd_credential_reloads_total",
    .kind = metric::Kind::kCounter,
    .help = "Attempts to take a changed file of keys.",
    .labels = {"file", "result"},
    .buckets = {},
    .twins = {},
};

Status take_client_keys(const std::string& text, const std::string& path, Credentials& into) {
  auto keys = ApiKeys::parse(text);
  if (!keys) return fail(Code::kBadRequest, fmt::format("'{}': {}", path, keys.error().message));
  into.client_keys = std::make_shared<const ApiKeys>(std::move(*keys));
  return {};
}

Status take_upstream_key(const std::string& text, const std::string& path, Credentials& into) {
  LLMD_TRY_ASSIGN(const auto key, only_secret(text, path));
  into.upstream_authorization = "Bearer " + key;
  return {};
}

}  // namespace

Result<std::unique_ptr<CredentialFiles>> CredentialFiles::open(const Paths& paths,
                                                               metric::Registry& metrics,
                                                               Publish publish) {
  std::unique_ptr<CredentialFiles> files(new CredentialFiles(std::move(publish)));
  if (auto read = files->follow("client_api_keys", paths.client_keys, ApiKeys::kFileBytesMax,
                                take_client_keys, metrics);
      !read)
    return fail(std::move(read).error().in("--client-api-keys-file"));
  if (auto read = files->follow("upstream_api_key", paths.upstream_key, 2 * kSecretBytesMax,
                                take_upstream_key, metrics);
      !read)
    return fail(std::move(read).error().in("--upstream-api-key-file"));
  return files;
}

Status CredentialFiles::follow(std::string_view what, const std::string& path, size_t bytes_max,
                               Take take, metric::Registry& metrics) {
  if (path.empty()) return {};
  const auto read = [bytes_max](const std::string& p) { return read_secret_file(p, bytes_max); };
  const auto apply = [this, path, take](const Result<std::string>& text) -> Status {
    if (!text) return fail(text.error());
    auto next = std::make_shared<Credentials>(*current_);
    LLMD_TRY(take(*text, path, *next));
    current_ = std::move(next);
    return {};
  };
  auto first = read(path);
  LLMD_TRY(apply(first));
  auto& family = metrics.family(kReloads);
  const auto good = family.counter(std::array<std::string_view, 2>{what, "success"});
  const auto bad = family.counter(std::array<std::string_view, 2>{what, "failure"});
  files_.push_back(std::make_unique<FileFollower>(
      path, std::move(*first), read, [=, this](const Result<std::string>& text) {
        if (auto applied = apply(text); !applied) {
          bad.add();
          log::error("keys not taken, the last ones stay", {{"error", applied.error().message}});
          return;
        }
        good.add();
        log::info("keys taken", {{"file", path}});
        publish_(current_);
      }));
  return {};
}

void CredentialFiles::tick() {
  for (const auto& file : files_) file->tick();
}

void CredentialFiles::reload() {
  for (const auto& file : files_) file->reload();
}

}  // namespace llmd::frontend
