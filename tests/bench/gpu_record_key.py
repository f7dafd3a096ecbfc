"""What the names and columns in a record of gpu_record.py mean, as Markdown."""

import re
import textwrap

import gpu_compare

WIDTH = 140
D, HEADS, HIDDEN = gpu_compare.SHAPES['']
WIDE, WIDE_HEADS, WIDE_HIDDEN = gpu_compare.SHAPES['_wide']

TIMES = f"""
- **case**: `a` to `e` are the sizes B and Nctx of the row. Models have random weights and 12
  layers; without a suffix, D = {D}, {HEADS} heads of {D // HEADS} elements and Dff = {HIDDEN}.
- **suffix of a case**: `_h32`: heads of 32 elements. `_wide`: D = {WIDE}, {WIDE_HEADS} heads
  (with `_h32`, {2 * WIDE_HEADS}), Dff = {WIDE_HIDDEN:,}. `_768`, `_1024`: that D, heads of 64,
  Dff = 4 D, in the unfused form. `_apart`: no kernel begins before the kernel ahead of it has
  ended.
- **default** in a case: the model `models/default`. Its encoding includes a row encoder that
  attends to the cells of the table; the row encoder of the other models is a linear map of the
  mean of a row.
- **B, Nctx, T, D, H**: paths, rows of the context, query rows, width of the model, heads. An
  encoding does not depend on B and T.
- **µs**: wall time with all copies between host and device: of a decode divided by T, of a
  density of all B × T values, of the encoding of a context. The median of {gpu_compare.ROUNDS}
  rounds, each the median of three runs (with more than 16,384 rows, of a single run).
- **PyTorch, its form**: the fastest form of the baseline, compiled and recorded as a CUDA graph,
  timed in turns with Chorale. *Context in N*: the keys of the context are divided into N parts,
  whose attention is computed separately and then combined, so that few paths occupy more
  multiprocessors.
- **times faster**: the time of PyTorch divided by that of Chorale, the median over rounds; below
  1, Chorale is slower.
- **floor, share of it**: the time of a step that tensor cores (790 TFLOP/s), exponentials (16 per
  clock and multiprocessor) or the traffic of the buffers (4.3 TB/s) take on an H200, whichever is
  longest; and floor / µs. –: not computed.
- **mean error, worst**: absolute differences from the CPU backend with the same model and data.
  Decode and density: of the log-densities of drawn values, in nats per value. Encoding: of the
  means of predictions for the query rows, in the model's units of y. –: not compared (more than
  8,192 rows).
"""
PRODUCTS = """
- **Products**: a layer without attention in the fused and in the unfused (wide) form, and its
  five GEMMs by cuBLASLt, in time of the device.
"""
LOAD = """
- **Service**: sessions draw at the same time, each through a connection of its own (service) or
  in one process (engine); share is service / engine. First values: time from the start of a call,
  median; p99: the 99th percentile.
"""
MEMORY = """
- **Memory**: by formula: keys and values alone. A context for each path: keys and values if each
  path had a copy of the context.
"""
PROFILE = """
- **Profile**: launches that Nsight Compute measured separately, so that none overlaps another;
  caches as the launch before left them, clocks not fixed. Those of a decode are from its middle,
  where buffers are half full.
- **tensor, MUFU, FMA, occupancy %**: of the peak of tensor cores, exponential units,
  multiply-adds and resident warps, averaged over the cycles in which multiprocessors have a
  block.
- **issue, DRAM, L2, shared %**: of the peak of issue slots, memory, L2 cache and the data path of
  loads and stores (mostly of shared memory) of the whole device during the launch,
  multiprocessors without a block included.
- **stalls**: cycles that a warp spends per instruction, the three largest. `long_scoreboard`: it
  waits for global or local memory; `wait`: for an instruction of fixed latency; `barrier`: for
  other warps; `mio_throttle`: for the queue of shared memory and special functions. `selected`:
  it issues, always 1.
"""
ERRORS = """
- **Errors against float64**: differences from a computation in float64 that tests print: the
  largest of all compared elements, or of the joint log-density of a path divided by its query
  rows. Log-densities are in nats, other elements in the units of the model; a log-density of 0:
  the test compares none.
"""


def wrapped(text):
    """The entries of a list, which begin with "- " at the start of a line, as lines of WIDTH."""
    return [textwrap.fill(' '.join(entry.split()), WIDTH, subsequent_indent='  ',
                          break_long_words=False, break_on_hyphens=False)
            for entry in re.split(r'\n(?=- )', text.strip())]


def key(lines, errors):
    """The key of those tables alone that have lines."""
    measures = {line.get('measure') for line in lines}
    parts = [(TIMES, measures & {'decode', 'density', 'encode'}),
             (PRODUCTS, 'products' in measures), (LOAD, 'load' in measures), (MEMORY, 'memory' in measures),
             (PROFILE, any('profile' in line for line in lines)), (ERRORS, errors)]
    entries = [entry for text, there in parts if there for entry in wrapped(text)]
    return ['## Key', '', *entries, ''] if entries else []
