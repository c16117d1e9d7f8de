"""Chat templates against transformers (tests/golden/chat_templates.json): a chat's answer must equal the completion of
the rendered text, with the same number of tokens. The model has byte tokens and random parameters, so another prompt
has another completion.
    python3 tests/serve/chats.py make FOLDER     creates a model per template, all with the weights of FOLDER/base
    python3 tests/serve/chats.py test PORT       tests a server with these models
    python3 tests/serve/chats.py ends PORT FOLDER   creates models whose end of turn is the first token of base
    python3 tests/serve/chats.py ended PORT FOLDER  tests a server with these models
Prints lines "ok - ..." and "not ok - ..."."""
import json
import os
import sys
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
with open(HERE + "/../golden/chat_templates.json", encoding="utf-8") as file:
    GOLDEN = json.load(file)
# Locations of the template; the names are also folder names.
PLACES = ("config", "jinja", "json", "list", "object", "marked", "blank")
OTHERS = {
    "broken": "a\n{% if %}",
    "refuses": "{% if messages[0].role == 'system' %}{{ raise_exception('no system messages') }}{% endif %}a",
    "parts": "{% for m in messages %}{% for p in m.content %}{{ '<' + p['type'] + '>' + p['text'] }}{% endfor %}{% endfor %}",
    "inputs": "{{ tools[0].function.name if tools else none }}/{{ documents[0].text if documents else none }}/"
              "{{ enable_thinking if enable_thinking is defined else none }}/{{ add_generation_prompt }}",
    "calls": "{{ messages[1].tool_calls[0].function.arguments.b }}",
}
BIG = 1000000000000000019884624838656


def put(folder, template, place):
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        os.symlink("../base/" + name, folder + "/" + name)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": BIG, "bos_token": "<|endoftext|>",
              "eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "special": True}}
    wrong = "{{ 'not this one' }}"
    config["chat_template"] = {"config": template, "blank": template, "list": [{"name": "tool_use", "template": wrong},
                                                            {"name": "default", "template": template}],
                               "object": {"default": template}}.get(place, wrong)
    if place in ("jinja", "marked", "blank"):
        with open(folder + "/chat_template.jinja", "w", encoding="utf-8") as out:
            out.write({"jinja": template, "marked": "\ufeff" + template, "blank": " \n"}[place])
    if place == "json":
        with open(folder + "/chat_template.json", "w", encoding="utf-8") as out:
            json.dump({"chat_template": template}, out)
    with open(folder + "/tokenizer_config.json", "w", encoding="utf-8") as out:
        json.dump(config, out)


def make(folder):
    for name, template in (GOLDEN["templates"] | OTHERS).items():
        os.mkdir(folder + "/" + name)
        put(folder + "/" + name, template, "jinja")
    for place in PLACES:
        os.mkdir(folder + "/" + place)
        put(folder + "/" + place, GOLDEN["templates"]["smollm2"], place)


