#include "command_line.h"
#include "commands.h"
#include "explain_text.h"

#include "base/secret.h"
#include "bench/blocking_client.h"
#include "tls/context.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>

namespace llmd {
namespace {

struct Options {
  std::string admin = "http://127.0.0.1:9090";
  std::string token_file;
  tls::ClientOptions tls;
  std::string request_id;
  int limit = 20;
  bool json = false;
};

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const unsigned char c : text)
    if (std::isalnum(c) || c == '-' || c == '.' || c == '_' || c == '~')
      out += static_cast<char>(c);
    else
      fmt::format_to(std::back_inserter(out), "%{:02X}", c);
  return out;
}

/// "Bearer …", or "" without a file.
Result<std::string> authorization(const std::string& token_file) {
  if (token_file.empty()) return std::string();
  LLMD_TRY_ASSIGN(const auto text, read_secret_file(token_file, 2 * kSecretBytesMax));
  LLMD_TRY_ASSIGN(const auto token, only_secret(text, token_file));
  return "Bearer " + token;
}

Result<std::string> ask(const Options& options) {
  LLMD_TRY_ASSIGN(const auto bearer, authorization(options.token_file));
  LLMD_TRY_ASSIGN(const auto context, tls::Context::client(options.tls));
  auto target = bench::Target::parse(options.admin, context);
  if (!target) return fail(std::move(target).error().in("--admin"));
  const std::string path =
      options.request_id.empty()
          ? fmt::format("/debug/decisions?limit={}", options.limit)
          : "/debug/decisions?request_id=" + percent_encoded(options.request_id);
  const HeaderField headers[] = {{"Authorization", bearer}};
  bench::BlockingClient client(std::chrono::seconds(20));
  LLMD_TRY_ASSIGN(auto answer,
                  client.get(*target, path, std::span(headers, bearer.empty() ? 0 : 1)));
  if (answer.status == 200) return std::move(answer.body);
  std::string why = answer.body.substr(0, answer.body.find('\n'));
  if (why.empty())
    why = fmt::format("{} answers {}; is it the admin port of llmd?", options.admin, answer.status);
  return fail(Code::kNotFound, why + (answer.status == 401 ? ": give --token-file" : ""));
}

}  // namespace

int run_explain(int argc, char** argv) {
  Options options;
  CLI::App app("Prints why a recent request went where it went, or the newest decisions.",
               "llmd explain");
  app.add_option("REQUEST_ID", options.request_id, "as in the answer's header x-request-id");
  app.add_option("--admin", options.admin, "admin port of llmd router or llmd epp: a URL")
      ->capture_default_str();
  app.add_option("--token-file", options.token_file, "file with the token of --admin-token-file");
  app.add_option("--limit", options.limit, "decisions to list when no request is named")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print the answer of /debug/decisions as it came");
  app.add_option(
      "--ca-file", options.tls.ca_file,
      "who signs the certificate of an https:// admin port; else the system's authorities");
  app.add_option("--client-cert", options.tls.certificate_file, "certificate to show it, PEM");
  app.add_option("--client-key", options.tls.key_file, "its key, PEM");
  app.add_flag("!--insecure-skip-verify", options.tls.verify, "accept any certificate");
  if (const auto code = parse_command_line(app, argc, argv)) return *code;
  const auto answer = ask(options);
  auto text = answer && !options.json ? explain_text(*answer) : answer;
  if (!text) {
    std::fprintf(stderr, "llmd explain: %s\n", text.error().message.c_str());
    return 1;
  }
  if (options.json) *text += "\n";
  std::fwrite(text->data(), 1, text->size(), stdout);
  return 0;
}

}  // namespace llmd
