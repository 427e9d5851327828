#!/usr/bin/env python3
"""Tests the tables that kflow writes with independent query engines: DuckDB and ClickHouse (chDB).

    tests/real/tables.py KFLOW SESSION...

KFLOW is built with the feature `fleet`. Needs the packages duckdb and chdb.
"""
import json, os, stat, subprocess, sys, tempfile

import duckdb
from chdb import session as clickhouse

KFLOW, *SESSIONS = sys.argv[1:]
FOLDER = tempfile.TemporaryDirectory()
TABLES = ['pods', 'verdicts', 'calls', 'requests']


def kflow(*args):
    ran = subprocess.run([KFLOW, *args], capture_output=True, text=True)
    assert ran.returncode == 0, (args, ran.returncode, ran.stderr[-500:])
    return ran.stdout


def rows(*args):
    return [json.loads(line) for line in kflow(*args, '-o', 'jsonl').splitlines()]


tables = os.path.join(FOLDER.name, 'tables')
kflow('fleet', *SESSIONS, '-o', 'parquet', '-O', tables)
for folder, folders, files in os.walk(tables):
    for name, mode in [(f, 0o600) for f in files] + [(f, 0o700) for f in folders]:
        is_ = stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode)
        assert is_ == mode, (name, oct(is_))
where = {t: '%s/default/tables/%s/*/*.parquet' % (tables, t) for t in TABLES}

duck = duckdb.connect()
house = clickhouse.Session()
for table, files in where.items():
    duck.sql("CREATE VIEW %s AS SELECT * FROM read_parquet('%s')" % (table, files))


def by_duck(sql):
    return [tuple(row) for row in duck.sql(sql).fetchall()]


def by_house(sql):
    for table, files in where.items():
        sql = sql.replace('FROM ' + table, "FROM file('%s')" % files)
    return [tuple(json.loads(line)) for line in str(house.query(sql, 'JSONCompactEachRow')).splitlines()]


# The columns and their types are those of docs/tables.md.
with open('docs/tables.md') as f:
    page = f.read()
kinds = {'int64': 'BIGINT', 'bool': 'BOOLEAN', 'text': 'VARCHAR', 'list of text': 'VARCHAR[]'}
for table in TABLES:
    part = page.split('\n## `%s`' % table)[1].split('\n## ')[0]
    cells = [[c.strip() for c in l.split('|')] for l in part.splitlines() if l.startswith('| `')]
    told = {c[1].strip('`'): kinds[c[2].removesuffix(', null')] for c in cells}
    is_ = {name: kind for name, kind, *_ in duck.sql('DESCRIBE %s' % table).fetchall()}
    for name, kind in told.items():
        if name.startswith('STAGE_'):
            assert is_['image' + name[5:]] == kind, name
        else:
            assert is_[name] == kind, (table, name, is_.get(name))
    assert part.count('| `STAGE_') * 11 + len([n for n in told if not n.startswith('STAGE_')]) == len(is_) - 1, (table, set(is_) - set(told))

# Every row of `calls`, and counts of the other tables, equal what kflow prints for the same recordings.
calls = sorted((c['start_ns'], c['conn'], c['stream'], c['method'], c['code'], c['end_ns'], c['message'])
               for s in SESSIONS for c in rows('calls', '-s', s))
sql = 'SELECT start_ns, conn, stream, method, code, end_ns, message FROM calls'
assert sorted(by_duck(sql)) == calls, 'calls'
sql = sql.replace('start_ns,', 'toString(start_ns),').replace('end_ns,', 'toString(end_ns),')
assert len(by_house(sql)) == len(calls)
requests = sum(len(rows('requests', '--list', '-s', s)) for s in SESSIONS)
assert by_duck('SELECT count(*) FROM requests') == [(requests,)]

# Percentiles equal those of `kflow fleet` and, for one recording, of `kflow stats`.
compared = 0
for row in rows('fleet', *SESSIONS, '--question', 'lengths'):
    kind, _, name = row['measure'].partition('/')
    if kind == 'call':
        length, files, of = 'length_ns', 'calls', "method = '%s'" % name
    elif kind == 'stage':
        length, files, of = name + '_ns', 'pods', 'true'
    else:
        length, files, of = {'start': 'start_total_ns', 'start-sli': 'start_sli_ns', 'ready': 'ready_total_ns'}[kind], 'pods', 'true'
    cells = ', '.join('quantile_disc(%s, %s)' % (length, q) for q in (0.5, 0.95, 0.99))
    got = by_duck('SELECT count(%s), %s, max(%s) FROM %s WHERE %s' % (length, cells, length, files, of))
    want = tuple(row[k] for k in ('count', 'p50_ns', 'p95_ns', 'p99_ns', 'max_ns'))
    assert got == [want], (row, got)
    # ClickHouse's exact quantile is nearest rank from below, so the query indexes the sorted array instead.
    sorted_ = 'arraySort(groupArray(assumeNotNull(%s)))' % length
    at = ', '.join('toString(%s[greatest(1, toUInt64(ceil(%s * count(%s) / 1000)))])' % (sorted_, p, length) for p in (500, 950, 990))
    got = by_house('SELECT toString(count(%s)), %s, toString(max(%s)) FROM %s WHERE %s AND %s IS NOT NULL'
                   % (length, at, length, files, of, length))
    if row['count']:
        assert got == [tuple(str(v) for v in want)], (row, got)
    compared += 1
assert compared > 20, compared
causes = {(r['cause'], r['title']): r['count'] for r in rows('fleet', *SESSIONS, '--question', 'causes')}
for ask in by_duck, by_house:
    got = {(cause, title): int(n) for cause, title, n in ask('SELECT cause, title, count(*) FROM verdicts GROUP BY cause, title')}
    assert got == causes, (got, causes)

# The folder is a store with tables: queries of it give the same answers as queries of the recordings.
store = ['--store', 'file://' + tables, '--from', '2000-01-01T00:00:00Z', '--to', '2100-01-01T00:00:00Z']
for question in 'causes', 'starts', 'lengths', 'nodes', 'images':
    assert rows('fleet', *store, '--question', question) == rows('fleet', *SESSIONS, '--question', question), question

# The same for tables that another engine wrote, whose text and lists have other Arrow types.
others = os.path.join(FOLDER.name, 'others')
for table in TABLES:
    for folder, _, files in os.walk(os.path.join(tables, 'default/tables', table)):
        for name in files:
            of, to = os.path.join(folder, name), os.path.join(others + folder[len(tables):], name)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            duck.sql("COPY (SELECT * FROM '%s') TO '%s' (FORMAT parquet, KV_METADATA {'kflow.tables.version': '1', 'kflow.table': '%s'})"
                     % (of, to, table))
store[1] = 'file://' + others
for asked in (['--by', 'image'], ['--by', 'node'], ['--by', 'hour'], []):
    asked = ['--question', 'lengths', *asked]
    assert rows('fleet', *store, *asked) == rows('fleet', *SESSIONS, *asked), asked

# `--sql` gives the same answers as DuckDB.
sql = 'SELECT method, count(*) AS n, sum(length_ns) AS ns FROM calls GROUP BY method ORDER BY n DESC, method'
assert [tuple(r.values()) for r in rows('fleet', *SESSIONS, '--sql', sql)] == [(m, n, int(ns) if ns is not None else None) for m, n, ns in by_duck(sql)]
print('  DuckDB %s and chDB read %d calls, %d pods, %d incidents and %d requests of %d recordings; %d measures agree' % (
    duckdb.__version__, len(calls), by_duck('SELECT count(*) FROM pods')[0][0], sum(causes.values()), requests, len(SESSIONS), compared))
