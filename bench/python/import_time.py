"""Measures the CPU time of `import quire` in new interpreters. Exits with 1 if the shortest of five takes longer than the bound.

    PYTHONPATH=build/release/python build/venv/bin/python bench/python/import_time.py
"""

import subprocess
import sys

BOUND_S = 0.3
CODE = "import time; begin = time.process_time(); import quire; print(time.process_time() - begin)"


def main():
    seconds = sorted(float(subprocess.check_output([sys.executable, "-c", CODE])) for _ in range(5))
    print(f"import quire: {1e3 * seconds[0]:.0f} to {1e3 * seconds[-1]:.0f} ms of CPU time (bound {1e3 * BOUND_S:.0f} ms)")
    return 1 if seconds[0] > BOUND_S else 0


if __name__ == "__main__":
    sys.exit(main())
