"""The page of tfm serve in a browser without a screen: types, waits, reads, looks at the attention, by keys alone, and has
axe look for what somebody could not read or reach; in a wide and a narrow window, light and dark.
    python3 tests/serve/page.py PORT TEXT WANT [FOLDER]     FOLDER gets pictures
It takes PyPI's playwright and axe-core-python, and Debian's chromium. Ends with a line of counts."""
import importlib.util
import shutil
import sys
import time

port, text, want = sys.argv[1:4]
folder = sys.argv[4] if len(sys.argv) > 4 else None
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
    """Until it is true; wait_for_function would not do, since the page's policy lets nothing be evaluated."""
    end = time.monotonic() + 60
    while not page.evaluate(what):
        if time.monotonic() > end:
            raise SystemExit("in a minute it did not come true: " + what)
        time.sleep(0.05)


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
    for _ in range(40): # to a word of the translation by keys alone
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('token')"):
            break
    colours = page.eval_on_selector_all("#source-words .token", "all => all.map(e => e.style.backgroundColor)")
    check(name + ": a word that has the focus colours those it looked at", len(set(colours)) > 1, colours)
    check(name + ": the picture has a square for each pair", page.locator("#picture rect").count() > 20)
    check(name + ": nothing is wider than the window", page.evaluate("document.documentElement.scrollWidth") <= width)
    look(page, name)
    page.fill("#head", "1000")
    page.keyboard.press("Tab")
    wait(page, "document.querySelector('#problem').textContent !== ''")
    check(name + ": what the server refuses is said", "head" in page.text_content("#problem"), page.text_content("#problem"))
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
