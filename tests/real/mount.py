#!/usr/bin/env python3
"""Tests kflow with a file system that does not answer. FUSE (bindfs) with its daemon stopped stands for an NFS server that is gone.

    tests/real/mount.py KFLOW

The file system that hangs holds, in turn:

* a volume's mount point, the kubelet's log, the recording itself: other sources go on, the source says that its file system
  hangs, and kflow can end
* a log that `why --watch` follows: verdicts go on
* kflow's own log: the recording goes on
* what a command reads or writes: the command says so and ends
* what the terminal saves: it goes on drawing, and says that nothing is saved
"""
import atexit, json, os, select, shutil, signal, socket, subprocess, sys, tempfile, threading, time

from screen import Screen

KFLOW = sys.argv[1]
LIMIT = 60  # s; a rescan of directories comes every 30 s
LINE = 'I%s    3731 kubelet.go:2538] "SyncLoop ADD" source="api" pods=["default/web-%d"]\n'


class Mount:
    """A mount whose daemon can be stopped."""

    def __init__(self, point):
        self.behind = tempfile.mkdtemp(prefix='kflow-behind.')
        os.makedirs(point, exist_ok=True)
        self.point = point
        self.daemon = subprocess.Popen(['bindfs', '-f', self.behind, point])
        atexit.register(self.end)
        begun = time.monotonic()
        while not os.path.ismount(point):
            assert time.monotonic() - begun < LIMIT, 'bindfs does not mount'
            time.sleep(0.05)

    def stop(self):
        self.daemon.send_signal(signal.SIGSTOP)

    def end(self):
        if self.daemon.poll() is None:
            self.daemon.send_signal(signal.SIGCONT)
            subprocess.run(['umount', '-l', self.point])
            self.daemon.terminate()
            self.daemon.wait()
        shutil.rmtree(self.behind, True)


class Record:
    def __init__(self, dir, *args, output=None):
        self.output = output or dir + '/run.kflow'
        self.said = b''
        self.process = subprocess.Popen([KFLOW, 'record', '--no-api', '-O', self.output, *args], stderr=subprocess.PIPE)
        atexit.register(self.kill)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        while got := os.read(self.process.stderr.fileno(), 65536):
            self.said += got

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()

    def logs(self):
        if not os.path.exists(self.output):
            return 0
        with open(self.output) as f:
            return sum('log' in json.loads(l)['b'] for l in f.read().splitlines()[1:] if l.endswith('}'))

    def until(self, what, true, limit=LIMIT):
        begun = time.monotonic()
        while not true():
            if self.process.poll() is not None or time.monotonic() - begun > limit:
                sys.exit('%s: not within %d s (rc %s)\n%s' % (what, limit, self.process.returncode, self.said.decode()))
            time.sleep(0.05)
        print('  %-70s %5.1f s' % (what, time.monotonic() - begun), flush=True)

    def end(self, code):
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        got = self.process.wait(LIMIT)
        print('  it ends with %d %44s %5.1f s' % (got, '', time.monotonic() - begun), flush=True)
        assert got == code, (got, self.said.decode())


def write(log, n):
    with open(log, 'a') as f:
        f.write(LINE % (time.strftime('%m%d %H:%M:%S.000000', time.gmtime()), n))


