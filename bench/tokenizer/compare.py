"""Compares encoding and decoding speed with the `tokenizers` package: one thread each, interleaved runs.

usage: compare.py BENCH_TOKENIZER --tokenizers DIR... --texts FILE... [--runs 7]

BENCH_TOKENIZER is the executable bench_tokenizer, each DIR a model directory with tokenizer.json. For each tokenizer and text, both encode the same bytes, once as a single text and once in parts of about 4 kB. For the package, the
faster of encode() and encode_batch_fast() is used. The table has medians of MB/s of processor time, so other load on the machine does
not count, and their ratio. The numbers of tokens must be equal.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers  # noqa: E402


class Ours:
    def __init__(self, executable):
        self.process = subprocess.Popen([executable], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command, path):
        self.process.stdin.write(f"{command} {path}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise SystemExit(answer["error"])
        return answer


def parts_of(data):
    parts = []
    while data:
        end = data.find(b"\n", 4096) + 1 if len(data) > 4096 else len(data)
        end = end or len(data)
        parts.append(data[:end].decode())
        data = data[end:]
    return parts


def timed(function):
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("--tokenizers", type=Path, nargs="+", required=True, metavar="DIR")
    parser.add_argument("--texts", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--bytes", type=int, default=1_000_000, help="bytes of each text (the package takes minutes for whole texts)")
    args = parser.parse_args()
    print(f"tokenizers {tokenizers.__version__}, {args.runs} interleaved runs, medians, MB/s")
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for text in args.texts:
            files[text.stem] = Path(folder) / text.name
            files[text.stem].write_bytes(text.read_bytes()[:args.bytes].decode(errors="ignore").encode())
        print(f"{'tokenizer':10} {'text':14} {'how':7} {'ours':>8} {'theirs':>8} {'ratio':>7}")
        for directory in args.tokenizers:
            compare(args, directory, files)


def compare(args, directory, files):
    name = directory.name
    ours = Ours(args.bench)
    loads = [ours.ask("load", directory)["seconds"] for _ in range(args.runs)]
    their_loads = [timed(lambda: tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json")))[0] for _ in range(args.runs)]
    theirs = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    for label, path in files.items():
        data = path.read_bytes()
        size = len(data) / 1e6
        text, parts = data.decode(), parts_of(data)
        for how, command, inputs in (("whole", "encode", [text]), ("parts", "encode_parts", parts)):
            our_times, their_times = [], []
            for _ in range(args.runs):
                answer = ours.ask(command, path)
                our_times.append(answer["seconds"])
                one, tokens = timed(lambda: sum(len(theirs.encode(t).ids) for t in inputs))
                fast, _ = timed(lambda: theirs.encode_batch_fast(inputs))
                their_times.append(min(one, fast))
                assert tokens == answer["tokens"], (name, label, how, tokens, answer)
            mine, other = size / statistics.median(our_times), size / statistics.median(their_times)
            print(f"{name:10} {label:14} {how:7} {mine:8.1f} {other:8.1f} {mine / other:7.2f}", flush=True)
        ids = theirs.encode(text, add_special_tokens=False).ids
        our_decode = statistics.median(ours.ask("decode", path)["seconds"] for _ in range(args.runs))
        our_stream = statistics.median(ours.ask("stream", path)["seconds"] for _ in range(args.runs))
        their_decode = statistics.median(timed(lambda: theirs.decode(ids))[0] for _ in range(args.runs))
        print(f"{name:10} {label:14} decode  {size / our_decode:8.1f} {size / their_decode:8.1f} {their_decode / our_decode:7.2f}"
              f"   stream {len(ids) / our_stream / 1e6:.2f} M tokens/s", flush=True)
    load, their_load = statistics.median(loads), statistics.median(their_loads)
    print(f"{name:10} load           {load * 1e3:8.1f} ms {their_load * 1e3:8.1f} ms {their_load / load:7.2f}", flush=True)


if __name__ == "__main__":
    main()
