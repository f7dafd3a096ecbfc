// The keys from which the K/V heads of one layer choose a memory set, and the state of the choice
// (engine/backend/memory_plan.h).
#ifndef CHORALE_ENGINE_BACKEND_CPU_MEMORY_WORKSPACE_H_
#define CHORALE_ENGINE_BACKEND_CPU_MEMORY_WORKSPACE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/cpu/cell_tasks.h"
#include "engine/backend/cpu/context_layout.h"
#include "engine/backend/cpu/forward.h"
#include "engine/backend/host/aligned_buffer.h"
#include "engine/backend/host/attention_kv.h"
#include "engine/backend/host/choose_keys.h"
#include "engine/backend/host/divide_centres.h"
#include "engine/backend/host/key_rows.h"
#include "engine/backend/layer_schedule.h"
#include "engine/backend/memory_plan.h"

namespace chorale::cpu {

// The keys of a layer are those of the set, in their order, then those of the segment's rows. The
// layers use the same arrays, one after the other.
//
// Thread contract: the engine thread calls BeginSegment between batches. Tasks of one phase call
// the other methods concurrently, for different heads, rows or keys.
class MemoryWorkspace {
 public:
  MemoryWorkspace(const ModelConfig& config, const ContextShape& shape, const MemoryPlan& plan,
                  uint64_t seed);

  // `rows` are the segment's rows of the table. `measuring_rows` contains, for each row of the
  // table, its index among the measuring rows, or -1; it is empty without measuring rows. Both
  // outlive the segment.
  void BeginSegment(int64_t index, const MemorySegment& segment, absl::Span<const int32_t> rows,
                    absl::Span<const int32_t> measuring_rows);

  // kLoad: copies the set of a head, and determines the hidden keys of the measuring rows.
  void LoadHead(int64_t layer, int64_t head, const ContextLayer<const float>& set);

  // All keys. K and V of the segment's rows begin at key MemorySegment::set_keys.
  KvView<float> kv() { return shape_.At(kv_.data(), segment_.keys()); }
  AttentionKv Keys() const;

  // kMeasure: the arrays of the measuring rows from row `first` on.
  AttentionResults Measured(int64_t first);
  // kImportance, of the keys of a task.
  void MeasureKeys(RowRange keys);
  // kSpread: draws coarse centres of a head.
  void SpreadHead(int64_t layer, int64_t head, RowRange centres);
  // kDivide.
  void DivideHead(int64_t head);
  absl::Span<const CentreCells> cells() const { return cells_; }  // [Hkv], after kDivide
  // kSpreadCells: draws centres in some cells.
  void SpreadCells(int64_t layer, const CellTask& task);
  // kChoose.
  void ChooseHead(int64_t layer, int64_t head);
  // kStore: keys of the new set, of all heads.
  void StoreKeys(RowRange keys, const ContextLayer<float>& set);

 private:
  int64_t keys() const { return segment_.keys(); }
  bool reduces() const { return keys() > set_keys_; }  // whether fewer keys are kept
  int64_t kept_keys() const { return std::min(keys(), set_keys_); }
  int64_t coarse_centres() const { return plan_.Cells(keys()); }
  float* LogWeights(int64_t head) { return log_weights_.data() + head * keys(); }
  KeyGroups Choose(int64_t layer, int64_t head);
  void SpreadCell(int64_t layer, const CellTask& task, int64_t cell);

  const ModelConfig config_;
  const MemoryPlan plan_;
  const KvShape shape_;
  const MemoryPolicy policy_;
  const int64_t set_keys_;        // M
  const int64_t measuring_rows_;  // R; 0: no importance
  const uint64_t seed_;

  int64_t segment_index_ = 0;
  MemorySegment segment_;

  AlignedBuffer kv_;             // LayerKvShape of up to plan.max_keys() keys
  AlignedBuffer log_weights_;    // [Hkv, keys]
  std::vector<KeyGroups> kept_;  // [Hkv], from kChoose to kStore

  // With measuring rows.
  KeyRows rows_;
  AlignedBuffer query_;              // [R, D]
  AlignedBuffer attended_;           // [R, D]
  AlignedBuffer lse_;                // [R, H]
  AlignedArray<double> importance_;  // [Hkv, keys]

  // Without; see kernels::SpreadKeysParams and kernels::SpreadInCellParams. Each cell begins at a
  // panel of its own, so a head has places_ places for its keys.
  int64_t most_cells_ = 0;  // C
  int64_t places_ = 0;
  AlignedArray<double> weight_;    // [Hkv, places_]
  AlignedBuffer distance_;         // [Hkv, places_]
  AlignedArray<int32_t> nearest_;  // [Hkv, places_]
  AlignedArray<int32_t> centres_;  // [Hkv, C], coarse
  std::vector<CentreCells> cells_;
  AlignedBuffer cell_panels_;            // [Hkv, places_, Dh]
  AlignedArray<double> cell_weight_;     // [Hkv, places_]
  AlignedBuffer cell_distance_;          // [Hkv, places_]
  AlignedArray<int32_t> nearest_place_;  // [Hkv, places_]
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_MEMORY_WORKSPACE_H_
