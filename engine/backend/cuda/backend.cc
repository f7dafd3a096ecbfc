#include "engine/backend/cuda/backend.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/require.h"
#include "base/status_macros.h"
#include "engine/backend/cuda/context_copy.h"
#include "engine/backend/cuda/context_layout.h"
#include "engine/backend/cuda/decode_runner.h"
#include "engine/backend/cuda/decode_work.h"
#include "engine/backend/cuda/decode_workspace.h"
#include "engine/backend/cuda/density_work.h"
#include "engine/backend/cuda/device/device.h"
#include "engine/backend/cuda/device_slice.h"
#include "engine/backend/cuda/encode_work.h"
#include "engine/backend/cuda/kernel_shape.h"
#include "engine/backend/cuda/launchable.h"
#include "engine/backend/cuda/memory_encode_work.h"
#include "engine/backend/cuda/memory_workspace.h"
#include "engine/backend/cuda/model.h"
#include "engine/backend/cuda/path_buffer.h"
#include "engine/backend/cuda/predict_work.h"
#include "engine/backend/cuda/query_rows_work.h"
#include "engine/backend/cuda/rows_workspace.h"
#include "engine/backend/memory_plan.h"
#include "kernels/cpu/target.h"
#include "kernels/cuda/gemm/gemm_library.h"
#include "kernels/cuda/layout/tile.h"

namespace chorale::cuda {
namespace {

// Thread contract: see Backend.
class Backend : public chorale::Backend {
 public:
  Backend(std::unique_ptr<Device> device, const BackendOptions& options)
      : device_(std::move(device)),
        cublaslt_(options.cublaslt),
        least_tiles_of_all_layers_(options.least_tiles_of_all_layers),
        decode_runner_(*device_) {}

  BackendInfo info() const override { return {"cuda", device_->properties().name, 1}; }
  std::vector<DeviceMemoryPart> DeviceMemory() const override { return device_->MemoryParts(); }
  std::string description() const override {
    const kernels::cuda::DeviceProperties& gpu = device_->properties();
    return absl::StrCat("cuda ", gpu.name, ", ", gpu.multiprocessors, " multiprocessors");
  }
  // More tiles than keep all multiprocessors busy would make a step longer, without lowering its
  // cost per tile.
  TickPolicy tick_policy() const override {
    return {.max_slices = 2 * static_cast<int64_t>(device_->properties().multiprocessors),
            .target_tick = absl::Milliseconds(4),
            .decodes_in_step = true};
  }
  int64_t tile_paths() const override { return kernels::cuda::kTilePaths; }
  int64_t density_paths(const ModelConfig& config, int64_t positions) const override {
    return DensityPaths(ShapeOf(config), positions, device_->properties().multiprocessors);
  }
  int64_t context_pool_bytes() const override { return device_->context_pool_bytes(); }
  int64_t buffer_pool_bytes() const override { return device_->buffer_pool_bytes(); }
  int64_t encode_pool_bytes() const override { return device_->encode_pool_bytes(); }
  int64_t host_context_pool_bytes() const override { return device_->host_context_pool_bytes(); }

  std::string kv_format() const override {
    return absl::StrCat(description(), ", bfloat16, row encoder ", kernels::SimdTargetName(), ", ",
                        CHORALE_BUILD_VERSION);
  }
  char* HostContextMemory(const PoolRange& host) override { return device_->HostContextAt(host); }
  absl::StatusOr<std::shared_ptr<const RowEncoderState>> ReadEncoderState(
      const BackendModel& model, absl::string_view bytes) const override {
    return AsDeviceModel(model).row_encoder().ReadState(bytes);
  }

  bool memory_sets() const override { return true; }
  bool appends() const override { return true; }
  int64_t ContextBytes(const ModelConfig& config, const ContextShape& context) const override {
    return ContextLayout(ShapeOf(config), context).bytes();
  }
  int64_t BufferBytes(const ModelConfig& config, int64_t positions, int64_t paths) const override {
    return PathBufferLayout(ShapeOf(config), positions, paths, PathBufferLayout::Use::kDecode)
        .bytes;
  }
  int64_t DensityBytes(const ModelConfig& config, int64_t positions, int64_t paths) const override {
    return PathBufferLayout(ShapeOf(config), positions, paths, PathBufferLayout::Use::kDensity)
        .bytes;
  }
  int64_t RowsBytes(const ModelConfig& config, int64_t query_rows) const override {
    return cuda::RowsBytes(ShapeOf(config), query_rows);
  }
  int64_t PredictBytes(const ModelConfig& config, int64_t rows) const override {
    return RowsWorkspaceLayout(ShapeOf(config), rows, RowsWorkspaceLayout::Use::kPredict).bytes;
  }
  int64_t EncodeBytes(const ModelConfig& config, const ContextShape& context) const override {
    if (context.reduced()) {
      return MemoryWorkspaceLayout(ShapeOf(config), context, MemoryPlan(config, context)).bytes;
    }
    return RowsWorkspaceLayout(ShapeOf(config), context.rows, RowsWorkspaceLayout::Use::kEncode)
        .bytes;
  }

