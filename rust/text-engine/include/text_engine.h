// The C ABI of the text engine (rust/text-engine): a model's tokenizer and chat template.
//
// Every function may be called from any thread, on one model from many at once. None throws,
// starts threads or keeps what it is given after it returns. Inputs and results are bounded
// (src/limits.rs). Functions that return int32_t return TEXT_OK or an error, whose text they leave
// in `error`, which may be null.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TEXT_OK = 0,
  TEXT_BAD_INPUT = 1,    // not what the function wants: not UTF-8, not JSON, a field of a wrong type
  TEXT_TOO_LARGE = 2,    // above a limit, given or made
  TEXT_UNSUPPORTED = 3,  // valid, but not done here
  TEXT_PANIC = 4,        // a fault of the engine
};

typedef struct TextModel TextModel;

// Borrowed for the call. `data` may be null where `size` is 0.
typedef struct {
  const char* data;
  size_t size;
} TextBytes;

// Ends in NUL; cut where it is longer.
typedef struct {
  char text[512];
} TextError;

// Files of a model as they are: tokenizer.json; tokenizer_config.json, chat_template.jinja or empty.
int32_t text_model_open(TextBytes tokenizer, TextBytes config, TextBytes chat_template,
                        TextModel** out, TextError* error);
void text_model_close(TextModel* model);

// "fastokens" or "tokenizers"; static.
const char* text_model_engine(const TextModel* model);
int32_t text_model_has_template(const TextModel* model);

// Places where a text may be cut so that the tokens of the parts, in order, are those of
// the whole, each at least `apart` bytes after the one before it. Texts that begin alike are cut
// alike there, but for the last few KiB. Returns how many were written to `out`, at most
// `capacity`.
size_t text_cuts(const TextModel* model, TextBytes text, size_t apart, size_t* out,
                 size_t capacity);

// Gets results, once or several times. Must not throw.
typedef void (*TextIds)(void* context, const uint32_t* ids, size_t count);
typedef void (*TextPrompt)(void* context, const char* text, size_t size);

// The tokens of a text without those that begin and end a sequence. Markers in it are tokens.
int32_t text_encode(const TextModel* model, TextBytes text, TextIds ids, void* context,
                    TextError* error);
// Tokens that begin and end a sequence that wants them.
void text_frame(const TextModel* model, TextIds before, TextIds after, void* context);

// The prompt of a body of /v1/chat/completions, and whether its sequence wants the frame.
int32_t text_render_chat(const TextModel* model, TextBytes body, TextPrompt prompt, void* context,
                         int32_t* framed, TextError* error);
// The prompts of a body of /v1/completions.
int32_t text_read_prompts(TextBytes body, TextPrompt prompt, void* context, int32_t* framed,
                          TextError* error);

#ifdef __cplusplus
}
#endif
