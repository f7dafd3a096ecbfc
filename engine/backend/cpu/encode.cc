#include "engine/backend/cpu/encode.h"

#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/cpu/memory_pool.h"
#include "engine/backend/flop_model.h"

namespace chorale::cpu {
namespace {

// Rows per step of EncodeQueryRowsWork. A step is one task.
constexpr int64_t kRowsPerStep = 256;

const PackedModel* AsPackedModel(const BackendModel* model) {
  const auto* cpu_model = dynamic_cast<const PackedModel*>(model);
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

EncodeWork::EncodeWork(std::shared_ptr<const BackendModel> model, FeatureMatrix features,
                       std::vector<float> y, PoolRange kv, float* pool, int threads)
    : owner_(std::move(model)),
      model_(AsPackedModel(owner_.get())),
      range_(kv),
      kv_(pool),
      rows_(features.rows),
      features_(std::move(features)),
      y_(std::move(y)),
      fit_(model_->row_encoder().NewFit(features_, y_)),
      tokens_(rows_ * model_->config().d_model),
      fit_schedule_({fit_->task_flops()}, fit_->tasks(), 1),
      schedule_(EncodePhaseFlops(model_->config(), rows_), rows_, ChunkRowsFor(rows_), threads) {
  RequireShape(features_);
  Require(static_cast<int64_t>(y_.size()) == rows_, "y is [rows]");
  Require(kv.bytes >= ContextKvBytes(model_->config(), rows_), "the range holds the context");
}

double EncodeWork::next_step_flops() const {
  return fitted() ? schedule_.next_step_flops() : fit_schedule_.next_step_flops();
}

int64_t EncodeWork::steps_at_this_cost() const {
  if (done()) return 0;
  return fitted() ? schedule_.StepsThrough(schedule_.phase()) : fit_schedule_.steps_at_this_cost();
}

ResidentContext EncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = owner_, .encoder_state = encoder_state_, .kv = range_, .rows = rows_};
}

int64_t EncodeWork::BeginBatch(int64_t max_steps, int parallelism) {
  return fitted() ? schedule_.BeginBatch(max_steps) : fit_schedule_.BeginBatch(max_steps);
}

void EncodeWork::RunTask(int64_t task, Scratch& scratch) {
  if (!fitted()) {
    fit_->RunTask(fit_schedule_.RowsOf(task).first);
    return;
  }
  const int64_t layer = schedule_.phase();
  const auto [first, rows] = schedule_.RowsOf(task);
  float* x = tokens_.data() + first * model_->config().d_model;
  if (layer == 0) {
    EmbedRowsOfContext(first, rows, scratch);
  } else {
    AttendAndFeedForward(layer - 1, rows, x, scratch);
  }
  PreAttention(layer, first, rows, x, scratch);
}

int64_t EncodeWork::EndBatch() {
  if (!fitted()) {
    const int64_t steps = fit_schedule_.EndBatch();
    if (fitted()) {
      encoder_state_ = fit_->Finish();
      fit_.reset();
    }
    return steps;
  }
  const int64_t steps = schedule_.EndBatch();
  if (schedule_.phase() > 0) {
    features_ = {};
    y_ = {};
  }
  if (done()) tokens_ = AlignedBuffer();
  return steps;
}

void EncodeWork::EmbedRowsOfContext(int64_t first, int64_t rows, Scratch& scratch) {
  model_->row_encoder().Encode(*encoder_state_, features_, first, rows, scratch.encodings.data());
  for (int64_t row = 0; row < rows; ++row) {
    scratch.encoding[row] = static_cast<int32_t>(row);
    scratch.offset[row] = TokenOffset::kContext;
    scratch.y[row] = y_[first + row];
  }
  EmbedTokens(*model_, scratch.encodings.data(), rows, scratch,
              tokens_.data() + first * model_->config().d_model);
}

void EncodeWork::AttendAndFeedForward(int64_t layer, int64_t rows, float* x, Scratch& scratch) {
  const PackedLayer& weights = model_->layers()[layer];
  const KvShape shape = LayerKvShape(model_->config());
  const float* kv = kv_ + layer * shape.Elements(rows_);
  AttentionKv keys;
  keys.context = shape.At(kv, rows_);
  keys.context_rows = rows_;
  AttendRows(*model_, weights, keys, rows, x, scratch);
  FeedForward(*model_, weights, rows, x, scratch);
}

void EncodeWork::PreAttention(int64_t layer, int64_t first, int64_t rows, float* x,
                              Scratch& scratch) {
  const PackedLayer& weights = model_->layers()[layer];
  const ModelConfig& config = model_->config();
  const KvShape shape = LayerKvShape(config);
  float* kv = kv_ + layer * shape.Elements(rows_);
  MixFeatures(*model_, weights, rows, x, scratch);
  ProjectKv(*model_, weights, rows, x, config.d_model, scratch);
  AppendKv(shape, rows, scratch.key_value.data(), 2 * config.kv_width(), shape.At(kv, rows_),
           first);
}

EncodeQueryRowsWork::EncodeQueryRowsWork(std::shared_ptr<const ResidentContext> context,
                                         FeatureMatrix features)
    : context_(std::move(context)),
      model_(AsPackedModel(context_->model.get())),
      features_(std::move(features)),
      encoded_(std::make_shared<EncodedQueryRows>(features_.rows, model_->config().d_model)),
      schedule_({model_->row_encoder().EncodeFlops(1, features_.features)}, features_.rows,
                kRowsPerStep) {
  RequireShape(features_);
}

std::shared_ptr<const EncodedRows> EncodeQueryRowsWork::TakeRows() {
  Require(done(), "the rows are encoded");
  return std::move(encoded_);
}

int64_t EncodeQueryRowsWork::BeginBatch(int64_t max_steps, int parallelism) {
  return schedule_.BeginBatch(max_steps);
}

void EncodeQueryRowsWork::RunTask(int64_t task, Scratch& scratch) {
  const auto [first, rows] = schedule_.RowsOf(task);
  model_->row_encoder().Encode(*context_->encoder_state, features_, first, rows,
                               encoded_->mutable_encodings() + first * model_->config().d_model);
}

int64_t EncodeQueryRowsWork::EndBatch() { return schedule_.EndBatch(); }

}  // namespace chorale::cpu
