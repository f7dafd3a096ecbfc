#include "tests/engine/fake_backend.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace chorale::testing {
namespace {

class FakeModel : public BackendModel {
 public:
  FakeModel(const Model& model, FakeBackendLog* log)
      : config_(model.config), wide_(IsWide(model)), version_(log->library_version), log_(log) {
    ++log_->live_models;
  }
  ~FakeModel() override {
    EXPECT_EQ(std::this_thread::get_id(), thread_) << "only one thread may free weights";
    --log_->live_models;
  }
  const ModelConfig& config() const override { return config_; }
  std::string form() const override { return wide_ ? "unfused" : "fused"; }
  std::string kv_format() const override { return wide_ ? absl::StrCat("library ", version_) : ""; }

  static bool IsWide(const Model& model) { return absl::StartsWith(model.name, "wide"); }

 private:
  const ModelConfig config_;
  const bool wide_;
  const int64_t version_;  // of the library
  FakeBackendLog* const log_;
  const std::thread::id thread_ = std::this_thread::get_id();
};

class FakeRows : public EncodedRows {
 public:
  explicit FakeRows(int64_t rows) : rows_(rows) {}
  int64_t rows() const override { return rows_; }

 private:
  const int64_t rows_;
};

// What all pieces of fake work have.
class Steps {
 public:
  Steps(int64_t steps, FakeBackendLog* log) : total_(steps), log_(log) { ++log_->live_work; }
  virtual ~Steps() { --log_->live_work; }
  virtual void Step() { ++done_steps_; }
  bool finished() const { return done_steps_ == total_; }

 protected:
  int64_t done_steps_ = 0;
  const int64_t total_;
  FakeBackendLog* const log_;
};

template <typename Base>
class FakeWork : public Base, public Steps {
 public:
  FakeWork(int64_t steps, FakeBackendLog* log) : Steps(steps, log) {}
  bool done() const override { return finished(); }
  double next_step_flops() const override { return 1000; }
  int64_t steps_at_this_cost() const override { return total_ - done_steps_; }
};

// The keys and values of a context are the number of its rows, again and again.
struct FakeMemory {
  std::vector<char> contexts;
  std::vector<char> host;

  void Encode(const PoolRange& kv, int64_t rows) {
    for (int64_t at = 0; at + 8 <= kv.bytes; at += 8) {
      std::memcpy(contexts.data() + kv.offset + at, &rows, 8);
    }
  }
  // The rows of the context that lies there; -1 when it is none, or not whole.
  int64_t RowsAt(const PoolRange& kv) const {
    int64_t rows = -1;
    for (int64_t at = 0; at + 8 <= kv.bytes; at += 8) {
      int64_t found = 0;
      std::memcpy(&found, contexts.data() + kv.offset + at, 8);
      if (at > 0 && found != rows) return -1;
      rows = found;
    }
    return rows;
  }
};

class FakeEncode : public FakeWork<EncodeWork> {
 public:
  FakeEncode(std::shared_ptr<const BackendModel> model, int64_t rows, PoolRange kv, int64_t steps,
             FakeMemory* memory, FakeBackendLog* log)
      : FakeWork(steps, log), context_{std::move(model), nullptr, kv, rows}, memory_(memory) {}
  ResidentContext TakeContext() override { return context_; }
  void Step() override {
    Steps::Step();
    if (finished()) memory_->Encode(context_.kv, context_.rows);
  }

 private:
  const ResidentContext context_;
  FakeMemory* const memory_;
};

class FakeRowsWork : public FakeWork<RowsWork> {
 public:
  FakeRowsWork(int64_t rows, FakeBackendLog* log) : FakeWork(1, log), rows_(rows) {}
  std::shared_ptr<const EncodedRows> TakeRows() override {
    return std::make_shared<FakeRows>(rows_);
  }

 private:
  const int64_t rows_;
};

int64_t QueryRowAt(const TileSpec& tile, int64_t path, int64_t position) {
  return tile.order.empty() ? position : tile.order[path * tile.query_rows->rows() + position];
}

// One component: mean = the query row's number, standard deviation 2.
struct FakeMixture {
  double mean = 0;
  double std = 2;
  double log_weight = 0;
  MixtureSpan Span() const {
    return {absl::MakeConstSpan(&mean, 1), absl::MakeConstSpan(&std, 1),
            absl::MakeConstSpan(&log_weight, 1)};
  }
};

std::vector<FakeMixture> MixturesOf(int64_t first, int64_t rows) {
  std::vector<FakeMixture> mixtures(rows);
  for (int64_t i = 0; i < rows; ++i) mixtures[i].mean = static_cast<double>(first + i);
  return mixtures;
}

class FakeDecode : public FakeWork<DecodeWork> {
 public:
  FakeDecode(DecodeSpec spec, FakeBackendLog* log)
      : FakeWork(spec.tile.query_rows->rows(), log),
        spec_(std::move(spec)),
        values_(total_ * spec_.tile.paths),
        log_densities_(values_.size()),
        mixtures_(MixturesOf(0, total_)) {}

