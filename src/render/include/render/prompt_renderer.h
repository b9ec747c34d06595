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

/// What comes of a question. Errors of a server have its status and the beginning of what it said.
using Rendered = Result<std::vector<RenderedPrompt>>;

/// The body of a request whose prompts are to be tokens.
struct Question {
  bool chat = false;  // else text prompts
  std::string body;   // JSON
  Nanos timeout{0};
};

/// What is going to be asked for.
struct WarmUp {
  std::string model;
  Nanos timeout{0};        // of a chat
  Nanos media_timeout{0};  // of one with an image
};

/// Has prompts turned into tokens apart from the loops, by a model server or by a tokenizer of its
/// own. Threading: any; called from all loops.
class PromptRenderer {
 public:
  virtual ~PromptRenderer() = default;
  /// Has done beforehand, in the background, what servers do at the first prompts they get.
  virtual void warm_up(const WarmUp&) {}
  /// Begins, and calls `resume` when there is an answer or a failure. Errors say why not.
  virtual Result<uint64_t> ask(Question question, schedule::Signal resume) = 0;
  /// The answer to the question with this ticket, once.
  virtual Rendered take(uint64_t ticket) = 0;
};

/// A tokenizer of the process's own.
struct LocalModel {
  std::string path;  // see text::Tokenizer::open()
  size_t cache_bytes_max = 0;
};

/// Where plugins find the process's renderers: in the StateStore, under its name. Called when a
/// configuration that needs one is loaded. Empty: there are none. How a server is asked is its
/// scheme: see RenderClient.
struct PromptRendererSlot {
  static constexpr std::string_view kName = "prompt renderer";
  std::function<std::shared_ptr<PromptRenderer>(fleet::EndpointSpec server)> of_server;
  std::function<Result<std::shared_ptr<PromptRenderer>>(const LocalModel& model)> of_model;
};

}  // namespace llmd::render