  absl::StatusOr<std::shared_ptr<const BackendModel>> AddModel(const Model& model) override {
    const KernelShape shape = ShapeOf(model.config);
    // Checked first, because no library helps if neither form supports the model.
    RETURN_IF_ERROR(shape.Check(model.config, device_->properties()));
    if (!shape.fused) RETURN_IF_ERROR(OpenGemms(model.config));
    ASSIGN_OR_RETURN(
        std::shared_ptr<const DeviceModel> added,
        DeviceModel::Create(model, *device_, gemms_.get(), least_tiles_of_all_layers_));
    RETURN_IF_ERROR(CheckRoom(*added));
    models_.push_back(added);
    decode_runner_.Prepare(*added);
    return device_->status().ok()
               ? absl::StatusOr<std::shared_ptr<const BackendModel>>(std::move(added))
               : device_->status();
  }

  void RemoveModel(const BackendModel& model) override {
    device_->Wait();
    decode_runner_.Forget(AsDeviceModel(model));
    std::erase_if(models_, [&](const auto& known) { return known.get() == &model; });
  }

  std::unique_ptr<chorale::EncodeWork> NewEncode(EncodeSpec spec) override {
    Require(spec.kv.bytes >= ContextBytes(spec.model->config(), spec.shape()),
            "the range holds the context");
    if (spec.shape().reduced()) {
      return std::make_unique<MemoryEncodeWork>(std::move(spec), *device_);
    }
    return std::make_unique<EncodeWork>(std::move(spec), *device_);
  }
  std::unique_ptr<chorale::RowsWork> NewRows(std::shared_ptr<const ResidentContext> context,
                                             FeatureMatrix features, PoolRange buffer) override {
    return std::make_unique<EncodeQueryRowsWork>(std::move(context), std::move(features), buffer,
                                                 *device_);
  }
  std::unique_ptr<chorale::DecodeWork> NewDecode(DecodeSpec spec) override {
    return std::make_unique<DecodeWork>(std::move(spec), *device_);
  }
  std::unique_ptr<chorale::DensityWork> NewDensity(DensitySpec spec) override {
    return std::make_unique<DensityWork>(std::move(spec), *device_);
  }
  std::unique_ptr<chorale::PredictWork> NewPredict(PredictSpec spec) override {
    return std::make_unique<PredictWork>(std::move(spec), *device_);
  }

  std::unique_ptr<Work> NewContextCopy(PoolRange kv, PoolRange host,
                                       CopyDirection direction) override {
    Require(host.bytes >= kv.bytes, "the host's range holds the context");
    return std::make_unique<ContextCopy>(kv, host, direction);
  }

  absl::Status Advance(absl::Span<const Slice> slices) override;
  absl::Status CheckDevice() override;

  void ReleaseContext(PoolRange range) override { device_->ClearContext(range); }
  void ReleaseBuffer(PoolRange range) override { device_->ClearBuffer(range); }
  void ReleaseEncode(PoolRange range) override { device_->ClearEncode(range); }

 private:
  KernelShape ShapeOf(const ModelConfig& config) const { return {config, device_->properties()}; }
  // Opens cuBLASLt, unless it is open. Returns Unavailable, with the remedy, if it cannot be used.
  absl::Status OpenGemms(const ModelConfig& config);
  absl::Status CheckRoom(const DeviceModel& model) const;
  void Decode(std::vector<DeviceSlice<DecodeWork>> slices);
  void RunRows(const std::vector<DeviceSlice<Launchable>>& slices);

