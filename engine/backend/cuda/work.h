// How the GPU backend advances a piece of work, and what pieces have in common.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_WORK_H_
#define CHORALE_ENGINE_BACKEND_CUDA_WORK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"

namespace chorale {

// What a piece of work runs on.
struct CudaRun {
  CudaDevice& device;
  char* states;  // for CudaForward and row encoders
  int64_t state_bytes = 0;
};

// Thread contract: the engine thread's.
class CudaWork {
 public:
  virtual ~CudaWork() = default;
  // Takes up to max_steps steps, at least one: what the GPU has to do is asked of it, not waited
  // for. REQUIRES: the work is not done.
  virtual void Run(int64_t max_steps, const CudaRun& run) = 0;
  // Called when the GPU has done all of that.
  virtual void Collect() {}
};

// Row encodings of targets, [T, D] f32 in the buffer pool.
class CudaEncodedRows : public EncodedRows {
 public:
  CudaEncodedRows(int64_t rows, const float* encodings) : rows_(rows), encodings_(encodings) {}
  int64_t rows() const override { return rows_; }
  const float* encodings() const { return encodings_; }

 private:
  const int64_t rows_;
  const float* const encodings_;
};

const CudaEncodedRows& AsCudaRows(const EncodedRows& rows);

// Mixtures as the head leaves them: [rows, 3, M] f32, here in float64.
class CudaMixtures {
 public:
  CudaMixtures() = default;
  CudaMixtures(int64_t rows, int64_t components)
      : components_(components), values_(rows * 3 * components) {}

  void Set(int64_t first_row, absl::Span<const float> mixtures) {
    std::copy(mixtures.begin(), mixtures.end(), values_.begin() + first_row * 3 * components_);
  }
  MixtureSpan Get(int64_t row) const;

 private:
  int64_t components_ = 0;
  std::vector<double> values_;
};

// Checks what a TileSpec promises. REQUIRES otherwise: the process ends.
void RequireTile(const TileSpec& tile, int64_t most_paths);

// Most paths of a density over so many targets: a tile has a row tile for each target, and there
// should be two for each of the multiprocessors, in up to 16 tiles.
int64_t CudaDensityPaths(int64_t targets, int multiprocessors);

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_CUDA_WORK_H_
