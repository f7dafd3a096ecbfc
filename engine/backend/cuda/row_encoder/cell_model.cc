#include "engine/backend/cuda/row_encoder/cell_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "base/integer_math.h"
#include "engine/backend/host/normalize.h"
#include "kernels/cuda/row_encoder/cell_pool.h"
#include "kernels/cuda/row_encoder/cell_weights.h"
#include "kernels/ops/cell_features.h"

namespace chorale::cuda {
namespace {

namespace kernel = kernels::cuda;

kernel::CellBlockWeights KernelWeights(const EncoderBlockWeights& block, int64_t e) {
  return {.wq = {block.wq, e, e},
          .wk = {block.wk, e, e},
          .wv = {block.wv, e, e},
          .wo = {block.wo, e, e},
          .w1 = {block.w1, 2 * e, e},
          .w2 = {block.w2, e, 2 * e},
          .gamma1 = block.norm1.gamma,
          .beta1 = block.norm1.beta,
          .gamma2 = block.norm2.gamma,
          .beta2 = block.norm2.beta,
          .b1 = block.b1,
          .b2 = block.b2};
}

// Transposes the matrices, and appends the bias: [inputs of each matrix, then the
// bias][kCellWidth].
std::vector<float> InputsFirst(const std::vector<kernel::Matrix>& matrices,
                               const std::vector<float>& bias) {
  std::vector<float> weights;
  for (const kernel::Matrix& matrix : matrices) {
    for (int64_t i = 0; i < matrix.in; ++i) {
      for (int64_t e = 0; e < kernel::kCellWidth; ++e) {
        weights.push_back(e < matrix.out ? matrix.values[e * matrix.in + i] : 0.0f);
      }
    }
  }
  weights.insert(weights.end(), bias.begin(), bias.end());
  weights.resize(RoundUp(static_cast<int64_t>(weights.size()), kernel::kCellWidth));
  return weights;
}

// Returns [D, PoolInputs(P)]: Wo with padded tokens, and Wd twice.
kernel::Matrix OutAndDirect(const CellAttentionWeights& weights, const ModelConfig& config) {
  const int64_t e = config.encoder_width;
  const int64_t tokens = config.encoder_pooled_tokens;
  kernel::Matrix joined = {{}, config.d_model, kernel::PoolInputs(static_cast<int>(tokens))};
  joined.values.resize(joined.out * joined.in);
  for (int64_t d = 0; d < joined.out; ++d) {
    float* const row = joined.values.data() + d * joined.in;
    for (int64_t part = 0; part < tokens + 2; ++part) {
      const float* from = part < tokens ? weights.out.data() + (d * tokens + part) * e
                                        : weights.direct.data() + d * e;
      std::copy_n(from, e, row + part * kernel::kCellWidth);
    }
  }
  return joined;
}

}  // namespace

absl::Status CheckCellConfig(const ModelConfig& config) {
  if (!kernel::IsSupportedCell(config.encoder_width, config.encoder_heads)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the GPU backend does not support a model with encoder_width ", config.encoder_width,
        " and ", config.encoder_heads, " encoder_heads; supported: multiples of 8 up to ",
        kernel::kCellWidth, " and up to ", kernel::kCellHeads, " heads of width up to ",
        kernel::kCellHeadWidth));
  }
  const int64_t tokens = std::max(config.encoder_induced_points, config.encoder_pooled_tokens);
  if (tokens > kernel::kCellTileTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the GPU backend does not support a model with ", config.encoder_induced_points,
        " encoder_induced_points and ", config.encoder_pooled_tokens,
        " encoder_pooled_tokens; supported: up to ", kernel::kCellTileTokens));
  }
  if (config.max_features > kernel::kMostColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat("the GPU backend does not support a model with max_features ",
                     config.max_features, "; supported: up to ", kernel::kMostColumns));
  }
  return absl::OkStatus();
}