  int64_t steps_done() const override { return done_steps_; }
  absl::Span<const float> values() const override { return values_; }
  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t position) const override {
    return mixtures_[QueryRowAt(spec_.tile, path, position)].Span();
  }
  void Step() override {
    const int64_t paths = spec_.tile.paths;
    for (int64_t path = 0; path < paths; ++path) {
      const int64_t at = done_steps_ * paths + path;
      values_[at] = spec_.forced_values.empty()
                        ? FakeValue(spec_.seed, spec_.first_path + path, done_steps_)
                        : spec_.forced_values[at];
      log_densities_[at] =
          FakeLogDensity(values_[at], done_steps_, QueryRowAt(spec_.tile, path, done_steps_));
    }
    ++log_->decode_steps;
    Steps::Step();
  }

 private:
  const DecodeSpec spec_;
  std::vector<float> values_;
  std::vector<double> log_densities_;
  const std::vector<FakeMixture> mixtures_;
};

class FakeDensity : public FakeWork<DensityWork> {
 public:
  FakeDensity(DensitySpec spec, FakeBackendLog* log)
      : FakeWork(spec.tile.paths, log),
        spec_(std::move(spec)),
        log_densities_(spec_.values.size()),
        mixtures_(MixturesOf(0, spec_.tile.query_rows->rows())) {}

  absl::Span<const double> log_densities() const override { return log_densities_; }
  MixtureSpan mixture(int64_t path, int64_t position) const override {
    return mixtures_[QueryRowAt(spec_.tile, path, position)].Span();
  }
  void Step() override {
    const int64_t path = done_steps_;
    for (int64_t position = 0; position < spec_.tile.query_rows->rows(); ++position) {
      const int64_t at = position * spec_.tile.paths + path;
      log_densities_[at] =
          FakeLogDensity(spec_.values[at], position, QueryRowAt(spec_.tile, path, position));
    }
    Steps::Step();
  }

 private:
  const DensitySpec spec_;
  std::vector<double> log_densities_;
  const std::vector<FakeMixture> mixtures_;
};

class FakeCopy : public FakeWork<Work> {
 public:
  FakeCopy(PoolRange kv, PoolRange host, CopyDirection direction, int64_t steps, FakeMemory* memory,
           FakeBackendLog* log)
      : FakeWork(steps, log), kv_(kv), host_(host), direction_(direction), memory_(memory) {}
  WorkKind kind() const override { return WorkKind::kCopy; }
  void Step() override {
    Steps::Step();
    if (!finished()) return;
    char* const kv = memory_->contexts.data() + kv_.offset;
    char* const host = memory_->host.data() + host_.offset;
    const bool saves = direction_ == CopyDirection::kToHost;
    std::memcpy(saves ? host : kv, saves ? kv : host, static_cast<size_t>(kv_.bytes));
  }

 private:
  const PoolRange kv_;
  const PoolRange host_;
  const CopyDirection direction_;
  FakeMemory* const memory_;
};

class FakePredict : public FakeWork<PredictWork> {
 public:
  FakePredict(const PredictSpec& spec, FakeBackendLog* log)
      : FakeWork(1, log), mixtures_(MixturesOf(spec.first_row, spec.rows)) {}
  MixtureSpan mixture(int64_t row) const override { return mixtures_[row].Span(); }

 private:
  const std::vector<FakeMixture> mixtures_;
};

// Thread contract: that of Backend.
class FakeBackend : public Backend {
 public:
  FakeBackend(const FakeBackendOptions& options, FakeBackendLog* log)
      : memory_{std::vector<char>(options.context_pool_bytes),
                std::vector<char>(options.host_context_pool_bytes)},
        options_(options),
        log_(log) {}
  ~FakeBackend() override { EXPECT_EQ(log_->live_work, 0) << "work outlived the backend"; }

