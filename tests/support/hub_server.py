"""A server that behaves like the Hugging Face hub, for tests.

    hub_server.py ROOT          prints "HUB_PORT FILES_PORT", and serves until standard input ends

ROOT/ORG/NAME/REVISION/ is a repository; a `.commit` file there names the commit of a revision, else it is a hash of the
revision's name and files. Large files (LFS) are redirected to the second port. ROOT/log gets a line for each request:
port, method, path, "token" or "-", Range or "-".

ROOT/faults has lines KIND TIMES PATTERN [VALUE]; each is applied to the first TIMES requests whose path has PATTERN:
    status   answers with the HTTP status VALUE
    wait     answers 429 with Retry-After: VALUE
    break    closes the connection after VALUE bytes of the body
    wrong    sends another first byte
    whole    ignores Range
    slow     sends VALUE bytes in a second
    html     answers with a web page
    body     answers with VALUE as JSON
    link     adds VALUE to the list of files of the API
    next     names VALUE as the next page of the list of files
"""
import hashlib
import json
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlsplit

ROOT = os.path.abspath(sys.argv[1])
LARGE = ('.safetensors', '.bin', '.gguf', '.model', '.spm')
PAGE = 4
lock = threading.Lock()
used = {}


def fault(path):
    """The kind and value of the next fault of a path, or (None, None)."""
    with lock:
        try:
            with open(os.path.join(ROOT, 'faults'), encoding='utf-8') as file:
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None, None
        for line in lines:
            kind, times, pattern, *value = line.split(' ', 3)
            if pattern in path and used.get(line, 0) < int(times):
                used[line] = used.get(line, 0) + 1
                return kind, value[0] if value else None
    return None, None


class Repository:
    """One revision of a model."""

    def __init__(self, name, revision):
        self.folder = None
        base = os.path.join(ROOT, *name.split('/'))
        self.known = '/' in name and os.path.isdir(base)
        for one in sorted(os.listdir(base)) if self.known else ():
            folder = os.path.join(base, one)
            if revision in (one, self.commit_of(folder)):
                self.folder, self.commit = folder, self.commit_of(folder)

    @staticmethod
    def files_of(folder):
        found = []
        for where, _, names in os.walk(folder):
            found += [os.path.relpath(os.path.join(where, name), folder) for name in names if name != '.commit']
        return sorted(found)

    @staticmethod
    def commit_of(folder):
        given = os.path.join(folder, '.commit')
        if os.path.exists(given):
            with open(given, encoding='utf-8') as file:
                return file.read().strip()
        total = hashlib.sha1(folder.encode())
        for name in Repository.files_of(folder):
            total.update(name.encode() + content(os.path.join(folder, name)))
        return total.hexdigest()

    def entry(self, path):
        data = content(os.path.join(self.folder, path))
        blob = hashlib.sha1(b'blob %d\0' % len(data) + data).hexdigest()
        one = {'type': 'file', 'oid': blob, 'size': len(data), 'path': path}
        if path.endswith(LARGE):
            one['lfs'] = {'oid': hashlib.sha256(data).hexdigest(), 'size': len(data), 'pointerSize': 130}
        return one


def content(path):
    with open(path, 'rb') as file:
        return file.read()


