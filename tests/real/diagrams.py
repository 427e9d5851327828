#!/usr/bin/env python3
"""Tests that Mermaid (in Chromium) reads and draws kflow's sequence diagrams, and that PlantUML reads them.

    tests/real/diagrams.py KFLOW [MERMAID.js]

Takes some pods of several recordings. Without Mermaid's script only PlantUML is tested.
"""
import json, os, subprocess, sys, tempfile

from chromium import browser

KFLOW = sys.argv[1]
MERMAID = sys.argv[2] if len(sys.argv) > 2 else None
SESSIONS = [('S1-basics', '100%'), ('S2-stuck-early', '50%'), ('S3-crashes', '60%'), ('S6-slowpull', '40%')]
PARTIES = {'apiserver', 'kubelet', 'runtime'}


def kflow(*args):
    ran = subprocess.run([KFLOW, *args], capture_output=True, text=True)
    assert ran.returncode in (0, 1), (args, ran.stderr[-500:])
    return ran.stdout


def diagrams():
    for session, at in SESSIONS:
        of = ['-s', 'fixtures/sessions/%s.kflow.zst' % session, '--at', at]
        pods = [p for p in json.loads(kflow('timeline', '-o', 'json', *of)) if p['spans']]
        for pod in pods[:8]:
            name = '%s/%s' % (pod['namespace'], pod['name'])
            yield name, kflow('export', pod['uid'], '-o', 'mermaid', *of), kflow('export', pod['uid'], '-o', 'plantuml', *of)


def plantuml(texts):
    with tempfile.TemporaryDirectory() as dir:
        paths = []
        for n, text in enumerate(texts):
            paths.append(os.path.join(dir, '%03d.puml' % n))
            with open(paths[-1], 'w') as f:
                f.write(text)
        ran = subprocess.run(['plantuml', '-checkonly', *paths], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        # A reader that accepts everything would test nothing.
        with open(paths[0], 'a') as f:
            f.write('@startuml\nkubelet ->> : what\nthis is nothing\n@enduml\n')
        assert subprocess.run(['plantuml', '-checkonly', paths[0]], capture_output=True).returncode != 0


def mermaid(texts):
    driver = browser()
    try:
        with tempfile.TemporaryDirectory() as dir:
            with open(os.path.join(dir, 'page.html'), 'w') as f:
                f.write('<!doctype html><meta charset=utf-8><body><script src="file://%s"></script></body>' % MERMAID)
            driver.get('file://' + os.path.join(dir, 'page.html'))
            driver.execute_script('mermaid.initialize({startOnLoad: false})')
            draw = '''const [text, done] = arguments;
                      mermaid.render('d', text).then(d => {
                          const page = new DOMParser().parseFromString(d.svg, 'text/html');
                          done([null, [...page.querySelectorAll('text')].map(t => t.textContent)]);
                      }, e => done([String(e), []]));'''
            for name, text in texts:
                failed, said = driver.execute_async_script(draw, text)
                assert not failed, '%s: %s\n%s' % (name, failed, text)
                assert PARTIES <= set(said), '%s: %s' % (name, said[:20])
                calls = sum(1 for line in text.splitlines() if '>>' in line)
                assert len(said) > calls, '%s: %d arrows, %d texts' % (name, calls, len(said))
            failed, _ = driver.execute_async_script(draw, 'sequenceDiagram\n  kubelet ->> : \n  what is this')
            assert failed, 'it takes everything'
    finally:
        driver.quit()


every = list(diagrams())
assert len(every) > 20, len(every)
plantuml([p for _, _, p in every])
print('  PlantUML reads %d diagrams' % len(every), flush=True)
if MERMAID:
    mermaid([(name, m) for name, m, _ in every])
    print('  Mermaid draws %d diagrams' % len(every), flush=True)
