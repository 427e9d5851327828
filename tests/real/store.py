#!/usr/bin/env python3
"""A trace store made with gRPC's and OpenTelemetry's own libraries. It first asks kflow to retry later, and then takes what kflow sends.

    tests/real/store.py KFLOW

Needs the packages grpcio, opentelemetry-proto and googleapis-common-protos.
"""
import concurrent.futures, json, os, subprocess, sys

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as messages, trace_service_pb2_grpc as service

KFLOW = sys.argv[1]
SESSION = 'fixtures/sessions/S3-crashes.kflow.zst'


class Store(service.TraceServiceServicer):
    def __init__(self):
        self.spans, self.refused = {}, 0

    def Export(self, request, context):
        if not self.refused:
            self.refused += 1
            wait = any_pb2.Any()
            wait.Pack(error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=1)))
            details = status_pb2.Status(code=grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], message='full', details=[wait])
            context.set_trailing_metadata([('grpc-status-details-bin', details.SerializeToString())])
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, 'full')
        for resource in request.resource_spans:
            names = [a.value.string_value for a in resource.resource.attributes if a.key == 'service.name']
            assert len(names) == 1, names
            for span in [s for scope in resource.scope_spans for s in scope.spans]:
                key = span.trace_id.hex(), span.span_id.hex()
                assert key not in self.spans, 'an id twice'
                self.spans[key] = names[0]
        return messages.ExportTraceServiceResponse()


def kflow(*args, **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith('OTEL_')} | variables
    ran = subprocess.run([KFLOW, 'export', '-s', SESSION, *args], capture_output=True, text=True, env=env)
    assert ran.returncode == 0, ran.stderr[-500:]
    return ran


store = Store()
server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
service.add_TraceServiceServicer_to_server(store, server)
port = server.add_insecure_port('127.0.0.1:0')
server.start()
said = kflow('--otlp-to', OTEL_EXPORTER_OTLP_PROTOCOL='grpc', OTEL_EXPORTER_OTLP_ENDPOINT='http://127.0.0.1:%d' % port).stderr
assert 'ResourceExhausted: full; again' in said, said
assert '%d spans sent' % len(store.spans) in said, said
want = {(s['traceId'], s['spanId']) for r in json.loads(kflow('-o', 'otlp').stdout)['resourceSpans']
        for scope in r['scopeSpans'] for s in scope['spans']}
assert set(store.spans) == want and len(want) > 500, (len(store.spans), len(want))
server.stop(None)
print('  a trace store takes %d spans of %s by gRPC' % (len(want), ', '.join(sorted(set(store.spans.values())))))
