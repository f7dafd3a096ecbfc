// The device memory and the launches of the encoding of a reduced context
// (engine/backend/memory_plan.h).
#ifndef CHORALE_ENGINE_BACKEND_CUDA_MEMORY_WORKSPACE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_MEMORY_WORKSPACE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/arena_layout.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/backend/cuda/rows_workspace.h"
#include "engine/backend/cuda/tile_set.h"
#include "engine/backend/host/choose_keys.h"
#include "engine/backend/layer_schedule.h"
#include "engine/backend/memory_plan.h"
#include "kernels/cuda/memory_set/divide_centres.h"
#include "kernels/cuda/memory_set/key_groups.h"
#include "kernels/cuda/memory_set/memory_keys.h"
#include "kernels/cuda/memory_set/spread_keys.h"

namespace chorale::cuda {

// The layout of the range of the encode pool.
struct MemoryWorkspaceLayout {
  MemoryWorkspaceLayout(const KernelShape& shape, const ContextShape& context,
                        const MemoryPlan& plan);

  RowsWorkspaceLayout segment;    // of the largest segment
  RowsWorkspaceLayout measuring;  // of the measuring rows
  ArenaArray<char> segment_rows;
  ArenaArray<uint16_t> kv;        // of one layer
  ArenaArray<float> log_weights;  // likewise
  ArenaArray<int32_t> member;     // kernels::cuda::KeyGroups
  ArenaArray<int32_t> group_begin;
  ArenaArray<float> new_log_weights;  // [Hkv, M]

  // With measuring rows.
  ArenaArray<char> measuring_rows;
  ArenaArray<float> encodings;        // [R, D]
  ArenaArray<int32_t> hidden_places;  // [R, Hkv]
  ArenaArray<uint16_t> attended;      // [tiles, 64, H, Dh] bf16
  ArenaArray<float> out;              // [R, H, Dh]
  ArenaArray<float> lse;              // [R, H]
  ArenaArray<double> importance;      // [Hkv, places]

  // Without; see kernels::cuda::SpreadKeysParams, CentreCells, DivideCentresParams and
  // SpreadInCellsParams.
  ArenaArray<double> weight;
  ArenaArray<float> distance;
  ArenaArray<int32_t> nearest;
  ArenaArray<int32_t> centres;  // coarse
  ArenaArray<kernels::cuda::SpreadCandidate> candidates;
  ArenaArray<int32_t> cell_member;
  ArenaArray<int32_t> cell_begin;
  ArenaArray<int32_t> centre_begin;
  ArenaArray<char> scratch;  // of kDivide, then of kSpreadCells

  int64_t bytes = 0;
};

// The keys of one layer, and what is computed from them. The layers use the same memory, one after
// the other. Launches are enqueued on the stream of the device.
//
// Thread contract: engine thread only.
class MemoryWorkspace {
 public:
  // `memory`: MemoryWorkspaceLayout::bytes of the encode pool.
  MemoryWorkspace(const KernelShape& shape, const ContextShape& context, const MemoryPlan& plan,
                  char* memory, Device& device);

  // Uploads the tiles of the segment's rows.
  void BeginSegment(const MemorySegment& segment);
  const kernels::cuda::MemoryKeys& keys() const { return keys_; }

  const TileSet& segment_rows() const { return segment_rows_; }
  const TileSet& measuring_rows() const { return measuring_rows_; }
  float* encodings() const { return layout_.encodings.At(memory_); }  // of the measuring rows
  int64_t measuring_count() const { return measuring_count_; }        // R

  // kLoad. `set` is ignored before the second segment. `hidden_keys` is [R, Hkv], -1: none; empty
  // if the segment does not measure.
  void CopySet(const LayerKeys& set, absl::Span<const int32_t> hidden_keys);
  // kMeasure: attention of the measuring rows, whose q are computed. Returns it as PostAttention
  // takes it.
  const uint16_t* Attend();
  // kImportance, of key blocks, and its download to [Hkv, places].
  void Measure(RowRange key_blocks);
  void DownloadImportance(std::vector<double>* importance);
  // kSpread: coarse centres. `stream` is that of head 0.
  void Spread(RowRange centres, uint64_t seed, uint32_t stream);
  // kDivide, of all heads.
  void Divide();
  // kSpreadCells: the groups of the centres of some cells, in all heads.
  void SpreadCells(RowRange cells, uint64_t seed, uint32_t stream);
  // kChoose: groups that were chosen on the host, of all heads. Either all of these have
  // log-weights, which are natural logarithms, or none has.
  void UploadGroups(absl::Span<const KeyGroups> groups);
  // kStore: keys of the new set.
  void Store(RowRange groups, const LayerKeys& set);

 private:
  int64_t kept_keys() const { return std::min<int64_t>(keys_.keys(), set_keys_); }
  int32_t coarse_centres() const { return static_cast<int32_t>(plan_.Cells(keys_.keys())); }
  kernels::cuda::KeyGroups Groups() const;
  kernels::cuda::CentreCells Cells() const;

  const KernelShape shape_;
  const MemoryPlan plan_;
  const int64_t set_keys_;         // M
  const int64_t measuring_count_;  // R; 0: no importance
  const MemoryWorkspaceLayout layout_;
  char* const memory_;
  Device& device_;
  kernels::cuda::MemoryKeys keys_;
  TileSet segment_rows_;
  TileSet measuring_rows_;
  bool has_new_log_weights_ = false;  // of the groups that were uploaded last
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_MEMORY_WORKSPACE_H_
