"""A Hugging Face hub on loopback that can misbehave. Python's standard library only.

    with Hub() as hub:          hub.endpoint, hub.requests, hub.repos["org/name"] = Repo(...)
    lookalike.py [PORT]         serves the same names until it is stopped; the port is on standard output

A repository answers as the hub does (X-Repo-Commit, X-Error-Code, ETag, RateLimit) unless it is named "fault/..." : then the
function of that name below answers. GET /-/requests is what has been asked so far, as JSON.
"""
import contextlib
import gzip
import hashlib
import http.server
import json
import re
import socket
import ssl
import sys
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "89abcdef0123456789abcdef0123456789abcdef"
CONFIG = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2}


class Repo:
    def __init__(self, config=None, commit=COMMIT, gated=False, private=False, allowed=(), parameters=1000, revisions=("main",), files=(),
                 has_config=True, delay=0, api_delay=0, library=None, card=None, moved=None, disabled=False, dtypes=None, status=200, code=None):
        self.text = config if isinstance(config, bytes) else json.dumps(config or CONFIG).encode()
        self.commit, self.gated, self.private, self.allowed = commit, gated, private, set(allowed)
        self.dtypes = dtypes or {"BF16": parameters}
        self.revisions, self.files, self.has_config = set(revisions), list(files), has_config
        self.delay, self.api_delay, self.library, self.card = delay, api_delay, library, card
        self.moved, self.disabled, self.status = moved, disabled, status
        self.code = code or {}  # files that the config names: {"modeling_x.py": text, bytes, or a function of the handler}
        self.next_commit = None  # what the API says already, when a branch moves between two requests

    @property
    def etag(self):
        return hashlib.sha1(b"blob %d\0" % len(self.text) + self.text).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, body=b"", headers=None, length=None, commit=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if commit:
            self.send_header("X-Repo-Commit", commit)
        if not any(h.lower() == "ratelimit" for h in headers or {}):
            self.send_header("RateLimit", self.hub.rate)
        if status != 304:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def error(self, status, code=None, message=None, commit=None, headers=None):
        h = dict(headers or {})
        if code:
            h["X-Error-Code"] = code
        if message:
            h["X-Error-Message"] = message
        self.send(status, json.dumps({"error": message or "no"}).encode(), h, commit=commit)

    def cut(self):
        self.wfile.flush()
        self.close_connection = True
        self.connection.close()

    @property
    def token(self):
        found = re.fullmatch(r"Bearer (.*)", self.headers.get("Authorization", ""))
        return found and found.group(1)

    def config(self, repo=None, **more):
        repo = repo or Repo()
        self.send(200, repo.text, {"ETag": '"%s"' % repo.etag, "Content-Type": "text/plain", **more}, commit=repo.commit)

    # --- a repository as it should be --------------------------------------------------------------------------------------------

    def refused(self, repo, api):
        if self.token == "bad":
            self.error(401, None, "Invalid credentials in Authorization header")
        elif repo is None or (repo.private and self.token not in repo.allowed):
            if self.token:
                self.error(404, "RepoNotFound", "Repository not found")
            else:
                self.error(401, "RepoNotFound" if not api else None, "Invalid username or password.")
        elif repo.disabled:
            self.error(403, None, "Access to this resource is disabled.")
        elif repo.gated and not api and self.token not in repo.allowed:
            self.error(403 if self.token else 401, "GatedRepo", "Access to model is restricted.")
        else:
            return False
        return True

    def serve_config(self, name, revision):
        repo = self.hub.repos.get(name)
        if repo:
            time.sleep(repo.delay)
        if self.refused(repo, False):
            return
        if repo.status != 200:
            self.error(repo.status)
        elif repo.moved:
            self.send(307, b"", {"Location": "/%s/resolve/%s/config.json" % (repo.moved, urllib.parse.quote(revision, safe=""))})
        elif revision not in repo.revisions and revision != repo.commit:
            self.error(404, "RevisionNotFound", "Invalid rev id: " + revision)
        elif not repo.has_config:
            self.error(404, "EntryNotFound", "Entry not found", commit=repo.commit)
        elif self.headers.get("If-None-Match") == '"%s"' % repo.etag:
            self.send(304, b"", {"ETag": '"%s"' % repo.etag}, commit=repo.commit)
        else:
            self.config(repo)

    def serve_code(self, name, revision, file):
        repo = self.hub.repos.get(name)
        if repo:
            time.sleep(repo.delay)
        if self.refused(repo, False):
            return
        text = repo.code.get(file)
        if revision not in repo.revisions and revision != repo.commit:
            self.error(404, "RevisionNotFound", "Invalid rev id: " + revision)
        elif text is None:
            self.error(404, "EntryNotFound", "Entry not found", commit=repo.commit)
        elif callable(text):
            text(self)
        else:
            text = text if isinstance(text, bytes) else text.encode()
            self.send(200, text, {"ETag": '"%s"' % hashlib.sha1(text).hexdigest(), "Content-Type": "text/plain"}, commit=repo.commit)

    def serve_facts(self, name, revision):
        repo = self.hub.repos.get(name)
        if repo:
            time.sleep(repo.api_delay)
        if self.refused(repo, True):
            return
        sha = repo.next_commit if repo.next_commit and revision in repo.revisions else repo.commit
        facts = {"id": name, "sha": sha, "gated": repo.gated, "private": repo.private, "library_name": repo.library, "cardData": repo.card,
                 "siblings": [{"rfilename": f} for f in repo.files]}
        if repo.dtypes:
            facts["safetensors"] = {"parameters": repo.dtypes, "total": sum(repo.dtypes.values())}
        self.send(200, json.dumps(facts).encode(), {"Content-Type": "application/json"})

    def do_CONNECT(self):
        self.path = "CONNECT " + self.path
        self.hub.note(self)
        self.error(502)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/-/requests":
            self.send(200, json.dumps(self.hub.requests).encode())
            return
        self.hub.note(self)
        found = re.fullmatch(r"(?:/mirror)?/((?:[^/]+/)?[^/]+)/resolve/([^/]+)/([^/]+\.(?:json|py))", path)
        api = re.fullmatch(r"(?:/mirror)?/api/models/((?:[^/]+/)?[^/]+)/revision/([^/]+)", path)
        name = (found or api).group(1) if found or api else None
        fault = name and name.startswith("fault/") and getattr(self, name[6:].replace("-", "_"), None)
        try:
            if fault and found:
                fault(path, query)
            elif fault:
                self.error(404, "RepoNotFound")
            elif found and found.group(3) != "config.json":
                self.serve_code(name, urllib.parse.unquote(found.group(2)), found.group(3))
            elif found:
                self.serve_config(name, urllib.parse.unquote(found.group(2)))
            elif api:
                self.serve_facts(name, urllib.parse.unquote(api.group(2)))
            else:
                self.elsewhere(path, query)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    # --- where redirects lead ------------------------------------------------------------------------------------------------------

    def elsewhere(self, path, query):
        if path.startswith("/cdn/"):
            self.send(200, Repo().text, {"ETag": '"cdn"'})
        elif path.startswith("/back/"):
            self.send(302, b"", {"Location": self.hub.endpoint + "/api/resolve-cache/x?keep=me%2Fup"})
        elif path == "/api/resolve-cache/x" and query == "keep=me%2Fup":
            self.config()
        else:
            self.error(404, "EntryNotFound", "the query string was lost" if "resolve-cache" in path else None)

    # --- fault/... -------------------------------------------------------------------------------------------------------------------

    def relative(self, path, query):
        self.send(307, b"", {"Location": "/api/resolve-cache/x?keep=me%2Fup"}, commit=COMMIT)

    def cross_host(self, path, query):
        self.send(302, b"", {"Location": self.hub.cdn + "/cdn/config.json?sig=1", "X-Linked-Etag": '"linked"'}, commit=COMMIT)

    def and_back(self, path, query):
        self.send(302, b"", {"Location": self.hub.cdn + "/back/"}, commit=COMMIT)

    def other_port(self, path, query):
        self.send(302, b"", {"Location": "http://127.0.0.1:%d/cdn/x" % self.hub.other_port}, commit=COMMIT)

    def loop(self, path, query):
        self.send(307, b"", {"Location": path}, commit=COMMIT)

    def to_file(self, path, query):
        self.send(302, b"", {"Location": "file:///etc/passwd"}, commit=COMMIT)

    def to_gopher(self, path, query):
        self.send(302, b"", {"Location": "gopher://127.0.0.1:%d/_x" % self.hub.cdn_port}, commit=COMMIT)

    def to_user(self, path, query):
        self.send(302, b"", {"Location": "http://me:secret@127.0.0.2:%d/cdn/x" % self.hub.cdn_port}, commit=COMMIT)

    def to_inside(self, path, query):
        self.send(302, b"", {"Location": "http://169.254.169.254/latest/meta-data"}, commit=COMMIT)

    def to_port(self, path, query):
        self.send(302, b"", {"Location": "https://huggingface.co:22/"}, commit=COMMIT)

    def to_nowhere(self, path, query):
        self.send(302, b"", commit=COMMIT)

    def no_commit(self, path, query):
        self.send(200, Repo().text)

    def bad_commit(self, path, query):
        self.send(200, Repo().text, commit="main")

    def two_commits(self, path, query):
        self.send(200, Repo().text, {"X-Repo-Commit": OTHER}, commit=COMMIT)

    def gzipped(self, path, query):
        assert "gzip" in self.headers.get("Accept-Encoding", "")
        self.send(200, gzip.compress(Repo().text), {"Content-Encoding": "gzip", "ETag": 'W/"packed"'}, commit=COMMIT)

    def gzip_truncated(self, path, query):
        packed = gzip.compress(json.dumps({"x": [str(i * 7919) for i in range(2000)]}).encode())
        self.send(200, packed[:len(packed) // 2], {"Content-Encoding": "gzip"}, commit=COMMIT)

    def gzip_broken(self, path, query):
        self.send(200, b"no gzip at all", {"Content-Encoding": "gzip"}, commit=COMMIT)

    def bomb(self, path, query):
        self.send(200, gzip.compress(b" " * (200 << 20), 1), {"Content-Encoding": "gzip"}, commit=COMMIT)

    def huge(self, path, query):
        self.send(200, b"", length=100 << 20, commit=COMMIT)
        for _ in range(1600):
            self.wfile.write(b" " * 65536)

    def endless(self, path, query):
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        while True:
            self.wfile.write(b" " * 65536)

    def endless_headers(self, path, query):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            self.wfile.write(b"X-A: %s\r\n" % (b"a" * 8000))

    def drip(self, path, query):
        self.send(200, b"", length=10000, commit=COMMIT)
        for _ in range(300):
            self.wfile.write(b" ")
            time.sleep(0.1)

    def short(self, path, query):
        self.send(200, Repo().text, length=10000, commit=COMMIT)
        self.cut()

    def cut_header(self, path, query):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Repo-Com")
        self.cut()

    def cut_once(self, path, query):
        if self.hub.count(path) == 1:
            self.cut_header(path, query)
        else:
            self.config()

    def not_http(self, path, query):
        self.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        self.cut()

    def limited(self, path, query):
        self.error(429, headers={"RateLimit": '"resolvers";r=0;t=7', "Retry-After": "99"})

    def limited_later(self, path, query):
        self.error(429, headers={"RateLimit": '"resolvers";r=55;t=7', "Retry-After": "42"})

    def limited_mutely(self, path, query):
        self.error(429, headers={"RateLimit": "nonsense"})

    def nearly_limited(self, path, query):
        self.config(None, RateLimit='"resolvers";r=1;t=77')

    def proxy(self, path, query):
        self.send(502, b"<html><h1>502 Bad Gateway</h1></html>", {"Content-Type": "text/html"})

    def portal(self, path, query):
        self.send(200, b"<!DOCTYPE html><html>please log in</html>", {"Content-Type": "text/html"})

    def portal_with_commit(self, path, query):
        self.send(200, b" <html>please log in</html>", {"Content-Type": "text/plain"}, commit=COMMIT)

    def bom(self, path, query):
        self.config(Repo(b"\xef\xbb\xbf" + Repo().text))

    def nan(self, path, query):
        self.config(Repo(b'{"model_type": "llama", "rope": NaN, "max": Infinity, "min": -Infinity}'))

    def duplicates(self, path, query):
        self.config(Repo(b'{"model_type": "llama", "hidden_size": 1, "hidden_size": 2}'))

    def deep(self, path, query):
        self.config(Repo(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"))

    def nested(self, path, query):
        self.config(Repo({"model_type": "llava", "text_config": CONFIG}))

    def latin(self, path, query):
        self.config(Repo(b'{"model_type": "ll\xe4ma"}'))

    def a_list(self, path, query):
        self.config(Repo(b"[1]"))

    def empty(self, path, query):
        self.config(Repo(b" "))

    def forbidden(self, path, query):
        self.error(403, None, "your token lacks a scope")

    def expired(self, path, query):
        self.error(401, None, 'User Access Token "x" is expired')

    def bad_request(self, path, query):
        self.error(400, None, "unknown expand")

    def teapot(self, path, query):
        self.error(418)

    def linked(self, path, query):
        self.config(None, **{"X-Linked-Etag": '"linked"'})

    def slow(self, path, query):
        time.sleep(1.5)
        self.config()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        pass

    def get_request(self):
        got = super().get_request()
        with self.hub.lock:
            self.hub.connections += 1
            self.hub.sockets.append(got[0])
        return got


class Hub:
    def __init__(self, port=0, certificate=None):
        self.lock = threading.Lock()
        self.requests, self.connections, self.sockets = [], 0, []
        self.rate = '"resolvers";r=2999;t=300'
        self.repos = {"org/plain": Repo(), "gpt2": Repo(moved="openai-community/gpt2"), "openai-community/gpt2": Repo({"model_type": "gpt2"})}
        handler = type("HubHandler", (Handler,), {"hub": self})
        self.servers = []
        for address in ("127.0.0.1", port), ("127.0.0.2", 0), ("127.0.0.1", 0):
            server = Server(address, handler)
            server.hub = self
            if certificate:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*certificate)
                server.socket = context.wrap_socket(server.socket, server_side=True)
            self.servers.append(server)
        self.port, self.cdn_port, self.other_port = (s.server_address[1] for s in self.servers)
        self.endpoint = "http%s://127.0.0.1:%d" % ("s" if certificate else "", self.port)
        self.cdn = "http://127.0.0.2:%d" % self.cdn_port

    def note(self, handler):
        with self.lock:
            self.requests.append({"host": handler.server.server_address[0], "path": handler.path, "headers": {k.lower(): v for k, v in handler.headers.items()}})

    def count(self, path):
        with self.lock:
            return sum(r["path"].split("?")[0] == path for r in self.requests)

    def configs(self):
        """Requests for a config, without those of the API beside them."""
        with self.lock:
            return [r for r in self.requests if not r["path"].startswith("/api/models/")]

    def forget(self):
        with self.lock:
            self.requests, self.connections = [], 0

    def __enter__(self):
        for s in self.servers:
            threading.Thread(target=s.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *how):
        for s in self.servers:
            s.shutdown()
            s.server_close()
        for s in self.sockets:  # those that are kept alive
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    with Hub(int(sys.argv[1]) if len(sys.argv) > 1 else 0) as served:
        print(served.port, flush=True)
        threading.Event().wait()
