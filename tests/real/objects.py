"""Tests that recording into any object storage has to pass: nothing that fitted on the disk is lost, nothing is there twice.

The recorded source is a kubelet's log with invented lines in the real format. The lines are numbered, so that each can be looked for.
An HTTP relay between the recorder and the store holds, refuses, repeats and reorders requests. A store (seaweed.py, clouds.py) has

  url             its URL
  env(port)       the variables that lead to it by that port
  secrets         what must be in nothing that is sent, kept or said
  refusals()      what is refused: a name, the words that are told, a URL, other variables
  up, down, gone  how it comes, goes for a while, and goes for ever
  port            where it listens
  put             None, or how it takes an object, where it does not take the cloud's own request
"""

import datetime
import http.client
import http.server
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

KFLOW = str(pathlib.Path(sys.argv[1]).resolve())
DIR = pathlib.Path(tempfile.mkdtemp(prefix="kflow-store."))
BEGAN = time.monotonic()
PATIENCE = 90
# Seconds after which written lines are certainly flushed: the spool hands bytes to the kernel half a second after they were seen (spool.rs, FLUSH).
FLUSHED = 1.2
# Prefixes of the clouds' environment variables; those of the user who runs this are not passed on.
CLOUDS = ("AWS_", "AZURE_", "GCE_", "GOOGLE_", "IDENTITY_", "KFLOW_", "SERVICE_ACCOUNT")


def say(text):
    print(f"  [{time.monotonic() - BEGAN:5.1f}s] {text}", flush=True)


def until(what, is_so, patience=PATIENCE):
    """Waits until `is_so` returns something true, and returns that."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {patience} s")


def ports(n):
    """Returns `n` free ports for which the port 10000 above is free too, because SeaweedFS has its gRPC there. None is an ephemeral port
    (ip_local_port_range begins at 32768), which might be in use when the server binds it."""
    found = []
    while len(found) < n:
        port = random.randrange(20000, 22700)
        with socket.socket() as a, socket.socket() as b:
            try:
                a.bind(("127.0.0.1", port))
                b.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


class Relay:
    """An HTTP relay between the recorder and the store. `rule` decides what happens to each PUT:

    pass, refuse (503), before (held, never forwarded), after (forwarded, the answer is held)

    `gate` may answer a request itself: (status, body), or None.
    """

    def __init__(self, store):
        self.rule = lambda path: "pass"
        self.gate = lambda path, head: None
        self.puts, self.held = [], threading.Event()
        self.store = store
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                shut = relay.gate(urllib.parse.unquote(self.path), self.headers)
                if shut:
                    return self.answer(shut[0], [], shut[1].encode())
                rule = relay.rule(urllib.parse.unquote(self.path)) if self.command == "PUT" else "pass"
                if rule == "refuse":
                    return self.answer(503, [], b"")
                if rule == "before":
                    return self.hold()
                head = list(self.headers.items())
                if self.command == "PUT":
                    relay.puts.append((self.path, head, body))
                try:
                    code, headers, got = relay.forward(self.command, self.path, head, body)
                except OSError:
                    return self.answer(502, [], b"")
                if rule == "after":
                    return self.hold()
                self.answer(code, headers, got)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = do

            def hold(self):
                relay.held.set()
                # Waits until the client has gone.
                self.connection.recv(1)
                self.close_connection = True

            def answer(self, code, headers, body):
                self.send_response_only(code)
                for name, value in headers:
                    if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                        self.send_header(name, value)
                length = len(body) if self.command != "HEAD" else next((v for n, v in headers if n.lower() == "content-length"), 0)
                self.send_header("Content-Length", length)
                self.end_headers()
                self.wfile.write(body)

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """A recorder that was killed."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def forward(self, method, path, head, body):
        if method == "PUT" and self.store.put:
            return self.store.put(path, body)
        to = http.client.HTTPConnection("127.0.0.1", self.store.port, timeout=30)
        to.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in head:
            to.putheader(name, value)
        to.endheaders(body)
        answer = to.getresponse()
        got = answer.read()
        to.close()
        return answer.status, answer.getheaders(), got

    def holds(self, rule, part):
        self.held.clear()
        self.rule = lambda path: rule if part in path else "pass"

    def passes(self):
        self.rule = lambda path: "pass"


