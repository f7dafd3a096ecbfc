// What the float64 references of the model's parts have in common, in plain loops.
#ifndef CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_MATH_H_
#define CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_MATH_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/model/model.h"

namespace chorale::reference {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;  // [rows][width]

// W x + b; b may be empty.
Vector Linear(const std::vector<float>& w, const std::vector<float>& b, const Vector& x);
Vector Add(Vector a, const Vector& b);
Vector LayerNorm(const LayerNormWeights& norm, double epsilon, const Vector& x);
Vector Gelu(Vector x);
double LogSumExp(const Vector& x);

// Softmax attention of one head of `width`: elements q_begin and up of q, and of out, to which it
// is added; elements kv_begin and up of each (key, value). `log_weights`, of each pair, are added
// to the scores; empty: 0.
void AttendHead(int64_t width, const Vector& q, int64_t q_begin, int64_t kv_begin,
                const std::vector<std::pair<const Vector*, const Vector*>>& pairs, Vector& out,
                const Vector& log_weights = {});

}  // namespace chorale::reference

#endif  // CHORALE_TESTS_ENGINE_BACKEND_REFERENCE_MATH_H_
