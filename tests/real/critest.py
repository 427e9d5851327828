"""Runs critest against a containerd that tests/real/run.sh started: directly, through kflow's proxy, and with its tap attached.

    critest.py CRITEST KFLOW [flags of critest]

Prints how many specs passed, failed and were skipped in each run, every spec whose verdict is not that of the direct run,
and what kflow recorded. Exits 0 when all verdicts are the same.
"""

import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CRITEST, KFLOW, FLAGS = sys.argv[1], sys.argv[2], sys.argv[3:]
REAL = os.environ["KFLOW_REAL"]
SOCKET = f"{REAL}/run/containerd.sock"
BRIDGE = "kflow-critest0"

PASSWD = "root:x:0:0:root:/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\ndefault-user:x:1000:1000::/:/bin/sh\n"
GROUP = "root:x:0:\nwww-data:x:33:\nusers:x:100:\ngroup-defined-in-image:x:50000:default-user\n"
PAGE = "<h1>Welcome to nginx!</h1><h1>It works!</h1>\n"


def root():
    """Busybox with a user for each test, as a layer."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:

        def add(name, kind, data=b"", mode=0o755, link=""):
            info = tarfile.TarInfo(name)
            info.type, info.mode, info.linkname, info.size = kind, mode, link, len(data)
            tar.addfile(info, io.BytesIO(data))

        for name in ("bin", "etc", "tmp", "www", "var", "var/lib", "proc", "sys", "dev", "home"):
            add(name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)
        with open("/bin/busybox", "rb") as f:
            add("bin/busybox", tarfile.REGTYPE, f.read())
        for applet in subprocess.check_output(["/bin/busybox", "--list"], text=True).split():
            if applet != "busybox":
                add(f"bin/{applet}", tarfile.SYMTYPE, link="busybox")
        for name, text in (("etc/passwd", PASSWD), ("etc/group", GROUP), ("www/index.html", PAGE)):
            add(name, tarfile.REGTYPE, text.encode(), 0o644)
    return raw.getvalue()


LAYER = root()
DIFF = "sha256:" + hashlib.sha256(LAYER).hexdigest()
PACKED = gzip.compress(LAYER, 1, mtime=0)
OCI = "application/vnd.oci.image."
BLOBS, TYPES = {}, {}


def put(data, kind):
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    BLOBS[digest], TYPES[digest] = data, OCI + kind
    return {"mediaType": OCI + kind, "digest": digest, "size": len(data)}


def image(name, tag):
    """Returns the image of a name: what cri-tools' own images/*/Dockerfile make, as far as busybox can do it."""
    users = {
        "test-image-user-uid": "1002",
        "test-image-user-username": "www-data",
        "test-image-user-uid-group": "1003:users",
        "test-image-user-username-group": "www-data:100",
        "test-image-predefined-group": "default-user",
    }
    config = {"Cmd": ["sh"], "Env": ["PATH=/bin"]}
    if name in users:
        config["User"] = users[name]
    if name in ("nginx", "httpd", "hostnet-nginx", "hostnet-nginx-amd64"):
        port = "12003" if name.startswith("hostnet") else "80"
        config["Cmd"] = ["httpd", "-f", "-p", port, "-h", "/www"]
    # Tags of one name are one image where critest wants that.
    config["Labels"] = {"of": name if name == "test-image-tags" else f"{name}:{tag}"}
    machine = "amd64" if os.uname().machine == "x86_64" else "arm64"
    whole = {"architecture": machine, "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": [DIFF]}}
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI + "manifest.v1+json",
        "config": put(json.dumps(whole).encode(), "config.v1+json"),
        "layers": [put(PACKED, "layer.v1.tar+gzip")],
    }
    return put(json.dumps(manifest).encode(), "manifest.v1+json")["digest"]


class Registry(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, body):
        parts = self.path.split("?")[0].strip("/").split("/")
        digest = parts[-1]
        if digest not in BLOBS and len(parts) > 3 and parts[-2] == "manifests" and not digest.startswith("sha256:"):
            # critest pulls one name that must not be there.
            digest = "" if "nonexistent" in self.path else image(parts[-3], parts[-1])
        data = BLOBS.get(digest)
        if parts == ["v2"]:
            data, digest = b"", None
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Length", str(len(data or b"")))
        if data is not None and digest:
            self.send_header("Content-Type", TYPES[digest])
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()
        if body and data:
            self.wfile.write(data)


