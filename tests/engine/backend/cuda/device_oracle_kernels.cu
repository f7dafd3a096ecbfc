#include <cuda_runtime_api.h>

#include <cmath>

#include "tests/engine/backend/cuda/device_oracle_kernels.h"

namespace chorale::device_oracle {
namespace {

constexpr int kThreads = 256;

__device__ int64_t ThreadIndex() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}
unsigned Blocks(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

// A thread for each row.
__global__ void AddAndNormalizeKernel(double* x, const double* y, const double* bias,
                                      const double* gamma, const double* beta, int64_t rows,
                                      int64_t width, double epsilon) {
  const int64_t row = ThreadIndex();
  if (row >= rows) return;
  double* const of_row = x + row * width;
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    if (y != nullptr) of_row[i] += y[row * width + i];
    if (bias != nullptr) of_row[i] += bias[i];
    sum += of_row[i];
  }
  const double mean = sum / width;
  double squares = 0;
  for (int64_t i = 0; i < width; ++i) squares += (of_row[i] - mean) * (of_row[i] - mean);
  const double deviation = sqrt(squares / width + epsilon);
  for (int64_t i = 0; i < width; ++i) {
    of_row[i] = (of_row[i] - mean) / deviation * gamma[i] + beta[i];
  }
}

// A thread for each element.
__global__ void AddBiasAndGeluKernel(double* h, const double* bias, int64_t elements,
                                     int64_t width) {
  const int64_t i = ThreadIndex();
  if (i >= elements) return;
  const double x = h[i] + bias[i % width];
  h[i] = x / 2 * (1 + erf(x / sqrt(2.0)));
}

// The sum, or the largest, of what the threads of a block bring.
enum class Combine { kSum, kMost };
__device__ double OfBlock(double value, Combine how, double* parts) {
  parts[threadIdx.x] = value;
  __syncthreads();
  for (unsigned half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const double a = parts[threadIdx.x];
      const double b = parts[threadIdx.x + half];
      parts[threadIdx.x] = how == Combine::kSum ? a + b : fmax(a, b);
    }
    __syncthreads();
  }
  const double combined = parts[0];
  __syncthreads();
  return combined;
}

// A block for each row.
__global__ void SoftmaxKernel(double* scores, int64_t columns) {
  __shared__ double parts[kThreads];
  double* const row = scores + blockIdx.x * columns;
  double most = -INFINITY;
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) most = fmax(most, row[c]);
  most = OfBlock(most, Combine::kMost, parts);
  double sum = 0;
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) {
    row[c] = exp(row[c] - most);
    sum += row[c];
  }
  sum = OfBlock(sum, Combine::kSum, parts);
  for (int64_t c = threadIdx.x; c < columns; c += kThreads) row[c] /= sum;
}

// The row of the first buffer token of the path of `row`.
__device__ int64_t FirstToken(const OwnKeys& own, int64_t row) {
  return row % own.tokens / own.query_rows * own.query_rows;
}

// A thread for each row and each position.
__global__ void ScoreOwnKeysKernel(OwnKeys own) {
  const int64_t i = ThreadIndex();
  if (i >= own.rows * own.query_rows) return;
  const int64_t in_block = i / own.query_rows;
  const int64_t position = i % own.query_rows;
  const int64_t row = own.first_row + in_block;
  const int64_t own_position = row % own.query_rows;
  const bool is_token = row < own.tokens;
  double score = -INFINITY;
  if (position < own_position || (is_token && position == own_position)) {
    const double* const q = own.q + row * own.q_stride;
    const double* const k = own.k + (FirstToken(own, row) + position) * own.kv_stride;
    double sum = 0;
    for (int64_t d = 0; d < own.head_dim; ++d) sum += q[d] * k[d];
    score = sum / sqrt(static_cast<double>(own.head_dim));
  }
  own.scores[in_block * own.columns + own.columns - own.query_rows + position] = score;
}

// A thread for each row and each element of the head.
__global__ void AddOwnValuesKernel(OwnKeys own) {
  const int64_t i = ThreadIndex();
  if (i >= own.rows * own.head_dim) return;
  const int64_t in_block = i / own.head_dim;
  const int64_t d = i % own.head_dim;
  const int64_t row = own.first_row + in_block;
  const double* const weights = own.scores + (in_block + 1) * own.columns - own.query_rows;
  const double* const v = own.v + FirstToken(own, row) * own.kv_stride;
  double sum = 0;
  for (int64_t position = 0; position < own.query_rows; ++position) {
    sum += weights[position] * v[position * own.kv_stride + d];
  }
  own.attended[row * own.q_stride + d] += sum;
}

}  // namespace

ErrorCode AddAndNormalize(double* x, const double* y, const double* bias, const double* gamma,
                          const double* beta, int64_t rows, int64_t width, double epsilon) {
  AddAndNormalizeKernel<<<Blocks(rows), kThreads>>>(x, y, bias, gamma, beta, rows, width, epsilon);
  return cudaGetLastError();
}

ErrorCode AddBiasAndGelu(double* h, const double* bias, int64_t rows, int64_t width) {
  AddBiasAndGeluKernel<<<Blocks(rows * width), kThreads>>>(h, bias, rows * width, width);
  return cudaGetLastError();
}

ErrorCode Softmax(double* scores, int64_t rows, int64_t columns) {
  SoftmaxKernel<<<static_cast<unsigned>(rows), kThreads>>>(scores, columns);
  return cudaGetLastError();
}

ErrorCode ScoreOwnKeys(const OwnKeys& own) {
  ScoreOwnKeysKernel<<<Blocks(own.rows * own.query_rows), kThreads>>>(own);
  return cudaGetLastError();
}

ErrorCode AddOwnValues(const OwnKeys& own) {
  AddOwnValuesKernel<<<Blocks(own.rows * own.head_dim), kThreads>>>(own);
  return cudaGetLastError();
}

}  // namespace chorale::device_oracle
