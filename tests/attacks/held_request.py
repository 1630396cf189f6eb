"""Requests that a test sends in two parts, and what the threads of the server did with them."""

import pathlib
import re
import select

from waiting import HANG_S, wait_until


def request_head(path, size):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode()


def unread_bytes(server, port):
    """Bytes from the client's `port` to the server that the server has not read yet: in the send queue of the client and in the receive
    queue of the server."""
    total = 0
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        ports = [int(address.rsplit(":", 1)[1], 16) for address in (local, remote)]
        sent, received = (int(size, 16) for size in queues.split(":"))
        if ports == [port, server.port]:
            total += sent
        elif ports == [server.port, port]:
            total += received
    return total


class HeldRequest:
    """A request whose body has arrived except for its last byte. The server begins to parse it when that is released."""

    def __init__(self, server, path, body):
        self.connection = server.connect()
        self.connection.settimeout(HANG_S)
        self.connection.sendall(request_head(path, len(body)) + body[:-1])
        self.last = body[-1:]
        port = self.connection.getsockname()[1]
        wait_until(lambda: unread_bytes(server, port) == 0, "the server does not read the body", pause_s=0.002)

    def release(self):
        self.connection.sendall(self.last)
        return self

    def has_response(self):
        """Whether a part of the response has arrived."""
        return bool(select.select([self.connection], [], [], 0)[0])

    def status(self):
        """Reads the response to its end and returns its status."""
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self.connection.recv(65536)
            assert piece, data
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        size = re.search(rb"content-length: (\d+)", head.lower())
        assert size, head
        left = int(size[1]) - len(rest)
        while left > 0:
            piece = self.connection.recv(min(left, 1 << 20))
            assert piece, f"{left} bytes of the response are missing"
            left -= len(piece)
        return int(head.split(b" ")[1])

    def close(self):
        self.connection.close()


class Threads:
    """Counts of the server's threads since the last call of start(), summed over threads of one name."""

    def __init__(self, server):
        self.tasks = pathlib.Path(f"/proc/{server.process.pid}/task")
        self.start()

    def _each(self, read):
        sums = {}
        for task in self.tasks.iterdir():
            name, count = (task / "comm").read_text().strip(), read(task)
            sums[name] = sums.get(name, 0) + count
        return sums

    @staticmethod
    def _faults(task):
        return int((task / "stat").read_text().rpartition(")")[2].split()[7])

    @staticmethod
    def _waits(task):
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)[1])

    def start(self):
        self.before = {read: self._each(read) for read in (self._faults, self._waits)}

    def _since(self, read):
        return {name: count - self.before[read].get(name, 0) for name, count in self._each(read).items()}

    def pages_touched(self):
        """Pages of memory that the kernel gave to each thread because it was the first to write there. A thread that receives, parses or
        writes many bytes needs as many."""
        return self._since(self._faults)

    def waits(self):
        """How often each thread went to sleep."""
        return self._since(self._waits)

    def niceness(self):
        values = {}
        for task in self.tasks.iterdir():
            name = (task / "comm").read_text().strip()
            values.setdefault(name, []).append(int((task / "stat").read_text().rpartition(")")[2].split()[16]))
        return values
