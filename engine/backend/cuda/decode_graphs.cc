#include "engine/backend/cuda/decode_graphs.h"

#include <algorithm>

#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"

namespace chorale::cuda {

namespace {

using kernels::cuda::PathTile;
using kernels::cuda::Tile;

// Graphs for more than this are recorded when they are first needed.
constexpr int64_t kPreparedTiles = 512;

// The number of tiles that a graph is recorded for: 1, 2, 3, 4, 6, 8, 12, 16, ... A few surplus
// tiles that do nothing cost less than a graph for every number.
int64_t RecordedTiles(int64_t tiles) {
  for (int64_t power = 1;; power *= 2) {
    if (tiles <= power) return power;
    if (power >= 2 && tiles <= power + power / 2) return power + power / 2;
  }
}

// Rows of the shortest context whose keys can have that many splits.
constexpr int64_t ContextOfChunks(int64_t chunks) {
  return chunks * kernels::cuda::kMinSplitKeyBlocks * kernels::cuda::kKeyBlockKeys;
}

// The same for contexts: rounded up to a power of two of splits.
int64_t RecordedContext(int64_t largest_context) {
  int64_t chunks = 1;
  while (chunks < kernels::cuda::MaxContextSplits(largest_context)) chunks *= 2;
  return ContextOfChunks(chunks);
}

}  // namespace

DecodeGraphs::~DecodeGraphs() {
  for (const auto& [key, graph] : graphs_) Free(graph);
}

void DecodeGraphs::Free(kernels::cuda::Graph* graph) {
  if (graph == nullptr) return;  // it could not be recorded
  device_.Check(kernels::cuda::DestroyGraph(graph), "freeing a graph");
}

void DecodeGraphs::Forget(const DeviceModel& model) {
  std::erase_if(graphs_, [&](const auto& entry) {
    const auto& [key, graph] = entry;
    if (std::get<0>(key) != &model) return false;
    Free(graph);
    return true;
  });
}

void DecodeGraphs::Prepare(const DeviceModel& model) {
  const DecodeWorkspace workspace(model, device_.launch_workspace());
  const int64_t most_tiles = std::min(kPreparedTiles, workspace.most_tiles());
  for (int64_t tiles = 1; tiles <= most_tiles; tiles = RecordedTiles(tiles + 1)) {
    for (int64_t chunks = 1; chunks <= kernels::cuda::kMaxSplits; chunks *= 2) {
      GraphFor(model, tiles, ContextOfChunks(chunks), workspace);
    }
  }
}

void DecodeGraphs::Run(const std::vector<Item>& items) {
  const DecodeWorkspace workspace(items.front().work->model(), device_.launch_workspace());
  const int64_t most = workspace.most_tiles() / 2 + 1;  // so that rounding up still fits
  for (size_t first = 0; first < items.size(); first += most) {
    const size_t count = std::min<size_t>(most, items.size() - first);
    RunBatch(std::vector<Item>(items.begin() + first, items.begin() + first + count), workspace);
  }
}

void DecodeGraphs::RunBatch(const std::vector<Item>& items, const DecodeWorkspace& workspace) {
  std::vector<Item> left = items;
  while (!left.empty() && device_.status().ok()) {
    std::vector<Item> batch = left;
    int64_t step_bytes = 0;
    for (const Item& item : batch) step_bytes += item.work->OutputsLayout(1).bytes;
    const int64_t most = std::min(kMostBatchSteps, workspace.outputs_bytes() / step_bytes);
    for (Item& item : batch) item.steps = std::min(item.steps, most);
    RunSteps(batch, workspace);
    for (size_t i = 0; i < left.size(); ++i) left[i].steps -= batch[i].steps;
    std::erase_if(left, [](const Item& item) { return item.steps == 0; });
  }
}

void DecodeGraphs::RunSteps(const std::vector<Item>& items, const DecodeWorkspace& workspace) {
  const DeviceModel& model = items.front().work->model();
  int64_t steps = 0;
  int64_t largest_context = 0;
  for (const Item& item : items) {
    steps = std::max(steps, item.steps);
    largest_context = std::max(largest_context, item.work->context_rows());
  }
  const int64_t recorded =
      std::min(RecordedTiles(static_cast<int64_t>(items.size())), workspace.most_tiles());
  const int64_t outputs_bytes = UploadTiles(items, recorded, workspace);
  kernels::cuda::Graph* graph = GraphFor(model, recorded, largest_context, workspace);
  for (int64_t i = 0; i < steps && device_.status().ok(); ++i) {
    device_.Check(kernels::cuda::RunGraph(graph, device_.stream()), "running a step");
  }
  outputs_.resize(outputs_bytes);
  device_.Download(outputs_.data(), workspace.outputs(), outputs_bytes);
  device_.Wait();
  if (!device_.status().ok()) return;
  const char* outputs = outputs_.data();
  for (const Item& item : items) {
    item.work->ConsumeOutputs(item.steps, outputs);
    outputs += item.work->OutputsLayout(item.steps).bytes;
  }
}

int64_t DecodeGraphs::UploadTiles(const std::vector<Item>& items, int64_t recorded,
                                  const DecodeWorkspace& workspace) {
  const LaunchTilesLayout layout(recorded);
  tiles_.resize(layout.bytes);
  Tile* const tiles = layout.tiles.At(tiles_.data());
  PathTile* const paths = layout.paths.At(tiles_.data());
  std::fill_n(tiles, recorded, Tile());
  std::fill_n(paths, recorded, PathTile());
  char* outputs = workspace.outputs();
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& [work, steps] = items[i];
    tiles[i] = work->NextTile();
    paths[i] = work->NextPathTile(steps, outputs);
    outputs += work->OutputsLayout(steps).bytes;
  }
  device_.Upload(workspace.tiles(), tiles_.data(), layout.bytes);
  return outputs - workspace.outputs();
}

kernels::cuda::Graph* DecodeGraphs::GraphFor(const DeviceModel& model, int64_t tiles,
                                             int64_t largest_context,
                                             const DecodeWorkspace& workspace) {
  const Forward forward(model, workspace.scratch());
  const int64_t context = RecordedContext(largest_context);
  const GraphKey key = {&model, tiles, forward.SplitsOfTile(tiles, context)};
  kernels::cuda::Graph*& graph = graphs_[key];
  if (graph != nullptr || !device_.status().ok()) return graph;
  if (!device_.Check(kernels::cuda::BeginRecording(device_.stream()), "recording a step")) {
    return nullptr;
  }
  Step(forward, model.shape().layers, workspace.Set(tiles, context));
  device_.Check(kernels::cuda::EndRecording(device_.stream(), &graph), "recording a step");
  return graph;
}

void DecodeGraphs::Step(const Forward& forward, int64_t layers, const TileSet& set) {
  forward.EmbedPaths(set);
  forward.PreAttention(0, set);
  for (int64_t layer = 0; layer < layers; ++layer) {
    forward.AttentionAndMlp(layer, set);
  }
  forward.Head(set, nullptr);
  device_.Launch(kernels::cuda::LaunchAdvancePosition, {set.tiles, set.paths, set.count},
                 "advancing positions");
}

}  // namespace chorale::cuda
