#!/usr/bin/env python3
"""Steps the clock an hour back and forth under a running `record`, `why --watch` and `tui`.

    tests/real/clock.py KFLOW LIBFAKETIME

The wall clock is libfaketime's; the monotonic clock is the system's. After each step, pictures and flushes have to go on, and
kflow has to report the step. Waits are for events, with a limit.
"""
import atexit, json, os, re, shutil, signal, subprocess, sys, tempfile, threading, time

from screen import Screen

KFLOW, LIB = sys.argv[1:3]
LIMIT = 30  # s; on a busy machine
HOUR = 3600 * 10**9
# A line of a kubelet 1.36 (fixtures/klog/messages.tsv has similar ones).
LINE = ('E%s    3731 pod_workers.go:1324] "Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"c\\" with '
        'ErrImageNeverPull: \\"Container image \\\\\\"x.example/none:1\\\\\\" is not present with pull policy of Never\\"" '
        'pod="s01/%s" podUID="4ac3c3e9-1ad8-496b-869a-%012d"\n')


class Run:
    """One kflow with a clock and a kubelet log of its own."""

    def __init__(self, *args, tty=False):
        self.dir = tempfile.mkdtemp(prefix='kflow-clock.')
        atexit.register(shutil.rmtree, self.dir, True)
        self.rc, self.log, self.said, self.n = self.dir + '/time', self.dir + '/kubelet.log', b'', 0
        self.offset = 0
        self.step(0)
        open(self.log, 'w').close()
        env = dict(os.environ, LD_PRELOAD=LIB, FAKETIME_TIMESTAMP_FILE=self.rc, FAKETIME_NO_CACHE='1', TERM='xterm-256color',
                   HOME=self.dir, XDG_CONFIG_HOME=self.dir, XDG_STATE_HOME=self.dir, TZ='UTC',
                   FAKETIME_DONT_FAKE_MONOTONIC='1', DONT_FAKE_MONOTONIC='1')
        args = [KFLOW, *[a.replace('@', self.dir) for a in args], '--no-api', '--kubelet-log', self.log]
        self.screen = Screen() if tty else None
        ours, theirs = (self.screen.ours, self.screen.theirs) if tty else os.pipe()
        self.process = subprocess.Popen(args, env=env, stdin=theirs if tty else subprocess.DEVNULL, stdout=theirs,
                                        stderr=theirs, start_new_session=True)
        os.close(theirs)
        atexit.register(self.kill)
        if not tty:
            threading.Thread(target=self.read, args=[ours], daemon=True).start()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()

    def read(self, fd):
        while got := os.read(fd, 65536):
            self.said += got

    def step(self, offset):
        self.offset = offset
        with open(self.rc + '.new', 'w') as f:
            f.write('%+d\n' % offset)
        os.rename(self.rc + '.new', self.rc)

    def write(self, pod='web'):
        self.n += 1
        at = time.time() + self.offset
        with open(self.log, 'a') as f:
            f.write(LINE % (time.strftime('%m%d %H:%M:%S', time.gmtime(at)) + '.%06d' % (at % 1 * 1e6), pod, self.n))

    def until(self, what, true):
        begun = time.monotonic()
        while not true():
            if self.process.poll() is not None:
                sys.exit('%s: kflow has ended with %s\n%s' % (what, self.process.returncode, self.text()[-2000:]))
            if time.monotonic() - begun > LIMIT:
                sys.exit('%s: not within %d s\n%s' % (what, LIMIT, self.text()[-3000:]))
            time.sleep(0.05)
        print('  %-60s %5.1f s' % (what, time.monotonic() - begun), flush=True)

    def text(self):
        return self.screen.text() if self.screen else self.said.decode(errors='replace')

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT)
        return self.process.returncode


def record():
    print('record', flush=True)
    run = Run('record', '-O', '@/run.kflow')

    def bodies():
        try:
            lines = open(run.dir + '/run.kflow').read().splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(l) for l in lines[1:]]
    logs = lambda: sum('log' in o['b'] for o in bodies())
    steps = lambda: [o['b']['clock_step']['by'] for o in bodies() if 'clock_step' in o['b']]
    run.until('the log is followed', lambda: 'following' in run.text())
    run.write()
    run.until('a line is flushed', lambda: logs() == 1)
    for n, offset in enumerate([-3600, 0, 3600, 0]):
        by = offset - run.offset
        run.step(offset)
        run.until('the step by %+d s is told' % by, lambda: len(steps()) == n + 1)
        assert abs(steps()[n] - by * 10**9) < 10**9, steps()
        run.write()
        run.until('a line after it is flushed', lambda: logs() == n + 2)
    code = run.end()
    assert code == 0, (code, run.text())
    # Lines are in the order of arrival, whatever the clock showed.
    pods = [re.search('869a-0*(\\d+)', json.dumps(o))[1] for o in bodies() if 'log' in o['b']]
    assert pods == sorted(pods), pods
    return run.dir + '/run.kflow'


def read_back(session):
    """Reads back what was recorded across the steps."""
    print('why, of the recording', flush=True)
    out = subprocess.run([KFLOW, 'why', 's01/web', '-s', session], capture_output=True, text=True)
    assert out.returncode == 1 and 'KF607' in out.stdout, out


def why():
    print('why --watch', flush=True)
    run = Run('why', '--watch', '--all')
    run.write('first')
    run.until('the first verdict is told', lambda: 's01/first' in run.text())
    for n, offset in enumerate([-3600, 0]):
        by = offset - run.offset
        run.step(offset)
        run.write('after-%d' % n)
        run.until('a verdict after the step by %+d s is told' % by, lambda: 's01/after-%d' % n in run.text())
    run.end()


def tui():
    print('tui', flush=True)
    run = Run('tui', tty=True)
    run.write('first')
    run.until('the pod is drawn', lambda: 's01/first' in run.text())
    # The log, of everything.
    run.screen.key('4')
    run.screen.key('a')
    for n, offset in enumerate([-3600, 0]):
        by = offset - run.offset
        run.step(offset)
        word = 'set back by' if by < 0 else 'set forward by'
        run.until('the log shows the step by %+d s' % by, lambda: word in run.text())
        run.write('after-%d' % n)
        run.until('what comes after it is drawn', lambda: 'after-%d' % n in run.text())
    # The node pane shows the steps too.
    run.screen.key('6')
    run.until('the node pane shows the steps', lambda: 'set back by' in run.text())
    run.screen.key('q')
    run.process.wait(LIMIT)


read_back(record())
why()
tui()
print('the clock may be set')