def volume():
    print('a volume of NFS whose server is gone', flush=True)
    dir = tempfile.mkdtemp(prefix='kflow-mount.')
    atexit.register(shutil.rmtree, dir, True)
    log, pods = dir + '/kubelet.log', dir + '/kubelet/pods'
    uid = '4ac3c3e9-1ad8-496b-869a-7687fcb13acf'
    mount = Mount('%s/%s/volumes/kubernetes.io~nfs/data' % (pods, uid))
    write(log, 0)
    # kflow looks at cgroups, directories and mounts only when the node is this machine.
    run = Record(dir, '--node', socket.gethostname(), '--kubelet-root', dir + '/kubelet', '--kubelet-log', log)
    run.until('directories are watched', lambda: b'fs directories: on' in run.said)
    run.until('the log is recorded', lambda: run.logs() == 1)
    mount.stop()
    # Waits for more than one rescan.
    begun, n = time.monotonic(), 1
    while time.monotonic() - begun < 40:
        write(log, n)
        n += 1
        slow = time.monotonic()
        while run.logs() < n:
            if time.monotonic() - slow > 10:
                sys.exit('the log stands still %d s after the stop\n%s' % (slow - begun, run.said.decode()))
            time.sleep(0.05)
        time.sleep(1)
    print('  %-70s' % ('the log went on for 40 s, %d lines' % n), flush=True)
    new = '%s/%s' % (pods, uid.replace('4ac3', '5bd4'))
    os.mkdir(new)
    run.until('a new directory is seen', lambda: os.path.basename(new) in open(run.output).read())
    assert b'fs directories: off' not in run.said, run.said
    run.end(0)
    mount.end()


def log():
    print("the kubelet's log on a file system that hangs", flush=True)
    dir = tempfile.mkdtemp(prefix='kflow-mount.')
    atexit.register(shutil.rmtree, dir, True)
    mount = Mount(dir + '/mnt')
    write(dir + '/mnt/kubelet.log', 0)
    write(dir + '/scheduler.log', 0)
    run = Record(dir, '--kubelet-log', dir + '/mnt/kubelet.log', '--scheduler-log', dir + '/scheduler.log')
    run.until('both logs are recorded', lambda: run.logs() == 2)
    mount.stop()
    run.until('that it hangs is told', lambda: b'its file system hangs' in run.said)
    write(dir + '/scheduler.log', 1)
    run.until('the other log goes on', lambda: run.logs() == 3)
    run.end(0)
    mount.end()


def recording():
    print('a recording on a file system that hangs', flush=True)
    dir = tempfile.mkdtemp(prefix='kflow-mount.')
    atexit.register(shutil.rmtree, dir, True)
    mount = Mount(dir + '/mnt')
    write(dir + '/kubelet.log', 0)
    run = Record(dir, '--kubelet-log', dir + '/kubelet.log', output=dir + '/mnt/run.kflow')
    run.until('the log is recorded', lambda: run.logs() == 1)
    mount.stop()
    write(dir + '/kubelet.log', 1)
    run.end(2)
    assert b'does not answer' in run.said, run.said
    mount.end()


def saving():
    print('a picture, an export and a note of the terminal on a file system that hangs', flush=True)
    dir = tempfile.mkdtemp(prefix='kflow-mount.')
    atexit.register(shutil.rmtree, dir, True)
    mount = Mount(dir + '/mnt')
    shutil.copy('fixtures/sessions/S2-stuck-early.kflow.zst', dir + '/mnt/s.kflow.zst')
    screen = Screen()
    env = dict(os.environ, TERM='xterm-256color', HOME=dir, XDG_CONFIG_HOME=dir, XDG_STATE_HOME=dir)
    process = subprocess.Popen([os.path.abspath(KFLOW), 'replay', '--at', '+100s', 's.kflow.zst'], cwd=dir + '/mnt', env=env,
                               stdin=screen.theirs, stdout=screen.theirs, stderr=screen.theirs, start_new_session=True)
    os.close(screen.theirs)
    atexit.register(lambda: process.poll() is None and process.kill())

    def until(what, true, limit=LIMIT):
        begun = time.monotonic()
        while not true():
            if process.poll() is not None or time.monotonic() - begun > limit:
                sys.exit('%s: not within %d s\n%s' % (what, limit, screen.text()))
            time.sleep(0.02)
        print('  %-70s %5.1f s' % (what, time.monotonic() - begun), flush=True)
    until('the session is drawn', lambda: 'KF601' in screen.text())
    screen.key('1')
    until('its pods are drawn', lambda: 'node1' in screen.text())
    mount.stop()
    screen.key('s')
    until('that a picture is not saved is told', lambda: 'still not written' in screen.text())
    for what, keys in [('an export', ':export html\r'), ('a note', 'mlook\r')]:
        before = len(screen.said)
        screen.key(keys)
        until('%s leaves the terminal drawing' % what, lambda: len(screen.said) > before, 2)
    # Help is drawn over the panes at once.
    screen.key('?')
    until('a key is answered', lambda: 'search' in screen.text(), 2)
    begun = time.monotonic()
    screen.key('\x03')
    code = process.wait(LIMIT)
    print('  it ends with %d %44s %5.1f s' % (code, '', time.monotonic() - begun), flush=True)
    said = screen.all(LIMIT)
    assert code == 2 and 'was not written' in said, (code, said[-2000:])
    mount.end()