def ask(port, path, **fields):
    request = urllib.request.Request("http://127.0.0.1:%s/v1/%s" % (port, path), json.dumps(fields).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def same(port, name, chat, rendered, **fields):
    """Whether a chat's answer equals the completion of a prompt."""
    how = {"max_tokens": 8, "temperature": 0}
    code, said = ask(port, "chat/completions", model=name, messages=chat, **how, **fields)
    assert code == 200, said
    _, wanted = ask(port, "completions", model="base", prompt=rendered, **how)
    return (said["choices"][0]["message"]["content"] == wanted["choices"][0]["text"] and
            said["usage"]["prompt_tokens"] == wanted["usage"]["prompt_tokens"])


def check(name, good):
    print(("ok - " if good else "not ok - ") + name)


def test(port):
    for name in GOLDEN["templates"]:
        check("chat template %s renders as transformers does" % name,
              all([same(port, name, chat, text) for chat, text in zip(GOLDEN["chats"], GOLDEN["rendered"][name])]))
    for place in PLACES:
        check("a chat template is found in " + place,
              same(port, place, GOLDEN["chats"][0], GOLDEN["rendered"]["smollm2"][0]))
    code, said = ask(port, "chat/completions", model="broken", messages=GOLDEN["chats"][0])
    check("a damaged chat template is rejected with its line",
          code == 400 and "line 2 of the chat template" in said["error"]["message"])
    code, said = ask(port, "chat/completions", model="refuses", messages=GOLDEN["chats"][1])
    check("a chat that its template refuses is rejected with the template's message",
          code == 400 and "no system messages" in said["error"]["message"])
    parts = [{"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
             {"role": "user", "content": [{"type": "text", "text": " What is"}, {"type": "text", "text": "2 + 2? \n"}], "name": "x"}]
    check("a chat with a list of text parts and the role developer is rendered", same(port, "smollm2", parts, GOLDEN["rendered"]["smollm2"][1]))
    empty = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": []}]
    check("a chat with null content of an assistant is rendered", same(port, "chatml", empty, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
                                                     "<|im_end|>\n<|im_start|>assistant\n"))
    unchecked = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    check("a template that reads lists of parts gets them", same(port, "parts", unchecked, "<text>a"))
    check("a template that reads only lists gets a string as a list", same(port, "parts", GOLDEN["chats"][0], "<text>Hi"))
    asked = {"tools": [{"type": "function", "function": {"name": "f"}}], "documents": [{"text": "d"}],
             "chat_template_kwargs": {"enable_thinking": False}}
    check("tools, documents and variables reach the template", same(port, "inputs", GOLDEN["chats"][0], "f/d/False/True", **asked))
    check("tool_choice none hides the tools", same(port, "inputs", GOLDEN["chats"][0], "None/d/False/True",
                                                   tool_choice="none", **asked))
    check("add_generation_prompt reaches the template", same(port, "inputs", GOLDEN["chats"][0], "None/None/None/False",
                                                             add_generation_prompt=False))
    check("continue_final_message ends the prompt after the last message",
          same(port, "chatml", GOLDEN["chats"][4], "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb",
               continue_final_message=True))
    called = [{"role": "user", "content": "a"}, {"role": "assistant", "content": None, "tool_calls": [
        {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"b": 1}'}}]}]
    check("arguments of a call reach the template as an object", same(port, "calls", called, "1"))
    tool = [{"role": "tool", "content": "4", "tool_call_id": "x"}]
    check("the role tool is rendered by a template without fixed roles",
          same(port, "chatml", tool, "<|im_start|>tool\n4<|im_end|>\n<|im_start|>assistant\n"))
    for what, message, named in (("an image", {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
                                  "messages[0].content[0]"),
                                 ("a call without a function", {"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]},
                                  "messages[0].tool_calls"),
                                 ("a user's content that is null", {"role": "user", "content": None}, "messages[0].content"),
                                 ("an unknown role", {"role": "robot", "content": "a"}, "messages[0].role")):
        code, said = ask(port, "chat/completions", model="qwen2.5", messages=[message])
        check("a chat is rejected by the field's name: " + what, code == 400 and said["error"]["param"] == named)
    for name in "tools", "documents":
        code, said = ask(port, "chat/completions", model="qwen2.5", messages=GOLDEN["chats"][0], **{name: [{}, [None]]})
        check("%s must be a list of objects" % name,
              code == 400 and said["error"]["param"] == name and "a list of objects" in said["error"]["message"])


def find_chat(port):
    """A chat whose answer begins with a letter, and the letter."""
    for number in range(1, 400):
        chat = [{"role": "user", "content": "a" * number}]
        _, said = ask(port, "chat/completions", model="smollm2", messages=chat, max_tokens=1, temperature=0)
        first = said["choices"][0]["message"]["content"]
        if first.isalnum() and first.isascii():
            return chat, first
    raise SystemExit("no chat is answered with a letter")


def ends(port, folder):
    chat, letter = find_chat(port)
    with open(folder + "/chat.json", "w", encoding="utf-8") as out:
        json.dump(chat, out)
    template = GOLDEN["templates"]["smollm2"]
    for name, token in (("string", letter), ("content", {"content": letter}), ("map", None)):
        os.mkdir(folder + "/" + name)
        put(folder + "/" + name, template, "config")
        with open(folder + "/" + name + "/tokenizer_config.json", "w", encoding="utf-8") as out:
            json.dump({"chat_template": template} | ({"eos_token": token} if token else {}), out)
    with open(folder + "/map/special_tokens_map.json", "w", encoding="utf-8") as out:
        json.dump({"eos_token": letter}, out)


def ended(port, folder):
    with open(folder + "/chat.json", encoding="utf-8") as file:
        chat = json.load(file)
    for name in ("string", "content", "map"):
        _, said = ask(port, "chat/completions", model=name, messages=chat, max_tokens=8, temperature=0)
        choice = said["choices"][0]
        check("a turn ends at the tokenizer's eos_token: " + name, choice["finish_reason"] == "stop" and
              choice["message"]["content"] == "" and said["usage"]["completion_tokens"] == 1)


{"make": make, "test": test, "ends": ends, "ended": ended}[sys.argv[1]](*sys.argv[2:])
