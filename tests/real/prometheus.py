"""A Prometheus scrapes an agent and a terminal, and evaluates every query of deploy/grafana.json.

    tests/real/run.sh --exec VENV/bin/python tests/real/prometheus.py KFLOW PROMETHEUS

The agent sees the calls of a real containerd through a proxy, some of which fail, and sends segments into a folder. The terminal
watches an apiserver that this script plays: one pod starts, and one is not scheduled. Each query has to return a number, and Prometheus'
sums have to equal the calls that were made. Needs the package grpcio.
"""

import datetime
import http.server
import json
import math
import os
import pathlib
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import grpc

KFLOW, PROMETHEUS = (str(pathlib.Path(p).resolve()) for p in sys.argv[1:3])
DIR = pathlib.Path(os.environ["KFLOW_REAL"]) / "prometheus"
RUNTIME = f"{os.environ['KFLOW_REAL']}/run/containerd.sock"
# How long the pod takes to start, s.
STARTS = 3
# The value of `$__rate_interval` here: several scrapes.
RATE = "10s"
CALLS = ["Version", "Status", "ListPodSandbox", "ListContainers"]
# ContainerStatusRequest.container_id = "none": no such container exists, so the call fails.
FAILS = ("ContainerStatus", b"\x0a\x04none")
NODE = "made1"
STARTED, SCRAPES = [], []
# Nothing happens before Prometheus' first scrapes, because there is no rate for what happened earlier.
SCRAPED = threading.Event()


def free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, is_so, patience=60):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        found = is_so()
        if found:
            return found
        time.sleep(0.2)
    for port in SCRAPES:
        print(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()[-6000:])
    said = "\n".join(f"{p.name}: {p.read_text(errors='replace')[-1500:]}" for p in DIR.glob("*.log"))
    raise SystemExit(f"{what}: not within {patience} s\n{said}")


