"""Published clients against a tfm serve: LibreTranslate's (libretranslatepy), OpenAI's (openai), and schemathesis,
which generates requests from /openapi.json and checks the answers against it.
    python3 tests/serve/clients.py PORT TEXT WANT DECODER EMBEDDER
DECODER and EMBEDDER are model names. Ends with a line of counts; clients that are not installed are skipped."""
import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
import urllib.request

port, text, want, decoder, embedder = sys.argv[1:6]
counts = {"passed": 0, "failed": 0, "skipped": 0}


def check(name, good):
    counts["passed" if good else "failed"] += 1
    print(("ok - " if good else "not ok - ") + name)


def there(package):
    if importlib.util.find_spec(package):
        return True
    counts["skipped"] += 1
    print("%s is not installed: skipped" % package)
    return False


def libretranslate():
    from libretranslatepy import LibreTranslateAPI
    api = LibreTranslateAPI("http://127.0.0.1:%s/" % port)
    check("libretranslatepy: translate", api.translate(text, "de", "en") == want)
    check("libretranslatepy: detect", api.detect("Das ist ein ganz gewöhnlicher deutscher Satz.")[0]["language"] == "de")
    check("libretranslatepy: languages", {"de", "en"} <= {language["code"] for language in api.languages()})


def openai():
    import openai
    client = openai.OpenAI(base_url="http://127.0.0.1:%s/v1" % port, api_key="none", max_retries=0)
    check("openai: models", {decoder, embedder} <= {model.id for model in client.models.list()})
    plain = client.embeddings.create(model=embedder, input=["a dog", "a cat"], encoding_format="float")
    packed = client.embeddings.create(model=embedder, input=["a dog", "a cat"]) # requests base64
    check("openai: vectors", all(abs(a - b) < 1e-6 for p, q in zip(plain.data, packed.data)
                                 for a, b in zip(p.embedding, q.embedding, strict=True)) and len(plain.data) == 2)
    ask = {"model": decoder, "prompt": "w10 w11 w12", "max_tokens": 12, "temperature": 0}
    whole = client.completions.create(**ask)
    check("openai: a text", bool(whole.choices[0].text) and whole.usage.completion_tokens == 12)
    pieces = [event.choices[0].text for event in client.completions.create(stream=True, **ask)]
    check("openai: a stream of it", "".join(pieces) == whole.choices[0].text and len(pieces) > 2)
    chat = {"model": decoder, "messages": [{"role": "user", "content": "w20"}], "max_tokens": 6, "temperature": 0}
    said = client.chat.completions.create(**chat).choices[0].message.content
    pieces = [event.choices[0].delta.content or "" for event in client.chat.completions.create(stream=True, **chat)]
    check("openai: a chat, and a stream of it", bool(said) and "".join(pieces) == said)
    chat = {"model": decoder, "input": "w20", "max_output_tokens": 6, "temperature": 0}
    answer = client.responses.create(**chat)
    check("openai: a response has the text of the chat", answer.output_text == said and answer.status == "incomplete"
          and answer.incomplete_details.reason == "max_output_tokens" and answer.usage.output_tokens == 6)
    with client.responses.stream(**chat) as stream:
        events = list(stream)
        pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
        check("openai: a stream of a response", len(pieces) > 2 and "".join(pieces) == said
              and events[-1].type == "response.incomplete" and events[-1].response.output_text == said)
    try:
        client.responses.create(previous_response_id="resp_1", **chat)
        check("openai: a response after another is refused by name", False)
    except openai.BadRequestError as error:
        check("openai: a response after another is refused by name", error.param == "previous_response_id")
    try:
        client.completions.create(model="nobody", prompt="a")
        check("openai: an error", False)
    except openai.NotFoundError as error:
        check("openai: an error", "nobody" in str(error))

    async def many():
        several = openai.AsyncOpenAI(base_url="http://127.0.0.1:%s/v1" % port, api_key="none", max_retries=0)
        got = await asyncio.gather(*(several.completions.create(**ask) for _ in range(16)))
        return all(one.choices[0].text == whole.choices[0].text for one in got)
    check("openai: sixteen at a time", asyncio.run(many()))


def known(description):
    """The OpenAPI description limited to the served models and languages, which random texts rarely match."""
    for path, operations in description["paths"].items():
        for media in operations.get("post", {}).get("requestBody", {}).get("content", {}).values():
            fields = media["schema"]["properties"]
            for name, values in (("model", [embedder if "embed" in path else decoder]), ("source", ["de", "auto"]),
                                 ("target", ["en"])):
                if name in fields:
                    null = [None] if "null" in fields[name].get("type", "") else []
                    fields[name] = {"enum": values + null}
            if "max_tokens" in fields:
                fields["max_tokens"]["maximum"] = 64  # --max-new-tokens
    return description


def schemathesis():
    at = "http://127.0.0.1:%s" % port
    with urllib.request.urlopen(at + "/openapi.json") as answer:
        description = json.load(answer)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(known(description), file)
        file.flush()
        made_by_schemathesis("answers are as /openapi.json says", at + "/openapi.json")
        made_by_schemathesis("and so are those of what is served", file.name, "--url", at)


def made_by_schemathesis(name, *of):
    run = subprocess.run([sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run", *of,
                          "--max-examples", "60", "--seed", "1", "--phases", "examples,coverage,fuzzing",
                          "--exclude-checks", "positive_data_acceptance"], capture_output=True, text=True, check=False)
    check("schemathesis: " + name, run.returncode == 0)
    print("# " + "\n# ".join((run.stdout + run.stderr).strip().split("\n")[-80 if run.returncode else -6:]))


for name, run in (("libretranslatepy", libretranslate), ("openai", openai), ("schemathesis", schemathesis)):
    if there(name):
        run()
print("%(passed)d passed, %(failed)d failed, %(skipped)d skipped" % counts)
raise SystemExit(1 if counts["failed"] else 0)
