// Times the GPU backend, and holds its results to the CPU backend's before it does.
//
// Usage: gpu_bench --measure=decode|density|encode|memory|products [--point=b] [--rounds=N] ...
//
//   decode    microseconds per step: all tiles of B paths over T query rows in one Advance; with
//             --known_rows=N, over N more, whose values are known and come first
//   density   microseconds for the log-densities of B paths over T query rows, in one pass
//   encode    microseconds to encode a context of Nctx rows, or --appended_rows that are appended
//   to
//             it while it is resident; --model for another than the point's
//   memory    bytes on the device with pools of exactly the point's size, and by the formula
//   products  microseconds of a layer without attention, and of its products by cuBLASLt, for the
//             rows of the point's decode and for --product_rows (gemm_bench.h)
//
// The first three are wall times with all copies between host and device, and without the making of
// the works. Prints one JSON line when all is ready, then one for each round: the median of --runs
// runs behind one that is not counted. With --rounds=0 a round is run for each line of standard
// input, so that two programs can take turns on one device. Without a GPU it says so and ends with
// 0.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/integer_math.h"
#include "engine/backend/backend.h"
#include "engine/backend/cuda/backend.h"
#include "engine/model/model.h"
#include "kernels/cuda/layout/tile.h"
#include "kernels/cuda/runtime/runtime.h"
#include "nlohmann/json.hpp"
#include "tests/bench/bench_point.h"
#include "tests/bench/bench_session.h"
#include "tests/bench/gemm_bench.h"
#include "tests/bench/profiler_range.h"
#include "tests/bench/session_checks.h"

ABSL_FLAG(std::string, measure, "decode", "decode, density, encode, memory or products.");
ABSL_FLAG(
    std::string, point, "b",
    "A standard point: a to e, b_wide, c_wide, with _h32 for heads of 32 instead of 64; b_768, "
    "b_1024, tiny, tiny_hidden.");
ABSL_FLAG(int64_t, paths, 0, "Instead of the point's B.");
ABSL_FLAG(int64_t, context_rows, 0, "Instead of the point's Nctx.");
ABSL_FLAG(int64_t, query_rows, 0, "Instead of the point's T.");
ABSL_FLAG(int64_t, known_rows, 0,
          "Of --measure=decode: query rows of known values, beside those that are drawn.");
ABSL_FLAG(int64_t, memory_rows, 0,
          "Keys of a memory set; 0: one for each row. Needs --cpu_rows=0, since the CPU backend "
          "chooses other keys.");
ABSL_FLAG(
    int64_t, appended_rows, 0,
    "Of --measure=encode, without --memory_rows: the rows to encode, with the keys of the context "
    "copied; 0: all rows of the context.");
ABSL_FLAG(std::string, memory_policy, "merge", "merge, heavy or sample.");
ABSL_FLAG(std::string, model, "", "Folder of a model to use instead of the point's random one.");
ABSL_FLAG(int, rounds, 5, "Rounds; 0: one for each line of standard input.");
ABSL_FLAG(int, runs, 3, "Timed runs of a round.");
ABSL_FLAG(int64_t, weights_mib, 0, "MiB of the device for weights. 0: enough for the model.");
ABSL_FLAG(int64_t, workspace_mib, 1024, "MiB of the device for what kernels leave for each other.");
ABSL_FLAG(std::string, cublaslt, "",
          "File of libcublasLt, for models that need it. Empty: where the system has it.");
ABSL_FLAG(std::vector<std::string>, product_rows, std::vector<std::string>({"8192", "65536"}),
          "Of --measure=products, beside the rows of the point's decode.");
ABSL_FLAG(int64_t, cpu_rows, 8192,
          "Largest context that is also encoded by the CPU backend, to compare results. 0: none.");
ABSL_FLAG(double, bound, 0.02,
          "Largest mean difference from the CPU backend, and between a decode and densities in one "
          "pass: in nats of a log-density, or in the target's units of a prediction.");
ABSL_FLAG(bool, overlap, true, "Whether a kernel may begin before the one ahead has ended.");
ABSL_FLAG(bool, profile, false, "No rounds: one run, which a profiler is told to look at.");

