// Joint log-density of given values by teacher forcing.
#ifndef CHORALE_ENGINE_BACKENDS_CPU_DENSITY_H_
#define CHORALE_ENGINE_BACKENDS_CPU_DENSITY_H_

#include <cstdint>
#include <vector>

#include "engine/backends/backend.h"
#include "engine/backends/cpu_work.h"

namespace chorale {

// All 2T tokens of a path go through a layer before the next layer begins. Short paths go together,
// so that a chunk of rows is full; that changes no result.
//
// Thread contract: see CpuWork. Tasks of one round take different paths.
class CpuDensityWork : public DensityWork, public CpuWork {
 public:
  // `context_kv` is the context pool's memory at the context's range.
  CpuDensityWork(DensitySpec spec, const float* context_kv);

  bool done() const override { return paths_done_ == spec_.tile.paths; }
  double next_step_flops() const override;
  int64_t paths_done() const override { return paths_done_; }
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t place) const override;

  int64_t BeginRound(int64_t max_steps, int parallelism) override;
  void RunTask(int64_t task, CpuScratch& scratch) override;
  int64_t EndRound() override;

 private:
  // Some paths that go through the layers together. Row 2g is the target at place g mod T of path
  // first_path + g / T, and row 2g + 1 is the buffer token with its value. The very last buffer
  // token is left out; those of the other paths' last places are computed and seen by nobody.
  struct Group {
    int64_t first_path = 0;
    int64_t rows = 0;
  };
  // Rows [first, first + rows) of a group; first is even.
  struct Chunk {
    int64_t first = 0;
    int64_t rows = 0;
  };

  void RunGroup(const Group& group, CpuScratch& scratch);
  void EmbedChunk(const Group& group, Chunk chunk, CpuScratch& scratch);
  void RunChunk(const Group& group, Chunk chunk, int64_t layer, CpuScratch& scratch);
  void AppendBuffer(Chunk chunk, int64_t layer, const float* x, CpuScratch& scratch);
  void FinishTargets(const Group& group, Chunk chunk, const float* x, CpuScratch& scratch);
  void SetVisible(Chunk chunk, int64_t row_step, CpuScratch& scratch) const;
  VisibleKeys KeysOf(int64_t layer, const CpuScratch& scratch) const;

  const DensitySpec spec_;
  const ContextReader context_;
  const CpuModel& model_;
  const float* const encodings_;  // [T, D]
  const int64_t targets_;         // T
  const int64_t capacity_;        // keys of one path's buffer
  const int64_t path_stride_;
  const int64_t group_paths_;

  int64_t paths_done_ = 0;
  int64_t round_paths_ = 0;
  std::vector<double> log_densities_;  // [paths, T]
  MixtureStore mixtures_;              // [paths * T, M] when kept
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKENDS_CPU_DENSITY_H_