CellModel::CellModel(const CellAttentionWeights& weights, const ModelConfig& config,
                     WeightBlob& blob)
    : width(config.encoder_width),
      heads(config.encoder_heads),
      inducing_points(config.encoder_induced_points),
      seed_tokens(config.encoder_pooled_tokens),
      encoding(config.d_model),
      max_features(config.max_features),
      shape{.width = static_cast<int32_t>(width),
            .epsilon = config.layer_norm_eps,
            .score_scale =
                static_cast<float>(std::numbers::log2e / std::sqrt(static_cast<double>(width) /
                                                                   static_cast<double>(heads)))},
      inducing_point_tokens(weights.points),
      finish_points(weights.summarise, width, heads, config.layer_norm_eps),
      mixer(weights, config),
      read_norm(weights.read_column.norm1),
      read_key_value(Stacked({weights.read_column.wk, weights.read_column.wv}), {}, 2 * width,
                     width),
      row_layers(weights.row_layers.size()) {
  const kernel::Matrix of_cell = {weights.cell, width, kernels::kCellFeatures};
  const kernel::Matrix of_target = {weights.target, width, kernels::kNumberFeatures};
  const auto add_tokens = [&](const std::vector<float>& tokens, const float** pointer) {
    blob.Add(kernel::PadTokens(tokens, width), pointer);
  };
  const auto add_block = [&](const EncoderBlockWeights& block, const uint16_t** pointer) {
    blob.Add(kernel::PackCellBlock(KernelWeights(block, width), heads), pointer);
  };
  blob.Add(InputsFirst({of_cell}, weights.cell_bias), &cell);
  blob.Add(InputsFirst({of_cell, of_target}, weights.cell_bias), &cell_and_target);
  add_tokens(weights.column_id, &column_ids);
  add_tokens(weights.points, &points);
  add_tokens(weights.pooled, &pooled);
  add_block(weights.summarise, &summarise);
  add_block(weights.read_column, &read_column);
  for (size_t l = 0; l < row_layers.size(); ++l) add_block(weights.row_layers[l], &row_layers[l]);
  add_block(weights.pool, &pool);
  add_tokens(weights.out_norm.gamma, &out_gamma);
  add_tokens(weights.out_norm.beta, &out_beta);
  const kernel::Matrix joined = OutAndDirect(weights, config);
  blob.Add(kernel::PackCellMatrix(joined, joined.out, joined.in), &out);
  blob.Add(weights.out_bias, &out_bias);
  blob.Add(weights.norm.gamma, &gamma);
  blob.Add(weights.norm.beta, &beta);
}

// Returns the points of all columns, followed by their gates.
std::string CellState::Bytes() const {
  std::string bytes(reinterpret_cast<const char*>(points.data()),
                    points.size() * sizeof(points[0]));
  bytes.append(reinterpret_cast<const char*>(gates.data()), gates.size() * sizeof(gates[0]));
  return bytes;
}

absl::StatusOr<std::shared_ptr<const RowEncoderState>> CellState::FromBytes(
    absl::string_view bytes) {
  auto state = std::make_shared<CellState>();
  constexpr size_t kColumn =
      kernel::kCellTileKvSize * sizeof(state->points[0]) + kernel::kCellWidth * sizeof(float);
  if (bytes.empty() || bytes.size() % kColumn != 0) {
    return absl::DataLossError("the row encoder's state is damaged");
  }
  const size_t columns = bytes.size() / kColumn;
  state->points.resize(columns * kernel::kCellTileKvSize);
  state->gates.resize(columns * kernel::kCellWidth);
  const size_t points_bytes = state->points.size() * sizeof(state->points[0]);
  std::memcpy(state->points.data(), bytes.data(), points_bytes);
  std::memcpy(state->gates.data(), bytes.data() + points_bytes, bytes.size() - points_bytes);
  return state;
}

std::shared_ptr<const CellState> CellModel::MakeState(CellColumns columns) const {
  auto state = std::make_shared<CellState>();
  state->gates = kernel::PadTokens(columns.gates, width);
  state->points.resize(columns.columns * kernel::kCellTileKvSize);
  const int64_t tokens = columns.columns * inducing_points;
  std::vector<float> projected(tokens * 2 * width);
  Normalize(read_norm, shape.epsilon, tokens, columns.points.data(), nullptr,
            columns.points.data());
  read_key_value.Apply(tokens, columns.points.data(), width, projected.data());
  for (int64_t f = 0; f < columns.columns; ++f) {
    kernel::PackCellTileKv(projected.data() + f * inducing_points * 2 * width, inducing_points,
                           width, heads, state->points.data() + f * kernel::kCellTileKvSize);
  }
  return state;
}

}  // namespace chorale::cuda
