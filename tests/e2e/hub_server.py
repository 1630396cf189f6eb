"""A Hugging Face hub on the loopback interface, with a second server for the content of large files, as the hub has. Faults
of both servers are set per file, so that tests can break downloads in every way."""

import contextlib
import functools
import hashlib
import http.server
import json
import re
import ssl
import threading
import time
import urllib.parse

LFS_BYTES = 100_000  # files of at least this size are on the content server


@functools.cache  # for every request, which would otherwise hash large files again
def sha256(content):
    return hashlib.sha256(content).hexdigest()


@functools.cache
def git_hash(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Repo:
    def __init__(self, files, private=False, gated=False):
        self.private = private
        self.gated = gated
        self.files = {}
        self.revisions = {}  # commit or branch: files
        self.commit = None
        self.update(files)

    def update(self, files, branch="main"):
        """A new commit with these files."""
        self.commit = hashlib.sha1(repr(sorted((k, hashlib.sha1(v).hexdigest()) for k, v in files.items())).encode()).hexdigest()
        self.files = dict(files)
        self.revisions[self.commit] = self.revisions[branch] = (self.commit, self.files)


class Fault:
    """Misbehavior of the content server (or, for small files, of the hub) for one file."""

    def __init__(self, *, break_after=None, times=1, status=None, ignore_ranges=False, content=None, delay=0.0,
                 hold_from=None, stall=False, total=None, shift=0, retry_after=None):
        self.break_after = break_after  # closes the connection after this number of bytes of the body; 0 = after the head
        self.times = times  # number of requests that are affected
        self.status = status
        self.ignore_ranges = ignore_ranges
        self.content = content  # sent instead of the file
        self.delay = delay  # seconds before each 64 KiB
        self.hold_from = hold_from  # what is at or after this offset of the file is not sent until this is None
        self.stall = stall  # sends nothing after break_after bytes
        self.total = total  # total size in Content-Range
        self.shift = shift  # added to the range
        self.lock = threading.Lock()

    def take(self):
        with self.lock:
            if self.times == 0:
                return False
            self.times -= 1
            return True


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *arguments):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, TimeoutError, ssl.SSLError):
            pass

    @property
    def hub(self):
        return self.server.hub

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if "Content-Length" not in (headers or {}):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer_json(self, value, status=200, headers=None):
        self.answer(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def drop(self):
        self.wfile.flush()
        self.close_connection = True
        self.connection.close()

    def answer_content(self, content, headers, fault=None):
        """The content or the requested range of it, with a fault if there is one."""
        fault = fault if fault and fault.take() else None
        if fault and fault.status:
            return self.answer(fault.status, b"fault")
        if fault and fault.content is not None:
            content = fault.content
        size = len(content)
        begin, end, status = 0, size, 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and not (fault and fault.ignore_ranges):
            begin = int(asked[1])
            end = min(size, int(asked[2]) + 1) if asked[2] else size
            status = 206
            if begin >= size:
                return self.answer(416, b"")
            if fault:
                begin += fault.shift
            total = fault.total if fault and fault.total else size
            headers = {**headers, "Content-Range": f"bytes {begin}-{end - 1}/{total}"}
        body = content[begin:end]
        self.send_response(status)
        for name, value in {**headers, "Accept-Ranges": "bytes", "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        limit = len(body) if not fault or fault.break_after is None else min(fault.break_after, len(body))
        with self.hub.sending():
            return self.send_body(body, begin, limit, fault)

    def send_body(self, body, begin, limit, fault):
        for at in range(0, limit, 65536):
            if fault and fault.delay:
                time.sleep(fault.delay)
            while fault and fault.hold_from is not None and begin + at >= fault.hold_from and not self.hub.stalled.is_set():
                time.sleep(0.01)
            piece = body[at:min(at + 65536, limit)]
            self.wfile.write(piece)
            self.hub.count_bytes(len(piece))
        if limit < len(body):
            if fault.stall:
                self.wfile.flush()
                self.hub.stalled.wait()
            self.drop()


class HubHandler(Handler):
    """The API and the small files."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.hub.requests.append((self.command, self.path, dict(self.headers)))
        url = urllib.parse.urlsplit(self.path)
        path = urllib.parse.unquote(url.path)
        query = urllib.parse.parse_qs(url.query)
        for pattern, responses in self.hub.hub_faults.items():
            if re.search(pattern, path) and responses:
                fault = responses.pop(0)
                if fault == "drop":
                    return self.drop()
                return self.answer(fault, b"", {"Location": self.path} if fault == 302 else None)
        if path == "/api/models":
            words = query.get("search", [""])[0].lower()
            found = [{"id": name} for name, repo in self.hub.repos.items() if words in name.lower() and not repo.private]
            return self.answer_json(found)
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/(.+))?", path)
        if api:
            return self.answer_api(api[1], api[2], api[3] or "main")
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        if file:
            return self.answer_file(file[1], file[2], file[3])
        return self.answer(404)

    def find(self, name, revision, content=False):
        """(commit, files), or None after an error response."""
        moved = self.hub.moved.get(name)
        if moved:
            self.answer(307, b"", {"Location": self.path.replace(name, moved, 1)})
            return None
        authorization = self.headers.get("Authorization")
        allowed = authorization == f"Bearer {self.hub.token}"
        if authorization and not allowed:
            self.answer_json({"error": "Invalid username or password."}, 401, {"X-Error-Message": "Invalid credentials in Authorization header"})
            return None
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not allowed):
            status = 404 if allowed else 401
            self.answer_json({"error": "Repository not found"}, status, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
            return None
        if repo.gated and content and not (allowed and self.hub.licence_accepted):
            status = 403 if allowed else 401
            self.answer_json({"error": "gated"}, status, {"X-Error-Code": "GatedRepo", "X-Error-Message": f"Access to model {name} is restricted."})
            return None
        if revision not in repo.revisions:
            self.answer_json({"error": f"Invalid rev id: {revision}"}, 404, {"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
            return None
        return repo.revisions[revision]

    def answer_api(self, name, kind, revision):
        found = self.find(name, revision)
        if not found:
            return None
        commit, files = found
        if kind == "tree":
            tree = []
            for path, content in files.items():
                entry = {"type": "file", "oid": git_hash(content), "size": len(content), "path": path}
                if len(content) >= LFS_BYTES:
                    entry["lfs"] = {"oid": sha256(content), "size": len(content), "pointerSize": 134}
                tree.append(entry)
            return self.answer_json(tree)
        siblings = []
        for path, content in files.items():
            entry = {"rfilename": path, "size": len(content), "blobId": git_hash(content)}
            if len(content) >= LFS_BYTES:
                entry["lfs"] = {"sha256": sha256(content), "size": len(content), "pointerSize": 134}
            siblings.append(entry)
        siblings += [{"rfilename": unsafe} for unsafe in self.hub.unsafe_names]
        return self.answer_json({"id": name, "modelId": name, "sha": commit, "private": False, "gated": False, "tags": [],
                                 "downloads": 0, "likes": 0, "siblings": siblings})

    def answer_file(self, name, revision, path):
        found = self.find(name, revision, content=True)
        if not found:
            return None
        commit, files = found
        if path not in files:
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound", "X-Error-Message": "Entry not found"})
        content = files[path]
        headers = {"X-Repo-Commit": commit}
        if len(content) >= LFS_BYTES:
            digest = sha256(content)
            etag = self.hub.etags.get(path, f'"{digest}"')
            with self.hub.lock:
                self.hub.signature += 1
                signature = self.hub.signature
            where = self.hub.redirects.get(path, f"{self.hub.content_url}/content/{digest}/{path}?signature={signature}")
            return self.answer(302, b"", {**headers, "X-Linked-Etag": etag, "X-Linked-Size": str(len(content)), "Location": where})
        etag = self.hub.etags.get(path, f'"{git_hash(content)}"')
        return self.answer_content(content, {**headers, "ETag": etag}, self.hub.faults.get(path))


class ContentHandler(Handler):
    """The content of large files. Signed addresses expire after hub.signature_uses requests."""

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.hub.content_requests.append((self.command, self.path, dict(self.headers)))
        url = urllib.parse.urlsplit(self.path)
        _, _, digest, path = urllib.parse.unquote(url.path).split("/", 3)
        with self.hub.lock:
            used = self.hub.used.get(url.query, 0) + 1
            self.hub.used[url.query] = used
        if self.hub.signature_uses and used > self.hub.signature_uses:
            return self.answer(403, b"expired")
        for repo in self.hub.repos.values():
            for _, files in repo.revisions.values():
                content = files.get(path)
                if content is not None and sha256(content) == digest:
                    return self.answer_content(content, {"ETag": f'"{digest}"'}, self.hub.faults.get(path))
        return self.answer(404)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass


class Hub:
    def __init__(self, certificate=None):
        self.repos = {}
        self.moved = {}  # old name: new name
        self.token = "hf_secret"
        self.licence_accepted = False
        self.faults = {}  # file: Fault
        self.hub_faults = {}  # pattern of a path on the hub: list of statuses, or "drop", of the next requests
        self.etags = {}  # file: ETag instead of the hash
        self.redirects = {}  # file: Location instead of the content server's
        self.unsafe_names = []
        self.signature_uses = 0  # 0 = addresses do not expire
        self.requests = []
        self.content_requests = []
        self.used = {}
        self.signature = 0
        self.bytes_sent = 0
        self.num_sending = 0  # bodies that are being sent
        self.lock = threading.Lock()
        self.stalled = threading.Event()  # set at the end, so that stalled responses end
        scheme = "https" if certificate else "http"
        self.servers = []
        for handler in (HubHandler, ContentHandler):
            server = Server(("127.0.0.1", 0), handler)
            server.hub = self
            if certificate:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*certificate)
                server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            self.servers.append(server)
        self.url, self.content_url = (f"{scheme}://127.0.0.1:{server.server_port}" for server in self.servers)

    @contextlib.contextmanager
    def sending(self):
        with self.lock:
            self.num_sending += 1
        try:
            yield
        finally:
            with self.lock:
                self.num_sending -= 1

    def count_bytes(self, number):
        with self.lock:
            self.bytes_sent += number

    def add(self, name, files, **options):
        self.repos[name] = Repo(files, **options)
        return self.repos[name]

    def fetched(self):
        """Paths of the files whose content was requested."""
        paths = [urllib.parse.urlsplit(path).path for command, path, _ in self.requests + self.content_requests if command == "GET"]
        return {re.sub(r"^/content/[^/]+/|^/[^/]+/[^/]+/resolve/[^/]+/", "", path) for path in paths if not path.startswith("/api")}

    def close(self):
        self.stalled.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()
