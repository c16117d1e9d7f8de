"""Chat templates."""
from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from ._library import NULL, c_path, c_text, check, ffi, lib, to_str
from ._options import keywords
from .errors import Error, InputError, UnsupportedError
from .text import Tokenizer, ids_array

#: A message such as {"role": "user", "content": "Hello"}, a tool or a document.
Message = Mapping[str, Any]


def _json(value: Any) -> Any:
    """JSON text for the library, or NULL for None."""
    if value is None:
        return NULL
    return c_text(json.dumps(dict(value) if isinstance(value, Mapping) else list(value), ensure_ascii=False))


def _joined(parts: Iterable[Any], name: str) -> str:
    """The texts of a content that is a list of parts, a line each."""
    texts = list[str]()
    for k, part in enumerate(parts):
        kind, text = (part.get("type"), part.get("text")) if isinstance(part, Mapping) else (None, None)
        if isinstance(kind, str) and kind != "text":
            raise UnsupportedError(f"chat: {name}[{k}] is of type {kind!r}: only parts of type 'text' are supported")
        if kind != "text" or not isinstance(text, str):
            raise InputError(f"chat: {name}[{k}] is not {{'type': 'text', 'text': str}}")
        texts.append(text)
    return "\n".join(texts)


class ChatTemplate:
    """The chat templates of a model directory: chat_template.jinja, chat_template.json or tokenizer_config.json.

        print(tfm.ChatTemplate("SmolLM2-135M-Instruct").render([{"role": "user", "content": "Hello"}]))
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        handle = ffi.new("tfm_chat **")
        check(lib.tfm_chat_open(handle, c_path(path)))
        self._pointer: Any = handle[0]
        self._finalizer = weakref.finalize(self, lib.tfm_chat_free, handle)
        self._reads: tuple[bool, bool] | None = None

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

    def encode_example(self, tokenizer: Tokenizer, conversation: Mapping[str, Any]) -> tuple[list[int], list[bool]]:
        """The token ids of a conversation for training, and which of them are learned: those of the assistant, each
        message up to the end of its turn. The conversation has "messages", "conversations" (ShareGPT), "instruction"
        and "output" (Alpaca), or "prompt" and "completion"."""
        ids, count = ffi.new("int32_t **"), ffi.new("size_t *")
        text = json.dumps(conversation).encode()
        with tokenizer._use() as pointer:
            check(lib.tfm_chat_encode_example(self._pointer, ids, count, pointer, text, len(text)))
        try:
            marked = [int(each) for each in ids_array(ids[0], count[0])]
        finally:
            lib.tfm_ids_free(ids)
        return [each if each >= 0 else ~each for each in marked], [each >= 0 for each in marked]

    def _reads_content(self, content: Any) -> bool:
        """Whether the template renders a content as its text, not as the JSON around it."""
        try:
            text = self.render([{"role": "user", "content": content}], add_generation_prompt=False)
        except Error:
            return False
        return "tfm-first" in text and "'text'" not in text and '"text"' not in text

    def _with_contents(self, messages: Iterable[Message]) -> list[Message]:
        """The messages with contents in the form that the template reads: strings, or lists of parts of type text."""
        if self._reads is None:
            lists = self._reads_content([{"type": "text", "text": "tfm-first"}])
            self._reads = lists, not lists or self._reads_content("tfm-first")
        lists, strings = self._reads
        made = list[Message]()
        for i, message in enumerate(messages):
            content = message.get("content") if isinstance(message, Mapping) else None
            if isinstance(content, (list, tuple)):
                text = _joined(content, f"messages[{i}].content")
                message = message if lists else {**message, "content": text}
            elif isinstance(content, str) and not strings:
                message = {**message, "content": [{"type": "text", "text": content}]}
            made.append(message)
        return made

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
