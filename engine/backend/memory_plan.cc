#include "engine/backend/memory_plan.h"

#include <algorithm>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/encode_blocks.h"
#include "engine/backend/flop_model.h"
#include "kernels/ops/panel_layout.h"
#include "kernels/ops/random.h"
#include "kernels/ops/spread_keys.h"

namespace chorale {
namespace {

// Pairs of a key and a centre in a step of one head, and pairs of a key and a measuring row in a
// task of all heads.
constexpr int64_t kPairsOfStep = 1 << 20;
constexpr int64_t kPairsOfTask = 1 << 18;
// Keys that a task stores.
constexpr int64_t kStoredKeys = 256;

// The rows of a segment are a multiple of it.
constexpr int64_t kSegmentMultiple = 64;

// Costs of operations other than multiply-adds, as the FLOPs that take as long.
constexpr double kDrawRowFlops = 500;
constexpr double kChooseKeyFlops = 1'000;
constexpr double kDivideKeyFlops = 500;
constexpr double kDrawKeyFlops = 100;  // of a group of centres
constexpr double kCopyElementFlops = 4;

// Paths of orders: of the rows before the first append, of the measuring rows, and of the rows of
// each append.
enum OrderPath : uint64_t { kRowOrder = 0, kMeasuringOrder = 1, kFirstAppendOrder = 2 };

// Appends a random order of the rows of a block.
void AddOrder(uint64_t seed, uint64_t path, const RowRange& block, std::vector<int32_t>& order) {
  const size_t at = order.size();
  order.resize(at + block.rows);
  kernels::DrawOrder(seed, path, block.rows, order.data() + at);
  for (size_t i = at; i < order.size(); ++i) order[i] += static_cast<int32_t>(block.first);
}

// The indices of `count` measuring rows.
std::vector<int32_t> DrawMeasuringRows(uint64_t seed, int64_t rows, int64_t count) {
  std::vector<int32_t> order(rows);
  kernels::DrawEndOfOrder(seed, kMeasuringOrder, rows, count, order.data());
  return {order.end() - count, order.end()};
}

// Wq x, and scores and weighted values of so many keys.
double AttendOnlyFlops(const ModelConfig& config, int64_t keys) {
  return static_cast<double>(config.d_model * (2 * config.d_model + 4 * keys));
}

}  // namespace

MemoryPlan::MemoryPlan(const ModelConfig& config, const ContextShape& shape,
                       absl::Span<const int64_t> append_starts, int64_t prefix_rows)
    : config_(config),
      shape_(shape),
      prefix_rows_(prefix_rows),
      segment_rows_(
          std::max(kSegmentRows, RoundUp(CeilDiv(shape.memory.rows, 2), kSegmentMultiple))),
      measuring_rows_(
          shape.memory.policy == MemoryPolicy::kMerge ? 0 : std::min(kMeasuringRows, shape.rows)),
      blocks_(EncodeBlocks(shape.rows, append_starts)) {
  Require(shape.reduced(), "the context has fewer keys than rows");
  Require(append_starts.empty() || shape.appendable(), "the policy allows appended rows");
  Require(prefix_rows == 0 || prefix_rows > shape.memory.rows, "the prefix is reduced");
  for (const RowRange& block : blocks_) {
    if (block.first == prefix_rows) first_segment_ = segments();
    AddSegments(block);
  }
  Require(Segment(first_segment_).first == prefix_rows,
          "the number of rows of the prefix is one of append_starts");
}

void MemoryPlan::AddSegments(const RowRange& block) {
  const int64_t end = block.first + block.rows;
  for (int64_t first = block.first; first < end; first += segment_rows_) {
    segments_.push_back({.first = first,
                         .rows = std::min(segment_rows_, end - first),
                         .set_keys = std::min(first, shape_.memory.rows)});
  }
}

// A block of S rows may be the last.
int64_t MemoryPlan::max_keys() const {
  return std::min(shape_.rows, shape_.memory.rows + segment_rows_);
}

int64_t MemoryPlan::max_segment_rows() const { return std::min(shape_.rows, segment_rows_); }

int64_t MemoryPlan::Cells(int64_t keys) const {
  return std::min(CeilDiv(keys, kCellKeys), shape_.memory.rows);
}

MemoryPhase MemoryPlan::DrawRowsPhase() const {
  return {.stage = MemoryStage::kDrawRows,
          .units = 1,
          .unit_flops =
              static_cast<double>(shape_.rows - prefix_rows_ + measuring_rows_) * kDrawRowFlops,
          .task_units = 1};
}

MemoryRows MemoryPlan::DrawRows(uint64_t seed) const {
  MemoryRows drawn = {.prefix_rows = prefix_rows_};
  drawn.order.reserve(shape_.rows - prefix_rows_);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].first < prefix_rows_) continue;
    AddOrder(seed, i == 0 ? kRowOrder : kFirstAppendOrder + (i - 1), blocks_[i], drawn.order);
  }
  if (measuring_rows_ == 0) return drawn;
  drawn.measuring = DrawMeasuringRows(seed, shape_.rows, measuring_rows_);
  drawn.measuring_index.assign(shape_.rows, -1);
  for (size_t i = 0; i < drawn.measuring.size(); ++i) {
    drawn.measuring_index[drawn.measuring[i]] = static_cast<int32_t>(i);
  }
  return drawn;
}

