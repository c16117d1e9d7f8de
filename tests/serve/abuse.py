"""Malformed requests to a tfm serve: fuzzed HTTP and JSON, oversized bodies, invalid UTF-8, deep JSON, path traversal,
wrong keys, disconnecting clients. Each must get a status of 400 to 499, or have its connection closed; after each
hundred a valid request must get its translation.
    python3 tests/serve/abuse.py PORT COUNT KEY TEXT WANT [SEED]
Ends with a line of counts; exits with 1 after a failure."""
import json
import random
import socket
import sys

port, count, key, text, want = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5]
seed = int(sys.argv[6]) if len(sys.argv) > 6 else 1
rng = random.Random(seed)
PATHS = ["/translate", "/detect", "/v1/embeddings", "/v1/completions", "/v1/chat/completions"]
GOOD = {"q": text, "source": "de", "target": "en", "api_key": key}
TRICKS = ["/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "/translate/",
          "/translate/..", "/\\..\\..\\etc\\passwd", "/%00", "/translate%00", "/proc/self/environ", "/page.html",
          "/openapi.json/..", "/" + "a" * 4000, "/?file=/etc/passwd&x", "/./languages", "/%ff%fe", "/.git/config"]


def request(method, path, body=b"", kind="application/json", more=b"", length=None):
    head = "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n" % (
        method, path, kind, len(body) if length is None else length)
    return head.encode("latin-1") + more + b"\r\n" + body


