"""Lines that newcomers from Ollama, vLLM, llama.cpp and Python type in their first minute. Each one works, or its error names what to type.
The lines run in a directory with a model and a text file, with an empty cache of models and without network."""

import os
import pathlib
import re
import shlex
import signal
import subprocess

import pytest
from server_process import BINARY, ROOT
from waiting import HANG_S

PROGRAM = pathlib.Path(BINARY).resolve()
WORKS, FAILS, MISTYPED = 0, 1, 2  # exit codes
SHORT = "--max-tokens 4 --kv-cache-memory 8MiB"
SERVE = "--port 0 --kv-cache-memory 8MiB"

OLLAMA = [
    ("quire", WORKS, "quire run "),
    ("quire help run", WORKS, "--system TEXT"),
    ("quire help", WORKS, "serve "),
    ("quire ls", WORKS, "no models in "),
    ("quire lits", MISTYPED, "did you mean list?"),
    ("quire run", MISTYPED, "MODEL is required"),
    ("quire run gemma3", MISTYPED, "there is no model 'gemma3': a model is a file, a directory or a name on the hub (org/name)"),
    ("quire run org/gemma3 'Why is the sky blue?'", FAILS, "there is no file or directory org/gemma3, and on the hub: "),
    ("quire run models/quire-tinny 'Hello'", FAILS, "did you mean models/quire-tiny?"),
    ("quire run 'Why is the sky blue?'", MISTYPED, "quire run org/name \"Why is the sky blue?\""),
    (f"quire run models/quire-tiny 'Why is the sky blue?' {SHORT}", WORKS, r"re:\w"),
    (f"quire run models/quire-tiny --verbose 'Why?' {SHORT}", WORKS, "--verbose has no effect"),
    (f"echo 'Hello' | quire run models/quire-tiny {SHORT}", WORKS, r"re:\w"),
    (f"cat notes.txt | quire run quire-tiny 'Summarize this' {SHORT}", WORKS, r"re:\w"),
    ("quire show models/quire-tiny", WORKS, "LlamaForCausalLM"),
    ("quire ps", MISTYPED, "quire top"),
    ("quire stop gemma3", MISTYPED, "Ctrl-C"),
    ("quire create mario -f Modelfile", MISTYPED, "--config FILE"),
    ("quire rm gemma3", FAILS, "use org/name"),
    ("quire pull gemma3", FAILS, "use org/name"),
]
VLLM = [
    ("quire serv models/quire-tiny", MISTYPED, "did you mean serve?"),
    (f"quire serve --model models/quire-tiny --gpu-memory-utilization 0.9 --enforce-eager {SERVE}", WORKS, "--gpu-memory-utilization has no effect"),
    (f"quire serve models/quire-tiny --max_model_len 1k --dtype half --kv-cache-dtype fp8 -tp 1 {SERVE}", WORKS, "sequences of up to 1000 tokens"),
    (f"quire serve models/quire-tiny --trust-remote-code --enable-chunked-prefill --max-num-seqs=8 {SERVE}", WORKS, "prefilled in chunks"),
    ("quire serve models/quire-tiny --tensor-parallel-size 2", MISTYPED, "start a server per group of cores"),
    (f"quire serve models/quire-tiny --enable-lora --max-loras 4 {SERVE}", WORKS, "sequences of up to"),
    ("quire serve models/quire-tiny --quantization awq --port 0", FAILS, "is not quantized; int8 and int4 quantize"),
    ("quire serve models/quire-tiny --prot 8080", MISTYPED, "did you mean --port?"),
    ("quire serve models/quire-tiny --port 99999", MISTYPED, "ports are 1 to 65535"),
    ("quire serve models/quire-tiny --max-model-len 32k --port 0", FAILS, "re:at most [0-9]+ tokens"),
    ("quire serve models/quire-tiny --max-model-len lots", MISTYPED, "--max-model-len"),
    ("quire serve models/quire-tiny --dtype int8", MISTYPED, "{auto,float32,bfloat16,float16}"),
    ("quire serve models/quire-tiny --gpu-memory-utilisation 0.9", MISTYPED, "did you mean --gpu-memory-utilization?"),
    ("quire serve models/quire-tiny --temperature 0.7", MISTYPED, "requests have the field temperature"),
    ("quire serve /data/llama --port 0", FAILS, "no such directory or file"),
    ("quire serve models/foo --port 0", FAILS, "there is no file or directory models/foo, and on the hub: "),
    (f"quire complete 'Once upon a time' {SHORT}", WORKS, "Once upon a time"),
    ("quire bench latncy", MISTYPED, "did you mean latency?"),
    ("quire collect-env", WORKS, "quire "),
    ("quire serve --help", WORKS, "quire serve --help-all"),
]
LLAMA_CPP = [
    ("quire -m model.gguf -p 'Once'", MISTYPED, "quire generate -m model.gguf -p Once"),
    ("quire model.gguf", MISTYPED, "quire run model.gguf"),
    (f"quire generate -m models/quire-tiny -p 'Once upon a time' -n 4 --temp 0 -t 1 {SHORT[15:]}", WORKS, "Once upon a time"),
    (f"quire cli -m models/quire-tiny -p 'Hello' -n 4 --jinja --color {SHORT[15:]}", WORKS, "chat templates are always Jinja"),
    (f"quire server -m models/quire-tiny -c 512 -np 4 -ngl 99 -fa on {SERVE}", WORKS, "sequences of up to 512 tokens, 4 at once"),
    (f"quire serve -m models/quire-tiny -ctk q8_0 -ctv q8_0 --mlock --no-mmap -b 64 {SERVE}", WORKS, "(int8)"),
    ("quire serve -m real/typo.gguf --port 0", FAILS, "there is no file or directory real/typo.gguf, and on the hub: "),
    ("quire serve -m ./typo.gguf --port 0", FAILS, "no such directory or file"),
    ("quire serve -hf org/name:Q4_K_M --port 0", FAILS, "HF_HUB_OFFLINE is set"),
    ("quire serve -m models/quire-tiny --lora adapter.gguf", MISTYPED, "use --lora-modules NAME=PATH"),
    ("quire serve -m models/quire-tiny --mirostat 2", MISTYPED, "requests have the field mirostat_mode"),
    (f"quire generate -m models/quire-tiny -p Once --mirostat 2 --mirostat-ent 4 --samplers 'top_k;temperature' {SHORT[15:]}", WORKS, "Once"),
    ("quire serve -m models/quire-tiny -n 128", MISTYPED, "requests have the field max_tokens"),
    ("quire serve -m models/quire-tiny --ctx-sise 512", MISTYPED, "did you mean --ctx-size?"),
    ("quire tokenize -m models/quire-tiny -p 'Hello world'", WORKS, r"re:^\d+ \d+"),
    ("quire perplexity -m models/quire-tiny -f notes.txt", WORKS, "perplexity"),
]
PYTHON = [
    (f"quire generate 'Once upon a time' {SHORT.replace('-tokens', '_tokens')}", WORKS, "Once upon a time"),
    (f"quire generate models/quire-tiny 'Once upon a time' {SHORT}", WORKS, "Once upon a time"),
    (f"quire generate models/quire-tiny Once {SHORT}", WORKS, "Once"),
    (f"quire generate Once {SHORT}", WORKS, "'Once' is the prompt"),
    ("quire generate Once upon a time", MISTYPED, "quire generate \"Once upon a time\""),
    (f"echo 'Once upon a time' | quire generate {SHORT}", WORKS, "Once upon a time"),
    ("quire generate", MISTYPED, "--prompts-file FILE"),
    ("quire generate --promt Once", MISTYPED, "did you mean --prompt?"),
    ("quire generate notes.txt Once", FAILS, "not a GGUF file"),
    ("quire chat --torch_dtype bfloat16", MISTYPED, "did you mean --dtype?"),
    ("quire tokenize hello", WORKS, r"re:^\d+"),
    ("echo 'Hello world' | quire tokenize --json", WORKS, '"tokens"'),
    ("quire detokenize 690 1885", WORKS, r"re:\w"),
    ("quire download org/name", FAILS, "HF_HUB_OFFLINE is set"),
    ("quire Qwen/Qwen3-0.6B", MISTYPED, "quire run Qwen/Qwen3-0.6B"),
    ("quire login", MISTYPED, "HF_TOKEN"),
    ("quire 'Why is the sky blue?'", MISTYPED, "quire generate \"Why is the sky blue?\""),
    ("quire list --port 8000", MISTYPED, "it is a flag of quire serve"),
    ("quire inspect quire-tiny", WORKS, "LlamaForCausalLM"),
    ("quire -v", WORKS, "quire "),
]
LINES = OLLAMA + VLLM + LLAMA_CPP + PYTHON


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("first_minute")
    (path / "models").mkdir()
    (path / "models" / "quire-tiny").symlink_to(ROOT / "models" / "quire-tiny")
    (path / "notes.txt").write_text("Once upon a time, there was a cat. The cat was happy.\n")
    (path / "bin").mkdir()
    (path / "bin" / "quire").symlink_to(PROGRAM)
    return path


