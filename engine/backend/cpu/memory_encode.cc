#include "engine/backend/cpu/memory_encode.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/require.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/token_offsets.h"
#include "engine/data/feature_rows.h"

namespace chorale::cpu {

MemoryEncodeWork::MemoryEncodeWork(EncodeSpec spec, float* pool, int threads, const float* prefix)
    : spec_(std::move(spec)),
      model_(&AsPackedModel(*spec_.model)),
      shape_(spec_.shape()),
      layout_(model_->config(), shape_),
      memory_(pool),
      prefix_memory_(prefix),
      threads_(threads),
      plan_(model_->config(), shape_, spec_.append_starts, spec_.prefix_rows()),
      fit_(spec_.prefix != nullptr ? nullptr
                                   : model_->row_encoder().NewFit(spec_.features, spec_.base_y())),
      encoder_state_(spec_.prefix == nullptr ? nullptr : spec_.prefix->encoder_state),
      tokens_(plan_.max_segment_rows() * model_->config().d_model),
      measuring_tokens_(plan_.measuring_rows() * model_->config().d_model),
      embedded_(plan_.measuring_rows() * model_->config().d_model),
      workspace_(model_->config(), shape_, plan_, spec_.seed),
      segment_(plan_.first_segment() - 1),
      phases_({plan_.DrawRowsPhase()}),
      schedule_(fitted() ? ScheduleOf(phase())
                         : LayerSchedule({fit_->task_flops()}, fit_->tasks(), 1)) {
  RequireShape(spec_.features);
  Require(std::ssize(spec_.y) == shape_.rows, "y is [rows]");
  Require(spec_.kv.bytes >= layout_.bytes(), "the range holds the context");
  if (spec_.prefix == nullptr) return;
  Require(spec_.prefix->model == spec_.model, "the prefix is of the same model");
  Require(spec_.prefix->shape.memory == shape_.memory, "the prefix has as many keys");
  Require(prefix_memory_ != nullptr && encoder_state_ != nullptr, "the prefix is resident");
}

ResidentContext MemoryEncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = spec_.model, .encoder_state = encoder_state_, .kv = spec_.kv, .shape = shape_};
}

LayerSchedule MemoryEncodeWork::ScheduleOf(const MemoryPhase& phase) const {
  // The centres of a head are drawn one after the other; heads are the tasks.
  if (phase.stage == MemoryStage::kSpread) {
    return LayerSchedule({phase.unit_flops}, phase.units, phase.task_units);
  }
  if (phase.stage == MemoryStage::kSpreadCells) return ScheduleOfCells(phase);
  const int64_t rows = ChunkRowsFor(plan_.Segment(std::max<int64_t>(segment_, 0)).keys());
  return LayerSchedule({phase.unit_flops}, phase.units,
                       phase.task_units > 0 ? phase.task_units : rows, threads_);
}

// The cost of the phase is that of cells of the average size. Its rounds share it.
LayerSchedule MemoryEncodeWork::ScheduleOfCells(const MemoryPhase& phase) const {
  const auto tasks = std::ssize(cell_tasks_.Round(cell_round_));
  const double flops = phase.flops() * cell_tasks_.Share(cell_round_);
  return LayerSchedule({flops / static_cast<double>(tasks)}, tasks, 1, threads_);
}

int64_t MemoryEncodeWork::BeginBatch(int64_t max_steps, int parallelism) {
  const int64_t tasks = schedule_.BeginBatch(max_steps);
  return by_head() ? model_->config().n_kv_heads : tasks;
}

void MemoryEncodeWork::RunTask(int64_t task, Scratch& scratch) {
  if (!fitted()) return fit_->RunTask(schedule_.RowsOf(task).first);
  const int64_t layer = phase().layer;
  const RowRange units = by_head() ? schedule_.BatchRows() : schedule_.RowsOf(task);
  switch (phase().stage) {
    case MemoryStage::kDrawRows:
      rows_ = plan_.DrawRows(spec_.seed);
      return;
    case MemoryStage::kLoad:
      return workspace_.LoadHead(layer, units.first, SetBefore());
    case MemoryStage::kProject:
      return Project(units, scratch);
    case MemoryStage::kAttend:
      return Attend(units, scratch);
    case MemoryStage::kMeasure:
      return Measure(units, scratch);
    case MemoryStage::kImportance:
      return workspace_.MeasureKeys(units);
    case MemoryStage::kSpread:
      return workspace_.SpreadHead(layer, task, units);
    case MemoryStage::kDivide:
      return workspace_.DivideHead(units.first);
    case MemoryStage::kSpreadCells:
      return workspace_.SpreadCells(layer, cell_tasks_.Round(cell_round_)[units.first]);
    case MemoryStage::kChoose:
      return workspace_.ChooseHead(layer, units.first);
    case MemoryStage::kStore:
      return workspace_.StoreKeys(units, layout_.Layer(memory_, layer));
  }
}

