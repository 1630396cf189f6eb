"""Checks of the packages, the service and the container that need root: in a Debian 12 system of their own, or with a container
tool. check_packages.py runs them."""

import concurrent.futures
import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE_IMAGE = "debian:12-slim"  # of packaging/Dockerfile
IMAGE = "quire-check"
MAX_IMAGE_BYTES = 80_000_000
GENERATE = ["generate", "--prompt", "Once upon a time", "--max-tokens", "16", "--kv-cache-memory", "64MiB"]


def output_of(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


@contextlib.contextmanager
def proc_in(directory):
    """Mounts /proc in a directory, as in a container."""
    output_of("mount", "-t", "proc", "proc", directory / "proc")
    try:
        yield
    finally:
        output_of("umount", directory / "proc")


def wait_for(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"no {what} within {seconds} s"
        time.sleep(0.2)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def health(port):
    """The status of /health, or 0 if nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def completion(port, max_tokens=8):
    """Returns the number of generated tokens."""
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": max_tokens, "ignore_eos": True}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)["usage"]["completion_tokens"]


def make_root(directory):
    if not (directory / "etc").exists():
        output_of("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,ca-certificates", "bookworm", directory)


def package(build, pattern):
    return next((build / "packages").glob(pattern))


def copy_deb(build, directory):
    """Copies the .deb to /tmp of a new system in a directory."""
    make_root(directory)
    shutil.copy(package(build, "quire_*.deb"), directory / "tmp" / "quire.deb")


def use_program(inside):
    """Runs the program with the prefix `inside` of all commands: a completion, and a server with `quire top`."""
    assert output_of(*inside, "quire", "--version").startswith("quire ")
    assert output_of(*inside, "quire", *GENERATE).startswith("Once upon a time")
    port = free_port()
    command = [str(word) for word in [*inside, "quire", "serve", "--port", port, "--kv-cache-memory", "64MiB"]]
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: health(port) == 200 or server.poll() is not None, "server")
        assert completion(port) == 8
        output_of(*inside, "quire", "top", "--once", "--interval", "100ms", f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        status = server.wait(60)
    assert status == 0, f"the server ended with status {status}"


def check_deb(build, directory):
    """Installs the .deb with dpkg, uses it, and removes it."""
    copy_deb(build, directory)
    inside = ["chroot", directory]
    with proc_in(directory):
        output_of(*inside, "dpkg", "-i", "/tmp/quire.deb")
        use_program(inside)
        output_of(*inside, "dpkg", "-r", "quire")
    assert not (directory / "usr/bin/quire").exists()
    return "installed, generated text, served, removed"


def check_rpm(build, directory):
    """Installs the .rpm with rpm, uses it, and removes it. The system has no packages that rpm knows, so the dependencies are
    compared with what rpm finds in its C library."""
    if not shutil.which("rpm"):
        return None
    make_root(directory)
    rpm_file = package(build, "quire-[0-9]*.rpm")
    libraries = [path for name in ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2") for path in directory.glob(f"lib/x86_64-linux-gnu/{name}")]
    provided = set(output_of("/usr/lib/rpm/find-provides", input="\n".join(map(str, libraries))).split("\n"))
    # ld-linux-x86-64.so.2 is found as a file, not as a provided name.
    needed = {line.strip() for line in output_of("rpm", "-qRp", rpm_file).splitlines()}
    missing = {name for name in needed - provided if ".so" in name and not name.startswith("ld-linux")}
    assert len([name for name in needed if ".so" in name]) > 2 and not missing, f"the C library of Debian 12 does not have {sorted(missing)}"
    output_of("rpm", "--root", directory, "--initdb")
    output_of("rpm", "--root", directory, "-i", "--nodeps", rpm_file)
    try:
        output_of("rpm", "--root", directory, "-V", "--nodeps", "quire")
        with proc_in(directory):
            use_program(["chroot", directory])
    finally:
        output_of("rpm", "--root", directory, "-e", "quire")
    assert not (directory / "usr/bin/quire").exists()
    return "installed, verified, generated text, served, removed"


@contextlib.contextmanager
def booted(directory):
    """Starts systemd in a directory and yields the prefix of commands that run there. The network is that of this machine."""
    command = ["systemd-nspawn", "--quiet", f"--directory={directory}", "--register=no", "--keep-unit", "--boot", "--console=pipe"]
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def leader():
            children = pathlib.Path(f"/proc/{machine.pid}/task/{machine.pid}/children").read_text().split()
            return children[0] if children else None

        inside = ["nsenter", "-t", wait_for(leader, "process 1"), "-m", "-p", "-u", "-i", "-n", "-r", "-w"]

        def running():
            state = subprocess.run([*inside, "systemctl", "is-system-running"], capture_output=True, text=True).stdout.strip()
            return state in ("running", "degraded")

        wait_for(running, "started system", 60)
        yield inside
    finally:
        machine.terminate()
        machine.wait(60)


def check_service(build, directory):
    """Starts quire.service under systemd with the installed .deb: sandbox, restart after a crash, and stop."""
    if not shutil.which("systemd-nspawn"):
        return None
    copy_deb(build, directory)
    port = free_port()
    with proc_in(directory):
        output_of("chroot", directory, "dpkg", "-i", "/tmp/quire.deb")
    try:
        with booted(directory) as inside:
            # The commands of docs/packages.md, with another port.
            output_of(*inside, "install", "-D", "-m", "600", "/usr/share/doc/quire/examples/quire.env", "/etc/quire/quire.env")
            output_of(*inside, "sed", "-i", f"s/--port 8000/--port {port} --kv-cache-memory 64MiB/", "/etc/quire/quire.env")
            output_of(*inside, "systemctl", "enable", "--now", "quire")
            wait_for(lambda: health(port) == 200, "service")
            first = check_sandbox(inside)
            assert completion(port) == 8
            output_of(*inside, "systemctl", "kill", "--signal=KILL", "quire")
            wait_for(lambda: health(port) == 200 and show(inside, "MainPID") not in ("0", first), "restart after a crash")
            with concurrent.futures.ThreadPoolExecutor() as pool:
                answer = pool.submit(completion, port, 900)
                time.sleep(0.1)
                output_of(*inside, "systemctl", "stop", "quire")
                assert answer.result() == 900, "a running request was not finished"
            assert health(port) == 0
            assert (show(inside, "Result"), show(inside, "ExecMainStatus")) == ("success", "0"), output_of(*inside, "systemctl", "status", "quire")
            output_of(*inside, "systemctl", "disable", "quire")
    finally:
        with proc_in(directory):
            output_of("chroot", directory, "dpkg", "-P", "quire")
        # After a failed check, the next one begins without them.
        (directory / "etc/quire/quire.env").unlink(missing_ok=True)
        (directory / "etc/systemd/system/multi-user.target.wants/quire.service").unlink(missing_ok=True)
    return "served as a dynamic user, restarted after SIGKILL, finished a request at the stop"


def show(inside, name):
    return output_of(*inside, "systemctl", "show", "--value", f"--property={name}", "quire").strip()


def check_sandbox(inside):
    """Checks the user, the capabilities and the file system of the service; returns its process id."""
    pid = show(inside, "MainPID")
    status = dict(line.split(":\t", 1) for line in output_of(*inside, "cat", f"/proc/{pid}/status").splitlines())
    users = set(status["Uid"].split())
    assert len(users) == 1 and 61184 <= int(users.pop()) <= 65519, f"not a dynamic user: {status['Uid']}"
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0, "the service has capabilities"
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"), "no system call filter"
    mount = [*inside, "nsenter", "-t", pid, "-m"]
    for path in ("/usr", "/etc", "/home", "/var/lib", "/"):
        written = subprocess.run([*mount, "touch", f"{path}/quire-was-here"], capture_output=True, text=True)
        assert "Read-only file system" in written.stderr, f"{path} can be written"
    output_of(*mount, "touch", "/var/lib/quire/written")
    assert not output_of(*mount, "find", "/dev", "-type", "b"), "block devices are visible"
    return pid


class Docker:
    def has_image(self, image):
        return subprocess.run(["docker", "image", "inspect", image], capture_output=True).returncode == 0

    def import_image(self, tar, image):
        output_of("docker", "import", tar, image)

    def build(self, _ccache):
        output_of("docker", "build", "--network", "host", "-f", ROOT / "packaging" / "Dockerfile", "-t", IMAGE, ROOT)

    def config(self):
        return json.loads(output_of("docker", "image", "inspect", IMAGE))[0]["Config"]

    def size(self):
        return int(output_of("docker", "image", "inspect", "--format", "{{.Size}}", IMAGE))

    def run(self, *arguments):
        return output_of("docker", "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL", IMAGE, *arguments)

    @contextlib.contextmanager
    def server(self, config):
        """Runs the default command; yields a function that runs the health check."""
        container = output_of("docker", "run", "-d", "--network", "none", "--read-only", "--cap-drop", "ALL", IMAGE).strip()
        try:
            yield lambda: subprocess.run(["docker", "exec", container, *config["Healthcheck"]["Test"][1:]], capture_output=True).returncode == 0
            output_of("docker", "stop", "-t", "45", container)
            status = output_of("docker", "inspect", "--format", "{{.State.ExitCode}}", container).strip()
            assert status == "0", f"the server ended with status {status}"
        finally:
            output_of("docker", "rm", "-f", "-v", container)

    def remove(self, image):
        output_of("docker", "rmi", "-f", image)


class Buildah:
    """buildah in chroot isolation, which needs no container runtime and no network of its own."""

    isolation = ["--isolation", "chroot"]

    def has_image(self, image):
        return subprocess.run(["buildah", "inspect", "--type", "image", image], capture_output=True).returncode == 0

    def import_image(self, tar, image):
        container = output_of("buildah", "from", "scratch").strip()
        output_of("buildah", "add", container, tar, "/")
        output_of("buildah", "commit", "--rm", container, image)

    def build(self, ccache):
        volume = ["-v", f"{ccache}:/root/.cache/ccache"] if ccache else []
        output_of("buildah", "bud", *self.isolation, "--layers", "--format", "docker", *volume, "-f", ROOT / "packaging" / "Dockerfile", "-t", IMAGE, ROOT)

    def config(self):
        return json.loads(output_of("buildah", "inspect", "--type", "image", IMAGE))["Docker"]["config"]

    @contextlib.contextmanager
    def container(self):
        name = output_of("buildah", "from", IMAGE).strip()
        try:
            yield name
        finally:
            output_of("buildah", "rm", name)

    def size(self):
        with self.container() as container:
            directory = pathlib.Path(output_of("buildah", "mount", container).strip())
            return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file() and not path.is_symlink())

    def run(self, *arguments):
        with self.container() as container:
            return output_of("buildah", "run", *self.isolation, container, "--", "/usr/bin/quire", *arguments)

    @contextlib.contextmanager
    def server(self, config):
        port = free_port()
        with self.container() as container:
            inside = ["buildah", "run", *self.isolation, container, "--"]
            command = [*inside, *config["Entrypoint"], *config["Cmd"], "--port", str(port), "--kv-cache-memory", "64MiB"]
            server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                yield lambda: subprocess.run([*inside, *config["Healthcheck"]["Test"][1:], f"http://127.0.0.1:{port}"], capture_output=True).returncode == 0
            finally:
                server.terminate()
                server.wait(60)

    def remove(self, image):
        output_of("buildah", "rmi", "-f", image)


def make_base_image(tool, build):
    """An image under the name that the Dockerfile begins with, from Debian's packages instead of a registry."""
    directory = build / "packages" / "base"
    if not (directory / "etc").exists():
        output_of("debootstrap", "--variant=minbase", "bookworm", directory)
    with tempfile.TemporaryDirectory() as temporary:
        tar = pathlib.Path(temporary) / "base.tar"
        output_of("tar", "-C", directory, "-cf", tar, ".")
        tool.import_image(tar, BASE_IMAGE)


def check_container(build, name, own_base, ccache):
    """Builds packaging/Dockerfile and runs the image."""
    if not shutil.which(name):
        return None
    tool = Buildah() if name == "buildah" else Docker()
    if own_base and not tool.has_image(BASE_IMAGE):
        make_base_image(tool, build)
    tool.build(ccache)
    try:
        config = tool.config()
        assert config["User"] == "65532:65532" and config["Entrypoint"] == ["/usr/bin/quire"], config
        size = tool.size()
        assert size < MAX_IMAGE_BYTES, f"the image has {size} bytes"
        assert re.match(r"quire \d", tool.run("--version"))
        assert tool.run(*GENERATE).startswith("Once upon a time")
        with tool.server(config) as healthy:
            wait_for(healthy, "healthy container")
    finally:
        tool.remove(IMAGE)
    return f"built, {size / 1e6:.1f} MB, generated text, served, healthy"
