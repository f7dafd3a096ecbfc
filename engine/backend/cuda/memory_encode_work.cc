#include "engine/backend/cuda/memory_encode_work.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/cuda/layer_pass.h"
#include "engine/data/feature_rows.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/ops/spread_keys.h"

namespace chorale::cuda {
namespace {

using kernels::cuda::kTileRows;

// What a step computes at most, so that it takes about a millisecond on a large GPU: elements of K
// that are compared with a query, pairs of a key and a coarse centre, cells of the average size,
// and keys of the new set that are stored.
constexpr int64_t kComparedElements = int64_t{1} << 32;
constexpr int64_t kCentrePairs = int64_t{1} << 20;
constexpr int64_t kCellsOfStep = int64_t{1} << 12;
constexpr int64_t kStoredKeys = int64_t{1} << 14;

}  // namespace

MemoryEncodeWork::MemoryEncodeWork(EncodeSpec spec, Device& device)
    : spec_(std::move(spec)),
      model_(AsDeviceModel(*spec_.model)),
      shape_(spec_.shape()),
      layout_(model_.shape(), shape_),
      memory_(device.ContextAt(spec_.kv)),
      prefix_memory_(spec_.prefix == nullptr ? nullptr : device.ContextAt(spec_.prefix->kv)),
      plan_(model_.config(), shape_, spec_.append_starts, spec_.prefix_rows()),
      chunk_tiles_(EncodeChunkTiles(model_, device)),
      fit_(spec_.prefix != nullptr
               ? nullptr
               : std::make_unique<EncoderFit>(model_, spec_.features, spec_.base_y(), device)),
      encoder_state_(spec_.prefix == nullptr ? nullptr : spec_.prefix->encoder_state),
      workspace_(model_.shape(), shape_, plan_, device.EncodeAt(spec_.workspace), device),
      segment_(plan_.first_segment() - 1),
      phases_({plan_.DrawRowsPhase()}),
      schedule_(ScheduleOf(phase())) {
  Require(static_cast<int64_t>(spec_.y.size()) == shape_.rows, "y is [rows]");
  Require(spec_.kv.bytes >= layout_.bytes(), "the range holds the context");
  Require(spec_.workspace.bytes >= MemoryWorkspaceLayout(model_.shape(), shape_, plan_).bytes,
          "the workspace holds what is kept of a segment");
  if (measures()) {
    choice_ = std::make_unique<MemoryChoice>(model_.config(), shape_, plan_, spec_.seed);
  }
  if (spec_.prefix == nullptr) return;
  Require(spec_.prefix->model == spec_.model, "the prefix is of the same model");
  Require(spec_.prefix->shape.memory == shape_.memory, "the prefix has as many keys");
  Require(encoder_state_ != nullptr, "the prefix is resident");
}

ResidentContext MemoryEncodeWork::TakeContext() {
  Require(done(), "the context is encoded");
  return {.model = spec_.model, .encoder_state = encoder_state_, .kv = spec_.kv, .shape = shape_};
}

// Rows are counted in tiles, keys whose importance is measured in key blocks, and cells in those of
// one head. Heads are not divided.
LayerSchedule MemoryEncodeWork::ScheduleOf(const MemoryPhase& phase) const {
  const auto divided = [&phase](int64_t units, int64_t step_units) {
    return LayerSchedule({phase.flops() / static_cast<double>(units)}, units,
                         std::max<int64_t>(step_units, 1));
  };
  switch (phase.stage) {
    case MemoryStage::kProject:
    case MemoryStage::kAttend:
      return divided(workspace_.segment_rows().count, chunk_tiles_);
    case MemoryStage::kImportance: {
      const int64_t elements = plan_.measuring_rows() * model_.shape().query_width();
      return divided(kernels::cuda::ContextKeyBlocks(workspace_.keys().places()),
                     kComparedElements / elements / kernels::cuda::kKeyBlockKeys);
    }
    case MemoryStage::kSpread: {
      const int64_t groups = kCentrePairs / workspace_.keys().keys() / kernels::kCentresAtOnce;
      return divided(phase.units, std::max<int64_t>(groups, 1) * kernels::kCentresAtOnce);
    }
    case MemoryStage::kSpreadCells: {
      const int64_t heads = model_.config().n_kv_heads;
      return divided(phase.units / heads, kCellsOfStep / heads);
    }
    case MemoryStage::kStore:
      return divided(phase.units, kStoredKeys);
    case MemoryStage::kDrawRows:
    case MemoryStage::kLoad:
    case MemoryStage::kMeasure:
    case MemoryStage::kDivide:
    case MemoryStage::kChoose:
      break;
  }
  return divided(1, 1);
}

void MemoryEncodeWork::Run(int64_t max_steps, const LaunchWorkspace& launch) {
  waits_ = false;  // what an earlier call enqueued is complete
  while (max_steps > 0 && !done() && !waits_ && launch.device.status().ok()) {
    if (!fitted()) {
      RunFit(&max_steps, launch.device);
      continue;
    }
    schedule_.BeginBatch(1);
    RunUnits(schedule_.BatchRows(), launch);
    max_steps -= schedule_.EndBatch();
    if (schedule_.done()) NextPhase();
  }
}

void MemoryEncodeWork::RunFit(int64_t* max_steps, const Device& device) {
  *max_steps -= fit_->Run(*max_steps, device);
  if (!fit_->done() || !device.status().ok()) return;
  encoder_state_ = fit_->state();
  fit_.reset();
}

void MemoryEncodeWork::NextPhase() {
  if (phase().stage == MemoryStage::kImportance) {
    workspace_.DownloadImportance(&importance_);
    waits_ = true;
  }
  if (phase().stage == MemoryStage::kMeasure) measuring_rows_encoded_ = true;
  if (++phase_ == phases_.size()) {
    phase_ = 0;
    if (++segment_ == plan_.segments()) {
      spec_.features = {};
      spec_.y = {};
      return;
    }
    const MemorySegment segment = plan_.Segment(segment_);
    phases_ = plan_.Phases(segment);
    workspace_.BeginSegment(segment);
    if (measures()) {
      choice_->BeginSegment(segment_, segment, rows_.Of(segment), rows_.measuring_index);
    }
  }
  schedule_ = ScheduleOf(phase());
}

void MemoryEncodeWork::RunUnits(RowRange units, const LaunchWorkspace& launch) {
  const int64_t layer = phase().layer;
  const Forward forward(model_, launch);
  switch (phase().stage) {
    case MemoryStage::kDrawRows:
      rows_ = plan_.DrawRows(spec_.seed);
      return;
    case MemoryStage::kLoad:
      return workspace_.CopySet(
          SetBefore(), measures() ? choice_->HiddenKeys(layer) : absl::Span<const int32_t>());
    case MemoryStage::kProject:
      return Project(units, launch);
    case MemoryStage::kAttend:
      return forward.AttentionAndMlp(layer,
                                     PartOf(workspace_.segment_rows(), model_.shape(), units));
    case MemoryStage::kMeasure:
      return Measure(launch);
    case MemoryStage::kImportance:
      return workspace_.Measure(units);
    case MemoryStage::kSpread:
      return workspace_.Spread(units, spec_.seed, FirstStream());
    case MemoryStage::kDivide:
      return workspace_.Divide();
    case MemoryStage::kSpreadCells:
      return workspace_.SpreadCells(units, spec_.seed, FirstStream());
    case MemoryStage::kChoose:
      return Choose();
    case MemoryStage::kStore:
      return workspace_.Store(units, SetAfter());
  }
}

void MemoryEncodeWork::Project(RowRange tiles, const LaunchWorkspace& launch) {
  const TileSet set = PartOf(workspace_.segment_rows(), model_.shape(), tiles);
  if (phase().layer == 0) {
    const MemorySegment segment = plan_.Segment(segment_);
    const int64_t first = tiles.first * kTileRows;
    const auto rows =
        rows_.Of(segment).subspan(first, std::min(tiles.rows * kTileRows, segment.rows - first));
    std::vector<float> y;
    for (const int32_t row : rows) y.push_back(spec_.y[row]);
    const FeatureMatrix features = SelectRows(spec_.features, rows);
    EmbedContextRows(model_, {*encoder_state_, features, /*first=*/0, y}, set, launch);
  }
  Forward(model_, launch).PreAttention(phase().layer, set);
}

void MemoryEncodeWork::Measure(const LaunchWorkspace& launch) {
  const Forward forward(model_, launch);
  const TileSet& set = workspace_.measuring_rows();
  const int64_t rows = workspace_.measuring_count();
  if (phase().layer == 0) {
    if (!measuring_rows_encoded_) {
      const FeatureMatrix features = SelectRows(spec_.features, rows_.measuring);
      model_.row_encoder().Encode(*encoder_state_, features, 0, rows, workspace_.encodings(),
                                  launch);
    }
    forward.EmbedRows(set, workspace_.encodings(), rows, model_.offsets(), nullptr);
  }
  forward.PreAttention(phase().layer, set);
  const uint16_t* const attended = workspace_.Attend();
  const bool last = phase().layer + 1 == model_.config().n_layers;
  if (!last) forward.PostAttention(phase().layer, set, attended);
}

// The groups of merged keys are there already.
void MemoryEncodeWork::Choose() {
  const int64_t layer = phase().layer;
  if (measures()) {
    workspace_.UploadGroups(reduces() ? choice_->Choose(layer, workspace_.keys(), importance_)
                                      : choice_->KeepAll(layer));
  } else if (!reduces()) {
    const KeyGroups all = KeepAllKeys(workspace_.keys().keys());
    workspace_.UploadGroups(std::vector<KeyGroups>(model_.config().n_kv_heads, all));
  }
}

}  // namespace chorale::cuda