int64_t MemoryEncodeWork::EndBatch() {
  const int64_t steps = schedule_.EndBatch();
  if (!schedule_.done()) return steps;
  if (fitted()) {
    NextPhase();
  } else {
    encoder_state_ = fit_->Finish();
    fit_.reset();
  }
  if (!done()) {
    schedule_ = ScheduleOf(phase());
    return steps;
  }
  spec_.features = {};
  spec_.y = {};
  return steps;
}

ContextLayer<const float> MemoryEncodeWork::SetBefore() const {
  const bool of_prefix = prefix_memory_ != nullptr && segment_ == plan_.first_segment();
  return layout_.Layer<const float>(of_prefix ? prefix_memory_ : memory_, phase().layer);
}

void MemoryEncodeWork::NextPhase() {
  if (phase().stage == MemoryStage::kDivide) {
    cell_tasks_ = CellTasks(workspace_.cells(), MemoryPlan::kPairsOfCellTask);
    cell_round_ = 0;
  }
  if (phase().stage == MemoryStage::kSpreadCells && ++cell_round_ < cell_tasks_.rounds()) return;
  if (phase().stage == MemoryStage::kMeasure) measuring_rows_embedded_ = true;
  if (++phase_ < phases_.size()) return;
  phase_ = 0;
  if (++segment_ == plan_.segments()) return;
  const MemorySegment segment = plan_.Segment(segment_);
  phases_ = plan_.Phases(segment);
  workspace_.BeginSegment(segment_, segment, rows_.Of(segment), rows_.measuring_index);
}

void MemoryEncodeWork::Project(RowRange rows, Scratch& scratch) {
  const ModelConfig& config = model_->config();
  const PackedLayer& weights = model_->layers()[phase().layer];
  const MemorySegment segment = plan_.Segment(segment_);
  float* x = tokens_.data() + rows.first * config.d_model;
  if (phase().layer == 0) {
    Embed(rows_.Of(segment).subspan(rows.first, rows.rows), Role::kContextRow, x, scratch);
  }
  MixFeatures(*model_, weights, rows.rows, x, scratch);
  ProjectKv(*model_, weights, rows.rows, x, config.d_model, scratch);
  AppendKv(LayerKvShape(config), rows.rows, scratch.key_value.data(), 2 * config.kv_width(),
           workspace_.kv(), segment.set_keys + rows.first);
}

void MemoryEncodeWork::Attend(RowRange rows, Scratch& scratch) {
  const PackedLayer& weights = model_->layers()[phase().layer];
  float* x = tokens_.data() + rows.first * model_->config().d_model;
  AttendRows(*model_, weights, workspace_.Keys(), rows.rows, x, scratch);
  FeedForward(*model_, weights, rows.rows, x, scratch);
}

void MemoryEncodeWork::Measure(RowRange rows, Scratch& scratch) {
  const PackedLayer& weights = model_->layers()[phase().layer];
  const int64_t d = model_->config().d_model;
  float* x = measuring_tokens_.data() + rows.first * d;
  if (phase().layer == 0) {
    float* embedded = embedded_.data() + rows.first * d;
    if (!measuring_rows_embedded_) {
      Embed(absl::MakeConstSpan(rows_.measuring).subspan(rows.first, rows.rows), Role::kQueryRow,
            embedded, scratch);
    }
    std::copy_n(embedded, rows.rows * d, x);
  }
  MixFeatures(*model_, weights, rows.rows, x, scratch);
  const AttentionResults measured = workspace_.Measured(rows.first);
  AttendTo(*model_, weights, workspace_.Keys(), rows.rows, x, measured, scratch);
  if (last_layer()) return;  // nothing reads the output
  ProjectAttended(*model_, weights, rows.rows, measured.out, x, scratch);
  FeedForward(*model_, weights, rows.rows, x, scratch);
}

void MemoryEncodeWork::Embed(absl::Span<const int32_t> rows, Role role, float* x,
                             Scratch& scratch) {
  const FeatureMatrix features = SelectRows(spec_.features, rows);
  model_->row_encoder().Encode(*encoder_state_, features, 0, features.rows,
                               scratch.encodings.data());
  for (int64_t i = 0; i < features.rows; ++i) {
    scratch.encoding[i] = static_cast<int32_t>(i);
    scratch.offset[i] = role == Role::kContextRow ? TokenOffset::kContext : TokenOffset::kQueryRow;
    scratch.y[i] = role == Role::kContextRow ? spec_.y[rows[i]] : 0;
  }
  EmbedTokens(*model_, scratch.encodings.data(), features.rows, scratch, x);
}

}  // namespace chorale::cpu