class Handler(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        url = urlsplit(self.path)
        token = self.headers.get('Authorization')
        with lock, open(os.path.join(ROOT, 'log'), 'a', encoding='utf-8') as file:
            print(self.server.kind, self.command, unquote(url.path), 'token' if token else '-',
                  self.headers.get('Range', '-'), file=file)
        self.kind, self.value = fault(self.server.kind + unquote(url.path))
        if self.kind == 'status':
            return self.answer(int(self.value), b'')
        if self.kind == 'wait':
            return self.answer(429, b'', {'Retry-After': self.value})
        if self.kind == 'html':
            return self.answer(200, b'<!doctype html><p>Sign in to this network</p>')
        if self.kind == 'body':
            return self.answer(200, self.value.encode())
        if self.server.kind == 'files':
            return self.large(unquote(url.path)[1:])
        parts = [unquote(part) for part in url.path.split('/')[1:]]
        api = parts[:2] == ['api', 'models']
        parts = parts[2:] if api else parts
        if len(parts) < 2:
            return self.answer(404, b'')
        if parts[0] == 'renamed':
            return self.answer(307, b'', {'Location': self.path.replace('/renamed/', '/acme/')})
        self.token = token
        return self.api('/'.join(parts[:2]), parts[2:], parse_qs(url.query)) if api else self.resolve(parts)

    def refuse(self, name, repository):
        """Answers for a missing or gated model; whether it did."""
        if not repository.known:
            self.answer(404 if self.token else 401, b'{"error":"Repository not found"}',
                        {'X-Error-Code': 'RepoNotFound'})
        elif not repository.folder:
            self.answer(404, b'{"error":"Invalid rev id"}', {'X-Error-Code': 'RevisionNotFound'})
        elif name.startswith('gated/') and self.token != 'Bearer good':
            self.answer(403 if self.token else 401, b'{"error":"gated"}', {'X-Error-Code': 'GatedRepo'})
        else:
            return False
        return True

    def api(self, name, rest, query):
        revision = rest[1] if len(rest) > 1 else 'main'
        repository = Repository(name, revision)
        if self.refuse(name, repository):
            return None
        files = [repository.entry(path) for path in Repository.files_of(repository.folder)]
        if not rest or rest[0] == 'revision':
            siblings = [{'rfilename': one['path']} for one in files]
            if self.kind == 'link':
                siblings.append({'rfilename': self.value})
            return self.answer(200, json.dumps({'id': name, 'modelId': name, 'sha': repository.commit, 'private': False,
                                                'tags': [], 'siblings': siblings}).encode())
        at = int(query.get('cursor', ['0'])[0])
        more = {}
        if at + PAGE < len(files):
            more['Link'] = '<http://%s%s?recursive=true&cursor=%d>; rel="next"' % (
                self.headers['Host'], quote(urlsplit(self.path).path), at + PAGE)
        if self.kind == 'next':
            more['Link'] = '<%s>; rel="next"' % self.value
        page = files[at:at + PAGE]
        if self.kind == 'link':
            page = page + [{'type': 'file', 'oid': 'a' * 40, 'size': 1, 'path': self.value}]
        return self.answer(200, json.dumps(page).encode(), more)

    def resolve(self, parts):
        name, path = '/'.join(parts[:2]), '/'.join(parts[4:])
        repository = Repository(name, parts[3] if len(parts) > 3 else 'main')
        if self.refuse(name, repository):
            return None
        if path not in Repository.files_of(repository.folder):
            return self.answer(404, b'', {'X-Error-Code': 'EntryNotFound'})
        one = repository.entry(path)
        headers = {'X-Repo-Commit': repository.commit}
        if 'lfs' in one:
            return self.answer(302, b'', {**headers, 'X-Linked-Size': str(one['size']), 'ETag': '"other"',
                                          'X-Linked-Etag': '"%s"' % one['lfs']['oid'],
                                          'Location': 'http://127.0.0.1:%d/%s' % (
                                              files.server_port, quote(os.path.relpath(os.path.join(repository.folder, path), ROOT)))})
        return self.answer(200, content(os.path.join(repository.folder, path)),
                           {**headers, 'ETag': '"%s"' % one['oid']})

    def large(self, path):
        data = content(os.path.join(ROOT, path))
        wanted = self.headers.get('Range', '')
        if wanted.startswith('bytes=') and self.kind != 'whole':
            first = int(wanted[6:].split('-')[0])
            if first >= len(data):
                return self.answer(416, b'', {'Content-Range': 'bytes */%d' % len(data)})
            return self.answer(206, data[first:],
                               {'Content-Range': 'bytes %d-%d/%d' % (first, len(data) - 1, len(data))})
        return self.answer(200, data)

    def answer(self, status, body, headers=None):
        if self.kind == 'wrong' and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command == 'HEAD':
            return
        if self.kind == 'break':
            body = body[:int(self.value)]
            self.close_connection = True
        step = int(self.value) // 20 + 1 if self.kind == 'slow' else len(body) + 1
        for at in range(0, len(body), step):
            self.wfile.write(body[at:at + step])
            if self.kind == 'slow':
                self.wfile.flush()
                time.sleep(0.05)
        if self.kind == 'break':
            self.connection.close()


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, kind):
        super().__init__(('127.0.0.1', 0), Handler)
        self.kind = kind
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a client that closes a connection


hub, files = Server('hub'), Server('files')
print(hub.server_port, files.server_port, flush=True)
sys.stdin.read()