def start(name, args, env=None, **files):
    log = open(DIR / f"{name}.log", "ab")
    files = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL} | files
    STARTED.append(subprocess.Popen(args, env=env, **files))


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name, node, ready, begun, version):
    """Returns a Pod object as an apiserver sends it."""
    conditions = [{"type": "PodScheduled", "status": "True" if node else "False", "lastTransitionTime": begun}]
    if not node:
        conditions[0] |= {"reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}
    status = {"phase": "Running" if ready else "Pending", "conditions": conditions}
    if node:
        status["startTime"] = begun
    if ready:
        kinds = ["Initialized", "ContainersReady", "Ready"]
        conditions += [{"type": kind, "status": "True", "lastTransitionTime": now()} for kind in kinds]
        one = {"name": "c", "ready": True, "restartCount": 0, "image": "x", "imageID": "x", "containerID": "containerd://a"}
        status["containerStatuses"] = [one | {"started": True, "state": {"running": {"startedAt": now()}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "made", "uid": f"uid-{name}", "resourceVersion": str(version), "creationTimestamp": begun},
        "spec": {"containers": [{"name": "c", "image": "x"}]} | ({"nodeName": node} if node else {}),
        "status": status,
    }


class Api(http.server.BaseHTTPRequestHandler):
    """An apiserver that has pods only."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        watches = "watch" in urllib.parse.parse_qs(url.query)
        if url.path != "/api/v1/pods":
            return self.whole(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404})
        if not watches:
            return self.whole(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        SCRAPED.wait()
        begun = now()
        self.event("ADDED", pod("waits", None, False, begun, 2))
        self.event("ADDED", pod("starts", NODE, False, begun, 3))
        time.sleep(STARTS)
        self.event("MODIFIED", pod("starts", NODE, True, begun, 4))
        # Waits until the watching client has gone.
        self.connection.recv(1)

    def whole(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def event(self, kind, what):
        data = json.dumps({"type": kind, "object": what}).encode() + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()


def api():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    at = {"name": "made", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}
    context = {"name": "made", "context": {"cluster": "made", "user": "made"}}
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "made", "clusters": [at], "contexts": [context]}
    (DIR / "kubeconfig").write_text(json.dumps(config | {"users": [{"name": "made", "user": {}}]}))


def terminal(port):
    """`kflow tui --metrics` in a terminal that nobody looks at."""
    ours, theirs = pty.openpty()
    env = os.environ | {"KUBECONFIG": str(DIR / "kubeconfig"), "TERM": "xterm-256color"}
    args = [KFLOW, "tui", "--metrics", f"127.0.0.1:{port}", "--tap", "off", "--no-agent"]
    start("tui", args, env=env, stdin=theirs, stdout=theirs)
    os.close(theirs)

    def read():
        try:
            while os.read(ours, 65536):
                pass
        except OSError:
            pass

    threading.Thread(target=read, daemon=True).start()


class Calls:
    """Makes CRI calls until there are enough."""

    def __init__(self, path):
        self.made, self.failed, self.end = 0, 0, threading.Event()
        self.channel = grpc.insecure_channel(f"unix:{path}")
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()
        # A call that stays in flight, because its request never comes.
        waits = lambda: iter(self.end.wait, True)
        self.flies = self.channel.stream_unary("/runtime.v1.RuntimeService/ListPodSandbox", raw, raw).future(waits())

    def run(self):
        ask = lambda name: self.channel.unary_unary(f"/runtime.v1.RuntimeService/{name}", raw, raw)
        while not self.end.is_set():
            for name in CALLS:
                ask(name)(b"", timeout=10)
                self.made += 1
            try:
                ask(FAILS[0])(FAILS[1], timeout=10)
            except grpc.RpcError as e:
                assert e.code() == grpc.StatusCode.NOT_FOUND, e
                self.made, self.failed = self.made + 1, self.failed + 1
            time.sleep(0.2)

    def stop(self):
        self.flies.cancel()
        self.made += 1
        self.end.set()
        self.thread.join()
        self.channel.close()


def raw(data):
    return data


def query(port, expr):
    url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": expr})
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            got = json.load(answer)
    except urllib.error.HTTPError as e:
        raise SystemExit(f"{expr}: {e.read().decode()}") from None
    except OSError:
        return []
    return [(s["metric"], float(s["value"][1])) for s in got["data"]["result"]]


def main():
    DIR.mkdir(mode=0o700)
    os.chmod(f"{os.environ['KFLOW_REAL']}/run", 0o700)
    agent, tui, server = free(), free(), free()
    cri, serve = f"{os.environ['KFLOW_REAL']}/run/cri.sock", f"{os.environ['KFLOW_REAL']}/run/obs.sock"
    api()
    start("proxy", [KFLOW, "proxy", "--listen", cri, "--upstream", RUNTIME, "--serve", serve])
    until("the proxy", lambda: os.path.exists(cri) and os.path.exists(serve))
    (DIR / "kubelet.log").touch()
    (DIR / "serve").mkdir(mode=0o700)
    flags = ["--tap", "proxy", "--proxy", serve, "--kubelet-log", str(DIR / "kubelet.log"), "--node", NODE, "--no-api"]
    keep = ["--serve", str(DIR / "serve/agent.sock"), "--spool", str(DIR / "spool"), "--store", f"file://{DIR}/store", "--segment", "1s"]
    start("agent", [KFLOW, "agent", "run", "--metrics", f"127.0.0.1:{agent}", *flags, *keep])
    terminal(tui)
    jobs = [{"job_name": "kflow", "static_configs": [{"targets": [f"127.0.0.1:{agent}", f"127.0.0.1:{tui}"]}]}]
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": jobs}
    # YAML is JSON too.
    (DIR / "prometheus.yml").write_text(json.dumps(config))
    where = ["--config.file", str(DIR / "prometheus.yml"), "--storage.tsdb.path", str(DIR / "tsdb")]
    start("prometheus", [PROMETHEUS, *where, f"--web.listen-address=127.0.0.1:{server}", "--log.level=warn"])

    SCRAPES.extend([agent, tui])
    until("both are scraped", lambda: len(query(server, 'up{job="kflow"} == 1')) == 2)
    SCRAPED.set()
    calls = Calls(cri)
    targets = [t for p in json.load(open("deploy/grafana.json"))["panels"] for t in p["targets"]]
    exprs = [t["expr"].replace("$__rate_interval", RATE).replace("$instance", ".*") for t in targets]
    answers = {}

    def all_answer():
        for expr in exprs:
            got = [v for _, v in query(server, expr) if math.isfinite(v)]
            if got:
                answers[expr] = got
        return len(answers) == len(set(exprs))

    try:
        until("an answer to each query", all_answer, 40)
    except SystemExit:
        print("no answer to:", *[e for e in exprs if e not in answers], sep="\n  ")
        raise
    calls.stop()
    # The sums equal those of the calls.
    of = lambda what: sum(v for _, v in query(server, what))
    until("all calls are counted", lambda: of("sum(kflow_cri_calls_total)") == calls.made)
    assert of('sum(kflow_cri_calls_total{code="NotFound"})') == calls.failed > 0, query(server, "kflow_cri_calls_total")
    assert of("sum(kflow_cri_call_duration_seconds_count)") == calls.made
    starts = of("sum(kflow_pod_start_sli_duration_seconds_sum)")
    assert of("sum(kflow_pod_start_sli_duration_seconds_count)") == 1 and STARTS - 1 <= starts <= STARTS + 2, starts
    causes = {m["cause"] for m, v in query(server, "kflow_verdicts") if v}
    assert len(causes) == 1, causes
    print(f"  Prometheus answers {len(exprs)} queries of the dashboard; {calls.made} calls, of which {calls.failed} failed, and {causes}")


try:
    main()
finally:
    for process in reversed(STARTED):
        process.send_signal(signal.SIGTERM)
    for process in STARTED:
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
