#include "engine/backend/cpu/forward.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "engine/backend/host/normalize.h"
#include "kernels/ops/embed_rows.h"
#include "kernels/ops/precise_gelu.h"
#include "kernels/ops/precise_linear.h"
#include "kernels/ops/shared_context_attention.h"

namespace chorale::cpu {
namespace {

using kernels::Activation;

// y [rows, out] = W x + b in float64; x [rows, in] is contiguous.
void ApplyPrecisely(const PackedLinear& linear, int64_t rows, const float* x, double* y) {
  const kernels::PreciseLinearParams params = {.x = x,
                                               .weight = linear.weight(),
                                               .bias = linear.bias(),
                                               .y = y,
                                               .rows = rows,
                                               .in = linear.in(),
                                               .out = linear.out(),
                                               .x_stride = linear.in(),
                                               .y_stride = linear.out()};
  assert(kernels::ValidatePreciseLinear(params).ok());
  kernels::PreciseLinear(params);
}

}  // namespace

void EmbedTokens(const PackedModel& model, const float* encodings, int64_t rows,
                 const Scratch& scratch, float* tokens) {
  const kernels::EmbedRowsParams params = {.encodings = encodings,
                                           .offsets = model.offsets(),
                                           .y_weight = model.y_weight(),
                                           .y = scratch.y.data(),
                                           .encoding = scratch.encoding.data(),
                                           .offset = scratch.offset.data(),
                                           .out = tokens,
                                           .rows = rows,
                                           .width = model.config().d_model};
  assert(kernels::ValidateEmbedRows(params).ok());
  kernels::EmbedRows(params);
}

void MixFeatures(const PackedModel& model, const PackedLayer& layer, int64_t rows, float* x,
                 Scratch& scratch) {
  const int64_t d = model.config().d_model;
  float* mixed = scratch.mixed.data();
  layer.feature.Apply(rows, x, d, mixed);
  Normalize(layer.norm1, model.config().layer_norm_eps, rows, x, mixed, x);
}

void ProjectKv(const PackedModel& model, const PackedLayer& layer, int64_t rows, const float* x,
               int64_t x_stride, Scratch& scratch) {
  layer.key_value.Apply(rows, x, x_stride, scratch.key_value.data());
}

float AttentionScale(const ModelConfig& config) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim())));
}

void AttendTo(const PackedModel& model, const PackedLayer& layer, const AttentionKv& keys,
              int64_t rows, const float* x, const AttentionResults& results,
              const Scratch& scratch) {
  const ModelConfig& config = model.config();
  const int64_t d = config.d_model;
  const bool buffered = keys.buffer.keys != nullptr;
  layer.query.Apply(rows, x, d, results.query);
  const kernels::SharedContextAttentionParams params = {
      .q = results.query,
      .out = results.out,
      .lse = results.lse,
      .context_keys = keys.context.keys,
      .context_values = keys.context.values,
      .context_log_weights = keys.context_log_weights,
      .row_hidden_key = results.row_hidden_key,
      .buffer_keys = keys.buffer.keys,
      .buffer_values = keys.buffer.values,
      .row_path = buffered ? scratch.row_path.data() : nullptr,
      .row_visible = buffered ? scratch.row_visible.data() : nullptr,
      .rows = rows,
      .heads = config.n_heads,
      .kv_heads = config.n_kv_heads,
      .head_dim = config.head_dim(),
      .context_rows = keys.context_rows,
      .context_capacity = keys.context.capacity,
      .buffer_capacity = keys.buffer.capacity,
      .buffer_path_stride = keys.buffer_path_stride,
      .q_stride = d,
      .out_stride = d,
      .scale = AttentionScale(config)};
  assert(kernels::ValidateSharedContextAttention(params).ok());
  kernels::SharedContextAttention(params);
}

void ProjectAttended(const PackedModel& model, const PackedLayer& layer, int64_t rows,
                     const float* attended, float* x, Scratch& scratch) {
  float* mixed = scratch.mixed.data();
  layer.output.Apply(rows, attended, model.config().d_model, mixed);
  Normalize(layer.norm2, model.config().layer_norm_eps, rows, x, mixed, x);
}

void AttendRows(const PackedModel& model, const PackedLayer& layer, const AttentionKv& keys,
                int64_t rows, float* x, Scratch& scratch) {
  float* query = scratch.query.data();
  AttendTo(model, layer, keys, rows, x, {.query = query, .out = query}, scratch);
  ProjectAttended(model, layer, rows, query, x, scratch);
}

void FeedForward(const PackedModel& model, const PackedLayer& layer, int64_t rows, float* x,
                 Scratch& scratch) {
  const ModelConfig& config = model.config();
  float* hidden = scratch.hidden.data();
  float* mixed = scratch.mixed.data();
  layer.up.Apply(rows, x, config.d_model, hidden, Activation::kGelu);
  layer.down.Apply(rows, hidden, config.d_ff, mixed);
  Normalize(layer.norm3, model.config().layer_norm_eps, rows, x, mixed, x);
}

void PredictMixtures(const PackedModel& model, int64_t rows, const float* x, Scratch& scratch) {
  const ModelConfig& config = model.config();
  const PackedHead& head = model.head();
  float* normed = scratch.mixed.data();
  float* hidden = scratch.hidden.data();
  double* raw = scratch.raw.data();
  Normalize(head.norm, model.config().layer_norm_eps, rows, x, nullptr, normed);
  // In float64; kernels/ops/precise_linear.h states the reason.
  double* precise = scratch.precise_hidden.data();
  ApplyPrecisely(head.up, rows, normed, precise);
  const kernels::PreciseGeluParams gelu = {.x = precise, .y = hidden, .n = rows * config.d_ff};
  assert(kernels::ValidatePreciseGelu(gelu).ok());
  kernels::PreciseGelu(gelu);
  ApplyPrecisely(head.down, rows, hidden, raw);
  const kernels::MixtureHeadParams params = {.raw = raw,
                                             .mean_bias = head.mean_bias.data(),
                                             .std_bias = head.std_bias.data(),
                                             .weight_bias = head.weight_bias.data(),
                                             .mean = scratch.mean.data(),
                                             .std = scratch.std.data(),
                                             .log_weight = scratch.log_weight.data(),
                                             .rows = rows,
                                             .components = config.num_components,
                                             .raw_stride = 3 * config.num_components,
                                             .std_min = config.std_min,
                                             .std_max = config.std_max};
  assert(kernels::ValidateMixtureHead(params).ok());
  kernels::MixtureHead(params);
}

kernels::MixtureView MixtureOf(const PackedModel& model, const Scratch& scratch, int64_t row) {
  const int64_t m = model.config().num_components;
  return {.mean = scratch.mean.data() + row * m,
          .std = scratch.std.data() + row * m,
          .log_weight = scratch.log_weight.data() + row * m,
          .components = m};
}

void GatherQueryTokens(int64_t rows, int64_t width, const float* x, float* kept) {
  for (int64_t row = 0; row < rows; row += 2) {
    const float* from = x + row * width;
    float* to = kept + row / 2 * width;
    if (from != to) std::copy_n(from, width, to);
  }
}

}  // namespace chorale::cpu
