#include "tests/bench/device_layers.h"

#include <utility>

#include "absl/status/statusor.h"
#include "engine/backend/cuda/layer_matrices.h"
#include "kernels/cuda/layer/pack_weights.h"
#include "kernels/cuda/layout/matrix.h"
#include "kernels/cuda/runtime/status.h"
#include "tests/bench/bench_session.h"

namespace chorale {
namespace {

using kernels::cuda::GemmResult;
using kernels::cuda::Matrix;

DeviceVector<uint16_t> UploadBf16(const Matrix& matrix) {
  std::vector<uint16_t> bits;
  bits.reserve(matrix.values.size());
  for (const float value : matrix.values) bits.push_back(kernels::cuda::ToBf16(value));
  return DeviceVector<uint16_t>(bits);
}

}  // namespace

void RequireSuccess(kernels::cuda::ErrorCode error, absl::string_view what) {
  const absl::Status status = kernels::cuda::ToStatus(error, what);
  if (!status.ok()) Fail(status.ToString());
}

kernels::cuda::Memory AllocateOrFail(int64_t bytes) {
  absl::StatusOr<kernels::cuda::Memory> memory =
      kernels::cuda::Memory::Allocate(kernels::cuda::MemoryKind::kDevice, bytes, "a benchmark");
  if (!memory.ok()) Fail(memory.status().ToString());
  return *std::move(memory);
}

std::array<kernels::cuda::GemmShape, kGemms> GemmShapes(const kernels::cuda::ModelShape& shape) {
  std::array<kernels::cuda::GemmShape, kGemms> shapes;
  shapes[kOutputProjection] = {shape.query_width(), shape.width, GemmResult::kAdd};
  shapes[kMlpUp] = {shape.width, shape.hidden, GemmResult::kBf16};
  shapes[kMlpDown] = {shape.hidden, shape.width, GemmResult::kAdd};
  shapes[kFeatureAttention] = {shape.width, shape.width, GemmResult::kAdd};
  shapes[kQkvProjection] = {shape.width, shape.qkv_width(), GemmResult::kBf16};
  return shapes;
}

DeviceLayer::DeviceLayer(const LayerWeights& weights, const ModelConfig& config,
                         const cuda::KernelShape& shape, bool has_wgmma)
    : gamma1(weights.norm1.gamma),
      beta1(weights.norm1.beta),
      gamma2(weights.norm2.gamma),
      beta2(weights.norm2.beta),
      gamma3(weights.norm3.gamma),
      beta3(weights.norm3.beta),
      b1(weights.b1),
      b2(weights.b2) {
  const cuda::LayerMatrices of(weights, config, shape);
  matrices[kOutputProjection] = UploadBf16(of.out);
  matrices[kMlpUp] = UploadBf16(of.up);
  matrices[kMlpDown] = UploadBf16(of.down);
  matrices[kFeatureAttention] = UploadBf16(of.feature);
  matrices[kQkvProjection] = UploadBf16(of.projection);
  if (!shape.fused) return;
  const std::vector<uint16_t> post = kernels::cuda::PackPostAttentionTiles(of.out, of.up, of.down);
  const std::vector<uint16_t> pre = kernels::cuda::PackPreAttentionTiles(of.feature, of.projection);
  post_tiles = DeviceVector<uint16_t>(post);
  pre_tiles = DeviceVector<uint16_t>(pre);
  post_vectors = DeviceVector<float>(kernels::cuda::PackPostAttentionVectors(
      weights.norm2.gamma, weights.norm2.beta, weights.norm3.gamma, weights.norm3.beta, weights.b2,
      weights.b1));
  pre_vectors = DeviceVector<float>(
      kernels::cuda::PackPreAttentionVectors(weights.norm1.gamma, weights.norm1.beta));
  if (!has_wgmma) return;
  post_wgmma_tiles = DeviceVector<uint16_t>(kernels::cuda::PackWgmmaTiles(post));
  pre_wgmma_tiles = DeviceVector<uint16_t>(kernels::cuda::PackWgmmaTiles(pre));
  if (!kernels::cuda::HasTileKernel(shape)) return;
  post_wgmma_column_tiles = DeviceVector<uint16_t>(kernels::cuda::PackWgmmaColumnTiles(post));
  pre_wgmma_column_tiles = DeviceVector<uint16_t>(kernels::cuda::PackWgmmaColumnTiles(pre));
}

kernels::cuda::PostAttentionWeights DeviceLayer::post_attention() const {
  return {post_tiles.data(), post_wgmma_tiles.data(), post_wgmma_column_tiles.data(),
          post_vectors.data()};
}

kernels::cuda::PreAttentionWeights DeviceLayer::pre_attention() const {
  return {pre_tiles.data(), pre_wgmma_tiles.data(), pre_wgmma_column_tiles.data(),
          pre_vectors.data()};
}

}  // namespace chorale
