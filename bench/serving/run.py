#!/usr/bin/env python3
"""Measures a server at several concurrencies, and prints one table.

    bench/serving/run.py [--quire build/release/quire] [MODEL]     starts `quire serve` itself
    bench/serving/run.py --base-url http://HOST:PORT               measures a running OpenAI-compatible server

Runs `quire bench serve` once per concurrency; needs only the standard library.
"""
import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(server, url, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.poll() is not None:
            sys.exit(f"quire serve ended with exit code {server.returncode}")
        try:
            with urllib.request.urlopen(url + "/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    sys.exit(f"{url}: not healthy after {seconds} s")


def bench(options, url, concurrency):
    command = [options.quire, "bench", "serve", "--base-url", url, "--endpoint", options.endpoint,
               "--num-prompts", str(max(options.num_prompts, 2 * concurrency)), "--max-concurrency", str(concurrency),
               "--input-len", options.input_len, "--output-len", options.output_len, "--goodput", options.goodput,
               "--seed", str(concurrency), "--json", "-", "--log-level", "warning"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}")
    return json.loads(done.stdout)


def measure(options, url):
    print(f"load average {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores at the start; goodput: {options.goodput}")
    print(f"{'clients':>8}{'requests':>10}{'failed':>8}{'req/s':>9}{'output/s':>10}{'goodput':>9}"
          f"{'TTFT p50':>10}{'p99':>9}{'TPOT p50':>10}{'p99':>9}{'ITL p99':>9}{'E2E p50':>10}  (ms)")
    for concurrency in (int(part) for part in options.concurrency.split(",")):
        f = bench(options, url, concurrency)
        print(f"{concurrency:>8}{f['num_requests']:>10}{f['num_failed']:>8}{f['requests_per_s']:>9.2f}{f['output_tokens_per_s']:>10.1f}"
              f"{f['goodput']:>9.2f}{f['ttft_ms']['p50']:>10.2f}{f['ttft_ms']['p99']:>9.2f}{f['tpot_ms']['p50']:>10.3f}"
              f"{f['tpot_ms']['p99']:>9.3f}{f['itl_ms']['p99']:>9.2f}{f['e2e_ms']['p50']:>10.1f}", flush=True)
    print(f"load average {os.getloadavg()[0]:.2f} at the end")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="model directory (default: the embedded model)")
    parser.add_argument("--quire", default=str(ROOT / "build/release/quire"))
    parser.add_argument("--base-url", help="URL of a running server")
    parser.add_argument("--endpoint", default="/v1/completions")
    parser.add_argument("--concurrency", default="1,8,32")
    parser.add_argument("--num-prompts", type=int, default=50)
    parser.add_argument("--input-len", default="128")
    parser.add_argument("--output-len", default="64")
    parser.add_argument("--goodput", default="ttft:500,tpot:50")
    options = parser.parse_args()
    if options.base_url:
        measure(options, options.base_url)
        return
    url = f"http://127.0.0.1:{free_port()}"
    command = [options.quire, "serve", *([options.model] if options.model else []), "--port", url.rsplit(":", 1)[1],
               "--disable-log-requests", "--log-level", "warning"]
    server = subprocess.Popen(command)
    try:
        wait_until_healthy(server, url, 300)
        measure(options, url)
    finally:
        server.terminate()
        server.wait(60)


if __name__ == "__main__":
    main()
