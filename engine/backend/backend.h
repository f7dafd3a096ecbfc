// What a device does for the engine: holds weights and K/V, and advances pieces of work.
//
// The engine does all accounting: it asks for sizes, allocates ranges of the pools (offsets only,
// see engine/pools/range_allocator.h) and passes them in. The backend owns the memory behind the
// offsets and allocates no other GPU memory for work, so an admitted request never runs out of
// memory. Work is created once, then advanced slice by slice together with the work of any other
// sessions and contexts; batching, fairness, cancellation and streaming happen between slices.
//
// Results do not depend on what else advances in the same call, on the number of slices, or on the
// number of threads.
//
// Thread contract: one engine thread calls everything but the const byte counts and what is marked
// so, which any thread may call. Objects made by a backend are destroyed by the engine thread,
// before the backend.
#ifndef CHORALE_ENGINE_BACKEND_BACKEND_H_
#define CHORALE_ENGINE_BACKEND_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/data/feature_transform.h"
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
  // In which of its forms the backend computes the model: "fused" or "wide" on a GPU. Empty where
  // the backend has one form. A model's results have other bits in another form. Any thread.
  virtual std::string form() const { return ""; }
  // What the bytes of the model's encoded contexts depend on besides Backend::kv_format, such as
  // the version of a library that was opened for it. Empty: nothing. Any thread.
  virtual std::string kv_format() const { return ""; }
};

// What a row encoder learned from a context and needs to encode further rows. Empty for encoders
// that look at each row alone. Immutable.
class RowEncoderState {
 public:
  virtual ~RowEncoderState() = default;
  // All of it, for Backend::ReadEncoderState.
  virtual std::string Bytes() const { return ""; }
};

// Row encodings of the targets of one request, [T, D], computed once per row and shared by all of
// the request's paths. Immutable.
class EncodedRows {
 public:
  virtual ~EncodedRows() = default;
  virtual int64_t rows() const = 0;
};

// A context whose keys and values are in the context pool. Immutable.
struct ResidentContext {
  std::shared_ptr<const BackendModel> model;
  std::shared_ptr<const RowEncoderState> encoder_state;
  PoolRange kv;  // [L] layers of kernels::LayerKvSize(rows, Hkv, Dh) elements
  int64_t rows = 0;
};

// The mixture of one row, [M] each, in the model's target units, host memory.
struct MixtureSpan {
  absl::Span<const double> mean;
  absl::Span<const double> std;
  absl::Span<const double> log_weight;
};

enum class WorkKind { kEncode, kRows, kDecode, kDensity, kPredict, kCopy };

// Work in progress. Results of the derived classes are in host memory, complete for the steps that
// are done, and valid and unchanged until the next Advance of this work.
class Work {
 public:
  virtual ~Work() = default;
  virtual WorkKind kind() const = 0;
  virtual bool done() const = 0;
  // Floating-point operations of the next step, for fair sharing and for the number of steps of a
  // slice. Positive unless done.
  virtual double next_step_flops() const = 0;
  // Of the next `steps` steps together, for what was done. REQUIRES: there are as many.
  virtual double next_flops(int64_t steps) const {
    return static_cast<double>(steps) * next_step_flops();
  }
  // Steps from the next one on that cost about as much as it does: the most that a slice can take
  // at a predictable cost. At least 1 unless done.
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

// Encodes the target rows of a request.
class RowsWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kRows; }
  // REQUIRES: done().
  virtual std::shared_ptr<const EncodedRows> TakeRows() = 0;
};

// Paths of one session that a decode or density works on: one tile, or several for a density.
// Their values and results are [T, paths]: index position * paths + path, so that a step reads and
// writes neighbours. Only `order` has the positions of a path together.
struct TileSpec {
  std::shared_ptr<const ResidentContext> context;
  std::shared_ptr<const EncodedRows> targets;  // [T, D]
  int64_t paths = 0;                           // 1 to tile_paths(), or density_paths(), of Backend
  // Position t of path p is target order[p * T + t]; empty: every path takes targets as they come.
  std::vector<int32_t> order;  // [paths, T] or empty
  bool keep_mixtures = false;  // keep the mixture of every position
};

