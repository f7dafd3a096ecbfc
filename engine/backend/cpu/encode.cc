#include "engine/backend/cpu/encode.h"

#include <iterator>
#include <utility>

#include "base/require.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/flop_model.h"

namespace chorale::cpu {
namespace {

// Rows per step of EncodeQueryRowsWork. A step is one task.
constexpr int64_t kRowsPerStep = 256;

}  // namespace

EncodeWork::EncodeWork(EncodeSpec spec, float* pool, int threads)
    : spec_(std::move(spec)),
      model_(&AsPackedModel(*spec_.model)),
      shape_(spec_.shape()),
      layout_(model_->config(), shape_),
      memory_(pool),
      fit_(model_->row_encoder().NewFit(spec_.features, spec_.y)),
      tokens_(shape_.rows * model_->config().d_model),
      fit_schedule_({fit_->task_flops()}, fit_->tasks(), 1),
      schedule_(EncodePhaseFlops(model_->config(), shape_.rows), shape_.rows,
                ChunkRowsFor(shape_.rows), threads) {
  RequireShape(spec_.features);
  Require(!shape_.reduced(), "the context is not reduced");
  Require(std::ssize(spec_.y) == shape_.rows, "y is [rows]");
  Require(spec_.kv.bytes >= layout_.bytes(), "the range holds the context");
}

int64_t EncodeWork::steps_at_this_cost() const {
  if (done()) return 0;
  return fitted() ? schedule_.StepsThrough(schedule_.phase()) : fit_schedule_.steps_at_this_cost();
}

ResidentContext EncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = spec_.model, .encoder_state = encoder_state_, .kv = spec_.kv, .shape = shape_};
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
    spec_.features = {};
    spec_.y = {};
  }
  if (done()) tokens_ = AlignedBuffer();
  return steps;
}

void EncodeWork::EmbedRowsOfContext(int64_t first, int64_t rows, Scratch& scratch) {
  model_->row_encoder().Encode(*encoder_state_, spec_.features, first, rows,
                               scratch.encodings.data());
  for (int64_t row = 0; row < rows; ++row) {
    scratch.encoding[row] = static_cast<int32_t>(row);
    scratch.offset[row] = TokenOffset::kContext;
    scratch.y[row] = spec_.y[first + row];
  }
  EmbedTokens(*model_, scratch.encodings.data(), rows, scratch,
              tokens_.data() + first * model_->config().d_model);
}

void EncodeWork::AttendAndFeedForward(int64_t layer, int64_t rows, float* x, Scratch& scratch) {
  const PackedLayer& weights = model_->layers()[layer];
  AttentionKv keys;
  keys.context = layout_.Layer(memory_, layer).kv;
  keys.context_rows = shape_.rows;
  AttendRows(*model_, weights, keys, rows, x, scratch);
  FeedForward(*model_, weights, rows, x, scratch);
}

void EncodeWork::PreAttention(int64_t layer, int64_t first, int64_t rows, float* x,
                              Scratch& scratch) {
  const PackedLayer& weights = model_->layers()[layer];
  const ModelConfig& config = model_->config();
  MixFeatures(*model_, weights, rows, x, scratch);
  ProjectKv(*model_, weights, rows, x, config.d_model, scratch);
  AppendKv(LayerKvShape(config), rows, scratch.key_value.data(), 2 * config.kv_width(),
           layout_.Layer(memory_, layer).kv, first);
}

EncodeQueryRowsWork::EncodeQueryRowsWork(std::shared_ptr<const ResidentContext> context,
                                         FeatureMatrix features)
    : context_(std::move(context)),
      model_(&AsPackedModel(*context_->model)),
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
