"""A registry of one image, for tests of pulls: it sends layers at a rate, and may stop within one.

usage: registry.py PORT_FILE LAYERS BYTES_PER_LAYER BYTES_PER_SECOND [STALL_LAYER STALL_BYTES]

Serves `/v2/slow/app` with every tag on 127.0.0.1, on a port that it writes to PORT_FILE. Layer STALL_LAYER (from 1) stands
still after STALL_BYTES, until the file PORT_FILE.go exists.
"""

import gzip
import hashlib
import io
import json
import os
import random
import sys
import tarfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port_file, layers, size, rate = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
stall = (int(sys.argv[5]) - 1, int(sys.argv[6])) if len(sys.argv) > 6 else None
chance = random.Random(1)
blobs, types, descriptors, diffs = {}, {}, [], []


def put(data, kind):
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    blobs[digest], types[digest] = data, kind
    return {"mediaType": kind, "digest": digest, "size": len(data)}


for n in range(layers):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        info = tarfile.TarInfo(f"data-{n}")
        info.size = size
        tar.addfile(info, io.BytesIO(chance.randbytes(size)))
    diffs.append("sha256:" + hashlib.sha256(raw.getvalue()).hexdigest())
    packed = gzip.compress(raw.getvalue(), 1, mtime=0)
    descriptors.append(put(packed, "application/vnd.oci.image.layer.v1.tar+gzip"))

machine = "amd64" if os.uname().machine == "x86_64" else "arm64"
config = {"architecture": machine, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": diffs}}
manifest_type = "application/vnd.oci.image.manifest.v1+json"
manifest = put(
    json.dumps({
        "schemaVersion": 2,
        "mediaType": manifest_type,
        "config": put(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": descriptors,
    }).encode(),
    manifest_type,
)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        kind, _, name = self.path.split("?")[0].rpartition("/")
        digest = name if name in blobs else manifest["digest"] if kind.endswith("/manifests") else None
        if self.path == "/v2/":
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if digest is None:
            self.send_error(404)
            return
        data = blobs[digest]
        first = 0
        wanted = self.headers.get("Range", "")
        if wanted.startswith("bytes="):
            first = int(wanted[6:].split("-")[0])
        self.send_response(206 if first else 200)
        self.send_header("Content-Type", types[digest])
        self.send_header("Content-Length", str(len(data) - first))
        self.send_header("Docker-Content-Digest", digest)
        if first:
            self.send_header("Content-Range", f"bytes {first}-{len(data) - 1}/{len(data)}")
        self.end_headers()
        if body:
            self.slowly(digest, data, first)

    def slowly(self, digest, data, first):
        layer = next((n for n, d in enumerate(descriptors) if d["digest"] == digest), None)
        step = max(rate // 20, 1) if layer is not None else len(data)
        at = first
        while at < len(data):
            end = min(at + step, len(data))
            if stall and layer == stall[0]:
                end = min(end, max(stall[1], at))
            self.wfile.write(data[at:end])
            self.wfile.flush()
            if end == at:
                while not os.path.exists(port_file + ".go"):
                    time.sleep(0.05)
                self.wfile.write(data[at:])
                return
            at = end
            if layer is not None:
                time.sleep(0.05)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(port_file + ".part", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(port_file + ".part", port_file)
# The registry ends with the process that started it.
parent = os.getppid()


def watch():
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(0)


threading.Thread(target=watch, daemon=True).start()
server.serve_forever()
