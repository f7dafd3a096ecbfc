// Steps tiles of any sessions and contexts together, each step a CUDA graph.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DECODE_GRAPHS_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DECODE_GRAPHS_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/backend/cuda/decode_work.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"

namespace chorale::cuda {

// Steps tiles together. A step is a graph of launches, recorded once for each model and each number
// of tiles (rounded up; surplus tiles are idle): embed, leave layer 0, then attention and rows
// layer by layer, head and draw, next place. Several steps follow each other without the host.
//
// For few tiles attention is spread over the chunks of the largest context, and graphs differ by
// their number too (a power of two). So there are about a hundred graphs of a model, and all that
// usual requests need are recorded when it is added.
//
// Thread contract: the engine thread's.
class DecodeGraphs {
 public:
  explicit DecodeGraphs(Device& device) : device_(device) {}
  ~DecodeGraphs();
  DecodeGraphs(const DecodeGraphs&) = delete;
  DecodeGraphs& operator=(const DecodeGraphs&) = delete;

  struct Item {
    DecodeWork* work = nullptr;
    int64_t steps = 0;  // at most steps_left()
  };
  // All items have the same model. Returns when all steps are done, or the device has failed.
  void Run(const std::vector<Item>& items);

  // Bytes of launch memory that a tile of such a model needs.
  static int64_t WorkspaceBytes(const KernelShape& shape);

  // Records the model's graphs. REQUIRES: there is room for a tile, and the model stays as long as
  // the decoder.
  void Prepare(const DeviceModel& model);

 private:
  // How the launch memory is divided for a model.
  struct Room;
  // Number of tiles, and of chunks of the largest context; 1 where attention is not spread over
  // them.
  using GraphKey = std::tuple<const DeviceModel*, int64_t, int64_t>;

  void RunWave(const std::vector<Item>& items, const Room& room);
  void RunRound(const std::vector<Item>& items, const Room& room);
  int64_t UploadTiles(const std::vector<Item>& items, int64_t recorded, const Room& room);
  kernels::cuda::Graph* GraphFor(const DeviceModel& model, int64_t tiles, int64_t largest_context,
                                 const Room& room);
  void Step(const DeviceModel& model, const TileSet& set, const Room& room);

  Device& device_;
  std::map<GraphKey, kernels::cuda::Graph*> graphs_;
  // Of the round in progress; kept for their capacity.
  std::vector<char> tiles_;
  std::vector<char> outbox_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DECODE_GRAPHS_H_