@pytest.fixture
def environment(place):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    return {**inherited, "PATH": f"{place / 'bin'}:{os.environ['PATH']}", "HF_HOME": str(place / "cache"), "HF_HUB_OFFLINE": "1"}


def serve(line, place, environment):
    """Runs a server until it listens, and returns its exit code and log."""
    process = subprocess.Popen([PROGRAM, *shlex.split(line)[1:]], cwd=place, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               text=True)
    log = ""
    for text in process.stderr:
        log += text
        if "Listening on" in text:
            process.send_signal(signal.SIGTERM)
    return process.wait(HANG_S), log


@pytest.mark.parametrize("line, code, text", LINES, ids=[line for line, _, _ in LINES])
def test_a_line_works_or_names_what_to_type(place, environment, line, code, text):
    if SERVE in line:
        returncode, output = serve(line, place, environment)
    else:
        run = subprocess.run(["bash", "-c", line], cwd=place, env=environment, capture_output=True, text=True, timeout=HANG_S,
                             stdin=subprocess.DEVNULL)
        returncode, output = run.returncode, run.stdout + run.stderr
        if code != WORKS:
            assert run.stdout == "" and len(run.stderr.splitlines()) <= 3 and run.stderr.startswith("quire"), output
    assert returncode == code, output
    if text.startswith("re:"):
        assert re.search(text[3:], output, re.MULTILINE), output
    else:
        assert text in output


