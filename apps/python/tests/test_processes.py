"""Forks, pickling, interrupts and the shutdown of Python."""
from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tfm
from conftest import DEMO


def _python(code: str, *, wait: float = 120) -> subprocess.CompletedProcess[str]:
    head = f"import os, sys, tfm\nmodel = tfm.Translator({str(DEMO)!r})\nassert model.translate('Danke.')\n"
    return subprocess.run([sys.executable, "-X", "faulthandler", "-c", head + textwrap.dedent(code)], capture_output=True,
                          text=True, timeout=wait)


def test_use_after_fork_raises_and_never_hangs() -> None:
    """A driver's threads do not survive a fork: a call in the child would hang."""
    done = _python("""
        def child():
            for use in (lambda: model.translate("Hallo."), tfm.devices, tfm.Context, lambda: model.info):
                try:
                    use()
                    return 1
                except tfm.DeviceError as error:
                    assert "forked" in str(error)
            model.close()
            return 0
        pid = os.fork()
        if pid == 0:
            status = child()
            del model
            sys.exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        assert model.translate("Danke.")
        """)
    assert done.returncode == 0, done.stderr


def test_forked_child_may_use_devices_before_its_parent() -> None:
    code = textwrap.dedent(f"""
        import os, sys, tfm
        pid = os.fork()
        if pid == 0:
            sys.exit(0 if tfm.Translator({str(DEMO)!r}).translate("Danke.") else 1)
        assert os.waitpid(pid, 0)[1] == 0
        """)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_python_may_exit_during_calls() -> None:
    thread = "import threading, time; threading.Thread(target=lambda: {}, daemon=True).start(); time.sleep({})"
    for code in ("stream = model.stream('Hallo.' for _ in iter(int, 1)); next(stream)",
                 thread.format("[model.translate('Hallo.') for _ in range(20)]", 0),
                 thread.format("model.translate(['Ich lese ein Buch.'] * 5000)", 0.5)):
        done = _python(code)
        assert (done.returncode, done.stderr) == (0, "")


def test_use_in_late_atexit_handler_raises() -> None:
    """The package's shutdown is registered with its first context; handlers registered earlier run after it."""
    code = textwrap.dedent(f"""
        import atexit, tfm
        def late():
            try:
                model.translate("Hallo.")
            except tfm.ArgumentError as error:
                print(error)
        atexit.register(late)
        model = tfm.Translator({str(DEMO)!r})
        """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    message = "the context is closed because Python is shutting down: use it earlier\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, message, "")


def test_an_interrupt_stops_a_call() -> None:
    done = _python("""
        import signal, threading
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            while True:
                for _ in model.stream("Ich habe das Auto gestern verkauft." for _ in range(5000)):
                    pass
        except KeyboardInterrupt:
            print("stopped", bool(model.translate("Danke.")), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """)
    assert (done.returncode, done.stdout) == (0, "stopped True True\n"), done.stderr


def test_values_pickle_and_models_refuse(demo: tfm.Translator, context: tfm.Context) -> None:
    made = demo.translate("Danke.", return_alignments=True)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert other == made and other.score == made.score and other.tokens == made.tokens
        assert other.alignment is not None and made.alignment is not None
        assert np.array_equal(other.alignment, made.alignment)
    assert pickle.loads(pickle.dumps(demo.info)) == demo.info
    assert str(pickle.loads(pickle.dumps(tfm.InputError("line 1")))) == "line 1"
    for thing in (demo, context):
        for send in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                send(thing)
