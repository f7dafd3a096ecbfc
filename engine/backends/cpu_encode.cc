#include "engine/backends/cpu_encode.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cpu_cost.h"
#include "engine/backends/cpu_forward.h"
#include "engine/backends/memory_pool.h"
#include "engine/backends/require.h"
#include "kernels/layout.h"

namespace chorale {
namespace {

// Above this many context rows attention is most of the work, and a task takes fewer rows so that a
// step stays short. Whole panels of keys, so that two tasks never write to one cache line.
constexpr int64_t kLargeContext = 8'192;
constexpr int64_t kLargeContextTaskRows = kernels::kPanel;
static_assert(kChunkRows % kernels::kPanel == 0);

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
  const int64_t elements = config.n_layers * LayerKvElements(config, rows);
  return kernels::RoundUp(elements * static_cast<int64_t>(sizeof(float)), MemoryPool::kAlignment);
}

CpuEncodeWork::CpuEncodeWork(std::shared_ptr<const BackendModel> model, FeatureMatrix features,
                             std::vector<float> y, PoolRange kv, float* pool, int threads)
    : owner_(std::move(model)),
      model_(AsCpuModel(owner_.get())),
      range_(kv),
      kv_(pool),
      rows_(features.rows),
      task_rows_(rows_ > kLargeContext ? kLargeContextTaskRows : kChunkRows),
      step_rows_(task_rows_ * threads),
      features_(std::move(features)),
      y_(std::move(y)),
      tokens_(rows_ * model_->config().d_model) {
  RequireShape(features_);
  Require(static_cast<int64_t>(y_.size()) == rows_, "y is [rows]");
  Require(kv.bytes >= ContextKvBytes(model_->config(), rows_), "the range holds the context");
}

double CpuEncodeWork::next_step_flops() const {
  if (done()) return 0;
  if (phase_ == kFit) return model_->row_encoder().FitFlops(rows_, features_.features);
  const ModelConfig& config = model_->config();
  const double rows = static_cast<double>(std::min(step_rows_, rows_ - rows_done_));
  double row_flops = MixFeaturesFlops(config) + KeysValuesFlops(config);
  if (phase_ > 1) row_flops += AttendAndFeedForwardFlops(config, static_cast<double>(rows_));
  return rows * row_flops;
}

int64_t CpuEncodeWork::steps_at_this_cost() const {
  if (done()) return 0;
  return phase_ == kFit ? 1 : kernels::CeilDiv(rows_ - rows_done_, step_rows_);
}

ResidentContext CpuEncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = owner_, .encoder_state = encoder_state_, .kv = range_, .rows = rows_};
}

int64_t CpuEncodeWork::BeginRound(int64_t max_steps, int parallelism) {
  if (phase_ == kFit) return 1;
  const int64_t left = rows_ - rows_done_;
  const int64_t steps = std::min(max_steps, kernels::CeilDiv(left, step_rows_));
  round_rows_ = std::min(left, steps * step_rows_);
  return kernels::CeilDiv(round_rows_, task_rows_);
}

void CpuEncodeWork::RunTask(int64_t task, CpuScratch& scratch) {
  if (phase_ == kFit) {
    encoder_state_ = model_->row_encoder().Fit(features_);
    return;
  }
  const int64_t layer = phase_ - 1;
  const int64_t first = rows_done_ + task * task_rows_;
  const int64_t rows = std::min(task_rows_, rows_done_ + round_rows_ - first);
  float* x = tokens_.data() + first * model_->config().d_model;
  if (layer == 0) {
    EmbedRowsOfContext(first, rows, scratch);
  } else {
    FinishLayer(layer - 1, rows, x, scratch);
  }
  LeaveKeysValues(layer, first, rows, x, scratch);
}

int64_t CpuEncodeWork::EndRound() {
  if (phase_ == kFit) {
    ++phase_;
    return 1;
  }
  const int64_t steps = kernels::CeilDiv(round_rows_, step_rows_);
  rows_done_ += round_rows_;
  if (rows_done_ < rows_) return steps;
  rows_done_ = 0;
  ++phase_;
  if (phase_ == 2 || done()) {
    features_.x = {};
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
  const ModelConfig& config = model_->config();
  const float* kv = kv_ + layer * LayerKvElements(config, rows_);
  VisibleKeys keys;
  keys.context = LayerKvAt(kv, config, rows_);
  keys.context_rows = rows_;
  AttendRows(*model_, weights, keys, rows, x, scratch);
  FeedForward(*model_, weights, rows, x, scratch);
}

void CpuEncodeWork::LeaveKeysValues(int64_t layer, int64_t first, int64_t rows, float* x,
                                    CpuScratch& scratch) {
  const CpuLayer& weights = model_->layers()[layer];
  const ModelConfig& config = model_->config();
  float* kv = kv_ + layer * LayerKvElements(config, rows_);
  MixFeatures(*model_, weights, rows, x, scratch);
  ProjectKeysValues(*model_, weights, rows, x, config.d_model, scratch);
  AppendKeysValues(*model_, scratch, 0, rows, LayerKvAt(kv, config, rows_),
                   kernels::KeyLayout::kPanels, first, rows_);
}

CpuRowsWork::CpuRowsWork(std::shared_ptr<const ResidentContext> context, FeatureMatrix features)
    : context_(std::move(context)),
      model_(AsCpuModel(context_->model.get())),
      features_(std::move(features)),
      encoded_(std::make_shared<CpuEncodedRows>(features_.rows, model_->config().d_model)) {
  RequireShape(features_);
}

double CpuRowsWork::next_step_flops() const {
  const int64_t rows = std::min(kRowsPerStep, features_.rows - rows_done_);
  return done() ? 0 : model_->row_encoder().EncodeFlops(rows, features_.features);
}

std::shared_ptr<const EncodedRows> CpuRowsWork::TakeRows() {
  Require(done(), "the rows are encoded");
  return std::move(encoded_);
}

int64_t CpuRowsWork::BeginRound(int64_t max_steps, int parallelism) {
  const int64_t left = features_.rows - rows_done_;
  const int64_t steps = std::min(max_steps, kernels::CeilDiv(left, kRowsPerStep));
  round_rows_ = std::min(left, steps * kRowsPerStep);
  return steps;
}

void CpuRowsWork::RunTask(int64_t task, CpuScratch& scratch) {
  const int64_t first = rows_done_ + task * kRowsPerStep;
  const int64_t rows = std::min(kRowsPerStep, rows_done_ + round_rows_ - first);
  model_->row_encoder().Encode(*context_->encoder_state, features_, first, rows,
                               encoded_->mutable_encodings() + first * model_->config().d_model);
}

int64_t CpuRowsWork::EndRound() {
  const int64_t steps = kernels::CeilDiv(round_rows_, kRowsPerStep);
  rows_done_ += round_rows_;
  return steps;
}

}  // namespace chorale
