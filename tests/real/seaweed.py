"""Tests recording into SeaweedFS and reading from it (objects.py): a real S3 server whose parts are killed and get full.

  seaweed.py KFLOW WEED

SeaweedFS runs as a master, three volume servers (each volume on two of them) and a filer with an S3 gateway that requires a key, all on
loopback and in a folder of their own, on free ports. As root, the disks that get full are file systems in memory.
"""

import json
import os
import pathlib
import random
import re
import socket
import subprocess
import sys
import time
import urllib.request

from objects import DIR, FLUSHED, Node, Relay, away, compacted, killed, ports, refused, repeated, run, say, small_spool, until

WEED = str(pathlib.Path(sys.argv[2]).resolve())
KEY, SECRET = "kflow-lab", "Kanarie0001q"
ROOT = os.geteuid() == 0
MOUNTED = []


def disk(path, mebibytes):
    """Makes a file system in memory."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "kflow-store", str(path)], check=True)
    MOUNTED.append(path)


def fill(folder):
    """Fills the disk to the last byte."""
    with open(folder / "ballast", "wb", buffering=0) as ballast:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                pass


class Seaweed:
    url = "s3://kflow/pre/fix"
    secrets = [SECRET]
    put = None

    def __init__(self):
        self.master, self.filer, self.port, *self.volumes = ports(6)
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
            "master": [
                *["master", "-ip=127.0.0.1", f"-port={self.master}", "-mdir=.", "-telemetry=false"],
                *["-defaultReplication=001", "-volumeSizeLimitMB=8"],
            ],
            # Iceberg's and Lance's ports are the same for every filer of a machine, and a filer that cannot bind them ends.
            "filer": [
                *["filer", "-ip=127.0.0.1", f"-port={self.filer}", f"-master={at}", f"-localSocket={DIR / 'filer.sock'}"],
                *["-s3", f"-s3.port={self.port}", f"-s3.config={DIR / 's3.json'}", f"-s3.localSocket={DIR / 's3.sock'}"],
                *["-s3.port.iceberg=0", "-s3.port.lance=0"],
            ],
        }
        for n, port in enumerate(self.volumes):
            args[f"v{n}"] = ["volume", "-ip=127.0.0.1", f"-port={port}", f"-master={at}", "-dir=.", "-max=40", "-minFreeSpace=1MiB"]
        with open(DIR / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [WEED, *args[name]], cwd=DIR / name, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    def kill(self, name):
        server = self.running.pop(name)
        server.kill()
        server.wait()

    def takes(self):
        """Returns true once the filer has made the bucket and a file in it."""
        for name, server in self.running.items():
            assert server.poll() is None, f"{name} ended with {server.returncode}: its log is below"
        body = b'--x\r\nContent-Disposition: form-data; name="f"; filename="ready"\r\n\r\nx\r\n--x--\r\n'
        head = {"Content-Type": "multipart/form-data; boundary=x"}
        ask = urllib.request.Request(f"http://127.0.0.1:{self.filer}/buckets/kflow/ready", data=body, headers=head)
        try:
            urllib.request.urlopen(ask, timeout=5).close()
        except OSError:
            return False
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def up(self):
        for name in ["master", "v0", "v1", "v2", "filer"]:
            if name not in self.running:
                self.start(name)
        until("a store that takes something", self.takes)

    def down(self):
        self.kill("filer")

    def gone(self):
        for server in self.running.values():
            server.kill()
        for server in self.running.values():
            server.wait()
        for path in MOUNTED:
            subprocess.run(["umount", "-l", str(path)], check=False)

    @staticmethod
    def env(port):
        # Without TLS kflow needs no certificate authorities: an image from scratch has none.
        return {
            "SSL_CERT_FILE": "/no/such/file",
            "SSL_CERT_DIR": "/no/such/folder",
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "1",
        }

    def refusals(self):
        system = {"SSL_CERT_FILE": None, "SSL_CERT_DIR": None}
        yield "a wrong key", "does not know these credentials", self.url, {"AWS_SECRET_ACCESS_KEY": "Kanarie0002q"}
        yield "another bucket", "there is no such bucket", "s3://kflow-none/pre", {}
        yield "another host", "host is not known", self.url, {"AWS_ENDPOINT": "http://store.invalid:8333"}
        yield "no TLS, and it is not allowed", "AWS_ALLOW_HTTP", self.url, system | {"AWS_ALLOW_HTTP": "false"}
        yield "no authorities of TLS", "SSL_CERT_FILE", self.url, {"AWS_ALLOW_HTTP": "false"}
        yield "an endpoint that is no URL", "AWS_ENDPOINT", self.url, {"AWS_ENDPOINT": "minio:9000"}
        yield "a region that is none", "AWS_REGION", self.url, {"AWS_REGION": "eu west"}
        yield "a key with the line break of its file", "AWS_ACCESS_KEY_ID", self.url, {"AWS_ACCESS_KEY_ID": KEY + "\n"}


def broken_parts(weed, node):
    """Tests a volume server that is killed, and one that is full."""
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

    if not ROOT:
        return say("LEFT OUT: a full volume server (not root)")
    fill(DIR / "v2")
    node.run(50)
    node.check("another volume server without a free byte")
    (DIR / "v2" / "ballast").unlink()


def full_disk(relay):
    """Tests a full disk under the spool."""
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
    # The message may come before the lines above were read. The next lines are certainly read while the disk is full.
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


weed = Seaweed()
relay = Relay(weed)
node = Node(relay, "made1")
chance = random.Random(7)


def checks():
    refused(node)
    broken_parts(weed, node)
    away(node)
    killed(relay, node, chance, 8)
    killed(relay, Node(relay, "made4", agent=True), chance, 3)
    repeated(relay, node, chance)
    small_spool(relay)
    full_disk(relay)
    compacted(node)


run(weed, relay, checks)
