"""tfm chat at a pseudo-terminal, with the models of chat_models.py.
    python3 tests/apps/chat_terminal.py PROGRAM MODELS
PROGRAM may be built with or without libedit. Prints lines "ok - ..." and "not ok - ..."."""
import codecs
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time

import chat_models

PROGRAM, MODELS = sys.argv[1:3]
SHOWN = chat_models.TEXT.replace("\x1b", "\ufffd")
SECONDS = 300


class Chat:
    """A session; `text` is all that the terminal has received, `read` the part that was waited for."""

    def __init__(self, model, *options):
        self.process, self.screen = pty.fork()
        if self.process == 0:
            os.environ.update(TERM="xterm", HOME=os.getcwd())
            mode = termios.tcgetattr(0)
            mode[0] |= 0o40000  # IUTF8: without libedit the terminal deletes characters, not bytes
            termios.tcsetattr(0, termios.TCSANOW, mode)
            os.execv(PROGRAM, [PROGRAM, "chat", "-m", MODELS + "/" + model, *options])
        self.text, self.read = "", 0
        self.decoder = codecs.getincrementaldecoder("utf-8")()  # fails for broken characters
        self.wait("> ")

    def more(self):
        if not select.select([self.screen], [], [], SECONDS)[0]:
            raise TimeoutError(self.text)
        try:
            got = os.read(self.screen, 4096)
        except OSError:  # the program has ended
            got = b""
        self.text += self.decoder.decode(got)
        return bool(got)

    def wait(self, end):
        """The text since the last call, up to `end`."""
        while end not in self.text[self.read:]:
            if not self.more():
                raise EOFError("no %r in %r" % (end, self.text[self.read:]))
        at = self.text.index(end, self.read) + len(end)
        part, self.read = self.text[self.read:at], at
        return part

    def type(self, text):
        os.write(self.screen, text.encode())

    def say(self, line):
        """Types a line; what is shown until the next prompt, without the echo and escape sequences."""
        self.type(line + "\r")
        self.wait("\n")
        self.read -= 1
        shown = re.sub("[^\n]*\r\x1b\\[K", "", self.wait("\n> ")[1:-3])  # progress lines
        return re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "")

    def end(self):
        self.type("\x04")
        while self.more():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def check(name, good, shown=""):
    print(("ok - " if good else "not ok - ") + name, flush=True)
    if not good:
        print("# " + repr(shown), file=sys.stderr)


def prompt_ids(messages):
    """The token ids of the rendered messages, without the program's tokenizer and template."""
    text = "".join("<|im_start|>%s\n%s<|im_end|>\n" % (m["role"], m["content"]) for m in messages) + "<|im_start|>assistant\n"
    ids, special = [], chat_models.make_bytes.SPECIAL
    for part in re.split("(<\\|[a-z_]*\\|>)", text):
        ids += [256 + special.index(part)] if part in special else [chat_models.CHARACTERS.index(byte) for byte in part.encode()]
    return " ".join(map(str, ids))


def generated(messages, most):
    """The answers of tfm generate to the messages before each answer."""
    run = subprocess.run([PROGRAM, "generate", "-m", MODELS + "/random", "--token-ids", "--max-new-tokens", str(most)] +
                         [prompt_ids(messages[:i]) for i, m in enumerate(messages) if m["role"] == "assistant"],
                         stdout=subprocess.PIPE, check=True)
    answers = []
    for line in run.stdout.decode().splitlines():
        written = [int(i) for i in line.split()]
        ends = [i for i, token in enumerate(written) if token >= 256]
        answers.append(bytes(chat_models.CHARACTERS[i] for i in written[:ends[0] if ends else None]).decode(errors="replace"))
    return answers


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def test_conversation():
    """Ten turns: each answer is that of a call without the KV cache."""
    most = 24
    chat = Chat("random", "--max-new-tokens", str(most), "--system", "Be kind.", "--stats")
    cached = []
    for turn in range(10):
        shown = chat.say("Message %d: %s" % (turn, "ä€x" * turn))
        stats = json.loads(re.search("stats (.*)", shown)[1])
        cached.append((stats["cached_tokens"], stats["prompt_tokens"]))
    chat.say("/save ten.json")
    messages = load("ten.json")
    check("chat of ten turns has their messages in order", [m["role"] for m in messages] ==
          ["system"] + 10 * ["user", "assistant"] and messages[3]["content"] == "Message 1: ä€x", messages)
    said, wanted = [m["content"] for m in messages if m["role"] == "assistant"], generated(messages, most)
    check("chat of ten turns gives the answers of tfm generate for the rendered conversation", said == wanted, (said, wanted))
    check("chat of ten turns keeps the KV cache between turns", cached[0][0] == 0 and
          all(now[0] >= before[1] for before, now in zip(cached, cached[1:])), cached)
    check("chat ends with exit code 0 after Ctrl-D", chat.end() == 0)
    return messages