// Autoregressive decode of one tile, a step per position. A step feeds the newest buffer token (the
// value at position t-1) and target t, and yields the value at position t: drawn, or forced.
class DecodeWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kDecode; }
  virtual int64_t steps_done() const = 0;
  virtual absl::Span<const float> values() const = 0;          // [T, paths], model's target units
  virtual absl::Span<const double> log_densities() const = 0;  // [T, paths], of those values
  // REQUIRES: position < steps_done(), TileSpec::keep_mixtures.
  virtual MixtureSpan mixture(int64_t path, int64_t position) const = 0;
};

struct DecodeSpec {
  TileSpec tile;
  PoolRange buffer;  // BufferBytes(model, T, paths) of the buffer pool
  uint64_t seed = 0;
  int64_t first_path = 0;  // of the session; path p of the tile draws as path first_path + p
  std::vector<float> forced_values;  // [T, paths], for teacher forcing; empty: draw values
};

// Joint log-density of values by teacher forcing: all 2T tokens of a path go through a layer
// before the next layer begins. One step is a bounded batch of them in one layer. A step's cost is
// the average over its layer: in a long path later tokens attend to more of the buffer than earlier
// ones, so a step may cost up to twice as much.
class DensityWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kDensity; }
  // REQUIRES: done(), in both.
  virtual absl::Span<const double> log_densities() const = 0;  // [T, paths]
  // REQUIRES: TileSpec::keep_mixtures.
  virtual MixtureSpan mixture(int64_t path, int64_t position) const = 0;
};

struct DensitySpec {
  TileSpec tile;
  PoolRange buffer;           // DensityBytes(model, T, paths) of the buffer pool
  std::vector<float> values;  // [T, paths], model's target units
};

// Point predictions of rows [first_row, first_row + rows), independent of each other. One step is a
// bounded batch of them in one layer.
class PredictWork : public Work {
 public:
  WorkKind kind() const final { return WorkKind::kPredict; }
  // REQUIRES: done().
  virtual MixtureSpan mixture(int64_t row) const = 0;  // row counts from first_row
};

struct PredictSpec {
  std::shared_ptr<const ResidentContext> context;
  std::shared_ptr<const EncodedRows> targets;
  PoolRange buffer;  // PredictBytes(model, rows) of the buffer pool
  int64_t first_row = 0;
  int64_t rows = 0;
};

enum class CopyDirection { kToHost, kToDevice };

struct Slice {
  Work* work = nullptr;
  int64_t max_steps = 1;
};

// How to choose slices for a backend.
struct TickPolicy {
  // Most slices that gain from being advanced together.
  int64_t max_slices = 1;
  // Time that one Advance should take: long compared with the overhead of a call, too short for
  // users to notice.
  absl::Duration target_tick = absl::Milliseconds(10);
  // True where all decodes of one Advance run each step together, so that many take little longer
  // than one: they should get equal numbers of steps. False where a slice takes time in proportion
  // to its operations.
  bool decodes_in_step = false;
};

struct BackendInfo {
  std::string backend;  // "cpu" or "cuda"
  std::string device;   // the instruction set, or the GPU's name
  int64_t threads = 0;  // that compute on the host
};