namespace chorale {
namespace {

using Json = nlohmann::ordered_json;
using kernels::cuda::DeviceProperties;

constexpr uint64_t kSeed = 1;

void Print(const Json& line) { std::cout << line.dump() << std::endl; }

BenchPoint PointFromFlags() {
  std::optional<BenchPoint> point = FindBenchPoint(absl::GetFlag(FLAGS_point));
  if (!point) Fail(absl::StrCat("there is no point ", absl::GetFlag(FLAGS_point)));
  if (const int64_t paths = absl::GetFlag(FLAGS_paths); paths > 0) point->paths = paths;
  if (const int64_t rows = absl::GetFlag(FLAGS_context_rows); rows > 0) point->context_rows = rows;
  if (const int64_t query_rows = absl::GetFlag(FLAGS_query_rows); query_rows > 0)
    point->query_rows = query_rows;
  point->known_rows = absl::GetFlag(FLAGS_known_rows);
  point->query_rows += point->known_rows;
  point->memory = MemorySetOf(absl::GetFlag(FLAGS_memory_rows), absl::GetFlag(FLAGS_memory_policy));
  point->appended_rows = absl::GetFlag(FLAGS_appended_rows);
  if (point->appended_rows > 0 && absl::GetFlag(FLAGS_measure) != "encode") {
    Fail("--appended_rows needs --measure=encode");
  }
  if (point->known_rows > 0 && absl::GetFlag(FLAGS_measure) != "decode") {
    Fail("--known_rows needs --measure=decode");
  }
  return *point;
}

Model ModelFromFlags(const BenchPoint& point) {
  const std::string folder = absl::GetFlag(FLAGS_model);
  if (folder.empty()) return ModelOf(point);
  absl::StatusOr<Model> model = LoadModel(folder);
  if (!model.ok()) Fail(model.status().ToString());
  return *std::move(model);
}

// Without the flag, 64 MiB and what any form of the matrices takes: layers hold each weight three
// times as bfloat16, the unfused form's head three times.
int64_t WeightsBytes(const Model& model) {
  if (const int64_t mib = absl::GetFlag(FLAGS_weights_mib); mib > 0) return mib << 20;
  size_t weights = model.head.w1.size() + model.head.w2.size();
  for (const LayerWeights& layer : model.layers) {
    for (const std::vector<float>* matrix :
         {&layer.feature, &layer.wq, &layer.wk, &layer.wv, &layer.wo, &layer.w1, &layer.w2}) {
      weights += matrix->size();
    }
  }
  return (int64_t{64} << 20) + 6 * static_cast<int64_t>(weights);
}

std::unique_ptr<Backend> OpenGpu(const Model& model, const SessionBytes& bytes) {
  const int64_t works = std::max({bytes.decode, bytes.density, bytes.predict});
  absl::StatusOr<std::unique_ptr<Backend>> backend =
      cuda::NewBackend({.memory = {.context_pool_bytes = bytes.context + bytes.append,
                                   .buffer_pool_bytes = bytes.rows + works,
                                   .encode_pool_bytes = bytes.encode,
                                   .weights_bytes = WeightsBytes(model),
                                   .workspace_bytes = absl::GetFlag(FLAGS_workspace_mib) << 20},
                        .cublaslt = absl::GetFlag(FLAGS_cublaslt)});
  if (absl::IsUnavailable(backend.status())) {
    Print({{"skipped", backend.status().ToString()}});
    std::exit(0);
  }
  if (!backend.ok()) Fail(backend.status().ToString());
  return *std::move(backend);
}

// Only a backend can say what its pools are to hold; this one is closed again.
SessionBytes AskForBytes(const Model& model, const BenchPoint& point) {
  constexpr int64_t kSmall = 1 << 20;
  const std::unique_ptr<Backend> gpu =
      OpenGpu(model, {.context = kSmall, .encode = kSmall, .decode = kSmall});
  SessionBytes bytes = BytesOf(*gpu, model.config, point);
  // A backend takes no model of which it could not decode a whole tile.
  const int64_t positions = std::max(point.query_rows, model.config.buffer_size);
  bytes.rows = std::max(bytes.rows, gpu->RowsBytes(model.config, positions));
  bytes.decode =
      std::max(bytes.decode, gpu->BufferBytes(model.config, positions, gpu->tile_paths()));
  return bytes;
}

// A session on the GPU with pools of its size.
class Subject {
 public:
  Subject(const BenchPoint& point, const Model& model)
      : point_(point), model_(model), gpu_(OpenGpu(model, AskForBytes(model, point))) {
    session_ = std::make_unique<BenchSession>(gpu_.get(), model_, point_);
  }

  const BenchSession& session() const { return *session_; }

