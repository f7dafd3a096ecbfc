// The interface of a device to the engine: a backend stores weights and K/V, and advances units of
// work.
//
// The engine does all accounting: it requests sizes, allocates ranges of the pools (offsets only,
// see engine/pools/range_allocator.h) and passes them in. The backend owns the memory of the pools
// and allocates no other GPU memory for work, so an admitted request never runs out of memory. Work
// is created once, then advanced in slices together with the work of other sessions and contexts.
// Batching, fairness, cancellation and streaming happen between slices.
//
// Results do not depend on other work in the same call, on the number of slices, or on the number
// of threads.
//
// Thread contract: only the engine thread calls methods, except the const byte counts and the
// methods marked "any thread". The engine thread destroys the objects of a backend before the
// backend.
#ifndef CHORALE_ENGINE_BACKEND_BACKEND_H_
#define CHORALE_ENGINE_BACKEND_BACKEND_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/data/feature_transform.h"
#include "engine/data/memory_set.h"
#include "engine/model/model.h"

namespace chorale {

// Bytes [offset, offset + bytes) of one of the backend's pools.
struct PoolRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// A model's weights as one backend holds them. Immutable.
class BackendModel {
 public:
  virtual ~BackendModel() = default;
  virtual const ModelConfig& config() const = 0;
  // The form in which the backend computes the model: "fused" or "unfused" on a GPU. Empty
  // if the backend has a single form. Forms differ in the bits of results. Any thread.
  virtual std::string form() const { return ""; }
  // Identifies everything that the bytes of the model's encoded contexts depend on in addition to
  // Backend::kv_format, such as the version of a library that was loaded for it. Empty: nothing.
  // Any thread.
  virtual std::string kv_format() const { return ""; }
};

// The state of a row encoder that was fitted to a context, which is needed to encode further rows.
// Empty for encoders that encode each row separately. Immutable.
class RowEncoderState {
 public:
  virtual ~RowEncoderState() = default;
  // The serialised state, for Backend::ReadEncoderState.
  virtual std::string Bytes() const { return ""; }
};

// Encodings of the query rows of one request, [T, D], computed once per row and shared by all paths
// of the request. Immutable.
class EncodedRows {
 public:
  virtual ~EncodedRows() = default;
  virtual int64_t rows() const = 0;
};

// A context whose keys and values are in the context pool. Immutable.
struct ResidentContext {
  std::shared_ptr<const BackendModel> model;
  std::shared_ptr<const RowEncoderState> encoder_state;
  PoolRange kv;  // ContextBytes(config, shape) of the context pool
  ContextShape shape;
};

// A context to encode.
struct EncodeSpec {
  std::shared_ptr<const BackendModel> model;
  FeatureMatrix features;  // normalised
  std::vector<float> y;    // [rows], in the model's target units
  MemorySet memory;        // REQUIRES: Backend::memory_sets() if the shape is reduced
  // Of all random choices of a memory set. Depends on the content of the rows before the first
  // append alone, so that later rows change no choice among earlier rows.
  uint64_t seed = 0;
  // Dataset::append_starts, which divide the rows into blocks (engine/backend/encode_blocks.h). A
  // row attends to the rows of its block and of all earlier blocks, and the row encoder is fitted
  // to the first block alone. Empty: all rows are one block. REQUIRES, unless it is empty:
  // Backend::appends(), and shape().appendable().
  std::vector<int64_t> append_starts = {};
  // A resident context of the first blocks: of the same model, with the same features, y, memory,
  // seed and append_starts as this context up to its number of rows. Its keys and values, and the
  // state of its row encoder, are used instead of computed again, with the same bits. Null: there
  // is none. It must stay resident until the work is done or destroyed. REQUIRES: CanBePrefix
  // (engine/backend/encode_blocks.h).
  std::shared_ptr<const ResidentContext> prefix = nullptr;
  PoolRange kv;         // ContextBytes(config, shape()) of the context pool
  PoolRange workspace;  // EncodeBytes(config, shape()) of the encode pool, during the work