def send(data, hang_up=False):
    """The status (0 if the connection was closed without one), and the body."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        try:
            for at in range(0, len(data), 1 << 16):
                s.sendall(data[at:at + (1 << 16)])
            if hang_up:
                return 0, b""
            answer = b""
            while piece := s.recv(1 << 16):
                answer += piece
                if b"\r\n\r\n" in answer and answer.startswith(b"HTTP/1.1 100"):
                    answer = answer.split(b"\r\n\r\n", 1)[1]
        except TimeoutError:
            return -2, b"" # a hang is an error
        except ConnectionError:
            return 0, b""
    head, _, body = answer.partition(b"\r\n\r\n")
    parts = head.split(b" ", 2)
    return (int(parts[1]) if len(parts) > 1 and parts[1].isdigit() else 0), body


def broken_json():
    data = bytearray(json.dumps(GOOD).encode())
    for _ in range(rng.randint(1, 6)):
        what, at = rng.randrange(3), rng.randrange(len(data))
        if what == 0:
            data[at] = rng.randrange(256)
        elif what == 1:
            del data[at:at + rng.randint(1, 9)]
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
        if not data:
            data = bytearray(b"{")
    return request("POST", rng.choice(PATHS), bytes(data)), range(200, 500)


def wrong_types():
    values = [None, 1, -1, 1e308, True, [], {}, [[]], [None], "", " ", "\u0001", "x" * 300, 2**53, [1, 2], {"q": "q"}, "auto"]
    body = dict(GOOD)
    for name in rng.sample(["q", "source", "target", "format", "alternatives", "alignments", "layer", "head", "model",
                            "input", "prompt", "messages", "n", "stop", "max_tokens", "temperature", "stream"], 3):
        body[name] = rng.choice(values)
    return request("POST", rng.choice(PATHS), json.dumps(body).encode()), range(200, 500)


def wrong_utf8():
    bad = rng.choice([b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80"])
    if rng.random() < 0.5:
        return request("POST", "/translate", b'{"q":"a' + bad + b'","source":"de","target":"en","api_key":"%s"}'
                       % key.encode()), range(400, 401)
    coded = b"".join(b"%%%02x" % c for c in bad)
    return request("POST", "/translate", b"q=a" + coded + b"&source=de&target=en&api_key=" + key.encode(),
                   "application/x-www-form-urlencoded"), range(400, 401)


def deep():
    depth = rng.choice([100, 3000, 20000])
    opener, closer = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    inner = opener * depth + b"1" + closer * depth
    return request("POST", rng.choice(PATHS), b'{"q":' + inner + b"}"), range(400, 500)


def large():
    if rng.random() < 0.7:
        return request("POST", "/translate", b"{", length=rng.choice([10**9, 2**40, 2**63, 2**64 - 1, 10**30])), range(400, 500)
    body = json.dumps(dict(GOOD, q="a " * 60000)).encode()
    return request("POST", "/translate", body), range(400, 500)


def wrong_key():
    guess = rng.choice(["", key[:-1], key + "x", key.upper() + "Y", "x" * 5000, "\u00e9" * 20, "'; --"])
    body = dict(GOOD)
    del body["api_key"]
    if rng.random() < 0.5:
        return request("POST", "/translate", json.dumps(dict(body, api_key=guess)).encode()), range(400, 404)
    return request("POST", "/translate", json.dumps(body).encode(),
                   more=b"Authorization: Bearer " + guess.encode()[:3000] + b"\r\n"), range(400, 404)


def path_tricks():
    path = rng.choice(TRICKS)
    return request(rng.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "FOO"]), path), range(200, 502)


def broken_http():
    data = bytearray(request("POST", "/translate", json.dumps(GOOD).encode()))
    for _ in range(rng.randint(1, 8)):
        at = rng.randrange(min(len(data), 160))
        data[at:at + rng.randrange(3)] = bytes(rng.randrange(256) for _ in range(rng.randrange(4)))
    return bytes(data[:rng.randint(1, len(data))]), None


def broken_form():
    kinds = ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "multipart/form-data", "text/plain", ""]
    body = rng.choice([b"q=%zz&source=%", b"=&=&=", b"q", b"--x\r\nContent-Disposition: form-data; name=q\r\n\r\na",
                       b"--x\r\n\r\n--x--", b"&".join(b"f%d=1" % i for i in range(100)), b"q=%00&source=de&target=en"])
    return request("POST", rng.choice(PATHS), body, rng.choice(kinds)), range(400, 500)


def chunked():
    body = rng.choice([b"zz\r\n", b"-1\r\n", b"ffffffffffffffffff\r\nab", b"5\r\nab\r\n0\r\n\r\n", b"0\r\n\r\n"])
    return (b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + body), None


def leaves():
    return request("POST", "/translate", json.dumps(dict(GOOD, q=(text + "\n") * rng.randint(1, 20))).encode()), "hang up"


def good():
    status, body = send(request("POST", "/translate", json.dumps(GOOD).encode()))
    return status == 200 and json.loads(body).get("translatedText") == want


KINDS = [broken_json, wrong_types, wrong_utf8, deep, large, wrong_key, path_tricks, broken_http, broken_form, chunked, leaves]
wrong, statuses = [], {}
for number in range(count):
    kind = KINDS[number % len(KINDS)]
    data, right = kind()
    if right is None or right == "hang up": # the client closes incomplete requests, so that neither side waits
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as s:
                s.sendall(data)
                if rng.random() < 0.2 and right is None:
                    s.shutdown(socket.SHUT_WR)
                    s.recv(1)
        except OSError:
            pass
        status = -1
    else:
        status, body = send(data)
        if (status not in right and not (status == 0 and kind in (large, path_tricks))) or b"root:" in body:
            wrong.append("%s: %d: %r" % (kind.__name__, status, data[:200]))
    statuses[status] = statuses.get(status, 0) + 1
    if number % 100 == 99 and not good():
        wrong.append("after %d requests a good one failed" % (number + 1))
        break
if not good():
    wrong.append("at the end a good request failed")
for line in wrong[:10]:
    print("# " + line)
print(json.dumps({"requests": count, "seed": seed, "wrong": len(wrong),
                  "statuses": {str(k): v for k, v in sorted(statuses.items())}}))
raise SystemExit(1 if wrong else 0)
