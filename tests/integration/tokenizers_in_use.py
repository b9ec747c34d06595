"""Models in use, from build/tokenizers (scripts/setup.sh), with the tokens and chats that Python has of them."""

import json
import pathlib
from datetime import datetime

import jinja2
import jinja2.ext
import jinja2.sandbox
from tokenizers import Tokenizer

FOLDER = pathlib.Path(__file__).parents[2] / "build" / "tokenizers"
NAMES = ["qwen3", "llama3_1", "deepseek_v3", "gpt4o", "llama2", "gemma3", "claude"]


class Model:
    def __init__(self, name):
        self.folder = FOLDER / name
        self.tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.config = json.loads((self.folder / "tokenizer_config.json").read_text())

    def ids(self, text, framed=False):
        return self.tokenizer.encode(text, add_special_tokens=framed).ids

    @property
    def template(self):
        return self.config.get("chat_template")

    def chat(self, messages, **options):
        """As transformers renders it."""
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])

        def raise_exception(message):
            raise jinja2.exceptions.TemplateError(message)

        environment.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
        environment.globals["raise_exception"] = raise_exception
        environment.globals["strftime_now"] = lambda text: datetime.now().strftime(text)
        special = {}
        for name in ["bos_token", "eos_token", "unk_token", "pad_token"]:
            token = self.config.get(name)
            token = token.get("content") if isinstance(token, dict) else token
            if token:
                special[name] = token
        return environment.from_string(self.template).render(
            messages=messages, **{"tools": None, "documents": None, "add_generation_prompt": True, **special, **options})
