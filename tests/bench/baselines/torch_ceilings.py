#!/usr/bin/env python3
"""What this GPU can do at most, by its libraries: to hold floors and shares against.

Usage: torch_ceilings.py [--device cuda|cpu]

Prints one JSON line: terabytes a second of a large copy (read and written), and teraflops a second
of a large product of random bfloat16 matrices. Medians of ten.
"""

import argparse
import json
import statistics
import time

import torch

RUNS = 10


def seconds(body, device):
    def wait():
        if device == 'cuda':
            torch.cuda.synchronize()
    times = []
    for run in range(RUNS + 3):
        wait()
        start = time.perf_counter()
        body()
        wait()
        if run >= 3:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--device', choices=('cuda', 'cpu'), default='cuda')
    device = parser.parse_args().device
    elements, n = (1 << 31, 8192) if device == 'cuda' else (1 << 20, 256)
    source = torch.randint(255, (elements,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = 2 * elements / seconds(lambda: target.copy_(source), device)
    a, b = (torch.randn(n, n, device=device).bfloat16() for _ in range(2))
    product = 2 * n ** 3 / seconds(lambda: a @ b, device)
    print(json.dumps({'copy_tb_per_s': round(copy * 1e-12, 3),
                      'bf16_tflop_per_s': round(product * 1e-12, 2)}))


if __name__ == '__main__':
    main()