def prepare():
    """Sets up a network, and the registry for every host, and restarts containerd with them."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    os.makedirs(f"{REAL}/certs.d/_default")
    with open(f"{REAL}/certs.d/_default/hosts.toml", "w") as f:
        f.write(f'server = "{url}"\n[host."{url}"]\ncapabilities = ["pull", "resolve"]\n')
    os.rmdir(f"{REAL}/cni/bin")
    os.symlink("/usr/lib/cni", f"{REAL}/cni/bin")
    network = {
        "cniVersion": "1.0.0",
        "name": "critest",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isGateway": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": f"{REAL}/cni/ips",
                    "ranges": [[{"subnet": "10.213.77.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }
    with open(f"{REAL}/cni/conf/10-critest.conflist", "w") as f:
        json.dump(network, f)
    subprocess.run([f"{REAL}/stop"], check=True)
    subprocess.run([f"{REAL}/start"], check=True)
    wait(lambda: subprocess.run(["ctr", "-a", SOCKET, "version"], capture_output=True).returncode == 0, "containerd")


def wait(ready, what):
    end = time.monotonic() + 60
    while not ready():
        if time.monotonic() > end:
            raise SystemExit(f"never: {what}")
        time.sleep(0.05)


def critest(name, socket):
    """Runs critest; returns the verdict of each spec."""
    report, begin = f"{REAL}/{name}.json", time.monotonic()
    with open(f"{REAL}/{name}.log", "w") as log:
        subprocess.run(
            [
                CRITEST,
                f"-runtime-endpoint=unix://{socket}",
                # The same order in each run.
                "-ginkgo.seed=1",
                f"-ginkgo.json-report={report}",
                "-ginkgo.no-color",
                "-config=/dev/null",
                *FLAGS,
            ],
            stdout=log,
            stderr=log,
            cwd=REAL,
        )
    if keep := os.environ.get("KFLOW_KEEP_LOG"):
        subprocess.run(["cp", f"{REAL}/{name}.log", f"{keep}.{name}"], check=True)
    try:
        with open(report) as f:
            suites = json.load(f)
    except OSError:
        with open(f"{REAL}/{name}.log") as f:
            raise SystemExit(f"critest wrote no report: {f.read()[-2000:]}") from None
    specs = {}
    for spec in suites[0]["SpecReports"]:
        if spec["LeafNodeType"] == "It":
            specs[" ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])] = spec["State"]
    count = Counter(specs.values())
    said = ", ".join(f"{count[state]} {state}" for state in sorted(count))
    print(f"{name:10} {said}; {time.monotonic() - begin:.0f} s", flush=True)
    return specs


def start(args, ready, what):
    log = open(f"{REAL}/kflow.log", "a")
    process = subprocess.Popen([KFLOW, *args], stdout=log, stderr=log)

    def asked():
        if process.poll() is not None:
            with open(f"{REAL}/kflow.log") as f:
                raise SystemExit(f"{what} ended: {f.read()[-2000:]}")
        return ready()

    wait(asked, what)
    return process


def end(process):
    process.send_signal(signal.SIGINT)
    process.wait(60)


def recorded(name, file):
    """Returns how many calls a recording has, and what it lost."""
    rows = subprocess.run(
        [KFLOW, "calls", "--session", file, "-o", "jsonl"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    outcomes = Counter(json.loads(row)["outcome"] or "in flight" for row in rows)
    print(f"{name:10} recorded {len(rows)} calls: {dict(sorted(outcomes.items()))}", flush=True)


def main():
    prepare()
    same = True
    try:
        direct = critest("direct", SOCKET)

        listen, serve, file = f"{REAL}/run/cri.sock", f"{REAL}/run/obs.sock", f"{REAL}/proxy.kflow.zst"
        os.chmod(f"{REAL}/run", 0o700)
        proxy = start(
            ["proxy", "--listen", listen, "--upstream", SOCKET, "--serve", serve],
            lambda: os.path.exists(listen) and os.path.exists(serve),
            "the proxy",
        )
        record = start(["record", "--proxy", serve, "-O", file], lambda: says("cri proxy: on"), "the recorder")
        proxied = critest("proxy", listen)
        end(record)
        end(proxy)
        recorded("proxy", file)
        same &= compare("through the proxy", direct, proxied)

        file = f"{REAL}/tap.kflow.zst"
        tap = start(
            ["record", "--tap", "ebpf", "--runtime", SOCKET, "-O", file], lambda: says("cri tap: on"), "the tap"
        )
        tapped = critest("tap", SOCKET)
        end(tap)
        recorded("tap", file)
        same &= compare("beside the tap", direct, tapped)
    finally:
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)
    sys.exit(not same)


def says(what):
    """Returns true once kflow has said so in its output."""
    with open(f"{REAL}/kflow.log") as f:
        return f"kflow: {what}" in f.read()


def compare(how, direct, other):
    differ = [n for n in sorted(direct.keys() | other.keys()) if direct.get(n) != other.get(n)]
    for name in differ:
        print(f"DIFFERS {how}: {name}: {direct.get(name)} directly, {other.get(name)} {how}")
    if not differ:
        print(f"{how}: all {len(direct)} verdicts are those of the direct run")
    return not differ


main()
