// A client of a fake server, and the tables for its tests.
#ifndef CHORALE_TESTS_CLIENT_CPP_CLIENT_FIXTURE_H_
#define CHORALE_TESTS_CLIENT_CPP_CLIENT_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/cpp/client.h"
#include "tests/client/cpp/fake_service.h"
#include "tests/support/eventually.h"

namespace chorale::client {

inline constexpr int64_t kRows = 7;

// Feature x, category c, target y.
inline DataFrame MakeTable(int64_t rows) {
  DataFrame frame;
  std::vector<double> x(rows);
  std::vector<double> y(rows);
  std::vector<std::optional<std::string>> c(rows);
  for (int64_t row = 0; row < rows; ++row) {
    x[row] = static_cast<double>(row) * 10.0;
    y[row] = static_cast<double>(row);
    if (row % 3 != 0) c[row] = row % 3 == 1 ? "a" : "bb";
  }
  EXPECT_TRUE(frame.AddNumeric("x", x).ok());
  EXPECT_TRUE(frame.AddCategorical("c", c).ok());
  EXPECT_TRUE(frame.AddNumeric("y", y).ok());
  return frame;
}

inline DataFrame MakeRows(int64_t rows) {
  DataFrame frame = MakeTable(rows);
  frame.Remove({"y"});
  return frame;
}

// The score of the fake service for a row of MakeTable.
inline double Score(int64_t row) {
  return static_cast<double>(row) * 10.0 + static_cast<double>(row % 3);
}

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    ClientOptions options;
    options.call_timeout = kPatience;
    options.retry.first_delay = absl::Milliseconds(5);
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server_.address(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  void Register(const std::string& id) {
    const absl::StatusOr<Registration> done =
        client_->RegisterContext(id, MakeTable(5), {.target_column = "y"});
    ASSERT_TRUE(done.ok()) << done.status();
  }

  FakeService& service() { return server_.service(); }

  FakeServer server_;
  std::unique_ptr<Client> client_;
};

}  // namespace chorale::client

#endif  // CHORALE_TESTS_CLIENT_CPP_CLIENT_FIXTURE_H_
