// Steps tiles of any sessions and contexts together, each step a CUDA graph.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DECODE_RUNNER_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DECODE_RUNNER_H_

#include <cstdint>
#include <vector>

#include "engine/backend/cuda/decode_work.h"
#include "engine/backend/cuda/decode_workspace.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device_slice.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/graph_cache.h"
#include "engine/backend/cuda/model.h"

namespace chorale::cuda {

// One step of all tiles is one graph: embed, all layers, head and draw, next position. A graph is
// recorded for a model, a number of tiles (rounded up; surplus tiles are idle) and, where few tiles
// leave multiprocessors free, the number of splits of the context's keys (a power of two). That is
// about a hundred graphs for each model; those that usual requests need are recorded when the model
// is added. The host does not take part between the steps of a batch.
//
// Thread contract: engine thread only.
class DecodeRunner {
 public:
  using Slice = DeviceSlice<DecodeWork>;

  explicit DecodeRunner(Device& device) : device_(device), graphs_(device) {}

  // Returns when all steps are done or the device has failed. REQUIRES: all slices have one model,
  // and none has more steps than DecodeWork::steps_left.
  void Run(const std::vector<Slice>& slices);

  // Records the model's graphs. REQUIRES: the launch workspace holds a tile of the model
  // (DecodeWorkspace), and the model outlives this object or is forgotten.
  void Prepare(const DeviceModel& model);
  // Frees the model's graphs. REQUIRES: none of them runs.
  void Forget(const DeviceModel& model) { graphs_.Forget(model); }

 private:
  // Run divides the slices by the tiles that the workspace holds, RunBatch their steps by the
  // outputs that it holds; RunSteps uploads the tiles, runs the steps and downloads their outputs.
  void RunBatch(const std::vector<Slice>& slices, const DecodeWorkspace& workspace);
  void RunSteps(const std::vector<Slice>& slices, const DecodeWorkspace& workspace);
  // Uploads the descriptors of the slices' tiles, then of idle tiles up to `recorded`. Returns the
  // bytes of the slices' outputs.
  int64_t UploadTiles(const std::vector<Slice>& slices, int64_t recorded,
                      const DecodeWorkspace& workspace);
  kernels::cuda::Graph* GraphFor(const DeviceModel& model, int64_t tiles, int64_t largest_context,
                                 const DecodeWorkspace& workspace);
  // Launches one step of all tiles.
  void Step(const Forward& forward, int64_t layers, const TileSet& set);

  Device& device_;
  GraphCache graphs_;
  // Host copies; members only to reuse their capacity.
  std::vector<char> tiles_;
  std::vector<char> outputs_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DECODE_RUNNER_H_
