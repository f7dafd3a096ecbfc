#include "engine/backend/cuda/decode.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/integer_math.h"
#include "base/require.h"
#include "engine/backend/flop_model.h"
#include "kernels/cuda/head/head.h"
#include "kernels/cuda/layout/layout.h"

namespace chorale {
namespace {

using kernels::cuda::kTilePaths;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

// Steps whose results are kept on the device before the host fetches them; fewer where mixtures are
// kept.
constexpr int64_t kMostRoundSteps = 32;
constexpr int64_t kValueBytes = sizeof(double) + sizeof(float);  // log-density and value
constexpr int64_t kOutboxAlignment = 16;

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

CudaDecodeWork::CudaDecodeWork(DecodeSpec spec, CudaDevice& device)
    : spec_(std::move(spec)),
      model_(AsCudaModel(*spec_.tile.context->model)),
      targets_(spec_.tile.targets->rows()),
      layout_(model_.shape(), targets_, spec_.tile.paths, TileMemory::Use::kDecode),
      memory_(device.BufferAt(spec_.buffer)),
      context_(reinterpret_cast<uint16_t*>(device.ContextAt(spec_.tile.context->kv))),
      values_(targets_ * spec_.tile.paths),
      log_densities_(values_.size()) {
  RequireTile(spec_.tile, kTilePaths);
  Require(spec_.given.empty() || spec_.given.size() == values_.size(), "given is [T, paths]");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds the tile's buffer");
  UploadTile(layout_, memory_, spec_.tile, spec_.given, device);
  if (spec_.tile.keep_mixtures) {
    mixtures_ = CudaMixtures(targets_ * spec_.tile.paths, model_.shape().components);
  }
}

double CudaDecodeWork::next_step_flops() const {
  if (done()) return 0;
  const double keys = static_cast<double>(context_rows() + steps_done_);
  return static_cast<double>(paths()) *
         PathStepFlops(model_.config(), steps_done_ == 0 ? 1 : 2, keys);
}

MixtureSpan CudaDecodeWork::mixture(int64_t path, int64_t step) const {
  Require(step < steps_done_, "the step is done");
  return mixtures_.Get(step * paths() + path);
}

Tile CudaDecodeWork::NextTile() const {
  Tile tile = TileOfPaths(layout_, memory_, context_, context_rows(), {0, paths()});
  tile.visible_target = static_cast<int32_t>(steps_done_);
  tile.visible_buffer = tile.visible_target;
  tile.append_place = tile.visible_target - 1;
  return tile;
}

PathTile CudaDecodeWork::NextPathTile(int64_t steps) const {
  PathTile tile = PathTileOf(layout_, memory_, spec_.tile, {0, paths()});
  tile.seed = spec_.seed;
  tile.first_path = static_cast<uint64_t>(spec_.first_path);
  tile.place = static_cast<int32_t>(steps_done_);
  tile.token_place = tile.place - 1;
  tile.steps_left = static_cast<int32_t>(steps);
  tile.first_emitted = tile.place;
  tile.draw = spec_.given.empty() ? 1 : 0;
  return tile;
}

int64_t CudaDecodeWork::outbox_bytes(int64_t steps) const {
  const int64_t mixture_bytes =
      spec_.tile.keep_mixtures ? int64_t{3} * model_.shape().components * 4 : 0;
  return RoundUp(steps * paths() * (kValueBytes + mixture_bytes), kOutboxAlignment);
}

CudaDecodeWork::Outbox CudaDecodeWork::OutboxAt(char* memory, int64_t steps) const {
  Outbox outbox;
  outbox.log_densities = reinterpret_cast<double*>(memory);
  outbox.values = reinterpret_cast<float*>(outbox.log_densities + steps * paths());
  if (spec_.tile.keep_mixtures) outbox.mixtures = outbox.values + steps * paths();
  return outbox;
}

void CudaDecodeWork::Take(int64_t steps, const Outbox& outbox) {
  const int64_t first = steps_done_ * paths();
  const int64_t rows = steps * paths();
  std::copy_n(outbox.values, rows, values_.begin() + first);
  std::copy_n(outbox.log_densities, rows, log_densities_.begin() + first);
  if (spec_.tile.keep_mixtures) {
    mixtures_.Set(first,
                  absl::MakeConstSpan(outbox.mixtures, rows * 3 * model_.shape().components));
  }
  steps_done_ += steps;
}

struct CudaDecoder::Room {
  Room(const CudaModel& model, const kernels::cuda::Memory& memory)
      : most_tiles(memory.bytes() / TileBytes(model.shape())) {
    char* next = memory.At<char>();
    const auto take = [&](int64_t tile_bytes) {
      char* const taken = next;
      next += RoundUp(most_tiles * tile_bytes, kCudaAlignment);
      return taken;
    };
    const CudaShape& shape = model.shape();
    tiles = take(sizeof(Tile) + sizeof(PathTile) + kCudaAlignment);
    x = take(int64_t{4} * kernels::cuda::kTileRows * shape.width);
    q = take(int64_t{2} * kernels::cuda::kTileRows * shape.queries);
    outbox = take(OutboxBytes(shape));
    outbox_bytes = most_tiles * OutboxBytes(shape);
    states = next;
    state_bytes = memory.At<char>() + memory.bytes() - next;
  }

