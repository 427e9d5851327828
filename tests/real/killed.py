"""Kills (SIGKILL) an agent, and the commands that maintain its store, at each kind of their steps. strace holds up a system call of
one of their threads, and the process is killed there. The store is a folder, so that each step is such a call (spool.rs, upload.rs and compact.rs of crates/store).

  killed.py KFLOW

After each kill, and after the next process has run: what was on the disk, in the spool or in the store, is in the answer; nothing is in it twice;
and a pod's name leads to its node.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from objects import DIR, FLUSHED, KFLOW, PATIENCE, Node, Relay, run, say, shifted, until

# Threads of an agent, by prefixes of their names. Tokio's blocking threads write the store's files.
SPOOL, SEND, WAIT = ("kflow-spool",), ("kflow-upload",), ("tokio",)
# How long strace holds up each such call, in seconds: time to see the call and to kill the process.
DELAY = 0.4
# The spool soon removes segments that the store has.
GOES = ("--spool-age", "1s")


class Folder:
    """A store in a folder, which needs no server and no credentials."""

    url = f"file://{DIR}/store"
    secrets = []
    put = None
    port = 0

    @staticmethod
    def env(_):
        return {}

    def up(self):
        """Does nothing: a folder needs no start."""

    gone = up


class Agent(Node):
    """A kubelet's log, and an agent that follows it."""

    # Numbers of the lines that have to be in the answer.
    must = set()
    # Those of them in segments that were renamed to an earlier hour.
    early = set()

    def __init__(self):
        super().__init__(Relay(Folder()), "made1", agent=True)

    def threads(self, names):
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return [t.name for t in tasks.iterdir() if (t / "comm").read_text().startswith(names)]

    def numbers(self, out):
        return {int(n) for n in re.findall(rf"p-{self.name}-(\d+)\b", out)}

    def on_disk(self):
        """Returns the lines that can be read in the store, and in each file of the spool that the store does not have."""
        lines = set()
        if list(DIR.glob("store/lab/segments/*/*/*/*.kflow.zst")):
            lines |= self.numbers(self.read("timeline", "-o", "name")[1])
        for name in self.waiting():
            lines |= self.numbers(self.kflow("timeline", "-o", "name", "-s", str(self.spool / name))[1])
        return lines

    def flushed(self, count):
        """So many lines, which are with the kernel."""
        self.write(count)
        time.sleep(FLUSHED)
        return set(range(self.written - count, self.written))

    def killed(self, what, call, path, of=None, again=None):
        """Killed as it enters a system call for a path: of these threads of one that runs and has lines on the disk; without them, of one that
        begins."""
        strace = traced(call)
        if of:
            there = set(self.spool.glob("*.sent.*"))
            self.start(*GOES)
            self.must |= self.flushed(20)
            if of == WAIT:
                until("a thread that has written into the store", lambda: set(self.spool.glob("*.sent.*")) - there)
            strace = [*strace, *(arg for t in self.threads(of) for arg in ("-p", t))]
            with open(self.said, "ab") as said:
                tracer = subprocess.Popen(strace, stderr=said)
            Node.started.append(tracer)
        else:
            self.start(*GOES, before=[*strace, "-f"])
            tracer = self.process
        entered = lambda: entering(call, path)
        end = time.monotonic() + PATIENCE / 3
        while not entered():
            assert time.monotonic() < end, f"{what}: never seen: {(DIR / 'trace').read_text(errors='replace')[-2000:]}"
            assert tracer.poll() is None, f"{what}: {self.said.read_text()[-2000:]}"
            # The agent needs something to keep and send.
            if of:
                self.write(5)
            time.sleep(0.05)
        pid = self.process.pid if of else int(entered())
        os.kill(pid, signal.SIGKILL)
        tracer.wait(PATIENCE)
        self.process.wait(PATIENCE)
        if again:
            return self.killed(f"{what}, and the next while it closes that", *again)
        self.survives(what)

    def survives(self, what):
        kept = self.on_disk()
        lost = sorted(self.must - kept)
        assert not lost, f"{what}: {lost[:10]} were flushed, and are not on the disk"
        self.start(*GOES)
        until("all sent", lambda: not self.closed())
        self.stop()
        assert not self.waiting(), self.waiting()
        self.holds(what, kept)
        self.must |= kept

    def holds(self, what, kept):
        found, code, err, parts = self.told()
        lost = sorted(kept - found)
        assert not lost, f"{what}: {len(lost)} lines that were on the disk are lost: {lost[:10]}\n{err}"
        assert code in (0, 2), f"{what}: exit code {code}\n{err}"
        pod = f"made/p-{self.name}-{max(kept)}"
        _, _, err = self.kflow("timeline", pod, "--store", self.store.url, "--from", "-5h", "-v")
        assert f" of {self.name}: " in err, f"{what}: {pod} leads nowhere\n{err}"
        if what:
            say(f"killed {what}: {len(found)} lines in {parts} segments")


