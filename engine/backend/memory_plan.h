// The encoding of a reduced context (ContextShape::reduced), divided into segments and phases.
//
// The rows are taken in a random order, in segments of S = max(kSegmentRows, M / 2, rounded up to a
// multiple of 64) rows for a set of M keys. The rows of a segment pass through the layers together.
// In each layer, they attend to the set so far and to each other, in one softmax; then each K/V
// head chooses M of these keys, or keeps all if there are fewer, which are the set of the next
// segment. The set after the last segment is the encoded context.
//
// Appended rows are further segments. The blocks of the context (engine/backend/encode_blocks.h)
// are taken one after the other, the rows of each in a random order of their own, in segments of S
// rows; the last segment of a block has fewer. So no segment has rows of two blocks, and a segment
// depends on no row of a later block. If a prefix is resident (EncodeSpec::prefix), its set is the
// one before the first segment of the other blocks. Only contexts with the policy MERGE have
// appended rows.
//
// The policy MERGE chooses centres by k-means++. Of n keys, each head first draws C = ceil(n / 128)
// coarse centres, and at most M (kernels/ops/spread_keys.h). The keys that join one of them are a
// cell. The M centres are divided among the cells (engine/backend/host/divide_centres.h), which
// draw them (kernels/ops/spread_in_cells.h).
//
// The policies HEAVY and SAMPLE choose by importance (kernels/ops/key_attention.h). To measure it,
// R rows of the context pass through the layers as query rows beside each segment, anew each time,
// so that early keys have no advantage. A measuring row does not attend to its own key.
//
// One segment in one layer has these phases. All units of a phase are complete before the next
// phase begins. Phases in brackets do not occur for all policies, layers or segments.
//
//   kLoad          heads    K, V and weights of the set to the workspace
//   kProject       rows     [embed;] x = LN1(x + P x), K and V of the segment's rows
//   [kAttend]      rows     attention and feed-forward, except in the last layer
//   [kMeasure]     rows     measuring rows: [embed;] x = LN1(x + P x), attention, and feed-forward
//                           except in the last layer
//   [kImportance]  keys     importance of all keys
//   [kSpread]      centres  MERGE: coarse centres, one group after the other in each head
//   [kDivide]      heads    MERGE: the cells, and the number of centres of each
//   [kSpreadCells] cells    MERGE: the centres, in the cells of all heads
//   kChoose        heads    the keys that are kept, or merged
//   kStore         keys     K, V and weights of the new set to the context pool
#ifndef CHORALE_ENGINE_BACKEND_MEMORY_PLAN_H_
#define CHORALE_ENGINE_BACKEND_MEMORY_PLAN_H_

#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/types/span.h"
#include "engine/backend/layer_schedule.h"
#include "engine/data/memory_set.h"
#include "engine/model/model_config.h"

namespace chorale {

enum class MemoryStage {
  kDrawRows,  // once, before the first segment: the order of the rows, and the measuring rows
  kLoad,
  kProject,
  kAttend,
  kMeasure,
  kImportance,
  kSpread,
  kDivide,
  kSpreadCells,
  kChoose,
  kStore,
};

struct MemoryPhase {
  MemoryStage stage = MemoryStage::kDrawRows;
  int64_t layer = 0;
  int64_t units = 0;      // at least 1
  double unit_flops = 0;  // positive
  // The units of one task that keep it as short as the tasks of other work; for kSpread, of one
  // step of all heads, a multiple of kernels::kCentresAtOnce; for kSpreadCells, of cells of the
  // average size. 0 for phases of rows: the backend decides.
  int64_t task_units = 0;

  double flops() const { return static_cast<double>(units) * unit_flops; }
};

struct MemorySegment {
  int64_t first = 0;     // the number of rows of all earlier segments
  int64_t rows = 0;      // of the segment
  int64_t set_keys = 0;  // of the set before it
  int64_t keys() const { return set_keys + rows; }
};

// The rows of the table that an encoding takes at random.
struct MemoryRows {
  // The rows of the segments one after the other, without those of a prefix.
  std::vector<int32_t> order = {};
  int64_t prefix_rows = 0;
  // [R]; and the index of each row of the table among them, or -1, [N]. Empty without such rows.
  std::vector<int32_t> measuring = {};
  std::vector<int32_t> measuring_index = {};

  absl::Span<const int32_t> Of(const MemorySegment& segment) const {
    return absl::MakeConstSpan(order).subspan(segment.first - prefix_rows, segment.rows);
  }
};

// Immutable.
class MemoryPlan {
 public:
  static constexpr int64_t kSegmentRows = 1'024;
  static constexpr int64_t kCellKeys = 128;  // of a cell of MERGE, on average
  static constexpr int64_t kMeasuringRows = 1'024;
  // Pairs of a key and a centre in a task of kSpreadCells.
  static constexpr int64_t kPairsOfCellTask = 1 << 17;

  // The segments of the first prefix_rows rows are not encoded. REQUIRES: shape.reduced(); those of
  // EncodeBlocks; without append_starts, or shape.appendable(); prefix_rows is 0 or more than M.
  MemoryPlan(const ModelConfig& config, const ContextShape& shape,
             absl::Span<const int64_t> append_starts = {}, int64_t prefix_rows = 0);

  // All segments of the context, and the first that is encoded.
  int64_t segments() const { return std::ssize(segments_); }
  int64_t first_segment() const { return first_segment_; }
  const MemorySegment& Segment(int64_t index) const { return segments_[index]; }
  // Of all layers, in their order. Only the counts of a segment matter.
  std::vector<MemoryPhase> Phases(const MemorySegment& segment) const;
  // The phase before the first segment.
  MemoryPhase DrawRowsPhase() const;
  MemoryRows DrawRows(uint64_t seed) const;
  double flops() const;  // of everything that is encoded, without the row encoder

  // Bounds of MemorySegment::keys() and of MemorySegment::rows for all appends of a context of this
  // shape, so that the sizes of a workspace depend on the shape alone.
  int64_t max_keys() const;
  int64_t max_segment_rows() const;
  int64_t Cells(int64_t keys) const;                          // C for so many keys
  int64_t measuring_rows() const { return measuring_rows_; }  // R; 0 for MERGE

 private:
  void AddSegments(const RowRange& block);
  void AddCentres(int64_t keys, int64_t layer, std::vector<MemoryPhase>& phases) const;
  void AddChoice(int64_t keys, int64_t layer, std::vector<MemoryPhase>& phases) const;

  ModelConfig config_;
  ContextShape shape_;
  int64_t prefix_rows_;
  int64_t segment_rows_;  // S
  int64_t measuring_rows_;
  std::vector<RowRange> blocks_;
  std::vector<MemorySegment> segments_;
  int64_t first_segment_ = 0;
};

// Identifies the choice of a K/V head after a segment, for the random numbers of the choice:
// distinct for all segments, layers and heads of a context.
uint32_t MemoryStream(const ModelConfig& config, int64_t segment, int64_t layer, int64_t kv_head);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_MEMORY_PLAN_H_
