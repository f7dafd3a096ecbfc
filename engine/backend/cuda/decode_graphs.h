// Steps tiles of any sessions and contexts together, each step a CUDA graph.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_DECODE_GRAPHS_H_
#define CHORALE_ENGINE_BACKEND_CUDA_DECODE_GRAPHS_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "engine/backend/cuda/decode_work.h"
#include "engine/backend/cuda/decode_workspace.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/forward.h"
#include "engine/backend/cuda/model.h"

namespace chorale::cuda {

// One step of all tiles is one graph: embed, all layers, head and draw, next position. A graph is
// recorded for a model, a number of tiles (rounded up; surplus tiles are idle) and, where few tiles
// leave multiprocessors free, the number of splits of the context's keys (a power of two). That is
// about a hundred graphs for each model; those that usual requests need are recorded when the model
// is added. The host does not take part between the steps of a batch.
//
// Thread contract: engine thread only.
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
  // Returns when all steps are done or the device has failed. REQUIRES: all items have one model.
  void Run(const std::vector<Item>& items);

  // Records the model's graphs. REQUIRES: the launch workspace holds a tile of the model
  // (DecodeWorkspace), and the model outlives this object or is forgotten.
  void Prepare(const DeviceModel& model);
  // Frees the model's graphs. REQUIRES: none of them runs.
  void Forget(const DeviceModel& model);

 private:
  // The model, the number of tiles, and the number of splits of the context's keys.
  using GraphKey = std::tuple<const DeviceModel*, int64_t, int64_t>;

  // Run splits the items by the tiles that the workspace holds, RunBatch their steps by the outputs
  // that it holds; RunSteps uploads the tiles, runs the steps and downloads their outputs.
  void RunBatch(const std::vector<Item>& items, const DecodeWorkspace& workspace);
  void RunSteps(const std::vector<Item>& items, const DecodeWorkspace& workspace);
  // Uploads the descriptors of the items, then of idle tiles up to `recorded`. Returns the bytes of
  // the items' outputs.
  int64_t UploadTiles(const std::vector<Item>& items, int64_t recorded,
                      const DecodeWorkspace& workspace);
  kernels::cuda::Graph* GraphFor(const DeviceModel& model, int64_t tiles, int64_t largest_context,
                                 const DecodeWorkspace& workspace);
  void Free(kernels::cuda::Graph* graph);
  void Step(const Forward& forward, int64_t layers, const TileSet& set);

  Device& device_;
  std::map<GraphKey, kernels::cuda::Graph*> graphs_;
  // Host copies; members only to reuse their capacity.
  std::vector<char> tiles_;
  std::vector<char> outputs_;
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_DECODE_GRAPHS_H_
