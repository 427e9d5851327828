#!/usr/bin/env python3
"""Measures what the view of a cluster costs, and how long it takes to open a node.

    cargo test --no-run --test it
    tests/real/cluster.py target/release/kflow target/debug/deps/it-… [NODES]

The cluster is simulated, and the output says so: a test plays the apiserver, and each node has the service of an agent with a part of a
recording (`a_cluster_to_look_at` in tests/it/cluster.rs). The simulation is a debug build and runs beside the viewer. Only the viewer's
process is measured, in a terminal of 160x40. `pip install pyte`.
"""
import os, re, subprocess, sys, time

from screen import Screen

PATIENCE = 120
CALM = 60


class Viewer:
    def __init__(self, program, kubeconfig):
        self.screen = Screen()
        theirs = self.screen.theirs
        environment = dict(os.environ, KUBECONFIG=kubeconfig, TERM='xterm-256color')
        self.process = subprocess.Popen([program, 'tui', '-A'], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)

    def until(self, what, wanted):
        """Returns the seconds until something stands on the screen."""
        begun = time.monotonic()
        while not wanted(self.screen.text()):
            assert time.monotonic() - begun < PATIENCE, f'{what}:\n{self.screen.text()}'
            time.sleep(.005)
        return time.monotonic() - begun

    def processor(self):
        with open(f'/proc/{self.process.pid}/stat') as f:
            user, system = f.read().rsplit(')', 1)[1].split()[11:13]
        return (int(user) + int(system)) / os.sysconf('SC_CLK_TCK')

    def costs(self, when, seconds):
        before, begun = self.processor(), time.monotonic()
        time.sleep(seconds)
        share = 100 * (self.processor() - before) / (time.monotonic() - begun)
        with open(f'/proc/{self.process.pid}/status') as f:
            memory = re.findall(r'^(VmRSS|VmHWM):\s+(\d+)', f.read(), re.M)
        memory = {k: int(v) // 1024 for k, v in memory}
        print(f'{when}: {share:.2f} % of a core over {seconds} s, resident {memory["VmRSS"]} MiB, at most {memory["VmHWM"]} MiB')
        return share, memory['VmHWM']


def main():
    program, rig, nodes = sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200
    simulated = subprocess.Popen([rig, '--ignored', '--nocapture', 'a_cluster_to_look_at'], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True, env=dict(os.environ, NODES=str(nodes)))
    viewer = None
    try:
        kubeconfig = next(line.strip() for line in simulated.stdout if line.strip().endswith('/kubeconfig'))
        viewer = Viewer(program, kubeconfig)
        viewer.screen.key('6')
        took = viewer.until('all agents', lambda t: f'{nodes} of {nodes} nodes have an agent' in t)
        print(f'{nodes} nodes and their agents were listed after {took:.2f} s')
        share, _ = viewer.costs('calm', CALM)
        times = []
        for n in range(5):
            viewer.screen.key('g' + 'j' * n)
            time.sleep(1)
            viewer.screen.key('\r')
            begun = time.monotonic()
            viewer.until('its agent', lambda t: 'is open for' in t and '●cri' in t)
            viewer.screen.key('3')
            viewer.until('its calls', lambda t: re.search(r'Calls [1-9]', t))
            times.append(time.monotonic() - begun)
            viewer.screen.key('6')
            if n < 4:
                viewer.screen.key('x')
                viewer.until('the cluster', lambda t: 'nodes have an agent' in t)
        print('opening a node until its calls are listed, s:', *(f'{t:.2f}' for t in times))
        viewer.costs('a node open', CALM // 2)
        viewer.screen.key('x')
        viewer.until('the cluster', lambda t: 'nodes have an agent' in t)
        _, most = viewer.costs('left', CALM // 2)
        failed = [what for what, held in [('300 MiB', most < 300), ('10 % of a core', share < 10), ('1 s', max(times) < 1)] if not held]
        if failed:
            sys.exit(f'over {", ".join(failed)}')
    finally:
        if viewer:
            viewer.process.kill()
        simulated.stdin.close()
        simulated.wait()


main()
