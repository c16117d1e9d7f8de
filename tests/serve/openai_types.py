"""tfm serve against the types of the openai package: each request field with neutral values, values of the right type
and of a wrong type; and answers, whole and streamed.
    python3 tests/serve/openai_types.py PORT DECODER EMBEDDER
DECODER and EMBEDDER are model names. A value of the right type gets 200, or 400 with the field's name; a wrong type
gets 400 with the name; other answers fail. Ends with a line of counts."""
import json
import sys
import typing
import urllib.error
import urllib.request

import pydantic
from openai.types import (Completion, CreateEmbeddingResponse, Model, completion_create_params,
                          embedding_create_params)
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat import completion_create_params as chat_create_params

port, decoder, embedder = sys.argv[1:4]
counts = {"passed": 0, "failed": 0, "skipped": 0}

# Values of many types, and each field's documented default.
POOL = [None, True, False, 0, 1, -1, 2, 0.5, 4.0, 1e30, 10**30, "", "a", "auto", "none", "text", "low", "\x00", [], ["a"], [1],
        ["text"], [{}], [None], {}, {"a": "b"}, {"5": 1}, {"type": "text"}, {"type": "json_object"}, {"include_usage": True},
        {"include_usage": 1}, {"include_usage": False}, [{"role": "user", "content": "w3"}], [{"role": "user"}],
        [{"role": "user", "content": [{"type": "text", "text": "w3"}, {"type": "text", "text": "w4"}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
        [{"type": "function", "function": {"name": "f"}}], [[3, 4], [5]], [3, "w4"]]
NEUTRAL = {"frequency_penalty": 0, "presence_penalty": 0, "logit_bias": {}, "n": 1, "best_of": 1, "echo": False, "suffix": None,
           "logprobs": None, "top_logprobs": 0, "parallel_tool_calls": True, "response_format": {"type": "text"}, "seed": 7,
           "service_tier": "auto", "stop": None, "store": False, "stream_options": {"include_usage": False}, "temperature": 1,
           "top_p": 1, "tool_choice": "none", "tools": [], "functions": [], "function_call": "none", "user": "u", "audio": None,
           "metadata": {"a": "b"}, "modalities": ["text"], "prediction": {"type": "content", "content": "w3"},
           "max_tokens": 2.0, "max_completion_tokens": 2, "safety_identifier": "s", "prompt_cache_key": "k",
           "prompt_cache_retention": "24h", "prompt_cache_options": {}, "reasoning_effort": "none", "verbosity": "medium",
           "web_search_options": None, "moderation": None, "encoding_format": "float", "dimensions": None}
# Accepted values of another type, sent by llama.cpp and older clients: [] as a logit_bias, and the logprobs of the other
# path.
LENIENT = [("logit_bias", []), ("logprobs", 0), ("logprobs", False), ("logprobs", True)]


def check(name, good, why=""):
    counts["passed" if good else "failed"] += 1
    print(("ok - " if good else "not ok - ") + name + ("" if good else ": %s" % (why,)))


def ask(path, fields):
    request = urllib.request.Request("http://127.0.0.1:%s/v1/%s" % (port, path), fields and json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def json_type(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if value == int(value) else "number"
    return {type(None): "null", str: "string", list: "array", dict: "object"}[type(value)]


def types_of(schema, definitions):
    """The JSON types that a schema accepts."""
    if "$ref" in schema:
        return types_of(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            return set().union(*(types_of(one, definitions) for one in schema[word]))
    if "enum" in schema or "const" in schema:
        return {json_type(one) for one in schema.get("enum", [schema.get("const")])}
    return {schema["type"]} if "type" in schema else set()


def fields_of(params):
    """The fields of a request, and the JSON types of each."""
    hints = {}
    for one in reversed([p for p in params.__mro__ if p is not dict] if hasattr(params, "__mro__") else [params]):
        hints.update(typing.get_type_hints(one))
    for name, hint in hints.items():
        schema = pydantic.TypeAdapter(hint).json_schema()
        kinds = types_of(schema, schema.get("$defs", {})) | {"null"}
        yield name, kinds | ({"integer"} if "number" in kinds else set())


def refused_by_name(text, name):
    error = json.loads(text)["error"]
    return error["type"] == "invalid_request_error" and name in error["message"] and (error["param"] or "").startswith(name)


def good_answer(code, text, name, kind):
    """The error in an answer to a value of the right type, or None."""
    if code == 200:
        kind.model_validate(json.loads(text), strict=True)
        return None
    if code == 404 and name == "model":
        return None
    return None if code == 400 and refused_by_name(text, name) else (code, text)


def try_field(path, base, name, kinds, kind):
    wrong = []
    for value in POOL:
        code, text = ask(path, {**base, name: value})
        if json_type(value) in kinds or any(name == n and value is v for n, v in LENIENT) or (name, value) == LENIENT[0]:
            why = good_answer(code, text, name, kind)
        else:
            why = None if code == 400 and refused_by_name(text, name) else (code, text)
        if why:
            wrong.append((value, why))
    check("%s: %s with values of the right and the wrong type" % (path, name), not wrong, wrong[:3])
    if name in NEUTRAL:
        code, text = ask(path, {**base, name: NEUTRAL[name]})
        check("%s: %s with its neutral value" % (path, name), code == 200, text)


def try_path(path, base, params, kind):
    for name, kinds in fields_of(params):
        if name != "stream":
            try_field(path, base, name, kinds, kind)
    code, text = ask(path, base)
    answer = kind.model_validate(json.loads(text), strict=True)
    check(path + ": the answer is of OpenAI's type", code == 200 and answer.usage.prompt_tokens > 0)
    code, text = ask(path, {**base, "a_field_of_a_user_interface": {"a": [1]}})
    check(path + ": an unknown field is accepted", code == 200, text)


def event_of(line, kind):
    """An event as the openai type; the completion type lacks the null finish_reason that OpenAI's API sends."""
    event = json.loads(line)
    ends = [choice["finish_reason"] for choice in event["choices"]]
    for choice in event["choices"]:
        if kind is Completion and choice["finish_reason"] is None:
            choice["finish_reason"] = "stop"
    said = kind.model_validate(event, strict=True)
    for choice, end in zip(said.choices, ends):
        choice.finish_reason = end
    return said


def try_stream(path, base, kind):
    for usage in (False, True):
        code, text = ask(path, {**base, "stream": True, **({"stream_options": {"include_usage": True}} if usage else {})})
        lines = [line[6:] for line in text.split("\n\n") if line]
        events = [event_of(line, kind) for line in lines[:-1]]
        check("%s: events are of OpenAI's type, usage %s" % (path, usage),
              code == 200 and lines[-1] == "[DONE]" and len({event.id for event in events}) == 1, text)
        ends = [event.choices[0].finish_reason for event in events if event.choices]
        check("%s: the last choice alone has a reason, usage %s" % (path, usage),
              ends[-1] == "length" and not any(ends[:-1]), ends)
        told = [event for event in events if event.usage]
        check("%s: the last event has the usage if requested, %s" % (path, usage),
              len(told) == usage and (not usage or (told[0] is events[-1] and told[0].choices == [])), text)
    if path.startswith("chat"):
        check(path + ": the first event has the role", events[0].choices[0].delta.role == "assistant" and
              events[0].choices[0].delta.content == "" and
              not any(event.choices and event.choices[0].delta.role for event in events[1:]))
    code, text = ask(path, {**base, "stream": True, **({"prompt": "w3 " * 50} if "prompt" in base else
                                                       {"messages": [{"role": "user", "content": "w3 " * 50}]})})
    check(path + ": a prompt that is too long is 400 before the stream", code == 400 and
          json.loads(text)["error"]["code"] == "context_length_exceeded", text)


CHAT = {"model": decoder, "messages": [{"role": "user", "content": "w3 w4"}], "max_tokens": 2, "temperature": 0.5}
TEXT = {"model": decoder, "prompt": "w3 w4", "max_tokens": 2, "temperature": 0.5}
try_path("chat/completions", CHAT, chat_create_params.CompletionCreateParamsBase, ChatCompletion)
try_path("completions", TEXT, completion_create_params.CompletionCreateParamsBase, Completion)
try_path("embeddings", {"model": embedder, "input": "a dog"}, embedding_create_params.EmbeddingCreateParams,
         CreateEmbeddingResponse)
try_stream("chat/completions", CHAT, ChatCompletionChunk)
try_stream("completions", TEXT, Completion)
code, text = ask("embeddings", {"model": decoder, "input": ["w3", "w4 w5"]})
check("embeddings: a language model computes them, too", code == 200 and
      len(CreateEmbeddingResponse.model_validate(json.loads(text)).data) == 2, text)
code, text = ask("models/" + decoder, None)
check("models: one of them is of OpenAI's type", Model.model_validate(json.loads(text), strict=True).id == decoder)
check("models: all of them are", all(Model.model_validate(one, strict=True) for one in json.loads(ask("models", None)[1])["data"]))
print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
raise SystemExit(1 if counts["failed"] else 0)
