#include "server/rpc/reactor_registry.h"

#include <grpcpp/server_context.h>

#include <memory>

#include "base/clock.h"
#include "gtest/gtest.h"
#include "server/rpc/live_call.h"

namespace chorale {
namespace {

// A call without a connection.
struct LonelyCall {
  LonelyCall(ReactorRegistry* registry, PrometheusMetrics* metrics)
      : environment{.registry = registry,
                    .access = access.get(),
                    .metrics = metrics,
                    .telemetry = &telemetry},
        live(Method::kPredict, &context, environment,
             [this](const grpc::Status& status) { code = status.error_code(); }) {}
  void End(const absl::Status& status) {
    live.Finish(status);
    live.Done();
  }

  std::unique_ptr<AccessControl> access = AccessControl::Load({}).value();
  CallTelemetry telemetry{nullptr, 0, absl::ZeroDuration()};
  ServiceEnvironment environment;
  grpc::CallbackServerContext context;
  grpc::StatusCode code = grpc::StatusCode::DO_NOT_USE;
  LiveCall live;
};

// Clients that retry with a draining server must not delay its drain, and must get UNAVAILABLE.
TEST(ReactorRegistryTest, RefusedCallsAreNotWaitedForNorCancelled) {
  PrometheusMetrics metrics;
  ReactorRegistry registry(Clock::Real());
  LonelyCall early(&registry, &metrics);
  EXPECT_EQ(early.live.admission().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(registry.live(), 0);

  registry.Open();
  LonelyCall taken(&registry, &metrics);
  EXPECT_TRUE(taken.live.admission().ok());
  EXPECT_EQ(registry.live(), 1);

  registry.Close();
  LonelyCall late(&registry, &metrics);
  EXPECT_EQ(late.live.admission().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(registry.WaitUntilEmpty(Clock::Real()->Now() + absl::Milliseconds(10)));
  taken.End(absl::OkStatus());
  EXPECT_TRUE(registry.WaitUntilEmpty(Clock::Real()->Now()));

  registry.EndAll(absl::UnavailableError("the end"));
  late.End(late.live.admission());
  early.End(early.live.admission());
  EXPECT_EQ(late.code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(early.code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(registry.live(), 0);
}

}  // namespace
}  // namespace chorale
