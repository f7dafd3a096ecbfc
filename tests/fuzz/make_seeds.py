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


TABLE = '''columns { name: "x" numeric { values: 1 values: nan values: -2.5 } }
columns { name: "c" categorical { categories: "a" categories: "b" codes: 1 codes: -1 codes: 0 } }'''
TARGETS = 'targets { ' + TABLE + ' }'

# (kind, seed name, messages in text form). The order of the kinds is that of request_fuzz.cc.
MESSAGES = (
    ('PredictRequest', 'predict', [
        f'context: "contexts/a" {TARGETS} quantiles: 0.1 quantiles: 0.9 include_mixtures: true']),
    ('SampleRequest', 'sample', [
        f'context: "contexts/a" {TARGETS} path_count: 8 seed: 7 order: RANDOM_PER_PATH '
        'include_log_densities: true beyond_buffer: WRAP']),
    ('LogDensityRequest', 'log_density', [
        f'context: "contexts/a" {TARGETS} values: 1 values: 2 values: 3 random_order_count: 2 '
        'seed: 1']),
    ('LogDensityRequest', 'log_density_terms', [
        f'context: "contexts/a" {TARGETS} values: 1 values: 2 values: 3 '
        'include_terms: true include_mixtures: true']),
    ('RegisterContextRequest', 'register', [
        'header { context_id: "a" target_column: "x" }', f'rows {{ {TABLE} }}']),
    ('RegisterContextRequest', 'register_two_chunks', [
        'header { context_id: "b" target_column: "x" model: "models/m" }',
        f'rows {{ {TABLE} }}', f'rows {{ {TABLE} }}']),
)
KINDS = ('PredictRequest', 'SampleRequest', 'LogDensityRequest', 'RegisterContextRequest')


def encode(kind, text):
    return subprocess.run(
        ['protoc', f'--encode=chorale.v1.{kind}', '-I', 'proto', 'chorale/v1/chorale.proto'],
        cwd=ROOT, input=text.encode(), stdout=subprocess.PIPE, check=True).stdout


def request_seeds():
    """One byte of kind, then the messages, each behind its length in two bytes."""
    for kind, name, texts in MESSAGES:
        messages = [encode(kind, text) for text in texts]
        yield name, bytes([KINDS.index(kind)]) + b''.join(
            struct.pack('<H', len(message)) + message for message in messages)


def main():
    output = pathlib.Path(sys.argv[1])
    for target, seeds in (('safetensors_fuzz', safetensors_seeds()),
                          ('config_fuzz', config_seeds()), ('request_fuzz', request_seeds())):
        folder = output / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in seeds:
            (folder / name).write_bytes(content)


if __name__ == '__main__':
    main()