  BackendInfo info() const override { return {"fake", "none", 4}; }
  std::string description() const override { return "fake"; }
  TickPolicy tick_policy() const override {
    return {.max_slices = 4, .decodes_in_step = options_.decodes_in_step};
  }
  int64_t tile_paths() const override { return options_.tile_paths; }
  int64_t density_paths(const ModelConfig& config, int64_t query_rows) const override {
    return options_.density_tiles * options_.tile_paths;
  }
  int64_t context_pool_bytes() const override { return options_.context_pool_bytes; }
  int64_t buffer_pool_bytes() const override { return options_.buffer_pool_bytes; }
  int64_t encode_pool_bytes() const override { return options_.encode_pool_bytes; }
  int64_t host_context_pool_bytes() const override { return options_.host_context_pool_bytes; }
  std::string kv_format() const override { return "fake"; }
  char* ContextMemory(const PoolRange& kv) override {
    return options_.host_reaches_contexts ? memory_.contexts.data() + kv.offset : nullptr;
  }
  char* HostContextMemory(const PoolRange& host) override {
    return memory_.host.data() + host.offset;
  }
  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadEncoderState(
      const BackendModel& model, absl::string_view bytes) const override {
    if (!bytes.empty()) return absl::DataLossError("the fake has no state");
    return nullptr;
  }
  int64_t RowsBytes(const ModelConfig& config, int64_t query_rows) const override {
    return query_rows * options_.rows_bytes_per_row;
  }
  int64_t PredictBytes(const ModelConfig& config, int64_t rows) const override {
    return rows * options_.predict_bytes_per_row;
  }
  int64_t EncodeBytes(const ModelConfig& config, int64_t rows) const override {
    return rows * options_.encode_bytes_per_row;
  }
  int64_t ContextBytes(const ModelConfig& config, int64_t rows) const override {
    return rows * options_.context_bytes_per_row;
  }
  int64_t BufferBytes(const ModelConfig& config, int64_t query_rows, int64_t paths) const override {
    return query_rows * paths * options_.buffer_bytes_per_value;
  }
  int64_t DensityBytes(const ModelConfig& config, int64_t rows, int64_t paths) const override {
    const int64_t tiles = (paths + options_.tile_paths - 1) / options_.tile_paths;
    return rows * tiles * options_.density_bytes_per_row;
  }
  absl::StatusOr<std::shared_ptr<const BackendModel>> AddModel(const Model& model) override {
    if (log_->refuse_models) return absl::ResourceExhaustedError("no room for weights");
    if (log_->lacks_library && FakeModel::IsWide(model)) {
      return absl::UnavailableError("Install the library.");
    }
    return std::make_shared<const FakeModel>(model, log_);
  }
  void RemoveModel(const BackendModel& model) override { ++log_->removed_models; }