  ContextShape shape() const { return {.rows = features.rows, .memory = memory}; }
  int64_t prefix_rows() const { return prefix == nullptr ? 0 : prefix->shape.rows; }
  // y of the first block, to which the row encoder is fitted.
  absl::Span<const float> base_y() const {
    const absl::Span<const float> all = y;
    return append_starts.empty() ? all : all.subspan(0, append_starts.front());
  }
};

// The mixture of one row, [M] each, in the model's target units, host memory.
struct MixtureSpan {
  absl::Span<const double> mean;
  absl::Span<const double> std;
  absl::Span<const double> log_weight;
};

enum class WorkKind { kEncode, kRows, kDecode, kDensity, kPredict, kCopy };

// A unit of work. The results of derived classes are in host memory, complete for the finished
// steps, and valid and unchanged until the next Advance of this work.
class Work {
 public:
  virtual ~Work() = default;
  virtual WorkKind kind() const = 0;
  virtual bool done() const = 0;
  // Floating-point operations of the next step, for fair sharing and for the number of steps of a
  // slice. Positive unless done.
  virtual double next_step_flops() const = 0;
  // Floating-point operations of the next `steps` steps together, for accounting. REQUIRES: steps
  // is at most steps_at_this_cost().
  virtual double next_flops(int64_t steps) const {
    return static_cast<double>(steps) * next_step_flops();
  }
  // The number of steps, from the next step on, that cost about as much as the next step: the
  // maximum length of a slice with a predictable cost. At least 1 unless done.
  virtual int64_t steps_at_this_cost() const = 0;
};

// Encodes a context and writes its K/V to a range of the context pool. One step is a bounded batch
// of rows in one layer, so a large context takes many steps.
class EncodeWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kEncode; }
  // REQUIRES: done().
  virtual ResidentContext TakeContext() = 0;
};

// Encodes the query rows of a request.
class RowsWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kRows; }
  // REQUIRES: done().
  virtual std::shared_ptr<const EncodedRows> TakeRows() = 0;
};

// The paths of one session for a decode or a density: one tile, or several tiles for a density.
// Values and results of the paths are [P, paths], with the index position * paths + path, so that a
// step accesses adjacent elements. Only `order` stores the positions of a path contiguously.
struct TileSpec {
  std::shared_ptr<const ResidentContext> context;
  std::shared_ptr<const EncodedRows> query_rows;  // [T, D]
  int64_t paths = 0;  // 1 to tile_paths(), or density_paths(), of Backend
  // Position t of path p is query row order[p * P + t]; a path may leave query rows out. Empty:
  // every path has the query rows in their order in `query_rows`.
  std::vector<int32_t> order;  // [paths, P] or empty
  // The mixtures of the positions from this one on are kept. A density keeps all of them, or none.
  static constexpr int64_t kNoMixtures = std::numeric_limits<int64_t>::max();
  int64_t first_mixture = kNoMixtures;

  // P: the positions of each path.
  int64_t positions() const {
    return order.empty() ? query_rows->rows() : static_cast<int64_t>(order.size()) / paths;
  }
  bool keeps_mixtures() const { return first_mixture < positions(); }
};

// Autoregressive decode of one tile, one step per position. A step processes the newest buffer
// token (the value at position t-1) and query row t, and produces the value at position t, which is
// drawn or forced.
class DecodeWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kDecode; }
  virtual int64_t steps_done() const = 0;
  virtual absl::Span<const float> values() const = 0;          // [P, paths], model's target units
  virtual absl::Span<const double> log_densities() const = 0;  // [P, paths], of those values
  // REQUIRES: TileSpec::first_mixture <= position < steps_done().
  virtual MixtureSpan mixture(int64_t path, int64_t position) const = 0;
};

struct DecodeSpec {
  TileSpec tile;
  PoolRange buffer;  // BufferBytes(model, P, paths) of the buffer pool
  uint64_t seed = 0;
  // [paths]: path p of the tile draws as path path_numbers[p] (kernels/ops/random.h).
  std::vector<uint64_t> path_numbers;
  // [N, paths], N <= P: the values at the first N positions. The others are drawn.
  std::vector<float> forced_values;

  int64_t forced_positions() const {  // N
    return static_cast<int64_t>(forced_values.size()) / tile.paths;
  }
};

