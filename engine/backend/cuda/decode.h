// Autoregressive decode: tiles of any sessions and contexts together, a CUDA graph a step.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DECODE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DECODE_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/tile_memory.h"
#include "engine/backend/cuda/work.h"

namespace chorale {

// One tile. It is advanced by a CudaDecoder.
// Thread contract: the engine thread's.
class CudaDecodeWork : public DecodeWork {
 public:
  CudaDecodeWork(DecodeSpec spec, CudaDevice& device);

  bool done() const override { return steps_done_ == targets_; }
  double next_step_flops() const override;
  int64_t steps_at_this_cost() const override { return targets_ - steps_done_; }
  int64_t steps_done() const override { return steps_done_; }
  absl::Span<const float> values() const override { return values_; }
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t step) const override;

  const CudaModel& model() const { return model_; }
  int64_t context_rows() const { return spec_.tile.context->rows; }
  int64_t paths() const { return spec_.tile.paths; }
  int64_t steps_left() const { return targets_ - steps_done_; }

  // What the kernels are told for the next `steps` steps, but for the outbox.
  kernels::cuda::Tile NextTile() const;
  kernels::cuda::PathTile NextPathTile(int64_t steps) const;

  // What a round of steps leaves for the host, one array behind the other.
  struct Outbox {
    double* log_densities = nullptr;  // [steps, paths]
    float* values = nullptr;          // [steps, paths]
    float* mixtures = nullptr;        // [steps, paths, 3, M] when kept
  };
  int64_t outbox_bytes(int64_t steps) const;
  Outbox OutboxAt(char* memory, int64_t steps) const;

  // The next `steps` steps are done, and this is what they left.
  void Take(int64_t steps, const Outbox& outbox);

 private:
  const DecodeSpec spec_;
  const CudaModel& model_;
  const int64_t targets_;  // T
  const TileMemory layout_;
  char* const memory_;       // the range of the buffer pool
  uint16_t* const context_;  // K and V
  int64_t steps_done_ = 0;
  std::vector<float> values_;          // [T, paths]
  std::vector<double> log_densities_;  // [T, paths]
  CudaMixtures mixtures_;              // [T * paths] when kept
};

// Steps tiles together. A step is a graph of launches, recorded once for each model and each number
// of tiles (rounded up; surplus tiles are idle): embed, leave layer 0, then attention and rows
// layer by layer, head and draw, next place. Several steps follow each other without the host.
//
// For few tiles attention is spread over the chunks of the largest context, and graphs differ by
// their number too (a power of two). So there are about a hundred graphs of a model, and all that
// usual requests need are recorded when it is added.
//
// Thread contract: the engine thread's.
class CudaDecoder {
 public:
  explicit CudaDecoder(CudaDevice& device) : device_(device) {}
  ~CudaDecoder();
  CudaDecoder(const CudaDecoder&) = delete;
  CudaDecoder& operator=(const CudaDecoder&) = delete;

  struct Item {
    CudaDecodeWork* work = nullptr;
    int64_t steps = 0;  // at most steps_left()
  };
  // All items have the same model. Returns when all steps are done, or the device has failed.
  void Run(const std::vector<Item>& items);

  // Bytes of launch memory that a tile of such a model needs.
  static int64_t WorkspaceBytes(const CudaShape& shape);

  // Records the model's graphs. REQUIRES: there is room for a tile, and the model stays as long as
  // the decoder.
  void Prepare(const CudaModel& model);

 private:
  // How the launch memory is divided for a model.
  struct Room;
  // Number of tiles, and of chunks of the largest context; 1 where attention is not spread over
  // them.
  using GraphKey = std::tuple<const CudaModel*, int64_t, int64_t>;

  void RunWave(const std::vector<Item>& items, const Room& room);
  void RunRound(const std::vector<Item>& items, const Room& room);
  int64_t UploadTiles(const std::vector<Item>& items, int64_t recorded, const Room& room);
  kernels::cuda::Graph* GraphFor(const CudaModel& model, int64_t tiles, int64_t largest_context,
                                 const Room& room);
  void Step(const CudaModel& model, const TileSet& set, const Room& room);

  CudaDevice& device_;
  std::map<GraphKey, kernels::cuda::Graph*> graphs_;
  // Of the round in progress; kept for their capacity.
  std::vector<char> tiles_;
  std::vector<char> outbox_;
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DECODE_H_
