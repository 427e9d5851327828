"""Injects faults with strace into system calls of a running kflow proxy: real sockets, real threads, a real kernel.

    syscalls.py KFLOW

For each fault, connections carry bytes both ways and half-close, and their bytes are compared. When a fault may cost a
connection, what arrived has to be a prefix, both ends have to be closed, and the next connection has to work. Exits with 0 when all of it
held, with 77 when strace may not trace.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

KFLOW = sys.argv[1]
PATIENCE = 60

# The faults to inject, and whether each may cost a connection. `when=FIRST+STEP` counts calls per thread.
PASSING = [
    "read:error=EINTR:when=1+2",
    "read:error=EAGAIN:when=1+3",
    "read:error=ENOBUFS:when=1+3",
    "sendto:error=EINTR:when=1+2",
    "sendto:error=EAGAIN:when=1+2",
    "sendto:error=ENOBUFS:when=1+3",
    "sendto:error=ENOMEM:when=1+3",
    "shutdown:error=EINTR:when=1+2",
    "epoll_wait:error=EINTR:when=1+2",
    "accept4:error=EINTR:when=1+2",
    "accept4:error=EMFILE:when=1+2",
    "accept4:error=ENOBUFS:when=1+2",
    "connect:error=EINTR:when=1+3",
    "write:error=EAGAIN:when=1+3",
]
COSTING = [
    "sendto:error=EPIPE:when=9+23",
    "read:error=ECONNRESET:when=9+23",
    "socket:error=EMFILE:when=1+3",
    "socket:error=ENOBUFS:when=1+3",
    "clone3:error=EAGAIN:when=1+3",
    "sendto:error=EIO:when=9+23",
]


def noise(seed, n):
    return random.Random(seed).randbytes(n)


def say(to, data, seed):
    """Writes in pieces of many sizes, then half-closes. An error means that the connection is broken."""
    sizes = random.Random(seed)
    at = 0
    try:
        while at < len(data):
            n = sizes.choice([1, 9, 700, 5000, 70000])
            to.sendall(data[at : at + n])
            at += n
        to.shutdown(socket.SHUT_WR)
    except OSError:
        return


def hear(frm):
    got = bytearray()
    try:
        while piece := frm.recv(1 << 16):
            got += piece
    except ConnectionError:
        pass
    return bytes(got)


class Server:
    """Accepts, reads a number of eight bytes, and answers with the noise of that number while it reads on."""

    def __init__(self, path):
        self.got, self.lock = {}, threading.Lock()
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(path)
        self.door.listen(64)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            peer, _ = self.door.accept()
            peer.settimeout(PATIENCE)
            threading.Thread(target=self.one, args=(peer,), daemon=True).start()

    def one(self, peer):
        first = b""
        try:
            while len(first) < 8 and (piece := peer.recv(8 - len(first))):
                first += piece
        except OSError:
            pass
        if len(first) < 8:
            peer.close()
            return
        number = int.from_bytes(first, "big")
        talk = threading.Thread(target=say, args=(peer, answer(number), number))
        talk.start()
        try:
            heard = hear(peer)
        except TimeoutError:
            heard = None
        talk.join()
        peer.close()
        with self.lock:
            self.got[number] = heard


def question(number):
    return noise(2 * number, 300_000)


def answer(number):
    return noise(2 * number + 1, 400_000)


def connect(path):
    end = time.monotonic() + PATIENCE
    while True:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(PATIENCE)
        try:
            s.connect(path)
            return s
        except OSError:
            s.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


def talk(path, number, out):
    s = connect(path)
    whole = number.to_bytes(8, "big") + question(number)
    talking = threading.Thread(target=say, args=(s, whole, number))
    talking.start()
    try:
        out[number] = hear(s)
    except TimeoutError:
        out[number] = None
    talking.join()
    s.close()


def injected(log):
    """Returns how often a fault was injected."""
    with open(log, errors="replace") as lines:
        return sum("(INJECTED)" in line for line in lines)



def one(fault, costs, base):
    """Runs a proxy under one fault. Returns how many faults were injected and how many connections they cost."""
    listen, up = f"{base}/cri.sock", f"{base}/up.sock"
    server = Server(up)
    said = open(f"{base}/kflow.log", "wb")
    proxy = subprocess.Popen([KFLOW, "proxy", "--listen", listen, "--upstream", up, "--no-serve"], stderr=said)
    trace = f"{base}/strace.log"
    strace = None
    try:
        connect(listen).close()
        name = fault.split(":")[0]
        # strace stops only at this one system call, so that no other is slowed.
        strace = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", trace, "-e", f"trace={name}", "-e", f"inject={fault}", "-p", str(proxy.pid)],
            stderr=subprocess.PIPE,
        )
        attached(proxy.pid, strace)
        got = {}
        numbers = range(1, 13)
        for group in (numbers[:8], numbers[8:]):
            talks = [threading.Thread(target=talk, args=(listen, n, got)) for n in group]
            for t in talks:
                t.start()
            for t in talks:
                t.join()
        end = time.monotonic() + PATIENCE
        broken = 0
        for n in numbers:
            mine = got[n]
            # A connection that never reached the server has no bytes on the server's side.
            while mine and n not in server.got and time.monotonic() < end:
                time.sleep(0.01)
            its = server.got.get(n, b"")
            assert mine is not None and its is not None, f"{fault}: connection {n} hangs"
            assert answer(n).startswith(mine), f"{fault}: the answer of {n} differs"
            assert question(n).startswith(its), f"{fault}: the question of {n} differs"
            broken += len(mine) != len(answer(n)) or len(its) != len(question(n))
        assert costs or not broken, f"{fault}: {broken} of {len(numbers)} connections are not whole"
        strace.send_signal(signal.SIGINT)
        strace.wait(PATIENCE)
        # After the fault, the next connection works.
        after = {}
        talk(listen, 99, after)
        assert after[99] == answer(99), f"{fault}: the next connection is not whole"
        assert proxy.poll() is None, f"{fault}: the proxy ended"
        return injected(trace), broken
    finally:
        for p in (strace, proxy):
            if p and p.poll() is None:
                p.send_signal(signal.SIGINT if p is strace else signal.SIGTERM)
                p.wait(PATIENCE)
        said.close()
        server.door.close()


def attached(pid, strace):
    """Waits until every thread has its tracer."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if strace.poll() is not None:
            told = strace.stderr.read().decode()
            if "Operation not permitted" in told:
                print(f"LEFT OUT: strace may not trace here: {told.strip()}", file=sys.stderr)
                sys.exit(77)
            raise SystemExit(f"strace: {told}")
        try:
            threads = os.listdir(f"/proc/{pid}/task")
            if all("TracerPid:\t0\n" not in open(f"/proc/{pid}/task/{t}/status").read() for t in threads):
                return
        except FileNotFoundError:
            pass
        time.sleep(0.01)
    raise SystemExit("strace does not attach")


def main():
    for fault, costs in [(f, False) for f in PASSING] + [(f, True) for f in COSTING]:
        with tempfile.TemporaryDirectory() as base:
            os.chmod(base, 0o700)
            begin = time.monotonic()
            faults, broken = one(fault, costs, base)
            took = time.monotonic() - begin
            print(f"{fault:36} {faults:6} faults, {broken} of 12 connections cut, {took:.1f} s", flush=True)
            assert faults, f"{fault}: no such call was made, so nothing was tried"


main()