  std::unique_ptr<EncodeWork> NewEncode(std::shared_ptr<const BackendModel> model,
                                        FeatureMatrix features, std::vector<float> y, PoolRange kv,
                                        PoolRange workspace) override {
    ++log_->encodings;
    EXPECT_EQ(features.rows, static_cast<int64_t>(y.size()));
    EXPECT_EQ(kv.bytes, ContextBytes(model->config(), features.rows));
    CheckRange(kv, options_.context_pool_bytes);
    EXPECT_GE(workspace.bytes, EncodeBytes(model->config(), features.rows));
    CheckRange(workspace, options_.encode_pool_bytes);
    return std::make_unique<FakeEncode>(std::move(model), features.rows, kv, options_.encode_steps,
                                        &memory_, log_);
  }
  std::unique_ptr<RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                    FeatureMatrix features, PoolRange buffer) override {
    EXPECT_EQ(memory_.RowsAt(context->kv), context->rows);
    EXPECT_EQ(buffer.bytes, RowsBytes(context->model->config(), features.rows));
    CheckRange(buffer, options_.buffer_pool_bytes);
    return std::make_unique<FakeRowsWork>(features.rows, log_);
  }
  std::unique_ptr<DecodeWork> NewDecode(DecodeSpec spec) override {
    const int64_t query_rows = spec.tile.query_rows->rows();
    EXPECT_LE(spec.tile.paths, options_.tile_paths);
    EXPECT_EQ(spec.buffer.bytes,
              BufferBytes(spec.tile.context->model->config(), query_rows, spec.tile.paths));
    CheckRange(spec.buffer, options_.buffer_pool_bytes);
    return std::make_unique<FakeDecode>(std::move(spec), log_);
  }
  std::unique_ptr<DensityWork> NewDensity(DensitySpec spec) override {
    EXPECT_LE(spec.tile.paths, options_.density_tiles * options_.tile_paths);
    EXPECT_EQ(spec.buffer.bytes, DensityBytes(spec.tile.context->model->config(),
                                              spec.tile.query_rows->rows(), spec.tile.paths));
    CheckRange(spec.buffer, options_.buffer_pool_bytes);
    return std::make_unique<FakeDensity>(std::move(spec), log_);
  }
  std::unique_ptr<PredictWork> NewPredict(PredictSpec spec) override {
    EXPECT_EQ(spec.buffer.bytes, PredictBytes(spec.context->model->config(), spec.rows));
    CheckRange(spec.buffer, options_.buffer_pool_bytes);
    return std::make_unique<FakePredict>(spec, log_);
  }

  std::unique_ptr<Work> NewContextCopy(PoolRange kv, PoolRange host,
                                       CopyDirection direction) override {
    ++(direction == CopyDirection::kToHost ? log_->saves : log_->restores);
    CheckRange(kv, options_.context_pool_bytes);
    CheckRange({host.offset, kv.bytes}, options_.host_context_pool_bytes);
    EXPECT_LE(kv.bytes, host.bytes);
    return std::make_unique<FakeCopy>(kv, host, direction, options_.copy_steps, &memory_, log_);
  }

  absl::Status CheckDevice() override {
    return log_->fail ? absl::UnknownError("the fake was told to fail") : absl::OkStatus();
  }

  absl::Status Advance(absl::Span<const Slice> slices) override {
    log_->PassGate();
    if (log_->on_advance) log_->on_advance(slices);
    ++log_->ticks;
    log_->most_slices = std::max<int64_t>(log_->most_slices, std::ssize(slices));
    std::set<Work*> seen;
    for (const Slice& slice : slices) {
      EXPECT_TRUE(seen.insert(slice.work).second) << "a piece of work appears twice";
      EXPECT_FALSE(slice.work->done());
      EXPECT_GE(slice.max_steps, 1);
    }
    absl::Status status;
    if (log_->fail) status = absl::UnknownError("the fake was told to fail");
    for (const Slice& slice : slices) {
      if (!status.ok()) break;
      Steps* steps = dynamic_cast<Steps*>(slice.work);
      for (int64_t i = 0; i < slice.max_steps && !steps->finished(); ++i) {
        log_->PassStepTime();
        steps->Step();
      }
    }
    LogDecodes(slices);
    log_->EndTick();
    return status;
  }

  void ReleaseContext(PoolRange range) override {
    std::memset(memory_.contexts.data() + range.offset, 0, static_cast<size_t>(range.bytes));
    log_->released_context_bytes += range.bytes;
  }
  void ReleaseBuffer(PoolRange range) override { log_->released_buffer_bytes += range.bytes; }
  void ReleaseEncode(PoolRange range) override { log_->released_encode_bytes += range.bytes; }

 private:
  void LogDecodes(absl::Span<const Slice> slices) {
    FakeBackendLog::DecodeTick tick;
    for (const Slice& slice : slices) {
      if (dynamic_cast<DecodeWork*>(slice.work) == nullptr) continue;
      ++tick.decodes;
      tick.steps = std::max(tick.steps, slice.max_steps);
    }
    for (const Slice& slice : slices) {
      if (dynamic_cast<DecodeWork*>(slice.work) == nullptr || slice.work->done()) continue;
      tick.together = tick.together && slice.max_steps == tick.steps;
    }
    if (tick.decodes > 0) log_->AddDecodeTick(tick);
  }

  static void CheckRange(const PoolRange& range, int64_t pool) {
    EXPECT_GE(range.offset, 0);
    EXPECT_LE(range.offset + range.bytes, pool);
  }

  FakeMemory memory_;
  const FakeBackendOptions options_;
  FakeBackendLog* const log_;
};

}  // namespace

void FakeBackendLog::CloseGate() {
  MutexLock lock(&mutex_);
  closed_ = true;
  allowed_ = 0;
}

void FakeBackendLog::AddDecodeTick(const DecodeTick& tick) {
  MutexLock lock(&mutex_);
  decode_ticks_.push_back(tick);
}

std::vector<FakeBackendLog::DecodeTick> FakeBackendLog::decode_ticks() {
  MutexLock lock(&mutex_);
  return decode_ticks_;
}

void FakeBackendLog::OpenGate() {
  MutexLock lock(&mutex_);
  closed_ = false;
  changed_.NotifyAll();
}

void FakeBackendLog::PassGate() {
  MutexLock lock(&mutex_);
  while (closed_ && allowed_ == 0) changed_.Wait(&mutex_);
  if (closed_) --allowed_;
}

void FakeBackendLog::LetThrough(int64_t ticks) {
  MutexLock lock(&mutex_);
  const int64_t end = ended_ + ticks;
  allowed_ = ticks;
  changed_.NotifyAll();
  while (ended_ < end) changed_.Wait(&mutex_);
}

void FakeBackendLog::EndTick() {
  MutexLock lock(&mutex_);
  ++ended_;
  changed_.NotifyAll();
}

float FakeValue(uint64_t seed, int64_t path, int64_t step) {
  return static_cast<float>(seed % 1000) + 10.0f * static_cast<float>(path) +
         0.125f * static_cast<float>(step);
}

float FakeLogDensity(float value, int64_t position, int64_t query_row) {
  return -0.5f * value - static_cast<float>(position) - 0.25f * static_cast<float>(query_row);
}

std::unique_ptr<Backend> NewFakeBackend(const FakeBackendOptions& options, FakeBackendLog* log) {
  return std::make_unique<FakeBackend>(options, log);
}

}  // namespace chorale::testing
