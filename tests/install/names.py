#!/usr/bin/env python3
"""names.py ROOT: tests that a static /kflow in an empty root resolves names of hosts and users, and that TLS works there.

In a network of its own (unshare), kflow needs a host name of /etc/hosts, a host name that only a small DNS server here knows, and a user's home by
/etc/passwd. An apiserver behind TLS, with an authority of its own, records the host names by which kflow came. Only the program is real.
"""

import http.server
import json
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading

IN_HOSTS, IN_DNS = "by-hosts.test", "by-dns.test"


def dns(sock):
    """Answers every question for an A record of IN_DNS with 127.0.0.1."""
    while True:
        ask, peer = sock.recvfrom(512)
        labels, at = [], 12
        while ask[at]:
            labels.append(ask[at + 1 : at + 1 + ask[at]].decode())
            at += 1 + ask[at]
        end = at + 5
        kind = struct.unpack(">H", ask[at + 1 : at + 3])[0]
        knows = ".".join(labels) == IN_DNS
        answers = int(knows and kind == 1)
        head = ask[:2] + struct.pack(">HHHHH", 0x8180 if knows else 0x8183, 1, answers, 0, 0)
        record = struct.pack(">HHHIH4B", 0xC00C, 1, 1, 60, 4, 127, 0, 0, 1) if answers else b""
        sock.sendto(head + ask[12:end] + record, peer)


class Api(http.server.BaseHTTPRequestHandler):
    came = []

    def do_GET(self):
        Api.came.append(self.headers["Host"].split(":")[0])
        body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403, "message": "no"}).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main(root):
    if not os.environ.get("KFLOW_APART"):
        sys.exit(subprocess.call(["unshare", "-n", sys.executable, __file__, root], env={**os.environ, "KFLOW_APART": "1"}))
    subprocess.check_call(["ip", "link", "set", "lo", "up"])
    keys = tempfile.mkdtemp(dir=root)
    names = f"subjectAltName=DNS:{IN_HOSTS},DNS:{IN_DNS}"
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=test"]
    # Self-signed, and used as an authority only: webpki accepts no certificate that is an authority's and a server's.
    ca = [*new, "-keyout", f"{keys}/ca.key", "-out", f"{keys}/ca.crt"]
    subprocess.check_call(ca, stderr=subprocess.DEVNULL)
    ask = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=api", "-keyout", f"{keys}/api.key", "-out", f"{keys}/api.csr"]
    subprocess.check_call(ask, stderr=subprocess.DEVNULL)
    with open(f"{keys}/ext", "w") as f:
        f.write(names + "\nbasicConstraints=CA:FALSE\n")
    sign = ["openssl", "x509", "-req", "-in", f"{keys}/api.csr", "-CA", f"{keys}/ca.crt", "-CAkey", f"{keys}/ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{keys}/ext", "-out", f"{keys}/api.crt"]
    subprocess.check_call(sign, stderr=subprocess.DEVNULL)

    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 53))
    threading.Thread(target=dns, args=(udp,), daemon=True).start()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{keys}/api.crt", f"{keys}/api.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    for folder in ("etc", "home/someone/.kube"):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    with open(f"{root}/etc/hosts", "w") as f:
        f.write(f"127.0.0.1 {IN_HOSTS}\n")
    with open(f"{root}/etc/resolv.conf", "w") as f:
        f.write("nameserver 127.0.0.1\n")
    with open(f"{root}/etc/passwd", "w") as f:
        f.write("root:x:0:0::/home/someone:/none\n")
    # Name services that this root does not have, beside those that it has.
    with open(f"{root}/etc/nsswitch.conf", "w") as f:
        f.write("hosts: mymachines resolve files mdns4_minimal dns\npasswd: systemd files\n")
    ca_data = subprocess.check_output(["base64", "-w0", f"{keys}/ca.crt"], text=True)
    for name in (IN_HOSTS, IN_DNS):
        cluster = {"server": f"https://{name}:{server.server_port}", "certificate-authority-data": ca_data}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        with open(f"{root}/home/someone/.kube/config", "w") as f:
            json.dump(config, f)
        # Without HOME, the home directory comes from /etc/passwd.
        run = subprocess.run([shutil.which("chroot"), root, "/kflow", "why", "--all", "--for", "2s"], env={}, capture_output=True, text=True, timeout=60)
        if name not in Api.came:
            sys.exit(f"FAILED: nobody came to the apiserver by {name}: exit {run.returncode}: {run.stderr}{run.stdout}")
    print("names of hosts by file and DNS, a user's home, TLS: found")


main(sys.argv[1])