def test_commands(ten):
    chat = Chat("random", "--max-new-tokens", "12", "-t", "1.5", "--seed", "3")
    shown = chat.say("/help")
    check("chat /help lists every command", all("/" + name in shown for name in
          ("system", "undo", "retry", "clear", "save", "load", "help", "exit")), shown)
    check("chat /help fits 80 columns", max(map(len, shown.split("\n"))) <= 80, shown)
    chat.say("one")
    chat.say("two")
    chat.say("/save a.json")
    chat.say("/retry")
    chat.say("/save b.json")
    first, second = load("a.json"), load("b.json")
    check("chat /retry samples another answer to the same messages", len(second) == 4 and first[:3] == second[:3] and
          first[3] != second[3], second)
    chat.say("/undo")
    chat.say("/save c.json")
    check("chat /undo removes the last message and its answer", load("c.json") == first[:2])
    chat.say("/undo")
    check("chat /undo without a turn is an error that keeps the session", "there is no turn" in chat.say("/undo"))
    check("chat /retry without an answer is an error that keeps the session", "there is no answer" in chat.say("/retry"))
    check("chat /system shows that there is none", "no system message" in chat.say("/system"))
    chat.say("/system Be brief. ")
    check("chat /system shows the message", chat.say("/system").endswith("Be brief."))
    check("chat /load continues the messages of a file", "21 messages" in chat.say("/load ten.json"))
    chat.say("more")
    chat.say("/save d.json")
    check("chat after /load answers in their context", load("d.json")[:21] == ten and len(load("d.json")) == 23)
    chat.say("/clear")
    chat.say("/save e.json")
    check("chat /clear keeps the system message only", load("e.json") == ten[:1])
    chat.say("/system \"\"")
    chat.say("/save f.json")
    check("chat /system \"\" removes the system message", load("f.json") == [])
    for text, what in (("{\"messages\": 3}", "is not a list"), ("[{\"role\": \"user\"}]", "message 1 is not"), ("[", "cannot load")):
        with open("bad.json", "w", encoding="utf-8") as out:
            out.write(text)
        shown = chat.say("/load bad.json")
        check("chat /load of %s is an error that keeps the session" % text, what in shown, shown)
    for line, what in (("/sav x", "did you mean /save?"), ("/save", "needs an argument"), ("/undo 2", "takes no argument"),
                       ("/save /nowhere/x", "cannot write"), ("/load nowhere.json", "No such file")):
        shown = chat.say(line)
        check("chat %s is an error that keeps the session" % line, what in shown, shown)
    chat.type("/exit\r")
    while chat.more():
        pass
    check("chat /exit ends the session", os.waitstatus_to_exitcode(os.waitpid(chat.process, 0)[1]) == 0)


