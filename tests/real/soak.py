"""Starts and ends pods for hours on the containerd that tests/real/run.sh started, while kflow's processes are killed.

    soak.py HOURS KFLOW CRICTL

There are two ways to the runtime, each `crictl -> tee -> kflow proxy -> tee -> containerd`, with a recorder and a terminal at the proxy.
The processes of one way are killed at random (proxy, recorder, terminal, each on its own); those of the other, `steady`, never are.
containerd is killed under both. At the end these have to hold for each connection, call and process:

* bytes: both tees passed the same bytes, in both directions; if a process was killed, one passed a prefix of the other's
* calls: each call that succeeded for crictl is in the way's recordings once, unless they say that they saw nothing at that time
* memory: the memory of the steady processes does not grow from the second quarter of the time to the last. Recorder and terminal keep pods
  that are gone for an eighth of it (`--keep-gone`), so that in both quarters as many leave as come. Their memory is checked only when they
  had `KEPT` calls before the second quarter, which takes a run of some ten hours; it is printed in all runs.
"""

import collections
import contextlib
import fcntl
import glob
import json
import os
import pty
import random
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time

HOURS, KFLOW, CRICTL = float(sys.argv[1]), sys.argv[2], sys.argv[3]
REAL = os.environ["KFLOW_REAL"]
RUNTIME = f"{REAL}/run/containerd.sock"
IMAGE = "kflow.test/tiny:1"
#: Seconds between two kills: least and most.
EVERY = (8, 30)
#: How long recorder and terminal keep pods that are gone; less than a quarter of the run.
KEEP = f"{max(int(HOURS * 3600 / 8), 1)}s"
#: How far, in ns, a call's time may lie outside of crictl's own, and a gap may reach beyond its stated bounds.
EDGE = 1_000_000_000
#: Ended calls that a world keeps (`crates/core/src/correlate/world/retire.rs`).
KEPT = 65_536
PAGE = os.sysconf("SC_PAGE_SIZE")
chance = random.Random(int(os.environ.get("SEED", "1")))
stop = threading.Event()
#: The recursion of `pairs` can be as deep as there are connections.
sys.setrecursionlimit(100_000)


class Tee:
    """Copies connections to a socket and keeps what passed until it is compared."""

    def __init__(self, listen, target):
        self.target, self.open, self.closed, self.lock = target, 0, [], threading.Lock()
        door = socket.socket(socket.AF_UNIX)
        door.bind(listen)
        door.listen(128)
        threading.Thread(target=self.serve, args=(door,), daemon=True).start()

    def serve(self, door):
        while True:
            near, _ = door.accept()
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self.target)
            except OSError:
                near.close()
                far.close()
                continue
            with self.lock:
                self.open += 1
            threading.Thread(target=self.one, args=(near, far), daemon=True).start()

    def one(self, near, far):
        kept = bytearray(), bytearray()
        up = threading.Thread(target=self.pump, args=(near, far, kept[0]), daemon=True)
        up.start()
        self.pump(far, near, kept[1])
        up.join()
        near.close()
        far.close()
        with self.lock:
            self.open -= 1
            if kept[0] or kept[1]:
                self.closed.append((bytes(kept[0]), bytes(kept[1])))

    @staticmethod
    def pump(source, to, kept):
        try:
            while piece := source.recv(1 << 16):
                kept += piece
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            # One side is gone and takes no more bytes; the other side has to learn that.
            for end in (source, to):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def ended(self):
        """Waits for the last connection."""
        end = time.monotonic() + 30
        while self.open and time.monotonic() < end:
            time.sleep(0.05)
        return self.open == 0


