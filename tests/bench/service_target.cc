#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "client/cpp/data_frame.h"
#include "tests/bench/bench_session.h"
#include "tests/bench/sampler.h"
#include "tests/end_to_end/server_process.h"

namespace chorale {
namespace {

using client::Client;

client::DataFrame Frame(int context, int64_t rows, int columns) {
  client::DataFrame frame;
  for (int column = 0; column < columns; ++column) {
    const absl::Status added =
        frame.AddNumeric(LoadColumnName(column), LoadColumn(context, column, rows));
    if (!added.ok()) Fail(added.ToString());
  }
  return frame;
}

// A connection of its own, as a user has.
class ServiceSampler : public Sampler {
 public:
  ServiceSampler(std::unique_ptr<Client> client, int64_t query_rows)
      : client_(std::move(client)), query_rows_(Frame(-1, query_rows, kLoadColumns - 1)) {}

  absl::Status Sample(int context, int64_t paths, uint64_t seed, const std::atomic<bool>& stop,
                      absl::FunctionRef<void(const DrawnBlock&)> on_block) override {
    const auto pass_on = [&](const v1::SampleBlock& block) {
      on_block({.first_path = block.first_path(),
                .paths = block.path_count(),
                .first_step = block.first_step(),
                .steps = block.step_count(),
                .values = block.values()});
      return stop ? absl::CancelledError("the load is over") : absl::OkStatus();
    };
    return client_
        ->SampleStream(absl::StrCat("c", context), query_rows_, {.path_count = paths, .seed = seed},
                       pass_on)
        .status();
  }

 private:
  const std::unique_ptr<Client> client_;
  const client::DataFrame query_rows_;
};

class ServiceTarget : public Target {
 public:
  explicit ServiceTarget(const LoadOptions& options) : options_(options) {
    std::vector<std::string> flags = {absl::StrCat("--context_pool_mib=", options.context_pool_mib),
                                      absl::StrCat("--buffer_pool_mib=", options.buffer_pool_mib)};
    flags.insert(flags.end(), options.server_flags.begin(), options.server_flags.end());
    server_ = end_to_end::ServerProcess::Start({.models = {options.model}, .flags = flags});
    if (server_ == nullptr) Fail("the server does not serve");
    const std::unique_ptr<Client> client = Connect();
    for (int context = 0; context < options.contexts; ++context) {
      const auto registered = client->RegisterContext(
          absl::StrCat("c", context), Frame(context, options.rows, kLoadColumns),
          {.target_column = LoadColumnName(kLoadColumns - 1)});
      if (!registered.ok()) Fail(registered.status().ToString());
    }
  }

  std::string description() const override { return server_->address(); }
  std::unique_ptr<Sampler> NewSampler() override {
    return std::make_unique<ServiceSampler>(Connect(), options_.query_rows);
  }

 private:
  std::unique_ptr<Client> Connect() const {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server_->address(), {});
    if (!client.ok()) Fail(client.status().ToString());
    return *std::move(client);
  }

  const LoadOptions options_;
  std::unique_ptr<end_to_end::ServerProcess> server_;
};

}  // namespace

std::unique_ptr<Target> StartServiceTarget(const LoadOptions& options) {
  return std::make_unique<ServiceTarget>(options);
}

}  // namespace chorale
