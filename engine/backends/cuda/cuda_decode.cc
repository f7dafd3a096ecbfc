#include "engine/backends/cuda/cuda_decode.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu_cost.h"
#include "engine/require.h"
#include "kernels/cuda/head.h"
#include "kernels/cuda/layout.h"

namespace chorale {
namespace {

using kernels::cuda::kTilePaths;
using kernels::cuda::PathTile;
using kernels::cuda::Tile;

// Steps whose results are kept on the device before the host fetches them.
constexpr int64_t kMostRoundSteps = 32;
constexpr int64_t kOutboxBytes = kTilePaths * static_cast<int64_t>(sizeof(double) + sizeof(float));

// The number of tiles that a graph is recorded for: 1, 2, 3, 4, 6, 8, 12, 16, ... A few surplus
// tiles that do nothing cost less than a graph for every number.
int64_t RecordedTiles(int64_t tiles) {
  for (int64_t power = 1;; power *= 2) {
    if (tiles <= power) return power;
    if (power >= 2 && tiles <= power + power / 2) return power + power / 2;
  }
}

// The same for chunks of contexts, by powers of two.
int64_t RecordedContext(int64_t largest_context) {
  int64_t chunks = 1;
  while (chunks < kernels::cuda::ContextChunks(largest_context)) chunks *= 2;
  return chunks * kernels::cuda::kChunkKeys;
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
  RequireTile(spec_.tile);
  Require(spec_.given.empty() || spec_.given.size() == values_.size(), "given is [T, paths]");
  Require(spec_.buffer.bytes >= layout_.bytes, "the buffer range holds the tile's buffer");
  UploadTile(layout_, memory_, spec_.tile, spec_.given, device);
  if (spec_.tile.keep_mixtures) {
    const int64_t rows = targets_ * spec_.tile.paths;
    mixtures_ = CudaMixtures(rows, model_.shape().components);
    mixtures_on_device_ = TakeScratch(device, rows * 3 * model_.shape().components * 4);
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
  Tile tile = TileOfPaths(layout_, memory_, context_, context_rows(), paths());
  tile.visible_target = static_cast<int32_t>(steps_done_);
  tile.visible_buffer = tile.visible_target;
  tile.append_place = tile.visible_target - 1;
  return tile;
}

PathTile CudaDecodeWork::NextPathTile(int64_t steps) const {
  PathTile tile = PathTileOf(layout_, memory_, spec_.tile);
  tile.seed = spec_.seed;
  tile.first_path = static_cast<uint64_t>(spec_.first_path);
  tile.place = static_cast<int32_t>(steps_done_);
  tile.token_place = tile.place - 1;
  tile.steps_left = static_cast<int32_t>(steps);
  tile.first_emitted = tile.place;
  tile.draw = spec_.given.empty() ? 1 : 0;
  if (spec_.tile.keep_mixtures) {
    tile.emitted_mixtures =
        mixtures_on_device_.At<float>() + steps_done_ * paths() * 3 * model_.shape().components;
  }
  return tile;
}

void CudaDecodeWork::Take(int64_t steps, const float* values, const double* log_densities,
                          CudaDevice& device) {
  const int64_t first = steps_done_ * paths();
  std::copy_n(values, steps * paths(), values_.begin() + first);
  std::copy_n(log_densities, steps * paths(), log_densities_.begin() + first);
  if (spec_.tile.keep_mixtures) {
    const int64_t row_size = int64_t{3} * model_.shape().components;
    std::vector<float> mixtures(steps * paths() * row_size);
    device.Download(mixtures.data(), mixtures_on_device_.At<float>() + first * row_size,
                    static_cast<int64_t>(mixtures.size() * sizeof(float)));
    device.Wait();
    mixtures_.Set(first, mixtures);
  }
  steps_done_ += steps;
}

struct CudaDecoder::Room {
  Room(const CudaModel& model, const kernels::cuda::Memory& memory)
      : most_tiles(memory.bytes() / TileBytes(model.shape())) {
    char* next = memory.At<char>();
    const auto take = [&](int64_t tile_bytes) {
      char* const taken = next;
      next += kernels::RoundUp(most_tiles * tile_bytes, kCudaAlignment);
      return taken;
    };
    const CudaShape& shape = model.shape();
    tiles = take(sizeof(Tile));
    paths = take(sizeof(PathTile));
    x = take(int64_t{4} * kernels::cuda::kTileRows * shape.width);
    q = take(int64_t{2} * kernels::cuda::kTileRows * shape.queries);
    outbox = take(kMostRoundSteps * kOutboxBytes);
    states = next;
    state_bytes = memory.At<char>() + memory.bytes() - next;
  }

  // A tile has room for one chunk of states at least; what rounding takes is part of it.
  static int64_t TileBytes(const CudaShape& shape) {
    return static_cast<int64_t>(sizeof(Tile) + sizeof(PathTile)) + TileRowBytes(shape) +
           kMostRoundSteps * kOutboxBytes + CudaForward::StateBytes(shape) + 5 * kCudaAlignment;
  }

  TileSet Set(int64_t count, int64_t largest_context) const {
    return {.tiles = reinterpret_cast<Tile*>(tiles),
            .paths = reinterpret_cast<PathTile*>(paths),
            .x = reinterpret_cast<float*>(x),
            .q = reinterpret_cast<uint16_t*>(q),
            .count = static_cast<int32_t>(count),
            .largest_context = largest_context};
  }

  int64_t most_tiles = 0;
  char* tiles = nullptr;   // [most_tiles] Tile
  char* paths = nullptr;   // [most_tiles] PathTile
  char* x = nullptr;       // [most_tiles, 64, D] f32
  char* q = nullptr;       // [most_tiles, 64, H Dh] bf16
  char* outbox = nullptr;  // per tile: log-densities [steps, paths] f64, values [steps, paths] f32
  char* states = nullptr;
  int64_t state_bytes = 0;
};

CudaDecoder::~CudaDecoder() {
  for (const auto& [key, graph] : graphs_) {
    device_.Check(kernels::cuda::DestroyGraph(graph), "freeing a graph");
  }
}

absl::Status CudaDecoder::CheckRoom(const CudaModel& model) const {
  const int64_t needed = Room::TileBytes(model.shape());
  if (needed <= device_.launch_memory().bytes()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("a tile of this model needs ", needed,
                                                   " bytes of workspace, but there are ",
                                                   device_.launch_memory().bytes()));
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
    for (Item& item : round) item.steps = std::min(item.steps, kMostRoundSteps);
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
  const int64_t outbox_stride = steps * kOutboxBytes;
  const auto recorded = static_cast<size_t>(
      std::min(RecordedTiles(static_cast<int64_t>(items.size())), room.most_tiles));
  std::vector<Tile> tiles(recorded);
  std::vector<PathTile> paths(recorded);
  for (size_t i = 0; i < items.size(); ++i) {
    tiles[i] = items[i].work->NextTile();
    paths[i] = items[i].work->NextPathTile(items[i].steps);
    char* const outbox = room.outbox + static_cast<int64_t>(i) * outbox_stride;
    paths[i].emitted_densities = reinterpret_cast<double*>(outbox);
    paths[i].emitted_values =
        reinterpret_cast<float*>(outbox + steps * kTilePaths * sizeof(double));
  }
  device_.Upload(room.tiles, tiles.data(), static_cast<int64_t>(recorded * sizeof(Tile)));
  device_.Upload(room.paths, paths.data(), static_cast<int64_t>(recorded * sizeof(PathTile)));

  kernels::cuda::Graph* graph =
      GraphFor(model, static_cast<int64_t>(recorded), largest_context, room);
  for (int64_t i = 0; i < steps && device_.status().ok(); ++i) {
    device_.Check(kernels::cuda::RunGraph(graph, device_.stream()), "running a step");
  }
  outbox_.resize(items.size() * outbox_stride);
  device_.Download(outbox_.data(), room.outbox, static_cast<int64_t>(outbox_.size()));
  device_.Wait();
  if (!device_.status().ok()) return;
  for (size_t i = 0; i < items.size(); ++i) {
    const char* const outbox = outbox_.data() + static_cast<int64_t>(i) * outbox_stride;
    items[i].work->Take(
        items[i].steps,
        reinterpret_cast<const float*>(outbox + steps * kTilePaths * sizeof(double)),
        reinterpret_cast<const double*>(outbox), device_);
  }
}

kernels::cuda::Graph* CudaDecoder::GraphFor(const CudaModel& model, int64_t tiles,
                                            int64_t largest_context, const Room& room) {
  const int64_t context = RecordedContext(largest_context);
  const GraphKey key = {&model, tiles, kernels::cuda::ContextChunks(context)};
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