// A part of a GPU's memory, for the people who watch it.
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
  // Where the GPU's memory is. "other" is what its user cannot see into: the driver, the kernels'
  // code, other processes. Empty without a GPU. Any thread.
  virtual std::vector<DeviceMemoryPart> DeviceMemory() const { return {}; }
  virtual TickPolicy tick_policy() const = 0;

  // Paths of one tile.
  virtual int64_t tile_paths() const = 0;
  // Most paths of a density over `targets` targets: several tiles where one alone would leave the
  // device idle. A multiple of tile_paths().
  virtual int64_t density_paths(int64_t targets) const { return tile_paths(); }

  // Sizes of the pools, fixed at creation.
  virtual int64_t context_pool_bytes() const = 0;
  virtual int64_t buffer_pool_bytes() const = 0;
  virtual int64_t encode_pool_bytes() const { return 0; }
  // Host memory for evicted contexts; 0: none, and NewContextCopy is never called.
  virtual int64_t host_context_pool_bytes() const { return 0; }

  // Names all that the bytes of an encoded context depend on besides its data and its model
  // (BackendModel::kv_format): where two backends, also of two processes, say the same, one may
  // read what the other has encoded, with the same results. Empty: nobody else may. It has the
  // build's version in it, so a release may change kernels and layouts freely.
  virtual std::string kv_format() const { return ""; }
  // The memory of a range of the context pool, null where the host cannot reach it; and of a range
  // of the host pool. Any thread may use it while nothing that the backend advances writes to it.
  virtual char* ContextMemory(const PoolRange& kv) { return nullptr; }
  virtual char* HostContextMemory(const PoolRange& host) { return nullptr; }
  // The state whose Bytes these are. DataLoss when they cannot be.
  virtual absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadEncoderState(
      const BackendModel& model, absl::string_view bytes) const {
    return absl::UnimplementedError("this backend does not read states of row encoders");
  }

  // Exact bytes, multiples of the pools' alignment (64 bytes or more): in the context pool for a
  // context of `rows` rows; in the buffer pool for a decode and for a density of `paths` paths over
  // `targets` targets.
  virtual int64_t ContextBytes(const ModelConfig& config, int64_t rows) const = 0;
  virtual int64_t BufferBytes(const ModelConfig& config, int64_t targets, int64_t paths) const = 0;
  virtual int64_t DensityBytes(const ModelConfig& config, int64_t targets, int64_t paths) const = 0;

  // Likewise in the buffer pool for the encoded rows of a request and for point predictions of
  // `rows` of them, and in the encode pool for a context while it is encoded. 0 where the backend
  // uses host memory instead: it gets an empty range then.
  virtual int64_t RowsBytes(const ModelConfig& config, int64_t targets) const { return 0; }
  virtual int64_t PredictBytes(const ModelConfig& config, int64_t rows) const { return 0; }
  virtual int64_t EncodeBytes(const ModelConfig& config, int64_t rows) const { return 0; }

  // Unavailable when something that the model needs is not on this machine: it can be left out and
  // others be served. The message is a whole sentence that says what to install. Any other error
  // says that the model cannot be served here, or that the device failed: InvalidArgument for a
  // shape that the backend does not take, ResourceExhausted where there is no room.
  virtual absl::StatusOr<std::shared_ptr<const BackendModel>> AddModel(const Model& model) = 0;
  // Forgets what the backend itself keeps for the model. No work of it is left, and the caller is
  // about to drop the last reference; its memory is free for other models then.
  virtual void RemoveModel(const BackendModel& model) {}

  // `features` are normalised; y [rows] is in the model's target units. `workspace` is
  // EncodeBytes(model, rows) of the encode pool, for as long as the work lives.
  virtual std::unique_ptr<EncodeWork> NewEncode(std::shared_ptr<const BackendModel> model,
                                                FeatureMatrix features, std::vector<float> y,
                                                PoolRange kv, PoolRange workspace) = 0;
  // `buffer` is RowsBytes(model, rows) of the buffer pool, for as long as the encoded rows live.
  virtual std::unique_ptr<RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                            FeatureMatrix features, PoolRange buffer) = 0;
  virtual std::unique_ptr<DecodeWork> NewDecode(DecodeSpec spec) = 0;
  virtual std::unique_ptr<DensityWork> NewDensity(DensitySpec spec) = 0;
  virtual std::unique_ptr<PredictWork> NewPredict(PredictSpec spec) = 0;

  // Copies a resident context's bytes to a range of the host pool, or back to a range of the
  // context pool, a bounded number of bytes a step. A host copy is only good for copying back.
  // REQUIRES: a range of the host pool is read only after all of it was written.
  virtual std::unique_ptr<Work> NewContextCopy(PoolRange kv, PoolRange host,
                                               CopyDirection direction) {
    return nullptr;
  }

  // Advances each slice's work by max_steps steps, or until it is done, and returns when all have
  // finished. Work appears at most once in `slices`. An error means that the device failed: the
  // engine stops.
  virtual absl::Status Advance(absl::Span<const Slice> slices) = 0;

  // Between two Advances, while there is nothing to advance: whether the device still answers. An
  // error means what it means of Advance.
  virtual absl::Status CheckDevice() { return absl::OkStatus(); }

  // The bytes are no longer used: they are cleared before anybody can read them again, and returned
  // to the operating system where possible.
  virtual void ReleaseContext(PoolRange range) = 0;
  virtual void ReleaseBuffer(PoolRange range) = 0;
  virtual void ReleaseEncode(PoolRange range) {}
};

}  // namespace chorale

#endif  // CHORALE_ENGINE_BACKEND_BACKEND_H_
