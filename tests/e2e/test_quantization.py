"""Weights that are rounded as they are loaded, through the real program."""

import concurrent.futures
import json
import subprocess

import pytest
from server_process import BINARY, ROOT

PROMPTS = ["Once upon a time", "The little fox", "One day, a boy named Tom found"]


def quire(*arguments):
    return subprocess.run([str(BINARY), *arguments], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", ["int8", "w8a8", "int4"])
def test_a_server_tells_its_format_and_answers_the_same_alone_and_in_company(start_server, name):
    server = start_server("--quantization", name)
    assert any(f"parameters in {name} (" in line for line in server.log)
    client = server.client()
    model = client.models.list().data[0].id

    def ask(prompt):
        answer = client.completions.create(model=model, prompt=prompt, max_tokens=32, temperature=0, logprobs=1)
        return answer.choices[0].text, answer.choices[0].logprobs.token_logprobs

    alone = [ask(prompt) for prompt in PROMPTS]
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as threads:
        assert list(threads.map(ask, PROMPTS)) == alone
    assert all(len(text.split()) > 5 for text, _ in alone)


def test_inspect_tells_what_the_weights_will_take():
    def memory(name):
        return json.loads(quire("inspect", "--json", "--quantization", name).stdout)

    plain, int8, int4 = memory("auto"), memory("int8"), memory("int4")
    assert plain["quantization"] is None
    assert int8["quantization"] == "int8"
    assert 0.45 < int8["weight_memory"] / plain["weight_memory"] < 0.55
    assert 0.25 < int4["weight_memory"] / plain["weight_memory"] < 0.40


def test_the_format_of_a_checkpoint_is_compared_with_it():
    awq = str(ROOT / "tests" / "golden" / "quantized" / "awq")
    assert json.loads(quire("inspect", awq, "--json", "--quantization", "awq_marlin").stdout)["quantization"] is None
    done = quire("inspect", awq, "--quantization", "gptq")
    assert done.returncode == 1 and "is quantized with awq; omit the flag" in done.stderr
    done = quire("inspect", "--quantization", "awq")
    assert done.returncode == 1 and "is not quantized; int8 and int4 quantize weights while they are loaded" in done.stderr


def test_an_unknown_name_is_refused_with_those_there_are():
    done = quire("generate", "--quantization", "int3", "--prompt", "x")
    assert done.returncode == 2
    assert "int3" in done.stderr
    assert "int4" in done.stderr
