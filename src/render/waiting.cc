#include "render/waiting.h"

#include <utility>

namespace llmd::render {

void Waiting::ask(io::Loop& loop, PromptRenderer& renderer, Question question, Done done) {
  asked_ = std::make_shared<Asked>(renderer, std::move(done));
  // The answer is taken in a later turn, when the ticket is known.
  const auto wake = [&loop, asked = std::weak_ptr(asked_)] {
    loop.post([asked] {
      if (const auto waiting = asked.lock()) waiting->done(waiting->renderer.take(waiting->ticket));
    });
  };
  auto ticket = renderer.ask(std::move(question),
                             schedule::Signal(std::make_shared<std::function<void()>>(wake)));
  if (ticket) {
    asked_->ticket = *ticket;
  } else {
    std::exchange(asked_, nullptr)->done(std::unexpected(std::move(ticket).error()));
  }
}

}  // namespace llmd::render
