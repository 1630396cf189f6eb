"""Packed weights that outlive the process, through the real program."""

import re
import subprocess

import pytest
from server_process import BINARY
from waiting import HANG_S, wait_until

GENERATE = ["generate", "--prompt", "Once upon a time", "--prompt", "The little fox", "--max-tokens", "24", "--temperature", "0"]
WRITTEN, MAPPED = "weight cache written: ", "weights from cache, "


def start(*arguments):
    return subprocess.Popen([str(BINARY), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def quire(*arguments):
    process = start(*arguments)
    out, err = process.communicate(timeout=HANG_S)
    assert process.returncode == 0, err
    return out, err


@pytest.mark.parametrize("flags", [[], ["--quantization", "int4"], ["--dtype", "float32"]])
def test_the_second_start_maps_what_the_first_has_packed(tmp_path, flags):
    plain, _ = quire(*GENERATE, *flags)
    first, said = quire(*GENERATE, *flags, "--weight-cache", str(tmp_path / "cache"))
    assert WRITTEN in said
    second, said = quire(*GENERATE, *flags, "--weight-cache", str(tmp_path / "cache"))
    assert re.search(MAPPED + r"[\d.]+ [KMG]iB mapped in \d+\.\d+ s", said), said
    assert WRITTEN not in said
    assert plain == first == second


def test_a_server_serves_out_of_it_and_its_next_start_too(start_server, tmp_path):
    def answer(server):
        client = server.client()
        model = client.models.list().data[0].id
        return client.completions.create(model=model, prompt="Once upon a time", max_tokens=32, temperature=0).choices[0].text

    texts = []
    for said in (WRITTEN, MAPPED, MAPPED):
        server = start_server("--weight-cache", str(tmp_path))
        texts.append(answer(server))
        server.stop()
        assert server.process.returncode == 0
        assert any(said in line for line in server.log), "".join(server.log)
    assert len(set(texts)) == 1


def test_a_server_may_lose_the_directory_while_it_runs(start_server, tmp_path):
    quire(*GENERATE, "--weight-cache", str(tmp_path))
    server = start_server("--weight-cache", str(tmp_path))
    for file in tmp_path.iterdir():
        file.unlink()
    client = server.client()
    model = client.models.list().data[0].id
    assert client.completions.create(model=model, prompt="The", max_tokens=8, temperature=0).choices[0].text


def test_two_starts_at_once_and_one_that_is_killed_leave_one_whole_file(tmp_path):
    plain, _ = quire(*GENERATE)
    killed = start(*GENERATE, "--weight-cache", str(tmp_path))
    wait_until(lambda: any(tmp_path.iterdir()), "nothing is written", pause_s=0)
    killed.kill()
    killed.communicate()
    both = [start(*GENERATE, "--weight-cache", str(tmp_path)) for _ in range(2)]
    assert [p.communicate(timeout=HANG_S)[0] for p in both] == [plain, plain]
    out, said = quire(*GENERATE, "--weight-cache", str(tmp_path))
    assert out == plain
    assert MAPPED in said
    assert len(list(tmp_path.glob("*.weights"))) == 1
    assert not list(tmp_path.glob("*.part"))


def test_a_directory_that_cannot_be_is_a_warning(tmp_path):
    (tmp_path / "file").write_text("")
    plain, _ = quire(*GENERATE)
    out, said = quire(*GENERATE, "--weight-cache", str(tmp_path / "file" / "cache"))
    assert out == plain
    assert "--weight-cache: " in said
    assert "Not a directory" in said
