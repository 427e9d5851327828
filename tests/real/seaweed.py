"""Recording into real object storage, and reading from it: nothing that fitted on the disk is lost, nothing is there twice.

  seaweed.py KFLOW WEED

A SeaweedFS of a master, three volume servers (each volume on two of them) and a filer with S3 that wants a key, all on loopback and
in a folder of their own. What is recorded is a kubelet's log in the form of a real one; its lines are invented, and numbered, so
that each can be looked for. Between the recorder and S3 stands a relay of HTTP that holds, refuses, repeats and reorders. Ports are
those that the system gives. As root, the disks that get full are file systems in memory.
"""

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
import urllib.error
import urllib.request

KFLOW, WEED = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
DIR = pathlib.Path(tempfile.mkdtemp(prefix="kflow-store."))
BEGAN = time.monotonic()
PATIENCE = 90
KEY, SECRET = "kflow-lab", "Kanarie0001q"
# Bytes are with the kernel half a second after they were seen (spool.rs, FLUSH).
FLUSHED = 1.2
ROOT = os.geteuid() == 0
MOUNTED = []


def say(text):
    print(f"  [{time.monotonic() - BEGAN:5.1f}s] {text}", flush=True)


def until(what, is_so, patience=PATIENCE):
    """Waits for something that comes by itself; what it is that came."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {patience} s")


def ports(n):
    """Ports that are free, and 10000 above them too: SeaweedFS has its gRPC there."""
    found = []
    while len(found) < n:
        port = random.randrange(20000, 32000)
        with socket.socket() as a, socket.socket() as b:
            try:
                a.bind(("127.0.0.1", port))
                b.bind(("127.0.0.1", port + 10000))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def disk(path, mebibytes):
    """A file system of its own, in memory."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "kflow-store", str(path)], check=True)
    MOUNTED.append(path)


def fill(folder):
    """Leaves no byte."""
    with open(folder / "ballast", "wb", buffering=0) as ballast:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                pass


class Seaweed:
    def __init__(self):
        self.master, self.filer, self.s3, *self.volumes = ports(6)
        self.running = {}
        for name in ["master", "filer", "v0", "v1"]:
            (DIR / name).mkdir()
        if ROOT:
            disk(DIR / "v2", 64)
        else:
            (DIR / "v2").mkdir()
        who = {"name": "lab", "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin", "Read", "Write", "List"]}
        (DIR / "s3.json").write_text(json.dumps({"identities": [who]}))

    def start(self, name):
        at = f"127.0.0.1:{self.master}"
        args = {
            "master": ["master", "-ip=127.0.0.1", f"-port={self.master}", "-mdir=.", "-defaultReplication=001", "-volumeSizeLimitMB=8"],
            "filer": [
                *["filer", "-ip=127.0.0.1", f"-port={self.filer}", f"-master={at}"],
                *["-s3", f"-s3.port={self.s3}", f"-s3.config={DIR / 's3.json'}"],
            ],
        }
        for n, port in enumerate(self.volumes):
            args[f"v{n}"] = ["volume", "-ip=127.0.0.1", f"-port={port}", f"-master={at}", "-dir=.", "-max=40"]
        with open(DIR / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [WEED, *args[name]], cwd=DIR / name, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self, name):
        server = self.running.pop(name)
        server.kill()
        server.wait()

    def takes(self):
        """The filer makes the bucket, and a file in it."""
        body = b'--x\r\nContent-Disposition: form-data; name="f"; filename="ready"\r\n\r\nx\r\n--x--\r\n'
        head = {"Content-Type": "multipart/form-data; boundary=x"}
        ask = urllib.request.Request(f"http://127.0.0.1:{self.filer}/buckets/kflow/ready", data=body, headers=head)
        try:
            urllib.request.urlopen(ask, timeout=5).close()
        except OSError:
            return False
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.s3)) == 0

    def up(self):
        for name in ["master", "v0", "v1", "v2", "filer"]:
            self.start(name)
        until("a store that takes something", self.takes)

    def down(self):
        for server in self.running.values():
            server.kill()
        for server in self.running.values():
            server.wait()


