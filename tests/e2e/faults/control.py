"""The test's side of interpose.c: chooses which call of a program fails."""

import mmap
import pathlib
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
CALLS = {"malloc": 1, "write": 2, "pread": 3, "mmap": 4, "accept": 5, "thread": 6, "pwrite": 7, "pwritev": 8}
LAYOUT = struct.Struct("=IIqqq16sI4x")  # armed, call, failing, count, fired, thread, kills


def build_library(directory):
    """Compiles interpose.c and returns the path of the shared library."""
    library = pathlib.Path(directory) / "interpose.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(HERE / "interpose.c"), "-ldl"], check=True)
    return library


class FaultControl:
    def __init__(self, directory):
        self.path = pathlib.Path(directory) / "faults"
        self.path.write_bytes(bytes(LAYOUT.size))
        self.file = self.path.open("r+b")
        self.map = mmap.mmap(self.file.fileno(), LAYOUT.size)

    def environment(self, library):
        return {"LD_PRELOAD": str(library), "QUIRE_FAULTS": str(self.path)}

    def arm(self, call, thread, failing, kills=False):
        """From now on, call number `failing` (from 1) on threads of this name fails, once; or it kills the program."""
        self.map[:] = LAYOUT.pack(0, CALLS[call], failing, 0, 0, thread.encode(), kills)
        self.map[0:4] = struct.pack("=I", 1)

    def disarm(self):
        """Returns (calls made since arming, failures since arming)."""
        self.map[0:4] = struct.pack("=I", 0)
        _, _, _, count, fired, _, _ = LAYOUT.unpack(self.map[:])
        return count, fired