  // A tile has room for one chunk of states at least; what rounding takes is part of it.
  static int64_t TileBytes(const CudaShape& shape) {
    return static_cast<int64_t>(sizeof(Tile) + sizeof(PathTile)) + TileRowBytes(shape) +
           OutboxBytes(shape) + CudaForward::StateBytes(shape) + 5 * kCudaAlignment;
  }
  // Room for a whole round of a tile, or for one step of it with its mixtures.
  static int64_t OutboxBytes(const CudaShape& shape) {
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
    return RoundUp(count * static_cast<int64_t>(sizeof(Tile)), kCudaAlignment);
  }

  int64_t most_tiles = 0;
  char* tiles = nullptr;   // [count] Tile, [count] PathTile
  char* x = nullptr;       // [most_tiles, 64, D] f32
  char* q = nullptr;       // [most_tiles, 64, H Dh] bf16
  char* outbox = nullptr;  // CudaDecodeWork::Outbox of a tile, then the next one's
  int64_t outbox_bytes = 0;
  char* states = nullptr;
  int64_t state_bytes = 0;
};

CudaDecoder::~CudaDecoder() {
  for (const auto& [key, graph] : graphs_) {
    if (graph == nullptr) continue;  // it could not be recorded
    device_.Check(kernels::cuda::DestroyGraph(graph), "freeing a graph");
  }
}

int64_t CudaDecoder::WorkspaceBytes(const CudaShape& shape) { return Room::TileBytes(shape); }

void CudaDecoder::Prepare(const CudaModel& model) {
  const Room room(model, device_.launch_memory());
  const int64_t most_tiles = std::min(kPreparedTiles, room.most_tiles);
  for (int64_t tiles = 1; tiles <= most_tiles; tiles = RecordedTiles(tiles + 1)) {
    for (int64_t chunks = 1; chunks <= kernels::cuda::kMostChunks; chunks *= 2) {
      GraphFor(model, tiles, ContextOfChunks(chunks), room);
    }
  }
}

void CudaDecoder::Run(const std::vector<Item>& items) {
  const Room room(items.front().work->model(), device_.launch_memory());
  const int64_t most = room.most_tiles / 2 + 1;  // so that rounding up still fits
  for (size_t first = 0; first < items.size(); first += most) {
    const size_t count = std::min<size_t>(most, items.size() - first);
    RunWave(std::vector<Item>(items.begin() + first, items.begin() + first + count), room);
  }
}

void CudaDecoder::RunWave(const std::vector<Item>& items, const Room& room) {
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

void CudaDecoder::RunRound(const std::vector<Item>& items, const Room& room) {
  const CudaModel& model = items.front().work->model();
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
int64_t CudaDecoder::UploadTiles(const std::vector<Item>& items, int64_t recorded,
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
    const CudaDecodeWork::Outbox emitted = work->OutboxAt(outbox, steps);
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

kernels::cuda::Graph* CudaDecoder::GraphFor(const CudaModel& model, int64_t tiles,
                                            int64_t largest_context, const Room& room) {
  const CudaForward forward(model, device_, room.states, room.state_bytes);
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

void CudaDecoder::Step(const CudaModel& model, const TileSet& set, const Room& room) {
  const CudaForward forward(model, device_, room.states, room.state_bytes);
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

}  // namespace chorale
