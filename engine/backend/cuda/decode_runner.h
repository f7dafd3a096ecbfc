// Steps the tiles of all sessions and contexts of a model together. A CUDA graph executes each
// step.
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

// A step of all tiles is one graph: embedding, all layers, head and draw, next position. A graph is
// recorded for a model, a number of tiles (rounded up; the additional tiles are idle), a number of
// splits of the context's keys, and keys with or without weights. Keys have several splits, a power
// of two, only if the tiles are too few for all multiprocessors. A model has about a hundred
// graphs; the graphs for usual requests are recorded when the model is added. The host is not
// involved between the steps of a batch.
//
// Thread contract: engine thread only.
class DecodeRunner {
 public:
  using Slice = DeviceSlice<DecodeWork>;

  explicit DecodeRunner(Device& device) : device_(device), graphs_(device) {}

  // Returns when all steps are done, or the device has failed. REQUIRES: all slices have the same
  // model, and no slice has more steps than DecodeWork::steps_at_this_cost.
  void Run(const std::vector<Slice>& slices);

  // Records the graphs of the model. REQUIRES: the launch workspace has space for a tile of the
  // model (DecodeWorkspace), and the model outlives this object or is forgotten.
  void Prepare(const DeviceModel& model);
  // Frees the graphs of the model. REQUIRES: none of these graphs is running.
  void Forget(const DeviceModel& model) { graphs_.Forget(model); }

 private:
  // Run divides the slices into batches whose tiles fit into the workspace, and RunBatch divides
  // their steps into batches whose outputs fit. RunSteps uploads the tiles, runs the steps and
  // downloads the outputs.
  void RunBatch(const std::vector<Slice>& slices, const DecodeWorkspace& workspace);
  void RunSteps(const std::vector<Slice>& slices, const DecodeWorkspace& workspace);
  // Uploads the descriptors of the slices' tiles, followed by idle tiles up to `recorded`. Returns
  // the bytes of the slices' outputs.
  int64_t UploadTiles(const std::vector<Slice>& slices, int64_t recorded,
                      const DecodeWorkspace& workspace);
  kernels::cuda::Graph* GraphFor(const DeviceModel& model, int64_t tiles, int64_t largest_context,
                                 bool weighted, const DecodeWorkspace& workspace);
  // Launches one step of all tiles.
  void Step(const Forward& forward, const TileSet& set);

  Device& device_;
  GraphCache graphs_;
  // Copies on the host; members only to reuse their capacity.
  std::vector<char> tiles_;
  std::vector<char> outputs_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DECODE_RUNNER_H_
