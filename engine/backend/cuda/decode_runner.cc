#include "engine/backend/cuda/decode_runner.h"

#include <algorithm>

#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layout/kv_cache.h"
#include "kernels/cuda/layout/kv_split.h"

namespace chorale::cuda {

namespace {

using kernels::cuda::PathTile;
using kernels::cuda::Tile;

// Prepare records graphs for up to this number of tiles. Larger graphs are recorded when they are
// needed.
constexpr int64_t kPreparedTiles = 512;

// Returns the number of tiles of the graph for `tiles` tiles: 1, 2, 3, 4, 6, 8, 12, 16, ... A few
// idle tiles cost less than a graph for each number.
int64_t RecordedTiles(int64_t tiles) {
  for (int64_t power = 1;; power *= 2) {
    if (tiles <= power) return power;
    if (power >= 2 && tiles <= power + power / 2) return power + power / 2;
  }
}

// Returns the rows of the context for which a graph is recorded. Its number of splits is a power of
// two.
int64_t RecordedContext(int64_t largest_context) {
  int64_t splits = 1;
  while (splits < kernels::cuda::MaxContextSplits(largest_context)) splits *= 2;
  return kernels::cuda::RowsOfSplits(splits);
}

}  // namespace

void DecodeRunner::Prepare(const DeviceModel& model) {
  const DecodeWorkspace workspace(model, device_.launch_workspace());
  const int64_t most_tiles = std::min(kPreparedTiles, workspace.most_tiles());
  for (int64_t tiles = 1; tiles <= most_tiles; tiles = RecordedTiles(tiles + 1)) {
    for (int64_t splits = 1; splits <= kernels::cuda::kMaxContextSplits; splits *= 2) {
      GraphFor(model, tiles, kernels::cuda::RowsOfSplits(splits), /*weighted=*/false, workspace);
    }
  }
}

void DecodeRunner::Run(const std::vector<Slice>& slices) {
  const DecodeWorkspace workspace(slices.front().work->model(), device_.launch_workspace());
  const int64_t most = workspace.most_tiles() / 2 + 1;  // so that the rounded number also fits
  for (size_t first = 0; first < slices.size(); first += most) {
    const size_t count = std::min<size_t>(most, slices.size() - first);
    RunBatch(std::vector<Slice>(slices.begin() + first, slices.begin() + first + count), workspace);
  }
}

void DecodeRunner::RunBatch(const std::vector<Slice>& slices, const DecodeWorkspace& workspace) {
  std::vector<Slice> left = slices;
  while (!left.empty() && device_.status().ok()) {
    std::vector<Slice> batch = left;
    int64_t step_bytes = 0;
    for (const Slice& slice : batch) step_bytes += slice.work->OutputsLayout(1).bytes;
    const int64_t most = std::min(kMostBatchSteps, workspace.outputs_bytes() / step_bytes);
    for (Slice& slice : batch) slice.steps = std::min(slice.steps, most);
    RunSteps(batch, workspace);
    for (size_t i = 0; i < left.size(); ++i) left[i].steps -= batch[i].steps;
    std::erase_if(left, [](const Slice& slice) { return slice.steps == 0; });
  }
}

void DecodeRunner::RunSteps(const std::vector<Slice>& slices, const DecodeWorkspace& workspace) {
  const DeviceModel& model = slices.front().work->model();
  int64_t steps = 0;
  int64_t largest_context = 0;
  bool weighted = false;
  for (const Slice& slice : slices) {
    steps = std::max(steps, slice.steps);
    largest_context = std::max(largest_context, slice.work->context().keys());
    weighted = weighted || slice.work->context().reduced();
  }
  const int64_t recorded =
      std::min(RecordedTiles(static_cast<int64_t>(slices.size())), workspace.most_tiles());
  const int64_t outputs_bytes = UploadTiles(slices, recorded, workspace);
  kernels::cuda::Graph* graph = GraphFor(model, recorded, largest_context, weighted, workspace);
  for (int64_t i = 0; i < steps && device_.status().ok(); ++i) {
    device_.Check(kernels::cuda::RunGraph(graph, device_.stream()), "running a step");
  }
  outputs_.resize(outputs_bytes);
  device_.Download(outputs_.data(), workspace.outputs(), outputs_bytes);
  device_.Wait();
  if (!device_.status().ok()) return;
  const char* outputs = outputs_.data();
  for (const Slice& slice : slices) {
    outputs += slice.work->ConsumeOutputs(slice.steps, outputs);
  }
}

int64_t DecodeRunner::UploadTiles(const std::vector<Slice>& slices, int64_t recorded,
                                  const DecodeWorkspace& workspace) {
  const LaunchTilesLayout layout(recorded);
  tiles_.resize(layout.bytes);
  Tile* const tiles = layout.tiles.At(tiles_.data());
  PathTile* const paths = layout.paths.At(tiles_.data());
  std::fill_n(tiles, recorded, Tile());
  std::fill_n(paths, recorded, PathTile());
  char* outputs = workspace.outputs();
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto& [work, steps] = slices[i];
    tiles[i] = work->NextTile();
    paths[i] = work->NextPathTile(steps, outputs);
    outputs += work->OutputsLayout(steps).bytes;
  }
  device_.Upload(workspace.tiles(), tiles_.data(), layout.bytes);
  return outputs - workspace.outputs();
}

kernels::cuda::Graph* DecodeRunner::GraphFor(const DeviceModel& model, int64_t tiles,
                                             int64_t largest_context, bool weighted,
                                             const DecodeWorkspace& workspace) {
  const Forward forward(model, workspace.scratch());
  const int64_t context = RecordedContext(largest_context);
  return graphs_.FindOrRecord({.model = &model,
                               .tiles = tiles,
                               .splits = forward.SplitsOfTile(tiles, context),
                               .weighted = weighted},
                              [&] { Step(forward, workspace.Set(tiles, context, weighted)); });
}

void DecodeRunner::Step(const Forward& forward, const TileSet& set) {
  forward.AllLayers(set);
  forward.Head(set, nullptr);
}

}  // namespace chorale::cuda