class Node:
    """A kubelet's log, and what follows it: `kflow record`, or an agent."""

    started = []

    def __init__(self, relay, name, spool=None, agent=False):
        self.agent, self.starts = agent, 0
        self.name, self.relay, self.store = name, relay, relay.store
        self.log = DIR / f"{name}.kubelet.log"
        self.spool = spool or DIR / f"{name}.spool"
        self.said = DIR / f"{name}.said"
        self.written = 0
        self.process = None
        self.log.touch()

    def env(self, **other):
        env = {k: v for k, v in os.environ.items() if not k.startswith(CLOUDS)}
        env |= {
            "XDG_CACHE_HOME": str(DIR / "cache"),
            "XDG_STATE_HOME": str(DIR / "state"),
            "HOME": str(DIR),
            "KUBECONFIG": "/no/such/kubeconfig",
        }
        env |= self.store.env(self.relay.port)
        env |= other
        return {k: v for k, v in env.items() if v is not None}

    def start(self, *more, segment="1s", store=True, before=()):
        """Starts the recorder or agent. `more` are further flags; `before` is a command that runs it, such as strace."""
        self.starts += 1
        args = ["--no-api", "--tap", "off", "--node", self.name, "--kubelet-log", str(self.log), "--spool", str(self.spool)]
        if store:
            args += ["--store", self.store.url, "--cluster", "lab", "--segment", segment]
        args += more
        if self.agent:
            # Each start has a socket of its own, because a killed agent leaves its socket behind.
            socket = DIR / f"{self.name}.run" / f"{self.starts}.sock"
            args = ["agent", "run", "--serve", str(socket), "--root", str(DIR / "root"), *args]
        else:
            args = ["record", *args]
        with open(self.said, "ab") as said:
            begin = said.tell()
            self.process = subprocess.Popen([*before, KFLOW, *args], env=self.env(), stdout=said, stderr=said, stdin=subprocess.DEVNULL)
        Node.started.append(self.process)
        if self.agent and not before:
            until("an agent that has read the log", lambda: self.has_read() or self.ended())
        elif not before:
            until("a recorder that reads the log", lambda: b": on (following" in self.said.read_bytes()[begin:] or self.ended())

    def has_read(self):
        """Returns true if the process has read the log to its end."""
        proc = pathlib.Path(f"/proc/{self.process.pid}")
        try:
            fds = [fd.name for fd in (proc / "fd").iterdir() if os.readlink(fd) == str(self.log)]
            at = [f"pos:\t{self.log.stat().st_size}\n" in (proc / "fdinfo" / fd).read_text() for fd in fds]
        except FileNotFoundError:
            # A descriptor was closed meanwhile.
            return False
        return any(at)

    def ended(self):
        assert self.process.poll() is None, self.said.read_text()

    def write(self, n):
        """Writes `n` lines, each about a pod of its own."""
        with open(self.log, "a") as log:
            for _ in range(n):
                now = time.time()
                clock = time.strftime("%m%d %H:%M:%S", time.gmtime(now))
                pod = f"made/p-{self.name}-{self.written}"
                log.write(
                    f"I{clock}.{int(now % 1 * 1e6):06d}    4711 kubelet.go:2500] "
                    f'"SyncLoop ADD" source="api" pods=["{pod}"]\n'
                )
                self.written += 1

    def waiting(self):
        """Returns the segments in the spool that the store does not have, including the open one."""
        names = [p.name for p in self.spool.glob("*.kflow.zst")]
        return [n for n in names if ".sent." not in n]

    def closed(self):
        return [n for n in self.waiting() if ".open." not in n]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=PATIENCE)

    def stop(self, code=0):
        ended = self.end()
        assert ended == code, f"ended with {ended}: {self.said.read_text()}"

    def kflow(self, *args, **other):
        done = subprocess.run([KFLOW, *args], env=self.env(**other), capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    def read(self, *args):
        return self.kflow(*args, "--store", self.store.url, "--node", self.name, "--from", "-5h", "-v")

    def told(self):
        """Returns the numbers of the lines in an answer, its exit code, its standard error, and its number of segments."""
        code, out, err = self.read("timeline", "-o", "name")
        names = [int(n) for n in re.findall(rf"p-{self.name}-(\d+)\b", out)]
        assert len(names) == len(set(names)), "a pod is told twice"
        parts = re.findall(r"Z\.([0-9a-f]{16}-\d+)\.\d+\.kflow\.zst", err)
        assert parts and len(parts) == len(set(parts)), f"a segment is there twice\n{err}"
        return set(names), code, err, len(parts)

    def check(self, what, codes=(0,)):
        """Checks that every written line is in the answer, and no segment is in it twice."""
        found, code, err, parts = self.told()
        missing = sorted(set(range(self.written)) - found)
        assert not missing, f"{what}: {len(missing)} of {self.written} lines are missing: {missing[:10]}\n{err}"
        assert code in codes, f"{what}: exit code {code}\n{err}"
        say(f"{what}: all {self.written} lines, in {parts} segments")

    def run(self, n):
        """Records `n` lines and ends. The next process sends what the store was too slow to take."""
        self.start()
        self.write(n)
        time.sleep(FLUSHED)
        until("all sent", lambda: self.end() == 0 or self.start())
        assert not self.waiting(), self.waiting()


def away(node):
    """Tests a store that goes away and comes back."""
    node.start()
    node.write(50)
    until("a segment in the store", lambda: list(node.spool.glob("*.sent.kflow.zst")))
    node.store.down()
    for _ in range(4):
        node.write(50)
        time.sleep(0.6)
    until("what waits", lambda: len(node.closed()) >= 2)
    until("a word of it", lambda: "segments wait to be sent" in node.said.read_text())
    node.store.up()
    until("all sent", lambda: not node.closed())
    until("a word of it", lambda: "segments are sent again" in node.said.read_text())
    node.stop()
    node.check("the store away meanwhile")


def killed(relay, node, chance, times):
    """Tests kill -9 in every phase of a segment."""
    who = "an agent" if node.agent else "a recorder"

    def phase(what, rule, part, segment="1s"):
        if rule:
            relay.holds(rule, part)
        node.start(segment=segment)
        node.write(20)
        time.sleep(FLUSHED)
        if rule == "refuse":
            until("one that is closed", node.closed)
        elif rule:
            assert relay.held.wait(PATIENCE), what
        waits = len(node.closed())
        assert (waits == 0) == (rule is None), (what, waits)
        node.kill()
        relay.passes()
        # The next sends what waits.
        node.start()
        node.stop()
        assert not node.waiting(), node.waiting()
        node.check(f"{who} killed {what}", (0, 2))

    phase("while a segment is open", None, None, segment="1h")
    phase("with one closed and not sent", "refuse", "/")
    phase("while it is sent", "before", "/segments/")
    phase("between the segment and its pods", "before", "/pods/")
    phase("with all sent and no answer yet", "after", "/pods/")
    for _ in range(times):
        node.start()
        node.write(20)
        time.sleep(FLUSHED + chance.random())
        node.kill()
    node.start()
    node.stop()
    assert not node.waiting(), node.waiting()
    node.check(f"{who} killed {times} times more, at random", (0, 2))


def repeated(relay, node, chance):
    """Tests uploads that arrive again, late and in another order."""
    ls = lambda: json.loads(node.kflow("store", "ls", node.store.url, "-o", "json")[1])[0]
    before = ls()
    puts = list(relay.puts)
    chance.shuffle(puts)
    for path, head, body in puts:
        code = relay.forward("PUT", path, head, body)[0]
        assert code in (200, 201), code
    assert ls() == before, (before, ls())
    node.check(f"{len(puts)} uploads once more, in another order", (0, 2))
    # Makes the spool look as if nothing had been marked as sent.
    sent = list(node.spool.glob("*.sent.kflow.zst"))
    for path in sent:
        path.rename(str(path).replace(".sent.", "."))
    node.start()
    node.stop()
    assert not node.waiting(), node.waiting()
    new = ls()["segments"] - before["segments"]
    assert 0 <= new <= 1, (before, ls())
    node.check(f"{len(sent)} segments sent twice", (0, 2))


def small_spool(relay):
    """Tests that a spool that is too small counts and reports what it removes; what is in the answer and what is counted add up to all lines."""
    small = Node(relay, "made2")
    relay.rule = lambda path: "refuse"
    small.start("--spool-size", "20KiB")
    for _ in range(12):
        small.write(400)
        time.sleep(0.6)
    until("a word of it", lambda: "had to go unsent" in small.said.read_text())
    relay.passes()
    small.stop(2)
    told = re.findall(r"(\d+) segments? with (\d+) observations? had", small.said.read_text())[-1]
    found, code, err, _ = small.told()
    lost = small.written - len(found)
    assert 0 < lost <= int(told[1]), (lost, told)
    assert code == 2 and "nothing is kept of made2 before" in err and "had to go unsent" in err, (code, err)
    say(f"a spool of 20 KiB: {lost} of {small.written} lines had to go, and {told[1]} observations are told as gone")


def at_once(node, *actions):
    """Runs several `kflow store` commands at the same time."""
    args = lambda a: [KFLOW, "store", a[0], node.store.url, *a[1:]]
    all = [subprocess.Popen(args(a), env=node.env(), stderr=subprocess.PIPE, text=True) for a in actions]
    said = []
    for p in all:
        said.append(p.communicate(timeout=PATIENCE)[1])
        assert p.returncode == 0, said
    return said


def refused(node):
    """Tests the errors for a store that does not exist, for missing rights, and for unusable settings: each is one sentence, without a key."""
    url = node.store.url

    def tell(what, told, *args, **variables):
        code, _, err = node.kflow(*args, **variables)
        assert code == 2 and told in err, f"{what}: {code}, {err}"
        assert "panicked" not in err and not [s for s in node.store.secrets if s in err], err
        say(f"{what}: {err.strip()[:200]}")

    tell("an empty store", "is empty", "calls", "--store", url)
    for what, told, url, variables in node.store.refusals():
        tell(what, told, "store", "ls", url, **variables)


def shifted(path, hours):
    """Renames a waiting segment as if it were some hours older."""

    def earlier(m):
        at = datetime.datetime.strptime(m[1], "%Y%m%dT%H%M%S") - datetime.timedelta(hours=hours)
        return at.strftime("%Y%m%dT%H%M%S") + m[2]

    path.rename(path.with_name(re.sub(r"(\d{8}T\d{6})(\.\d{9}Z)", earlier, path.name)))


def answers(node, line):
    """Checks that each reading command finds a line's pod, whose name leads to its node by the index."""
    pod = f"made/p-{node.name}-{line}"
    where = ["--store", node.store.url, "--from", "-5h", "-v"]
    for command in (["why", pod], ["timeline", pod], ["export", pod, "-o", "text"], ["requests", "--pod", pod], ["calls", "--pod", pod]):
        code, out, err = node.kflow(*command, *where)
        assert f" of {node.name}: " in err, (command, code, out, err)
        # Nobody records any more, and of the pod `why` can only say that, on standard error.
        said = out + err if command[0] == "why" else out
        assert pod in said or command[0] in ("requests", "calls"), (command, code, out, err)
    say(f"why, timeline, export, requests and calls of {pod}, by the index")


def compacted(node):
    """Tests several commands that compact and prune at the same time; one hour in the store is over."""
    node.relay.rule = lambda path: "refuse"
    node.start()
    node.write(20)
    early = node.written - 1
    time.sleep(FLUSHED)
    node.end()
    node.relay.passes()
    for name in node.waiting():
        shifted(node.spool / name, 2)
    node.run(20)
    said = at_once(node, ["compact"], ["compact"], ["prune", "--keep", "1d"])
    assert any(re.search(r"[1-9]\d* objects? of the index became", s) for s in said), said
    node.check("compacted by two at once, while a third prunes", (0, 2))
    answers(node, early)
    answers(node, node.written - 1)
    at_once(node, ["prune", "--keep", "1ms"], ["prune", "--keep", "1ms"], ["compact"])
    at_once(node, ["prune", "--keep", "1ms"])
    code, out, err = node.kflow("store", "ls", node.store.url, "-o", "json")
    assert (code, out) == (0, "[]\n"), (code, out, err)
    say("pruned by two at once, while a third compacts: nothing is left")


def unseen(relay):
    """Checks that no secret is in what was sent, kept or printed."""
    kept = [p for d in [DIR / "cache", DIR / "state", *DIR.glob("*.spool")] for p in d.rglob("*") if p.is_file()]
    for secret in map(str.encode, relay.store.secrets):
        for path, _, body in relay.puts:
            assert secret not in body and secret not in path.encode(), path
        for path in [*kept, *DIR.glob("*.said")]:
            assert secret not in path.read_bytes(), path


def run(store, relay, checks):
    """Starts the store, runs the checks, and removes everything in the end."""
    try:
        store.up()
        say("the store is up")
        checks()
        unseen(relay)
        say("well")
    except BaseException:
        for p in sorted([*DIR.glob("*.said"), *DIR.glob("*.log")]):
            print(f"{p.name}: {p.read_text(errors='replace')[-3000:]}", file=sys.stderr)
        raise
    finally:
        for process in Node.started:
            if process.poll() is None:
                process.kill()
        store.gone()
        shutil.rmtree(DIR, ignore_errors=True)
