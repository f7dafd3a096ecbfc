#include "server/rpc/register_reactor.h"

#include <memory>
#include <utility>

#include "base/error_details.h"
#include "base/status_macros.h"
#include "chorale/v1/chorale.pb.h"
#include "server/codec/response_encoder.h"
#include "server/codec/warning_encoder.h"
#include "server/rpc/message.h"
#include "server/rpc/registration_memory.h"

namespace chorale {
namespace {

// For logs.
std::string OutcomeName(const RegisterOutcome& outcome) {
  if (outcome.estimate.has_value()) return "validated";
  switch (outcome.outcome) {
    case PutOutcome::kCreated:
      return "created";
    case PutOutcome::kUnchanged:
      return "unchanged";
    case PutOutcome::kReplaced:
      return "replaced";
  }
  return "";
}

}  // namespace

RegisterReactor::RegisterReactor(Method method, const ServiceEnvironment& environment,
                                 grpc::CallbackServerContext* context)
    : Reactor(method, environment, context),
      streams_(method == Method::kRegisterContext),
      assembler_(environment.limits->Get()),
      memory_(std::in_place, environment.registration_memory) {}

void RegisterReactor::Received(grpc::ByteBuffer* bytes) {
  if (absl::Status status = Take(bytes); !status.ok()) {
    ReleaseAndFinish(status);
    return;
  }
  if (streams_) {
    Read();
  } else {
    Submit();
  }
}

void RegisterReactor::ReceivedAll() {
  if (streams_) {
    Submit();
  } else {
    ReleaseAndFinish(absl::InvalidArgumentError("the call has no request message"));
  }
}

void RegisterReactor::Submit() {
  const bool runs = environment().blocking->TryRun(
      live().client(),
      [self = std::static_pointer_cast<RegisterReactor>(shared_from_this())] { self->Register(); });
  if (runs) return;
  environment().metrics->Rejected("blocking_queue_full");
  ReleaseAndFinish(ExhaustedRetryAfter(ErrorReason::kQueueFull, "too many calls wait for the disk",
                                       environment().retry_delay));
}

template <typename Request>
absl::Status RegisterReactor::Assemble(grpc::ByteBuffer* bytes) {
  Request message;
  RETURN_IF_ERROR(ParseMessage(bytes, &message));
  return assembler_->Add(message);
}

absl::Status RegisterReactor::Take(grpc::ByteBuffer* bytes) {
  RETURN_IF_ERROR(streams_ ? Assemble<v1::RegisterContextRequest>(bytes)
                           : Assemble<v1::CreateContextRequest>(bytes));
  // The assembled dataset and the engine's encoded copy of it.
  const int64_t needed = assembler_->memory_bytes() + assembler_->bytes();
  return ReserveRegistrationMemory(environment(), "registration", needed, &*memory_);
}

void RegisterReactor::Register() {
  const absl::StatusOr<v1::RegisterContextResponse> response = RegisterNow();
  Release();
  if (!response.ok()) {
    Finish(response.status());
    return;
  }
  FinishWith(*response);
}

absl::StatusOr<v1::RegisterContextResponse> RegisterReactor::RegisterNow() {
  // Cancelled in the queue: the client would not learn the outcome.
  if (cancelled_) return absl::CancelledError("the client disconnected");
  live().Note("context", assembler_->request().context);
  live().Note("rows", assembler_->rows());
  live().Note("bytes", assembler_->bytes());
  ASSIGN_OR_RETURN(Dataset dataset, assembler_->Finish());
  ASSIGN_OR_RETURN(RegisterOutcome outcome,
                   environment().engine->Register(
                       live().caller().tenant, assembler_->request(), dataset,
                       {.contexts = live().caller().policy.quotas.contexts,
                        .dataset_bytes = live().caller().policy.quotas.dataset_bytes}));
  live().Note("outcome", OutcomeName(outcome));
  live().Note("model", outcome.context.record.model);
  v1::RegisterContextResponse response;
  EncodeTableWarnings(assembler_->text_warnings(), dataset.target, assembler_->dropped_rows(),
                      response.mutable_warnings());
  EncodeRegistration(outcome, &response);
  return response;
}

void RegisterReactor::ReleaseAndFinish(const absl::Status& status) {
  Release();
  Finish(status);
}

void RegisterReactor::Release() {
  assembler_.reset();
  memory_.reset();
}

void RegisterReactor::Cancelled() { cancelled_ = true; }

}  // namespace chorale