def traced(call):
    """Returns the strace command that delays such calls and logs them."""
    trace = DIR / "trace"
    trace.write_bytes(b"")
    delay = f"inject={call}:delay_enter={int(DELAY * 1e6)}"
    return ["strace", "-qq", "-y", "-s", "0", "-o", str(trace), "-e", f"trace={call}", "-e", "signal=none", "-e", delay]


def entering(call, path):
    """Returns the thread that is entering such a call for such a path; None if there is none."""
    for line in reversed((DIR / "trace").read_text(errors="replace").splitlines()):
        m = re.match(rf"(\d* *){call}\((.*)", line)
        if m and re.search(path, m[2]) and not re.search(r"\) += ", m[2]):
            return m[1].strip() or "the only one"
    return None


def of_earlier_hours(agent, *hours):
    """Makes waiting segments, one for each of `hours`, dated that many hours ago."""
    there = set(agent.closed())
    for back in hours:
        agent.start(store=False)
        lines = agent.flushed(5)
        agent.must |= lines
        if back:
            agent.early |= lines
        agent.stop()
        (new,) = set(agent.closed()) - there
        shifted(agent.spool / new, back)
        there = set(agent.closed())


def files():
    """Returns the complete files of the store."""
    return sorted(str(p) for p in (DIR / "store").rglob("*") if p.is_file() and "#" not in p.name)


def phases(agent):
    """Kills an agent in each phase of recording, of sending, and of merging an hour's index in the store."""
    opened, waits, sent = r"spool/.*\.open\.", r"spool/[^<]*\.kflow\.zst", r"spool/.*\.sent\."
    of_earlier_hours(agent, 3, 3, 2)
    agent.killed("making the store's folders", "mkdir", r"/segments/")
    agent.killed("before a segment is opened", "openat", opened, SPOOL)
    agent.killed("while a segment is written", "write", opened, SPOOL)
    agent.killed("before a segment is on the disk", "fsync", opened, SPOOL)
    agent.killed("before a segment is closed", "rename", opened, SPOOL, again=("rename", opened))
    agent.killed("before a segment is read to be sent", "openat", waits, WAIT)
    for what, path in [("a segment", r"/segments/.*\.kflow\.zst"), ("the index of a segment", r"/pods/.*\.jsonl\.zst")]:
        agent.killed(f"before {what} is sent", "openat", path + "#", WAIT)
        agent.killed(f"while {what} is sent", "write", path, WAIT)
        agent.killed(f"before {what} is on the store's disk", "fsync", path, WAIT)
        agent.killed(f"before {what} has its name", "rename", path, WAIT)
    agent.killed("before a segment that was sent is marked so", "rename", sent, SEND)
    agent.killed("before a segment that was sent goes from the spool", "unlink", sent, SPOOL)
    for what, call, path in [
        ("before a merged index has its name", "rename", "/merged-"),
        ("before what was merged goes", "unlink", r"/pods/.*\.jsonl\.zst"),
    ]:
        of_earlier_hours(agent, 3, 3, 2)
        agent.killed(what, call, path)


def commands(agent):
    """Kills `kflow store` at each of its calls that change something, one by one, and then lets it run to the end. The store is a new one,
    because each answer takes longer the more is in it."""
    shutil.rmtree(DIR / "store")
    agent.must, agent.early = set(), set()
    of_earlier_hours(agent, 3, 3, 2, 2)
    agent.start()
    until("all sent", lambda: not agent.closed())
    agent.stop()
    lines = agent.on_disk()
    kept = DIR / "kept"
    shutil.copytree(DIR / "store", kept)

    def restored():
        shutil.rmtree(DIR / "store")
        shutil.copytree(kept, DIR / "store")

    def store(*args, before=()):
        args = [*before, KFLOW, "store", args[0], agent.store.url, *args[1:]]
        done = subprocess.run(args, env=agent.env(), capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    for args, must in [(["compact"], lines), (["prune", "--keep", "1h"], lines - agent.early)]:
        restored()
        before = files()
        assert store(*args)[0] == 0
        done = files()
        assert done != before, args
        kills = 0
        for call in ("fsync", "rename", "unlink", "rmdir"):
            for n in range(1, 500):
                restored()
                inject = f"inject={call}:signal=SIGKILL:when={n}"
                strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
                code, said = store(*args, before=strace)
                if code == 0:
                    break
                assert code == -signal.SIGKILL, (code, said)
                if files() == before:
                    continue
                kills += 1
                agent.holds(None, must)
                assert store(*args)[0] == 0
                assert files() == done, (args, call, n)
        agent.holds(None, must)
        assert kills > 3, kills
        say(f"`store {' '.join(args)}` killed at {kills} of its calls after the first change: every line that stays")


def checks():
    agent = Agent()
    phases(agent)
    commands(agent)


run(Folder(), Relay(Folder()), checks)