class Relay:
    """HTTP between the recorder and S3. `rule` is asked of each PUT and says what becomes of it:

    pass, refuse (503), before (held, never forwarded), after (forwarded, the answer is held)
    """

    def __init__(self, s3):
        self.rule = lambda path: "pass"
        self.puts, self.held = [], threading.Event()
        relay = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                rule = relay.rule(self.path) if self.command == "PUT" else "pass"
                if rule == "refuse":
                    return self.answer(503, [], b"")
                if rule == "before":
                    return self.hold()
                head = list(self.headers.items())
                if self.command == "PUT":
                    relay.puts.append((self.path, head, body))
                try:
                    code, headers, got = relay.forward(s3, self.command, self.path, head, body)
                except OSError:
                    return self.answer(502, [], b"")
                if rule == "after":
                    return self.hold()
                self.answer(code, headers, got)

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = do

            def hold(self):
                relay.held.set()
                # Until the one who waits for the answer is gone.
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

    @staticmethod
    def forward(s3, method, path, head, body):
        to = http.client.HTTPConnection("127.0.0.1", s3, timeout=30)
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
    """A kubelet's log, and a recorder that follows it."""

    def __init__(self, relay, name, spool=None):
        self.name, self.relay = name, relay
        self.log = DIR / f"{name}.kubelet.log"
        self.spool = spool or DIR / f"{name}.spool"
        self.said = DIR / f"{name}.said"
        self.written = 0
        self.process = None
        self.log.touch()

    def env(self, **other):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "KFLOW_"))}
        env |= {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": f"http://127.0.0.1:{self.relay.port}",
            "AWS_ALLOW_HTTP": "true",
            "XDG_CACHE_HOME": str(DIR / "cache"),
            "XDG_STATE_HOME": str(DIR / "state"),
            "KUBECONFIG": "/no/such/kubeconfig",
        }
        return env | other

    def start(self, *more, segment="1s"):
        args = [KFLOW, "record", "--no-api", "--tap", "off", "--node", self.name, "--kubelet-log", str(self.log)]
        args += ["--store", "s3://kflow/pre/fix", "--cluster", "lab", "--spool", str(self.spool), "--segment", segment, *more]
        with open(self.said, "ab") as said:
            begin = said.tell()
            self.process = subprocess.Popen(args, env=self.env(), stdout=said, stderr=said, stdin=subprocess.DEVNULL)
        until("a recorder that reads the log", lambda: b": on (following" in self.said.read_bytes()[begin:] or self.ended())

    def ended(self):
        assert self.process.poll() is None, self.said.read_text()

    def write(self, n):
        """So many lines, each about a pod of its own."""
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
        """Segments in the spool that the store does not have, the one that is written too."""
        names = [p.name for p in self.spool.glob("*.kflow.zst")]
        return [n for n in names if ".sent." not in n]

    def closed(self):
        return [n for n in self.waiting() if ".open." not in n]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, code=0):
        self.process.send_signal(signal.SIGINT)
        ended = self.process.wait(timeout=PATIENCE)
        assert ended == code, f"ended with {ended}: {self.said.read_text()}"

    def kflow(self, *args, **other):
        done = subprocess.run([KFLOW, *args], env=self.env(**other), capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stdout, done.stderr

    def read(self, *args):
        return self.kflow(*args, "--store", "s3://kflow/pre/fix", "--node", self.name, "--from", "-1h", "-v")

    def told(self):
        """The numbers of the lines that an answer has, its exit code, and what it said."""
        code, out, err = self.read("timeline", "-o", "name")
        names = [int(n) for n in re.findall(rf"p-{self.name}-(\d+)\b", out)]
        assert len(names) == len(set(names)), "a pod is told twice"
        parts = re.findall(r"Z\.([0-9a-f]{16}-\d+)\.\d+\.kflow\.zst", err)
        assert parts and len(parts) == len(set(parts)), f"a segment is there twice\n{err}"
        return set(names), code, err, len(parts)

    def check(self, what, codes=(0,)):
        """Every line that was written is in the answer, and no segment is in it twice."""
        found, code, err, parts = self.told()
        missing = sorted(set(range(self.written)) - found)
        assert not missing, f"{what}: {len(missing)} of {self.written} lines are missing: {missing[:10]}\n{err}"
        assert code in codes, f"{what}: exit code {code}\n{err}"
        say(f"{what}: all {self.written} lines, in {parts} segments")

    def run(self, n, code=0):
        """Records so many lines and ends."""
        self.start()
        self.write(n)
        time.sleep(FLUSHED)
        self.stop(code)
        assert not self.waiting(), self.waiting()


def broken_parts(weed, node):
    """A volume server that is killed, one that is full, a store that is away."""
    node.start()
    node.write(50)
    until("a segment in the store", lambda: list(node.spool.glob("*.sent.kflow.zst")))
    weed.kill("v1")
    for _ in range(5):
        node.write(50)
        time.sleep(0.5)
    node.stop()
    assert not node.waiting(), node.waiting()
    node.check("one of three volume servers killed")
    weed.start("v1")
    until("a store that takes something", weed.takes)

    if ROOT:
        fill(DIR / "v2")
        node.run(50)
        node.check("another volume server without a free byte")
        (DIR / "v2" / "ballast").unlink()
    else:
        say("LEFT OUT: a full volume server (not root)")

    node.start()
    weed.kill("filer")
    for _ in range(4):
        node.write(50)
        time.sleep(0.6)
    until("what waits", lambda: len(node.closed()) >= 2)
    until("a word of it", lambda: "segments wait to be sent" in node.said.read_text())
    weed.start("filer")
    until("a store that takes something", weed.takes)
    until("all sent", lambda: not node.closed())
    until("a word of it", lambda: "segments are sent again" in node.said.read_text())
    node.stop()
    node.check("the store away meanwhile")


def killed(relay, node, chance):
    """kill -9 in every phase of a segment."""

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
        node.check(f"killed {what}", (0, 2))

    phase("while a segment is open", None, None, segment="1h")
    phase("with one closed and not sent", "refuse", "/")
    phase("while it is sent", "before", "/segments/")
    phase("between the segment and its pods", "before", "/pods/")
    phase("with all sent and no answer yet", "after", "/pods/")
    for _ in range(8):
        node.start()
        node.write(20)
        time.sleep(FLUSHED + chance.random())
        node.kill()
    node.start()
    node.stop()
    assert not node.waiting(), node.waiting()
    node.check("killed 8 times more, at random", (0, 2))


def repeated(weed, relay, node, chance):
    """Uploads that arrive again, late and in another order."""
    ls = lambda: json.loads(node.kflow("store", "ls", "s3://kflow/pre/fix", "-o", "json")[1])[0]
    before = ls()
    puts = list(relay.puts)
    chance.shuffle(puts)
    for path, head, body in puts:
        code = relay.forward(weed.s3, "PUT", path, head, body)[0]
        assert code == 200, code
    assert ls() == before, (before, ls())
    node.check(f"{len(puts)} uploads once more, in another order", (0, 2))
    # As if nothing had been marked as sent.
    sent = list(node.spool.glob("*.sent.kflow.zst"))
    for path in sent:
        path.rename(str(path).replace(".sent.", "."))
    node.start()
    node.stop()
    assert not node.waiting(), node.waiting()
    new = ls()["segments"] - before["segments"]
    assert 0 <= new <= 1, (before, ls())
    node.check(f"{len(sent)} segments sent twice", (0, 2))


def full_spools(relay):
    """What had to go is counted and told, and what is in the answer and what is counted is all."""
    small = Node(relay, "made2")
    relay.rule = lambda path: "refuse"
    small.start("--spool-size", "20KiB")
    for _ in range(12):
        small.write(400)
        time.sleep(0.6)
    until("a word of it", lambda: "went before the store had them" in small.said.read_text())
    relay.passes()
    small.stop(2)
    told = re.findall(r"(\d+) segments with (\d+) observations went", small.said.read_text())[-1]
    found, code, err, _ = small.told()
    lost = small.written - len(found)
    assert 0 < lost <= int(told[1]), (lost, told)
    assert code == 2 and "nothing is kept of made2 before" in err and "went before the store had them" in err, (code, err)
    say(f"a spool of 20 KiB: {lost} of {small.written} lines had to go, and {told[1]} observations are told as gone")

    if not ROOT:
        return say("LEFT OUT: a full disk of the spool (not root)")
    disk(DIR / "disk", 400)
    full = Node(relay, "made3", DIR / "disk" / "spool")
    full.start()
    full.write(100)
    time.sleep(FLUSHED)
    fill(DIR / "disk")
    full.write(100)
    until("a word of it", lambda: "the spool is not written" in full.said.read_text())
    # The word may come before those lines were read: these are read while there is no room.
    full.write(100)
    time.sleep(FLUSHED)
    (DIR / "disk" / "ballast").unlink()
    until("a word of it", lambda: "the spool is written again" in full.said.read_text())
    full.write(100)
    time.sleep(FLUSHED)
    full.stop(2)
    told = int(re.findall(r"(\d+) lost;", full.said.read_text())[-1])
    found, code, err, _ = full.told()
    missing = set(range(full.written)) - found
    assert missing and not missing - set(range(100, 300)), missing
    assert len(missing) <= told, (len(missing), told)
    say(f"the spool's disk without a free byte: {len(missing)} of {full.written} lines are missing, {told} observations are told as lost")


def at_once(node, *actions):
    """Several of `kflow store` at the same time."""
    args = lambda a: [KFLOW, "store", a[0], "s3://kflow/pre/fix", *a[1:]]
    all = [subprocess.Popen(args(a), env=node.env(), stderr=subprocess.PIPE, text=True) for a in actions]
    for p in all:
        said = p.communicate(timeout=PATIENCE)[1]
        assert p.returncode == 0, said


def main():
    weed = Seaweed()
    relay = Relay(weed.s3)
    node = Node(relay, "made1")
    chance = random.Random(7)
    try:
        weed.up()
        say("SeaweedFS is up")
        # What is not there, and who may not ask.
        code, _, err = node.kflow("calls", "--store", "s3://kflow/pre/fix")
        assert code == 2 and "is empty" in err, err
        code, _, err = node.kflow("store", "ls", "s3://kflow/pre/fix", AWS_SECRET_ACCESS_KEY="Kanarie0002q")
        assert code == 2 and "Kanarie" not in err and KEY not in err, err
        assert "does not know these credentials" in err and "AWS_SECRET_ACCESS_KEY" in err, err
        say(f"with a wrong key: {err.strip()[:160]}")
        code, _, err = node.kflow("store", "ls", "s3://kflow-none/pre")
        assert code == 2 and "there is no such bucket" in err, err
        say(f"with another bucket: {err.strip()[:160]}")
        code, _, err = node.kflow("store", "ls", "s3://kflow/pre/fix", AWS_ENDPOINT="http://store.invalid:8333")
        assert code == 2 and "host is not known" in err, err
        say(f"with another host: {err.strip()[:160]}")

        broken_parts(weed, node)
        killed(relay, node, chance)
        repeated(weed, relay, node, chance)
        full_spools(relay)

        at_once(node, ["compact"], ["compact"], ["prune", "--keep", "1d"])
        node.check("compacted by two at once, while a third prunes", (0, 2))
        last = f"made/p-made1-{node.written - 1}"
        code, out, err = node.kflow("why", last, "--store", "s3://kflow/pre/fix", "--from", "-1h", "-v")
        assert "segments of made1:" in err, err
        at_once(node, ["prune", "--keep", "0s"], ["prune", "--keep", "0s"], ["compact"])
        at_once(node, ["prune", "--keep", "0s"])
        code, out, err = node.kflow("store", "ls", "s3://kflow/pre/fix", "-o", "json")
        assert (code, out) == (0, "[]\n"), (code, out, err)
        say("pruned by two at once, while a third compacts: nothing is left")

        # The secret is in nothing that was sent, kept or said.
        for path, _, body in relay.puts:
            assert SECRET.encode() not in body and SECRET not in path, path
        for folder in [DIR / "cache", DIR / "state", *DIR.glob("*.spool")]:
            for path in folder.rglob("*"):
                assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
        assert not any(SECRET in p.read_text() for p in DIR.glob("*.said"))
        say("well")
    except BaseException:
        for p in sorted(DIR.glob("*.said")):
            print(f"{p.name}: {p.read_text()[-3000:]}", file=sys.stderr)
        raise
    finally:
        for p in [node.process]:
            if p and p.poll() is None:
                p.kill()
        weed.down()
        for path in MOUNTED:
            subprocess.run(["umount", "-l", str(path)], check=False)
        shutil.rmtree(DIR, ignore_errors=True)


main()
