"""Requests to a tfm serve with ambiguous framing (RFC 9112, 6.1 and 6.3): each must be rejected at once, and its
connection closed; unambiguous ones are answered. Also absolute targets, and compressed bodies.
    python3 tests/serve/framing.py PORT
Ends with a line of counts; exits with 1 after a failure."""
import json
import socket
import sys
import time

BODY = b'{"q":"12","source":"de","target":"en"}'
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
REFUSED = [(LENGTH + b"Content-Length: 3\r\n", BODY), (b"Content-Length: 3\r\n" + LENGTH, BODY),
           (LENGTH + CHUNKED, CHUNKS), (CHUNKED + LENGTH, CHUNKS), (CHUNKED + CHUNKED, CHUNKS),
           (b"Content-Length : %d\r\n" % len(BODY), BODY), (LENGTH + b"Transfer-Encoding: identity\r\n", BODY)]
REFUSED += [(b"Content-Length: %s\r\n" % value, BODY) for value in
            (b"-1", b"+38", b"0x26", b"", b"many", b"38, 38", b"38, 3", b"38.0", b"38 38")]
REFUSED += [(b"Transfer-Encoding: %s\r\n" % value, CHUNKS) for value in
            (b"gzip, chunked", b"chunked, gzip", b"gzip", b"identity", b"xchunked", b"chunked, chunked", b"")]
REFUSED += [(b"Host: x\r\n" + LENGTH, BODY), (b"Transfer-Encoding:\r\n chunked\r\n", CHUNKS),
            (b"Content-Length:\r\n %d\r\n" % len(BODY), BODY), (b"Transfer-Encoding:\r\n\tgzip,\r\n chunked\r\n", CHUNKS)]
TAKEN = [(LENGTH, BODY), (CHUNKED, CHUNKS), (b"Transfer-Encoding: Chunked\r\n", CHUNKS), (LENGTH + LENGTH, BODY)]


def ask(head, body, port, target=b"/translate"):
    """The status, whether the connection was closed, and the time in seconds."""
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(b"POST " + target + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + head + b"\r\n" + body)
        try:
            answer = s.recv(1 << 16)
            seconds = time.monotonic() - start
            s.settimeout(1)
            while piece := s.recv(1 << 16):
                answer += piece
            closed = True
        except ConnectionError:
            closed = True
        except TimeoutError:
            closed = False
    return int(answer.split(b" ", 2)[1]), closed, seconds


wrong = []
ask(LENGTH, BODY, int(sys.argv[1])) # loads the model
for head, body in REFUSED:
    status, closed, seconds = ask(head, body, int(sys.argv[1]))
    if status not in (400, 501) or not closed or seconds > 5:
        wrong.append("%r: %d, %s, %.1f s" % (head, status, "closed" if closed else "open", seconds))
for head, body in TAKEN:
    status, closed, _ = ask(head, body, int(sys.argv[1]))
    if status != 200:
        wrong.append("%r: %d" % (head, status))
for target in (b"http://x/translate", b"HTTP://x:80/translate?source=de", b"/translate?source=de", b"/%74ranslate"):
    status, _, _ = ask(LENGTH, BODY, int(sys.argv[1]), target)
    if status != 200:
        wrong.append("%r: %d" % (target, status))
for coding, wanted in ((b"gzip", 415), (b"br", 415), (b"gzip, br", 415), (b"identity", 200), (b"Identity", 200)):
    status, _, _ = ask(LENGTH + b"Content-Encoding: " + coding + b"\r\n", BODY, int(sys.argv[1]))
    if status != wanted:
        wrong.append("Content-Encoding: %s: %d" % (coding.decode(), status))
for line in wrong:
    print("# " + line)
print(json.dumps({"requests": len(REFUSED) + len(TAKEN), "wrong": len(wrong)}))
raise SystemExit(1 if wrong else 0)
