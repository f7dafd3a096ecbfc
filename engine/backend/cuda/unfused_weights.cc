#include "engine/backend/cuda/unfused_weights.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "engine/backend/cuda/layer_matrices.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::FromBf16;
using kernels::cuda::GemmPlan;
using kernels::cuda::GemmResult;
using kernels::cuda::GemmShape;
using kernels::cuda::Matrix;
using kernels::cuda::ToBf16;

// Returns the matrix, or the vector, extended by zeros to the given sizes.
Matrix Padded(const Matrix& matrix, int64_t out, int64_t in) {
  Matrix padded = {std::vector<float>(out * in), out, in};
  for (int64_t o = 0; o < matrix.out; ++o) {
    std::copy_n(matrix.values.begin() + o * matrix.in, matrix.in, padded.values.begin() + o * in);
  }
  return padded;
}

std::vector<float> Padded(std::vector<float> vector, int64_t size) {
  vector.resize(size, 0);
  return vector;
}

std::vector<uint16_t> Rounded(const Matrix& matrix) {
  std::vector<uint16_t> rounded(matrix.values.size());
  std::transform(matrix.values.begin(), matrix.values.end(), rounded.begin(), ToBf16);
  return rounded;
}

// Returns the rows W_hi, W_hi, W_lo; see HeadPartsParams.
std::vector<uint16_t> Parts(const Matrix& matrix) {
  std::vector<uint16_t> parts;
  parts.reserve(3 * matrix.values.size());
  for (int64_t o = 0; o < matrix.out; ++o) {
    const float* const row = matrix.values.data() + o * matrix.in;
    std::vector<uint16_t> high(matrix.in);
    std::transform(row, row + matrix.in, high.begin(), ToBf16);
    parts.insert(parts.end(), high.begin(), high.end());
    parts.insert(parts.end(), high.begin(), high.end());
    for (int64_t i = 0; i < matrix.in; ++i) parts.push_back(ToBf16(row[i] - FromBf16(high[i])));
  }
  return parts;
}

}  // namespace

UnfusedWeights::UnfusedWeights(const Model& model, const KernelShape& shape, WeightBlob& blob)
    : layers(model.layers.size()) {
  const ModelConfig& config = model.config;
  const int64_t d = config.d_model;
  for (size_t l = 0; l < layers.size(); ++l) {
    const LayerWeights& weights = model.layers[l];
    const LayerMatrices matrices(weights, config, shape);
    UnfusedLayerWeights& layer = layers[l];
    blob.Add(Rounded(matrices.feature), &layer.feature);
    blob.Add(Rounded(matrices.projection), &layer.projection);
    blob.Add(Rounded(matrices.out), &layer.out);
    blob.Add(Rounded(Padded(matrices.up, shape.hidden, d)), &layer.up);
    blob.Add(Rounded(Padded(matrices.down, d, shape.hidden)), &layer.down);
    blob.Add(Padded(weights.b1, shape.hidden), &layer.b1);
    blob.Add(weights.b2, &layer.b2);
    int norm = 0;
    for (const LayerNormWeights* each : {&weights.norm1, &weights.norm2, &weights.norm3}) {
      blob.Add(each->gamma, &layer.gamma[norm]);
      blob.Add(each->beta, &layer.beta[norm]);
      ++norm;
    }
  }
  const HeadWeights& model_head = model.head;
  blob.Add(model_head.norm.gamma, &head.gamma);
  blob.Add(model_head.norm.beta, &head.beta);
  const Matrix w1 = Padded({model_head.w1, config.d_ff, d}, shape.hidden, d);
  blob.Add(Parts(w1), &head_parts);
  blob.Add(Padded(model_head.b1, shape.hidden), &head.b1);
  const int64_t outputs = 3 * config.num_components;
  const Matrix w2 = Padded({model_head.w2, outputs, config.d_ff}, outputs, shape.hidden);
  head.scales = kernels::cuda::HeadScalesOf(model_head.norm.gamma, model_head.norm.beta, w1,
                                            model_head.b1, w2);
  blob.Add(kernels::cuda::PackHeadMap(w2, head.scales.w2), &head.w2);
  blob.Add(model_head.b2, &head.b2);
  blob.Add(model_head.mean_bias, &head.mean_bias);
  blob.Add(model_head.std_bias, &head.std_bias);
  blob.Add(model_head.weight_bias, &head.weight_bias);
}

absl::Status UnfusedGemms::Plan(const KernelShape& shape, kernels::cuda::GemmLibrary& library,
                                Device& device) {
  const LaunchWorkspace workspace = device.launch_workspace();
  struct Wanted {
    GemmPlan* plan;
    GemmShape shape;
  };
  most_tiles = kernels::cuda::kMostGemmRows / kernels::cuda::kTileRows;
  for (const Wanted& wanted : std::initializer_list<Wanted>{
           {&feature, {shape.width, shape.width, GemmResult::kAdd}},
           {&projection, {shape.width, shape.q_stride, GemmResult::kBf16}},
           {&out, {shape.query_width(), shape.width, GemmResult::kAdd}},
           {&up, {shape.width, shape.hidden, GemmResult::kBf16}},
           {&down, {shape.hidden, shape.width, GemmResult::kAdd}},
           {&head, {3 * shape.width, shape.hidden, GemmResult::kFloat}}}) {
    ASSIGN_OR_RETURN(*wanted.plan,
                     kernels::cuda::PlanGemm(library, wanted.shape,
                                             {workspace.memory, workspace.bytes}, device.stream()));
    bits = std::rotl(bits, 1) ^ wanted.plan->bits;
    most_tiles = std::min(most_tiles, wanted.plan->most_rows() / kernels::cuda::kTileRows);
  }
  return absl::OkStatus();
}

}  // namespace chorale::cuda
