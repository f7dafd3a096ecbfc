#include "server/config/environment_variables.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace chorale {
namespace {

TEST(EnvironmentVariablesTest, NamesAreThoseOfFlagsInUpperCase) {
  const std::vector<FlagVariable> found =
      FlagVariables({"PATH=/bin", "CHORALE_MAX_PATHS=12", "CHORALE_MODELS=a=b,c",
                     "CHORALE_METRICS_ADDRESS=", "CHORALE_BROKEN", "XCHORALE_THREADS=1"});
  ASSERT_EQ(found.size(), 3);
  EXPECT_EQ(found[0].variable, "CHORALE_MAX_PATHS");
  EXPECT_EQ(found[0].flag, "max_paths");
  EXPECT_EQ(found[0].value, "12");
  EXPECT_EQ(found[1].value, "a=b,c");
  EXPECT_EQ(found[2].flag, "metrics_address");
  EXPECT_EQ(found[2].value, "");
}

TEST(EnvironmentVariablesTest, OthersVariablesAreKnown) {
  for (const char* variable :
       {"CHORALE_SERVER", "CHORALE_HOME", "CHORALE_SERVER_BUNDLE", "CHORALE_CUDA_LIBRARY",
        "CHORALE_PORT", "CHORALE_SERVICE_HOST", "CHORALE_SERVICE_PORT", "CHORALE_SERVICE_PORT_GRPC",
        "CHORALE_PORT_50051_TCP", "CHORALE_PORT_50051_TCP_PROTO", "CHORALE_PORT_50051_TCP_PORT",
        "CHORALE_PORT_50051_TCP_ADDR", "CHORALE_PORT_53_UDP_ADDR", "CHORALE_HEADLESS_SERVICE_HOST",
        "CHORALE_EDGE_ADMIN_PORT_9901_TCP"}) {
    EXPECT_TRUE(IsForeignVariable(variable)) << variable;
  }
  for (const char* variable : {"CHORALE_MAX_PATH", "CHORALE_PORT_FILE", "CHORALE_PORT_X_TCP",
                               "CHORALE_PORT_1", "CHORALE_PORT_1_TCP_ADDR_X", "CHORALE_SERVICE",
                               "CHORALE_SERVICE_NAME", "CHORALE_SERVERS"}) {
    EXPECT_FALSE(IsForeignVariable(variable)) << variable;
  }
}

}  // namespace
}  // namespace chorale
