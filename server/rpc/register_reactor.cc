#include "server/rpc/register_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_details.h"
#include "base/status_macros.h"
#include "server/codec/response_encoder.h"
#include "server/rpc/free_request.h"
#include "server/rpc/tenant.h"

namespace chorale {

RegisterReactor* RegisterReactor::Start(const ServiceEnvironment& environment,
                                        grpc::CallbackServerContext* context,
                                        v1::RegisterContextResponse* response) {
  auto reactor =
      std::shared_ptr<RegisterReactor>(new RegisterReactor(environment, context, response));
  reactor->self_ = reactor;
  if (reactor->live_.admission().ok()) {
    reactor->Read();
  } else {
    reactor->live_.Finish(reactor->live_.admission());
  }
  return reactor.get();
}

RegisterReactor::RegisterReactor(const ServiceEnvironment& environment,
                                 grpc::CallbackServerContext* context,
                                 v1::RegisterContextResponse* response)
    : environment_(environment),
      tenant_(TenantOf(*context)),
      response_(response),
      live_(Method::kRegisterContext, context, environment.registry, environment.metrics,
            [this](grpc::Status status) { Finish(std::move(status)); }),
      assembler_(environment.limits),
      memory_(std::in_place, environment.registration_memory) {}

void RegisterReactor::Read() {
  live_.BeginClientWait();
  StartRead(&message_);
}

void RegisterReactor::OnReadDone(bool ok) {
  live_.EndClientWait();
  if (ok) {
    if (absl::Status status = TakeMessage(); !status.ok()) {
      ReleaseAndFinish(status);
      return;
    }
    Read();
    return;
  }
  // The client has sent everything or has disconnected: a read ends the same way in both cases, and
  // OnCancel may come later. Sending the headers tells them apart: it fails on a broken stream.
  live_.BeginClientWait();
  StartSendInitialMetadata();
}

void RegisterReactor::OnSendInitialMetadataDone(bool ok) {
  live_.EndClientWait();
  if (!ok) {
    ReleaseAndFinish(absl::CancelledError("the client disconnected"));
    return;
  }
  if (environment_.blocking->TryRun([self = self_] { self->Register(); })) return;
  environment_.metrics->Rejected("blocking_queue_full");
  ReleaseAndFinish(
      ExhaustedRetryAfter("too many calls are waiting for the disk", environment_.retry_delay));
}

absl::Status RegisterReactor::TakeMessage() {
  absl::Status added = assembler_->Add(message_);
  FreeRequest(&message_);  // now, not when the next message arrives
  RETURN_IF_ERROR(added);
  // The assembled dataset and the engine's encoded copy of it.
  if (memory_->GrowTo(assembler_->memory_bytes() + assembler_->bytes())) return absl::OkStatus();
  environment_.metrics->Rejected("registration_memory");
  return ExhaustedRetryAfter("other calls use all memory for registrations",
                             environment_.retry_delay);
}

void RegisterReactor::Register() { ReleaseAndFinish(RegisterNow()); }

absl::Status RegisterReactor::RegisterNow() {
  // Cancelled in the queue: the client would not learn the outcome.
  if (cancelled_) return absl::CancelledError("the client disconnected");
  live_.Note("context", assembler_->context_id());
  live_.Note("rows", assembler_->rows());
  live_.Note("bytes", assembler_->bytes());
  absl::StatusOr<Dataset> dataset = assembler_->Finish();
  RETURN_IF_ERROR(dataset.status());
  absl::StatusOr<RegisterOutcome> outcome = environment_.engine->Register(
      tenant_, assembler_->context_id(), assembler_->model_id(), *dataset);
  RETURN_IF_ERROR(outcome.status());
  EncodeContext(outcome->context, response_->mutable_context());
  response_->set_already_registered(outcome->outcome == PutOutcome::kUnchanged);
  return absl::OkStatus();
}

void RegisterReactor::ReleaseAndFinish(const absl::Status& status) {
  // Before the client sees the end of the call, so that its next call finds the memory free.
  assembler_.reset();
  memory_.reset();
  live_.Finish(status);
}

void RegisterReactor::OnCancel() { cancelled_ = true; }

void RegisterReactor::OnDone() {
  live_.Done();
  const std::shared_ptr<RegisterReactor> last = std::move(self_);  // may delete this on return
}

}  // namespace chorale
