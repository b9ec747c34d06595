#include "fleet/file_discovery.h"

#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

struct Params {
  std::string path;
  bool watch_file = false;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("path", &Params::path, "", "YAML or JSON file with the list `endpoints`."),
      plugin::field("watchFile", &Params::watch_file, "",
                    "Apply changes of the file while running."),
  };
  return params;
}

class FileDiscovery final : public fleet::DiscoveryPlugin {
 public:
  static Result<std::unique_ptr<FileDiscovery>> create(Params p, const plugin::Context& context) {
    if (p.path.empty()) return fail(Code::kBadRequest, "parameter 'path' is missing");
    return std::make_unique<FileDiscovery>(std::move(p), context);
  }

  FileDiscovery(Params p, const plugin::Context& context)
      : params_(std::move(p)), clock_(context.clock), metrics_(context.metrics) {}

  std::unique_ptr<fleet::Discovery> make_discovery() const override {
    return std::make_unique<fleet::FileDiscovery>(
        fleet::FileDiscovery::Options{.path = params_.path, .watch = params_.watch_file}, clock_,
        metrics_);
  }

 private:
  const Params params_;
  const Clock& clock_;
  metric::Registry& metrics_;
};

}  // namespace

const plugin::Descriptor& file_discovery() {
  static const auto descriptor = plugin::describe<FileDiscovery>(
      {.type = "file-discovery",
       .kind = "discovery",
       .summary = "Reads the endpoints from a file, and reads it again when it changes."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
