#include "client/cpp/call.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/status_from_grpc.h"

namespace chorale::client {
namespace {

// Longer than any id that a server accepts, and well below the limit for metadata.
constexpr size_t kMaxContextIdBytes = 256;

// Whether the id can be sent as metadata. gRPC ends the process if metadata contains other bytes.
// Such an id is invalid, and the server rejects the call.
bool FitsMetadata(absl::string_view id) {
  return !id.empty() && id.size() <= kMaxContextIdBytes &&
         std::all_of(id.begin(), id.end(), absl::ascii_isprint) &&
         absl::StripAsciiWhitespace(id).size() == id.size();
}

}  // namespace

gpr_timespec GrpcDeadline(absl::Duration from_now) {
  return gpr_time_from_nanos(absl::ToInt64Nanoseconds(from_now), GPR_TIMESPAN);
}

Call::Call(absl::string_view context_id, const Deadline& deadline, const Cancellation* cancellation)
    : timeout_(deadline.timeout), cancellation_(cancellation) {
  context_.set_deadline(GrpcDeadline(deadline.at - Clock::Real()->Now()));
  if (FitsMetadata(context_id)) context_.AddMetadata(kContextMetadata, std::string(context_id));
}

Call::~Call() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool Call::Wait() {
  void* tag = nullptr;
  bool ok = false;
  bool stop_polling = cancellation_ == nullptr;
  while (!stop_polling) {
    const auto next = queue_.AsyncNext(&tag, &ok, GrpcDeadline(Cancellation::kCheckInterval));
    if (next == grpc::CompletionQueue::GOT_EVENT) return ok;
    stop_polling = cancellation_->cancelled();
    if (stop_polling) context_.TryCancel();
  }
  return queue_.Next(&tag, &ok) && ok;
}

absl::Status Call::Result(const grpc::Status& status) const {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::DeadlineExceededError(
        absl::StrCat("no complete response within ", absl::FormatDuration(timeout_)));
  }
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    if (cancellation_ != nullptr && cancellation_->cancelled()) {
      return absl::CancelledError("cancelled");
    }
    // The server was stopped, or a proxy cancelled the call; the caller did not.
    return absl::UnavailableError(
        absl::StrCat("the server cancelled the call: ", status.error_message()));
  }
  return StatusFromGrpc(status);
}

}  // namespace chorale::client
