#include "server/rpc/append_rows.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "engine/api/request.h"
#include "engine/data/table.h"
#include "server/codec/request_decoder.h"
#include "server/codec/response_encoder.h"
#include "server/codec/table_decoder.h"
#include "server/codec/table_memory.h"
#include "server/rpc/byte_budget.h"
#include "server/rpc/registration_memory.h"
#include "server/rpc/run_blocking.h"

namespace chorale {
namespace {

// The arguments of an append that waits for the executor.
struct WaitingAppend {
  WaitingAppend(AppendRequest request, Table rows, ByteBudget* budget)
      : request(std::move(request)), rows(std::move(rows)), memory(budget) {}

  AppendRequest request;
  Table rows;
  ByteReservation memory;
};

// For logs.
const char* OutcomeName(const AppendOutcome& outcome) {
  if (outcome.estimate.has_value()) return "validated";
  return outcome.already_appended ? "unchanged" : "appended";
}

// The memory of the context's dataset with the appended rows, and of its encoded form, as in a
// registration of all rows.
int64_t DatasetMemory(const ContextRecord& record, const Table& rows) {
  constexpr int64_t kCopies = 2;
  int64_t categories = 0;
  for (const ColumnInfo& column : record.columns) categories += column.categories;
  return kCopies * (record.dataset_bytes + TableBytes(rows) +
                    categories * static_cast<int64_t>(kCategoryOverhead));
}

absl::StatusOr<v1::AppendRowsResponse> AppendNow(const ServiceEnvironment& environment,
                                                 UnaryReactor* reactor, WaitingAppend* append) {
  const Caller& caller = reactor->live().caller();
  ASSIGN_OR_RETURN(const ContextInfo context,
                   environment.engine->GetContext(caller.tenant, append->request.context));
  RETURN_IF_ERROR(ReserveRegistrationMemory(
      environment, "append",
      TableMemoryBytes(append->rows) + DatasetMemory(context.record, append->rows),
      &append->memory));
  ASSIGN_OR_RETURN(
      const AppendOutcome outcome,
      environment.engine->Append(caller.tenant, append->request, append->rows,
                                 {.contexts = caller.policy.quotas.contexts,
                                  .dataset_bytes = caller.policy.quotas.dataset_bytes}));
  reactor->live().Note("outcome", std::string(OutcomeName(outcome)));
  reactor->live().Note("model", outcome.context.record.model);
  v1::AppendRowsResponse response;
  EncodeAppend(outcome, append->rows.rows(), &response);
  return response;
}

}  // namespace

absl::Status AppendRows(const ServiceEnvironment& environment,
                        const std::shared_ptr<UnaryReactor>& reactor,
                        const v1::AppendRowsRequest& message) {
  ASSIGN_OR_RETURN(AppendRequest request, DecodeAppend(message));
  reactor->live().Note("context", request.context);
  ASSIGN_OR_RETURN(Table rows,
                   DecodeTable(message.rows(), "rows", ChunkBounds(environment.limits->Get())));
  reactor->live().Note("rows", rows.rows());
  reactor->live().Note("bytes", TableBytes(rows));
  auto append = std::make_unique<WaitingAppend>(std::move(request), std::move(rows),
                                                environment.registration_memory);
  RETURN_IF_ERROR(ReserveRegistrationMemory(environment, "append", TableMemoryBytes(append->rows),
                                            &append->memory));
  return RunBlocking(environment, environment.blocking, reactor,
                     [&environment, live = reactor.get(), append = std::move(append)]() mutable {
                       // Freed before the client sees the end of the call, so that its next call
                       // finds the memory free.
                       const std::unique_ptr<WaitingAppend> arguments = std::move(append);
                       return AppendNow(environment, live, arguments.get());
                     });
}

}  // namespace chorale