  const std::unique_ptr<Device> device_;
  const std::string cublaslt_;                         // see BackendOptions
  const int64_t least_tiles_of_all_layers_;            // see BackendOptions
  std::unique_ptr<kernels::cuda::GemmLibrary> gemms_;  // null until a model needs it
  // Models remain here until they are removed, because graphs identify a model by its address.
  std::vector<std::shared_ptr<const DeviceModel>> models_;
  DecodeRunner decode_runner_;
};

absl::Status Backend::OpenGemms(const ModelConfig& config) {
  if (gemms_ != nullptr) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<kernels::cuda::GemmLibrary>> opened =
      kernels::cuda::GemmLibrary::Open(cublaslt_);
  if (!opened.ok()) {
    return absl::UnavailableError(
        absl::StrCat("a model with d_model ", config.d_model, " and d_ff ", config.d_ff,
                     " requires cuBLASLt: ", opened.status().message(),
                     "; install cuBLAS of CUDA 12 or newer (package libcublas), or set --cublaslt "
                     "to its libcublasLt.so"));
  }
  gemms_ = *std::move(opened);
  return absl::OkStatus();
}

absl::Status Backend::Advance(absl::Span<const Slice> slices) {
  std::vector<DeviceSlice<DecodeWork>> decodes;
  std::vector<DeviceSlice<Launchable>> others;
  for (const Slice& slice : slices) {
    Require(slice.max_steps >= 1, "a slice has at least one step");
    if (auto* decode = dynamic_cast<DecodeWork*>(slice.work); decode != nullptr) {
      if (!decode->done()) {
        decodes.push_back({decode, std::min(slice.max_steps, decode->steps_at_this_cost())});
      }
      continue;
    }
    auto* work = dynamic_cast<Launchable*>(slice.work);
    Require(work != nullptr, "the work belongs to the GPU backend");
    if (!slice.work->done()) others.push_back({work, slice.max_steps});
  }
  RunRows(others);
  Decode(std::move(decodes));
  device_->Wait();
  if (!device_->status().ok()) return device_->status();
  for (const auto& [work, steps] : others) work->Collect();
  return absl::OkStatus();
}

absl::Status Backend::CheckDevice() {
  device_->Probe();
  return device_->status();
}

// Enqueues all work except decodes, before the decodes and on the same stream. Steps are bounded,
// so no decode waits for a whole context: with a context of 65,536 rows, a step takes about a
// millisecond, or several in a wide model. A second stream would not help, because these kernels
// fill the GPU.
void Backend::RunRows(const std::vector<DeviceSlice<Launchable>>& slices) {
  for (const auto& [work, steps] : slices) work->Run(steps, device_->launch_workspace());
}

// Checks that no pool is too small for any work of the model, so that the error occurs when the
// model is added.
absl::Status Backend::CheckRoom(const DeviceModel& model) const {
  const ModelConfig& config = model.config();
  const int64_t tile =
      BufferBytes(config, config.buffer_size, tile_paths()) + RowsBytes(config, config.buffer_size);
  const auto check = [](absl::string_view what, int64_t needed, absl::string_view part,
                        int64_t available) {
    if (needed <= available) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(what, " of this model needs ", needed,
                                                     " bytes of the GPU's memory for ", part,
                                                     ", which are ", available));
  };
  for (const absl::Status& s : {check("the smallest context", ContextBytes(config, {.rows = 1}),
                                      "contexts", context_pool_bytes()),
                                check("the smallest context", EncodeBytes(config, {.rows = 1}),
                                      "encoding", encode_pool_bytes()),
                                check("a tile over as many query rows as it was trained for", tile,
                                      "buffers", buffer_pool_bytes()),
                                check("a tile", DecodeWorkspace::TileBytes(model), "workspace",
                                      device_->launch_workspace().bytes),
                                check("the row encoder", model.row_encoder().memory_bytes(),
                                      "workspace", device_->launch_workspace().bytes)}) {
    RETURN_IF_ERROR(s);
  }
  return absl::OkStatus();
}

// Decodes one model after the other. Within a model, the order of the slices is kept.
void Backend::Decode(std::vector<DeviceSlice<DecodeWork>> slices) {
  while (!slices.empty()) {
    const DeviceModel* const model = &slices.front().work->model();
    const auto rest = std::stable_partition(
        slices.begin(), slices.end(),
        [&](const DeviceSlice<DecodeWork>& slice) { return &slice.work->model() == model; });
    decode_runner_.Run({slices.begin(), rest});
    slices.erase(slices.begin(), rest);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<chorale::Backend>> NewBackend(const BackendOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<Device> device, Device::Open(options.memory));
  return std::make_unique<Backend>(std::move(device), options);
}

}  // namespace chorale::cuda
