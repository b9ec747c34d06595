#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "fleet/endpoint.h"
#include "request/request_view.h"
#include "schedule/request_context.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llmd::render {

/// An image, audio or video in a rendered prompt.
struct Media {
  request::Modality modality = request::Modality::kImage;
  std::string hash;
  uint32_t offset = 0;  // of its first token, in tokens
  uint32_t length = 0;  // in tokens
};

struct RenderedPrompt {
  std::vector<uint32_t> token_ids;
  std::vector<Media> media;  // by offset
};

/// A request to a model server's render endpoint.
struct Question {
  fleet::EndpointSpec server;
  bool chat = false;  // else text prompts
  std::string body;   // JSON
  Nanos timeout{0};
};

/// Has prompts turned into tokens elsewhere. Threading: any; called from all loops.
class PromptRenderer {
 public:
  virtual ~PromptRenderer() = default;
  /// Begins, and calls `resume` when there is an answer or a failure. Errors say why not.
  virtual Result<uint64_t> ask(Question question, schedule::Signal resume) = 0;
  /// The answer to the question with this ticket, once. Errors of the server have its status and
  /// the beginning of what it said.
  virtual Result<std::vector<RenderedPrompt>> take(uint64_t ticket) = 0;
};

/// Where plugins find the process's renderer: in the StateStore, under its name.
struct PromptRendererSlot {
  static constexpr std::string_view kName = "prompt renderer";
  /// Called when a configuration that needs it is loaded. Empty: there is none.
  std::function<std::shared_ptr<PromptRenderer>()> get;
};

}  // namespace llmd::render
