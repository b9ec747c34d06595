#include "plugin/registry.h"

#include "base/check.h"

namespace llmd::plugin {

Registry::Registry(std::vector<Descriptor> descriptors) : descriptors_(std::move(descriptors)) {
  for (const auto& descriptor : descriptors_) CHECK(find(descriptor.type) == &descriptor);
}

const Descriptor* Registry::find(std::string_view type) const {
  for (const auto& descriptor : descriptors_)
    if (descriptor.type == type) return &descriptor;
  return nullptr;
}

std::vector<std::string_view> Registry::types() const {
  std::vector<std::string_view> types;
  for (const auto& descriptor : descriptors_) types.push_back(descriptor.type);
  return types;
}

Result<Made> Registry::make(const Descriptor& descriptor, const Context& context,
                            const codec::Node* parameters) const {
  auto made = descriptor.make(context, parameters);
  if (!made) {
    Error error = std::move(made).error();
    const size_t at = parameters ? values::location_length(error.message, parameters->file) : 0;
    error.message.insert(
        at, "plugin '" + std::string(context.name) + "' (" + std::string(descriptor.type) + "): ");
    return fail(std::move(error));
  }
  made->plugin->type_ = descriptor.type;
  made->plugin->name_ = context.name;
  return made;
}

}  // namespace llmd::plugin