def test_text():
    chat = Chat("says")
    shown = chat.say("hello")
    check("chat prints whole characters, and no escape sequence of the model, up to the end of the turn", shown == SHOWN, shown)
    chat.type("first\\\r")
    chat.wait("... ")
    chat.say("second \\o/")
    chat.type("\"\"\"one\r")
    chat.wait("... ")
    chat.type("\r")
    chat.wait("... ")
    chat.say("  three\"\"\" ")
    chat.say(" /undo")
    chat.say("/save text.json")
    said = [m["content"] for m in load("text.json")]
    check("chat continues a line after a backslash", said[2] == "first\nsecond \\o/", said)
    check("chat reads several lines between quotes", said[4] == "one\n\n  three", said)
    check("chat sends a message that begins with a blank and a slash", said[6] == " /undo", said)
    check("chat keeps the model's text unchanged", said[1] == chat_models.TEXT, said)
    chat.type("ab\x7fc \u00e9\u20ac\x7f")
    chat.say("")
    chat.say("/save text.json")
    said = [m["content"] for m in load("text.json")]
    check("chat edits characters of several bytes", said[8:9] == ["ac \u00e9"], said)
    chat.type("never sent\x03")
    chat.wait("> ")
    chat.say("/save text.json")
    check("chat Ctrl-C at the prompt discards the line", len(load("text.json")) == 10)
    chat.end()


def test_interrupt():
    chat = Chat("endless")
    chat.type("go\r")
    while chat.text.count("Hi") < 5:
        chat.more()
    chat.type("\x03")
    shown = chat.wait("\n> ")
    check("chat Ctrl-C stops an answer and keeps the session", "[stopped]" in shown, shown)
    chat.say("/save stopped.json")
    said = load("stopped.json")
    check("chat keeps the text of a stopped answer", len(said) == 2 and said[1]["content"].startswith(2 * chat_models.TEXT), said)
    chat.type("again\r")
    chat.wait("Hi")
    os.kill(chat.process, signal.SIGINT)
    chat.wait("[stopped]")
    chat.wait("> ")
    chat.say("/save stopped.json")
    check("chat answers after a stopped answer", len(load("stopped.json")) == 4)
    chat.type("once more\r")
    chat.wait("Hi")
    chat.type("\x13")  # Ctrl-S: the terminal takes no more
    time.sleep(0.5)
    os.kill(chat.process, signal.SIGINT)
    time.sleep(0.1)
    chat.type("\x11")
    shown = chat.wait("\n> ")
    check("chat is interrupted while it writes to the terminal", "[stopped]" in shown, shown)
    check("chat ends with exit code 0 after a stopped answer", chat.end() == 0)


def test_full_context():
    chat = Chat("says", "--ctx-size", "300", "--system", "Be kind.", "--stats")
    notes, tokens = [], []
    for turn in range(10):
        shown = chat.say("message %d %s" % (turn, 30 * "x"))
        notes += [turn] if "turn" in shown else []
        tokens.append(json.loads(re.search("stats (.*)", shown)[1])["prompt_tokens"])
    check("chat drops the oldest turns of a full context, with a line", notes and notes[0] > 1, notes)
    check("chat leaves a quarter of a full context for the answer", max(tokens) <= 225 and tokens[-1] > 80, tokens)
    chat.say("/save full.json")
    said = load("full.json")
    check("chat keeps all messages of a full context for /save", len(said) == 21 and said[0]["content"] == "Be kind.")
    shown = chat.say(400 * "y")
    check("chat refuses a message longer than the context and keeps the session", "too long" in shown, shown)
    chat.say("/save full.json")
    check("chat removes a refused message", len(load("full.json")) == 21)
    chat.end()
    chat = Chat("says", "--ctx-size", "300", "--kv-precision", "int8")
    dropped = sum("turn" in chat.say("message %d %s" % (turn, 30 * "x")) for turn in range(10))
    check("chat with an int8 KV cache drops turns of a full context and goes on", dropped > 0 and chat.end() == 0)
    chat = Chat("endless", "--ctx-size", "200")
    shown = chat.say("a")
    check("chat ends an answer at the end of the context, with a line", "[cut: the context of 200 tokens is full]" in shown, shown)
    chat.end()


def main():
    ten = test_conversation()
    test_commands(ten)
    test_text()
    test_interrupt()
    test_full_context()


started = time.time()
main()
print("# %.1f seconds" % (time.time() - started), file=sys.stderr)