class Kept:
    """A process that is restarted whenever it ends."""

    def __init__(self, name, args, terminal=False):
        self.name, self.args, self.terminal = name, args, terminal
        self.starts, self.lock, self.process = 0, threading.Lock(), None
        self.sizes = []
        self.start()

    def start(self):
        self.starts += 1
        args = [a.replace("{n}", str(self.starts)) for a in self.args]
        log = open(f"{REAL}/{self.name}.log", "a")
        if not self.terminal:
            self.process = subprocess.Popen([KFLOW, *args], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            return
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "HOME": REAL}
        self.process = subprocess.Popen(
            [KFLOW, *args], stdin=theirs, stdout=theirs, stderr=log, env=environment, start_new_session=True
        )
        os.close(theirs)
        threading.Thread(target=drain, args=(ours,), daemon=True).start()

    def look(self):
        """Restarts the process if it has ended. Returns its memory in bytes, or None if that cannot be read."""
        with self.lock:
            if self.process.poll() is not None and not stop.is_set():
                self.start()
            try:
                with open(f"/proc/{self.process.pid}/statm") as f:
                    return int(f.read().split()[1]) * PAGE
            except OSError:
                return None

    def kill(self, how=signal.SIGKILL):
        with self.lock:
            self.process.send_signal(how)
            return self.process.wait(60)


def drain(fd):
    try:
        while os.read(fd, 1 << 16):
            pass
    except OSError:
        pass
    os.close(fd)


def pairs(left, right, fits):
    """Returns how many of the left can be paired, at most, each with a right one of its own that fits."""
    taken = {}
    near = [[n for n, r in enumerate(right) if fits(one, r)] for one in left]

    def place(at, tried):
        for n in near[at]:
            if n not in tried:
                tried.add(n)
                if n not in taken or place(taken[n], tried):
                    taken[n] = at
                    return True
        return False

    return sum(place(at, set()) for at in range(len(left)))


