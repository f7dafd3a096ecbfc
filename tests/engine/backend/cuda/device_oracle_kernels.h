// What the float64 oracle on the device (device_oracle.h) computes beside products, written simply.
//
// Arrays are device memory, row-major. Launches are on the default stream. Each function returns
// the launch's error code.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_CUDA_DEVICE_ORACLE_KERNELS_H_
#define CHORALE_TESTS_ENGINE_BACKEND_CUDA_DEVICE_ORACLE_KERNELS_H_

#include <cstdint>

#include "kernels/cuda/runtime/stream.h"

namespace chorale::device_oracle {

using kernels::cuda::ErrorCode;

// x = LN(x + y + bias), with x and y [rows, width]; y and bias may be null.
ErrorCode AddAndNormalize(double* x, const double* y, const double* bias, const double* gamma,
                          const double* beta, int64_t rows, int64_t width, double epsilon);

// h = gelu(h + bias), with h [rows, width].
ErrorCode AddBiasAndGelu(double* h, const double* bias, int64_t rows, int64_t width);

// Of each row of scores [rows, columns], in place. A score of -inf counts nothing; every row has
// another one.
ErrorCode Softmax(double* scores, int64_t rows, int64_t columns);

// Attention of one head to the keys of the row's own path. Row p T + t of the first B T is the
// buffer token of path p at position t, and sees those of its path up to itself; row B T + p T + t
// is the query row there, and sees those before.
struct OwnKeys {
  int64_t query_rows = 0;     // T
  int64_t tokens = 0;         // B T
  int64_t head_dim = 0;       // Dh
  const double* q = nullptr;  // [all rows], of the head
  int64_t q_stride = 0;       // elements from one row's to the next one's
  const double* k = nullptr;  // [all rows], of the head
  const double* v = nullptr;  // likewise
  int64_t kv_stride = 0;
  double* scores = nullptr;  // [rows, columns], of which the last T are for these keys
  int64_t columns = 0;
  double* attended = nullptr;  // [all rows], of the head, q_stride
  int64_t first_row = 0;       // of the rows of `scores`
  int64_t rows = 0;
};
// Sets their scores, q . k / sqrt(Dh), -inf where a key is not seen.
ErrorCode ScoreOwnKeys(const OwnKeys& own);
// Adds their values to `attended`, weighted by what became of the scores.
ErrorCode AddOwnValues(const OwnKeys& own);

}  // namespace chorale::device_oracle

#endif  // CHORALE_TESTS_ENGINE_BACKEND_CUDA_DEVICE_ORACLE_KERNELS_H_
