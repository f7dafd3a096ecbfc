// A fixture whose tests share a server with small models that have random weights.
#ifndef CHORALE_TESTS_END_TO_END_MODEL_SERVER_FIXTURE_H_
#define CHORALE_TESTS_END_TO_END_MODEL_SERVER_FIXTURE_H_

#include <map>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "tests/end_to_end/api_client.h"
#include "tests/end_to_end/model_files.h"
#include "tests/end_to_end/rows.h"
#include "tests/end_to_end/server_process.h"

namespace chorale::end_to_end {

// The server has the model "model" and the context "c", which has 20 rows with 2 features. A suite
// that needs other models or contexts hides SetUpTestSuite. Used by one thread.
class ModelServerFixture : public ::testing::Test {
 protected:
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  // A model of two layers and three components, for tables with any number of features.
  static ModelFiles RandomModel();
  // The same model, in which each draw depends clearly on the earlier draws of its path.
  static ModelFiles DependentModel();

  // Starts the server with models by id. Adds a fatal failure if it does not start.
  static void StartServer(const std::map<std::string, ModelFiles>& models);
  // Registers a context with a model of this id. Adds a fatal failure if the server rejects it.
  static void RegisterContext(const std::string& id, const Rows& rows, const std::string& model);

  static const ServerProcess& server() { return *server_; }
  static const ApiClient& client() { return *client_; }

 private:
  // Of the suite that runs.
  static std::unique_ptr<TempFolder> models_;
  static std::unique_ptr<ServerProcess> server_;
  static std::unique_ptr<ApiClient> client_;
};

}  // namespace chorale::end_to_end

#endif  // CHORALE_TESTS_END_TO_END_MODEL_SERVER_FIXTURE_H_