// Joint log-density of values by teacher forcing: all 2P tokens of a path go through a layer before
// the next layer begins. One step is a bounded batch of tokens in one layer, or, for short paths on
// a GPU, in all layers. The cost of a step is the average over its layer. In a long path, later
// tokens attend to more of the buffer than earlier tokens, so a step may cost up to twice as much.
class DensityWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kDensity; }
  // REQUIRES for both methods: done().
  virtual absl::Span<const double> log_densities() const = 0;  // [P, paths]
  // REQUIRES: TileSpec::keeps_mixtures().
  virtual MixtureSpan mixture(int64_t path, int64_t position) const = 0;
};

struct DensitySpec {
  TileSpec tile;
  PoolRange buffer;           // DensityBytes(model, P, paths) of the buffer pool
  std::vector<float> values;  // [P, paths], model's target units
};

// Marginal predictions of rows [first_row, first_row + rows). One step is a bounded batch of rows
// in one layer.
class PredictWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kPredict; }
  // REQUIRES: done().
  virtual MixtureSpan mixture(int64_t row) const = 0;  // row counts from first_row
};

struct PredictSpec {
  std::shared_ptr<const ResidentContext> context;
  std::shared_ptr<const EncodedRows> query_rows;
  PoolRange buffer;  // PredictBytes(model, rows) of the buffer pool
  int64_t first_row = 0;
  int64_t rows = 0;
};

enum class CopyDirection { kToHost, kToDevice };

struct Slice {
  Work* work = nullptr;
  int64_t max_steps = 1;
};

// The policy by which the engine chooses slices for a backend.
struct TickPolicy {
  // The maximum number of slices that benefit from a common Advance.
  int64_t max_slices = 1;
  // The target duration of one Advance: long compared with the overhead of a call, too short for
  // users to notice.
  absl::Duration target_tick = absl::Milliseconds(10);
  // True if all decodes of one Advance run each step together, so that many take little longer than
  // one, and should get equal numbers of steps. False if the time of a slice is proportional to its
  // operations.
  bool decodes_in_step = false;
};

struct BackendInfo {
  std::string backend;  // "cpu" or "cuda"
  std::string device;   // the instruction set, or the GPU's name
  int64_t threads = 0;  // compute threads on the host
};

// A part of a GPU's memory, for monitoring.
struct DeviceMemoryPart {
  const char*
      part;  // "context_pool", "buffer_pool", "encode_pool", "weights", "workspace", "other"
  int64_t bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual BackendInfo info() const = 0;         // any thread
  virtual std::string description() const = 0;  // one line for logs: "cpu AVX3, 2 threads"
  // The use of the GPU's memory. "other" is the memory that the backend cannot attribute: the
  // driver, the code of kernels, other processes. Empty without a GPU. Any thread.
  virtual std::vector<DeviceMemoryPart> DeviceMemory() const { return {}; }
  virtual TickPolicy tick_policy() const = 0;

  // The maximum number of paths of a tile.
  virtual int64_t tile_paths() const = 0;
  // The maximum number of paths of a density with `positions` positions: several tiles if a single
  // tile would leave the device idle. A multiple of tile_paths().
  virtual int64_t density_paths(const ModelConfig& config, int64_t positions) const {
    return tile_paths();
  }

  // Sizes of the pools, fixed at creation.
  virtual int64_t context_pool_bytes() const = 0;
  virtual int64_t buffer_pool_bytes() const = 0;
  virtual int64_t encode_pool_bytes() const { return 0; }
  // Host memory for evicted contexts; 0: none, and NewContextCopy is never called.
  virtual int64_t host_context_pool_bytes() const { return 0; }

  // Identifies everything that the bytes of an encoded context depend on in addition to its data
  // and its model (BackendModel::kv_format). If two backends, even of two processes, return the
  // same string, each may read the contexts that the other has encoded, with the same results.
  // Empty: no other backend may read them. The string contains the version of the build, so a
  // release may change kernels and layouts freely.
  virtual std::string kv_format() const { return ""; }
  // The memory of a range of the context pool, null if the host cannot access it, and of a range of
  // the host pool. Any thread may access it while no advancing work writes to it.
  virtual char* ContextMemory(const PoolRange& kv) { return nullptr; }
  virtual char* HostContextMemory(const PoolRange& host) { return nullptr; }
  // Restores a state from its Bytes. Returns DataLoss for invalid bytes.
  virtual absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadEncoderState(
      const BackendModel& model, absl::string_view bytes) const {
    return absl::UnimplementedError("this backend does not read states of row encoders");
  }

