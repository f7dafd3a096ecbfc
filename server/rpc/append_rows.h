// The method AppendRows.
#ifndef CHORALE_SERVER_RPC_APPEND_ROWS_H_
#define CHORALE_SERVER_RPC_APPEND_ROWS_H_

#include <memory>

#include "absl/status/status.h"
#include "chorale/v1/chorale.pb.h"
#include "server/rpc/service_environment.h"
#include "server/rpc/unary_reactor.h"

namespace chorale {

// Appends the rows of a request on the blocking executor, as a UnaryReactor::Handler. The memory
// of the rows is reserved while the call waits for the executor, and that of the whole dataset,
// which the engine reads and encodes, while it runs.
absl::Status AppendRows(const ServiceEnvironment& environment,
                        const std::shared_ptr<UnaryReactor>& reactor,
                        const v1::AppendRowsRequest& message);

}  // namespace chorale

#endif  // CHORALE_SERVER_RPC_APPEND_ROWS_H_