def own_log():
    print("kflow's own log on a file system that hangs", flush=True)
    dir = tempfile.mkdtemp(prefix='kflow-mount.')
    atexit.register(shutil.rmtree, dir, True)
    mount = Mount(dir + '/mnt')
    # When the first file is closed, the kernel learns that bindfs has no FLUSH. Otherwise a process that ends would wait for FLUSH,
    # killed or not (fs/fuse/file.c, fuse_flush). NFS does not make it wait.
    write(dir + '/mnt/other', 0)
    write(dir + '/kubelet.log', 0)
    run = Record(dir, '--log', dir + '/mnt/kflow.log', '--kubelet-log', dir + '/kubelet.log')
    run.until('the log is recorded', lambda: run.logs() == 1)
    assert os.path.getsize(dir + '/mnt/kflow.log') > 0
    mount.stop()
    for n in range(1, 6):
        write(dir + '/kubelet.log', n)
        run.until('line %d is recorded' % n, lambda: run.logs() == n + 1)
    run.end(0)
    late(mount, ['causes', '--log', dir + '/mnt/kflow.log'])
    mount.end()


def watching():
    print("the kubelet's log of `why --watch` on a file system that hangs", flush=True)
    dir = tempfile.mkdtemp(prefix='kflow-mount.')
    atexit.register(shutil.rmtree, dir, True)
    mount = Mount(dir + '/mnt')
    write(dir + '/mnt/kubelet.log', 0)
    # The same line as in clock.py: kflow makes a verdict from it.
    line = ('E%s    3731 pod_workers.go:1324] "Error syncing pod, skipping" err="failed to \\"StartContainer\\" for \\"c\\" with '
            'ErrImageNeverPull: \\"Container image \\\\\\"x.example/none:1\\\\\\" is not present with pull policy of Never\\"" '
            'pod="s01/%s" podUID="4ac3c3e9-1ad8-496b-869a-%012d"\n')
    other = dir + '/other.log'
    open(other, 'w').close()
    process = subprocess.Popen([KFLOW, 'why', '--watch', '--all', '--no-api', '--kubelet-log', other, '--scheduler-log',
                                dir + '/mnt/kubelet.log'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    atexit.register(lambda: process.poll() is None and process.kill())
    said = []

    def read():
        while got := os.read(process.stdout.fileno(), 65536):
            said.append(got)
    threading.Thread(target=read, daemon=True).start()
    for n in range(3):
        with open(other, 'a') as f:
            f.write(line % (time.strftime('%m%d %H:%M:%S.000000', time.gmtime()), 'after-%d' % n, n))
        begun = time.monotonic()
        while b's01/after-%d' % n not in b''.join(said):
            assert process.poll() is None and time.monotonic() - begun < LIMIT, b''.join(said)
            time.sleep(0.05)
        print('  %-70s %5.1f s' % ('verdict %d is told' % n, time.monotonic() - begun), flush=True)
        mount.stop()
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code = process.wait(LIMIT)
    print('  it ends with %d %44s %5.1f s' % (code, '', time.monotonic() - begun), flush=True)
    assert code == 1, b''.join(said)
    mount.end()


def late(mount, args, code=2, said='its file system has not answered'):
    begun = time.monotonic()
    ran = subprocess.run([KFLOW, *args], capture_output=True, text=True, timeout=LIMIT)
    print('  %-70s %5.1f s' % (' '.join(args[:2]) + ' ends with %d' % ran.returncode, time.monotonic() - begun), flush=True)
    all = ran.stdout + ran.stderr
    assert ran.returncode == code and said in all and mount.point in all, ran


def reading():
    print('what a command reads, and writes, on a file system that hangs', flush=True)
    dir = tempfile.mkdtemp(prefix='kflow-mount.')
    atexit.register(shutil.rmtree, dir, True)
    mount = Mount(dir + '/mnt')
    shutil.copy('fixtures/sessions/S2-stuck-early.kflow.zst', dir + '/mnt/s.kflow.zst')
    mount.stop()
    for args in [['why', '--all'], ['timeline'], ['export', '-o', 'json'], ['stats']]:
        late(mount, [*args, '-s', dir + '/mnt/s.kflow.zst'])
    session = 'fixtures/sessions/S2-stuck-early.kflow.zst'
    write(dir + '/kubelet.log', 0)
    for args in [
        ['export', '-o', 'json', '-s', session, '-O', dir + '/mnt/new.json'],
        ['export', '-o', 'json', '-s', session, '-O', dir + '/mnt/s.kflow.zst'],
        ['import', '--kubelet-log', dir + '/kubelet.log', '-O', dir + '/mnt/new.kflow'],
        ['import', dir + '/mnt', '-O', dir + '/new.kflow'],
        ['man', dir + '/mnt'],
        ['screenshots', '--out', dir + '/mnt/new'],
        ['proxy', '--upstream', '/run/none.sock', '--listen', dir + '/mnt/run/cri.sock'],
        ['record', '--no-api', '--kubelet-log', dir + '/kubelet.log', '-O', dir + '/mnt/new.kflow'],
        ['why', '--all', '--kubeconfig', dir + '/mnt/config', '--for', '300ms'],
    ]:
        late(mount, args)
    late(mount, ['doctor', '--local', '--no-api', '--kubelet-root', dir + '/mnt'], 0, 'no answer in time')
    mount.end()
    assert sorted(os.listdir(dir)) == ['kubelet.log', 'mnt'], os.listdir(dir)


def writing():
    print('an export whose file system hangs in the middle of it', flush=True)
    dir = tempfile.mkdtemp(prefix='kflow-mount.')
    atexit.register(shutil.rmtree, dir, True)
    mount = Mount(dir + '/mnt')
    whole = dir + '/mnt/all.json'
    with open(whole, 'w') as f:
        f.write('old')
    export = subprocess.Popen([KFLOW, 'export', '-o', 'json', '-s', 'fixtures/sessions/S3-crashes.kflow.zst', '-O', whole],
                              stderr=subprocess.PIPE)
    atexit.register(lambda: export.poll() is None and export.kill())

    def begun():
        return any(name != 'all.json' and os.path.getsize(mount.behind + '/' + name) for name in os.listdir(mount.behind))
    while not begun():
        assert export.poll() is None, 'the export ended before a byte of it was seen on the disk'
    mount.stop()
    since = time.monotonic()
    said = b''
    while b'has not answered' not in said:
        assert select.select([export.stderr], [], [], LIMIT)[0], 'nothing is said within %d s: %r' % (LIMIT, said)
        got = os.read(export.stderr.fileno(), 65536)
        assert got, said
        said += got
    print('  %-70s %5.1f s' % ('it is told', time.monotonic() - since), flush=True)
    assert whole in said.decode(), said
    # A request that the file system has taken and not answered keeps the process in the kernel (fs/fuse/dev.c,
    # request_wait_answer), so the program can end only now.
    mount.daemon.send_signal(signal.SIGCONT)
    code = export.wait(LIMIT)
    assert code == 2, code
    # The old file stays; only a file with another name is left beside it.
    assert open(whole).read() == 'old', os.listdir(mount.behind)
    mount.end()


volume()
log()
own_log()
reading()
watching()
recording()
writing()
saving()
print('a file system may hang')
