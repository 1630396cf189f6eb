"""Models by name: one cache with huggingface_hub in both directions, TLS, and proxies."""

import hashlib
import http.client
import http.server
import json
import pathlib
import select
import socket
import subprocess
import sys
import threading
import urllib.parse

import pytest
from hub_fixtures import hub, place  # noqa: F401
from hub_place import CHUNK, NEEDED, Workplace, assert_complete, big_files, tiny_files, wait_for_download
from hub_server import Fault, Hub
from server_process import BINARY
from terminal import Terminal
from waiting import HANG_S


def python(place, code, **environment):
    """Runs Python code with huggingface_hub in the environment of the place and returns what it prints as JSON."""
    run = subprocess.run([sys.executable, "-c", code], env={**place.environment, "HF_HUB_DISABLE_XET": "1", **environment},
                         capture_output=True, text=True, timeout=HANG_S)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


# huggingface_hub


SNAPSHOT = "import json, huggingface_hub; print(json.dumps(huggingface_hub.snapshot_download('org/tiny')))"


def test_huggingface_hub_accepts_the_test_hub(place, hub):
    files = big_files()
    hub.add("org/tiny", files)
    assert_complete(pathlib.Path(python(place, SNAPSHOT)), files)


def test_quire_finds_what_huggingface_hub_downloaded(place, hub):
    files = {**tiny_files(), "README.md": b"text", "vocab.json": b"{}"}
    hub.add("org/tiny", files)
    snapshot = python(place, SNAPSHOT)
    hub.requests.clear()
    run = place.quire("generate", "org/tiny", "--prompt", "Once upon a time", "--max-tokens", 4)
    assert run.returncode == 0, run.stderr
    assert hub.requests == []
    hub.content_requests.clear()
    assert str(place.pull()) == snapshot
    assert hub.content_requests == []
    assert json.loads(place.quire("list", "--json").stdout)[0]["revisions"] == ["main"]


def test_a_partial_snapshot_of_huggingface_hub_is_completed(place, hub):
    files = tiny_files()
    hub.add("org/tiny", files)
    python(place, "import json, huggingface_hub as h; print(json.dumps(h.hf_hub_download('org/tiny', 'config.json')))")
    run = place.quire("generate", "org/tiny", "--prompt", "Once upon a time", "--max-tokens", 4)
    assert run.returncode == 0, run.stderr
    assert_complete(place.cache / "models--org--tiny" / "snapshots" / hub.repos["org/tiny"].commit, files)


def test_huggingface_hub_finds_what_quire_downloaded(place, hub):
    files = tiny_files()
    hub.add("org/tiny", files)
    snapshot = place.pull()
    hub.requests.clear()
    code = ("import json, huggingface_hub as h; "
            f"print(json.dumps([h.hf_hub_download('org/tiny', f, local_files_only=True) for f in {NEEDED!r}]))")
    assert python(place, code) == [str(snapshot / name) for name in NEEDED]
    assert not [path for _, path, _ in hub.requests if "org/tiny" in path]
    # With a network: nothing large is fetched again.
    hub.content_requests.clear()
    assert python(place, SNAPSHOT) == str(snapshot)
    assert hub.content_requests == []
    scan = ("import json, huggingface_hub as h; info = h.scan_cache_dir(); "
            "print(json.dumps([[r.repo_id, r.size_on_disk, sorted(r.refs)] for r in info.repos] + [[str(w) for w in info.warnings]]))")
    assert python(place, scan) == [["org/tiny", sum(map(len, files.values())), ["main"]], []]


def lock_of(place, content):
    return place.cache / ".locks" / "models--org--tiny" / (hashlib.sha256(content).hexdigest() + ".lock")


def test_quire_waits_for_the_lock_of_huggingface_hub(place, hub):
    files = big_files()
    hub.add("org/tiny", files)
    lock = lock_of(place, files["model.safetensors"])
    code = ("import sys, pathlib; from huggingface_hub.utils import WeakFileLock; p = pathlib.Path(sys.argv[1]); "
            "p.parent.mkdir(parents=True)\nwith WeakFileLock(p):\n print('locked', flush=True); sys.stdin.read()")
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], env=place.environment, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout.readline() == "locked\n"
        terminal = Terminal([str(BINARY), "pull", "org/tiny"], columns=100, environment=place.environment)
        terminal.wait_for("waiting for another process")
        assert hub.bytes_sent < 2 << 20  # small files and the header of the weights
        owner.stdin.close()
    assert terminal.wait_for_end() == 0
    assert_complete(place.cache / "models--org--tiny" / "snapshots" / hub.repos["org/tiny"].commit, files)


def test_huggingface_hub_waits_for_the_lock_of_quire(place, hub):
    files = big_files()
    hub.add("org/tiny", files)
    hub.faults["model.safetensors"] = held = Fault(hold_from=CHUNK, times=1000)
    process = place.start("pull", "org/tiny")
    wait_for_download(place, files["model.safetensors"], process)
    code = ("import filelock\nfrom huggingface_hub.utils import WeakFileLock\n"
            f"try:\n with WeakFileLock({str(lock_of(place, files['model.safetensors']))!r}, timeout=0.5): print('true')\n"
            "except filelock.Timeout: print('false')")
    assert python(place, code) is False
    held.times, held.hold_from = 0, None
    output, errors = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, errors
    assert python(place, code) is True


