// The calls Sample, SampleStream and ValidateSample of Client.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cpp/client.h"
#include "client/cpp/connection.h"
#include "client/cpp/groups.h"
#include "client/cpp/known_values.h"
#include "client/cpp/path_weights.h"
#include "client/cpp/request_fields.h"

namespace chorale::client {
namespace {

v1::SampleRequest ToProto(const std::string& id, const DataFrame& rows,
                          const SampleOptions& options) {
  v1::SampleRequest request;
  SetPathFields(id, rows, options, &request);
  request.set_include_log_densities(options.step_densities == StepDensities::kInclude);
  request.set_first_path(options.first_path);
  request.set_whole_paths(options.whole_paths);
  request.set_float32_values(options.precision == Precision::kFloat32);
  if (HasTotals(options.known_totals)) *request.mutable_known_totals() = options.known_totals;
  return request;
}

absl::Status CheckRequest(const DataFrame& rows, const SampleOptions& options) {
  RETURN_IF_ERROR(CheckQueryRows(rows, options.known, options.group_sizes));
  if (options.first_path < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_path: ", options.first_path, ", must not be negative"));
  }
  if (options.first_path == 0 || options.seed.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("seed: is required, because first_path is ", options.first_path));
}

absl::Status Ignored(absl::string_view field) {
  return absl::UnimplementedError(
      absl::StrCat(field,
                   ": the server does not support this, because it is older than this "
                   "client: upgrade the server"));
}

// Unimplemented if the block shows that the server ignores first_path or whole_paths. It need not
// support precision.
absl::Status CheckDelivery(const v1::SampleBlock& block, const SampleOptions& options,
                           int64_t step_count) {
  const auto ignored = [&](int64_t path) { return path >= 0 && path < options.first_path; };
  const bool grouped = !options.group_sizes.empty();
  if (grouped ? std::any_of(block.paths().begin(), block.paths().end(), ignored)
              : ignored(block.first_path())) {
    return Ignored("first_path");
  }
  const bool partial = block.first_step() > 0 || (!grouped && block.step_count() < step_count);
  return options.whole_paths && partial ? Ignored("whole_paths") : absl::OkStatus();
}

using BlockHandler = absl::FunctionRef<absl::Status(const v1::SampleBlock&)>;

// The outcome of one attempt of a sampling stream.
struct StreamEnd {
  absl::Status status;
  bool delivered = false;  // at least one block was passed on
};

// Reads messages until the stream ends or `on_block` returns an error, which is returned.
absl::Status ReadBlocks(Call* call, grpc::ClientAsyncReader<v1::SampleResponse>* reader,
                        BlockHandler on_block, StreamEnd* end,
                        std::optional<v1::SampleSummary>* summary) {
  while (true) {
    v1::SampleResponse message;
    reader->Read(&message, Call::tag());
    if (!call->Wait()) return absl::OkStatus();
    if (message.has_summary()) *summary = std::move(*message.mutable_summary());
    for (const v1::SampleBlock& block : message.blocks().blocks()) {
      end->delivered = true;
      RETURN_IF_ERROR(on_block(block));
    }
  }
}

StreamEnd RunStream(v1::Chorale::Stub* stub, const v1::SampleRequest& request,
                    absl::string_view context_id, const Deadline& deadline,
                    const Cancellation* cancellation, BlockHandler on_block,
                    v1::SampleSummary* summary_out) {
  StreamEnd end;
  Call call(context_id, deadline, cancellation);
  auto reader = stub->PrepareAsyncSample(call.context(), request, call.queue());
  reader->StartCall(Call::tag());
  absl::Status refused;
  std::optional<v1::SampleSummary> summary;
  if (call.Wait()) refused = ReadBlocks(&call, reader.get(), on_block, &end, &summary);
  if (!refused.ok()) call.context()->TryCancel();
  grpc::Status status;
  reader->Finish(&status, Call::tag());
  call.Wait();
  end.status = refused.ok() ? call.Result(status) : refused;
  if (!end.status.ok()) return end;
  if (!summary.has_value()) {
    end.status = absl::DataLossError("the server ended the stream of samples without a summary");
    return end;
  }
  *summary_out = std::move(*summary);
  return end;
}

}  // namespace

absl::StatusOr<v1::SampleSummary> Client::SampleStream(const std::string& id, const DataFrame& rows,
                                                       const SampleOptions& options,
                                                       BlockHandler on_block,
                                                       const CallOptions& call) {
  RETURN_IF_ERROR(CheckRequest(rows, options));
  const v1::SampleRequest request = ToProto(id, rows, options);
  RETURN_IF_ERROR(CheckMessageSize(request));
  const int64_t step_count = rows.row_count() - options.known.rows_size();
  const auto checked = [&](const v1::SampleBlock& block) {
    RETURN_IF_ERROR(CheckDelivery(block, options, step_count));
    return on_block(block);
  };
  v1::SampleSummary summary;
  absl::Status broken;  // the error of a stream that had delivered blocks
  absl::Status status = Run(call, [&](const Deadline& deadline) {
    const StreamEnd end = RunStream(connection_->streams(), request, id, deadline,
                                    call.cancellation, checked, &summary);
    if (!end.delivered) return end.status;
    broken = end.status;
    return absl::OkStatus();
  });
  RETURN_IF_ERROR(status);
  RETURN_IF_ERROR(broken);
  const int64_t groups = CountGroups(options.group_sizes);
  RETURN_IF_ERROR(CheckKnownLogDensities(summary.known_log_densities(), options.known,
                                         options.path_count, groups));
  RETURN_IF_ERROR(CheckPathWeights(summary, options.known_totals, options.path_count, groups));
  return summary;
}

absl::StatusOr<Samples> Client::Sample(const std::string& id, const DataFrame& rows,
                                       const SampleOptions& options, const CallOptions& call) {
  if (options.path_count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("path_count: ", options.path_count, ", must be at least 1"));
  }
  RETURN_IF_ERROR(CheckRequest(rows, options));
  std::optional<SampleAssembly> assembly;
  const auto on_block = [&](const v1::SampleBlock& block) {
    // Created here, so that a rejected request allocates no memory.
    if (!assembly.has_value()) {
      assembly.emplace(options.path_count, rows.row_count(), options.order, options.step_densities,
                       options.known, options.group_sizes, options.first_path, options.precision);
    }
    RETURN_IF_ERROR(assembly->Add(block));
    if (options.on_progress) options.on_progress(assembly->value_count());
    if (!options.on_paths || !assembly->has_more_paths()) return absl::OkStatus();
    Samples paths = assembly->NextPaths();
    if (options.seed.has_value()) paths.summary.set_seed(*options.seed);
    return options.on_paths(paths);
  };
  absl::StatusOr<v1::SampleSummary> summary = SampleStream(id, rows, options, on_block, call);
  RETURN_IF_ERROR(summary.status());
  if (!assembly.has_value()) {
    return absl::DataLossError("the server ended the stream of samples without values");
  }
  return assembly->Finish(std::move(*summary));
}

absl::StatusOr<v1::SampleSummary> Client::ValidateSample(const std::string& id,
                                                         const DataFrame& rows,
                                                         const SampleOptions& options,
                                                         const CallOptions& call) {
  RETURN_IF_ERROR(CheckRequest(rows, options));
  v1::SampleRequest request = ToProto(id, rows, options);
  request.set_validate_only(true);
  RETURN_IF_ERROR(CheckMessageSize(request));
  const auto on_block = [](const v1::SampleBlock&) {
    return absl::UnimplementedError("the server draws samples instead of validating the call");
  };
  v1::SampleSummary summary;
  absl::Status status = Run(call, [&](const Deadline& deadline) {
    return RunStream(connection_->streams(), request, id, deadline, call.cancellation, on_block,
                     &summary)
        .status;
  });
  RETURN_IF_ERROR(status);
  return summary;
}

}  // namespace chorale::client
