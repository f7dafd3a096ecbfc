// The CUDA graphs of decode steps.
#ifndef CHORALE_ENGINE_BACKEND_CUDA_GRAPH_CACHE_H_
#define CHORALE_ENGINE_BACKEND_CUDA_GRAPH_CACHE_H_

#include <compare>
#include <cstdint>
#include <map>

#include "absl/functional/function_ref.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/model.h"
#include "kernels/cuda/runtime/runtime.h"

namespace chorale::cuda {

// Keeps each graph until its model is forgotten. Thread contract: engine thread only.
class GraphCache {
 public:
  struct Key {
    const DeviceModel* model = nullptr;
    int64_t tiles = 0;
    int64_t splits = 0;     // splits per tile, see LayerForm::SplitsOfTile
    bool weighted = false;  // see TileSet

    auto operator<=>(const Key&) const = default;  // NOLINT(modernize-use-nullptr): no pointer
  };

  explicit GraphCache(Device& device) : device_(device) {}
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Returns the graph of `key`. If there is none, records the launches that `launch` enqueues.
  // Returns null if the device has failed.
  kernels::cuda::Graph* FindOrRecord(const Key& key, absl::FunctionRef<void()> launch);
  // Frees the graphs of a model. REQUIRES: none of these graphs is running.
  void Forget(const DeviceModel& model);

 private:
  void Free(kernels::cuda::Graph* graph);

  Device& device_;
  std::map<Key, kernels::cuda::Graph*> graphs_;  // null if recording failed
};

}  // namespace chorale::cuda

#endif  // CHORALE_ENGINE_BACKEND_CUDA_GRAPH_CACHE_H_
