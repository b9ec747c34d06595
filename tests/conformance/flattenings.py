"""What a prompt is flattened to: bodies of each API that are alike in one way or another. cases.py asks how much of one is found for
another, and how long each is (by the score of a very wide range)."""

L = "lorem <b>&</b> \u00e9\u4e2d\U0001f600 " * 20
TOOL = {"type": "function", "function": {"name": "f", "description": "d <&>\u2028", "parameters": {
    "type": "object", "properties": {"b": {"type": "number", "minimum": 1.50, "maximum": 1e21}, "a": {"enum": [None, True, "\u00e9"]}}}}}
AGAIN = {"function": {"parameters": {"properties": {"a": {"enum": [None, True, "\u00e9"]}, "b": {
    "maximum": 1e21, "minimum": 1.5, "type": "number"}}, "type": "object"}, "description": "d <&>\u2028", "name": "f"}, "type": "function"}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": [1, 2.50, "x<"], "a": {"z": None}}}


def user(content, **more):
    return {"role": "user", "content": content, **more}


def block(text_, **more):
    return {"type": "text", "text": text_, **more}


CHATS = [
    [user(L)], [user([block(L)])], [user([block(L[:200]), block(L[200:])])], [{"role": "system", "content": "S"}, user(L)],
    [{"role": "systemS", "content": ""}, user(L)], [user(L, name="n")], [user(None), user(L)], [user([]), user(L)], [user(""), user(L)],
    [{"role": "user"}, user(L)], [user([block(L), {"type": "odd", "odd": 1}])], [user([{"type": "text"}, block(L)])],
    [user(L), {"role": "assistant", "content": "A", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}],
    [user(L), {"role": "assistant", "content": "A"}], [user(L), {"role": "tool", "tool_call_id": "c", "content": "A"}],
    [user([block(L), {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}}])],
    [user([{"type": "image_url", "image_url": {"url": "https://x/y.png"}}, block(L)])], [user([{"type": "image_url"}, block(L)])],
    [user([{"type": "audio_url", "audio_url": {"url": "https://x/y.wav"}}, block(L)])],
    [user([{"type": "input_audio", "input_audio": {"data": "AAAA" * 50}}, block(L)])], [user([{"type": "input_text", "text": "q"}, block(L)])],
    [{"role": "developer", "content": L, "reasoning": "r", "refusal": "r"}], [{"content": L, "role": "user"}]]
CHAT_EXTRAS = [{}, {"tools": [TOOL]}, {"tools": [AGAIN]}, {"tools": []}, {"tools": None}, {"tools": [TOOL, AGAIN]}, {"documents": [{"t": "d"}]},
               {"chat_template": "x", "chat_template_kwargs": {"a": 1}}, {"add_generation_prompt": True}, {"tool_choice": "auto"}, {"n": 2}]
ANTHROPICS = [
    {"messages": [user(L)]}, {"messages": [user([block(L)])]}, {"messages": [user([block(L, cache_control={"type": "ephemeral"})])]},
    {"system": "S", "messages": [user(L)]}, {"system": [block("S")], "messages": [user(L)]}, {"system": [block("S"), block("T")], "messages": [user(L)]},
    {"system": [block("x-anthropic-billing-header: 1"), block("S")], "messages": [user(L)]}, {"system": "x-anthropic-billing-header: 1", "messages": [user(L)]},
    {"messages": [user(L)], "tools": [{"name": "f", "input_schema": {"type": "object"}}]},
    {"messages": [user(L)], "tools": [{"input_schema": {"type": "object"}, "name": "f"}]},
    {"messages": [user(L)], "tools": [{"name": "f", "description": "d", "strict": True, "defer_loading": False, "input_schema": {"b": 1.0, "a": "<"}}]},
    {"messages": [user(L)], "tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]}, {"messages": [user(L)], "tools": []},
    {"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, block("A")]}, user(L)]},
    {"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "xx"}, block("A")]}, user(L)]},
    {"messages": [{"role": "assistant", "content": [USE]}, user(L)]}, {"messages": [{"role": "assistant", "content": [USE | {"input": {}}]}, user(L)]},
    {"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f"}]}, user(L)]},
    {"messages": [user([{"type": "tool_result", "tool_use_id": "t1", "content": "R"}, block(L)])]},
    {"messages": [user([{"type": "tool_result", "tool_use_id": "t1", "content": [block("R"), block("Q")]}, block(L)])]},
    {"messages": [user([{"type": "tool_result", "tool_use_id": "t1", "is_error": True}, block(L)])]},
    {"messages": [user([{"type": "tool_result", "tool_use_id": "t1", "content": [block("R"), {
        "type": "image", "source": {"type": "url", "url": "https://x/y.png"}}]}, block(L)])]},
    {"messages": [user([{"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, block(L)])]},
    {"messages": [user([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}, block(L)])]},
    {"messages": [user([{"type": "document", "source": {"type": "text", "data": "d"}}, block(L)])]}, {"messages": [user([]), user(L)]},
    {"messages": [user(""), user(L)]}]
RESPONSES = [{"input": L}, {"input": [user(L)]}, {"input": [{"content": L, "role": "user"}]}, {"input": L, "instructions": "I"}, {"input": L, "instructions": ""},
             {"input": L, "instructions": None}, {"input": L, "tools": [TOOL]}, {"input": L, "tools": []}, {"input": L, "tools": None}, {"input": 7},
             {"input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": L}]}], "instructions": "I", "tools": [AGAIN]},
             {"input": {"b": 1.50, "a": [True, None, 1e21, 1e-7, 123456789012345678]}}]
CONVERSATIONS = [{"items": [{"type": "message", "role": "user", "content": L}]}, {"items": [{"content": L, "role": "user", "type": "message"}]},
                 {"items": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": L}]}], "metadata": {"a": "b"}},
                 {"items": [{"type": "message", "role": "user", "content": "a"}, {"type": "other", "x": 1}]}, {"items": [{}]}]
EMBEDDINGS = [{"input": L}, {"input": [L]}, {"input": [L, "b"]}, {"input": [1, 2, 3]}, {"input": L, "encoding_format": "float"}, {"input": "<&>\u2028"}]
COMPLETIONS = [{"prompt": L}, {"prompt": [L]}, {"prompt": [L, L]}, {"prompt": [L, ""]}, {"prompt": list(range(300))},
               {"prompt": L, "suffix": "s"}, {"prompt": L, "echo": True}, {"prompt": "user" + L}, {"prompt": L + "\n"}]
GENERATES = [{"token_ids": list(range(300))}, {"token_ids": [0, 4294967295]}, {"token_ids": list(range(300)), "sampling_params": {"max_tokens": 3}},
             {"token_ids": list(range(300)), "features": {"mm_hashes": {"image": ["h1"]}, "mm_placeholders": {"image": [{"offset": 1, "length": 5}]}}}]
FLATTENED = ([("/v1/chat/completions", {"messages": m} | x) for m in CHATS for x in CHAT_EXTRAS[:1]] + [("/v1/chat/completions", {"messages": CHATS[0]} | x) for x in CHAT_EXTRAS[1:]]
             + [("/v1/messages", {"max_tokens": 5} | b) for b in ANTHROPICS] + [("/v1/responses", b) for b in RESPONSES]
             + [("/v1/conversations", b) for b in CONVERSATIONS] + [("/v1/embeddings", b) for b in EMBEDDINGS]
             + [("/v1/completions", b) for b in COMPLETIONS] + [("/inference/v1/generate", b) for b in GENERATES])
