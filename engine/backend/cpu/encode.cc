#include "engine/backend/cpu/encode.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/cpu/memory_pool.h"
#include "engine/backend/flop_model.h"

namespace chorale {
namespace {

// Rows of one step of CpuRowsWork, which is one task.
constexpr int64_t kRowsPerStep = 256;

const CpuModel* AsCpuModel(const BackendModel* model) {
  const auto* cpu_model = dynamic_cast<const CpuModel*>(model);
  Require(cpu_model != nullptr, "the model belongs to the CPU backend");
  return cpu_model;
}

void RequireShape(const FeatureMatrix& features) {
  Require(features.rows >= 1 && features.features >= 1 &&
              static_cast<int64_t>(features.x.size()) == features.rows * features.features,
          "features are [rows, features], with at least one row and one feature");
}

}  // namespace

int64_t ContextKvBytes(const ModelConfig& config, int64_t rows) {
  const int64_t elements = config.n_layers * LayerKvShape(config).Elements(rows);
  return RoundUp(elements * static_cast<int64_t>(sizeof(float)), MemoryPool::kAlignment);
}

CpuEncodeWork::CpuEncodeWork(std::shared_ptr<const BackendModel> model, FeatureMatrix features,
                             std::vector<float> y, PoolRange kv, float* pool, int threads)
    : owner_(std::move(model)),
      model_(AsCpuModel(owner_.get())),
      range_(kv),
      kv_(pool),
      rows_(features.rows),
      features_(std::move(features)),
      y_(std::move(y)),
      fit_(model_->row_encoder().NewFit(features_, y_)),
      tokens_(rows_ * model_->config().d_model),
      pieces_(1, fit_->pieces(), 1),
      layers_(model_->config().n_layers, rows_, ChunkRowsFor(rows_), threads) {
  RequireShape(features_);
  Require(static_cast<int64_t>(y_.size()) == rows_, "y is [rows]");
  Require(kv.bytes >= ContextKvBytes(model_->config(), rows_), "the range holds the context");
}

double CpuEncodeWork::next_step_flops() const {
  if (done()) return 0;
  if (!fitted()) return fit_->piece_flops();
  const ModelConfig& config = model_->config();
  double row_flops = MixFeaturesFlops(config) + KeysValuesFlops(config);
  if (layers_.phase() > 0) {
    row_flops += AttendAndFeedForwardFlops(config, static_cast<double>(rows_));
  }
  return static_cast<double>(layers_.next_step_rows()) * row_flops;
}

int64_t CpuEncodeWork::steps_at_this_cost() const {
  if (done()) return 0;
  return fitted() ? layers_.StepsThrough(layers_.phase()) : pieces_.StepsThrough(0);
}

ResidentContext CpuEncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = owner_, .encoder_state = encoder_state_, .kv = range_, .rows = rows_};
}

int64_t CpuEncodeWork::BeginRound(int64_t max_steps, int parallelism) {
  return fitted() ? layers_.BeginRound(max_steps) : pieces_.BeginRound(max_steps);
}

void CpuEncodeWork::RunTask(int64_t task, CpuScratch& scratch) {
  if (!fitted()) {
    fit_->RunPiece(pieces_.RowsOf(task).first);
    return;
  }
  const int64_t layer = layers_.phase();
  const auto [first, rows] = layers_.RowsOf(task);
  float* x = tokens_.data() + first * model_->config().d_model;
  if (layer == 0) {
    EmbedRowsOfContext(first, rows, scratch);
  } else {
    FinishLayer(layer - 1, rows, x, scratch);
  }
  LeaveKeysValues(layer, first, rows, x, scratch);
}

int64_t CpuEncodeWork::EndRound() {
  if (!fitted()) {
    const int64_t steps = pieces_.EndRound();
    if (fitted()) {
      encoder_state_ = fit_->Finish();
      fit_.reset();
    }
    return steps;
  }
  const int64_t steps = layers_.EndRound();
  if (layers_.phase() > 0) {
    features_ = {};
    y_ = {};
  }
  if (done()) tokens_ = AlignedBuffer();
  return steps;
}

void CpuEncodeWork::EmbedRowsOfContext(int64_t first, int64_t rows, CpuScratch& scratch) {
  model_->row_encoder().Encode(*encoder_state_, features_, first, rows, scratch.encodings.data());
  for (int64_t row = 0; row < rows; ++row) {
    scratch.encoding[row] = static_cast<int32_t>(row);
    scratch.offset[row] = TokenOffset::kContext;
    scratch.y[row] = y_[first + row];
  }
  EmbedTokens(*model_, scratch.encodings.data(), rows, scratch,
              tokens_.data() + first * model_->config().d_model);
}

void CpuEncodeWork::FinishLayer(int64_t layer, int64_t rows, float* x, CpuScratch& scratch) {
  const CpuLayer& weights = model_->layers()[layer];
  const KeysValuesShape shape = LayerKvShape(model_->config());
  const float* kv = kv_ + layer * shape.Elements(rows_);
  VisibleKeys keys;
  keys.context = shape.At(kv, rows_);
  keys.context_rows = rows_;
  AttendRows(*model_, weights, keys, rows, x, scratch);
  FeedForward(*model_, weights, rows, x, scratch);
}

void CpuEncodeWork::LeaveKeysValues(int64_t layer, int64_t first, int64_t rows, float* x,
                                    CpuScratch& scratch) {
  const CpuLayer& weights = model_->layers()[layer];
  const ModelConfig& config = model_->config();
  const KeysValuesShape shape = LayerKvShape(config);
  float* kv = kv_ + layer * shape.Elements(rows_);
  MixFeatures(*model_, weights, rows, x, scratch);
  ProjectKeysValues(*model_, weights, rows, x, config.d_model, scratch);
  AppendKeysValues(shape, rows, scratch.key_value.data(), 2 * config.kv_width(),
                   shape.At(kv, rows_), first);
}

CpuRowsWork::CpuRowsWork(std::shared_ptr<const ResidentContext> context, FeatureMatrix features)
    : context_(std::move(context)),
      model_(AsCpuModel(context_->model.get())),
      features_(std::move(features)),
      encoded_(std::make_shared<CpuEncodedRows>(features_.rows, model_->config().d_model)),
      rows_(1, features_.rows, kRowsPerStep) {
  RequireShape(features_);
}

double CpuRowsWork::next_step_flops() const {
  if (done()) return 0;
  return model_->row_encoder().EncodeFlops(rows_.next_step_rows(), features_.features);
}

int64_t CpuRowsWork::steps_at_this_cost() const { return done() ? 0 : rows_.StepsThrough(0); }

std::shared_ptr<const EncodedRows> CpuRowsWork::TakeRows() {
  Require(done(), "the rows are encoded");
  return std::move(encoded_);
}

int64_t CpuRowsWork::BeginRound(int64_t max_steps, int parallelism) {
  return rows_.BeginRound(max_steps);
}

void CpuRowsWork::RunTask(int64_t task, CpuScratch& scratch) {
  const auto [first, rows] = rows_.RowsOf(task);
  model_->row_encoder().Encode(*context_->encoder_state, features_, first, rows,
                               encoded_->mutable_encodings() + first * model_->config().d_model);
}

int64_t CpuRowsWork::EndRound() { return rows_.EndRound(); }

}  // namespace chorale
