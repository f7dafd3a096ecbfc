#include "engine/backend/cuda/decode_graphs.h"

#include <algorithm>
#include <utility>

#include "base/integer_math.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale::cuda {

namespace {

using kernels::cuda::kTilePaths;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

// Steps whose results are kept on the device before the host fetches them; fewer where mixtures are
// kept.
constexpr int64_t kMostRoundSteps = 32;
constexpr int64_t kValueBytes = DecodeWork::kValueBytes;
constexpr int64_t kOutboxAlignment = DecodeWork::kOutboxAlignment;

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

// Rows of the shortest context that can have that many chunks.
constexpr int64_t ContextOfChunks(int64_t chunks) {
  return chunks * kernels::cuda::kFewestChunkBlocks * kernels::cuda::kBlockKeys;
}

// The same for contexts, by powers of two of the chunks that they can have.
int64_t RecordedContext(int64_t largest_context) {
  int64_t chunks = 1;
  while (chunks < kernels::cuda::MostContextChunks(largest_context)) chunks *= 2;
  return ContextOfChunks(chunks);
}

}  // namespace

struct DecodeGraphs::Room {
  Room(const DeviceModel& model, const kernels::cuda::Memory& memory)
      : most_tiles(memory.bytes() / TileBytes(model.shape())) {
    char* next = memory.At<char>();
    const auto take = [&](int64_t tile_bytes) {
      char* const taken = next;
      next += RoundUp(most_tiles * tile_bytes, kAlignment);
      return taken;
    };
    const KernelShape& shape = model.shape();
    tiles = take(sizeof(Tile) + sizeof(PathTile) + kAlignment);
    x = take(int64_t{4} * kernels::cuda::kTileRows * shape.width);
    q = take(int64_t{2} * kernels::cuda::kTileRows * shape.queries);
    outbox = take(OutboxBytes(shape));
    outbox_bytes = most_tiles * OutboxBytes(shape);
    states = next;
    state_bytes = memory.At<char>() + memory.bytes() - next;
  }

  // A tile has room for one chunk of states at least; what rounding takes is part of it.
  static int64_t TileBytes(const KernelShape& shape) {
    return static_cast<int64_t>(sizeof(Tile) + sizeof(PathTile)) + TileRowBytes(shape) +
           OutboxBytes(shape) + Forward::StateBytes(shape) + 5 * kAlignment;
  }
  // Room for a whole round of a tile, or for one step of it with its mixtures.
  static int64_t OutboxBytes(const KernelShape& shape) {
    const int64_t step_with_mixtures = kValueBytes + int64_t{3} * shape.components * 4;
    return kTilePaths * std::max(kMostRoundSteps * kValueBytes, step_with_mixtures) +
           kOutboxAlignment;
  }

  TileSet Set(int64_t count, int64_t largest_context) const {
    return {.tiles = reinterpret_cast<Tile*>(tiles),
            .paths = reinterpret_cast<PathTile*>(tiles + PathsAt(count)),
            .x = reinterpret_cast<float*>(x),
            .q = reinterpret_cast<uint16_t*>(q),
            .count = static_cast<int32_t>(count),
            .largest_context = largest_context};
  }

  // The PathTiles of a launch lie right behind its Tiles, so that one copy brings both.
  static int64_t PathsAt(int64_t count) {
    return RoundUp(count * static_cast<int64_t>(sizeof(Tile)), kAlignment);
  }

  int64_t most_tiles = 0;
  char* tiles = nullptr;   // [count] Tile, [count] PathTile
  char* x = nullptr;       // [most_tiles, 64, D] f32
  char* q = nullptr;       // [most_tiles, 64, H Dh] bf16
  char* outbox = nullptr;  // DecodeWork::Outbox of a tile, then the next one's
  int64_t outbox_bytes = 0;
  char* states = nullptr;
  int64_t state_bytes = 0;
};

DecodeGraphs::~DecodeGraphs() {
  for (const auto& [key, graph] : graphs_) {
    if (graph == nullptr) continue;  // it could not be recorded
    device_.Check(kernels::cuda::DestroyGraph(graph), "freeing a graph");
  }
}

int64_t DecodeGraphs::WorkspaceBytes(const KernelShape& shape) { return Room::TileBytes(shape); }

void DecodeGraphs::Prepare(const DeviceModel& model) {
  const Room room(model, device_.launch_memory());
  const int64_t most_tiles = std::min(kPreparedTiles, room.most_tiles);
  for (int64_t tiles = 1; tiles <= most_tiles; tiles = RecordedTiles(tiles + 1)) {
    for (int64_t chunks = 1; chunks <= kernels::cuda::kMostChunks; chunks *= 2) {
      GraphFor(model, tiles, ContextOfChunks(chunks), room);
    }
  }
}

