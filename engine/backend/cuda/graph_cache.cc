#include "engine/backend/cuda/graph_cache.h"

namespace chorale::cuda {

GraphCache::~GraphCache() {
  for (const auto& [key, graph] : graphs_) Free(graph);
}

kernels::cuda::Graph* GraphCache::FindOrRecord(const Key& key, absl::FunctionRef<void()> launch) {
  kernels::cuda::Graph*& graph = graphs_[key];
  if (graph != nullptr || !device_.status().ok()) return graph;
  if (!device_.Check(kernels::cuda::BeginRecording(device_.stream()), "recording a step")) {
    return nullptr;
  }
  launch();
  device_.Check(kernels::cuda::EndRecording(device_.stream(), &graph), "recording a step");
  return graph;
}

void GraphCache::Forget(const DeviceModel& model) {
  std::erase_if(graphs_, [&](const auto& entry) {
    const auto& [key, graph] = entry;
    if (key.model != &model) return false;
    Free(graph);
    return true;
  });
}

void GraphCache::Free(kernels::cuda::Graph* graph) {
  if (graph == nullptr) return;
  device_.Check(kernels::cuda::DestroyGraph(graph), "freeing a graph");
}

}  // namespace chorale::cuda