std::vector<MemoryPhase> MemoryPlan::Phases(const MemorySegment& segment) const {
  const int64_t keys = segment.keys();
  const bool measured = measuring_rows_ > 0 && keys > shape_.memory.rows;
  const double mix = MixFeaturesFlops(config_);
  const double attend = AttendAndFeedForwardFlops(config_, static_cast<double>(keys));
  const double copied = static_cast<double>(2 * config_.head_dim() * keys) * kCopyElementFlops;
  std::vector<MemoryPhase> phases;
  for (int64_t layer = 0; layer < config_.n_layers; ++layer) {
    phases.push_back({MemoryStage::kLoad, layer, config_.n_kv_heads, copied, 1});
    phases.push_back({MemoryStage::kProject, layer, segment.rows, mix + KvFlops(config_), 0});
    if (layer + 1 < config_.n_layers) {
      phases.push_back({MemoryStage::kAttend, layer, segment.rows, attend, 0});
    }
    if (measured) {
      const bool last = layer + 1 == config_.n_layers;
      const double flops = mix + (last ? AttendOnlyFlops(config_, keys) : attend);
      phases.push_back({MemoryStage::kMeasure, layer, measuring_rows_, flops, 0});
    }
    AddChoice(keys, layer, phases);
  }
  return phases;
}

void MemoryPlan::AddCentres(int64_t keys, int64_t layer, std::vector<MemoryPhase>& phases) const {
  const int64_t cells = Cells(keys);
  const auto n = static_cast<double>(keys);
  const int64_t step =
      std::max<int64_t>(1, kPairsOfStep / keys / kernels::kCentresAtOnce) * kernels::kCentresAtOnce;
  phases.push_back(
      {MemoryStage::kSpread, layer, cells, 3 * n * static_cast<double>(config_.kv_width()), step});
  phases.push_back({MemoryStage::kDivide, layer, config_.n_kv_heads, n * kDivideKeyFlops, 1});
  // Of a cell of average size.
  const double cell_keys = n / static_cast<double>(cells);
  const double centres = static_cast<double>(shape_.memory.rows) / static_cast<double>(cells);
  const double groups = centres / kernels::kCentresAtOnce + 3;
  const double pairs = cell_keys * centres;
  const auto head_dim = static_cast<double>(config_.head_dim());
  const double flops =
      cell_keys * (head_dim * kCopyElementFlops + groups * kDrawKeyFlops) + 3 * pairs * head_dim;
  phases.push_back({MemoryStage::kSpreadCells, layer, cells * config_.n_kv_heads, flops,
                    std::max<int64_t>(1, static_cast<int64_t>(kPairsOfCellTask / pairs))});
}

void MemoryPlan::AddChoice(int64_t keys, int64_t layer, std::vector<MemoryPhase>& phases) const {
  const int64_t kept = shape_.memory.rows;
  const auto n = static_cast<double>(keys);
  if (keys > kept && measuring_rows_ > 0) {
    // A score by 2 D, a distance by 3 D.
    const double flops = static_cast<double>(5 * config_.d_model * measuring_rows_);
    const int64_t task = std::max<int64_t>(
        kernels::kPanel, kPairsOfTask / measuring_rows_ / kernels::kPanel * kernels::kPanel);
    phases.push_back({MemoryStage::kImportance, layer, keys, flops, task});
  } else if (keys > kept) {
    AddCentres(keys, layer, phases);
  }
  phases.push_back({MemoryStage::kChoose, layer, config_.n_kv_heads, n * kChooseKeyFlops, 1});
  const int64_t stored = std::min(keys, kept);
  const double copies = measuring_rows_ > 0 ? 1 : n / static_cast<double>(stored);  // per key
  phases.push_back({MemoryStage::kStore, layer, stored,
                    copies * static_cast<double>(2 * config_.kv_width()) * kCopyElementFlops,
                    kStoredKeys});
}

// Most segments are like the one before them.
double MemoryPlan::flops() const {
  double flops = DrawRowsPhase().flops();
  double of_segment = 0;
  for (int64_t i = first_segment_; i < segments(); ++i) {
    const MemorySegment& segment = Segment(i);
    const bool same = i > first_segment_ && segment.rows == Segment(i - 1).rows &&
                      segment.set_keys == Segment(i - 1).set_keys;
    if (!same) {
      of_segment = 0;
      for (const MemoryPhase& phase : Phases(segment)) of_segment += phase.flops();
    }
    flops += of_segment;
  }
  return flops;
}

uint32_t MemoryStream(const ModelConfig& config, int64_t segment, int64_t layer, int64_t kv_head) {
  return static_cast<uint32_t>((segment * config.n_layers + layer) * config.n_kv_heads + kv_head);
}

}  // namespace chorale