void DecodeGraphs::Run(const std::vector<Item>& items) {
  const Room room(items.front().work->model(), device_.launch_memory());
  const int64_t most = room.most_tiles / 2 + 1;  // so that rounding up still fits
  for (size_t first = 0; first < items.size(); first += most) {
    const size_t count = std::min<size_t>(most, items.size() - first);
    RunWave(std::vector<Item>(items.begin() + first, items.begin() + first + count), room);
  }
}

void DecodeGraphs::RunWave(const std::vector<Item>& items, const Room& room) {
  std::vector<Item> left = items;
  while (!left.empty() && device_.status().ok()) {
    std::vector<Item> round = left;
    int64_t step_bytes = 0;
    for (const Item& item : round) step_bytes += item.work->outbox_bytes(1);
    const int64_t most = std::min(kMostRoundSteps, room.outbox_bytes / step_bytes);
    for (Item& item : round) item.steps = std::min(item.steps, most);
    RunRound(round, room);
    for (size_t i = 0; i < left.size(); ++i) left[i].steps -= round[i].steps;
    std::erase_if(left, [](const Item& item) { return item.steps == 0; });
  }
}

void DecodeGraphs::RunRound(const std::vector<Item>& items, const Room& room) {
  const DeviceModel& model = items.front().work->model();
  int64_t steps = 0;
  int64_t largest_context = 0;
  for (const Item& item : items) {
    steps = std::max(steps, item.steps);
    largest_context = std::max(largest_context, item.work->context_rows());
  }
  const int64_t recorded =
      std::min(RecordedTiles(static_cast<int64_t>(items.size())), room.most_tiles);
  const int64_t outbox_bytes = UploadTiles(items, recorded, room);
  kernels::cuda::Graph* graph = GraphFor(model, recorded, largest_context, room);
  for (int64_t i = 0; i < steps && device_.status().ok(); ++i) {
    device_.Check(kernels::cuda::RunGraph(graph, device_.stream()), "running a step");
  }
  outbox_.resize(outbox_bytes);
  device_.Download(outbox_.data(), room.outbox, outbox_bytes);
  device_.Wait();
  if (!device_.status().ok()) return;
  char* outbox = outbox_.data();
  for (const Item& item : items) {
    item.work->Take(item.steps, item.work->OutboxAt(outbox, item.steps));
    outbox += item.work->outbox_bytes(item.steps);
  }
}

// What the kernels are told of the items, and of idle tiles behind them. Returns the bytes that the
// items leave in the outbox.
int64_t DecodeGraphs::UploadTiles(const std::vector<Item>& items, int64_t recorded,
                                  const Room& room) {
  const int64_t bytes = Room::PathsAt(recorded) + recorded * static_cast<int64_t>(sizeof(PathTile));
  tiles_.resize(bytes);
  Tile* const tiles = reinterpret_cast<Tile*>(tiles_.data());
  PathTile* const paths = reinterpret_cast<PathTile*>(tiles_.data() + Room::PathsAt(recorded));
  std::fill_n(tiles, recorded, Tile());
  std::fill_n(paths, recorded, PathTile());
  char* outbox = room.outbox;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& [work, steps] = items[i];
    const DecodeWork::Outbox emitted = work->OutboxAt(outbox, steps);
    tiles[i] = work->NextTile();
    paths[i] = work->NextPathTile(steps);
    paths[i].emitted_densities = emitted.log_densities;
    paths[i].emitted_values = emitted.values;
    paths[i].emitted_mixtures = emitted.mixtures;
    outbox += work->outbox_bytes(steps);
  }
  device_.Upload(room.tiles, tiles_.data(), bytes);
  return outbox - room.outbox;
}

kernels::cuda::Graph* DecodeGraphs::GraphFor(const DeviceModel& model, int64_t tiles,
                                             int64_t largest_context, const Room& room) {
  const Forward forward(model, {device_, room.states, room.state_bytes});
  const int64_t context = RecordedContext(largest_context);
  const GraphKey key = {&model, tiles, forward.StatesOfTile(tiles, context)};
  kernels::cuda::Graph*& graph = graphs_[key];
  if (graph != nullptr || !device_.status().ok()) return graph;
  if (!device_.Check(kernels::cuda::BeginRecording(device_.stream()), "recording a step")) {
    return nullptr;
  }
  Step(model, room.Set(tiles, context), room);
  device_.Check(kernels::cuda::EndRecording(device_.stream(), &graph), "recording a step");
  return graph;
}

void DecodeGraphs::Step(const DeviceModel& model, const TileSet& set, const Room& room) {
  const Forward forward(model, {device_, room.states, room.state_bytes});
  forward.EmbedPaths(set);
  forward.Leave(0, set);
  for (int64_t layer = 1; layer < model.shape().layers; ++layer) {
    forward.FinishAndLeave(layer, set);
  }
  forward.FinishLast(set);
  forward.Head(set, nullptr);
  device_.Check(kernels::cuda::LaunchNextPlace({set.tiles, set.paths, set.count}, device_.stream()),
                "counting places");
}

}  // namespace chorale::cuda
