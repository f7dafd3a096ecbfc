// The work of the fake backend.
#ifndef CHORALE_TESTS_ENGINE_FAKE_WORK_H_
#define CHORALE_TESTS_ENGINE_FAKE_WORK_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/backend/backend.h"
#include "engine/backend/tile_requirements.h"
#include "gtest/gtest.h"
#include "tests/engine/fake_backend.h"
#include "tests/engine/used_ranges.h"

namespace chorale::testing {

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
  FakeRows(int64_t rows, UsedRanges::Use buffer) : rows_(rows), buffer_(std::move(buffer)) {}
  int64_t rows() const override { return rows_; }

 private:
  const int64_t rows_;
  const UsedRanges::Use buffer_;
};

// What all pieces of fake work have.
class Steps {
 public:
  Steps(int64_t steps, FakeBackendLog* log) : total_(steps), log_(log) { ++log_->live_work; }
  virtual ~Steps() { --log_->live_work; }
  virtual void Step() { ++done_steps_; }
  bool finished() const { return done_steps_ == total_; }
  // Keeps the ranges of the work until its end.
  void Keep(std::vector<UsedRanges::Use> uses) { uses_ = std::move(uses); }

 protected:
  int64_t done_steps_ = 0;
  const int64_t total_;
  FakeBackendLog* const log_;

 private:
  std::vector<UsedRanges::Use> uses_;
};

template <typename Base>
class FakeWork : public Base, public Steps {
 public:
  FakeWork(int64_t steps, FakeBackendLog* log) : Steps(steps, log) {}
  bool done() const override { return finished(); }
  double next_step_flops() const override { return 1000; }
  int64_t steps_at_this_cost() const override { return total_ - done_steps_; }
};

// The state of the row encoder of a context with appended rows: its keys and values.
class FakeAppendedState : public RowEncoderState {
 public:
  explicit FakeAppendedState(int64_t content) : content_(content) {}
  std::string Bytes() const override { return absl::StrCat(content_); }
  int64_t content() const { return content_; }

 private:
  const int64_t content_;
};

// The keys and values of a context are a number that identifies its shape and its appends, again
// and again.
struct FakeMemory {
  std::vector<char> contexts;
  std::vector<char> host;

  // The number of rows; of a memory set, also its size and policy.
  static int64_t ContentOf(const ContextShape& shape) {
    if (!shape.reduced()) return shape.rows;
    const auto policy = static_cast<int64_t>(shape.memory.policy);
    return shape.rows + (shape.memory.rows << 24) + (policy << 48);
  }

  static int64_t ContentOf(const ResidentContext& context) {
    const auto* const state = static_cast<const FakeAppendedState*>(context.encoder_state.get());
    return state == nullptr ? ContentOf(context.shape) : state->content();
  }
  // That of a context with this content and `rows` rows in all, after an append.
  static int64_t ContentAfterAppend(int64_t content, int64_t rows) {
    constexpr int64_t kFactor = 1'000'003;
    constexpr int64_t kBound = int64_t{1} << 40;
    return (content % kBound * kFactor + rows) % kBound;
  }

  void Encode(const PoolRange& kv, int64_t content) {
    for (int64_t at = 0; at + 8 <= kv.bytes; at += 8) {
      std::memcpy(contexts.data() + kv.offset + at, &content, 8);
    }
  }
  // The content of the context that lies there; -1 when it is none, or not whole.
  int64_t ContentAt(const PoolRange& kv) const {
    int64_t content = -1;
    for (int64_t at = 0; at + 8 <= kv.bytes; at += 8) {
      int64_t found = 0;
      std::memcpy(&found, contexts.data() + kv.offset + at, 8);
      if (at > 0 && found != content) return -1;
      content = found;
    }
    return content;
  }
};

class FakeEncode : public FakeWork<EncodeWork> {
 public:
  FakeEncode(const EncodeSpec& spec, int64_t steps, FakeMemory* memory, FakeBackendLog* log)
      : FakeWork(steps, log),
        context_{spec.model, nullptr, spec.kv, spec.shape()},
        append_starts_(spec.append_starts),
        prefix_(spec.prefix),
        memory_(memory) {}
  ResidentContext TakeContext() override {
    if (append_starts_.empty()) return context_;
    ResidentContext context = context_;
    context.encoder_state =
        std::make_shared<const FakeAppendedState>(memory_->ContentAt(context_.kv));
    return context;
  }
  void Step() override {
    Steps::Step();
    if (finished()) memory_->Encode(context_.kv, Content());
  }

 private:
  // The content of the first block, or that of the prefix as it is in memory, and each append.
  int64_t Content() const {
    if (append_starts_.empty()) return FakeMemory::ContentOf(context_.shape);
    int64_t content = append_starts_.front();
    if (prefix_ != nullptr) content = memory_->ContentAt(prefix_->kv);
    for (size_t i = 0; i < append_starts_.size(); ++i) {
      if (prefix_ != nullptr && append_starts_[i] < prefix_->shape.rows) continue;
      const bool last = i + 1 == append_starts_.size();
      content = FakeMemory::ContentAfterAppend(content,
                                               last ? context_.shape.rows : append_starts_[i + 1]);
    }
    return content;
  }

  const ResidentContext context_;
  const std::vector<int64_t> append_starts_;
  const std::shared_ptr<const ResidentContext> prefix_;
  FakeMemory* const memory_;
};

class FakeRowsWork : public FakeWork<RowsWork> {
 public:
  FakeRowsWork(int64_t rows, UsedRanges::Use buffer, FakeBackendLog* log)
      : FakeWork(1, log), rows_(rows), buffer_(std::move(buffer)) {}
  std::shared_ptr<const EncodedRows> TakeRows() override {
    return std::make_shared<FakeRows>(rows_, buffer_);
  }

 private:
  const int64_t rows_;
  const UsedRanges::Use buffer_;
};

inline int64_t QueryRowAt(const TileSpec& tile, int64_t path, int64_t position) {
  return tile.order.empty() ? position : tile.order[path * tile.positions() + position];
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

inline std::vector<FakeMixture> MixturesOf(int64_t first, int64_t rows) {
  std::vector<FakeMixture> mixtures(rows);
  for (int64_t i = 0; i < rows; ++i) mixtures[i].mean = static_cast<double>(first + i);
  return mixtures;
}

class FakeDecode : public FakeWork<DecodeWork> {
 public:
  FakeDecode(DecodeSpec spec, FakeBackendLog* log)
      : FakeWork(RequirePositions(spec.tile), log),
        spec_(std::move(spec)),
        values_(total_ * spec_.tile.paths),
        log_densities_(values_.size()),
        mixtures_(MixturesOf(0, spec_.tile.query_rows->rows())) {
    RequirePathValues(spec_);
  }

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
      values_[at] = done_steps_ < spec_.forced_positions()
                        ? spec_.forced_values[at]
                        : FakeValue(spec_.seed, spec_.path_numbers[path], done_steps_);
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
    for (int64_t position = 0; position < spec_.tile.positions(); ++position) {
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

}  // namespace chorale::testing

#endif  // CHORALE_TESTS_ENGINE_FAKE_WORK_H_
