// Work that takes many rows through the model at once: encoding a context, encoding the rows of a
// request, a density in one pass, point predictions.
//
// All rows of a piece of work go through a layer before the first enters the next, in chunks of
// tiles (engine/backend/layer_schedule.h): phase 0 embeds and leaves layer 0, phase l finishes
// layer l - 1 and leaves layer l, phase L finishes the last layer and ends in the head. A step is
// one chunk.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_ROW_WORKS_H_
#define CHORALE_ENGINE_BACKEND_CUDA_ROW_WORKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/tile_memory.h"
#include "engine/backend/cuda/work.h"
#include "engine/backend/layer_schedule.h"

namespace chorale {

// Thread contract, of all four: the engine thread's.

// Its last phase is that of layer L - 1: nobody reads what a context row becomes.
class CudaEncodeWork : public EncodeWork, public CudaWork {
 public:
  CudaEncodeWork(std::shared_ptr<const BackendModel> model, FeatureMatrix features,
                 std::vector<float> y, PoolRange kv, PoolRange workspace, CudaDevice& device);

  bool done() const override { return phases_.done(); }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override;
  ResidentContext TakeContext() override;
  void Run(int64_t max_steps, const CudaRun& run) override;

 private:
  bool fitted() const { return pieces_.done(); }
  int64_t RunPieces(int64_t max_steps, const CudaRun& run);
  void Embed(const TileSet& set, RowRange tiles, const CudaRun& run);

  const std::shared_ptr<const BackendModel> owner_;
  const CudaModel& model_;
  const PoolRange range_;
  const int64_t rows_;

  FeatureMatrix features_;                  // emptied after phase 0
  std::vector<float> y_;                    // likewise
  std::unique_ptr<CudaRowEncoderFit> fit_;  // until it is finished
  std::shared_ptr<const RowEncoderState> encoder_state_;
  RowPhases pieces_;  // of the fit
  RowPhases phases_;  // in tiles
  const RowMemory layout_;
  const TileSet set_;
};

class CudaRowsWork : public RowsWork, public CudaWork {
 public:
  CudaRowsWork(std::shared_ptr<const ResidentContext> context, FeatureMatrix features,
               PoolRange buffer, CudaDevice& device);

  bool done() const override { return rows_.done(); }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override { return done() ? 0 : rows_.StepsThrough(0); }
  std::shared_ptr<const EncodedRows> TakeRows() override;
  void Run(int64_t max_steps, const CudaRun& run) override;

 private:
  const std::shared_ptr<const ResidentContext> context_;
  const CudaModel& model_;
  const FeatureMatrix features_;
  float* const encodings_;  // [T, D], device
  RowPhases rows_;          // one phase
};

// A tile of rows for each place of each tile of paths, all at once: what decode does place after
// place. Kernels and the order of all sums are the same, so that a density has the bits of a
// decode with the same values.
class CudaDensityWork : public DensityWork, public CudaWork {
 public:
  CudaDensityWork(DensitySpec spec, CudaDevice& device);

  bool done() const override { return phases_.done(); }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override;
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t place) const override;
  void Run(int64_t max_steps, const CudaRun& run) override;
  void Collect() override;

 private:
  void UploadPlaces(CudaDevice& device);
  // Where a path's place lies in arrays [T, paths] of each tile.
  int64_t AtPlace(const PathRange& tile, int64_t path_of_tile, int64_t place) const {
    return tile.first * targets_ + place * tile.paths + path_of_tile;
  }
  void Download(CudaDevice& device);

  const DensitySpec spec_;
  const CudaModel& model_;
  const int64_t targets_;  // T
  const TileMemory layout_;
  char* const memory_;  // the range of the buffer pool
  const std::vector<PathRange> path_tiles_;
  RowPhases phases_;  // in tiles of rows
  TileSet set_;
  // As the GPU leaves them, until they are collected.
  std::vector<double> densities_by_place_;  // of each tile: [T, paths]
  std::vector<float> raw_mixtures_;         // of each tile: [T, paths, 3, M] when kept
  std::vector<double> log_densities_;       // [paths, T]
  CudaMixtures mixtures_;                   // of each tile: [T * paths] when kept
};

class CudaPredictWork : public PredictWork, public CudaWork {
 public:
  CudaPredictWork(PredictSpec spec, CudaDevice& device);

  bool done() const override { return phases_.done(); }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override;
  MixtureSpan mixture(int64_t row) const override;
  void Run(int64_t max_steps, const CudaRun& run) override;
  void Collect() override;

 private:
  const PredictSpec spec_;
  const CudaModel& model_;
  RowPhases phases_;  // in tiles
  const RowMemory layout_;
  char* const memory_;  // the range of the buffer pool
  const TileSet set_;
  std::vector<float> raw_mixtures_;  // [rows, 3, M], until they are collected
  CudaMixtures mixtures_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_CUDA_ROW_WORKS_H_
