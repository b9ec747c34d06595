#include "fleet/notification_source.h"
#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

class EndpointNotificationSource final : public fleet::NotificationSource {};

}  // namespace

const plugin::Descriptor& endpoint_notification_source() {
  static const auto descriptor = plugin::describe<EndpointNotificationSource>(
      {.type = "endpoint-notification-source",
       .kind = "data source",
       .summary = "Tells plugins of endpoints that come and go. Those that need to know are told "
                  "with or without it."});
  return descriptor;
}

}  // namespace llmd::plugins
