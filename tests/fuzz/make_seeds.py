#!/usr/bin/env python3
"""Writes the seed inputs of the fuzz targets: one folder per target.

Usage: make_seeds.py OUTPUT_FOLDER

Seeds are made and not stored: what they are stays readable, and they follow the API as it grows.
Messages are written in text form and encoded by protoc.
"""

import json
import pathlib
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

CONFIG = {
    'model_type': 'ar_tabpfn', 'd_model': 32, 'n_heads': 4, 'n_layers': 2, 'd_ff': 64,
    'num_components': 5, 'buffer_size': 8, 'num_features': 3, 'std_min': 0.001, 'std_max': 2.0,
    'layer_norm_eps': 1e-05,
}


def tensor_file(header, data=b''):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack('<Q', len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {'dtype': dtype, 'shape': shape, 'data_offsets': [begin, end]}


def safetensors_seeds():
    yield 'empty', tensor_file({})
    yield 'one', tensor_file({'a': tensor('F32', [2, 2], 0, 16)}, bytes(range(16)))
    yield 'every_dtype', tensor_file(
        {'f64': tensor('F64', [1], 0, 8), 'f32': tensor('F32', [1, 2], 8, 16),
         'f16': tensor('F16', [3], 16, 22), 'bf16': tensor('BF16', [1], 22, 24),
         '__metadata__': {'format': 'pt'}}, bytes(range(24)))
    yield 'scalar', tensor_file({'s': tensor('F32', [], 0, 4)}, b'\0\0\x80\x7f')
    yield 'no_elements', tensor_file({'z': tensor('F32', [0, 4], 0, 0)})
    yield 'padded_header', tensor_file(json.dumps({'a': tensor('F16', [1], 0, 2)}).encode() + b'   ',
                                       b'\0\x3c')
    yield 'overlap', tensor_file(
        {'a': tensor('F32', [2], 0, 8), 'b': tensor('F32', [2], 4, 12)}, bytes(12))
    yield 'hole', tensor_file(
        {'a': tensor('F32', [1], 0, 4), 'b': tensor('F32', [1], 8, 12)}, bytes(12))
    yield 'overflow', tensor_file({'a': tensor('F32', [2**32, 2**32], 0, 4)}, bytes(4))
    yield 'past_the_end', tensor_file({'a': tensor('F32', [4], 0, 16)}, bytes(8))
    yield 'duplicate', tensor_file(
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
        b'"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4))
    yield 'long_header', struct.pack('<Q', 2**63) + b'{}'
    yield 'short', b'\x02\0\0'


def config_seeds():
    yield 'plain', json.dumps(CONFIG).encode()
    yield 'full', json.dumps({
        **CONFIG, 'row_encoder': 'feature_mean', 'n_kv_heads': 2, 'max_features': 10,
        'normalize_x': 'zscore', 'normalize_y': 'none', 'notice': 'random weights'}).encode()
    for key, value in (('n_heads', 5), ('d_model', -1), ('n_layers', 2**62), ('std_max', 1e400),
                       ('buffer_size', 1.5), ('d_ff', '64'), ('unknown', 0)):
        yield f'bad_{key}', json.dumps({**CONFIG, key: value}).encode()
    yield 'not_an_object', b'[1, 2]'
    yield 'deep', b'[' * 200
    yield 'empty', b''


HASH = '2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b'
TENANTS = '''tenants:
  acme:
    weight: 2
    max_contexts: 3
    max_dataset_mib: 4
    max_resident_mib: 5
    max_concurrent_calls: 6
    max_values_per_second: 7
    certificates:
      - {dns: a.example, role: register}
      - {uri: "spiffe://acme/a", role: read}
      - {subject: "CN=a,O=Acme", role: admin}
others: {max_contexts: 1}
'''


def token_file_seeds():
    yield 'tokens', f'a {HASH} acme read\n# b\n\nb {HASH[::-1]} zeta admin 2027-01-31T00:00:00Z\n'.encode()
    yield 'bad_role', f'a {HASH} acme write\n'.encode()
    yield 'twice', f'a {HASH} acme read\nb {HASH} acme read\n'.encode()
    yield 'bad_time', f'a {HASH} acme read 2027-13-31\n'.encode()


def tenant_file_seeds():
    yield 'tenants', TENANTS.encode()
    yield 'twice', b'tenants: {a: {}, a: {}}'
    yield 'bad', b'tenants: {a: {weight: 0}}'
    yield 'alias', b'tenants: {a: &a {weight: 1}, b: *a}'
    yield 'comma', b','
    yield 'deep', b'[' * 200
    yield 'empty', b''


def context_file_seeds():
    """One byte says whether the target appends the digest."""
    head = json.dumps({'tenant': 't', 'name': 'contexts/a', 'dataset': 'd', 'created_ns': 7,
                       'model': 'm', 'model_digest': 'md', 'kv_format': 'f', 'kv_bytes': 16}).encode()

    def file(head=head, state=b'state', kv=bytes(range(16)), lengths=None):
        return (b'CHORALE KV 1\n' + struct.pack('<QQQ', *(lengths or map(len, (head, state, kv)))) +
                head + state + kv)

    yield 'good', b'1' + file()
    yield 'no_state', b'1' + file(state=b'')
    yield 'no_digest', b'0' + file() + bytes(32)
    yield 'other_context', b'1' + file(head.replace(b'contexts/a', b'contexts/b'))
    yield 'other_size', b'1' + file(head.replace(b'16}', b'17}'))
    yield 'no_json', b'1' + file(b'{')
    yield 'long_head', b'1' + file(lengths=(2**63, 0, 0))
    yield 'overflow', b'1' + file(lengths=(2**63 - 1, 2**63 - 1, 16))
    yield 'short', b'1CHORALE KV 1\n'


def csv_seeds():
    yield 'plain', b'a,b\n1,x\n,y\n'
    yield 'quoted', b'"a ""b""","c,d"\r\n"line\nbreak", 2 \r\n'
    yield 'mark', b'\xef\xbb\xbfa\r1\r\r'
    yield 'open_quote', b'a\n"x'
    yield 'few_cells', b'a,b\n1\n'
    yield 'utf8', 'ä,"€"\n1,\U0001d54f\n'.encode()
    yield 'not_utf8', b'a\n\xff\n'
    yield 'blank', b'a\n\n""\n\t\n'
    yield 'blank_rows', b'a,b\n1,2\n,\n , \n3,4\n'
    yield 'index', b',a\n0,x\n1,y\n'
    yield 'trailing', b'a,b,\n1,2,\n'
    yield 'semicolons', b'a;b\n1,5;x\n'
    yield 'announced', b'sep=;\r\na;b\r\n1;2\r\n'
    yield 'tabs', b'a\tb\n1\t 2\n\t\n'
    yield 'types', (b'flag,day,month,kg\nTRUE,2012-01-31T12:00+01:00,2012-02,5 kg\n'
                    b'false,2012-02-29,2012-12,1.234\xc2\xb2\n')


TABLE = '''columns { name: "x" numeric { values: 1 values: nan values: -2.5 meaning: MEANING_DATE } }
columns { name: "b" numeric { values: 1 values: 0 values: nan meaning: MEANING_BOOLEAN } }
columns { name: "c" categorical { categories: "a" categories: "b" codes: 1 codes: -1 codes: 0 } }'''
ROWS = 'rows { ' + TABLE + ' }'
# The other forms of columns.
FORMS = '''columns { name: "a" bools { values: true values: false values: true missing_rows: 1 } }
columns { name: "b" integers { values: -1 values: 9007199254740992 values: 0 missing_rows: 2 } }
columns { name: "c" strings { values: "2024-01-31" values: "" values: "3.0" } }
columns { name: "d" dates { days: -719162 days: 0 days: 2932896 } }
columns { name: "e" timestamps { microseconds: -1 microseconds: 0 microseconds: 1 missing_rows: 0 } }
columns { name: "f" strings { values: "1" values: "9007199254740993" values: "\\302\\2403 kg" } }
columns { name: "y" strings { values: "1" values: "-2.5e3" values: "" } }'''

# (kind, seed name, messages in text form). The order of the kinds is that of request_fuzz.cc.
MESSAGES = (
    ('PredictRequest', 'predict', [
        f'context: "contexts/a" {ROWS} quantiles: 0.1 quantiles: 0.9 include_mixtures: true']),
    ('SampleRequest', 'sample', [
        f'context: "contexts/a" {ROWS} path_count: 8 seed: 7 order: ORDER_RANDOM_PER_PATH '
        'include_log_densities: true beyond_buffer: BEYOND_BUFFER_WRAP']),
    ('SampleRequest', 'sample_totals', [
        f'context: "contexts/a" {ROWS} path_count: 8 group_sizes: 1 group_sizes: 2 known_totals '
        '{ lower: 2.5 lower: -inf upper: 2.5 upper: 7 }']),
    ('LogDensityRequest', 'log_density', [
        f'context: "contexts/a" {ROWS} values: 1 values: 2 values: 3 random_order_count: 2 '
        'seed: 1']),
    ('LogDensityRequest', 'log_density_terms', [
        f'context: "contexts/a" {ROWS} values: 1 values: 2 values: 3 '
        'include_terms: true include_mixtures: true include_cdfs: true']),
    ('RegisterContextRequest', 'register', [
        'spec { context_id: "a" target_column: "x" }', f'rows {{ {TABLE} }}']),
    ('RegisterContextRequest', 'register_two_chunks', [
        'spec { context_id: "b" target_column: "x" model: "models/m" }',
        f'rows {{ {TABLE} }}', f'rows {{ {TABLE} }}']),
    ('CreateContextRequest', 'create', [
        'spec { context_id: "a" target_column: "x" validate_only: true replace: true etag: "e" } '
        f'rows {{ {TABLE} }}']),
    ('SummarizeRequest', 'summarize', [
        f'context: "contexts/a" {ROWS} path_count: 8 seed: 7 quantiles: 0.5 group_sizes: 3 '
        'sampling: SAMPLING_SOBOL estimator: ESTIMATOR_VALUES '
        'include_covariances: true returned_path_count: 2 functionals { type: TYPE_SUM rows: 2 '
        'weights: 0.5 target_mean_error: 1 target_quantile_error: 1 } '
        'functionals { type: TYPE_RANK } functionals { type: TYPE_COUNT '
        'threshold: 1.5 below: true } target_mean_error: 0.5 target_quantile_error: 2']),
    ('AppendRowsRequest', 'append', [
        f'name: "contexts/a" rows {{ {TABLE} }} first_row: 3 etag: "e" validate_only: true '
        'missing_targets: MISSING_TARGETS_DROP expected_source { context_digest: "d" }']),
)
FORM_MESSAGES = (
    ('PredictRequest', 'predict_forms', [
        f'context: "contexts/a" rows {{ {FORMS} }} ignore_extra_columns: true']),
    ('RegisterContextRequest', 'register_forms', [
        'spec { context_id: "a" target_column: "y" missing_targets: MISSING_TARGETS_DROP }',
        f'rows {{ {FORMS} }}', f'rows {{ {FORMS} }}']),
    ('AppendRowsRequest', 'append_forms', [f'name: "contexts/a" rows {{ {FORMS} }}']),
)
KINDS = ('PredictRequest', 'SampleRequest', 'LogDensityRequest', 'RegisterContextRequest',
         'CreateContextRequest', 'AppendRowsRequest', 'SummarizeRequest')


def encode(kind, text):
    return subprocess.run(
        ['protoc', f'--encode=chorale.v1.{kind}', '-I', 'proto', 'chorale/v1/chorale.proto'],
        cwd=ROOT, input=text.encode(), stdout=subprocess.PIPE, check=True).stdout


def request_seeds():
    """One byte of kind, then the messages, each behind its length in two bytes."""
    for kind, name, texts in MESSAGES + FORM_MESSAGES:
        messages = [encode(kind, text) for text in texts]
        yield name, bytes([KINDS.index(kind)]) + b''.join(
            struct.pack('<H', len(message)) + message for message in messages)


# As tests/server/telemetry/method.h has them.
METHODS = ('RegisterContext', 'CreateContext', 'AppendRows', 'GetContext', 'ListContexts',
           'DeleteContext', 'WarmContext', 'Predict', 'Sample', 'Summarize', 'LogDensity',
           'GetModel', 'ListModels', 'GetServerInfo')
HEADERS_OF_CALL, MESSAGE, RAW = 10, 11, 12
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM = 1


def frame(kind, flags=0, stream=0, payload=b''):
    return struct.pack('<BBBH', kind, flags, stream, len(payload)) + payload


def http2_seeds():
    """Calls and floods; http2_fuzz.cc says what the bytes mean."""
    for kind, name, texts in MESSAGES:
        method = next(i for i, one in enumerate(METHODS) if kind == f'{one}Request')
        frames = [frame(HEADERS_OF_CALL, method, 1)]
        frames += [frame(MESSAGE, 0, 1, encode(kind, text)) for text in texts]
        yield name, b''.join(frames) + frame(DATA, END_STREAM, 1)
    call = frame(HEADERS_OF_CALL, METHODS.index('Predict'), 1)
    yield 'resets', b''.join(
        frame(HEADERS_OF_CALL, 9, stream) + frame(RST_STREAM, 0, stream, struct.pack('>I', 8))
        for stream in range(1, 41, 2))
    yield 'half_a_message', call + frame(DATA, 0, 1, b'\0\0\0\1\0' + bytes(100))
    yield 'a_long_message', call + frame(DATA, 0, 1, b'\0\xff\xff\xff\xff')
    yield 'compressed', call + frame(DATA, END_STREAM, 1, b'\1\0\0\0\1x')
    for name, value in ((b'te', b'x'), (b':scheme', b'x'), (b'grpclb_client_stats', b'x'),
                        (b'grpc-timeout', b'9' * 20), (b'grpc-trace-bin', b'%%%')):
        odd = bytes([0, len(name)]) + name + bytes([len(value)]) + value
        rest = b'\0\1a\x7f\x81\x4f' + b'a' * 10240  # with the above more than 8 KiB
        yield f'odd_{name.strip(b":").decode()}', (
            frame(HEADERS, 0, 1, odd) + frame(CONTINUATION, 4, 1, rest))
    yield 'pings', frame(PING, 0, 0, bytes(8)) * 20
    yield 'settings', frame(SETTINGS, 0, 0, struct.pack('>HI', 4, 0)) * 10 + call
    yield 'table_sizes', frame(SETTINGS, 0, 0, struct.pack('>HI', 1, 2**32 - 1)) + call
    yield 'windows', call + frame(WINDOW, 0, 1, struct.pack('>I', 2**31 - 1)) * 2
    yield 'continuations', frame(HEADERS, 0, 1, b'\x82') + frame(CONTINUATION, 0, 1, b'\x84') * 20
    yield 'priorities', frame(PRIORITY, 0, 3, struct.pack('>IB', 3, 255)) * 10
    yield 'goaway', call + frame(GOAWAY, 0, 0, struct.pack('>II', 1, 0)) + call
    yield 'padding', frame(HEADERS, 0x0c, 1, b'\xff') + frame(DATA, 8, 1, b'\xff')
    yield 'push', frame(PUSH, 4, 1, struct.pack('>I', 2))
    yield 'http1', b'\x8c\0\0' + struct.pack('<H', 18) + b'GET / HTTP/1.1\r\n\r\n'
    yield 'tls', b'\x8c\0\0' + struct.pack('<H', 6) + b'\x16\3\1\0\5\1'


def main():
    output = pathlib.Path(sys.argv[1])
    for target, seeds in (('safetensors_fuzz', safetensors_seeds()),
                          ('config_fuzz', config_seeds()), ('request_fuzz', request_seeds()),
                          ('http2_fuzz', http2_seeds()),
                          ('token_file_fuzz', token_file_seeds()),
                          ('tenant_file_fuzz', tenant_file_seeds()),
                          ('context_file_fuzz', context_file_seeds()),
                          ('csv_fuzz', csv_seeds())):
        folder = output / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds:
            (folder / name).write_bytes(content)


if __name__ == '__main__':
    main()
