"""Renders the templates of jinja.json again with transformers and jinja2, and writes the results into it:
    python3 tests/golden/make_jinja.py
The file has conversations ("cases") and templates with the results of each, and short templates ("snippets"), rendered
with "variables" and the first case. A result of null is an error. To add a template, add it with null results."""
import datetime
import json
import os

os.environ["TZ"] = "UTC"
import transformers.utils.chat_template_utils as templates  # noqa: E402

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jinja.json")
NOW = 1753000000


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(NOW)


def render(template, case, variables):
    """The text that apply_chat_template gives, or None."""
    try:
        messages = templates._normalize_chat_messages(case["messages"])
        return templates.render_jinja_template(
            [messages], tools=case.get("tools"), documents=case.get("documents"), chat_template=template,
            continue_final_message=case.get("continue_final_message", False),
            add_generation_prompt=case.get("add_generation_prompt", False),
            **variables | case.get("variables", {}))[0][0]
    except Exception:
        return None


def main():
    templates.datetime = Clock
    with open(FILE, encoding="utf-8") as file:
        data = json.load(file)
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    for entry in data["templates"]:
        entry["rendered"] = [render(entry["template"], case, tokens) for case in data["cases"]]
    data["snippets"] = [[text, render(text, data["cases"][0], tokens | data["variables"])] for text, _ in data["snippets"]]
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump(data, file, ensure_ascii=False, indent=0)
        file.write("\n")


main()
