#include "engine/backend/cpu/encode.h"

#include <utility>

#include "base/require.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/host/attention_kv.h"
#include "kernels/ops/panel_layout.h"

namespace chorale::cpu {
namespace {

// Rows per step of EncodeQueryRowsWork. A step is one task.
constexpr int64_t kRowsPerStep = 256;

// The rows whose keys and values a task copies. A multiple of the panel size, so that the keys of a
// task begin with a panel.
constexpr int64_t kCopiedRows = 1'024;
static_assert(kCopiedRows % kernels::kPanel == 0);

}  // namespace

EncodeWork::EncodeWork(EncodeSpec spec, float* pool, int threads, const float* prefix)
    : spec_(std::move(spec)),
      model_(&AsPackedModel(*spec_.model)),
      shape_(spec_.shape()),
      layout_(model_->config(), shape_),
      memory_(pool),
      prefix_memory_(prefix),
      fit_(NewFit(*model_, spec_)),
      encoder_state_(spec_.prefix == nullptr ? nullptr : spec_.prefix->encoder_state),
      schedule_(spec_, {.fit_tasks = fit_ == nullptr ? 0 : fit_->tasks(),
                        .fit_task_flops = fit_ == nullptr ? 0 : fit_->task_flops(),
                        .copied_rows = kCopiedRows,
                        .block_rows = ChunkRowsFor,
                        .step_tasks = threads}) {
  RequireShape(spec_.features);
  RequireEncodeSpec(spec_);
  Require(spec_.kv.bytes >= layout_.bytes(), "the range holds the context");
  Require((spec_.prefix == nullptr) == (prefix_memory_ == nullptr), "the prefix is resident");
}

std::unique_ptr<RowEncoderFit> EncodeWork::NewFit(const PackedModel& model,
                                                  const EncodeSpec& spec) {
  if (spec.prefix != nullptr) return nullptr;
  return model.row_encoder().NewFit(spec.features, spec.base_y());
}

ResidentContext EncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = spec_.model, .encoder_state = encoder_state_, .kv = spec_.kv, .shape = shape_};
}

int64_t EncodeWork::BeginBatch(int64_t max_steps, int parallelism) {
  return schedule_.BeginBatch(max_steps);
}

void EncodeWork::RunTask(int64_t task, Scratch& scratch) {
  const RowRange rows = schedule_.RowsOf(task);
  switch (schedule_.stage()) {
    case EncodeStage::kFit:
      return fit_->RunTask(rows.first);
    case EncodeStage::kCopy:
      return CopyRowsOfPrefix(rows);
    case EncodeStage::kBlock:
      return EncodeRowsOfBlock(rows, scratch);
  }
}

int64_t EncodeWork::EndBatch() {
  const int64_t stage = schedule_.stage_index();
  const int64_t steps = schedule_.EndBatch();
  if (schedule_.stage_index() > stage) EndStage();
  if (done() || (schedule_.last_stage() && schedule_.layer() > 0)) {
    spec_.features = {};
    spec_.y = {};
  }
  return steps;
}

// A block, or nothing, follows any stage.
void EncodeWork::EndStage() {
  if (fit_ != nullptr) {
    encoder_state_ = fit_->Finish();
    fit_.reset();
  }
  tokens_ = AlignedBuffer();
  if (!done()) tokens_.Reserve(schedule_.rows().rows * model_->config().d_model);
}

void EncodeWork::CopyRowsOfPrefix(RowRange rows) {
  const int64_t layer = schedule_.layer();
  const ContextLayout from(model_->config(), spec_.prefix->shape);
  CopyKv(LayerKvShape(model_->config()), rows.first, rows.rows,
         from.Layer(prefix_memory_, layer).kv, layout_.Layer(memory_, layer).kv);
}

void EncodeWork::EncodeRowsOfBlock(RowRange rows, Scratch& scratch) {
  const int64_t layer = schedule_.layer();
  float* x = tokens_.data() + (rows.first - schedule_.rows().first) * model_->config().d_model;
  if (layer == 0) {
    Embed(rows, x, scratch);
  } else {
    AttendAndFeedForward(layer - 1, rows.rows, x, scratch);
  }
  PreAttention(layer, rows, x, scratch);
}

void EncodeWork::Embed(RowRange rows, float* x, Scratch& scratch) {
  model_->row_encoder().Encode(*encoder_state_, spec_.features, rows.first, rows.rows,
                               scratch.encodings.data());
  for (int64_t row = 0; row < rows.rows; ++row) {
    scratch.encoding[row] = static_cast<int32_t>(row);
    scratch.offset[row] = TokenOffset::kContext;
    scratch.y[row] = spec_.y[rows.first + row];
  }
  EmbedTokens(*model_, scratch.encodings.data(), rows.rows, scratch, x);
}

void EncodeWork::AttendAndFeedForward(int64_t layer, int64_t rows, float* x, Scratch& scratch) {
  const PackedLayer& weights = model_->layers()[layer];
  const RowRange block = schedule_.rows();
  AttentionKv keys;
  keys.context = layout_.Layer(memory_, layer).kv;
  keys.context_rows = block.first + block.rows;
  AttendRows(*model_, weights, keys, rows, x, scratch);
  FeedForward(*model_, weights, rows, x, scratch);
}

void EncodeWork::PreAttention(int64_t layer, RowRange rows, float* x, Scratch& scratch) {
  const PackedLayer& weights = model_->layers()[layer];
  const ModelConfig& config = model_->config();
  MixFeatures(*model_, weights, rows.rows, x, scratch);
  ProjectKv(*model_, weights, rows.rows, x, config.d_model, scratch);
  AppendKv(LayerKvShape(config), rows.rows, scratch.key_value.data(), 2 * config.kv_width(),
           layout_.Layer(memory_, layer).kv, rows.first);
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