  // Whether contexts can have memory sets. Any thread.
  virtual bool memory_sets() const { return false; }

  // Whether appendable contexts can have appended rows (EncodeSpec::append_starts and
  // EncodeSpec::prefix). Any thread.
  virtual bool appends() const { return false; }

  // Exact sizes in bytes, multiples of the pools' alignment (64 bytes or more): in the context pool
  // for a context; in the buffer pool for a decode and for a density of `paths` paths with
  // `positions` positions each.
  virtual int64_t ContextBytes(const ModelConfig& config, const ContextShape& shape) const = 0;
  virtual int64_t BufferBytes(const ModelConfig& config, int64_t positions,
                              int64_t paths) const = 0;
  virtual int64_t DensityBytes(const ModelConfig& config, int64_t positions,
                               int64_t paths) const = 0;

  // Sizes in the buffer pool for the encoded query rows of a request and for marginal predictions
  // of `rows` of them, and in the encode pool for a context during its encoding. 0 if the backend
  // uses host memory instead; its range is then empty.
  virtual int64_t RowsBytes(const ModelConfig& config, int64_t query_rows) const { return 0; }
  virtual int64_t PredictBytes(const ModelConfig& config, int64_t rows) const { return 0; }
  virtual int64_t EncodeBytes(const ModelConfig& config, const ContextShape& shape) const {
    return 0;
  }

  // Adds a model. Unavailable: a dependency of the model is not installed on this machine; the
  // server can skip the model and serve others. The message is a sentence that states what to
  // install. Any other error means that the backend cannot serve the model, or that the device
  // failed. InvalidArgument: the backend does not support the shape of the model.
  // ResourceExhausted: there is not enough memory.
  virtual absl::StatusOr<std::shared_ptr<const BackendModel>> AddModel(const Model& model) = 0;
  // Releases the data that the backend itself keeps for the model. REQUIRES: no work of the model
  // exists, and the caller is about to drop the last reference, which frees the model's memory for
  // other models.
  virtual void RemoveModel(const BackendModel& model) {}

  virtual std::unique_ptr<EncodeWork> NewEncode(EncodeSpec spec) = 0;
  // `buffer` is RowsBytes(model, rows) of the buffer pool, for the lifetime of the encoded rows.
  virtual std::unique_ptr<RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                            FeatureMatrix features, PoolRange buffer) = 0;
  virtual std::unique_ptr<DecodeWork> NewDecode(DecodeSpec spec) = 0;
  virtual std::unique_ptr<DensityWork> NewDensity(DensitySpec spec) = 0;
  virtual std::unique_ptr<PredictWork> NewPredict(PredictSpec spec) = 0;

  // Copies the bytes of a resident context to a range of the host pool, or back to a range of the
  // context pool, with a bounded number of bytes per step. A host copy is valid only as the source
  // of a copy back. REQUIRES: a range of the host pool is read only after it was written
  // completely.
  virtual std::unique_ptr<Work> NewContextCopy(PoolRange kv, PoolRange host,
                                               CopyDirection direction) {
    return nullptr;
  }

  // Advances the work of each slice by max_steps steps, or until it is done, and returns when all
  // slices have finished. A unit of work occurs at most once in `slices`. An error means that the
  // device failed; the engine then stops.
  virtual absl::Status Advance(absl::Span<const Slice> slices) = 0;

  // Checks whether the device still responds. Called between two calls of Advance while there is no
  // work. An error has the same meaning as an error of Advance.
  virtual absl::Status CheckDevice() { return absl::OkStatus(); }

  // Releases a range. Its bytes are cleared before any other use, and returned to the operating
  // system if possible.
  virtual void ReleaseContext(PoolRange range) = 0;
  virtual void ReleaseBuffer(PoolRange range) = 0;
  virtual void ReleaseEncode(PoolRange range) {}
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_BACKEND_H_
