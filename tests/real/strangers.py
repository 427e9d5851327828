#!/usr/bin/env python3
"""Tests that independent parsers read what kflow writes.

    tests/real/strangers.py KFLOW

A validator of JSON Schema reads JSON, and other projects' parsers read YAML, CSV, Markdown and SVG. Protobuf, with the projects' own
definitions, reads a Perfetto trace and OpenTelemetry's traces.
"""
import base64, csv, html.parser, io, json, subprocess, sys, xml.etree.ElementTree

import jsonschema, markdown, yaml
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

KFLOW = sys.argv[1]
SESSIONS = [('S1-basics', '100%'), ('S2-stuck-early', '50%'), ('S3-crashes', '60%')]
# A command, its schema, and its formats besides JSON.
ROWS = [(['timeline', '--past'], 'timeline', 'yaml csv'), (['timeline', '--critical'], 'critical', 'yaml csv'),
        (['calls'], 'calls', 'yaml csv'), (['requests'], 'requests', 'yaml csv'), (['requests', '--list'], 'request', 'csv'),
        (['stats', '--by', 'namespace'], 'stats', 'yaml csv'), (['why', '--all'], 'why', 'yaml csv'),
        (['why', '--ever'], 'incidents', 'yaml csv'), (['flow', '--all'], 'flow', 'yaml')]
# Uses libyaml if it is installed: the parser in Python takes a minute for what libyaml reads in a second.
LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)


def run(args, session, at):
    ran = subprocess.run([KFLOW, *args, '-s', 'fixtures/sessions/%s.kflow.zst' % session, '--at', at], capture_output=True)
    assert ran.returncode in (0, 1), (args, ran.returncode, ran.stderr[-500:])
    return ran.stdout


# The rows that were read, by command.
READ = {' '.join(args): 0 for args, *_ in ROWS}


def rows(session, at):
    for args, schema, forms in ROWS:
        with open('docs/schema/%s.json' % schema) as f:
            schema = json.load(f)
        whole = json.loads(run([*args, '-o', 'json'], session, at))
        jsonschema.Draft202012Validator(schema).validate(whole)
        READ[' '.join(args)] += len(whole)
        lines = [json.loads(l) for l in run([*args, '-o', 'jsonl'], session, at).decode().splitlines()]
        assert lines == whole, args
        if 'yaml' in forms:
            assert yaml.load(run([*args, '-o', 'yaml'], session, at), LOADER) == whole, args
        if 'csv' in forms:
            # A line break inside of a cell belongs to the cell.
            table = list(csv.reader(io.StringIO(run([*args, '-o', 'csv'], session, at).decode(), newline=''), strict=True))
            head, *rest = table
            assert len(set(head)) == len(head) > 3 and all(len(r) == len(head) for r in rest), args
            assert len(rest) == len(whole), (args, len(rest), len(whole))


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)


def texts(session, at):
    said = run(['why', '--all', '-o', 'markdown'], session, at).decode()
    page = Tags()
    page.feed(markdown.markdown(said, extensions=['extra']))
    assert not {'script', 'img', 'iframe'} & set(page.seen), page.seen
    assert page.seen, said[:300]


def picture(session, at):
    pods = json.loads(run(['timeline', '-o', 'json'], session, at))
    pod = next(p for p in pods if p['spans'])
    svg = xml.etree.ElementTree.fromstring(run(['export', '%s/%s' % (pod['namespace'], pod['name']), '-o', 'svg'], session, at))
    assert svg.tag == '{http://www.w3.org/2000/svg}svg' and len(list(svg.iter())) > 50, svg.tag


def message(descriptors, name):
    """Returns a message type from its own project's definition."""
    files = descriptor_pb2.FileDescriptorSet()
    files.ParseFromString(subprocess.run(['zstd', '-dc', descriptors], check=True, capture_output=True).stdout)
    pool = descriptor_pool.DescriptorPool()
    for f in files.file:
        pool.Add(f)
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))


PERFETTO = message('fixtures/perfetto/trace.descriptor.zst', 'perfetto.protos.Trace')
OTLP = message('fixtures/otlp/trace.descriptor.zst', 'opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest')


def perfetto(session, at):
    trace = PERFETTO()
    trace.ParseFromString(run(['export', '-o', 'perfetto'], session, at))
    begun = {}
    for p in trace.packet:
        assert not p.UnknownFields() if hasattr(p, 'UnknownFields') else True
        e = p.track_event
        if e.type in (e.TYPE_SLICE_BEGIN, e.TYPE_SLICE_END):
            begun[e.track_uuid] = begun.get(e.track_uuid, 0) + (1 if e.type == e.TYPE_SLICE_BEGIN else -1)
            assert begun[e.track_uuid] >= 0, 'a slice ends that did not begin'
    assert len(trace.packet) > 100 and begun


def opentelemetry(session, at):
    posted = OTLP()
    posted.ParseFromString(run(['export', '-o', 'otlp-protobuf'], session, at))
    # OTLP's JSON differs from protobuf's in one thing: ids are hex there, and base64 here.
    def ids(v):
        if isinstance(v, list):
            return [ids(x) for x in v]
        if not isinstance(v, dict):
            return v
        return {k: base64.b64encode(bytes.fromhex(x)).decode() if k in ('traceId', 'spanId', 'parentSpanId') else ids(x)
                for k, x in v.items()}
    text = ids(json.loads(run(['export', '-o', 'otlp'], session, at)))
    # The parser fails on a field that the format does not have.
    assert json_format.ParseDict(text, OTLP()) == posted, 'the two forms differ'
    spans, parents = {}, []
    for r in posted.resource_spans:
        services = [a.value.string_value for a in r.resource.attributes if a.key == 'service.name']
        assert len(services) == 1 and services[0], r.resource
        for s in [s for scope in r.scope_spans for s in scope.spans]:
            assert len(s.trace_id) == 16 and len(s.span_id) == 8 and s.start_time_unix_nano <= s.end_time_unix_nano
            assert (s.trace_id, s.span_id) not in spans, 'an id twice'
            spans[s.trace_id, s.span_id] = s
    for (trace, _), s in spans.items():
        assert not s.parent_span_id or (trace, s.parent_span_id) in spans, 'a parent is missing'
    assert sum(1 for s in spans.values() if not s.parent_span_id) == len({trace for trace, _ in spans}), 'one root a trace'
    assert len(spans) > 100 and any(s.links for s in spans.values())


for session, at in SESSIONS:
    rows(session, at)
    texts(session, at)
    picture(session, at)
    perfetto(session, at)
    opentelemetry(session, at)
    print('  %-20s JSON, JSON lines, YAML, CSV, Markdown, SVG, Perfetto, OTLP' % session, flush=True)
assert all(READ.values()), READ
print('strangers read what kflow writes')
