#pragma once

#include "plugin/plugin.h"

namespace llmd::fleet {

/// A data source whose events plugins get without asking: they subscribe when they are wired. It
/// exists so that configurations may name it.
class NotificationSource : public virtual plugin::Plugin {};

}  // namespace llmd::fleet
