"""The Python wheel: its content, and the package in a fresh virtual environment. QUIRE_WHEEL is the wheel."""

import email
import os
import pathlib
import re
import signal
import subprocess
import sys
import venv
import zipfile

import httpx
import pytest

WHEEL = pathlib.Path(os.environ.get("QUIRE_WHEEL", ""))
if not WHEEL.is_file():
    pytest.skip("set QUIRE_WHEEL to a wheel; ./test wheel builds one", allow_module_level=True)


def names():
    with zipfile.ZipFile(WHEEL) as archive:
        return archive.namelist()


def metadata(file):
    with zipfile.ZipFile(WHEEL) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(f".dist-info/{file}")]
        return email.message_from_bytes(archive.read(name))


def test_the_wheel_has_the_package_and_the_program():
    found = set(names())
    extension = "quire/_core.abi3.so" if sys.version_info >= (3, 12) else None
    modules = [n for n in found if re.fullmatch(r"quire/_core\..*\.?so", n)]
    assert len(modules) == 1 and extension in (None, modules[0])
    assert {"quire/__init__.py", "quire/__main__.py", "quire/_core.pyi", "quire/py.typed"} <= found
    assert any(n.endswith(".data/scripts/quire") for n in found)
    assert all(n.startswith(("quire/", "quire-")) for n in found)
    assert not [n for n in found if n.endswith((".h", ".cc", ".a", ".pyc"))]
    assert WHEEL.stat().st_size < 40e6


def test_tags_and_requirements():
    tag = metadata("WHEEL")["Tag"]
    assert re.fullmatch(r"cp3\d+-(abi3|cp3\d+)-manylinux_2_\d+_x86_64", tag)
    if sys.version_info >= (3, 12):
        assert tag.startswith("cp312-abi3-")
    required = metadata("METADATA").get_all("Requires-Dist")
    assert {re.match(r"[a-z]+", requirement)[0] for requirement in required} == {"numpy", "tqdm"}


class Environment:
    """A virtual environment with the wheel and its requirements only."""

    def __init__(self, path):
        venv.create(path, with_pip=True)
        self.bin = path / "bin"
        self.variables = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "QUIRE_BINARY", "VIRTUAL_ENV")}
        self.variables["PATH"] = f"{self.bin}:/usr/bin:/bin"
        self.run("pip", "install", "-q", "--disable-pip-version-check", WHEEL)

    def run(self, program, *arguments):
        run = subprocess.run([self.bin / program, *arguments], env=self.variables, cwd=self.bin, capture_output=True, text=True,
                             timeout=300)
        assert run.returncode == 0, run.stderr
        return run.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("wheel") / "venv")


def test_the_program_is_on_the_path(installed):
    version = metadata("METADATA")["Version"]
    assert installed.run("quire", "--version") == f"quire {version}\n"
    assert installed.run("python", "-m", "quire", "--version") == f"quire {version}\n"
    assert installed.run("python", "-c", "import quire; print(quire.__version__)") == f"{version}\n"
    assert installed.run("quire", "generate", "--prompt", "Once upon a time", "--max-tokens", "8")


def test_an_import_loads_few_modules(installed):
    """Only those of the package, of the extension and small ones of the standard library: bench/python/import_time.py measures it."""
    code = ("import sys; before = set(sys.modules); import quire; added = set(sys.modules) - before; "
            "assert not {'torch', 'transformers', 'pandas', 'numpy', 'tqdm', 'asyncio'} & added; print(*added)")
    added = installed.run("python", "-c", code).split()
    assert {"quire", "quire._core"} <= set(added)
    assert len(added) < 100, added


def test_the_embedded_model_generates(installed):
    code = ("from quire import LLM, SamplingParams\nllm = LLM(kv_cache_memory_bytes=32 << 20)\n"
            "print(llm.generate('Once upon a time', SamplingParams(temperature=0, max_tokens=8))[0].outputs[0].text)")
    assert len(installed.run("python", "-c", code).split()) >= 4


def test_python_m_quire_serves(installed):
    command = [installed.bin / "python", "-m", "quire", "serve", "--port", "0", "--kv-cache-memory", "64MiB"]
    with subprocess.Popen(command, env=installed.variables, stderr=subprocess.PIPE, text=True) as process:
        try:
            url = next(found[1] for line in process.stderr if (found := re.search(r"Listening on (http://\S+)", line)))
            body = {"prompt": "Once upon a time", "max_tokens": 4}
            response = httpx.post(f"{url}/v1/completions", json=body, timeout=60)
            assert response.json()["usage"]["completion_tokens"] == 4
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(120) == 0
        finally:
            process.kill()


def test_type_checkers_find_the_types(installed, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from quire import LLM\nreveal_type(LLM().generate('a')[0].outputs[0].text)\n")
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--python-executable", installed.bin / "python", "--cache-dir",
                          tmp_path / "cache", script], capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0 and 'Revealed type is' in run.stdout and 'Any' not in run.stdout, run.stdout


def test_uninstalling_leaves_nothing(installed):
    installed.run("pip", "uninstall", "-q", "-y", "quire")
    assert not (installed.bin / "quire").exists()
    assert not list(installed.bin.parent.rglob("quire*"))