def test_there_are_lines_of_four_newcomers():
    assert len({line for line, _, _ in LINES}) >= 60 and min(map(len, (OLLAMA, VLLM, LLAMA_CPP, PYTHON))) >= 15
    assert sum(code != WORKS for _, code, _ in LINES) >= 30  # typical mistakes


def test_the_port_is_bound_before_the_model_is_loaded(place, environment, server):
    """A port in use is reported although the model does not exist."""
    run = subprocess.run([PROGRAM, "serve", "/no/such/model", "--port", str(server.port)], env=environment, capture_output=True, text=True,
                         timeout=HANG_S)
    assert run.returncode == 1 and "the port is in use; choose another one with --port" in run.stderr
    assert "no such directory" not in run.stderr


def test_values_of_a_configuration_file_may_have_the_names_of_vllm(place, environment):
    (place / "vllm.yaml").write_text("model: models/quire-tiny\ngpu-memory-utilization: 0.9\nmax_model_len: 1k\ndtype: half\nenable-lora: false\n")
    code, log = serve(f"quire serve --config vllm.yaml {SERVE}", place, environment)
    assert code == 0 and "sequences of up to 1000 tokens" in log and "--gpu-memory-utilization has no effect" in log


def test_help_fits_the_terminal(environment):
    for columns in (60, 80):
        run = subprocess.run([PROGRAM, "chat", "--help"], env={**environment, "COLUMNS": str(columns)}, capture_output=True, text=True)
        assert max(map(len, (line for line in run.stdout.splitlines() if "quire chat" not in line))) <= columns
