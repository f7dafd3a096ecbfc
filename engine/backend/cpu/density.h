// Joint log-density of given values by teacher forcing.
#ifndef CHORALE_ENGINE_BACKEND_CPU_DENSITY_H_
#define CHORALE_ENGINE_BACKEND_CPU_DENSITY_H_

#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cpu/work.h"
#include "engine/backend/layer_schedule.h"

namespace chorale::cpu {

// The number of paths of a tile that are processed together (a group), and the memory of a group
// between steps, in elements: its tokens, and the buffer K/V of two layers, one for reading and one
// for writing. All groups use the same memory in turn.
struct DensityLayout {
  DensityLayout(const ModelConfig& config, int64_t positions, int64_t paths);

  int64_t elements() const { return tokens + 2 * layer_kv(); }
  int64_t layer_kv() const { return group_paths * path_stride; }

  int64_t group_paths;
  int64_t capacity;     // maximum keys of one path's buffer; no row attends to the last position
  int64_t path_stride;  // of one layer's K/V of one path
  int64_t tokens;       // [group_paths * 2P, D]
};

// The size of the buffer of a density.
int64_t DensityBufferBytes(const ModelConfig& config, int64_t positions, int64_t paths);

// Processes the paths of the tile group by group, and a group phase by phase. Within a phase all
// rows are independent:
//
// clang-format off
//   layer 0   embed every row, x = LN1(x + P x), write K and V of the buffer tokens of layer 0
//   layer l   attention of layer l-1 over the context's and the path's own K/V, feed-forward, then
//             x = LN1(x + P x), write K and V of layer l
//   head      attention and feed-forward of the last layer for the query rows only, then mixtures
//             and log-densities
// clang-format on
//
// Thread contract: see BatchedWork. Tasks of one batch process different rows.
class DensityWork : public chorale::DensityWork, public BatchedWork {
 public:
  // `context_kv` and `buffer` are the pools' memory at the ranges of the context and the spec.
  DensityWork(DensitySpec spec, const float* context_kv, float* buffer);

  bool done() const override { return first_path_ == spec_.tile.paths; }
  double next_step_flops() const override { return schedule_.next_step_flops(); }
  double next_flops(int64_t steps) const override { return schedule_.next_flops(steps); }
  int64_t steps_at_this_cost() const override { return schedule_.steps_at_this_cost(); }
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t position) const override;

  int64_t BeginBatch(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, Scratch& scratch) override;
  int64_t EndBatch() override;

 private:
  int64_t head_phase() const { return model_.config().n_layers; }  // phase l processes layer l
  LayerSchedule ScheduleOfGroup() const;

  // Row 2g of a group is the query row at position g mod P of path first_path_ + g / P, and the
  // next row is the buffer token with its value. The last buffer token of the group is omitted. The
  // buffer tokens at the last positions of the other paths are computed, but no row attends to
  // them. The first of `rows` is even.
  void Embed(RowRange rows, float* x, Scratch& scratch) const;
  void AttendAndFeedForward(int64_t layer, RowRange rows, float* x, Scratch& scratch) const;
  void PreAttention(int64_t layer, RowRange rows, float* x, Scratch& scratch) const;
  void PredictQueryRows(RowRange rows, const float* x, Scratch& scratch);
  void SetVisible(RowRange rows, int64_t row_step, Scratch& scratch) const;
  AttentionKv KvOf(int64_t layer) const;
  // The index in an array [P, paths].
  int64_t IndexOf(int64_t path, int64_t position) const {
    return position * spec_.tile.paths + path;
  }
  float* LayerKvOf(int64_t layer) const { return kv_ + layer % 2 * layout_.layer_kv(); }

  const DensitySpec spec_;
  const ContextKvView context_;
  const PackedModel& model_;
  const float* const encodings_;  // [T, D]
  const int64_t positions_;       // P
  const DensityLayout layout_;
  float* const tokens_;  // [group_paths * 2P, D]
  float* const kv_;      // [2, group_paths] of path_stride elements; layer l is the (l mod 2)th

  int64_t first_path_ = 0;  // of the current group
  LayerSchedule schedule_;
  std::vector<double> log_densities_;  // [P, paths]
  MixtureStore mixtures_;              // [P * paths, M] if kept
};

}  // namespace chorale::cpu

#endif  // CHORALE_ENGINE_BACKEND_CPU_DENSITY_H_
