#include "tests/bench/device_layers.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/runtime/status.h"
#include "tests/bench/bench_session.h"

namespace chorale {
namespace {

using kernels::cuda::Matrix;
using kernels::cuda::ProductResult;

DeviceVector<uint16_t> UploadBf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (const float value : values) bits.push_back(kernels::cuda::ToBf16(value));
  return DeviceVector<uint16_t>(bits);
}

Matrix QueryKeyValue(const LayerWeights& weights, const LayerShape& shape) {
  Matrix wq = {weights.wq, shape.queries, shape.width};
  const double scale = std::numbers::log2e / std::sqrt(static_cast<double>(shape.head_dim));
  for (float& w : wq.values) w = static_cast<float>(w * scale);
  const int64_t kv_width = int64_t{shape.kv_heads} * shape.head_dim;
  return kernels::cuda::StackOutputs(
      {wq, {weights.wk, kv_width, shape.width}, {weights.wv, kv_width, shape.width}});
}

}  // namespace

void RequireSuccess(kernels::cuda::ErrorCode error, absl::string_view what) {
  const absl::Status status = kernels::cuda::ToStatus(error, what);
  if (!status.ok()) Fail(status.ToString());
}

kernels::cuda::Memory AllocateOrFail(int64_t bytes) {
  absl::StatusOr<kernels::cuda::Memory> memory = kernels::cuda::Memory::Allocate(
      kernels::cuda::MemoryKind::kDevice, bytes, "a benchmark");
  if (!memory.ok()) Fail(memory.status().ToString());
  return *std::move(memory);
}

LayerShape::LayerShape(const ModelConfig& config)
    : width(static_cast<int32_t>(config.d_model)),
      heads(static_cast<int32_t>(config.n_heads)),
      kv_heads(static_cast<int32_t>(config.n_kv_heads)),
      head_dim(static_cast<int32_t>(config.head_dim())),
      hidden(static_cast<int32_t>(config.d_ff)),
      queries(heads * head_dim),
      qkv((heads + 2 * kv_heads) * head_dim),
      epsilon(config.layer_norm_eps) {
  if (kernels::cuda::IsSupportedHeadDim(head_dim)) return;
  Fail(absl::StrCat("layers are not measured with heads of width ", head_dim));
}

kernels::cuda::LayerParams LayerShape::FusedParams(int64_t tiles) const {
  return {.post_attention = {},
          .pre_attention = {},
          .tile_count = static_cast<int32_t>(tiles),
          .width = width,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .hidden = hidden,
          .epsilon = epsilon};
}

std::array<kernels::cuda::ProductShape, kProducts> ProductShapes(const LayerShape& shape) {
  std::array<kernels::cuda::ProductShape, kProducts> shapes;
  shapes[kOutputProjection] = {shape.queries, shape.width, ProductResult::kAdd};
  shapes[kMlpIn] = {shape.width, shape.hidden, ProductResult::kFloat};
  shapes[kMlpOut] = {shape.hidden, shape.width, ProductResult::kAdd};
  shapes[kFeatureAttention] = {shape.width, shape.width, ProductResult::kAdd};
  shapes[kQkvProjection] = {shape.width, shape.qkv, ProductResult::kBf16};
  return shapes;
}

FusedForm FusedFormOf(const LayerShape& shape, const kernels::cuda::DeviceProperties& device) {
  const kernels::cuda::LayerParams params = shape.FusedParams(1);
  if (!kernels::cuda::ValidateLayerShapes(params).ok() ||
      !kernels::cuda::ChooseBlockRows(params, device.multiprocessors, device.shared_bytes_per_block)
           .ok()) {
    return FusedForm::kAbsent;
  }
  return device.compute_major == kernels::cuda::kWgmmaComputeMajor ? FusedForm::kWgmma
                                                                    : FusedForm::kMma;
}

DeviceLayer::DeviceLayer(const LayerWeights& weights, const LayerShape& shape, FusedForm fused)
    : gamma1(weights.norm1.gamma),
      beta1(weights.norm1.beta),
      gamma2(weights.norm2.gamma),
      beta2(weights.norm2.beta),
      gamma3(weights.norm3.gamma),
      beta3(weights.norm3.beta),
      b1(weights.b1),
      b2(weights.b2) {
  const int64_t d = shape.width;
  const Matrix qkv = QueryKeyValue(weights, shape);
  matrices[kOutputProjection] = UploadBf16(weights.wo);
  matrices[kMlpIn] = UploadBf16(weights.w1);
  matrices[kMlpOut] = UploadBf16(weights.w2);
  matrices[kFeatureAttention] = UploadBf16(weights.feature);
  matrices[kQkvProjection] = UploadBf16(qkv.values);
  if (fused == FusedForm::kAbsent) return;
  const std::vector<uint16_t> post = kernels::cuda::PackPostAttentionTiles(
      {weights.wo, d, shape.queries}, {weights.w1, shape.hidden, d}, {weights.w2, d, shape.hidden});
  const std::vector<uint16_t> pre =
      kernels::cuda::PackPreAttentionTiles({weights.feature, d, d}, qkv);
  post_tiles = DeviceVector<uint16_t>(post);
  pre_tiles = DeviceVector<uint16_t>(pre);
  post_vectors = DeviceVector<float>(kernels::cuda::PackPostAttentionVectors(
      weights.norm2.gamma, weights.norm2.beta, weights.norm3.gamma, weights.norm3.beta, weights.b2,
      weights.b1));
  pre_vectors = DeviceVector<float>(
      kernels::cuda::PackPreAttentionVectors(weights.norm1.gamma, weights.norm1.beta));
  if (fused != FusedForm::kWgmma) return;
  post_wgmma_tiles = DeviceVector<uint16_t>(kernels::cuda::PackWgmmaTiles(post));
  pre_wgmma_tiles = DeviceVector<uint16_t>(kernels::cuda::PackWgmmaTiles(pre));
}

kernels::cuda::PostAttentionWeights DeviceLayer::post_attention() const {
  return {post_tiles.data(), post_wgmma_tiles.data(), post_vectors.data()};
}

kernels::cuda::PreAttentionWeights DeviceLayer::pre_attention() const {
  return {pre_tiles.data(), pre_wgmma_tiles.data(), pre_vectors.data()};
}

}  // namespace chorale