# TLS


def make_certificate(path, names):
    """(certificate, key) for these names."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test hub", "-addext",
                    f"subjectAltName={names}", "-keyout", path / "key.pem", "-out", path / "cert.pem"],
                   check=True, capture_output=True)
    return path / "cert.pem", path / "key.pem"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1,DNS:localhost")


@pytest.fixture
def secure(tmp_path, certificate):
    server = Hub(certificate)
    yield Workplace(tmp_path, server)
    server.close()


def test_https_with_a_trusted_certificate(secure, certificate):
    files = big_files()
    secure.hub.add("org/tiny", files, private=True)
    assert_complete(secure.pull(SSL_CERT_FILE=str(certificate[0]), HF_TOKEN=secure.hub.token), files)
    assert not any("Authorization" in headers for _, _, headers in secure.hub.content_requests)


def test_https_checks_the_certificate(secure):
    secure.hub.add("org/tiny", tiny_files())
    message = secure.fails("pull", "org/tiny")
    assert "certificate is not trusted" in message and "SSL_CERT_FILE" in message
    assert "cannot read certificates" in secure.fails("pull", "org/tiny", SSL_CERT_FILE="/nowhere.pem")
    assert secure.hub.requests == []


def test_https_checks_the_host_name(tmp_path):
    certificate = make_certificate(tmp_path, "DNS:localhost,IP:127.0.0.2")
    hub = Hub(certificate)
    place = Workplace(tmp_path, hub)
    hub.add("org/tiny", tiny_files())
    trusted = {"SSL_CERT_FILE": str(certificate[0])}
    assert "certificate is not trusted" in place.fails("pull", "org/tiny", **trusted)
    assert hub.requests == []
    place.fails("pull", "org/tiny", HF_ENDPOINT=hub.url.replace("127.0.0.1", "localhost"), **trusted)
    assert hub.requests  # the hub accepts this name, the content server's address does not
    hub.close()


def test_https_is_not_left_by_a_redirect(secure, certificate):
    secure.hub.add("org/tiny", tiny_files())
    secure.hub.redirects["model.safetensors"] = "http://127.0.0.1:9/x"
    assert "unencrypted" in secure.fails("pull", "org/tiny", SSL_CERT_FILE=str(certificate[0]))


# Proxies


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def allowed(self):
        self.server.seen.append((self.command, self.path, self.headers.get("Proxy-Authorization")))
        if self.server.password and self.headers.get("Proxy-Authorization") != self.server.password:
            self.send_response(407)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False
        return True

    def do_CONNECT(self):
        if not self.allowed():
            return
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as server:
            self.send_response(200)
            self.end_headers()
            self.wfile.flush()
            while True:
                readable, _, _ = select.select([self.connection, server], [], [], 10)
                for end in readable:
                    data = end.recv(65536)
                    if not data:
                        self.close_connection = True
                        return
                    (server if end is self.connection else self.connection).sendall(data)
                if not readable:
                    return

    def do_GET(self):
        if not self.allowed():
            return
        url = urllib.parse.urlsplit(self.path)
        assert url.scheme == "http", self.path
        connection = http.client.HTTPConnection(url.hostname, url.port)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("proxy-authorization", "connection")}
        connection.request(self.command, self.path.split(url.netloc, 1)[1], headers=headers)
        response = connection.getresponse()
        body = response.read()
        self.send_response(response.status)
        for name, value in response.getheaders():
            if name.lower() != "transfer-encoding":
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        connection.close()

    do_HEAD = do_GET


@pytest.fixture
def proxy():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ProxyHandler)
    server.daemon_threads = True
    server.seen = []
    server.password = None
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.handle_error = lambda *arguments: None
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_http_goes_through_the_proxy(place, hub, proxy):
    files = tiny_files()
    hub.add("org/tiny", files)
    assert_complete(place.pull(HTTP_PROXY=proxy.url), files)
    assert {path.split("/")[2] for _, path, _ in proxy.seen} == {hub.url[7:], hub.content_url[7:]}


def test_https_goes_through_a_tunnel(secure, certificate, proxy):
    files = tiny_files()
    secure.hub.add("org/tiny", files)
    proxy.password = "Basic dXNlcjpwYSBzcw=="  # user:pa ss
    address = proxy.url.replace("://", "://user:pa%20ss@")
    assert_complete(secure.pull(HTTPS_PROXY=address, SSL_CERT_FILE=str(certificate[0])), files)
    assert {command for command, _, _ in proxy.seen} == {"CONNECT"}
    other = proxy.url.replace("://", "://user:wrong@")
    assert "status 407" in secure.fails("pull", "org/tiny", HTTPS_PROXY=other, SSL_CERT_FILE=str(certificate[0]))


def test_no_proxy_connects_directly(place, hub, proxy):
    hub.add("org/tiny", tiny_files())
    place.pull(HTTP_PROXY=proxy.url, NO_PROXY="example.org,127.0.0.1")
    assert proxy.seen == []


def test_an_unsupported_proxy_is_an_error(place, hub):
    hub.add("org/tiny", tiny_files())
    assert "NO_PROXY" in place.fails("pull", "org/tiny", HTTP_PROXY="socks5://127.0.0.1:1")
