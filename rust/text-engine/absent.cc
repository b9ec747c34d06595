// The text engine of builds without a Rust toolchain: no model can be opened.
#include "text_engine.h"

#include <cstdio>

extern "C" {

int32_t text_model_open(TextBytes, TextBytes, TextBytes, TextModel**, TextError* error) {
  if (error)
    std::snprintf(error->text, sizeof error->text,
                  "this program was built without a Rust toolchain and has no local tokenizers");
  return TEXT_UNSUPPORTED;
}
void text_model_close(TextModel*) {}
const char* text_model_engine(const TextModel*) {
  return "";
}
int32_t text_model_has_template(const TextModel*) {
  return 0;
}
size_t text_cuts(const TextModel*, TextBytes, size_t, size_t*, size_t) {
  return 0;
}
int32_t text_encode(const TextModel*, TextBytes, TextIds, void*, TextError*) {
  return TEXT_UNSUPPORTED;
}
void text_frame(const TextModel*, TextIds, TextIds, void*) {}
int32_t text_render_chat(const TextModel*, TextBytes, TextPrompt, void*, int32_t*, TextError*) {
  return TEXT_UNSUPPORTED;
}
int32_t text_read_prompts(TextBytes, TextPrompt, void*, int32_t*, TextError*) {
  return TEXT_UNSUPPORTED;
}

}  // extern "C"
