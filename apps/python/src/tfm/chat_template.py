"""Chat templates."""
from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from ._library import NULL, c_path, c_text, check, ffi, lib, to_str
from ._options import keywords
from .text import Tokenizer, ids_array

#: A message such as {"role": "user", "content": "Hello"}, a tool or a document.
Message = Mapping[str, Any]


def _json(value: Any) -> Any:
    """JSON text for the library, or NULL for None."""
    if value is None:
        return NULL
    return c_text(json.dumps(dict(value) if isinstance(value, Mapping) else list(value), ensure_ascii=False))


class ChatTemplate:
    """The chat templates of a model directory: chat_template.jinja, chat_template.json or tokenizer_config.json.

        print(tfm.ChatTemplate("SmolLM2-135M-Instruct").render([{"role": "user", "content": "Hello"}]))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        handle = ffi.new("tfm_chat **")
        check(lib.tfm_chat_open(handle, c_path(path)))
        self._pointer: Any = handle[0]
        self._finalizer = weakref.finalize(self, lib.tfm_chat_free, handle)

    def source(self, name: str | None = None) -> str | None:
        """The text of the template of a name, by default the default one; None if there is none."""
        found = lib.tfm_chat_source(self._pointer, c_text(name))
        return None if found == NULL else to_str(found)

    def special_token(self, name: str) -> str | None:
        """A special token such as "eos_token", or None."""
        found = lib.tfm_chat_token(self._pointer, c_text(name))
        return None if found == NULL else to_str(found)

    def end_tokens(self, tokenizer: Tokenizer) -> list[int]:
        """The ids of the tokens that end a turn."""
        ids, count = ffi.new("int32_t **"), ffi.new("size_t *")
        with tokenizer._use() as pointer:
            check(lib.tfm_chat_end_tokens(self._pointer, ids, count, pointer))
        try:
            return [int(each) for each in ids_array(ids[0], count[0])]
        finally:
            lib.tfm_ids_free(ids)

    @keywords()
    def render(self, messages: Iterable[Message], *, tools: Iterable[Message] | None = None,
               documents: Iterable[Message] | None = None, variables: Mapping[str, Any] | None = None,
               add_generation_prompt: bool | None = None, continue_final_message: bool = False,
               template_name: str | None = None) -> str:
        """The messages as the prompt of the model, as transformers' `apply_chat_template` renders them. Encode it with
        `add_special_tokens=False`. `add_generation_prompt`, which is the default, adds the beginning of an answer;
        `continue_final_message` ends the prompt after the text of the last message instead."""
        options, out = ffi.new("tfm_chat_options *"), ffi.new("char **")
        given = _json(messages)
        kept = (_json(tools), _json(documents), _json(variables), c_text(template_name))
        options.tools, options.documents, options.variables, options.template_name = kept
        options.continue_final_message = continue_final_message
        options.add_generation_prompt = not continue_final_message if add_generation_prompt is None \
            else add_generation_prompt
        check(lib.tfm_chat_render(self._pointer, out, given, options))
        try:
            return to_str(out[0])
        finally:
            lib.tfm_text_free(out)
