"""The web page of tfm serve in a headless browser: translation, attention by keyboard alone, model selection, text
generation and chat, and accessibility checks by axe; in a wide and a narrow window, light and dark.
    python3 tests/serve/page.py PORT TEXT WANT OTHER PROMPT WRITTEN [FOLDER]     FOLDER gets screenshots
The server translates TEXT from German to WANT, and as French to OTHER; its decoder-only model completes PROMPT with
WRITTEN. Requires PyPI's playwright and axe-core-python, and Debian's chromium. Ends with a line of counts."""
import importlib.util
import shutil
import sys
import time

port, text, want, other, prompt, written = sys.argv[1:7]
folder = sys.argv[7] if len(sys.argv) > 7 else None
chromium = shutil.which("chromium")
if not (importlib.util.find_spec("playwright") and importlib.util.find_spec("axe_core_python") and chromium):
    print("playwright, axe-core-python or chromium is not installed: skipped\n0 passed, 0 failed, 1 skipped")
    raise SystemExit(0)
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

passed = failed = 0


def check(name, good, more=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print(("ok - " if good else "not ok - ") + name + ("" if good else "\n# %s" % (more,)))


def look(page, name):
    found = Axe().run(page)["violations"]
    check(name + ": axe finds nothing", not found,
          [(v["id"], [n["html"][:120] for n in v["nodes"]][:3]) for v in found])
    if folder:
        page.screenshot(path="%s/%s.png" % (folder, name), full_page=True)


def wait(page, what):
    """Waits until it is true. The page's content security policy blocks wait_for_function."""
    end = time.monotonic() + 60
    while not page.evaluate(what):
        if time.monotonic() > end:
            raise SystemExit("in a minute it did not come true: " + what)
        time.sleep(0.05)


def change_model(page, name):
    before = page.text_content("#result")
    page.select_option("#source", "fr")
    wait(page, "document.querySelector('#result').textContent !== %r && !document.querySelector('#result.waits')" % before)
    check(name + ": another model, another translation", page.text_content("#result") == other, page.text_content("#result"))
    page.select_option("#source", "de")
    wait(page, "document.querySelector('#result').textContent !== %r && !document.querySelector('#result.waits')" % other)
    check(name + ": and back", page.text_content("#result") == want, page.text_content("#result"))


def write(page, name):
    page.focus("#tab-translate")
    page.keyboard.press("ArrowRight")
    check(name + ": an arrow leads to the other tab", page.evaluate("document.activeElement.id") == "tab-write" and
          page.is_visible("#prompt") and not page.is_visible("#text"))
    page.select_option("#way", "text")
    page.fill("#heat", "0")
    page.fill("#tokens", "12")
    page.focus("#prompt")
    page.keyboard.type(prompt)
    page.keyboard.press("Control+Enter")
    wait(page, "document.querySelector('#said').getAttribute('aria-busy') === 'false'")
    check(name + ": the completion is right", page.text_content("#said .turn span") == prompt + written,
          page.text_content("#said"))
    page.select_option("#way", "chat")
    check(name + ": a chat starts empty", page.text_content("#said") == "")
    for turns in (2, 4):
        page.fill("#prompt", "w20")
        page.focus("#prompt")
        page.keyboard.press("Control+Enter")
        page.keyboard.type("next %d" % turns)
        wait(page, "document.querySelectorAll('#said .turn').length === %d && "
                   "document.querySelector('#said').getAttribute('aria-busy') === 'false'" % turns)
    said = page.eval_on_selector_all("#said .turn span", "all => all.map(e => e.textContent)")
    check(name + ": a chat", said[0] == said[2] == "w20" and said[1] and said[3], said)
    check(name + ": input typed during an answer is kept", page.input_value("#prompt") == "next 4",
          page.input_value("#prompt"))
    check(name + ": the input is below the chat",
          page.evaluate("document.querySelector('#said').getBoundingClientRect()"
          ".bottom <= document.querySelector('#prompt').getBoundingClientRect().top"))
    look(page, name + "-chat")
    page.fill("#tokens", "1000000")
    page.fill("#prompt", "w20")
    page.click("#go")
    wait(page, "document.querySelector('#problem').textContent !== ''")
    check(name + ": what is refused is said, and is no part of the talk",
          "max_tokens" in page.text_content("#problem") and page.locator("#said .turn").count() == 4 and
          page.input_value("#prompt") == "w20")
    check(name + ": nothing that is written is wider", page.evaluate("document.documentElement.scrollWidth") <=
          page.viewport_size["width"])
    page.click("#tab-translate")
    check(name + ": the translation is still there", page.text_content("#result") == want)


def visit(browser, name, scheme, width, height):
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    said = []
    page.on("console", lambda m: said.append(m.text))
    page.on("pageerror", lambda e: said.append(str(e)))
    page.on("request", lambda r: None if r.url.startswith("http://127.0.0.1:%s/" % port) else said.append(r.url))
    page.goto("http://127.0.0.1:%s/" % port)
    wait(page, "document.querySelectorAll('#source option').length > 0")
    look(page, name + "-empty")
    check(name + ": the cursor waits in the text", page.evaluate("document.activeElement.id") == "text")
    page.keyboard.type(text, delay=5)
    wait(page, "document.querySelector('#result').textContent && !document.querySelector('#result.waits')")
    check(name + ": the translation", page.text_content("#result") == want, page.text_content("#result"))
    check(name + ": other translations", page.locator("#others li").count() >= 1)
    check(name + ": the device is named", "Runs on" in page.text_content("#device"))
    for _ in range(40): # moves to a word of the translation by keyboard
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('token')"):
            break
    colors = page.eval_on_selector_all("#source-words .token", "all => all.map(e => e.style.backgroundColor)")
    check(name + ": a word that has the focus colors those it looked at", len(set(colors)) > 1, colors)
    check(name + ": the picture has a square for each pair", page.locator("#picture rect").count() > 20)
    check(name + ": nothing is wider than the window", page.evaluate("document.documentElement.scrollWidth") <= width)
    look(page, name)
    check(name + ": the speed is that of the last request", "tokens a second" in page.text_content("#speed") and
          "second" not in page.text_content("#device"), page.text_content("footer"))
    check(name + ": no layer and no head are the last and the mean", page.eval_on_selector_all(
        "#layer, #head", "all => all.map(e => [e.value, e.placeholder].join())") == [",last", ",mean"])
    change_model(page, name)
    write(page, name)
    page.fill("#head", "1000")
    page.keyboard.press("Tab")
    wait(page, "document.querySelector('#problem').textContent !== ''")
    check(name + ": what the server refuses is said", "head" in page.text_content("#problem"), page.text_content("#problem"))
    check(name + ": and nothing is waited for any more", not page.evaluate("document.querySelector('#result').classList.contains('waits')"))
    page.fill("#text", "")
    wait(page, "document.querySelector('#result').textContent === ''")
    check(name + ": no error, nothing from outside", not [s for s in said if "400" not in s], said)
    page.close()


with sync_playwright() as p:
    browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
    visit(browser, "wide-light", "light", 1100, 800)
    visit(browser, "phone-dark", "dark", 390, 800)
    browser.close()
print("%d passed, %d failed, 0 skipped" % (passed, failed))
raise SystemExit(1 if failed else 0)