  const Backend& gpu() const { return *gpu_; }

  double Round(const std::string& measure, int runs) {
    std::vector<double> times;
    for (int run = -1; run < runs; ++run) {
      const double time = RunOnce(measure);
      if (run >= 0) times.push_back(time);
    }
    return Median(times);
  }

  double RunOnce(const std::string& measure) {
    if (measure == "encode") {
      const std::unique_ptr<EncodeWork> encode =
          point_.appended_rows > 0 ? session_->NewAppend() : session_->NewEncode();
      return Microseconds([&] { session_->Run({encode.get()}); });
    }
    if (measure == "density") {
      if (drawn_.empty()) {
        drawn_ = DrawnValues(*session_, kSeed);
      }
      const Works<DensityWork> densities = session_->NewDensities(drawn_);
      return Microseconds([&] { session_->Run(densities); });
    }
    const Works<DecodeWork> decodes = session_->NewDecodes(kSeed);
    return Microseconds([&] { session_->Run(decodes); }) / static_cast<double>(point_.query_rows);
  }

 private:
  const BenchPoint point_;
  const Model& model_;
  const std::unique_ptr<Backend> gpu_;
  std::unique_ptr<BenchSession> session_;
  std::vector<float> drawn_;
};

int64_t FreeDeviceBytes() {
  DeviceProperties properties;
  if (kernels::cuda::OpenDevice(&properties) != 0) Fail("the device cannot be opened");
  return properties.free_bytes;
}

// Everything that a session of the point takes on the device, and what the layout that keeps a
// context for each path would take.
void PrintMemory(const BenchPoint& point, const Model& model) {
  SessionBytes bytes = AskForBytes(model, point);
  bytes.density = bytes.predict = 0;  // not done here
  const int64_t free_before = FreeDeviceBytes();
  const std::unique_ptr<Backend> gpu = OpenGpu(model, bytes);
  const int64_t free_open = FreeDeviceBytes();
  const BenchSession session(gpu.get(), model, point);
  const Works<DecodeWork> decodes = session.NewDecodes(kSeed);
  session.Run(decodes);
  const int64_t free_after = FreeDeviceBytes();
  // Keys and values, bfloat16, of all layers.
  const int64_t row_bytes = 2 * 2 * model.config.n_layers * model.config.kv_width();
  const int64_t context_formula = row_bytes * point.context_rows;
  const int64_t buffer_formula = row_bytes * point.paths * point.query_rows;
  Print({{"measure", "memory"},
         {"point", point.name},
         {"B", point.paths},
         {"Nctx", point.context_rows},
         {"T", point.query_rows},
         {"device", gpu->description()},
         {"context_range_bytes", bytes.context},
         {"context_formula_bytes", context_formula},
         {"buffer_range_bytes", bytes.decode},
         {"buffer_formula_bytes", buffer_formula},
         {"encode_bytes", bytes.encode},
         {"rows_bytes", bytes.rows},
         {"weights_bytes", WeightsBytes(model)},
         {"workspace_bytes", absl::GetFlag(FLAGS_workspace_mib) << 20},
         {"device_bytes_of_pools", free_before - free_open},
         {"device_bytes_after_decode", free_before - free_after},
         {"replicated_formula_bytes", context_formula * point.paths + buffer_formula},
         {"shared_over_replicated",
          static_cast<double>(bytes.context + bytes.decode) /
              static_cast<double>(context_formula * point.paths + buffer_formula)}});
}

// Of the point's decode, in whole tiles, and of the flag.
std::vector<int64_t> GemmRows(const BenchPoint& point) {
  using kernels::cuda::kTileRows;
  std::vector<int64_t> all = {CeilDiv(point.paths, kernels::cuda::kTilePaths) * kTileRows};
  for (const std::string& text : absl::GetFlag(FLAGS_product_rows)) {
    int64_t rows = 0;
    if (!absl::SimpleAtoi(text, &rows) || rows <= 0 || rows % kTileRows != 0) {
      Fail(absl::StrCat("--product_rows: ", text, " is no multiple of ", kTileRows));
    }
    all.push_back(rows);
  }
  return all;
}

void PrintGemms(const BenchPoint& point, const Model& model) {
  int devices = 0;
  if (kernels::cuda::CountDevices(&devices) != 0 || devices == 0) {
    Print({{"skipped", "there is no GPU"}});
    return;
  }
  const GemmBench bench(model, {.cublaslt = absl::GetFlag(FLAGS_cublaslt),
                                .scratch_bytes = absl::GetFlag(FLAGS_workspace_mib) << 20,
                                .runs = std::max(1, absl::GetFlag(FLAGS_runs))});
  for (const int64_t rows : GemmRows(point)) {
    Json line = {{"measure", "products"}, {"point", point.name}};
    line.update(bench.Measure(rows));
    Print(line);
  }
}

// The same draws where no kernel overlaps another, on a backend of its own: what a backend has
// recorded stays as it was.
void HoldToNoOverlap(const Subject& subject, const Model& model) {
  kernels::cuda::SetOverlap(kernels::cuda::Overlap::kOff);
  const std::vector<float> expected =
      DrawnValues(Subject(subject.session().point(), model).session(), kSeed);
  kernels::cuda::SetOverlap(kernels::cuda::Overlap::kOn);
  if (DrawnValues(subject.session(), kSeed) != expected) {
    Fail("other values are drawn than by kernels that do not overlap");
  }
}

// Holds the results to each other and, if that does not take too long, to the CPU backend's.
Json Validate(const Subject& subject, const Model& model, const std::string& measure) {
  const BenchPoint& point = subject.session().point();
  Json facts = {{"device", subject.gpu().description()}};
  HoldToEachOther(subject.session(), kSeed, absl::GetFlag(FLAGS_bound));
  facts["values_compared_bitwise"] = point.paths * point.query_rows;
  facts["overlap"] = absl::GetFlag(FLAGS_overlap);
  if (absl::GetFlag(FLAGS_overlap) && measure == "decode") HoldToNoOverlap(subject, model);
  if (point.context_rows > absl::GetFlag(FLAGS_cpu_rows)) return facts;
  const Differences differences = measure == "encode"
                                      ? PredictionsFromCpu(subject.session(), model)
                                      : LogDensitiesFromCpu(subject.session(), model, kSeed,
                                                            /*in_one_pass=*/measure == "density");
  facts["mean_difference_from_cpu"] = differences.mean;
  facts["worst_difference_from_cpu"] = differences.worst;
  if (differences.mean > absl::GetFlag(FLAGS_bound)) {
    Fail(absl::StrCat("results differ from the CPU backend's by ", differences.mean,
                      " on average, ", differences.worst, " at worst"));
  }
  return facts;
}

void RunRounds(Subject& subject, const std::string& measure) {
  const int rounds = absl::GetFlag(FLAGS_rounds);
  const int runs = std::max(1, absl::GetFlag(FLAGS_runs));
  std::string line;
  for (int round = 0; rounds == 0 ? !!std::getline(std::cin, line) : round < rounds; ++round) {
    Print({{"us", subject.Round(measure, runs)}});
  }
}

int Main() {
  const std::string measure = absl::GetFlag(FLAGS_measure);
  if (measure != "decode" && measure != "density" && measure != "encode" && measure != "memory" &&
      measure != "products") {
    Fail(absl::StrCat("--measure: there is no ", measure));
  }
  const BenchPoint point = PointFromFlags();
  const Model model = ModelFromFlags(point);
  if (!absl::GetFlag(FLAGS_overlap)) kernels::cuda::SetOverlap(kernels::cuda::Overlap::kOff);
  if (measure == "memory") {
    PrintMemory(point, model);
    return 0;
  }
  if (measure == "products") {
    PrintGemms(point, model);
    return 0;
  }
  Subject subject(point, model);
  if (absl::GetFlag(FLAGS_profile)) {
    subject.RunOnce(measure);
    BeginProfile();
    subject.RunOnce(measure);
    EndProfile();
    return 0;
  }
  Json ready = {{"measure", measure},
                {"point", point.name},
                {"B", point.paths},
                {"Nctx", point.context_rows},
                {"memory_rows", point.memory.rows},
                {"appended_rows", point.appended_rows},
                {"T", point.query_rows},
                {"known_rows", point.known_rows},
                {"D", model.config.d_model},
                {"H", model.config.n_heads},
                {"model", model.name},
                {"floor_us", measure == "decode" ? point.floor_us : 0}};
  ready.update(Validate(subject, model, measure));
  Print(ready);
  RunRounds(subject, measure);
  return 0;
}

}  // namespace
}  // namespace chorale

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Times the GPU backend; prints JSON lines.");
  absl::ParseCommandLine(argc, argv);
  return chorale::Main();
}