class Way:
    """A proxy between two tees, with a recorder and a terminal."""

    def __init__(self, name):
        self.name, base = name, f"{REAL}/{name}"
        os.makedirs(base, mode=0o700)
        self.front, listen, back, serve = (f"{base}/{s}.sock" for s in ("front", "cri", "back", "obs"))
        self.base = base
        self.after = Tee(back, RUNTIME)
        self.before = Tee(self.front, listen)
        proxy = ["proxy", "--listen", listen, "--upstream", back, "--serve", serve, "--ring-size", "1MiB", "--ring-age", "2m"]
        self.processes = [
            Kept(f"{name}-proxy", proxy),
            Kept(f"{name}-record", ["record", "--proxy", serve, "--keep-gone", KEEP, "-O", f"{base}/{{n}}.kflow"]),
            Kept(f"{name}-tui", ["tui", "--proxy", serve, "--keep-gone", KEEP], terminal=True),
        ]
        self.done, self.failed = [], 0

    def crictl(self, method, *args, who=None, limit=20):
        """Runs one crictl command, and notes a success with its time."""
        begin = time.time_ns()
        try:
            ran = subprocess.run(
                [CRICTL, "-r", f"unix://{self.front}", "--max-retries", "0", "-t", "10s", *args],
                capture_output=True,
                text=True,
                timeout=limit,
                cwd=self.base,
            )
        except subprocess.TimeoutExpired:
            self.failed += 1
            return None
        if ran.returncode:
            self.failed += 1
            return None
        answer = ran.stdout.strip()
        if method:
            self.done.append((method, who or answer, begin, time.time_ns()))
        return answer

    def life(self, number):
        """Runs a pod from its sandbox to its end, as far as the runtime allows."""
        name = f"{self.name}-{number}"
        pod, container = f"{self.base}/{name}.pod.json", f"{self.base}/{name}.ctr.json"
        with open(pod, "w") as f:
            json.dump(
                {
                    "metadata": {"name": name, "namespace": "soak", "uid": name, "attempt": 0},
                    "log_directory": f"{self.base}/logs",
                    "linux": {"security_context": {"namespace_options": {"network": 2}}},
                },
                f,
            )
        with open(container, "w") as f:
            json.dump(
                {
                    "metadata": {"name": "app", "attempt": 0},
                    "image": {"image": IMAGE},
                    "log_path": f"{name}.log",
                    "linux": {"security_context": {"namespace_options": {"network": 2}}},
                },
                f,
            )
        sandbox = self.crictl("RunPodSandbox", "runp", pod)
        if sandbox:
            self.crictl(None, "pods")
            app = self.crictl("CreateContainer", "create", sandbox, container, pod)
            if app:
                if self.crictl("StartContainer", "start", app, who=app):
                    self.crictl(None, "ps", "-a")
                    self.crictl("StopContainer", "stop", "-t", "1", app, who=app)
                self.crictl("RemoveContainer", "rm", "-f", app, who=app)
            self.crictl("StopPodSandbox", "stopp", sandbox, who=sandbox)
            self.crictl("RemovePodSandbox", "rmp", "-f", sandbox, who=sandbox)
        for path in (pod, container, f"{self.base}/logs/{name}.log"):
            if os.path.exists(path):
                os.remove(path)

    def churn(self, worker):
        number = 0
        while not stop.is_set():
            number += 1
            self.life(f"{worker}-{number}")

    def watch(self):
        """Runs a client that keeps one connection for as long as that holds."""
        while not stop.is_set():
            watching = subprocess.Popen(
                [CRICTL, "-r", f"unix://{self.front}", "--max-retries", "0", "stats", "-w", "-s", "1"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            while watching.poll() is None:
                if stop.wait(0.5):
                    watching.terminate()
                    watching.wait(30)
            stop.wait(1)

    def compare(self):
        """Compares bytes. Returns how many connections passed whole, how many in part, and how many of these have bytes on one side that the other
        never sent."""
        left = collections.Counter(self.after.closed)
        whole, asked = 0, []
        for connection in self.before.closed:
            if left[connection]:
                left[connection] -= 1
                whole += 1
            else:
                asked.append(connection)
        rest = list(left.elements())

        # Something was killed: the runtime got a prefix of the request's bytes, and the client a prefix of the answer's.
        def fits(mine, its):
            return mine[0].startswith(its[0]) and its[1].startswith(mine[1])

        # Connections that look alike cannot be told apart, so it is enough that they can be paired somehow.
        answered = [c for c in asked if c[1]]
        strange = len(answered) - pairs(answered, rest, fits)
        strange += len(rest) - pairs(rest, asked, lambda its, mine: fits(mine, its))
        return whole, len(asked), strange

    def recorded(self):
        """Returns the calls of all recordings (each once), the spans of time that the recordings cover, and their gaps."""
        calls, covered, gaps = {}, [], []
        for file in sorted(glob.glob(f"{self.base}/*.kflow")):
            lines = []
            with open(file, errors="replace") as f:
                for line in f:
                    try:
                        lines.append(json.loads(line))
                    except ValueError:
                        assert not line.endswith("\n"), f"{file}: a line that is no JSON"
            seen = [o["s"] for o in lines[1:] if "s" in o]
            if seen:
                covered.append((min(seen), max(seen)))
            for o in lines[1:]:
                if gap := o["b"].get("gap") if isinstance(o["b"], dict) else None:
                    gaps.append((gap.get("since", o["t"]), o["s"], gap))
            rows = subprocess.run([KFLOW, "calls", "-s", file, "-o", "jsonl"], capture_output=True, text=True)
            assert rows.returncode == 0 or not seen, f"{file}: {rows.stderr}"
            for row in map(json.loads, rows.stdout.splitlines()):
                # A recorder begins with the proxy's last minutes. So two recordings can have the same call, and the later recording
                # may lack what an earlier call said about its sandbox.
                key = (row["start_ns"], row["method"])
                known = calls.setdefault(key, row)
                if known["outcome"] != "status":
                    calls[key] = row
        return calls, covered, gaps

    def calls(self):
        """Looks each successful call up in the recordings. Returns counts, and the calls that are missing without a gap."""
        calls, covered, gaps = self.recorded()
        by = collections.defaultdict(list)
        for row in calls.values():
            for who in {row["sandbox_id"], row["container_id"]}:
                by[(row["method"], who)].append(row)
        missing, untold, twice = 0, [], 0
        for method, who, begin, end in self.done:
            found = [r for r in by[(method, who)] if begin - EDGE <= r["start_ns"] <= end + EDGE and r["code"] == "OK"]
            twice += len(found) > 1
            if found:
                continue
            missing += 1
            told = any(a - EDGE <= end and begin <= b + EDGE for a, b, _ in gaps)
            seen = any(a + EDGE <= begin and end <= b - EDGE for a, b in covered)
            if seen and not told:
                near = [r for r in calls.values() if begin - EDGE <= r["start_ns"] <= end + EDGE]
                near = [r for r in near if r["method"] == method or who in (r["sandbox_id"], r["container_id"])]
                untold.append((method, who, begin, end, near))
        return len(calls), missing, untold, twice, len(gaps)


def flat(name, sizes):
    """Compares the memory of a process that was never killed in the second and the last quarter."""
    quarter = max(len(sizes) // 4, 1)
    early, late = max(sizes[quarter : 2 * quarter] or sizes), max(sizes[-quarter:])
    mib = 1 << 20
    print(f"{name:14} {early / mib:.1f} MiB at most in the second quarter, {late / mib:.1f} in the last", flush=True)
    return late <= early * 1.1 + 2 * mib


def main():
    ways = [Way("killed"), Way("steady")]
    time.sleep(1)
    threads = [threading.Thread(target=way.churn, args=(n,)) for way in ways for n in range(2)]
    threads += [threading.Thread(target=way.watch) for way in ways]
    for t in threads:
        t.start()
    begin = time.monotonic()
    limit = HOURS * 3600
    kills = collections.Counter()
    next_kill = begin + chance.uniform(*EVERY)
    while (now := time.monotonic()) - begin < limit:
        for way in ways:
            for process in way.processes:
                size = process.look()
                if size and way.name == "steady":
                    process.sizes.append(size)
        if now > next_kill:
            victim = chance.choice(["runtime", *ways[0].processes])
            if victim == "runtime":
                subprocess.run([f"{REAL}/stop"])
                time.sleep(chance.uniform(0, 3))
                subprocess.run([f"{REAL}/start"])
                kills["runtime"] += 1
            else:
                victim.kill(chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
                kills[victim.name] += 1
            next_kill = time.monotonic() + chance.uniform(*EVERY)
        time.sleep(1)
    # The clients end their pods, then the recorders write what is left.
    stop.set()
    for t in threads:
        t.join(300)
    time.sleep(2)
    for way in ways:
        for process in reversed(way.processes):
            assert process.process.poll() is None, f"{process.name} ended by itself, with {process.process.poll()}"
            process.kill(signal.SIGTERM)
    took = (time.monotonic() - begin) / 60
    print(f"{took:.1f} min; kills: {dict(sorted(kills.items()))}", flush=True)
    for process in ways[1].processes:
        assert process.starts == 1, f"{process.name} ended by itself {process.starts - 1} times"
    held, recorded = True, 0
    for way in ways:
        for tee in (way.before, way.after):
            assert tee.ended(), f"{way.name}: {tee.open} connections hang"
        total, missing, untold, twice, gaps = way.calls()
        recorded = total
        passed = sum(len(u) + len(d) for u, d in way.before.closed)
        print(
            f"{way.name:14} {len(way.done)} calls of pods went well for crictl, {way.failed} commands did not; {total} calls recorded, "
            f"{missing} of the former not, {len(untold)} of these untold, {twice} twice; {gaps} gaps told",
            flush=True,
        )
        for method, who, at, end, near in untold[:10]:
            print(f"  untold: {method} of {who} at {at} to {end}; recorded about then:")
            for row in near:
                print(f"    {json.dumps(row)}")
        whole, cut, strange = way.compare()
        print(
            f"{way.name:14} {whole} connections whole, {cut} cut, {strange} of them with bytes from nowhere; {passed / 1e6:.1f} MB",
            flush=True,
        )
        held &= not untold and not twice and not strange
        if way.name == "steady":
            held &= not missing
    for process in ways[1].processes:
        grows = not flat(process.name, process.sizes)
        if process.name == "steady-proxy" or recorded >= 4 * KEPT:
            held &= not grows
    print("held" if held else "NOT HELD")
    sys.exit(not held)


main()
