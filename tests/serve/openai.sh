# tfm serve: OpenAI's API with a small random decoder-only model with word tokens.
#     sh tests/serve/openai.sh PROGRAM SOURCE_ROOT MAKE_DECODER
# Prints TAP.
set -u
tfm=$(realpath "$1")
root=$(realpath "$2")
make_decoder=$(realpath "$3")
. "$root/tests/checks.sh"
. "$root/tests/serve/common.sh"

mkdir chatty
"$make_decoder" chatty
python3 "$root/tests/serve/make_words.py" chatty
cp -r chatty other
echo '{"tokenizer_class": "PreTrainedTokenizerFast"}' >other/tokenizer_config.json
mkdir sentences sentences/1_Pooling # sentence-transformers with a decoder-only model
cp chatty/* sentences
echo '[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]' >sentences/modules.json
echo '{"word_embedding_dimension": 24, "pooling_mode_lasttoken": true}' >sentences/1_Pooling/config.json
# A model whose token 17 is a call of a tool, and whose prompts end in reasoning.
cp -r chatty agent
python3 - <<'END'
import json
model = json.load(open("agent/tokenizer.json"))
words = model["model"]["vocab"]
words['<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>'] = words.pop("w17")
json.dump(model, open("agent/tokenizer.json", "w"))
END
printf '%s' '{% for m in messages %}{{ m["content"] }}{% endfor %}{% if add_generation_prompt %} w5<think>{% endif %}{# </think> #}' >agent/chat_template.jinja
# A model that writes single characters of JSON; 12 and 13 are a blank and a line end.
cp -r chatty letters
python3 - <<'END'
import json
model = json.load(open("letters/tokenizer.json"))
letters = '{}[]":,.- \n0123456789abcdefghijklmnopqrstuvwxyz'
model["model"]["vocab"] = {"<unk>": 0, "<s>": 1, "</s>": 2} | {letter: 3 + i for i, letter in enumerate(letters)}
model["pre_tokenizer"], model["decoder"] = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}, {"type": "Fuse"}
model["added_tokens"] = [{"id": 2, "content": "</s>", "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False}]
json.dump(model, open("letters/tokenizer.json", "w"))
END
printf '%s' '{% for m in messages %}{{ m["content"] }}{% endfor %}' >letters/chat_template.jinja
# A model that fills in the middle, with tokens 30 to 32.
cp -r chatty filler
python3 - <<'END'
import json
model = json.load(open("filler/tokenizer.json"))
words = model["model"]["vocab"]
for i, token in enumerate(("<fim_prefix>", "<fim_suffix>", "<fim_middle>")):
    words[token] = words.pop("w%d" % (30 + i))
    model["added_tokens"].append({"id": 30 + i, "content": token, "special": True, "single_word": False, "lstrip": False,
                                  "rstrip": False, "normalized": False})
json.dump(model, open("filler/tokenizer.json", "w"))
END
start -m chatty -m other -m sentences -m agent -m letters -m filler --max-new-tokens 38
"$tfm" generate -m chatty --max-new-tokens 12 "w10 w11 w12" >want
json /v1/completions '{"model":"chatty","prompt":"w10 w11 w12","max_tokens":12,"temperature":0}'
answer='s/.*"choices"/"choices"/; s/,"prompt_tokens_details".*//' # without the tokens found in the cache
check "POST /v1/completions answers the text of tfm generate" says out "\"text\":\"$(cat want)\",\"logprobs\":null,\"finish_reason\":\"length\""
cp out whole.json
check "POST /v1/completions counts prompt and completion tokens" says out '"usage":{"prompt_tokens":3,"completion_tokens":12,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":0}}'
json /v1/completions '{"model":"chatty","prompt":"w10 w11 w12","max_tokens":12,"temperature":0,"stream":true}'
python3 - <<'END' >joined
import json
events = [line[6:] for line in open("out") if line.startswith("data: ")]
assert events[-1].strip() == "[DONE]" and len(events) > 4
print("".join(json.loads(e)["choices"][0]["text"] for e in events[:-1]))
END
check "the events of a streamed completion add up to the whole text" cmp -s joined want
json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":8,"seed":7,"n":2}'
cp out sampled
json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":8,"seed":7,"n":2}'
check "equal seeds sample equal completions" [ "$(sed "$answer" sampled)" = "$(sed "$answer" out)" ]
json /v1/chat/completions '{"model":"chatty","messages":[{"role":"user","content":"w20"}],"max_tokens":4,"temperature":0}'
check "POST /v1/chat/completions answers an assistant's message" [ "$code" = 200 -a -n "$(grep '"message":{"role":"assistant","content":" *w[0-9]' out)" ]
ask "$at/status"
check "GET /status says which models have a chat template" [ -n "$(grep '"name":"chatty","task":"generate","loaded":true,"chat":true}' out)" -a \
    -n "$(grep '"name":"other","task":"generate","loaded":false,"chat":false}' out)" ]
json /v1/chat/completions '{"model":"other","messages":[{"role":"user","content":"w20"}]}'
check "POST /v1/chat/completions rejects a model without a chat template" [ "$code" = 400 -a -n "$(grep "The model 'other' has no chat template" out)" ]
json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":39}'
check "POST /v1/completions rejects max_tokens above --max-new-tokens" [ "$code" = 400 ]
json /v1/completions '{"model":"filler","prompt":[[30,20,31,21,22,32],[30,23,31,21,22,32]],"max_tokens":8,"temperature":0}'
sed "$answer" out >filled
json /v1/completions '{"model":"filler","prompt":["w20","w23"],"suffix":"w21 w22","max_tokens":8,"temperature":0}'
check "POST /v1/completions with a suffix puts the model's tokens around the prompt and it" [ "$code" = 200 -a "$(sed "$answer" out)" = "$(cat filled)" ]
for more in '"prompt":[20]' '"prompt":"w20","echo":true'; do
    json /v1/completions "{\"model\":\"filler\",\"suffix\":\"w21\",$more}"
    check "POST /v1/completions refuses a suffix with $more" [ "$code" = 400 -a -n "$(grep '"param":"suffix"' out)" ]
done
json /v1/completions '{"model":"chatty","prompt":"w10","suffix":"w11"}'
check "POST /v1/completions names an unsupported field" [ "$code" = 400 -a -n "$(grep '"message":"Invalid request: suffix is not supported.*"param":"suffix"' out)" ]
# supported fields and values without effect, unsupported values, and unknown fields
for field in '"logit_bias":{}' '"best_of":1' '"response_format":{"type":"text"}' '"tool_choice":"none"' '"max_tokens":4.0' \
    '"seed":4294967295' '"seed":18446744073709551615' '"seed":-7' '"seed":-1' '"stop":null' '"stream":null' '"logprobs":0' \
    '"user":"u"' '"top_k":-1,"temperature":1' '"min_p":0,"temperature":0.5' '"repetition_penalty":1.1' '"min_tokens":2' \
    '"max_tokens":-1' '"max_tokens":0' '"num_beams":1' '"n":1.0' '"n":3' '"best_of":2' '"echo":true' '"echo":true,"max_tokens":0' '"suffix":""' '"add_special_tokens":true' '"n_keep":-1' '"logit_bias":{"5":0,"7":0.0}' '"image_data":[]' '"frequency_penalty":0.0' '"metadata":{"a":"b"}' '"repeat_last_n":64' '"mirostat":0'; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10\",\"temperature\":0,\"max_tokens\":3,$field}"
    check "POST /v1/completions accepts $field" [ "$code" = 200 ]
done
for field in '"logit_bias":{"50":1}' '"logit_bias":{"5":101}' '"logit_bias":[[5]]' '"num_beams":4' \
    '"max_tokens":0,"stream":true' '"max_tokens":0,"echo":true,"stream":true' '"echo":true,"logprobs":1' '"best_of":2,"stream":true' '"best_of":2,"n":3' \
    '"response_format":{"type":"yaml"}' '"frequency_penalty":2.1' '"presence_penalty":-3' '"logprobs":21' '"suffix":"a"' '"mirostat":2' '"repeat_penalty":1.1' '"grammar":"a"' '"n_predict":5' \
    '"add_special_tokens":false' '"image_data":[{"data":"a","id":1}]' '"min_tokens":2,"stop":"a"' \
    '"min_tokens":2,"stop_token_ids":[5]' '"max_tokens":4.5' '"seed":"a"' '"top_k":-2' '"min_p":2' '"stop_token_ids":[50]' '"user":7' '"stream":"yes"' '"n":17'; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10\",\"temperature\":0,\"max_tokens\":3,$field}"
    name=$(printf '%s' "$field" | sed 's/^"\([a-z_]*\)".*/\1/')
    check "POST /v1/completions rejects $field by its name" [ "$code" = 400 -a \
        -n "$(grep "\"message\":\"[^\"]*$name.*\"param\":\"$name\"" out)" ]
done
for field in '"logprobs":1' '"top_logprobs":1'; do
    json /v1/chat/completions "{\"model\":\"chatty\",\"messages\":[{\"role\":\"user\",\"content\":\"w20\"}],$field}"
    check "POST /v1/chat/completions rejects $field alone" [ "$code" = 400 -a -n "$(grep '"param":"\(top_\)*logprobs"' out)" ]
done
cat >generated.py <<'END'
# Log probabilities, biases and penalties of completions: tokens are those of a greedy one, changed as requested.
import json
import sys
import urllib.request


def ask(path, **fields):
    body = {"model": "chatty", "temperature": 0, "max_tokens": 12, **fields}
    body = {"prompt": "w10 w11 w12", **body} if path == "completions" else {"messages": [{"role": "user", "content": "w20"}], **body}
    request = urllib.request.Request(sys.argv[1] + "/v1/" + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    text = urllib.request.urlopen(request).read().decode()
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] if text[0] == "d" else json.loads(text)


plain = ask("completions", logprobs=3)["choices"][0]
scores = plain["logprobs"]
assert plain["text"] == ask("completions")["choices"][0]["text"] == "".join(scores["tokens"])
assert scores["text_offset"] == [sum(map(len, scores["tokens"][:i])) for i in range(12)]
for token, own, top in zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"]):
    assert len(top) == 3 and top[token] == own == max(top.values()) <= 0
streamed = [event["choices"][0] for event in ask("completions", logprobs=3, stream=True)]
for name in scores:
    assert sum((one["logprobs"][name] for one in streamed if one["logprobs"]), []) == scores[name], name
whole = ask("chat/completions", logprobs=True, top_logprobs=2)["choices"][0]
assert whole["message"]["content"] == "".join(entry["token"] for entry in whole["logprobs"]["content"])
for entry in whole["logprobs"]["content"]:
    assert bytes(entry["bytes"]).decode() == entry["token"] and entry["top_logprobs"][0]["logprob"] == entry["logprob"]
    assert len(entry["top_logprobs"]) == 2 and entry["top_logprobs"][1]["logprob"] <= entry["logprob"]
parts = [event["choices"][0] for event in ask("chat/completions", logprobs=True, top_logprobs=2, stream=True)]
assert sum((one["logprobs"]["content"] for one in parts if one["logprobs"]), []) == whole["logprobs"]["content"]
first = int(scores["tokens"][0].strip()[1:])
for bias in ({str(first): -100}, [[first, False]]):
    assert scores["tokens"][0] not in ask("completions", logit_bias=bias)["choices"][0]["text"].split(" ")
assert set(ask("completions", logit_bias={"17": 100})["choices"][0]["text"].split()) == {"w17"}
repeated = len(set(scores["tokens"]))
assert len(set(ask("completions", frequency_penalty=2, presence_penalty=2)["choices"][0]["text"].split())) > repeated
best = ask("completions", best_of=5, n=2, temperature=1.5, seed=3, logprobs=0)["choices"]
every = ask("completions", n=5, temperature=1.5, seed=3, logprobs=0)["choices"]
mean = [sum(one["logprobs"]["token_logprobs"]) / len(one["logprobs"]["tokens"]) for one in every]
wanted = sorted(range(5), key=lambda i: -mean[i])[:2]
equal = ask("completions", n=3)["choices"]
assert [one["text"] for one in equal] == 3 * [plain["text"]] and [one["index"] for one in equal] == [0, 1, 2]
third = ask("completions", n=3, logprobs=3)["choices"][2]["logprobs"]
assert third["tokens"] == scores["tokens"]
assert all(abs(a - b) < 1e-4 for a, b in zip(third["token_logprobs"], scores["token_logprobs"], strict=True))
for prompt in {"prompt": "w10 w11 w12"}, {"prompt": [10, 11, 12]}:
    assert ask("completions", echo=True, **prompt)["choices"][0]["text"] == "w10 w11 w12" + plain["text"]
    nothing = ask("completions", echo=True, n=2, **prompt | {"max_tokens": 0})
    assert [one["text"] for one in nothing["choices"]] == ["w10 w11 w12"] * 2 and nothing["choices"][0]["finish_reason"] == "length"
    assert nothing["usage"]["prompt_tokens"] == 3 and nothing["usage"]["completion_tokens"] == 0
    nothing = ask("completions", **prompt | {"max_tokens": 0})
    assert [one["text"] for one in nothing["choices"]] == [""] and nothing["usage"]["completion_tokens"] == 0
parts = [event["choices"][0] for event in ask("completions", echo=True, n=2, stream=True)]
for index in 0, 1:
    assert "".join(one["text"] for one in parts if one["index"] == index) == "w10 w11 w12" + plain["text"]
assert [one["text"] for one in best] == [every[i]["text"] for i in wanted] and [one["index"] for one in best] == [0, 1]
END
check "log probabilities, logit_bias, penalties and best_of agree with greedy completions" python3 generated.py "$at"
cat >answers.py <<'END'
# Reasoning and calls of tools, in whole and in streamed answers.
import json
import sys
import urllib.request


def ask(**fields):
    body = {"model": "agent", "temperature": 0, "max_tokens": 4, "messages": [{"role": "user", "content": "w20"}], **fields}
    request = urllib.request.Request(sys.argv[1] + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    text = urllib.request.urlopen(request).read().decode()
    if text[0] != "d":
        return json.loads(text)["choices"][0]
    choices = [json.loads(line[6:])["choices"][0] for line in text.splitlines() if line.startswith("data: {")]
    assert choices[0]["delta"] == {"role": "assistant", "content": "", "refusal": None} and choices[0]["logprobs"] is None
    message = {"role": "assistant", "content": "", "refusal": None}
    for choice in choices[1:]:
        for name, value in choice["delta"].items():
            message[name] = message.get(name, type(value)()) + value
    for index, call in enumerate(message.get("tool_calls", [])):
        assert call.pop("index") == index
    message["content"] = None if "tool_calls" in message and not message["content"] else message["content"]
    return {"message": message, "finish_reason": choices[-1]["finish_reason"]}


tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
for stream in (False, True):
    thought = ask(stream=stream)["message"]
    plain = ask(stream=stream, reasoning_format="none")["message"]
    assert thought["content"] == "" and plain["content"].strip() == thought["reasoning_content"], (thought, plain)
    forced = {"stream": stream, "logit_bias": {"17": 100}, "reasoning_format": "none"}
    for given, count in (({"max_tokens": 1}, 1), ({"max_tokens": 3}, 3), ({"max_tokens": 3, "parallel_tool_calls": False}, 1)):
        answer = ask(**forced, tools=tools, **given)
        calls = answer["message"]["tool_calls"]
        assert answer["finish_reason"] == "tool_calls" and answer["message"]["content"] is None and len(calls) == count
        assert all(call["function"] == {"name": "add", "arguments": '{"a":1}'} and call["type"] == "function" for call in calls)
        assert all(len(call["id"]) == 9 and call["id"].isalnum() for call in calls) and len({call["id"] for call in calls}) == count
    for hidden in ({}, {"tools": tools, "tool_choice": "none"}, {"tools": [{"type": "function", "function": {"name": "f"}}]}):
        message = ask(**forced, **hidden)["message"]
        assert "tool_calls" not in message and message["content"].strip().startswith("<tool_call>"), message
END
check "answers have reasoning_content and tool_calls, also streamed" python3 answers.py "$at"
cat >responses.py <<'END'
# /v1/responses: the answers are those of chats, whole and streamed.
import json
import sys
import urllib.error
import urllib.request


def ask(path="responses", **fields):
    body = {"model": "agent", "temperature": 0, **fields}
    request = urllib.request.Request(sys.argv[1] + "/v1/" + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        text = urllib.request.urlopen(request).read().decode()
    except urllib.error.HTTPError as error:
        assert error.code == 400, error.code
        return json.loads(error.read())["error"]["param"]
    if not fields.get("stream"):
        return json.loads(text)
    events = []
    for number, block in enumerate(text.strip().split("\n\n")):
        name, data = block.split("\n")
        events.append(json.loads(data[len("data: "):]))
        assert name == "event: " + events[-1]["type"] and events[-1]["sequence_number"] == number, block
    return events


def replay(events):
    """The last response, which equals the items and parts that the events built up."""
    assert [one["type"] for one in events[:2]] == ["response.created", "response.in_progress"]
    items, texts = [], {}
    for event in events[2:-1]:
        kind = event["type"].removeprefix("response.")
        assert kind == "output_item.added" or event["output_index"] == len(items) - 1, event
        if kind == "output_item.added":
            assert event["output_index"] == len(items) and event["item"]["status"] == "in_progress"
            items.append(event["item"])
        elif kind.endswith(".delta"):
            assert event["item_id"] == items[-1]["id"]
            texts[len(items) - 1] = texts.get(len(items) - 1, "") + event["delta"]
        elif kind == "output_item.done":
            items[-1] = event["item"]
            text = event["item"].get("arguments") or event["item"]["content"][0]["text"]
            assert text == texts.get(len(items) - 1, ""), (text, texts)
    last = events[-1]["response"]
    assert last["output"] == items and events[-1]["type"] == "response." + last["status"]
    return last


def same(one, other):
    """Whether two answers are equal except for their ids and times."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one
                                                  if name not in ("id", "call_id", "created_at", "usage"))
    return one == other


def chat(messages, **fields):
    return ask("chat/completions", messages=messages, **fields)["choices"][0]["message"]


def check(messages, limit=6, more={}, **fields):
    message = chat(messages, max_tokens=limit, **more)
    whole = ask(max_output_tokens=limit, **fields)
    streamed = replay(ask(max_output_tokens=limit, stream=True, **fields))
    assert same(whole, streamed), (whole, streamed)
    parts = {"message": "", "reasoning": ""}
    for item in whole["output"]:
        if item["type"] != "function_call":
            parts[item["type"]] += item["content"][0]["text"]
    assert parts == {"message": message["content"] or "", "reasoning": message.get("reasoning_content", "")}, (whole, message)
    calls = [(item["name"], item["arguments"]) for item in whole["output"] if item["type"] == "function_call"]
    assert calls == [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])]
    return whole


user = {"role": "user", "content": "w20"}
whole = check([user], input="w20")
assert whole["status"] == "incomplete" and whole["incomplete_details"] == {"reason": "max_output_tokens"}
assert [item["type"] for item in whole["output"]] == ["reasoning", "message"] and whole["store"] is False
assert whole["usage"]["output_tokens"] == 6 and whole["usage"]["total_tokens"] == 6 + whole["usage"]["input_tokens"]
parts = [{"type": "input_text", "text": "w20"}]
check([user], input=[{"role": "user", "content": parts}])
check([{"role": "system", "content": "w30"}, user], instructions="w30", input=[{"type": "message", **user}])
check([user], model="letters", more={"model": "letters"}, input="w20")
history = [{"type": "reasoning", "summary": []}, {"type": "function_call", "call_id": "c1", "name": "add", "arguments": "{}"},
           {"type": "function_call_output", "call_id": "c1", "output": "w7"}]
check([user, {"role": "assistant", "content": "", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": "{}"}}]},
       {"role": "tool", "tool_call_id": "c1", "content": "w7"}], input=[user, *history])
point = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"], "additionalProperties": False}
letters = {"model": "letters", "input": "a", "temperature": 1.2, "seed": 2, "max_output_tokens": 38}
for stream in False, True:
    answer = ask(**letters, text={"format": {"type": "json_schema", "name": "point", "schema": point}}, stream=stream)
    answer = replay(answer) if stream else answer
    assert json.loads(answer["output"][0]["content"][0]["text"]).keys() == {"x"} and answer["status"] == "completed", answer
    for choice in "required", {"type": "function", "name": "f"}:
        fields = {"tools": [{"type": "function", "name": "f", "parameters": point}], "tool_choice": choice, "stream": stream}
        answers = [ask(**letters | fields | {"seed": seed}) for seed in range(8)]
        answers = [replay(answer) if stream else answer for answer in answers]
        calls = sum((answer["output"] for answer in answers if answer["status"] == "completed"), [])
        assert calls and all(call["type"] == "function_call" and call["name"] == "f" for call in calls), calls
        assert all(0 <= json.loads(call["arguments"])["x"] <= 9 and call["id"].startswith("fc_") and call["call_id"] for call in calls)
texts = [ask(model="letters", input="w20", **more)["output"][0]["content"][0]["text"] for more in ({}, {"max_output_tokens": None})]
assert texts[0] == texts[1] == chat([user], model="letters")["content"], texts
stop = texts[0][3]
assert ask(model="letters", input="w20", stop=[stop])["output"][0]["content"][0]["text"] == texts[0].partition(stop)[0]
assert ask(model="letters", input="w20", guided_choice=["ok"])["output"][0]["content"][0]["text"] == "ok"
for field, value in (("previous_response_id", "resp_1"), ("conversation", "c"), ("background", True), ("input", []), ("input", 7),
                     ("max_output_tokens", 0), ("include", ["reasoning.encrypted_content"]), ("truncation", "auto"), ("instructions", 7),
                     ("tools", [{"type": "web_search"}]), ("tools", [{"type": "function", "name": "f", "parameters": 7}]), ("tool_choice", {"type": "web_search"}), ("text.verbosity", "low"),
                     ("text.format", {"type": "yaml"}), ("text.format", {"type": "json_schema", "name": "a"}), ("temperature", 3),
                     ("input[0]", [{"type": "item_reference", "id": "a"}]), ("input[0]", [{"content": "a"}]),
                     ("input[1]", [user, {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]),
                     ("input[0]", [{"type": "function_call", "name": "f"}]),
                     ("input", [{"role": "nobody", "content": "a"}]), ("input", "w20 " * 60), ("stop", ""), ("stop_token_ids", [50]),
                     ("max_tokens", 5), ("n", 2), ("logprobs", True), ("messages", [user]), ("response_format", {"type": "text"})):
    name = field.partition("[")[0].partition(".")[0]
    value = {field.partition(".")[2]: value} if "." in field else value
    for stream in False, True:
        assert ask(**{"input": "w20", "stream": stream, name: value}) == field, (field, value)
END
check "/v1/responses answers as chats do, with items, events and errors by name" python3 responses.py "$at"
cat >structured.py <<'END'
# Structured output of a random model that writes single characters.
import json
import re
import sys
import urllib.error
import urllib.request


def ask(path="completions", **fields):
    body = {"model": "letters", "max_tokens": 38, "temperature": 1.2, "seed": 1, "logit_bias": [[12, False], [13, False]], **fields}
    body.update({"prompt": "a"} if path == "completions" else {"messages": [{"role": "user", "content": "a"}]})
    request = urllib.request.Request(sys.argv[1] + "/v1/" + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        choices = json.loads(urllib.request.urlopen(request).read())["choices"]
        return [choice.get("text", choice.get("message")) for choice in choices], choices[0]["finish_reason"]
    except urllib.error.HTTPError as error:
        return json.loads(error.read())["error"]["param"], error.code


point = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 99}, "y": {"enum": ["up", "down"]}},
         "required": ["x", "y"], "additionalProperties": False}
fields = [{"response_format": {"type": "json_schema", "json_schema": {"name": "point", "schema": point}}},
          {"response_format": {"type": "json_object", "schema": point}}, {"json_schema": point}, {"guided_json": point},
          {"guided_json": json.dumps(point)}, {"structured_outputs": {"json": point}}]
for field in fields:
    for seed in range(4):
        texts, reason = ask(n=3, seed=seed, **field)
        assert reason == "stop", (texts, reason)
        for text in texts:
            value = json.loads(text)
            assert set(value) == {"x", "y"} and 0 <= value["x"] < 100 and value["y"] in ("up", "down"), text
for field in ({"guided_choice": ["yes", "no:"]}, {"structured_outputs": {"choice": ["yes", "no:"]}},
              {"grammar": 'root ::= "yes" | "no:"'}, {"guided_grammar": 'root ::= ("yes" | "no" ":")'}):
    assert {text for seed in range(8) for text in ask(seed=seed, **field)[0]} <= {"yes", "no:"}, field
size = {"type": "object", "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["x"]}
tools = [{"type": "function", "function": {"name": name, "parameters": size}} for name in "fg"]
for choice, names in (("required", {"f", "g"}), ({"type": "function", "function": {"name": "g"}}, {"g"})):
    called = set()
    for seed in range(8):
        (message,), reason = ask("chat/completions", tools=tools, tool_choice=choice, seed=seed)
        (call,) = message["tool_calls"]
        assert reason == "tool_calls" and message["content"] is None
        called.add(call["function"]["name"])
        assert set(json.loads(call["function"]["arguments"])) == {"x"}
    assert called <= names, called
digit = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d"}}, "required": ["x"], "$defs": {"d": {"enum": [1, 2]}}}
(message,), _ = ask("chat/completions", tools=[{"type": "function", "function": {"name": "f", "parameters": digit}}], tool_choice="required")
assert json.loads(message["tool_calls"][0]["function"]["arguments"])["x"] in (1, 2)
assert ask("chat/completions", tools=tools, tool_choice="required", response_format={"type": "json_object"}) == ("tool_choice", 400)
def steps():
    text = urllib.request.urlopen(sys.argv[1] + "/metrics").read().decode()
    return int(re.search(r'^tfm_decode_steps_total\{model="letters"\} (\d+)$', text, re.M)[1])


assert ask(grammar='root ::= ("a"?){70000}')[1] == 400  # too ambiguous
before = steps()
ask()
assert steps() > before, "a refused grammar ended continuous batching"
assert ask(grammar='root ::= "zz" "\u00e9"') == (["zz"], "length")  # no token continues it
for path, field in (("completions", {"response_format": {"type": "yaml"}}), ("completions", {"response_format": {"type": "json_schema"}}),
                    ("completions", {"guided_json": {"if": {}}}), ("completions", {"grammar": "root ::= x"}),
                    ("completions", {"guided_choice": [1]}), ("completions", {"json_schema": point, "grammar": 'root ::= "a"'}),
                    ("completions", {"structured_outputs": {"regex": "a"}}), ("completions", {"structured_outputs": {"choice": "yes"}}),
                    ("completions", {"structured_outputs": {"json_object": True}}), ("completions", {"guided_json": {"enum": [1], "items": {"$ref": "#"}}}),
                    ("chat/completions", {"tool_choice": "required"}),
                    ("chat/completions", {"tool_choice": "always"}),
                    ("chat/completions", {"tools": tools, "tool_choice": {"type": "function", "function": {"name": "h"}}})):
    assert ask(path, **field) in [(name, 400) for name in field], (field, ask(path, **field))
END
check "structured output follows JSON schemas, choices, grammars and tools" python3 structured.py "$at"
for field in '"max_completion_tokens":-1' '"add_special_tokens":false' '"chat_template_kwargs":{"enable_thinking":false}'; do
    json /v1/chat/completions "{\"model\":\"chatty\",\"messages\":[{\"role\":\"user\",\"content\":\"w20\"}],\"max_tokens\":3,$field}"
    check "POST /v1/chat/completions accepts $field" [ "$code" = 200 ]
done
json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":12,"temperature":0}'
greedy=$(sed "$answer" out)
for field in '"temperature":1e-300' '"temperature":1e-40' '"temperature":1e-9' '"top_p":1e-300' '"top_p":0'; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10\",\"max_tokens\":12,\"seed\":3,$field}"
    check "a completion with $field is greedy" [ "$code" = 200 -a "$(sed "$answer" out)" = "$greedy" ]
done
for _ in 1 2; do
    json /v1/completions '{"model":"chatty","prompt":"w10","max_tokens":1,"ui_theme":"dark"}'
done
check "POST /v1/completions accepts an unknown field" [ "$code" = 200 ]
check "an unknown field is named in the log once" [ "$(grep -c '^tfm: /v1/completions: the field ui_theme is not known and is ignored$' log)" = 1 ]
json /v1/completions '{"model":"chatty","prompt":[10,11.0,12],"max_tokens":12,"temperature":0}'
check "a prompt of token ids gives the completion of its text" [ "$(sed "$answer" out)" = "$(sed "$answer" whole.json)" ]
first=$(sed 's/.*"text":" *\(w[0-9]*\) .*/\1/' whole.json)
json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"w10 w11 w12\",\"max_tokens\":12,\"temperature\":0,\"stop_token_ids\":[${first#w}]}"
check "stop_token_ids end a completion" says out "\"finish_reason\":\"stop\".*\"completion_tokens\":1,"
json /v1/completions '{"model":"chatty","prompt":[[10],["w11"]]}'
check "a prompt that mixes token ids and texts is rejected" [ "$code" = 400 ]
json /v1/completions '{"model":"chatty","prompt":[10,50]}'
check "a prompt with an id outside the vocabulary is rejected" [ "$code" = 400 -a -n "$(grep '"param":"prompt"' out)" ]
long_prompt=$(printf 'w10 %.0s' $(seq 41))
for stream in true false; do
    json /v1/completions "{\"model\":\"chatty\",\"prompt\":\"$long_prompt\",\"stream\":$stream}"
    check "a prompt longer than the context answers 400 with stream: $stream" [ "$code" = 400 -a \
        -n "$(grep 'maximum context length is 40 tokens.*"param":"prompt","code":"context_length_exceeded"' out)" ]
done
json /v1/chat/completions '{"model":"chatty","messages":[{"role":"user","content":"w20"}],"max_tokens":4,"temperature":0,"stream":true,
    "stream_options":{"include_usage":true}}'
check "a streamed chat begins with the role and ends with the usage" python3 -c 'import json
events = [json.loads(line[6:]) for line in open("out") if line.startswith("data: {")]
assert events[0]["choices"][0]["delta"]["role"] == "assistant" and events[0]["choices"][0]["delta"]["content"] == ""
assert all(e["usage"] is None and "role" not in e["choices"][0]["delta"] for e in events[1:-1])
assert events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 4
assert events[-2]["choices"][0]["finish_reason"] == "length"'
json /tokenize '{"prompt":"w20 w21 w22"}'
check "POST /tokenize answers the ids of the first language model" says out '{"count":3,"max_model_len":40,"tokens":\[20,21,22\]}'
json /tokenize '{"model":"agent","content":"w20 w21","with_pieces":true}'
check "POST /tokenize answers ids with their texts" says out '"tokens":\[{"id":20,"piece":" w20"},{"id":21,"piece":" w21"}\]'
json /tokenize '{"model":"agent","messages":[{"role":"user","content":"w7"}],"return_token_strs":true}'
check "POST /tokenize renders a chat" says out '"tokens":\[7,0\],"token_strs":\["w7","<unk>"\]'
json /detokenize '{"model":"chatty","tokens":[20,21.0]}'
check "POST /detokenize answers the text" says out '{"prompt":"w20 w21","content":"w20 w21"}'
for wrong in '{}' '{"prompt":5}' '{"prompt":5,"content":"w20"}' '{"prompt":"w20","with_pieces":1}' '{"prompt":"w20","add_special":"no"}'; do
    json /tokenize "$wrong"
    check "POST /tokenize $wrong answers 400" [ "$code" = 400 ]
done
json /tokenize '{"model":null,"prompt":"w20","content":null,"messages":null,"with_pieces":null,"add_special":null}'
check "POST /tokenize takes null for the default of a field" says out '"tokens":\[20\]'
json /detokenize '{"model":null,"tokens":[]}'
check "POST /detokenize answers no text for no tokens" says out '{"prompt":"","content":""}'
for wrong in '{}' '{"tokens":null}' '{"tokens":7}' '{"tokens":[50]}' '{"tokens":[-1]}' '{"tokens":[1.5]}' '{"tokens":[1e19]}' '{"tokens":[true]}' \
    '{"tokens":["w"]}'; do
    json /detokenize "$wrong"
    check "POST /detokenize $wrong answers 400" [ "$code" = 400 ]
done
ask "$at/v1/models/chatty"
check "GET /v1/models/NAME answers one model" [ "$code" = 200 -a -n "$(grep '"id":"chatty","object":"model"' out)" ]
ask "$at/v1/models/nobody"
check "GET /v1/models/NAME answers 404 for an unknown model" [ "$code" = 404 ]
printf 'w20 w21\n' | "$tfm" embed -m chatty >want.json
json /v1/embeddings '{"model":"chatty","input":"w20 w21"}'
check "embeddings of a decoder-only model equal those of tfm embed" [ "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' out)" = "$(cat want.json)" ]
printf 'w20 w21\n' | "$tfm" embed -m sentences >want.json
json /v1/embeddings '{"model":"sentences","input":"w20 w21"}'
check "embeddings of a decoder-only model in sentence-transformers format equal those of tfm embed" \
    [ "$(sed 's/.*"embedding":\(\[[^]]*\]\).*/\1/' out)" = "$(cat want.json)" ]
json /v1/embeddings '{"model":"chatty","input":"w20","dimensions":24}'
check "POST /v1/embeddings accepts the dimensions of the model" [ "$code" = 200 ]
cp out whole.json
json /v1/embeddings '{"model":"chatty","input":["w20 w21","w20"],"dimensions":8}'
check "POST /v1/embeddings shortens to dimensions, and scales to unit length" python3 -c 'import json, math
whole = json.load(open("whole.json"))["data"][0]["embedding"][:8]
length = math.sqrt(sum(x * x for x in whole))
got = json.load(open("out"))["data"]
assert [len(row["embedding"]) for row in got] == [8, 8]
assert all(abs(a / length - b) < 1e-6 for a, b in zip(whole, got[1]["embedding"]))'
json /v1/embeddings '{"model":"chatty","input":["w20 w21","w20"],"dimensions":8,"encoding_format":"base64"}'
cp out packed.json
json /v1/embeddings '{"model":"chatty","input":[[20,21],[20.0]],"dimensions":8}'
check "embeddings in base64 and of token ids equal those of texts" python3 -c 'import base64, json, struct
got, packed = (json.load(open(name)) for name in ("out", "packed.json"))
for a, b in zip(got["data"], packed["data"], strict=True):
    numbers = struct.unpack("<8f", base64.b64decode(b["embedding"]))
    assert all(abs(x - y) < 1e-6 for x, y in zip(a["embedding"], numbers, strict=True)), (a, numbers)
assert got["usage"] == packed["usage"] and got["usage"]["prompt_tokens"] == 3'
json /v1/embeddings '{"model":"sentences","input":[20]}'
cp out ids.json
json /v1/embeddings '{"model":"sentences","input":"w20"}'
check "POST /v1/embeddings takes one list of token ids" python3 -c 'import json
a, b = (json.load(open(name))["data"][0]["embedding"] for name in ("ids.json", "out"))
assert all(abs(x - y) < 1e-6 for x, y in zip(a, b, strict=True))'
json /v1/embeddings '{"model":"sentences","input":[20,21]}'
for i in 1 2 3 4 5 6 7 8; do
    input=$([ $((i % 2)) = 0 ] && echo '[20,21]' || echo '"w20 w21"')
    input=$(for _ in $(seq 200); do printf '%s,' "$input"; done) # long enough to share a batch
    curl -s -m 60 -o "one$i" "$at/v1/embeddings" -H 'Content-Type: application/json' -d "{\"model\":\"sentences\",\"input\":[${input%,}]}" &
    clients="${clients:-} $!"
done
# shellcheck disable=SC2086 # words
wait $clients
check "requests of texts and of token ids at the same time have the embeddings of single requests" python3 -c 'import json
want, *rest = (json.load(open(name))["data"] for name in ["out", *(f"one{i}" for i in range(1, 9))])
assert all(abs(x - y) < 1e-5 for data in rest for row in data for x, y in zip(row["embedding"], want[0]["embedding"], strict=True))'
for input in '[20,50]' '[20,-1]' '[20,1.5]' '[[20],"w20"]' '[[20],[]]' '[]' '7' '{}' 'true' '[true]' "[$(seq -s, 1 41)]"; do
    json /v1/embeddings "{\"model\":\"chatty\",\"input\":$input}"
    check "POST /v1/embeddings rejects the input $(printf %.20s "$input") by its name" [ "$code" = 400 -a -n "$(grep '"param":"input"' out)" ]
done
json /v1/embeddings '{"model":"sentences","input":[20],"prompt_name":"query"}'
check "POST /v1/embeddings rejects a prompt for token ids" [ "$code" = 400 -a -n "$(grep '"param":"prompt_name"' out)" ]
for field in '"dimensions":25' '"dimensions":0' '"dimensions":2.5' '"dimensions":"8"' '"encoding_format":"int8"' '"encoding_format":7' '"embd_normalize":-1' '"normalize":true' '"embed_dtype":"float16"' '"input_type":"query"'; do
    json /v1/embeddings "{\"model\":\"chatty\",\"input\":\"w20\",$field}"
    name=$(printf '%s' "$field" | sed 's/^"\([a-z_]*\)".*/\1/')
    check "POST /v1/embeddings rejects $field by its name" [ "$code" = 400 -a -n "$(grep "\"param\":\"$name\"" out)" ]
done
echo '{"sequence_bias": [[[5], 1.0]]}' >other/generation_config.json
start -m other
for field in '"logprobs":1' '"presence_penalty":1'; do
    json /v1/completions "{\"model\":\"other\",\"prompt\":\"w10\",$field}"
    check "POST /v1/completions names $field, which the model's sequence_bias excludes" [ "$code" = 400 -a \
        -n "$(grep "$(printf '%s' "$field" | sed 's/^"\([a-z_]*\)".*/\1/') is not supported with the rules of the model.s generation_config.json" out)" ]
done
json /v1/completions '{"model":"other","prompt":"w10","max_tokens":4}'
check "POST /v1/completions generates text of a model with sequence_bias" [ "$code" = 200 ]
start -m other
: >other/model.safetensors # not loaded yet
json /v1/completions '{"model":"other","prompt":"w10","stream":true}'
check "a streamed completion of a model that fails to load answers 500, not an event" [ "$code" = 500 ]
stop
check "the server exits with 0 after completions" [ "$ended" = 0 ]
start -m chatty --ctx-size 8 --kv-precision int8
"$tfm" generate -m chatty --kv-precision int8 --ctx-size 8 "w10 w11 w12" >want
json /v1/completions '{"model":"chatty","prompt":"w10 w11 w12","temperature":0}'
check "serve --ctx-size --kv-precision answers the text of tfm generate with both" says out "\"text\":\"$(cat want)\",\"logprobs\":null,\"finish_reason\":\"length\""
check "serve --ctx-size ends a text at the context" says out '"completion_tokens":6,'
json /v1/completions '{"model":"chatty","prompt":"w1 w2 w3 w4 w5 w6 w7 w8 w9"}'
check "serve --ctx-size rejects a longer prompt" [ "$code" = 400 -a -n "$(grep 'maximum context length is 8 tokens' out)" ]
stop

echo "1..$count"
